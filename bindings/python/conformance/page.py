"""The page docs/conformance.md."""

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
        f"Written on {heading.date} by `bindings/python/conformance/compare.py` with {versions}. It feeds {heading.batches} random batches (seed "
        f"{heading.seed}) to the code of each framework and to the Python package, and fails where a difference has no reason, or a reason shows no "
        f"difference. `{COMMAND}` makes the environment, builds the package and calls it.",
        f"Of {len(rows)} comparisons {counts['equal']} are *equal* (1e-9 or less, 64 bits), {counts['rounding']} differ by *rounding* (2e-6 or less: "
        f"numbers that the framework holds in 32 bits, or 1e-8 that it adds under a root), and {counts['definition']} by a named *definition*. "
        "Groups are unequal except with TRL, rows ragged; every second batch has holes in its masks except with rlax, where a response has no mask. "
        "Groups whose rewards agree are among them.",
        "GRPO-lambda is in none of them; its trace is held by exact ground truth instead ([the report](../paper/README.md)). Recorded numbers of the "
        "same frameworks keep `cargo test` offline: `tests/fixtures/`, [verl's case by case](verl.md). What the frameworks mean by a name stands in "
        "[conventions](conventions.md). All numbers: [conformance.csv](../paper/data/conformance.csv).",
    ]
    page = "\n\n".join(part if part.startswith("#") else textwrap.fill(part, 156, break_long_words=False) for part in parts) + "\n"
    for name in dict.fromkeys(row[0] for row in rows):
        page += f"\n## {TITLES[name]}\n\n| theirs | ours | quantity | groups | largest error | |\n| --- | --- | --- | --- | --- | --- |\n"
        for _, theirs, ours, quantity, _, groups, _, error, verdict, definition in (row for row in rows if row[0] == name):
            page += f"| `{theirs}` | `{ours}` | {quantity} | {groups} | {error} | {definition.replace('|', chr(92) + '|') or verdict} |\n"
    return page
