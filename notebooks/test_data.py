"""What is not there is refused by name, and a sign is reported by both tests alone: python3 test_data.py"""

import pandas as pd

from data import finding, only, pick, read, sign_over_tasks

CASES = [
    (
        lambda: read("lerning.csv", columns=["gain"]),
        "paper/data/lerning.csv does not exist; nearest: 'learning.csv'",
    ),
    (
        lambda: read("learning.csv", columns=["gian"]),
        "paper/data/learning.csv has no column 'gian'; nearest: 'gain'",
    ),
    (
        lambda: pick(read("clamp.csv", columns=["p", "clamp"]), clamp="off"),
        "no row has clamp = 'off' here; nearest: 'none'. There is 'none', '-0.1'",
    ),
    (lambda: pick(read("clamp.csv", columns=["p"]), clamp="none"), "no column 'clamp'; nearest: 'p'. There is p."),
    (
        lambda: only(read("clamp.csv", columns=["p", "clamp"]), "p", clamp="none"),
        "rows have {'clamp': 'none'}, where one is wanted",
    ),
    (lambda: finding(False, "GRPO wins"), "the committed data no longer show this: GRPO wins"),
]

for call, message in CASES:
    try:
        call()
    except Exception as refused:
        assert message in str(refused), f"{message!r} is not in {refused}"
    else:
        raise AssertionError(f"not refused: {message}")

reported = pd.DataFrame(
    [(0.1, 0.3, 0.04), (0.1, 0.3, 0.06), (-0.1, 0.3, 0.04), (-0.3, -0.1, 0.05)],
    columns=["gain_low_over_tasks", "gain_high_over_tasks", "p_over_tasks"],
)
assert list(sign_over_tasks(reported)) == [1, 0, 0, -1] and sign_over_tasks(reported.loc[3]) == -1
print(f"{len(CASES)} refusals of data.py say what is wrong")
