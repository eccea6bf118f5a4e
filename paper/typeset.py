#!/usr/bin/env python3
"""Typesets paper.typ to paper.pdf and writes the hashes of the data that it quotes.

    python3 -m venv .venv && .venv/bin/pip install typst==0.15.2
    .venv/bin/python paper/typeset.py            # after `cargo run --bin sim`, which rewrites paper/data and paper/figures
    python3 paper/typeset.py --check             # needs nothing: whether paper.pdf was typeset from the data as they are
"""

import hashlib
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def quoted() -> list[Path]:
    """The source, and every file of data and figures that it names."""
    source = (HERE / "paper.typ").read_text()
    verdicts = {f"data/{name}_verdicts.csv" for name in re.findall(r'(?:numbers|detail|verdict)\("(\w+)"', source)}
    tables = {f"data/{name}.csv" for name in re.findall(r'table-of\("(\w+)"', source)}
    figures = set(re.findall(r"figures/\w+\.png", source))
    return [HERE / "paper.typ"] + [HERE / name for name in sorted(verdicts | tables | figures)]


def hashes() -> str:
    lines = (f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(HERE)}" for path in quoted())
    return "\n".join(lines) + "\n"


def main() -> int:
    missing = [path for path in quoted() if not path.is_file()]
    if missing:
        print(f"typeset.py: {missing[0]} is not there; run `cargo run --bin sim`", file=sys.stderr)
        return 2
    listing = HERE / "paper.sha256"
    if "--check" in sys.argv[1:]:
        if listing.is_file() and listing.read_text() == hashes():
            return 0
        print("typeset.py: paper.pdf is older than the data; run paper/typeset.py", file=sys.stderr)
        return 1
    import typst

    listing.write_text(hashes())
    typst.compile(str(HERE / "paper.typ"), output=str(HERE / "paper.pdf"), root=str(HERE))
    return 0


if __name__ == "__main__":
    sys.exit(main())
