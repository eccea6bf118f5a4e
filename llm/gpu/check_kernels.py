#!/usr/bin/env python3
"""Compiles the GPU kernels without a GPU and says what they use.

Both dtypes go through NVRTC and ptxas for sm_80 and sm_90; registers, shared memory and spills of every kernel are printed.
Ends with status 1 when one does not compile, spills, or is missing.

    llm/gpu/check_kernels.py [FOLDER]

FOLDER (default target/nvrtc) is a virtual environment with NVRTC and ptxas of CUDA 13.0; it is made when missing.
"""

import ctypes
import glob
import os
import re
import subprocess
import sys
import tempfile
import venv

PACKAGES = [f"nvidia-{name}==13.0.*" for name in ("cuda-nvrtc", "cuda-nvcc", "cuda-crt", "nvvm")]
ARCHITECTURES = (80, 90)


def tools(folder):
    """Folder of the CUDA tools in the environment, which is made if it is not there."""
    pattern = os.path.join(folder, "lib/python3*/site-packages/nvidia/cu13")
    if not glob.glob(pattern):
        venv.create(folder, with_pip=True)
        subprocess.run([f"{folder}/bin/pip", "install", "--quiet", *PACKAGES], check=True)
    return glob.glob(pattern)[0]


def ptx(nvrtc, source, architecture):
    """PTX of the source; ends the process with NVRTC's log when there is none."""
    program, size = ctypes.c_void_p(), ctypes.c_size_t()

    def text(get_size, get):
        get_size(program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        get(program, buffer)
        return buffer.value.decode()

    nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernels.cu", 0, None, None)
    options = (ctypes.c_char_p * 1)(f"--gpu-architecture=compute_{architecture}".encode())
    status = nvrtc.nvrtcCompileProgram(program, 1, options)
    log = text(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog)
    if status != 0 or "error" in log:
        sys.exit(f"NVRTC ends with {status} for compute_{architecture}:\n{log}")
    if log.strip():
        print(log)
    return text(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX)


def usage(ptxas, code, architecture):
    """For every kernel: registers, bytes of shared memory, bytes of stack and of spills."""
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
        file.write(code)
        file.flush()
        command = [ptxas, "-v", f"-arch=sm_{architecture}", "-o", os.devnull, file.name]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"ptxas ends with {done.returncode} for sm_{architecture}:\n{done.stderr}")
    kernels = {}
    for part in done.stderr.split("Compiling entry function '")[1:]:

        def number(pattern):
            found = re.search(pattern, part)
            return int(found[1]) if found else 0

        kernels[part.split("'")[0]] = (
            number(r"Used (\d+) registers"),
            number(r"(\d+) bytes smem"),
            number(r"(\d+) bytes stack frame"),
            number(r"(\d+) bytes spill stores") + number(r"(\d+) bytes spill loads"),
        )
    return kernels


def main():
    folder = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "target/nvrtc")
    base = tools(folder)
    # NVRTC opens a second library by name.
    for name in sorted(glob.glob(f"{base}/lib/libnvrtc-builtins.so.*")):
        ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
    nvrtc = ctypes.CDLL(sorted(glob.glob(f"{base}/lib/libnvrtc.so.*"))[0])
    bad = 0
    for dtype in ("f32", "bf16"):
        run = ["cargo", "run", "--quiet", "-p", "grpo-lambda-gpu", "--example", "kernel_source", dtype]
        source = subprocess.run(run, check=True, capture_output=True, text=True).stdout
        names = [f"{name}_{dtype}" for name in re.findall(r"^KERNEL\(\d+, (\w+)\)", source, re.MULTILINE)]
        tables = {a: usage(f"{base}/bin/ptxas", ptx(nvrtc, source, a), a) for a in ARCHITECTURES}
        head = "  ".join(f"sm_{a}: registers shared stack spills" for a in ARCHITECTURES)
        print(f"{dtype:28}{head}")
        for name in names:
            rows = [tables[a].get(name) for a in ARCHITECTURES]
            cells = "  ".join("missing".rjust(36) if row is None else "%16d%7d%6d%7d" % row for row in rows)
            print(f"{name:28}{cells}")
            bad += sum(row is None or row[2] + row[3] > 0 for row in rows)
    print(f"{bad} kernels are missing, spill or use a stack")
    return bad != 0


if __name__ == "__main__":
    sys.exit(main())
