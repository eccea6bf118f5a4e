"""Writes its part of the page docs/agreement.md."""

from dataclasses import dataclass

COMMAND = "bindings/python/conformance/run.sh"
COLUMNS = ["framework", "theirs", "ours", "quantity", "batches", "groups", "numbers", "largest_error", "verdict", "definition"]
TITLES = {"trl": "TRL", "verl": "verl", "rlax": "rlax"}
OPEN, END = f"<!-- written by {COMMAND} -->\n", "<!-- end -->"


@dataclass
class Heading:
    date: str
    versions: dict[str, str]
    seed: int
    batches: int


def cell(text):
    return text.replace("|", chr(92) + "|")


def merged(rows, key, value):
    """The values of the rows of each key, each once, in their order."""
    found = {}
    for row in rows:
        found.setdefault(key(row), {})[value(row)] = None
    return [(key, list(values)) for key, values in found.items()]


def table(columns, lines):
    return "".join(f"| {' | '.join(line)} |\n" for line in [columns, ["---"] * len(columns), *lines])


def differences(rows):
    """A line for each framework and definition, with the names that it is about."""
    for (framework, definition), theirs in merged(rows, lambda row: (row[0], row[9]), lambda row: row[1]):
        yield [TITLES[framework], ", ".join(f"`{name}`" for name in theirs), cell(definition)]


def agreements(rows):
    """A line for each pair of names, with its quantities and the largest error of them."""
    for (theirs, ours), quantities in merged(rows, lambda row: (row[1], row[2]), lambda row: (row[3], float(row[7]))):
        names = ", ".join(dict.fromkeys(name for name, _ in quantities))
        yield [f"`{theirs}`", f"`{ours}`", names, f"{max(error for _, error in quantities):.0e}"]


def part(heading, rows):
    """The part of the page that the numbers determine."""
    differing = [row for row in rows if row[8] == "definition"]
    rounded = sum(row[8] == "rounding" for row in rows)
    text = f"The comparison of {heading.date} fed {heading.batches} random batches (seed {heading.seed}) to these packages:\n\n"
    text += table(["package", *heading.versions], [["version", *heading.versions.values()]])
    text += "\n" + table(
        ["comparisons", "result"],
        [
            [str(len(rows) - len(differing) - rounded), "agree to 1e-9 in 64 bits"],
            [str(rounded), "differ by rounding, at most 2e-6: the framework keeps numbers in 32 bits or adds 1e-8 inside a square root"],
            [str(len(differing)), "differ by definition"],
        ],
    )
    text += f"\n### The {len(differing)} differences\n\n" + table(["framework", "its name", "what differs"], differences(differing))
    for name in dict.fromkeys(row[0] for row in rows):
        equal = [row for row in rows if row[0] == name and row[8] != "definition"]
        text += f"\n### What agrees with {TITLES[name]}\n\n" + table(["framework", "this library", "compared", "largest error"], agreements(equal))
    return text


def text(page, heading, rows):
    """The page with a new part."""
    before, rest = page.split(OPEN)
    return before + OPEN + part(heading, rows) + END + rest.split(END, 1)[1]
