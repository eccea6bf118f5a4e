"""Opens exported records with the tools they are for; see read.sh."""

import csv
import datetime
import glob
import importlib.metadata
import json
import math
import os
import subprocess
import sys

work, program, transformers_python = sys.argv[1:]
found = {
    "date": datetime.date.today().isoformat(),
    "llm_train": subprocess.run([program, "--version"], capture_output=True, text=True).stdout.strip(),
    "python": sys.version.split()[0],
}
real_stdout, sys.stdout = sys.stdout, sys.stderr  # the tools print


def version(package):
    return importlib.metadata.version(package)


# What the run recorded itself.
with open(f"{work}/run/metrics.csv") as file:
    own = list(csv.DictReader(line for line in file if not line.startswith("#")))

import pandas  # noqa: E402

table = pandas.read_csv(f"{work}/metrics/metrics.csv")
lines = pandas.read_json(f"{work}/metrics/metrics.jsonl", lines=True)
assert list(table["step"]) == list(range(1, 25)) == list(lines["step"])
assert math.isclose(table["rl/reward"].dropna().iloc[-1], float([row for row in own if row["stage"] == "rl"][-1]["reward"]))
found["metrics"] = {"reader": f"pandas {version('pandas')}", "rows": len(table), "columns": len(table.columns)}

import trackio  # noqa: E402

trackio.import_csv(f"{work}/metrics/metrics.csv", project="grpo-lambda", name="run")
from trackio.sqlite_storage import SQLiteStorage  # noqa: E402

logs = SQLiteStorage.get_logs("grpo-lambda", "run")
assert len(logs) == 24, len(logs)
found["trackio"] = {"reader": f"trackio {version('trackio')}", "rows": len(logs)}

# The same run followed by its script, as if it were under way.
follow = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../examples/track.py")
for tracker in ["trackio", "wandb"]:
    environment = {**os.environ, "WANDB_MODE": "offline", "WANDB_DIR": work}
    subprocess.run([sys.executable, follow, f"{work}/run", "--to", tracker, "--project", "live"], check=True, env=environment, stdout=sys.stderr)
live = {}
for row in SQLiteStorage.get_logs("live", "run"):
    live.setdefault(row["step"], {}).update({k: v for k, v in row.items() if "/" in k})
with open(f"{work}/metrics/metrics.jsonl") as file:
    exported = {row.pop("step"): row for row in map(json.loads, file)}
assert live == exported, [(step, live.get(step), row) for step, row in exported.items() if live.get(step) != row][:1]
assert glob.glob(f"{work}/wandb/offline-run-*/*.wandb"), "wandb wrote no offline run"
found["live"] = {"reader": f"trackio {version('trackio')}, wandb {version('wandb')}", "steps": len(live)}

files = sorted(glob.glob(f"{work}/trl/completions/completions_*.parquet"))
frames = [pandas.read_parquet(path) for path in files]
assert len(frames) == 4 and all(
    list(frame.columns) == ["step", "prompt", "completion", "accuracy", "advantage"] for frame in frames
), [list(frame.columns) for frame in frames]
with open(f"{work}/run/samples.jsonl") as file:
    samples = [json.loads(line) for line in file]
texts = [text for frame in frames for text in frame["completion"]]
assert texts == [sample["response"] for sample in samples]
found["trl"] = {"reader": f"pandas {version('pandas')}, pyarrow {version('pyarrow')}", "files": len(files), "responses": len(texts)}

from huggingface_hub import ModelCard  # noqa: E402

card = ModelCard.load(f"{work}/hf/README.md")
assert card.data.library_name == "transformers" and "grpo" in card.data.tags, card.data
read_state = """
import sys, json, transformers
state = transformers.TrainerState.load_from_json(sys.argv[1])
print(json.dumps([transformers.__version__, state.global_step, state.log_history]))
"""
done = subprocess.run([transformers_python, "-c", read_state, f"{work}/hf/trainer_state.json"], capture_output=True, text=True, check=True)
transformers_version, global_step, history = json.loads(done.stdout.splitlines()[-1])
assert global_step == 24 and len(history) == 27 and "learning_rate" in history[-2], (global_step, history[-1])
found["hub"] = {
    "reader": f"huggingface_hub {version('huggingface_hub')}, transformers {transformers_version}",
    "log_history": len(history),
}

from inspect_ai.log import read_eval_log  # noqa: E402

path, = glob.glob(f"{work}/inspect/*.json")
log = read_eval_log(path)
with open(f"{work}/run/eval/summary.json") as file:
    summary = json.load(file)["benchmarks"][0]
accuracy = log.results.scores[0].metrics["accuracy"].value
assert log.status == "success" and len(log.samples) == 40, len(log.samples)
assert math.isclose(accuracy, summary["accuracy"]["value"], abs_tol=1e-12), (accuracy, summary["accuracy"])
right = sum(next(iter(sample.scores.values())).value == "C" for sample in log.samples)
found["inspect"] = {"reader": f"inspect_ai {version('inspect_ai')}", "samples": len(log.samples), "right": right}
assert os.path.basename(path).endswith(".json")

sys.stdout = real_stdout
print(json.dumps(found, indent=1))
