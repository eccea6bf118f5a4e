#!/usr/bin/env python3
"""Runs paper/protocols/pretrained.toml or pretrained_rate.toml, and writes its rows.

    pretrained.py run  PROTOCOL WORK [--program llm-train] [--checkpoint smollm2] [--also "device=cuda dtype=bf16"]
    pretrained.py rows PROTOCOL WORK paper/data/pretrained_runs.csv
    pretrained.py plan PROTOCOL

`run` makes the supervised start of a seed when it is first needed, and then every run that WORK lacks: selection first, then for each evaluation
seed all methods that choose their own rate, then the others. A run is one process of llm-train, which is killed after the exam that ends the
budget; one that was interrupted is made again from its start. `rows` reads WORK/runs and needs no model. Several machines may share an experiment:
`run --rows FILE` skips runs that have a row in FILE, and `rows` keeps the rows of its file whose runs WORK lacks. --small rehearses: two rates, one
seed to choose them and two to compare, a budget of 200 tokens, an exam a step.
"""
import argparse
import csv
import hashlib
import json
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

FIELDS = "stage method rate seed ended steps tokens length start_steps seconds curve read_curve lengths right read".split()


def problems():
    """The problems of tiny:sums, whose texts decide which of them llm-train holds out."""
    sums = [(a, "plus", b) for a in range(21) for b in range(21)]
    differences = [(a, "minus", b) for a in range(21) for b in range(a + 1)]
    return sums + differences + [(a, "times", b) for a in range(13) for b in range(13)]


def solution(a, word, b, kind):
    """A demonstration of one of three kinds, and the answer."""
    value = {"plus": a + b, "minus": a - b, "times": a * b}[word]
    sign = {"plus": "+", "minus": "-", "times": "*"}[word]
    c, d = b // 2, b - b // 2
    if kind == 0:
        text = f"{a} {sign} {b} = {value}"
    elif kind == 1:
        text = f"{a} {word} {b} is {value}. The answer is {value}."
    elif word == "times":
        text = f"First {a} * {c} = {a * c} and {a} * {d} = {a * d}, then {a * c} + {a * d} = {value}."
    else:
        half = a + c if word == "plus" else a - c
        text = f"First {a} {sign} {c} = {half}, then {half} {sign} {d} = {value}."
    return text, value


def demonstrations(seed):
    """The rows of a seed's demonstrations; a hash of seed and problem draws the kind."""
    for a, word, b in problems():
        kind = int.from_bytes(hashlib.sha256(f"{seed} {a} {word} {b}".encode()).digest()[:8], "big") % 3
        text, value = solution(a, word, b, kind)
        yield {"problem": f"What is {a} {word} {b}?", "solution": text, "answer": str(value)}


def last_number(completion):
    """The independent reader: the last number of a response that ended by itself."""
    numbers = re.findall(r"-?\d+(?:\.\d+)?", completion["text"])
    return float(numbers[-1]) if completion["finish"] == "eos" and numbers else None


def area(curve, budget):
    """The mean of the straight lines between exams over the budget; None if the exams end before."""
    if curve[-1][0] < budget:
        return None
    total = 0.0
    for (x, y), (u, v) in zip(curve, curve[1:]):
        width = min(budget, u) - x
        if width > 0:
            total += width * (y + y + (v - y) * width / (u - x)) / 2
    return total / budget


def jsonl(path):
    with open(path) as lines:
        return [json.loads(line) for line in lines if line.endswith("\n")]


def text_of(curve):
    return " ".join(f"{x}:{y:.4f}" for x, y in curve)


def points(text):
    return [(int(x), float(y)) for x, y in (point.split(":") for point in text.split())]


