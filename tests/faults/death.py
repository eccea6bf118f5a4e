"""Processes that die, calls of the system that fail, and directories that change under a run: the same command must end in the bytes of
an unbroken run, or refuse and lose nothing."""

import functools, re, resource, shutil, signal, subprocess, time

from common import COIN, LLM_TRAIN, PATIENCE, TINY, VARIANTS, copy, difference, last_line, run, train, tree

CALLS = "rename,renameat,renameat2,unlink,unlinkat,mkdir,mkdirat,rmdir,link,linkat,fsync,fdatasync,ftruncate,write,openat"


def commands(bench):
    """Everything that writes a directory `out`: by name its words, and how to make what it reads (linked in next to it)."""
    found = {name: (["train", "--run", "out", *settings, "--quiet"], {}) for name, settings in VARIANTS.items()}
    lora = bench.reference("lora") / "r"
    step = max((lora / "checkpoints").glob("step-*"))
    plain = bench.reference("plain") / "r"
    found["export"] = (["export", "--model", plain, "--out", "out"], {})
    found["merge"] = (["export", "--model", step / "reference", "--adapter", step / "adapter", "--out", "out"], {})
    found["metrics"] = (["records", plain, "--format", "metrics", "--out", "out"], {})
    found["hf"] = (["records", plain, "--format", "hf", "--out", "out"], {})
    found["trl"] = (["records", plain, "--format", "trl", "--out", "out"], {})
    found["eval"] = (["eval", "--model", plain, "--benchmarks", "tiny:addition", "--limit", "4", "--samples", "2", "--temperature", "1",
                      "--max-new-tokens", "8", "--threads", "1", "--out", "out", "--quiet"], {})
    return found


def unbroken(bench, name, argv):
    """The tree that a command leaves, and its calls that touch the directory: (call, number of that call in its thread)."""
    def make(directory):
        done = run([LLM_TRAIN, *argv], directory, strace=["-y", "-o", "calls", "-e", f"trace={CALLS}"])
        assert done.status == 0, f"{name}: {done.err}"
    directory = bench.once(f"calls-{name}", make)
    seen, points = {}, set()
    for line in (directory / "calls").read_text(errors="replace").splitlines():
        call = re.match(r"(\d+) +(\w+)\((.*)", line)
        if call:
            thread, word, rest = call.groups()
            seen[thread, word] = seen.get((thread, word), 0) + 1
            # What is written is not where it is written: standard output names files of the directory.
            if re.search(r'"out[/"]|/out[/>]', rest.split(",")[0] if word == "write" else rest):
                points.add((word, seen[thread, word]))
    return tree(directory / "out"), sorted(points)


def ended_well(where, argv, expected):
    """Runs a command again; a problem unless it ends in the expected tree."""
    done = run([LLM_TRAIN, *argv], where)
    if done.crash() or done.status != 0:
        return f"the same command: {done.crash() or last_line(done.err)}"
    return difference(expected, tree(where / "out"))


