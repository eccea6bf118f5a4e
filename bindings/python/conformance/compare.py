"""The same random groups through TRL, verl, rlax and this package: the largest difference of each, or why it is defined otherwise.

    run.sh        # makes the environment, builds the package, calls this, writes the table and its page

Fails where a difference has no named reason, and where a named difference does not show.
"""

import argparse
import csv
import datetime
import logging
import sys
import warnings
from importlib import import_module, metadata
from pathlib import Path

import numpy as np

import page
from batches import batch

#: What is equal; and what is so but for numbers that a framework holds in 32 bits, whatever it is given, or for 1e-8 that it adds under a root.
EQUAL = 1e-9
ROUNDED = 2e-6
#: Losses are computed in 64 bits, but for SAPO's, whose temperatures TRL writes in 32.
HELD_IN_32_BITS = ("advantages", "returns")
LOSSES_IN_32_BITS = ("loss_type=sapo",)

FRAMEWORKS = ["trl", "verl", "rlax"]


class Comparison:
    """What is compared under one pair of names, over all batches."""

    def __init__(self):
        self.batches, self.groups, self.numbers, self.error = 0, 0, 0, 0.0

    def add(self, batch, apart):
        """Adds the differences on a batch; none where this package refuses it, as its reason says."""
        self.batches, self.groups = self.batches + 1, self.groups + batch.groups
        if apart is None:
            self.error = np.inf
            return
        apart = np.abs(np.asarray(apart, dtype=float))
        assert np.isfinite(apart).all(), "a difference that is no number"
        self.numbers += apart.size
        self.error = max(self.error, float(apart.max()))


def compared(name, module, batches, seed):
    """Every comparison of a framework, by its names."""
    found = {}
    for number in range(batches):
        holes = number % 2 == 1
        sizes = module.sizes(number) if hasattr(module, "sizes") else None
        given = batch(seed, number, sizes=sizes, holes=holes)
        for theirs, ours, quantity, apart, definition in module.compare(given, holes):
            key = (name, theirs, ours, quantity, definition or "")
            found.setdefault(key, Comparison()).add(given, apart)
    return found


def verdict(key, comparison):
    """`equal`, `rounding` or `definition`; none where the difference is unexplained, or does not show."""
    if key[-1]:
        return "definition" if comparison.error > ROUNDED else None
    if comparison.error <= EQUAL:
        return "equal"
    rounds = key[3] in HELD_IN_32_BITS or key[1] in LOSSES_IN_32_BITS
    return "rounding" if rounds and comparison.error <= ROUNDED else None


def shown(error):
    return "refused" if error == np.inf else f"{error:.1e}"


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("frameworks", nargs="*", default=FRAMEWORKS)
    arguments.add_argument("--batches", type=int, default=100)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--csv", type=Path)
    arguments.add_argument("--page", type=Path)
    given = arguments.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    rows, versions, unexplained = [], {}, []
    for name in given.frameworks:
        module = import_module(f"with_{name}")
        versions.update({package: metadata.version(package) for package in module.PACKAGES})
        for key, comparison in compared(name, module, given.batches, given.seed).items():
            found = verdict(key, comparison)
            row = [*key[:4], comparison.batches, comparison.groups, comparison.numbers, shown(comparison.error), found, key[4]]
            print(*row, sep=" | ", flush=True)
            rows.append(row)
            if found is None:
                unexplained.append(row)
    if unexplained:
        sys.exit("\n".join(["differences without a reason, or reasons without a difference:", *(str(row) for row in unexplained)]))
    if set(given.frameworks) != set(FRAMEWORKS):
        return print("the table is of all frameworks and stays as it is")
    heading = page.Heading(datetime.date.today().isoformat(), versions, given.seed, given.batches)
    if given.csv:
        with given.csv.open("w", newline="") as file:
            file.write(f"# {page.COMMAND}\n")
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(page.COLUMNS)
            writer.writerows(rows)
    if given.page:
        given.page.write_text(page.text(heading, rows))


if __name__ == "__main__":
    main()
