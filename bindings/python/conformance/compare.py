"""Compares TRL, verl, rlax and this package on random groups: the largest difference of each, or the reason for another definition.

    run.sh        # makes the environment, builds the package, calls this, writes the table and its part of the page

Fails if a difference has no named reason, or if a named difference does not show.
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

#: Bounds of equal numbers, and of numbers that a framework holds in 32 bits or adds 1e-8 to under a root.
EQUAL = 1e-9
ROUNDED = 2e-6
#: Losses are in 64 bits except SAPO's, whose temperatures TRL holds in 32.
HELD_IN_32_BITS = ("advantages", "returns")
LOSSES_IN_32_BITS = ("loss_type=sapo",)

FRAMEWORKS = ["trl", "verl", "rlax"]


class Comparison:
    """A comparison under one pair of names, over all batches."""

    def __init__(self):
        self.batches, self.groups, self.numbers, self.error = 0, 0, 0, 0.0

    def add(self, batch, apart):
        """Adds the differences on a batch; ``apart`` is None if this package refuses it, with its reason."""
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
    """`equal`, `rounding` or `definition`; None if the difference is unexplained, or does not show."""
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
        given.page.write_text(page.text(given.page.read_text(), heading, rows))


if __name__ == "__main__":
    main()
