#!/usr/bin/env python3
"""Typesets paper.typ to paper.pdf and writes the hashes of what it read.

    python3 -m venv .venv && .venv/bin/pip install typst==0.15.2
    .venv/bin/python paper/typeset.py            # after `cargo run --bin sim`, which rewrites paper/data
    python3 paper/typeset.py --check             # needs nothing: whether paper.pdf was typeset from the data as they are
    python3 paper/typeset.py --typed FILE        # needs nothing: whether FILE has a number typed by hand or a swallowed `;`

A number of the paper comes from numbers.typ, which reads data. What may be typed: 0 to 3 in formulas, lengths of the layout, whole
numbers inside `#given[..]`, which are counts and names of a definition or of somebody else's text, and a setting in a formula of its
own, such as `$beta = 0.04$` or `$p < 0.001$`. A `;` straight after a call, as in `#count(3); then`, is refused: it ends the call and is
not printed. Write `\\;`.
"""

import hashlib
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPORT = HERE / "README.md"
SOURCES = [HERE / name for name in ("paper.typ", "numbers.typ", "draw.typ", "references.bib")]


def quoted() -> list[Path]:
    """The sources, and every file of data that they name."""
    source = "".join(path.read_text() for path in SOURCES)
    verdicts = {f"{name}_verdicts" for name in re.findall(r'(?:value|count|verdict|finding)\("(\w+)"', source)}
    tables = set(re.findall(r'table-of\("(\w+)"', source))
    outside = [HERE.parent / name for name in re.findall(r'read\("/([\w/.]+)"', source)]
    return SOURCES + [REPORT] + [HERE / "data" / f"{name}.csv" for name in sorted(verdicts | tables)] + outside


def content(path: Path) -> bytes:
    """The bytes of a file that the paper reads: of the report only the table of sentences."""
    data = path.read_bytes()
    return data.split(b"<!-- generated: sentences -->")[1].split(b"<!-- end -->")[0] if path == REPORT else data


def hashes() -> str:
    lines = (f"{hashlib.sha256(content(path)).hexdigest()}  {path.relative_to(HERE.parent)}" for path in quoted())
    return "\n".join(lines) + "\n"


def blank(pattern: str, text: str) -> str:
    """The text without what fits, its lines kept."""
    return re.sub(pattern, lambda found: re.sub(r"[^\n]", " ", found.group()), text, flags=re.DOTALL)


def closing(text: str, start: int) -> int:
    """The place of the bracket that closes the one at `start`; strings are skipped."""
    depth, i = 0, start
    while i < len(text):
        if text[i] == '"':
            i = text.index('"', i + 1)
        depth += (text[i] in "([{") - (text[i] in ")]}")
        if depth == 0:
            return i
        i += 1
    raise ValueError(f"a bracket is not closed: {text[start : start + 40]!r}")


def prose(text: str) -> str:
    """Markup without calls of code; the contents `[..]` of their arguments stay."""
    out, i = [], 0
    while i < len(text):
        call = re.compile(r"#[a-z][\w.-]*").match(text, i)
        if call is None:
            out.append(text[i])
            i += 1
            continue
        out.append(" " * len(call.group()))
        i = call.end()
        while i < len(text) and (text[i] in "([" or re.compile(r"\.[a-z]").match(text, i)):
            if text[i] == ".":
                i += len(re.compile(r"\.[\w-]+").match(text, i).group())
                continue
            end = closing(text, i)
            inside = text[i + 1 : end]
            out.append(" " + (arguments(inside) if text[i] == "(" else prose(inside)) + " ")
            i = end + 1
    return "".join(out)


def arguments(text: str) -> str:
    """Code without whole numbers; its contents as prose. A decimal stays: it is a number that belongs into data."""
    out, i = [], 0
    while i < len(text):
        if text[i] == "[":
            end = closing(text, i)
            out.append(" " + prose(text[i + 1 : end]) + " ")
            i = end + 1
        elif text[i] == "$":
            end = text.index("$", i + 1)
            out.append(text[i : end + 1])
            i = end + 1
        else:
            whole = re.compile(r"(?<![\w.])\d+(?![\d.])").match(text, i)
            out.append(" " * len(whole.group()) if whole else text[i])
            i = whole.end() if whole else i + 1
    return "".join(out)


