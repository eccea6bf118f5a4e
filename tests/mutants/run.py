#!/usr/bin/env python3
"""run.py [--package NAME] [--files GLOB ..] ..: every mutant of cargo-mutants in a package, against the tests that reach it.

All mutants are compiled into one program, each behind a switch (tests/mutants/src), so that one build serves them all. A mutant is killed when a
test fails, crashes, takes ten times its time or 6 GiB. Those that survive must stand in tests/mutants/survivors.toml with the reason; the script
writes a table to paper/data and ends with 1 when one is missing there. Needs `cargo install cargo-mutants`; the theory takes half an hour of two processors.

  --package NAME     grpo-lambda (the theory: its five packages), grpo-lambda-grade or grpo-lambda-decoder
  --files GLOB ..    only the files that match, as `llm/crates/decoder/src/optim/mod.rs`
  --jobs N           tests run at once (2)
  --slowest SECONDS  try tests that take longer (1) only on mutants that survived the others and have no reason
  --only TEXT        only mutants whose name contains TEXT; the table is not written
"""
import argparse, collections, csv, json, os, pathlib, re, resource, shutil, signal, subprocess, sys, time, tomllib
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORK = ROOT / "target" / "mutants"
TREE, LIST, STATUS, SKIP = WORK / "tree", WORK / "list.json", WORK / "status.csv", WORK / "skip.txt"
RESULTS = WORK / "results.json"
REASONS = ROOT / "tests" / "mutants" / "survivors.toml"
# Tests find the benchmarks beside the repository; the copy stands elsewhere.
if (ROOT.parent / "shared" / "data").is_dir():
    os.environ.setdefault("GRPO_LAMBDA_DATA", str(ROOT.parent / "shared" / "data"))
ENV = dict(os.environ, CARGO_TARGET_DIR=str(WORK / "build"), CARGO_INCREMENTAL="1")
# The folders of the packages that are mutated, whose tests are tried, and their table in paper/data.
THEORY = {
    "grpo-lambda": ".",
    "grpo-lambda-mdp": "crates/mdp",
    "grpo-lambda-stats": "crates/stats",
    "grpo-lambda-conventions": "crates/conventions",
    "grpo-lambda-printed": "crates/printed",
}
PACKAGES = {
    "grpo-lambda": (THEORY, "mutants.csv"),
    "grpo-lambda-grade": ({"grpo-lambda-grade": "llm/crates/grade"}, "mutants_grade.csv"),
    "grpo-lambda-decoder": ({"grpo-lambda-decoder": "llm/crates/decoder"}, "mutants_decoder.csv"),
}


def run(command, **options):
    return subprocess.run(command, text=True, capture_output=True, **options)


def must(command, **options):
    done = run(command, **options)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def copy_sources():
    """The files that git knows, as they stand."""
    for name in must(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT).split("\0"):
        source, target = ROOT / name, TREE / name
        if not name or not source.is_file():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() or target.read_bytes() != source.read_bytes():
            shutil.copyfile(source, target)


MARK = re.compile(rb"/\*([MW])(\d+)\*/")


def mutants_at(text, start, end):
    """The innermost mutant whose text holds the start, else those whose text lies in the span: a list of a switch may not be a constant any more."""
    open_ones = []
    for mark in MARK.finditer(text[:start]):
        if mark[1] == b"M":
            open_ones.append(int(mark[2]))
        else:
            open_ones.remove(int(mark[2]))
    return set(open_ones[-1:]) or {int(mark[2]) for mark in MARK.finditer(text[start:end]) if mark[1] == b"M"}


def blamed(lines):
    """The mutants that errors of the compiler lie in, and the errors that lie in none."""
    found, others = set(), []
    for message in map(json.loads, lines):
        if message.get("reason") != "compiler-message" or message["message"]["level"] != "error":
            continue
        message = message["message"]
        places = [s for s in message["spans"] if s["is_primary"]]
        at = [mutants_at((TREE / s["file_name"]).read_bytes(), s["byte_start"], s["byte_end"]) for s in places]
        numbers = set().union(*at)
        found |= numbers
        if places and not numbers:
            others.append(message["rendered"])
    return found, others


def chosen(packages):
    """The packages as arguments of cargo."""
    return [word for name in packages for word in ("-p", name)]


