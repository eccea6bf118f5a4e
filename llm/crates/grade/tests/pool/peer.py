#!/usr/bin/env python3
"""Records what Math-Verify says of a suite in `peer/SUITE.json`: one character a case, 1 equal, 0 not, e an exception or a timeout.

    python peer.py SUITE [FOLDER OF BENCHMARKS]

Needs `pip install math-verify==0.9.0`. Bare text is put in math mode, and read as prose where it is prose, as for a user who knows
what Math-Verify reads; the time of a case is the processor time of both parses and the comparison.
"""
import importlib.metadata
import json
import logging
import re
import statistics
import sys
import time

logging.disable(logging.CRITICAL)
from cases import HERE, suite  # noqa: E402
from math_verify import ExprExtractionConfig, LatexExtractionConfig, StringExtractionConfig, parse, verify  # noqa: E402

MATH = re.compile(r"(?<!\\)\$|\\\(|\\\[|\\boxed|\\begin\{(?:align|equation|gather)")
OTHER_SCRIPT = re.compile(r"[\u0400-\u04ff\u0600-\u06ff\u0900-\u097f\u3040-\u30ff\u4e00-\u9fff]")
WORD = re.compile(r"(?<![\\A-Za-z{])[A-Za-z\u00c0-\u024f]{2,}")
NUMBER = re.compile(r"\s*[-+]?(?:\d{1,3}(?:[ ,]\d{3})+|\d*)(?:[.,]\d+)?\s*%?\s*")
LETTER = re.compile(r"\W*[A-J]\W*")


def read(text, letter):
    if letter:
        found = parse(text, [StringExtractionConfig(), LatexExtractionConfig(), ExprExtractionConfig()])
        if found:
            return found
    if MATH.search(text):
        return parse(text)
    if NUMBER.fullmatch(text):
        found = parse(text, [ExprExtractionConfig()])
    elif OTHER_SCRIPT.search(text) or len(WORD.findall(text)) >= 3:
        found = parse(text)
    else:
        found = []
    return found or parse(f"${text}$") or parse(text)


def verdict(case):
    letter = LETTER.fullmatch(case["gold"]) is not None
    try:
        return "1" if verify(read(case["gold"], letter), read(case["answer"], letter)) else "0"
    except Exception:
        return "e"


def main():
    found, times = [], []
    for case in suite(*sys.argv[1:]):
        start = time.process_time()
        found.append(verdict(case))
        times.append(time.process_time() - start)
    times.sort()
    milliseconds = {
        "mean": round(1e3 * statistics.mean(times), 2),
        "median": round(1e3 * statistics.median(times), 2),
        "p99": round(1e3 * times[int(0.99 * (len(times) - 1))], 1),
        "slowest": round(1e3 * times[-1]),
    }
    version = f"math-verify {importlib.metadata.version('math-verify')}"
    record = {"peer": version, "cases": len(found), "milliseconds": milliseconds, "verdicts": "".join(found)}
    (HERE / "peer" / f"{sys.argv[1]}.json").write_text(json.dumps(record) + "\n")


main()
