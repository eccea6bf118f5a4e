"""Writes the page docs/conformance.md."""

import textwrap
from dataclasses import dataclass

COMMAND = "bindings/python/conformance/run.sh"
COLUMNS = ["framework", "theirs", "ours", "quantity", "batches", "groups", "numbers", "largest_error", "verdict", "definition"]
TITLES = {"trl": "TRL", "verl": "verl", "rlax": "rlax"}


@dataclass
class Heading:
    date: str
    versions: dict[str, str]
    seed: int
    batches: int


def text(heading, rows):
    """The whole page."""
    versions = ", ".join(f"{name} {version}" for name, version in heading.versions.items())
    counts = {verdict: sum(row[8] == verdict for row in rows) for verdict in ("equal", "rounding", "definition")}
    parts = [
        "# The same groups through TRL, verl, rlax and this library",
        f"`bindings/python/conformance/compare.py` wrote this page on {heading.date} with {versions}. It feeds {heading.batches} random batches "
        f"(seed {heading.seed}) to the code of each framework and to the Python package, and fails if a difference has no reason, or a reason shows "
        f"no difference. `{COMMAND}` makes the environment, builds the package and calls it.",
        f"Of {len(rows)} comparisons {counts['equal']} are *equal* (1e-9 or less, 64 bits), {counts['rounding']} differ by *rounding* (2e-6 or less: "
        f"numbers that the framework holds in 32 bits, or 1e-8 that it adds under a root), and {counts['definition']} by a named *definition*. "
        "Rows are ragged, and groups unequal except with TRL; every second batch has holes in its masks except with rlax, which has no masks. Some "
        "groups have equal rewards.",
        "No framework has GRPO-lambda; exact ground truth tests its trace instead ([the report](../paper/README.md)). `cargo test` compares with "
        "recorded numbers of these frameworks, offline: `tests/fixtures/`, [verl's case by case](verl.md). [Conventions](conventions.md) lists the "
        "meaning of each name. All numbers: [conformance.csv](../paper/data/conformance.csv).",
    ]
    page = "\n\n".join(part if part.startswith("#") else textwrap.fill(part, 120, break_long_words=False, break_on_hyphens=False) for part in parts) + "\n"
    for name in dict.fromkeys(row[0] for row in rows):
        page += f"\n## {TITLES[name]}\n\n| theirs | ours | quantity | groups | largest error | |\n| --- | --- | --- | --- | --- | --- |\n"
        for _, theirs, ours, quantity, _, groups, _, error, verdict, definition in (row for row in rows if row[0] == name):
            page += f"| `{theirs}` | `{ours}` | {quantity} | {groups} | {error} | {definition.replace('|', chr(92) + '|') or verdict} |\n"
    return page
