"""Writes the benchmarks of the paper's evaluation as JSON lines, from the Arrow files that understand-r1-zero evaluates.

    pip install pyarrow
    python llm/scripts/benchmarks.py understand-r1-zero/datasets/evaluation_suite benchmarks

A file that is not the one of commit dfca49dd460ee7cc8e4a5a162c876a7fd6993b87 is refused; --other takes it all the same.
"""

import hashlib
import json
import pathlib
import sys

# Our name, theirs, and the SHA-256 of their Arrow file; docs/reproduce.md repeats them.
FILES = [
    ("aime24", "aime", "861514ca0262d6c03d36d463ee33fe4465b0b85c0593f5df67bc75a717f50e5a"),
    ("amc", "amc", "5e16d28683b95782686413eadd12560d051b2d4ac8aef456b500891ccabd5233"),
    ("math500", "math", "d383d13c807e2904d0db6f8d98496a0574c0a1d51f40331b920c849cf226ef5a"),
    ("minerva", "minerva", "23d05849fd365b9dae2ce5f6c4b6af3baecbbd0a88623abec3f0692d346bae2a"),
    ("olympiad", "olympiad_bench", "1b3e77da96c15b3f51fdcda4c86d6cb4dc698f223eea6f80c06a44af32e85455"),
]


def rows(path):
    """Yields problem and accepted answers of each row, as they are published."""
    import pyarrow

    with pyarrow.memory_map(str(path)) as source, pyarrow.ipc.open_stream(source) as stream:
        for row in stream.read_all().to_pylist():
            answer = row["answer"]
            yield {"problem": row["problem"], "answers": answer if isinstance(answer, list) else [answer]}


def main(words):
    other = "--other" in words
    words = [word for word in words if word != "--other"]
    if len(words) != 2:
        sys.exit(__doc__)
    suite, out = map(pathlib.Path, words)
    texts = {}
    for name, theirs, expected in FILES:
        path = suite / theirs / "data-00000-of-00001.arrow"
        if not path.is_file():
            sys.exit(f"{path}: no such file; name the folder evaluation_suite of a clone of understand-r1-zero")
        found = hashlib.sha256(path.read_bytes()).hexdigest()
        if found != expected and not other:
            sys.exit(f"{path}: SHA-256 {found}, not {expected}; check out the commit, or give --other")
        texts[name] = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows(path))
    out.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (out / f"{name}.jsonl").write_text(text, encoding="utf-8")
        print(f"{out / name}.jsonl: {text.count(chr(10))} problems")


if __name__ == "__main__":
    main(sys.argv[1:])
