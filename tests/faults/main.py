"""Counts trials and failures of each class of faults; see run.sh."""

import argparse, concurrent.futures, csv, datetime, hashlib, random, shutil, sys, tempfile, threading, time
from pathlib import Path

import common, damage, death, hostile, server

ROOT = Path(__file__).resolve().parents[2]
TABLE, PAGE = ROOT / "paper/data/faults.csv", ROOT / "docs/promises.md"
COLUMNS = ["class", "trials", "failures", "size", "seed", "program", "date"]
CLASSES = {found.__name__: found for module in (death, damage, hostile, server) for found in module.CLASSES}
SIZES = {"quick": 0, "round": 1, "double": 2}


def main():
    options = argparse.ArgumentParser(formatter_class=argparse.RawDescriptionHelpFormatter, epilog="classes:\n" + "\n".join(
        f"  {name:10} {found.__doc__.splitlines()[0]}" for name, found in CLASSES.items()))
    options.add_argument("classes", nargs="*", metavar="CLASS", help="only these")
    options.add_argument("--size", choices=SIZES, default="quick", help="trials of each class; double repeats a round with other draws")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--trial", type=int, help="only this one, its directory kept")
    options.add_argument("--resume", action="store_true", help="pass over classes whose row of this program, size and seed is in the table")
    options.add_argument("--table", type=Path, help="add rows to this file; a round or double writes paper/data/faults.csv and docs/promises.md")
    options.add_argument("--work", type=Path, help="directory for runs; a temporary one when not given")
    asked = options.parse_args()
    for name in asked.classes:
        if name not in CLASSES:
            options.error(f"{name}: no such class; there are {', '.join(CLASSES)}")
    official = asked.size != "quick" and asked.table is None and asked.trial is None
    asked.table = asked.table or (TABLE if official else None)
    program = hashlib.sha1(Path(common.LLM_TRAIN).read_bytes()).hexdigest()[:12]
    done = {row["class"]: row for row in rows(asked.table)
            if (row["program"], row["size"], row["seed"]) == (program, asked.size, str(asked.seed))}
    work = asked.work or Path(tempfile.mkdtemp(prefix="faults-"))
    work.mkdir(parents=True, exist_ok=True)
    failed = 0
    try:
        for name in asked.classes or CLASSES:
            if asked.resume and name in done:
                print(f"{name:10} in the table already")
                continue
            trials, failures = count(CLASSES[name], common.Bench(work), asked)
            failed += failures
            if asked.table and asked.trial is None:
                add(asked.table, dict(zip(COLUMNS, [name, trials, failures, asked.size, asked.seed, program, datetime.date.today()])))
    finally:
        if asked.work is None and asked.trial is None:
            shutil.rmtree(work, ignore_errors=True)
    if official:
        write_page()
    sys.exit(1 if failed else 0)


def count(found, bench, asked):
    """Runs the trials of a class; prints its line and each failure."""
    name, began, failures, lock = found.__name__, time.monotonic(), [], threading.Lock()
    trials = list(enumerate(found(bench, SIZES[asked.size], random.Random(f"{asked.seed}/{name}"))))
    if asked.trial is not None:
        trials = trials[asked.trial:asked.trial + 1]

    def one(numbered):
        number, (title, trial) = numbered
        where = bench.work / f"{name}-{number}"
        shutil.rmtree(where, ignore_errors=True)
        where.mkdir()
        try:
            problem = trial(where, random.Random(f"{asked.seed}/{name}/{number}"))
        except Exception as error:  # a broken trial is a failure, not the end of the suite
            problem = f"the trial itself: {type(error).__name__}: {error}"
        if asked.trial is None:
            shutil.rmtree(where, ignore_errors=True)
        if problem:
            with lock:
                failures.append(number)
                print(f"  {name} --trial {number}: {title}: {problem}", flush=True)

    with concurrent.futures.ThreadPoolExecutor(asked.jobs if getattr(found, "parallel", True) else 1) as pool:
        list(pool.map(one, trials))
    print(f"{name:10} {len(trials):6} trials {len(failures):5} failures  {time.monotonic() - began:6.0f} s", flush=True)
    return len(trials), len(failures)


def rows(table):
    if not table or not table.exists():
        return []
    with table.open() as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def add(table, row):
    """Puts the row of a class in the place of an earlier one of the same size and seed."""
    key = lambda row: (row["class"], row["size"], str(row["seed"]))
    kept = [found for found in rows(table) if key(found) != key(row)] + [row]
    order = {name: place for place, name in enumerate(CLASSES)}
    kept.sort(key=lambda row: (row["size"], str(row["seed"]), order.get(row["class"], 99)))
    with table.open("w") as file:
        file.write("# tests/faults/run.sh; docs/promises.md says what each class tries\n")
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(kept)


def write_page():
    """Fills the table of docs/promises.md from the row of the largest size of each class."""
    largest = {row["class"]: row for row in sorted(rows(TABLE), key=lambda row: (SIZES[row["size"]], row["date"]))}
    lines = ["| class | tries | size | trials | failures |", "| --- | --- | --- | ---: | ---: |"]
    for name, found in CLASSES.items():
        row = largest.get(name, {"size": "not run", "trials": "", "failures": ""})
        lines.append(f"| `{name}` | {found.__doc__.splitlines()[0].rstrip('.')} | {row['size']} | {row['trials']} | {row['failures']} |")
    text = PAGE.read_text()
    before, rest = text.split("<!-- written by tests/faults/run.sh -->\n", 1)
    after = rest.split("<!-- end -->\n", 1)[1]
    PAGE.write_text(before + "<!-- written by tests/faults/run.sh -->\n" + "\n".join(lines) + "\n<!-- end -->\n" + after)


if __name__ == "__main__":
    main()