def cpu_seconds_of_children():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Study:
    def __init__(self, protocol, work, small=False, recorded=None):
        with open(protocol, "rb") as file:
            self.p = tomllib.load(file)
        if small:
            seeds = self.p["seeds"]
            self.p |= {"budget": 200, "rates": self.p["rates"][:2], "seeds": {"selection": seeds["selection"][:1], "evaluation": seeds["evaluation"][:2]}}
            self.p["setup"]["start"]["steps"] = 1
            rl = self.p["setup"]["rl"]
            rl["settings"] = [word for word in rl["settings"] if not word.startswith("eval.every")] + ["eval.every=1"]
        self.work = Path(work)
        self.setup = self.p["setup"]
        self.rates_of = self.setup["rates_of"]
        self.methods = {m["name"]: m for m in self.p["methods"]}
        self.rates = {}
        skipped = [*self.rates_of, *self.setup.get("recorded", [])]
        self.own = [name for name in self.methods if name not in skipped]
        self.recorded = {}
        if recorded and Path(recorded).exists():
            with open(recorded, newline="") as file:
                if file.readline() != self.heading():
                    sys.exit(f"{recorded}: these are not rows of version {self.p['version']} of the protocol; name another file")
                for row in csv.DictReader(file):
                    self.recorded[row["stage"], row["method"], float(row["rate"]), int(row["seed"])] = row

    def heading(self):
        return f"# llm/scripts/pretrained.py, protocol version {self.p['version']}\n"

    def keys(self):
        """Every run in its order: stage, method, rate (None until selection has chosen one), seed."""
        for seed in self.p["seeds"]["selection"]:
            for rate in self.p["rates"]:
                yield from (("selection", method, rate, seed) for method in self.own)
        for names in (self.own, list(self.rates_of)):
            for seed in self.p["seeds"]["evaluation"]:
                yield from (("evaluation", method, self.chosen(method), seed) for method in names)

    def folder(self, key):
        stage, method, rate, seed = key
        return self.work / "runs" / f"{stage}-{method}-{rate}-{seed}"

    def is_here(self, key):
        return (self.folder(key) / "done.json").exists()

    def is_done(self, key):
        return key in self.recorded or self.is_here(key)

    def chosen(self, method):
        """The only rate, or that with the highest mean area over the selection seeds, the later of equals."""
        method, means = self.rates_of.get(method, method), []
        if method in self.rates:
            return self.rates[method]
        if len(self.p["rates"]) == 1:
            return self.p["rates"][0]
        for rate in self.p["rates"]:
            keys = [("selection", method, rate, seed) for seed in self.p["seeds"]["selection"]]
            if not all(map(self.is_done, keys)):
                return None
            means.append((sum(self.score(key) for key in keys) / len(keys), rate))
        self.rates[method] = max(means)[1]
        return self.rates[method]

    def score(self, key):
        curve, budget = points(self.row(key)["curve"]), self.p["budget"]
        whole = area(curve, budget)
        return area(curve + [(curve[-1][0] + 1, 0.0), (budget + 1, 0.0)], budget) if whole is None else whole

    def row(self, key):
        if not self.is_here(key):
            return self.recorded[key]
        stage, method, rate, seed = key
        folder = self.folder(key)
        done = json.loads((folder / "done.json").read_text())
        log = [line for line in jsonl(folder / "metrics.jsonl") if line.get("stage") == "rl"]
        exams = [(step, jsonl(folder / f"exam-{step}.jsonl")) for step in done["exams"]]
        tokens = {step: int(sum(line["tokens"] for line in log if line["step"] < step)) for step, _ in exams}
        steps = done["exams"][-1]
        late = [line["length"] for line in log if (done["exams"][-2:-1] or [0])[0] <= line["step"] < steps]
        right = [[line["completion"]["verdict"] == "right" for line in exam] for _, exam in exams]
        read = [[last_number(line["completion"]) == float(line["problem"]["golds"][0]) for line in exam] for _, exam in exams]
        share = lambda marks: [(tokens[step], sum(m) / len(m)) for (step, _), m in zip(exams, marks)]
        bits = lambda marks: " ".join(f"{int(''.join('01'[b] for b in m), 2):0{(len(m) + 3) // 4}x}" for m in marks)
        lengths = [(tokens[step], sum(line["completion"]["tokens"] for line in exam) / len(exam)) for step, exam in exams]
        return {
            "stage": stage, "method": method, "rate": rate, "seed": seed, "ended": done["ended"], "steps": steps,
            "tokens": tokens[steps], "length": round(sum(late) / len(late), 4) if late else "", "start_steps": self.setup["start"]["steps"],
            "seconds": round(done["cpu_seconds"], 1), "curve": text_of(share(right)), "read_curve": text_of(share(read)),
            "lengths": " ".join(f"{x}:{y:.2f}" for x, y in lengths), "right": bits(right), "read": bits(read),
            "problems": [line["problem"]["problem"] for line in exams[0][1]],
        }  # fmt: skip