def instrument(packages):
    """Puts the mutants behind switches and leaves out, round by round, those that do not compile."""
    skip = set()
    must(["cargo", "build", "--quiet", "-p", "grpo-lambda-mutants"], cwd=ROOT)
    tool = ROOT / "target" / "debug" / "grpo-lambda-mutants"
    for _ in range(20):
        copy_sources()
        SKIP.write_text("".join(f"{n}\n" for n in sorted(skip)))
        roots = ",".join(f"{folder}/src/lib.rs" for folder in packages.values())
        must([tool, LIST, TREE, roots, STATUS, SKIP])
        # `build`, not `check`: some lints look at constants that only code generation computes.
        done = run(["cargo", "build", "--lib", *chosen(packages), "--message-format=json"], cwd=TREE, env=ENV)
        if done.returncode == 0:
            return
        new, others = blamed(done.stdout.splitlines())
        if not new:
            sys.exit("the mutated sources do not compile:\n" + "\n".join(others)[:4000] + done.stderr[-2000:])
        skip |= new
    sys.exit("the mutated sources do not compile after 20 rounds")


def tests(packages):
    """Every test of the packages: program, name, folder to run it in."""
    found = []
    theory = ["grpo-lambda-theory"] if "grpo-lambda" in packages else []
    for package in [*packages, *theory]:
        lines = must(["cargo", "test", "-p", package, "--no-run", "--message-format=json"], cwd=TREE, env=ENV).splitlines()
        built = [m for m in map(json.loads, lines) if m.get("executable") and m.get("profile", {}).get("test")]
        for message in built:
            folder = pathlib.Path(message["manifest_path"]).parent
            names = must([message["executable"], "--list"], cwd=folder).splitlines()
            found += [dict(program=message["executable"], name=n[:-6], folder=str(folder)) for n in names if n.endswith(": test")]
    return [*found, *(example for package in packages for example in documentation(package))]


def documentation(package):
    """The examples in a package's documentation, one program; none where there are none."""
    folder = WORK / "examples" / package
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    # Keeping what rustdoc compiled counts as unstable.
    env = dict(ENV, RUSTC_BOOTSTRAP="1", RUSTDOCFLAGS=f"-Zunstable-options --persist-doctests {folder}")
    must(["cargo", "test", "--doc", "-p", package], cwd=TREE, env=env)
    programs = sorted(folder.glob("merged_doctest_*/rust_out"))
    return [dict(program=str(p), name="examples of the documentation", folder=str(TREE), whole=True) for p in programs]


def reach(test, number):
    """Runs a test once, and notes how long it takes and which mutants it reaches."""
    file = WORK / "reached" / str(number)
    file.unlink(missing_ok=True)
    start = time.time()
    code, _ = execute([test], dict(MUTANTS_REACHED=str(file)), 300)
    reached = sorted(set(map(int, file.read_text().split()))) if file.exists() else []
    return dict(test, seconds=time.time() - start, reached=reached, passes=code == 0)


def limits():
    os.setsid()
    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))


