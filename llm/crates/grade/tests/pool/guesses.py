#!/usr/bin/env python3
"""Counts what Math-Verify pays for the guesses of `guesses.rs`, on three of every twenty problems, and prints it by strategy.

    GUESSES=/tmp/guesses.jsonl cargo test -p grpo-lambda-grade --test pool guessing; python guesses.py /tmp/guesses.jsonl

Needs `pip install math-verify==0.9.0`. Texts are read by its defaults.
"""
import json
import logging
import sys

from math_verify import parse, verify

logging.disable(logging.CRITICAL)
EVERY, OF_THEM = 20, (0, 5, 10)

rows = [json.loads(line) for line in open(sys.argv[1], encoding="utf-8")]
names = list(dict.fromkeys(row["class"] for row in rows))
paid = dict.fromkeys(names, 0)
for i in range(0, len(rows), len(names)):
    if i // len(names) % EVERY not in OF_THEM:
        continue
    gold = rows[i]["gold"]
    reference = parse(gold if "$" in gold else f"${gold}$")
    for row in rows[i : i + len(names)]:
        try:
            paid[row["class"]] += verify(reference, parse(row["answer"]))
        except Exception:
            pass
for name in names:
    print(name, paid[name], sep="\t")