class Runner:
    def __init__(self, study, program, checkpoint, also):
        self.s, self.program, self.checkpoint, self.also, self.child = study, program, checkpoint, also, None
        signal.signal(signal.SIGTERM, self.stopped)
        signal.signal(signal.SIGINT, self.stopped)

    def stopped(self, *_):
        if self.child:
            self.child.kill()
        sys.exit("stopped; the same command goes on")

    def call(self, *arguments):
        self.child = subprocess.Popen([*self.program, *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        _, errors = self.child.communicate()
        if self.child.returncode:
            sys.exit(f"{' '.join(map(str, arguments))}: {errors[-2000:]}")

    def start(self, seed):
        """The supervised start of a seed, as a plain checkpoint."""
        out, run = self.s.work / "starts" / str(seed), self.s.work / "starts" / f"{seed}-sft"
        if out.exists():
            return out
        shutil.rmtree(run, ignore_errors=True)
        out.parent.mkdir(parents=True, exist_ok=True)
        data = out.parent / f"{seed}.jsonl"
        data.write_text("".join(json.dumps(row) + "\n" for row in demonstrations(seed)))
        start = self.s.setup["start"]
        common = [f"model.checkpoint={self.checkpoint}", f"task.data={data}", f"seed={seed}", f"sft.steps={start['steps']}"]
        self.call("sft", "--preset", "smollm2", "--run", run, *common, *start["settings"], *self.also)
        part = out.parent / f"{seed}.part"
        shutil.rmtree(part, ignore_errors=True)
        self.call("export", "--model", run, "--out", part)
        shutil.rmtree(run / "checkpoints")
        part.rename(out)
        return out

    def command(self, key, folder, start):
        _, name, rate, seed = key
        method = self.s.methods[name]
        own = [word if word.startswith("rl.") else f"method.{word}" for word in method.get("settings", "").split()]
        return [
            *self.program, "train", "--preset", "smollm2", "--run", folder, f"model.checkpoint={start}", f"seed={seed}", f"rl.lr={rate}",
            *self.s.setup["rl"]["settings"], f"method.name={method['method']}", *own, *self.also,
        ]  # fmt: skip

    def run(self, key):
        start, folder = self.start(key[3]), self.s.folder(key)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        with open(f"{folder}.err", "w") as errors:
            self.child = subprocess.Popen(list(map(str, self.command(key, folder, start))), stdout=subprocess.DEVNULL, stderr=errors)
        exams, tokens, before, size = [], 0, cpu_seconds_of_children(), 0
        while True:
            time.sleep(0.05)
            has_ended = self.child.poll() is not None
            metrics = folder / "metrics.jsonl"
            if not has_ended and (not metrics.exists() or metrics.stat().st_size == size):
                continue
            log = jsonl(metrics) if metrics.exists() else []
            for step in [line["step"] for line in log if line["stage"] == "eval" and line["step"] not in exams]:
                if self.keep(folder, step):
                    exams.append(step)
                    tokens = sum(line["tokens"] for line in log if line["stage"] == "rl" and line["step"] < step)
            passed = [line["step"] for line in log if line["stage"] == "eval"]
            size = metrics.stat().st_size if log and passed == exams else 0
            if tokens >= self.s.p["budget"] or has_ended:
                break
        self.child.kill()
        self.child.wait()
        seconds = cpu_seconds_of_children() - before
        if exams != passed[: len(exams)]:
            return f"failed: of the exams {passed} those of {exams} were kept"
        ended = "budget" if tokens >= self.s.p["budget"] else "not_finite"
        if ended == "not_finite" and not re.search("NaN or|has diverged", Path(f"{folder}.err").read_text()):
            return f"failed, see {folder}.err"
        shutil.rmtree(folder / "checkpoints", ignore_errors=True)
        part = folder / "done.part"
        part.write_text(json.dumps({"ended": ended, "exams": exams, "cpu_seconds": seconds}))
        part.rename(folder / "done.json")
        Path(f"{folder}.err").unlink()
        row = self.s.row(key)
        return f"{row['steps']} steps, {row['tokens']} tokens, {seconds:.0f} CPU s, accuracy {row['curve']}, read {row['read_curve'].split()[-1]}, length {row['length']}"

    def keep(self, folder, step):
        """Copies the exam of a step; false until its file is there as a whole."""
        source = folder / ("held_out_start.jsonl" if step == 0 else "held_out_latest.jsonl")
        if not source.exists():
            return False
        lines = jsonl(source)
        if not lines or lines[0]["step"] != step or len(lines) != lines[0]["of"]:
            return False
        shutil.copy(source, folder / f"exam-{step}.jsonl")
        return True


def run(study, runner):
    keys, failures = list(study.keys()), 0
    for number in range(len(keys)):
        key = list(study.keys())[number]  # with the rate that selection has chosen by now
        if study.is_done(key):
            continue
        if key[2] is None:
            print(f"{key[1]} has no rate: a selection run of it failed; start again to repeat that run first", flush=True)
            continue
        outcome = runner.run(key)
        print(f"{time.strftime('%H:%M:%S')} {number + 1}/{len(keys)} {study.folder(key).name}: {outcome}", flush=True)
        failures = failures + 1 if outcome.startswith("failed") else 0
        if failures == 3:
            sys.exit("three runs in a row failed")


def rows(study, out):
    found = [study.row(key) for key in study.keys() if study.is_done(key)]
    if len({tuple(row["problems"]) for row in found if "problems" in row}) > 1:
        sys.exit(f"{study.work}/runs: the runs hold out different problems; make them again with one program")
    starts = {}
    for row in found:
        first = tuple(row[name].split()[0] for name in ("right", "read", "lengths"))
        if starts.setdefault(int(row["seed"]), first) != first:
            sys.exit(f"{row['method']}, seed {row['seed']}: the first exam differs from that of other methods; make all runs of a seed from one start")
    part = Path(f"{out}.part")
    with open(part, "w", newline="") as file:
        file.write(study.heading())
        table = csv.DictWriter(file, FIELDS, extrasaction="ignore", lineterminator="\n")
        table.writeheader()
        table.writerows(found)
    part.rename(out)
    kept = sum(not study.is_here(key) for key in study.keys() if study.is_done(key))
    print(f"{out}: {len(found)} of {len(list(study.keys()))} runs, {kept} of them kept from the file as it was", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=["run", "rows", "plan"])
    parser.add_argument("protocol")
    parser.add_argument("work", nargs="?", default="runs/pretrained")
    parser.add_argument("out", nargs="?")
    parser.add_argument("--program", default="llm-train")
    parser.add_argument("--checkpoint", default="smollm2")
    parser.add_argument("--also", default="", help="settings of every command of llm-train")
    parser.add_argument("--rows", help="a file of rows whose runs need not be made")
    parser.add_argument("--small", action="store_true", help="a rehearsal")
    given = parser.parse_args()
    study = Study(given.protocol, given.work, given.small, given.out if given.task == "rows" else given.rows)
    if given.task == "run":
        run(study, Runner(study, given.program.split(), Path(given.checkpoint).resolve(), given.also.split()))
    elif given.task == "rows":
        rows(study, given.out or parser.error("rows needs a file: pretrained.py rows PROTOCOL WORK FILE"))
    else:
        for key in study.keys():
            print("done" if study.is_done(key) else "    ", *key)


if __name__ == "__main__":
    main()
