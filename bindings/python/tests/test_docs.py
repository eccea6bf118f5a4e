"""The Python blocks of each page run, in order and in one session."""

import re
from pathlib import Path

import pytest
from conftest import ROOT

PAGES = [ROOT / "docs/python.md", Path(__file__).parents[1] / "README.md"]
#: Packages missing here; `tests/trl/check.py` and `tests/verl/check.py` run their blocks, and this file runs that of torch if it is there.
ELSEWHERE = ("grpo_lambda.trl", "grpo_lambda.verl", "grpo_lambda.torch")


def blocks(page):
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_blocks(page):
    namespace, run = {}, 0
    for block in blocks(page):
        if not any(module in block for module in ELSEWHERE):
            exec(compile(block, str(page), "exec"), namespace)
            run += 1
    assert run >= 1


def test_the_pages_of_the_adapters_have_their_blocks():
    found = blocks(PAGES[0])
    for module in ELSEWHERE:
        assert sum(module in block for block in found) == 1


def test_the_block_of_torch():
    pytest.importorskip("torch")
    (block,) = [block for block in blocks(PAGES[0]) if "grpo_lambda.torch" in block]
    exec(compile(block, str(PAGES[0]), "exec"), {})