def typed(source: str) -> list[tuple[int, str]]:
    """The numbers that are typed by hand into prose, formulas or calls, by line."""
    for pattern in (
        r"//[^\n]*",  # comments
        r"`[^`]*`",  # code
        r"#given\[(?:(?!\d[.,]\d)[^\[\]])*\]",  # counts and names, no decimals
        r"\$(?:beta|lambda|gamma|p) [=<] \d+(?:\.\d+)?\$",  # settings
        r"\n#(?:set|show|import|let)[^\n]*",  # layout
        r"[@<][a-z][\w-]*>?",  # references and labels
        r"\b\d+(?:\.\d+)?(?:pt|em|cm|fr)\b",  # lengths
    ):
        source = blank(pattern, source)
    # In a formula a small whole number is a part of it.
    plain = re.sub(r"\$[^$]*\$", lambda f: re.sub(r"(?<![\d.])[0-3](?![\d.])", " ", f.group()), prose(source))
    lines = plain.split("\n")
    return [(i + 1, number) for i, line in enumerate(lines) for number in re.findall(r"(?<![A-Za-z_\d])\d+(?:\.\d+)?", line)]


def end_of_call(text: str, i: int) -> int:
    """The place after the call of code whose name ends at `i`: its arguments, contents and fields belong to it."""
    while i < len(text):
        field = re.compile(r"\.[a-z][\w-]*").match(text, i)
        if field:
            i = field.end()
        elif text[i] in "([":
            i = closing(text, i) + 1
        else:
            break
    return i


def swallowed(source: str) -> list[tuple[int, str]]:
    """The calls that a `;` follows, by line: it ends them and is not printed."""
    for pattern in (r"//[^\n]*", r"`[^`]*`", r"\n#(?:set|show|import|let)[^\n]*"):
        source = blank(pattern, source)
    calls = ((m.start(), end_of_call(source, m.end())) for m in re.finditer(r"#[a-z][\w-]*", source))
    return [(source.count("\n", 0, i) + 1, source[i : j + 1]) for i, j in calls if source[j : j + 1] == ";"]


def bare(source: str) -> list[tuple[int, str]]:
    """The names of numbers.typ that are bound to a number in place of data, by line."""
    lines = source.split("\n")
    return [(i + 1, line) for i, line in enumerate(lines) if re.match(r'#let [\w-]+ = ["\[(]*[-−+]?\d[\d.]*["\])]*$', line)]


def faults(path: Path) -> list[str]:
    """What may not stand in a file of sentences: numbers that are typed by hand, and calls that swallow a `;`."""
    source = path.read_text()
    by_hand = [f"{path}:{n}: {number} is typed by hand; read it from data in numbers.typ" for n, number in typed(source)]
    return by_hand + [f"{path}:{n}: `{call}` swallows its semicolon; write \\;" for n, call in swallowed(source)]


def refused() -> list[str]:
    return faults(SOURCES[0]) + [
        f"{SOURCES[1]}:{n}: {line}; read it from data" for n, line in bare(SOURCES[1].read_text())
    ]


def main() -> int:
    if "--typed" in sys.argv[1:]:
        found = faults(Path(sys.argv[-1]))
        print("\n".join(found), file=sys.stderr)
        return 1 if found else 0
    missing = [path for path in quoted() if not path.is_file()]
    if missing:
        print(f"typeset.py: {missing[0]} is not there; run `cargo run --bin sim`", file=sys.stderr)
        return 2
    if found := refused():
        print("\n".join(f"typeset.py: {fault}" for fault in found), file=sys.stderr)
        return 1
    listing = HERE / "paper.sha256"
    if "--check" in sys.argv[1:]:
        if listing.is_file() and listing.read_text() == hashes():
            return 0
        print("typeset.py: paper.pdf is older than the data; run paper/typeset.py", file=sys.stderr)
        return 1
    import typst

    listing.write_text(hashes())
    typst.compile(str(HERE / "paper.typ"), output=str(HERE / "paper.pdf"), root=str(HERE.parent))
    return 0


if __name__ == "__main__":
    sys.exit(main())
