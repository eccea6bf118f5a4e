#!/usr/bin/env python3
"""Puts known bugs into a copy of the repository and runs the tests that must die of them.

    tests/museum/run.py                 every mutant; rewrites paper/data/museum.csv
    tests/museum/run.py B11 B26         some; the other rows of the file stay
    tests/museum/run.py --check         only whether every patch still applies

All patches stand in one copy, each with a switch that an environment variable turns: the copy is compiled once. A test is first run with no
switch turned and must pass, then with one turned and must fail. The copy is `target/museum`,
compiled into `target/museum-build`: in `target` itself cargo would take the copy's crates for those of the repository.

Exit code: 0 when every mutant was killed, 1 when one survived or a test fails without one, 2 when a patch does not apply or nothing compiles.
"""

import argparse
import csv
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "tests/museum/mutants.toml"
RECORD = ROOT / "paper/data/museum.csv"
COMMAND = "tests/museum/run.py"
SWITCH = "GRPO_LAMBDA_MUTANT"
COLUMNS = ["mutant", "outcome", "patch", "package", "test", "reason"]
SECONDS = 3600
ORDER = ["theory", "decoder", "--lib", "llm"]


class Refused(Exception):
    """What is wrong with the table, the request or the copy, in one line."""


def digest(mutant):
    """FNV-1a of what a mutant changes: a recorded outcome is of this patch and no other."""
    value = 0xCBF29CE484222325
    for byte in "\0".join([mutant["file"], mutant["right"], mutant["wrong"]]).encode():
        value = (value ^ byte) * 0x100000001B3 & (1 << 64) - 1
    return f"fnv-{value:016x}"


def switched(mutant):
    """The right code, or the wrong code where the switch names this mutant. The block is an expression and a statement."""
    static = "static ON: std::sync::LazyLock<bool> = std::sync::LazyLock::new(|| "
    static += f'std::env::var("{SWITCH}").is_ok_and(|name| name == "{mutant["name"]}"));'
    return f"{{ if {{ {static} *ON }} {{ {mutant['wrong']} }} else {{ {mutant['right']} }} }}"


def patched(text, mutant):
    """A file's text with a mutant in it."""
    within, right = mutant.get("within", mutant["right"]), mutant["right"]
    for part, where, name in [(within, text, "`within`"), (right, within, "`right`")]:
        if where.count(part) != 1:
            raise Refused(f"{mutant['name']}: {name} stands {where.count(part)} times in {mutant['file']}; it must stand once")
    return text.replace(within, within.replace(right, switched(mutant)))


