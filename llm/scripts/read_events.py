#!/usr/bin/env python3
"""Reads a run's TensorBoard events with the tensorboard package and compares them with metrics.jsonl and timing.jsonl.

    python3 llm/scripts/read_events.py runs/NAME
"""
import json
import pathlib
import struct
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

run = pathlib.Path(sys.argv[1])
events = EventAccumulator(str(run), size_guidance={"scalars": 0})
events.Reload()
rows = [json.loads(line) for name in ("metrics", "timing") for line in open(run / f"{name}.jsonl")]
expected = {}
for row in rows:
    for key, value in row.items():
        if key not in ("step", "stage"):
            value = struct.unpack("f", struct.pack("f", float("nan") if value is None else value))[0]
            expected.setdefault(f"{row['stage']}/{key}", []).append((row["step"], value))
assert sorted(expected) == sorted(events.Tags()["scalars"]), (sorted(expected), events.Tags()["scalars"])
for tag, values in expected.items():
    found = [(e.step, e.value) for e in events.Scalars(tag)]
    assert repr(found) == repr(values), (tag, found, values)
print(f"{sum(map(len, expected.values()))} scalars of {len(expected)} tags agree")
