#!/usr/bin/env python3
"""What `llm-train compare` found, seed by seed.

learn.py seed RUN SEED CSV [--head TEXT]   the comparison of one seed in RUN, as CSV
learn.py all CSV SEED_CSV... [--head TEXT] those of all seeds as one: differences from the first method in pairs by seed, with the exact
                                           p of a sign flip (0.03125 at best with six seeds)
learn.py steps RUN CSV [--head TEXT]       what the steps of RL in RUN say of ratios: with one update on a rollout they are exactly 1 and nothing
                                           is clipped; the exit code is 1 where it is otherwise
learn.py proof CSV CPU_RUN RUN... [--head TEXT] the first supervised step and the answers of runs against those of the same run on the CPU in f32,
                                           each named DEVICE-DTYPE; the exit code is 1 beyond BOUNDS
"""

import argparse
import csv
import itertools
import json
import pathlib
import sys

COLUMNS = ["seed", "method", "problems", "before", "after"]
ON_POLICY = {"ratio_max": 1, "trace_ratio_max": 1, "clip_fraction_low": 0, "clip_fraction_high": 0}
STEP = ["step", *ON_POLICY, "logp_error", "logp_error_max", "reward", "grad_norm"]

# Relative differences of the mean log-probability and of the gradient's norm, and the least share of equal answers.
BOUNDS = {"f32": (1e-4, 1e-3, 0.97), "bf16": (2e-2, 5e-2, 0.7)}
PROOF = ["run", "loss", "grad_norm", "accuracy", "problems", "loss_apart", "grad_norm_apart", "same_answers"]


def read(path):
    """The rows of a CSV with comment lines before its header."""
    try:
        text = pathlib.Path(path).read_text(encoding="utf-8")
    except OSError as error:
        sys.exit(f"learn.py: {path}: {error}; must be a CSV of an earlier step")
    return list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))


def write(path, head, columns, rows):
    with open(path, "w", newline="", encoding="utf-8") as out:
        if head:
            out.write(f"# {head}\n")
        lines = csv.writer(out, lineterminator="\n")
        lines.writerow(columns)
        lines.writerows(rows)


def sign_flip(differences):
    """The share of sign patterns whose sum is as far from 0 as this one, both ways."""
    seen = abs(sum(differences)) - 1e-12
    signs = itertools.product([1, -1], repeat=len(differences))
    sums = [abs(sum(s * d for s, d in zip(pattern, differences))) for pattern in signs]
    return sum(s >= seen for s in sums) / len(sums)


def summary(rows):
    """A row per method; `rows` are those of all seeds."""
    by = {}
    for row in rows:
        by.setdefault(row["method"], {})[row["seed"]] = row
    first = next(iter(by))
    for method, seeds in by.items():
        shared = [s for s in seeds if s in by[first]]
        after = [float(seeds[s]["after"]) for s in seeds]
        before = [float(seeds[s]["before"]) for s in seeds]
        d = [float(seeds[s]["after"]) - float(by[first][s]["after"]) for s in shared]
        paired = method != first and d
        yield [
            method,
            len(seeds),
            sum(before) / len(before),
            sum(after) / len(after),
            *([sum(d) / len(d), min(d), max(d)] if paired else [None] * 3),
            *([sum(x > 0 for x in d), sum(x < 0 for x in d), sign_flip(d)] if paired else [None] * 3),
        ]


def off_policy(rows):
    """What differs from the figures of an update on the policy that sampled, of rows by column; no step at all is no success either."""
    apart = [f"step {r['step']}: {k} = {r[k]}" for r in rows for k, must in ON_POLICY.items() if r[k] == "" or float(r[k]) != must]
    return apart if rows else ["no step of RL"]


def proof(runs):
    """A row per run, and what is beyond the bounds of its type."""
    rows, apart, first = [], [], None
    for run in map(pathlib.Path, runs):
        log = read(run / "metrics.csv")
        loss, norm = (float(log[0][name]) for name in ["loss", "grad_norm"])
        with open(run / "held_out_start.jsonl", encoding="utf-8") as lines:
            answers = [json.loads(line)["completion"]["text"] for line in lines]
        first = first or (loss, norm, answers)
        off = [abs(loss / first[0] - 1), abs(norm / first[1] - 1), sum(a == b for a, b in zip(answers, first[2])) / len(answers)]
        accuracy = [row["eval_accuracy"] for row in log if row["eval_accuracy"]][-1]
        rows.append([run.name, loss, norm, accuracy, len(answers), *off])
        most = BOUNDS[run.name.split("-")[-1]]
        if not (off[0] <= most[0] and off[1] <= most[1] and off[2] >= most[2]):
            apart.append(f"{run.name}: {off} is beyond {most}")
    return rows, apart


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = p.add_subparsers(dest="kind", required=True)
    one = kinds.add_parser("seed")
    for name in ["run", "seed", "csv"]:
        one.add_argument(name)
    every = kinds.add_parser("all")
    every.add_argument("csv")
    every.add_argument("seeds", nargs="+")
    steps = kinds.add_parser("steps")
    steps.add_argument("run")
    steps.add_argument("csv")
    against = kinds.add_parser("proof")
    against.add_argument("csv")
    against.add_argument("runs", nargs="+")
    for kind in [one, every, steps, against]:
        kind.add_argument("--head", default="")
    a = p.parse_args()
    if a.kind == "seed":
        found = read(pathlib.Path(a.run) / "compare.csv")
        rows = [[a.seed, r["method"], r["n_least"], r["before"], r["after"]] for r in found]
        write(a.csv, a.head, COLUMNS, rows)
    elif a.kind == "steps":
        rows = [r for r in read(pathlib.Path(a.run) / "metrics.csv") if r["stage"] == "rl"]
        write(a.csv, a.head, STEP, [[r[name] for name in STEP] for r in rows])
        apart = off_policy(rows)
        print("\n".join(apart[:5]) or f"{len(rows)} steps: every ratio is 1, and nothing is clipped")
        sys.exit(1 if apart else 0)
    elif a.kind == "proof":
        rows, apart = proof(a.runs)
        write(a.csv, a.head, PROOF, rows)
        print("\n".join(apart) or f"{len(rows)} runs agree")
        sys.exit(1 if apart else 0)
    else:
        rows = [row for path in a.seeds for row in read(path)]
        columns = ["method", "seeds", "before", "after", "difference", "difference_least", "difference_most"]
        table = list(summary(rows))
        write(a.csv, a.head, [*columns, "seeds_better", "seeds_worse", "sign_flip_p"], table)
        for row in table:
            print(f"{row[0]}: {row[2]:.3f} -> {row[3]:.3f} over {row[1]} seeds" + (f", {row[4]:+.3f}" if row[4] is not None else ""))


if __name__ == "__main__":
    main()
