#!/usr/bin/env python3
"""Reads the suites on which graders are compared; `README.md` describes them.

    python cases.py SUITE [FOLDER OF BENCHMARKS] > cases.jsonl     SUITE: pool, cases, hendrycks, references
"""
import json
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).parent
MARK = re.compile(r" (==|<>|\?\?) ")
LABEL = {"==": True, "<>": False, "??": None}
BENCHMARKS = ["aime24", "amc", "math500", "minerva", "olympiad"]


def labelled(line):
    """The reference of a line and its answers with their labels."""
    gold, *rest = MARK.split(line.replace("⏎", "\n"))
    return gold, [(LABEL[mark], answer) for mark, answer in zip(rest[::2], rest[1::2])]


def written():
    """The cases of `cases/*.txt`."""
    for path in sorted((HERE / "cases").glob("*.txt")):
        kind, why, pairs, layout = "", "", [], False
        for line in path.read_text().splitlines():
            if not line.strip():
                continue
            if header := re.match(r"(#{2,3}) ([^:]*): (.*)", line):
                layout, kind, why, pairs = header[1] == "###", header[2], header[3], []
                continue
            if line.startswith("@@ "):
                pairs.append(labelled(line[3:]))
                continue
            if layout:
                for gold, answers in pairs:
                    answer = line.replace("⏎", "\n").replace("@", gold)
                    right = None if answers[0][0] is None else True
                    yield {"class": kind, "gold": gold, "answer": answer, "equal": right, "why": why}
                    for label, wrong in answers:
                        if label is False:
                            yield {"class": kind, "gold": wrong, "answer": answer, "equal": False, "why": why}
                continue
            gold, answers = labelled(line)
            for equal, answer in answers:
                yield {"class": kind, "gold": gold, "answer": answer, "equal": equal, "why": why}


def lines(name):
    for line in (HERE / name).read_text().splitlines():
        case = json.loads(line)
        yield {"why": "", **case}


def references(folder):
    """Every reference of five benchmarks in the forms of `forms.txt`, and with its first digit changed."""
    golds = set()
    for name in BENCHMARKS:
        for line in (pathlib.Path(folder) / f"{name}.jsonl").read_text().splitlines():
            golds.update(str(answer).strip() for answer in json.loads(line)["answers"])
    forms = (HERE / "forms.txt").read_text().splitlines()
    for gold in sorted(golds):
        bare = gold[1:-1] if gold.startswith("$") and gold.endswith("$") else gold
        if "$" in bare.replace("\\$", ""):
            continue
        digit = re.search("[0-9]", bare)
        for number, form in enumerate(forms):
            write = lambda text: form.replace("⏎", "\n").replace("@", text)  # noqa: B023, E731
            yield {"class": f"form {number + 1}", "gold": gold, "answer": write(bare), "equal": True, "why": "the reference itself"}
            if digit and number < 2:
                other = bare[: digit.start()] + str((int(digit[0]) + 1) % 10) + bare[digit.end() :]
                yield {"class": "digit changed", "gold": gold, "answer": write(other), "equal": False, "why": "another number"}


def suite(name, folder=None):
    """The cases of a suite: class, gold, answer, equal, why."""
    readers = {
        "pool": lambda: lines("pool.jsonl"),
        "cases": written,
        "hendrycks": lambda: lines("hendrycks_math.jsonl"),
        "references": lambda: references(folder),
    }
    return list(readers[name]())


if __name__ == "__main__":
    for case in suite(*sys.argv[1:]):
        print(json.dumps(case, ensure_ascii=False))
