"""Reads the cases of `cases/*.txt`; `README.md` describes their form. Prints them as JSON lines when it is run."""
import json
import pathlib
import re

HERE = pathlib.Path(__file__).parent
MARK = re.compile(r" (==|<>|\?\?) ")
LABEL = {"==": True, "<>": False, "??": None}


def labelled(line):
    """The reference of a line and its answers with their labels."""
    gold, *rest = MARK.split(line.replace("⏎", "\n"))
    return gold, [(LABEL[mark], answer) for mark, answer in zip(rest[::2], rest[1::2])]


def cases():
    """Every case: class, gold, answer, equal, why."""
    for path in sorted((HERE / "cases").glob("*.txt")):
        kind, why, pairs, layout = "", "", [], False
        for line in path.read_text().splitlines():
            if not line.strip():
                continue
            if header := re.match(r"(#{2,3}) ([^:]*): (.*)", line):
                layout, kind, why, pairs = header[1] == "###", header[2], header[3], []
            elif line.startswith("@@ "):
                pairs.append(labelled(line[3:]))
            elif not layout:
                gold, answers = labelled(line)
                for equal, answer in answers:
                    yield {"class": kind, "gold": gold, "answer": answer, "equal": equal, "why": why}
            else:
                for gold, answers in pairs:
                    answer = line.replace("⏎", "\n").replace("@", gold)
                    if answers[0][0] is None:
                        yield {"class": kind, "gold": gold, "answer": answer, "equal": None, "why": why}
                        continue
                    yield {"class": kind, "gold": gold, "answer": answer, "equal": True, "why": why}
                    for _, wrong in answers:
                        yield {"class": kind, "gold": wrong, "answer": answer, "equal": False, "why": why}


if __name__ == "__main__":
    for case in cases():
        print(json.dumps(case, ensure_ascii=False))
