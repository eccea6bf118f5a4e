"""Follow a run of llm-train in Weights & Biases or trackio while it trains.

    pip install wandb            # or trackio
    python3 examples/track.py runs/tiny --to wandb
    WANDB_MODE=offline python3 examples/track.py runs/tiny --to wandb

It reads RUN/metrics.jsonl, logs each row once under the names that `llm-train records --format metrics` uses (sft/loss,
rl/reward, eval/accuracy) with the step counted through both stages, and ends when the run has its summary.json. A run
that is stopped and resumed repeats no row that was logged; start the script again to follow it further.
"""

import argparse
import importlib
import json
import pathlib
import time


def rows(path, follow):
    """Every whole line of a file as an object; `follow()` says whether more may come."""
    offset = 0
    while True:
        more = follow()
        if path.exists():
            with path.open("rb") as file:
                file.seek(0, 2)
                # A resumed run cuts its log back to the checkpoint and writes the same rows again.
                offset = min(offset, file.tell())
                file.seek(offset)
                text = file.read()
            whole = text[: text.rfind(b"\n") + 1]
            offset += len(whole)
            for line in whole.splitlines():
                yield json.loads(line)
        if not more:
            return
        time.sleep(2)


def entries(objects):
    """(step, {name: number}) for each row, RL counted on from the supervised steps."""
    supervised = 0
    for row in objects:
        step, stage = row.pop("step"), row.pop("stage")
        if stage == "sft":
            supervised = step + 1
        total = step + 1 if stage == "sft" else supervised + step + (stage == "rl")
        kept = {k: v for k, v in row.items() if stage == "eval" or not k.startswith("eval_")}
        numbers = {f"{stage}/{k.removeprefix('eval_')}": v for k, v in kept.items() if isinstance(v, (int, float))}
        yield total, numbers


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=pathlib.Path)
    parser.add_argument("--to", choices=["wandb", "trackio"], required=True)
    parser.add_argument("--project", default="grpo-lambda")
    args = parser.parse_args()
    tracker = importlib.import_module(args.to)
    tracker.init(project=args.project, name=args.run.name, config={"config.toml": (args.run / "config.toml").read_text()})
    finished = args.run / "summary.json"
    last = -1
    for step, numbers in entries(rows(args.run / "metrics.jsonl", lambda: not finished.exists())):
        if step >= last and numbers:
            tracker.log(numbers, step=step)
            last = step
    tracker.finish()


if __name__ == "__main__":
    main()
