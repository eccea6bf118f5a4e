"""The course: every block prints what its page shows, and every question accepts its answer and no other.

UPDATE_DOCS=1 writes what is printed, the answers and the notebook.
"""

import contextlib
import io
import os
import re
import sys

import pytest
from conftest import ROOT

LEARN = ROOT / "docs/learn"
sys.path.insert(0, str(LEARN))

import notebook  # noqa: E402

ANSWER = re.compile(r"(<!-- generated: answer -->\n).*?(<!-- end -->\n)", re.S)


def printed(code, page, namespace):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, str(page), "exec"), namespace)
    return out.getvalue()


def computed(page):
    """The page with what its blocks print, and its namespace at the end."""
    namespace = {}

    def block(found):
        text = printed(found[1], page, namespace)
        return f"```python\n{found[1]}```\n" + (f"\n```text\n{text}```\n" if text else "")

    text = notebook.BLOCK.sub(block, page.read_text(encoding="utf-8"))
    truth, within = namespace["truth"], namespace["within"]
    answer = f'<details data-answer="{truth:.6g}" data-within="{within}"><summary>The answer</summary>\n\n**{truth:.4g}**\n\n'
    return ANSWER.sub(lambda found: found[1] + answer + found[2], text), namespace


@pytest.mark.parametrize("page", notebook.pages(), ids=lambda page: page.stem)
def test_a_page_shows_what_it_computes_and_checks_its_answer(page):
    text, namespace = computed(page)
    if "UPDATE_DOCS" in os.environ:
        page.write_text(text, encoding="utf-8")
    assert page.read_text(encoding="utf-8") == text, f"{page.name} is stale: run this test with UPDATE_DOCS=1 and review the difference"
    truth, within = namespace["truth"], namespace["within"]
    question = notebook.BLOCK.findall(text)[-1][0]
    for answer, says in [
        (None, "No answer yet"),
        (float(f"{truth:.4g}"), "Right."),
        (truth + 1.01 * within + 1e-9, "too large"),
        (truth - 1.01 * within - 1e-9, "too small"),
        ("ten", "no number"),
    ]:
        assert says in printed(question, page, {**namespace, "answer": answer}), f"{answer} is judged wrongly"


def test_the_notebook_is_made_of_the_pages():
    path = LEARN / "course.ipynb"
    if "UPDATE_DOCS" in os.environ:
        path.write_text(notebook.notebook(), encoding="utf-8")
    assert path.read_text(encoding="utf-8") == notebook.notebook(), "course.ipynb is stale: run python docs/learn/notebook.py"


def test_there_are_six_pages_and_each_is_on_the_first():
    index = (LEARN / "README.md").read_text(encoding="utf-8")
    assert len(notebook.pages()) == 6 and all(f"({page.name})" in index for page in notebook.pages())


