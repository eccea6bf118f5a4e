"""A reward for `reward.command`: right answers that are short.

A line per response comes in: {"prompt": .., "completion": .., "gold": .., "tokens": .., "token_ids": [..]}.
A number per line goes out; `null` leaves the response without this component.
"""
import json
import sys

for line in sys.stdin:
    response = json.loads(line)
    right = response["gold"] in response["completion"]
    print(1.0 / (1 + response["tokens"]) if right else 0.0, flush=True)
