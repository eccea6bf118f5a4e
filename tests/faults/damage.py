"""Flipped bits, files cut short, and links: a reader gives what it gave before or refuses the file by name, and nothing outside changes."""

import shutil
from pathlib import Path

from common import COIN, LLM_TRAIN, VARIANTS, damage, difference, last_line, run, tree

ASKED = '{"ids":[5,17,20]}\n'
# Files without a checksum, which a person may edit: a changed byte may change what is read, but ends no program.
OPEN = {"config.toml", "id", "lock", "summary.json", "eval.toml", "problems.jsonl", "results.csv", "report.html"}
EVAL = ["--benchmarks", "tiny:addition", "--limit", "6", "--samples", "3", "--temperature", "1", "--max-new-tokens", "8", "--threads", "1", "--quiet"]


def readers(lora):
    """Every command that reads a run `r` (with steps {last} and {other}): its words and what it is asked; results go into `out`."""
    found = {
        "score": (["score", "--model", "r"], ASKED),
        "score step": (["score", "--model", "{last}"], ASKED),
        "score other step": (["score", "--model", "{other}"], ASKED),
        "generate": (["generate", "--model", "r", "--prompt", "1+1", "--max-new-tokens", "4", "--threads", "1"], ""),
        "generate step": (["generate", "--model", "{last}", "--task", "2", "--max-new-tokens", "4", "--threads", "1"], ""),
        "dry run": (["train", "--dry-run", "model.checkpoint={last}"], ""),
        "export": (["export", "--model", "r", "--out", "out"], ""),
        "export step": (["export", "--model", "{last}", "--out", "out"], ""),
        "metrics": (["records", "r", "--format", "metrics", "--out", "out"], ""),
        "trl": (["records", "r", "--format", "trl", "--out", "out"], ""),
        "hf": (["records", "r", "--format", "hf", "--out", "out"], ""),
        "doctor": (["doctor", "r"], ""),
        "plot": (["plot", "r"], ""),
        # Of a run that is done, that was killed before its summary, and that was killed after an earlier checkpoint.
        **{name: (["train", "--run", "r", *VARIANTS["lora" if lora else "best"], "--quiet"], "") for name in ("resume", "resume end", "resume step")},
        "train from": (["train", "--run", "out", *(word for word in COIN if not word.startswith(("model.", "sft.", "rl.steps"))), "model.checkpoint={last}",
                        "sft.steps=0", "rl.steps=1", "--quiet"], ""),
        "eval": (["eval", "--model", "{last}", *EVAL, "--out", "out"], ""),
    }
    if lora:
        found["merge"] = (["export", "--model", "{last}/reference", "--adapter", "{last}/adapter", "--out", "out"], "")
        found["export merged"] = (["export", "--model", "{last}", "--merge", "--out", "out"], "")
    else:
        found["score best"] = (["score", "--model", "r/best"], ASKED)
    return found


# The directories that readers write, where it is not `out`.
OWN = {"resume": "r", "resume end": "r", "resume step": "r", "plot": "r", "continue": "r"}


def outcome(where, reader, words, asked):
    """How a reader ends, and what it leaves: status, standard output, files."""
    steps = sorted(path.name for path in (where / "r/checkpoints").glob("step-*")) or [""]
    names = {"last": f"r/checkpoints/{steps[-1]}", "other": f"r/checkpoints/{steps[0]}"}
    done = run([LLM_TRAIN, *(str(word).format(**names) for word in words)], where, stdin=asked)
    left = tree(where / OWN.get(reader, "out"), every=reader == "plot", place=f"{where}/")
    kept = [name for name in left if reader != "plot" or name.startswith("figures")]
    return done, (done.status, "" if reader.startswith("resume") else done.out.replace(f"{where}/", ""), {name: left[name] for name in kept})


