"""Makes course.ipynb of the pages: `python docs/learn/notebook.py`. A page's Python blocks become cells, the text blocks after them their output."""

import json
import re
from pathlib import Path

HERE = Path(__file__).parent
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.M | re.S)


def pages():
    return sorted(HERE.glob("[0-9]-*.md"))


def cells(page):
    """The cells of a page, each with a name that a second run gives again."""
    text, end, found = page.read_text(encoding="utf-8"), 0, []

    def add(kind, source, **more):
        name = f"{page.stem}-{len(found)}"
        found.append({"cell_type": kind, "id": name, "metadata": {}, "source": source.strip("\n").splitlines(keepends=True), **more})

    for block in BLOCK.finditer(text):
        if text[end : block.start()].strip():
            add("markdown", text[end : block.start()])
        output = block[2] and [{"name": "stdout", "output_type": "stream", "text": block[2].splitlines(keepends=True)}]
        add("code", block[1], execution_count=None, outputs=output or [])
        end = block.end()
    add("markdown", text[end:])
    return found


def notebook():
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    content = {
        "cells": [cell for page in pages() for cell in cells(page)],
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    (HERE / "course.ipynb").write_text(notebook(), encoding="utf-8")
