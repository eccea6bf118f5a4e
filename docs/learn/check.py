"""Judges a reader's answer to the question at the end of a page."""

import math
import numbers


def check(answer, truth, within):
    """Prints whether ``answer`` is at most ``within`` away from ``truth``, the value that the page computed."""
    if answer is None:
        print("No answer yet: put your number in place of None, and run both cells again.")
    elif isinstance(answer, bool) or not isinstance(answer, numbers.Real) or not math.isfinite(answer):
        print(f"{answer!r} is no number; write one, as in answer = 0.5")
    elif abs(answer - truth) <= within:
        print("Right.")
    else:
        print(f"Not yet: {answer} is too {'large' if answer > truth else 'small'}.")