def flips(bench, size, random):
    """A flipped bit, or a file cut short, anywhere in a run or an evaluation, and every command that reads it"""
    expected = {}

    def source(kind):
        if kind != "evaluation":
            return bench.reference(kind)
        def make(directory):
            for name, seed in (("r", "0"), ("other", "1")):
                done = run([LLM_TRAIN, "eval", "--model", bench.reference("best") / "r", *EVAL, "--seed", seed, "--out", name], directory)
                assert done.status == 0, done.err
        return bench.once("evaluation", make)

    evaluation = {
        "paired": (["compare", "r", "other"], ""),
        "inspect": (["records", "r", "--format", "inspect", "--out", "out"], ""),
        "continue": (["eval", "--model", bench.reference("best") / "r", *EVAL, "--out", "r"], ""),
    }
    tables = {"best": readers(False), "lora": readers(True), "evaluation": evaluation}
    pairs = [(kind, reader) for kind, table in tables.items() for reader in table] + [("evaluation", reader) for reader in evaluation] * 4
    for i in range([60, 3000, 6000][size]):
        kind, reader = pairs[i % len(pairs)]
        directory = source(kind)

        def trial(where, random, kind=kind, reader=reader, directory=directory):
            def prepare(to):
                shutil.copytree(directory, to, symlinks=True, dirs_exist_ok=True)
                if reader == "continue":  # as a kill after the fourth problem leaves it
                    for log in (to / "r").glob("*/completions.jsonl"):
                        log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:12]))
                if reader in ("resume end", "resume step"):
                    for mark in ("r/summary.json", "r/end.json"):
                        (to / mark).unlink()
                if reader == "resume step":
                    shutil.rmtree(max((to / "r/checkpoints").glob("step-*")))
                return to
            if (kind, reader) not in expected:
                whole = where / "whole"
                whole.mkdir()
                found = outcome(prepare(whole), reader, *tables[kind][reader])[1]
                expected[kind, reader] = found
            prepare(where)
            # Weights and moments are most of the bytes, but each file is as likely as another.
            files = [path for path in (where / "r").rglob("*") if path.is_file() and path.stat().st_size and "figures" not in path.parts]
            path = random.choice(sorted(files)).relative_to(where)
            word = damage(where / path, random)
            left = where / path
            spoilt = left.read_bytes()
            done, found = outcome(where, reader, *tables[kind][reader])
            if reader.startswith("resume") and left.exists() and left.read_bytes() == spoilt and "/step-" in str(path):
                name = str(path.relative_to("r"))  # an earlier checkpoint is left as it is
                found[2].update({name: whole for whole in [expected[kind, reader][2].get(name)] if whole})
            if done.crash():
                return f"{path} {word}: {done.crash()}"
            if found[0] != expected[kind, reader][0]:
                return None if path.name in OPEN or path.name in done.err or "under way" in done.err else \
                    f"{path} {word}: refused without its name: {last_line(done.err)}"
            if path.name in OPEN or found == expected[kind, reader]:
                return None
            return f"{path} {word}: another result, silently: {difference(expected[kind, reader][2], found[2]) or 'its output'}"
        yield f"{kind}, {reader}", trial


def links(bench, size, random):
    """A link to a file or folder outside, at every place of a run and of an evaluation, and the commands that write there"""
    runs, evals = bench.reference("best") / "r", bench.once("evaluated", lambda directory: run(
        [LLM_TRAIN, "eval", "--model", bench.reference("best") / "r", *EVAL, "--out", "r"], directory)) / "r"
    cases = []
    for kind, whole in (("run", runs), ("evaluation", evals)):
        names = [str(path.relative_to(whole)) for path in whole.rglob("*")]
        names += [f"{name}.tmp" for name in names if "/" not in name] + ["lock", "figures", "eval", "rollout", "eval.toml.tmp",
                  "checkpoints/.new-step-00000002", "checkpoints/.old-step-00000002", "checkpoints/step-00000016", "summary.json.tmp"]
        for name in sorted(set(names)):
            for begun in (False, True):
                cases += [(kind, whole, name, begun, to) for to in ("file", "folder", "nothing")]
    random.shuffle(cases)
    for i in range([20, 200, 400][size]):
        kind, whole, name, begun, to = cases[i % len(cases)]
        model = bench.reference("best") / "r"

        def trial(where, random, kind=kind, whole=whole, name=name, begun=begun, to=to):
            out, outside = where / "r", where / "outside"
            out.mkdir()
            if begun:
                shutil.copytree(whole, out, dirs_exist_ok=True)
                if random.random() < 0.5:
                    for mark in ("summary.json", "end.json"):
                        (out / mark).unlink(missing_ok=True)
            elif kind == "run":
                for mark in ("config.toml", "id"):
                    shutil.copy(whole / mark, out / mark)
            # Someone else's folder and file, of the names that this program writes.
            outside.mkdir()
            for place in [path.relative_to(whole) for path in whole.rglob("*") if path.is_file()] + [Path("thesis.tex"), Path("weights-1/thesis.tex")]:
                for file in {outside / place, outside / place.name, outside / Path(*place.parts[1:])} - {outside}:
                    if not file.is_dir():
                        file.parent.mkdir(parents=True, exist_ok=True)
                        file.write_text(f"thesis: {place}\n" * 50)
            before, at = tree(outside, every=True), out / name
            if at.is_dir():
                shutil.rmtree(at)
            at.unlink(missing_ok=True)
            try:
                at.parent.mkdir(parents=True, exist_ok=True)
                at.symlink_to({"file": outside / "thesis.tex", "folder": outside, "nothing": outside / "absent"}[to])
            except OSError:
                return None  # a file is in the way, since another link took its place
            commands = [["eval", "--model", model, *EVAL, "--out", "r"]] if kind == "evaluation" else \
                [["train", "--run", "r", *VARIANTS["best"], "--quiet"], ["plot", "r"], ["eval", "--model", "r", *EVAL]]
            for words in commands:
                done = run([LLM_TRAIN, *words], where)
                after = {name: tree(outside, every=True).get(name) for name in before}
                if done.crash() or after != before:
                    return f"{words[0]}: {done.crash() or difference(before, after)}"
            if to == "nothing" and (outside / "absent").exists() and name != "checkpoints":
                return "made a file outside"
        yield f"{kind} {'continued' if begun else 'new'}, {name} a link to {to}", trial


CLASSES = [flips, links]
