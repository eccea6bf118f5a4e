"""What is not there is refused by name: python3 test_data.py"""

from data import finding, only, pick, read

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
print(f"{len(CASES)} refusals of data.py say what is wrong")
