#!/usr/bin/env python3
"""ratios.py OURS THEIRS... [--csv FILE] [--head TEXT]: how long their step takes for each second of ours, by phase.

Each file holds JSON lines of `llm-train bench` or torch_step.py; the last JSON line of a file counts. A ratio above 1 says that ours is
faster. A step of another shape, batch, dtype or device is not the same step: the table says what differs.
"""

import argparse
import csv
import json
import sys

PHASES = ["generate", "reference", "fwd_loss", "backward", "logprob_loss", "optimizer", "step"]
SAME = ["model", "device", "dtype", "prompts", "group", "prompt_tokens", "completion", "recompute", "params"]


def last(path):
    lines = [line for line in open(path, encoding="utf-8") if line.lstrip().startswith("{")]
    if not lines:
        sys.exit(f"ratios.py: {path}: no JSON line; must hold the output of llm-train bench or torch_step.py")
    try:
        found = json.loads(lines[-1])
    except json.JSONDecodeError as error:
        sys.exit(f"ratios.py: {path}: {error}")
    for key, value in found.get("settings", {}).items():
        found.setdefault({"shape": "model", "new_tokens": "completion", "recompute_layers": "recompute"}.get(key, key), value)
    found["dtype"] = {"bfloat16": "bf16", "float32": "f32"}.get(found.get("dtype"), found.get("dtype"))
    if not isinstance(found.get("wall_s"), dict):
        sys.exit(f"ratios.py: {path}: wall_s is missing; must be seconds by phase")
    return found


def differences(ours, theirs):
    """Settings that both name and that are not the same."""
    both = [k for k in SAME if ours.get(k) is not None and theirs.get(k) is not None]
    return [f"{k}: {ours[k]} and {theirs[k]}" for k in both if str(ours[k]) != str(theirs[k])]


def table(ours, theirs):
    """Phase, our seconds, their seconds, theirs over ours; then tokens per second and memory, where both tell."""
    rows = []
    for phase in PHASES:
        a, b = ours["wall_s"].get(phase), theirs["wall_s"].get(phase)
        if a and b:
            rows.append((f"{phase} s", a, b, b / a))
    for key in ["rollout_tok_per_s", "update_tok_per_s"]:
        a, b = ours.get(key), theirs.get(key)
        if a and b:
            rows.append((key, a, b, a / b))
    a, b = ours.get("peak_device_mib"), theirs.get("peak_device_mib")
    if a and b:
        rows.append(("peak_device_mib", a, b, b / a))
    return rows


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("ours")
    p.add_argument("theirs", nargs="+")
    p.add_argument("--csv", metavar="FILE")
    p.add_argument("--head", default="", help="the comment line of the CSV")
    a = p.parse_args()
    ours, written = last(a.ours), []
    for path in a.theirs:
        theirs = last(path)
        name = theirs.get("impl", path)
        apart = differences(ours, theirs)
        print(f"{ours.get('impl', a.ours)} against {name}" + (f"; not the same step: {'; '.join(apart)}" if apart else ""))
        for row in table(ours, theirs):
            print("  {:20} {:>12.5g} {:>12.5g} {:>8.3f}".format(*row))
            written.append([name, *row, "; ".join(apart)])
    if a.csv:
        with open(a.csv, "w", newline="", encoding="utf-8") as out:
            if a.head:
                out.write(f"# {a.head}\n")
            lines = csv.writer(out, lineterminator="\n")
            lines.writerow(["against", "figure", "ours", "theirs", "ratio", "differs"])
            lines.writerows(written)


if __name__ == "__main__":
    main()
