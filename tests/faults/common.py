"""Programs under test, directories compared byte for byte, and the verdict on how a program ended."""

import hashlib, os, re, resource, shutil, signal, subprocess, threading, time
from pathlib import Path

LLM_TRAIN, SIM, MODEL_SERVER = (str(Path(os.environ[name]).resolve()) for name in ("LLM_TRAIN", "SIM", "MODEL_SERVER"))
TINY = ("task.kind=addition model.hidden=32 model.layers=2 sft.steps=6 eval.n=10 checkpoint.every=2 reward.accuracy=0 "
        "rl.prompts_per_step=4 rl.group_size=4 rl.max_new_tokens=16 threads=1").split()
COIN = TINY + ["rl.steps=8", "reward.coin=1"]
# Every option that changes which checkpoints are written and removed.
VARIANTS = {
    "plain": COIN,
    "best": COIN + ["checkpoint.best=true", "eval.every=2", "eval.temperature=1"],
    "keep": [word for word in COIN if word != "checkpoint.every=2"] + ["checkpoint.keep=3", "checkpoint.every=1", "checkpoint.best=true", "eval.every=3"],
    "lora": COIN + ["lora.rank=2", "method.beta=0.04"],
}
# Files that hold the clock, the machine or the number of the run; none of them decides a later number.
OF_THE_DAY = re.compile(r"(^|/)(timing\.(csv|jsonl)|events\.out.*|id|lock|manifest\.json|end\.json|report\.html|figures/.*)$")
MEMORY = 6 << 30
PATIENCE = 120


class Done:
    """A program that has ended: exit status (negative: the signal), both outputs, its largest resident memory in MiB."""

    def __init__(self, status, out, err, mib, late=False):
        self.status, self.out, self.err, self.mib, self.late = status, out, err, mib, late

    def crash(self):
        """The reason why no program may end like this; none if it did its work or refused in a line."""
        if self.late:
            return "did not end in time"
        if self.status < 0:
            return f"ended by signal {-self.status}"
        if self.status in (101, 134, 139) or "panicked at" in self.err:
            return f"panicked: {last_line(self.err)}"
        if self.status > 2:
            return f"exit status {self.status}"
        if self.status != 0 and not (self.err + self.out).strip():
            return "refused without a word"
        return None


def last_line(text):
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


def run(argv, cwd, stdin="", patience=PATIENCE, limits=(), strace=None, env=None):
    """Runs a program to its end, under limits (resource, number) and, if given, under strace with these options."""
    def limit():
        os.setsid()
        for what, number in limits:
            resource.setrlimit(what, (number, number))
    # Without --seccomp-bpf, under which strace 6.1 sends no signal.
    words = (["strace", "-f", "-qq", *strace] if strace else []) + [str(word) for word in argv]
    child = subprocess.Popen(words, cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=limit,
                             env={**os.environ, "RUST_BACKTRACE": "0", "HF_HUB_OFFLINE": "1", "COLUMNS": "200", **(env or {})})
    text = [[], []]
    readers = [threading.Thread(target=keep, args=pair, daemon=True) for pair in zip((child.stdout, child.stderr), text)]
    for reader in readers:
        reader.start()
    try:
        child.stdin.write(stdin.encode() if isinstance(stdin, str) else stdin)
        child.stdin.close()
    except BrokenPipeError:
        pass
    late, status, usage, end = False, None, None, time.monotonic() + patience
    while status is None:
        pid, code, found = os.wait4(child.pid, os.WNOHANG)
        if pid:
            status, usage = os.waitstatus_to_exitcode(code), found
        elif time.monotonic() > end:
            late = True
            os.killpg(child.pid, signal.SIGKILL)
            end += 1e9
        else:
            time.sleep(0.002)
    child.returncode = status
    for reader in readers:
        reader.join(5)  # what it left running may hold the pipes open
    out, err = (b"".join(pieces).decode(errors="replace") for pieces in text)
    return Done(status, out, err, usage.ru_maxrss >> 10, late)


def keep(pipe, pieces):
    """Reads a pipe to its end and keeps the first megabytes."""
    kept = 0
    while piece := pipe.read1(1 << 16):
        if kept < 4 << 20:
            pieces.append(piece)
            kept += len(piece)


def train(where, settings, run_name="r", **how):
    return run([LLM_TRAIN, "train", "--run", run_name, *settings, "--quiet"], where, **how)


def digest(path, place=""):
    data = path.read_bytes()
    if path.name == "summary.json":  # its only number that is the day's
        data = re.sub(rb'"seconds": [0-9.e-]+', b"", data)
    return hashlib.sha1(data.replace(place.encode(), b"") if place else data).hexdigest()


def tree(directory, every=False, place=""):
    """Digest by name of each file that must not depend on the day, or of `every` file, without the path `place`; of a link its target."""
    found = {}
    for path in sorted(Path(directory).rglob("*")):
        name = str(path.relative_to(directory))
        if path.is_symlink():
            found[name] = f"link to {os.readlink(path)}"
        elif path.is_file() and (every or not OF_THE_DAY.search(name)):
            found[name] = digest(path, place)
    return found


def difference(expected, found):
    names = [name for name in sorted(expected.keys() | found.keys()) if expected.get(name) != found.get(name)]
    what = lambda name: "missing" if name not in found else "new" if name not in expected else "changed"
    return ", ".join(f"{name} {what(name)}" for name in names[:4]) or None


def copy(source, to):
    shutil.copytree(source, to, symlinks=True)
    return to


def damage(path, random):
    """Flips a bit of a file or cuts it short; returns a word on it."""
    data = bytearray(path.read_bytes())
    if random.random() < 0.25:
        at = random.randrange(len(data))
        path.write_bytes(data[:at])
        return f"cut to {at}"
    at, bit = random.randrange(len(data)), random.randrange(8)
    data[at] ^= 1 << bit
    path.write_bytes(data)
    return f"byte {at} bit {bit}"


class Bench:
    """What the classes share: a working directory, and references that are made once."""

    def __init__(self, work):
        self.work, self.made = Path(work), {}

    def once(self, name, make):
        """The directory that `make(directory)` fills, made when it is first asked for."""
        if name not in self.made:
            directory = self.work / "references" / name
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir(parents=True)
            make(directory)
            self.made[name] = directory
        return self.made[name]

    def reference(self, variant):
        """A directory with the unbroken run `r` of a variant."""
        def make(directory):
            done = train(directory, VARIANTS[variant])
            assert done.status == 0, f"{variant}: {done.err}"
        return self.once(f"run-{variant}", make)

    def model(self):
        """A directory with a plain checkpoint `hf`."""
        def make(directory):
            done = run([LLM_TRAIN, "export", "--model", self.reference("plain") / "r", "--out", "hf"], directory)
            assert done.status == 0, done.err
        return self.once("model", make)
