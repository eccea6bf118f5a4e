#!/usr/bin/env python3
"""Compares `llm-train grade` with Math-Verify, case by case, and prints every disagreement as a row of a Markdown table.

    python differential.py LLM_TRAIN POOL.jsonl [BENCHMARK.jsonl ...] > ../../../paper/grader_disputes.md

Needs `pip install math-verify==0.9.0`. The pool is taken whole. Of the benchmarks every reference is compared with itself, with every
reference that golds_equal.txt gives it as equal, and with 1500 others drawn with a fixed seed.
A pool row says itself what is right; for a pair of references the list that was read by hand does.
The last column says why the two differ, by the class of the case and by what Math-Verify read.
"""
import json
import logging
import pathlib
import random
import re
import subprocess
import sys

logging.disable(logging.CRITICAL)
from math_verify import parse, verify  # noqa: E402

HERE = pathlib.Path(__file__).parent
IN_MATH = re.compile(r"(?<!\\)\$|\\\(|\\\[|\\boxed")


def read(text):
    """As Math-Verify reads it: bare text is put in math mode, and read as prose where that gives nothing."""
    if IN_MATH.search(text):
        return parse(text)
    return parse(f"${text}$") or parse(text)


def theirs(gold, answer):
    try:
        a, b = read(gold), read(answer)
        return bool(verify(a, b)), a, b
    except Exception as error:  # an oracle that fails is an answer too
        return False, [type(error).__name__], []


WHY = {
    "integer": "a spelling of a number that it reads as a product or in pieces",
    "mixed number": "it does not read a mixed number in plain text",
    "decimal": "repeating digits are not read; and it rounds to six places, where we ask that every digit written be right",
    "scientific": "it reads the e of 4.5e33 as Euler's number, or compares a float exactly",
    "currency": "it drops the unit, and two units that differ with it",
    "degrees": "it drops the degree sign also where the angle has to be known",
    "unit": "it drops the unit, and two units that differ with it; plain units become products",
    "text": "it compares texts literally",
    "choice": "it does not read a letter with the text of its choice behind it",
    "pi and e": "it does not simplify the constant, or does not read the function",
    "trigonometry": "it takes degrees for radians",
    "complex": "its i is a symbol, not the imaginary unit",
    "polynomial": "it folds capital letters, or does not read `**`",
    "function of symbols": "it does not simplify so far; its symbols are complex, ours positive",
    "set and list": "it reads a comma between single digits as a decimal comma, or a list as a set",
    "interval": "it compares an inequality with an interval in one order of the two only",
    "union": "inequalities joined by a word are a set to it",
    "matrix": "a column is no point to it; we accept both spellings of a vector",
    "equation": "the name of an argument counts for it; a label with an index is not read",
    "inequality": "it does not scale or turn the relation round",
    "plus-minus": "it does not read the double sign inside a fraction",
    "base": "it takes the digits as decimal ones and drops the base",
    "not gradable": "it reads two numbers side by side as one of them; we refuse",
    "radical": "the real cube root, or the sign of a root, is not read",
    "power": "a power of a power, or zero to the power zero, which we leave undefined",
    "tuple": "two numbers in angle brackets are a decimal to it",
    "known bugs": "a pair in brackets is not a set of two",
    "fraction": "a value cut off, not rounded",
    "spacing and delimiters": "it does not read the command",
    "percent": "a percent sign",
    "rational function": "part of the product is dropped",
}