def sources(mutants):
    """Every file of the repository with its bytes, mutants in place."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, capture_output=True, check=True)
    texts = {name: (ROOT / name).read_bytes() for name in listed.stdout.decode().split("\0") if name and (ROOT / name).is_file()}
    for mutant in mutants:
        if mutant["file"] not in texts:
            raise Refused(f"{mutant['name']}: {mutant['file']} does not exist")
    for mutant in mutants:
        # The text without any mutant is what must hold `right` once.
        patched((ROOT / mutant["file"]).read_text(), mutant)
        texts[mutant["file"]] = patched(texts[mutant["file"]].decode(), mutant).encode()
    return texts


def write_copy(folder, texts):
    """Writes what changed, so that little is compiled again, and removes what is gone."""
    for name, data in texts.items():
        path = folder / name
        if not path.is_file() or path.read_bytes() != data:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            path.chmod((ROOT / name).stat().st_mode & 0o777)
    for path in folder.rglob("*"):
        if path.is_file() and str(path.relative_to(folder)) not in texts:
            path.unlink()


def cargo(folder, words, **extra):
    """Runs cargo in the copy."""
    environment = {key: value for key, value in os.environ.items() if key != SWITCH}
    environment.setdefault("CARGO_TARGET_DIR", str(ROOT / "target/museum-build"))
    environment.update({"PROPTEST_FAILURE_PERSISTENCE": "off", **extra})
    command = ["cargo", words[0], "--quiet", *words[1:]]
    try:
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return None, ""
    return done.returncode, done.stdout + done.stderr


def selection(mutant):
    """The words with which cargo finds a test binary. An integration test is found without its package: then dependencies are compiled with
    the features of the whole workspace, as `cargo test-all` compiled them."""
    target = mutant["target"].split()
    return ["test", "-p", mutant["package"], *target] if target == ["--lib"] else ["test-all", *target]


def compiled(folder, words):
    """Compiles one test binary."""
    print("compiling", *words, flush=True)
    code, said = cargo(folder, [*words, "--no-run"])
    if code != 0:
        what = "takes too long to compile" if code is None else "does not compile"
        raise Refused(f"{' '.join(words)} {what} with the mutants in it:\n{said}")


def passes(folder, mutant, **extra):
    """Whether the test of a mutant passes, and what it said."""
    words = [*selection(mutant), "--", "--exact", mutant["test"]]
    code, said = cargo(folder, words, **extra)
    if code is not None and "running 1 test" not in said:
        raise Refused(f"{mutant['name']}: {mutant['package']} {mutant['target']} has no test {mutant['test']}:\n{said}")
    return code == 0, said


def reason(said):
    """The line in which a test says why it failed, for the terminal."""
    found = re.search(r"panicked at [^\n]*\n([^\n]*)", said)
    return found.group(1).strip()[:150] if found else "no message"


def outcome(folder, mutant, baseline):
    """Runs the test of a mutant without it (once) and with it."""
    key = (mutant["package"], mutant["target"], mutant["test"])
    if key not in baseline:
        baseline[key], said = passes(folder, mutant)
        if not baseline[key]:
            print(f"{mutant['test']} fails without a mutant: {reason(said)}", flush=True)
    if not baseline[key]:
        return "test fails without it"
    alive, said = passes(folder, mutant, **{SWITCH: mutant["name"]})
    print(f"{mutant['name']}: {'SURVIVED' if alive else 'killed by ' + mutant['test'] + ': ' + reason(said)}", flush=True)
    return "survived" if alive else "killed"


def record(table, results):
    """Writes the record: a row per mutant in the order of the table, old rows where nothing new is known."""
    known = {}
    if RECORD.exists():
        lines = RECORD.read_text().splitlines()[1:]
        known = {row["mutant"]: row for row in csv.DictReader(lines)}
    for mutant in table["mutant"]:
        if mutant["name"] in results:
            known[mutant["name"]] = {
                "mutant": mutant["name"], "outcome": results[mutant["name"]], "patch": digest(mutant),
                "package": mutant["package"], "test": mutant["test"], "reason": "",
            }
    for bug in table["not_applicable"]:
        known[bug["name"]] = {"mutant": bug["name"], "outcome": "not applicable", "reason": bug["reason"]}
    order = [m["name"] for m in table["mutant"] + table["not_applicable"]]
    order.sort(key=lambda name: int(re.match(r"B(\d+)", name).group(1)))
    with RECORD.open("w", newline="") as file:
        file.write(f"# {COMMAND}\n")
        out = csv.DictWriter(file, COLUMNS, restval="", lineterminator="\n")
        out.writeheader()
        out.writerows(known[name] for name in order if name in known)


def main():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="mutants, as B11 or B33-sign; all without")
    parser.add_argument("--check", action="store_true", help="only whether every patch applies")
    arguments = parser.parse_args()
    table = tomllib.loads(TABLE.read_text())
    names = [mutant["name"] for mutant in table["mutant"]]
    unknown = [name for name in arguments.names if name not in names]
    if unknown:
        raise Refused(f"there is no mutant {unknown[0]}; there are {', '.join(names)}")
    texts = sources(table["mutant"])
    if arguments.check:
        print(f"{len(names)} patches apply")
        return 0
    chosen = [m for m in table["mutant"] if not arguments.names or m["name"] in arguments.names]
    folder = ROOT / "target/museum"
    write_copy(folder, texts)
    baseline, results = {}, {}
    # One binary after the other, the quick ones first, so that there are outcomes early.
    for words in sorted({tuple(selection(m)) for m in chosen}, key=lambda words: ORDER.index(words[-1])):
        compiled(folder, words)
        for mutant in chosen:
            if tuple(selection(mutant)) == words:
                results[mutant["name"]] = outcome(folder, mutant, baseline)
                record(table, results)
    killed = sum(result == "killed" for result in results.values())
    print(f"{killed} of {len(results)} killed, {len(table['not_applicable'])} not applicable")
    return 0 if killed == len(results) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Refused as refusal:
        print(f"{COMMAND}: {refusal}", file=sys.stderr)
        sys.exit(2)
