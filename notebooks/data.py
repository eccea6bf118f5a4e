"""How the notebooks read the committed results: every file and column by name, refused if it is not there.

`sims/claims/tests/report/notebooks.rs` reads the calls of `read` out of the notebooks, so they are written with literals:
`read("learning.csv", columns=["method", "gain"])`.
"""

import difflib
from pathlib import Path

import numpy as np
import pandas as pd
from IPython.display import display

FOLDER = Path(__file__).resolve().parent.parent / "paper" / "data"

_read = {}


class DataError(Exception):
    """What a notebook asks of the data is not there; the message says what is."""


def _nearest(name, known):
    close = difflib.get_close_matches(name, list(map(str, known)), n=1, cutoff=0)
    return f"; nearest: {close[0]!r}" if close else ""


def read(file, columns):
    """The named columns of a CSV in paper/data, in this order and no others."""
    path = FOLDER / file
    if not path.is_file():
        known = sorted(p.name for p in FOLDER.glob("*.csv"))
        raise DataError(
            f"paper/data/{file} does not exist{_nearest(file, known)}. `cargo run --bin sim` writes the files."
        )
    with path.open(encoding="utf-8") as text:
        first = text.readline().strip()
    frame = pd.read_csv(path, skiprows=1 if first.startswith("#") else 0, keep_default_na=False, na_values=[""])
    for column in columns:
        if column not in frame.columns:
            raise DataError(
                f"paper/data/{file} has no column {column!r}{_nearest(column, frame.columns)}. It has {', '.join(frame.columns)}."
            )
    entry = _read.setdefault(file, {"command": first.lstrip("# "), "rows": len(frame), "columns": {}})
    entry["columns"].update({column: _summary(frame[column]) for column in columns})
    return frame[list(columns)]


def _summary(column):
    """The mean of a column of numbers (the finite ones), the number of different values of one of text."""
    if pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column):
        finite = column[np.isfinite(column)]
        return {"mean": float(f"{finite.mean():.10g}") if len(finite) else None}
    return {"different": int(column.nunique())}


def pick(frame, **wanted):
    """The rows with these values; a value (or one of a list of them) that no row has is refused by name."""
    for column, value in wanted.items():
        if column not in frame.columns:
            raise DataError(
                f"no column {column!r}{_nearest(column, frame.columns)}. There is {', '.join(frame.columns)}."
            )
        for v in value if isinstance(value, (list, tuple)) else [value]:
            if not (frame[column] == v).any():
                known = list(frame[column].drop_duplicates())
                near = _nearest(v, known) if isinstance(v, str) else ""
                raise DataError(f"no row has {column} = {v!r} here{near}. There is {', '.join(map(repr, known))}.")
        frame = frame[frame[column].isin(value if isinstance(value, (list, tuple)) else [value])]
    return frame


def only(frame, column, **wanted):
    """The one value of a column in the one row with these values."""
    rows = pick(frame, **wanted)
    if len(rows) != 1:
        raise DataError(f"{len(rows)} rows have {wanted}, where one is wanted")
    return rows[column].iloc[0]


def sign_over_tasks(row):
    """1 where a gain is shown with the tasks as the sample, -1 where a loss is: Student's t and sign flips agree. 0 elsewhere."""
    sign = (row["gain_low_over_tasks"] > 0) * 1 - (row["gain_high_over_tasks"] < 0) * 1
    return sign * (row["p_over_tasks"] <= 0.05)


def finding(holds, text):
    """Says what the data show. If they no longer do, the notebook stops here instead of saying it."""
    if not bool(holds):
        raise AssertionError(f"the committed data no longer show this: {text}")
    _say(f"**Finding:** {text}")


def say(text):
    """Says a number of the data in a sentence."""
    _say(text)


def _say(text):
    display({"text/markdown": text, "text/plain": text.replace("**", "")}, raw=True)


def sources():
    """The files that were read, and the command that makes each. Carries, unseen, what the test needs to tell stale outputs."""
    files = sorted(_read)
    lines = ["| file | rows | made by |", "| --- | --- | --- |"]
    lines += [f"| `{f}` | {_read[f]['rows']} | `{_read[f]['command']}` |" for f in files]
    seen = {f: {"rows": _read[f]["rows"], "columns": _read[f]["columns"]} for f in files}
    text = "\n".join(lines)
    display({"text/markdown": text, "text/plain": text}, raw=True, metadata={"data_read": seen})