# Cases in which both sides have a rule and neither is wrong by its own.
CONVENTION = {
    ("\\sqrt{2}", "1.41421357"), ("5 \\text{ dollars}", "5 \\text{ cents}"), ("180^\\circ", "\\pi"), ("3R^2", "3r^2"),
    ("90^\\circ", "\\frac{\\pi}{2}"), ("\\frac{\\pi}{4}", "45^\\circ"), ("5 \\text{ cm}", "5 \\text{ m}"), ("2^3^2", "512"),
    ("5 \\text{ cm}^2", "5 \\text{ cm}^3"), ("7 \\text{ feet}", "7\\text{ inches}"), ("\\sqrt[3]{-8}", "-2"), ("0^0", "1"),
    ("\\ln(ab)", "\\ln a+\\ln b"), ("\\sqrt{\\frac{x}{y}}", "\\frac{\\sqrt{x}}{\\sqrt{y}}"), ("-2,-2", "-2"), ("5", "2 3"),
    ("\\sqrt{4 \\pi G \\rho_{0} r_{0}^{2}}", "2 r_0\\sqrt{\\pi G\\rho_0}"), ("f(x)=2x", "f(n)=2n"), ("f(n)=n", "f(x)=x"),
    ("-\\tau \\ln \\Delta", "\\tau\\ln\\frac{1}{\\Delta}"), ("(1,2)", "\\{1,2\\}"), ("52_8", "101010_2"), ("1950^\\circ C", "1950"),
    ("\\begin{pmatrix} -2 \\\\ -14 \\\\ -7 \\end{pmatrix}", "(-2,-14,-7)"), ("$f(n)=n$", "$f(z)=z$"), ("1950", "1950^\\circ C"),
}


def reference_pairs(paths):
    golds = sorted({str(a).strip() for p in paths for line in open(p) for a in json.loads(line)["answers"]})
    equal = set()
    for line in (HERE / "golds_equal.txt").read_text().splitlines():
        a, b = re.match(r'("(?:[^"\\]|\\.)*") = ("(?:[^"\\]|\\.)*")$', line).groups()
        equal.add((json.loads(a), json.loads(b)))
    pairs = {(g, g) for g in golds} | equal
    draw = random.Random(5)
    while len(pairs) < len(golds) + len(equal) + 1500 and golds:
        pairs.add(tuple(sorted(draw.sample(golds, 2))))
    row = lambda a, b: {"class": "references", "gold": a, "answer": b, "equal": a == b or (a, b) in equal}
    return [row(a, b) for a, b in sorted(pairs)]


def cell(text):
    return "`" + str(text).replace("|", "\\|").replace("\n", " ") + "`"


def main():
    binary, pool, *benchmarks = sys.argv[1:]
    cases = [json.loads(line) for line in open(pool)] + reference_pairs(benchmarks)
    sent = "".join(json.dumps({"gold": c["gold"], "answer": c["answer"]}) + "\n" for c in cases)
    done = subprocess.run([binary, "grade"], input=sent, capture_output=True, text=True, check=True)
    ours = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(ours) == len(cases)
    rows, kinds, agreed = [], {}, {}
    for case, our in zip(cases, ours):
        found, a, b = theirs(case["gold"], case["answer"])
        both = agreed.setdefault(case["class"], [0, 0])
        both[1] += 1
        if found == (our["equal"] is True):
            both[0] += 1
            continue
        right = "ours" if our["equal"] == case["equal"] else "Math-Verify"
        if (case["gold"], case["answer"]) in CONVENTION:
            right = "convention"
        kinds[right] = kinds.get(right, 0) + 1
        why = WHY.get(case["class"])
        if why is None:
            why = "it reads nothing in one of them" if not a or not b else "it reads another value in one of them"
            if our["equal"] and a and b and case["gold"] != case["answer"]:
                why = "it does not see that these spellings mean one value"
        read_as = f"{cell(a[0] if a else '')} and {cell(b[0] if b else '')}"
        rows.append(
            f"| {case['class']} | {cell(case['gold'])} | {cell(case['answer'])} | {json.dumps(our['equal'])} | "
            f"{json.dumps(found)}: {read_as} | {right} | {why} |"
        )
    total = sum(n for _, n in agreed.values())
    print("# Where this grader and Math-Verify 0.9.0 disagree\n")
    print(f"Written by `differential.py`. {total} cases, {len(rows)} disagreements; by the judgement of the pool and of")
    print(f"`golds_equal.txt`, both of which we wrote: {', '.join(f'{k} {n}' for k, n in sorted(kinds.items()))}. A row")
    print("marked `convention` is one where both sides follow a rule that can be defended.")
    print("Math-Verify has no third verdict; `null` of ours counts as agreement with its `false`.\n")
    print("| class | agree | of |\n| --- | --- | --- |")
    for name, (n, of) in sorted(agreed.items()):
        print(f"| {name} | {n} | {of} |")
    print("\n| class | gold | answer | ours | Math-Verify, and what it read | right | why |\n| --- | --- | --- | --- | --- | --- | --- |")
    print("\n".join(rows))


main()
