#!/usr/bin/env python3
"""collect.py CSV [--head TEXT] JSON...: files of one JSON line each as one table, a row for each figure: run, figure, value."""

import argparse
import csv
import json
import pathlib
import sys


def figures(value, name=""):
    """Names joined by dots, and what they hold."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from figures(inner, f"{name}.{key}" if name else key)
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield from figures(inner, f"{name}.{i}")
    elif value is not None:
        yield name, value


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("csv")
    p.add_argument("json", nargs="+")
    p.add_argument("--head", default="")
    a = p.parse_args()
    rows = []
    for path in map(pathlib.Path, a.json):
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, json.JSONDecodeError) as error:
            sys.exit(f"collect.py: {path}: {error}; must be a file of one JSON line")
        rows.extend([path.stem, name, value] for name, value in figures(found))
    with open(a.csv, "w", newline="", encoding="utf-8") as out:
        if a.head:
            out.write(f"# {a.head}\n")
        lines = csv.writer(out, lineterminator="\n")
        lines.writerow(["run", "figure", "value"])
        lines.writerows(rows)
    print(f"{a.csv}: {len(rows)} figures of {len(a.json)} runs")


if __name__ == "__main__":
    main()