def at_calls(bench, random, inject, trials, names):
    """Trials that break a command at one of its calls by the options that `inject(random)` gives, then run it again."""
    table, made = commands(bench), {}
    for i in range(trials):
        name = names[i % len(names)]
        argv, _ = table[name]
        if name not in made:
            expected, points = unbroken(bench, name, argv)
            random.shuffle(points)
            made[name] = expected, points
        expected, points = made[name]
        call, number = points[(i // len(names)) % len(points)]
        how, again = inject(random), random.random() < 0.3 and random.choice(points)

        def trial(where, _, argv=argv, expected=expected, call=call, number=number, how=how, again=again):
            for word, n in [(call, number)] + ([again] if again else []):
                which = n if how.startswith("signal") or not how.endswith("+") else f"{n}+"
                done = run([LLM_TRAIN, *argv], where, strace=["-o", "calls", "-e", f"trace={word}", "-e", f"inject={word}:{how.rstrip('+')}:when={which}"])
                came = done.status == -signal.SIGKILL if how.startswith("signal") else "(INJECTED)" in (where / "calls").read_text(errors="replace")
                if not came and (word, n) == (call, number):
                    return "the fault did not come"
                problem = None if how.startswith("signal") else done.crash()
                # The loader may fail as well, and so may the line that says so.
                if problem and done.status != 127 and not (word == "write" and problem.startswith("refused without")):
                    return problem
            # What is filled is not filled again; a run looks at itself once more.
            if done.status == 0 and argv[0] in ("export", "records"):
                return difference(expected, tree(where / "out"))
            return ended_well(where, argv, expected)
        yield f"{name}, {call} {number}{f', then {again[0]} {again[1]}' if again else ''}, {how}", trial


def kills(bench, size, random):
    """SIGKILL at one of the calls that write, rename, remove or open in a run, then the same command"""
    yield from at_calls(bench, random, lambda _: "signal=KILL", [25, 1000, 2000][size], list(VARIANTS))


def refusals(bench, size, random):
    """ENOSPC or EIO from one of these calls, once or from then on, then the same command on a sound disk"""
    inject = lambda random: f"error={random.choice(['ENOSPC', 'EIO'])}{random.choice(['', '+'])}"
    yield from at_calls(bench, random, inject, [15, 500, 1000][size], list(VARIANTS))


def writers(bench, size, random):
    """The same kills and errors in `export`, `records` and `eval`"""
    inject = lambda random: random.choice(["signal=KILL", "signal=KILL", "error=ENOSPC", "error=EIO+"])
    yield from at_calls(bench, random, inject, [12, 300, 600][size], ["export", "merge", "metrics", "hf", "trl", "eval"])


def lasting(run):
    """The tree of a run without its earlier checkpoints: one that was asked to stop wrote one there."""
    last = max((run / "checkpoints").glob("step-*")).name
    return {name: found for name, found in tree(run).items() if not name.startswith("checkpoints/") or last in name}


def moments(bench, size, random):
    """SIGKILL, SIGTERM and SIGINT at random moments, again and again until the run is done"""
    for i in range([5, 100, 200][size]):
        variant = list(VARIANTS)[i % len(VARIANTS)]
        bench.reference(variant)

        def trial(where, random, variant=variant):
            # Long enough for a checkpoint every few attempts, however busy the machine is.
            checkpoints = lambda: max((path.name for path in where.glob("r/checkpoints/step-*")), default="")
            wait, before, problem = 0.2, "", None
            for _ in range(60):
                child = subprocess.Popen([LLM_TRAIN, "train", "--run", "r", *VARIANTS[variant], "--quiet"], cwd=where,
                                         stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
                try:
                    _, err = child.communicate(timeout=random.uniform(0, wait))
                    problem = None if child.returncode == 0 else f"exit status {child.returncode}: {last_line(err.decode())}"
                    break
                except subprocess.TimeoutExpired:
                    child.send_signal(random.choice([signal.SIGKILL] * 4 + [signal.SIGTERM, signal.SIGINT]))
                    child.communicate()
                    now = checkpoints()
                    wait, before = wait if now > before else wait * 1.5, now
            else:
                problem = "made no progress in 60 attempts"
            return problem or difference(lasting(bench.reference(variant) / "r"), lasting(where / "r"))
        yield variant, trial


def until(test, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end and not test():
        time.sleep(0.01)


LONG = TINY + ["rl.steps=80", "reward.coin=1"]


def while_it_runs(where, change):
    """Starts a long run, calls `change` when its log has begun, and waits for its end."""
    child = subprocess.Popen([LLM_TRAIN, "train", "--run", "r", *LONG, "--quiet"], cwd=where, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    log = where / "r/metrics.csv"
    until(lambda: log.exists() and log.read_bytes().count(b"\n") > 10)
    change()
    _, err = child.communicate(timeout=PATIENCE)
    return child.returncode, err.decode()


def disturbed(bench, size, random):
    """Logs, lock or checkpoints removed or replaced during and after a run: refused, or the bytes of an undisturbed one"""
    def long_run():
        def make(directory):
            assert train(directory, LONG).status == 0
        return bench.once("long", make) / "r"

    def logs_kept(where, random):
        copy(bench.reference("plain") / "r", where / "r")
        gone = random.choice(["remove", "move"])
        shutil.rmtree(where / "r/checkpoints") if gone == "remove" else (where / "r/checkpoints").rename(where / "elsewhere")
        before = tree(where / "r")
        done = train(where, COIN)
        if done.status == 0:
            return "a run whose checkpoints are gone began again"
        return done.crash() or difference(before, tree(where / "r"))

    def replaced(where, random, name):
        log = where / "r" / name
        def change():
            if random.random() < 0.5:
                shutil.copy(log, where / "x")
                (where / "x").rename(log)
            else:
                log.unlink()
        status, _ = while_it_runs(where, change)
        again = train(where, LONG)
        if again.crash():
            return again.crash()
        if status != 0 and again.status != 0:
            return None  # both said so
        return difference(tree(long_run()), tree(where / "r")) and f"exit status {status}, and rows of {name} are lost"

    def second(where, random):
        late = []
        def change():
            (where / "r/lock").unlink()
            late.append(train(where, LONG))
        first, _ = while_it_runs(where, change)
        if first == 0 and late[0].status == 0:
            rows = (where / "r/metrics.csv").read_bytes() == (long_run() / "metrics.csv").read_bytes()
            return None if rows else "two processes wrote one run, and both ended with 0"
        again = train(where, LONG)
        return again.status and last_line(again.err) or difference(tree(long_run()), tree(where / "r"))

    cases = [("checkpoints gone", logs_kept), ("lock removed", second)]
    cases += [(f"{name} replaced", functools.partial(replaced, name=name)) for name in ("metrics.csv", "metrics.jsonl", "samples.jsonl", "timing.csv")]
    for title, trial in cases * [1, 5, 10][size]:
        yield title, trial


def limits(bench, size, random):
    """Small limits on memory, open files and file sizes: a line and no panic, then the same command without them"""
    kinds = [(resource.RLIMIT_FSIZE, [0, 100, 3000, 200_000, 1_000_000]), (resource.RLIMIT_NOFILE, [4, 6, 8, 12, 20]),
             (resource.RLIMIT_AS, [100 << 20, 160 << 20, 300 << 20, 600 << 20, 800 << 20])]
    cases = [(kind, number) for kind, numbers in kinds for number in numbers]
    bench.reference("plain")
    for i in range([15, 45, 90][size]):
        kind, number = cases[i % len(cases)]
        number = number + (i // len(cases)) * 7 if i >= len(cases) else number

        def trial(where, _, kind=kind, number=number):
            done = train(where, COIN, limits=[(kind, number)])
            if done.crash() and done.status != 127:
                return done.crash()
            again = train(where, COIN)
            return again.status and last_line(again.err) or difference(tree(bench.reference("plain") / "r"), tree(where / "r"))
        yield f"resource {kind} at {number}", trial


disturbed.parallel = False
CLASSES = [kills, refusals, writers, moments, disturbed, limits]