def execute(batch, variables, seconds):
    """Exit code (None: too slow) and output of tests of one program, up to the first failure."""
    one_by_one = ["-Zunstable-options", "--exact", "--fail-fast", "--test-threads=1", *(t["name"] for t in batch)]
    command = [batch[0]["program"], *([] if batch[0].get("whole") else one_by_one)]
    # `--fail-fast` counts as unstable.
    env = dict(os.environ, RUSTC_BOOTSTRAP="1", RUST_BACKTRACE="0", **variables)
    process = subprocess.Popen(
        command, env=env, cwd=batch[0]["folder"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", preexec_fn=limits
    )
    try:
        output, _ = process.communicate(timeout=seconds)
        return process.returncode, output
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return None, ""


def batches(reaching):
    """The fast tests first, together; the later ones in larger portions."""
    batch, total, limit = [], 0.0, 0.15
    for test in sorted(reaching, key=lambda t: t["seconds"]):
        if batch and (total + test["seconds"] > limit or batch[0]["program"] != test["program"] or len(batch) == 40):
            yield batch
            batch, total, limit = [], 0.0, min(3 * limit, 4.0)
        batch, total = [*batch, test], total + test["seconds"]
    if batch:
        yield batch


def judge(number, reaching):
    """`killed by NAME`, `too slow`, `survived` or `not reached`."""
    for batch in batches(reaching):
        code, output = execute(batch, dict(MUTANT=str(number)), 20 + 10 * sum(t["seconds"] for t in batch))
        if code is None:
            return "too slow", batch[0]["name"]
        if code:
            failed = [line.split()[1] for line in output.splitlines() if line.endswith("... FAILED")]
            return "killed", (failed or [batch[0]["name"]])[0]
    return ("survived" if reaching else "not reached"), ""


def nameless(name):
    """A mutant's name without line and column, which move."""
    return re.sub(r"^(\S+?):\d+:\d+: ", r"\1: ", name)


def reasons():
    """Why a mutant survives, by its name and which one of that name it is."""
    found = {}
    for reason in tomllib.loads(REASONS.read_text()).get("reason", []):
        for mutant in reason["mutants"]:
            name, _, nth = mutant.partition(" #")
            found[name, int(nth or 1)] = reason["why"]
    return found


def keys(rows):
    """Each mutant with which one it is of those with its name in its file."""
    seen = collections.Counter()
    for row in rows:
        name = nameless(row["mutant"])
        seen[name] += 1
        yield row, (name, seen[name])


SURVIVED = ("survived", "not reached")


def judge_all(pool, todo, tests):
    """Tries `tests` on every mutant of `todo`."""
    by_mutant = collections.defaultdict(list)
    for test in tests:
        for number in test["reached"]:
            by_mutant[number].append(test)
    start = time.time()
    results = pool.map(lambda r: judge(int(r["number"]), by_mutant[int(r["number"])]), todo)
    for done, (row, (result, by)) in enumerate(zip(todo, results), 1):
        if result != "not reached" or "result" not in row:
            row.update(result=result, by=by)
        if done % 200 == 0 or done == len(todo):
            left = (time.time() - start) / done * (len(todo) - done)
            print(f"{done} of {len(todo)}, {left / 60:.0f} min left", flush=True)
            # What is known so far, with the line of each mutant, for whoever cannot wait.
            RESULTS.write_text(json.dumps([r for r in todo if "result" in r], indent=1))


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--slowest", type=float, default=1.0)
    options.add_argument("--only", default="")
    options.add_argument("--package", choices=PACKAGES, default="grpo-lambda")
    options.add_argument("--files", nargs="+", default=[])
    options = options.parse_args()
    for folder in (TREE, WORK / "reached"):
        folder.mkdir(parents=True, exist_ok=True)
    files = [word for glob in options.files for word in ("--file", glob)]
    packages = PACKAGES[options.package][0]
    LIST.write_text(must(["cargo", "mutants", "--list", "--json", *chosen(packages), *files], cwd=ROOT))
    instrument(packages)
    print("built; now which test reaches which mutant", flush=True)
    with ThreadPoolExecutor(options.jobs) as pool:
        found = tests(packages)
        reached = list(pool.map(reach, found, range(len(found))))
        # A test that reads the sources, which are not the real ones here, says nothing.
        used = [t for t in reached if t["passes"]]
        print(f"{len(found)} tests, {len(used)} used", flush=True)
        rows = list(csv.DictReader(STATUS.open()))
        todo = [r for r in rows if r["status"] == "switch" and options.only in r["mutant"]]
        fast = [t for t in used if t["seconds"] <= options.slowest]
        judge_all(pool, todo, fast)
        why, named = reasons(), {row["number"]: key for row, key in keys(rows)}
        left = [r for r in todo if r["result"] in SURVIVED and named[r["number"]] not in why]
        judge_all(pool, left, [t for t in used if t["seconds"] > options.slowest])
    return report(rows, todo, options)


def report(rows, todo, options):
    count = collections.Counter(r["result"] for r in todo)
    survivors = [r for r in todo if r["result"] in SURVIVED]
    why, numbers, out = reasons(), {r["number"] for r in survivors}, []
    for row, key in keys(rows):
        if row["number"] in numbers:
            out.append([key[0], key[1], row["result"], why.get(key, "")])
    unexplained = [o for o in out if not o[3]]
    if not (options.only or options.files):
        files = {row["mutant"].split(":")[0] for row in rows}
        for name, nth in sorted(why.keys() - {(o[0], o[1]) for o in out}):
            if name.split(":")[0] in files:
                print(f"has a reason and does not survive: {name}" + (f" #{nth}" if nth > 1 else ""))
    killed = len(todo) - len(survivors)
    status = collections.Counter(r["status"] for r in rows)
    left = ", ".join(f"{n} {s}" for s, n in sorted(status.items()) if s != "switch")
    asked = f" --package {options.package}" * (options.package != "grpo-lambda") + f" --files {' '.join(options.files)}" * bool(options.files)
    head = f"tests/mutants/run.py{asked}: {len(todo)} mutants, {killed} killed ({100 * killed / max(len(todo), 1):.2f} %); not run: {left}"
    print(head, dict(count), sep="\n")
    for name, nth, result, _ in unexplained:
        print(f"{result}, unexplained: {name}" + (f" #{nth}" if nth > 1 else ""))
    RESULTS.write_text(json.dumps(todo, indent=1))
    if not options.only:
        with (ROOT / "paper" / "data" / PACKAGES[options.package][1]).open("w", newline="") as file:
            file.write(f"# {head}\n")
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["mutant", "nth", "result", "why"])
            writer.writerows(out)
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
