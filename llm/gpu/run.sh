#!/usr/bin/env bash
# run.sh [PROGRAM] ARGUMENTS... - runs llm-train (or PROGRAM, packed next to this script) with the CUDA libraries of this machine.
#
# Libraries are looked for in LD_LIBRARY_PATH as it is, the nvidia-* packages of python3, CUDA_HOME, CUDA_PATH, /usr/local/cuda, /opt/cuda,
# and where container images put the driver; what the linker's cache knows is found anyhow.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
program=llm-train
if [ $# -gt 0 ] && [ -e "$here/$1.xz" ]; then
  program=$1
  shift
fi

binary=$here/$program
if [ ! -x "$binary" ] || [ "$binary.xz" -nt "$binary" ]; then
  [ -w "$here" ] || binary=$(mktemp -d)/$program
  # A name of its own, because several may unpack at a time.
  part=$(mktemp "$binary.XXXXXX")
  if command -v xz >/dev/null; then
    xz --decompress --stdout "$here/$program.xz" >"$part"
  else
    python3 -c 'import lzma, shutil, sys; shutil.copyfileobj(lzma.open(sys.argv[1]), sys.stdout.buffer)' "$here/$program.xz" >"$part"
  fi
  chmod 755 "$part"
  mv "$part" "$binary"
fi

path=${LD_LIBRARY_PATH:-}
add() { [ ! -d "$1" ] || path=${path:+$path:}$1; }
if command -v python3 >/dev/null; then
  while IFS= read -r directory; do add "$directory"; done < <(
    python3 -c 'import glob, sysconfig; print(*sorted(glob.glob(sysconfig.get_paths()["purelib"] + "/nvidia/*/lib")), sep="\n")'
  )
fi
for root in "${CUDA_HOME:-}" "${CUDA_PATH:-}" /usr/local/cuda /opt/cuda; do
  [ -z "$root" ] || add "$root/lib64"
done
add /usr/local/nvidia/lib64
add /usr/local/nvidia/lib
export LD_LIBRARY_PATH=$path
exec "$binary" "$@"
