"""The registry, the grader, the statistics, and the package itself."""

import doctest
import importlib
import inspect
import pydoc
import re
import subprocess
import sys
import typing
from importlib import metadata
from pathlib import Path

import pytest

import grpo_lambda
from grpo_lambda import _native, stats


def test_the_registry_is_that_of_the_command_line(sim):
    import json

    from conftest import SIM

    theirs = json.loads(subprocess.run([SIM, "methods", "--json"], capture_output=True, text=True).stdout)
    found = grpo_lambda.methods()
    assert [m.name for m in found] == [entry["name"] for entry in theirs]
    for method, entry in zip(found, theirs):
        for field in ("title", "about", "source", "provenance"):
            assert getattr(method, field) == entry[field]
        assert list(method.extra_inputs) == entry["extra_inputs"]["default"]
        assert [s.key for s in method.settings] == [p["key"] for p in entry["params"]]
        assert [s.default for s in method.settings] == [p["default"] for p in entry["params"]]


def test_extra_inputs_follow_the_settings():
    assert grpo_lambda.extra_inputs("grpo") == []
    assert grpo_lambda.extra_inputs("grpo", beta=0.1) == ["ref_logps"]
    assert grpo_lambda.extra_inputs("high_entropy") == ["entropies"]


def test_explain_shows_the_numbers_it_is_given():
    text = grpo_lambda.explain("grpo_lambda", groups=2, group_size=4, max_len=16, lambda_=0.9, beta=0.04)
    assert "E[t,k] = 0.9^(t-k)" in text and "1/128 when all 8 responses have 16 tokens" in text
    assert "Extra inputs needed: ref_logps." in text
    with pytest.raises(ValueError, match="^group_size = 1; must be at least 2$"):
        grpo_lambda.explain("grpo", group_size=1)


@pytest.mark.parametrize("method", grpo_lambda.methods(), ids=lambda m: m.name)
def test_every_method_explains_itself(method):
    text = grpo_lambda.explain(method.name)
    assert text.startswith(method.title) and "minimise" in text


@pytest.mark.parametrize(
    "gold, answer, extract, name, reward",
    [
        ("1/2", r"\boxed{0.5}", "auto", "equal", 1.0),
        ("1/2", r"\boxed{0.25}", "auto", "different", 0.0),
        (["3", "4"], "4", "auto", "equal", 1.0),
        ("4", "the answer is 4", "boxed", "no_answer", 0.0),
        ("4", "so we get 4", "any", "equal", 1.0),
        ("4", r"\boxed{((}", "auto", "unreadable", None),
    ],
)
def test_verdicts(gold, answer, extract, name, reward):
    verdict = grpo_lambda.grade(gold, answer, extract=extract)
    assert (verdict.name, verdict.reward) == (name, reward)
    assert grpo_lambda.grade_batch([gold], [answer], extract=extract) == [verdict]


def test_a_restated_problem_and_a_cut_off_response_earn_nothing():
    asked = {"problem": "What is 18 + 3?", "extract": "free"}
    assert grpo_lambda.grade("21", "18 + 3 is a sum.", **asked).reward == 0.0
    assert grpo_lambda.grade("21", "18 + 3 = 21", **asked).reward == 1.0
    texts, ends = ["so she has 21 coins", "#### 21\n"], [True, True]
    verdicts = grpo_lambda.grade_batch(["21", "21"], texts, extract="free", cut_off=ends)
    assert [verdict.name for verdict in verdicts] == ["no_answer", "equal"]


def test_wrong_grading_input_is_named():
    for call, text in [
        (lambda: grpo_lambda.grade_batch(["1"], ["1"], problems=[]), "^problems: 0 entries for 1 answers"),
        (lambda: grpo_lambda.grade("", "1"), "^gold: the reference answer is empty"),
        (lambda: grpo_lambda.grade(3, "1"), "^gold = 3; must be a text, or a list of texts"),
        (lambda: grpo_lambda.grade("3", 1), "^answer.* = 1; must be a text$"),
        (lambda: grpo_lambda.grade("3", "1", extract="box"), "^extract = `box`; must be one of auto"),
        (lambda: grpo_lambda.grade_batch("12", ["1", "2"]), "^golds = a text; must be a list of texts$"),
        (lambda: grpo_lambda.grade_batch(["1"], ["1", "2"]), "^golds: 1 entries for 2 answers"),
        (lambda: grpo_lambda.grade_batch(["1", ""], ["1", "2"]), r"^golds\[1\]: the reference answer is empty"),
    ]:
        with pytest.raises(ValueError, match=text):
            call()


def test_statistics_by_hand():
    low, mid, high, level = stats.wilson(8, 10)
    assert (round(low, 4), mid, round(high, 4), level) == (0.4902, 0.8, 0.9433, 0.95)
    assert [round(x, 4) for x in stats.clopper_pearson(8, 10)[:3:2]] == [0.4439, 0.9748]
    assert [round(x, 3) for x in stats.t_interval([1, 3])[:3]] == [-10.706, 2, 14.706]
    assert stats.t_interval([1.0]) is None
    assert stats.paired_permutation([2, 3, 4], [1, 1, 1]) == (2.0, 0.25, True)
    assert stats.sign_flip_test([1, 1, 0, 1, 1, 0, 1]) == 2 / 32
    assert stats.holm([0.04, 0.01, 0.03]) == [0.06, 0.03, 0.06]
    assert stats.pass_at_k(4, 2, 2) == pytest.approx(5 / 6) and stats.pass_at_k(4, 3, 5) is None
    assert stats.probability_of_improvement([[1, 3]], [[1, 2]]) == 2.5 / 4
    interval = stats.bootstrap_iqm([[0.1, 0.2, 0.3, 0.4], [0.5, 0.6, 0.7, 0.8]])
    assert interval.mid == pytest.approx(0.45) and interval.low < 0.45 < interval.high
    assert stats.two_proportions(60, 100, 50, 100).mid == pytest.approx(0.1)


def test_wrong_statistics_are_refused():
    for call, text in [
        (lambda: stats.wilson(3, 2), "^successes = 3; must be at most n = 2$"),
        (lambda: stats.wilson(-1, 2), "^successes = -1; must be at least 0$"),
        (lambda: stats.wilson(1, 2, level=95), "^level = 95; must lie between 0 and 1$"),
        (lambda: stats.t_interval([1, float("nan")]), r"^values\[1\] = NaN; must be a finite number$"),
        (lambda: stats.paired_permutation([1], [1, 2]), "^y has 2 entries, x has 1; the values are pairs$"),
        (lambda: stats.holm([1.5]), r"^p\[0\] = 1.5; must lie between 0 and 1$"),
        (lambda: stats.pass_at_k(4, 2, 0), "^k = 0; must be at least 1$"),
        (lambda: stats.bootstrap_iqm([[1, 2]], resamples=0), "^resamples = 0; must be at least 1$"),
        (lambda: stats.probability_of_improvement([[1]], []), "^y has 0 tasks, x has 1"),
    ]:
        with pytest.raises(ValueError, match=text):
            call()


def test_the_stub_names_what_the_module_has():
    stub = Path(_native.__file__).with_name("_native.pyi").read_text()
    declared = set(re.findall(r"^(?:def|class) (\w+)", stub, re.M))
    assert declared == {name for name in dir(_native) if not name.startswith("_")}
    for name in ("Credit", "Mdp", "Expected"):
        body = re.search(rf"^class {name}(?:\(.*\))?:\n((?:    .*\n|\n)*)", stub, re.M)[1]
        members = set(re.findall(r"^    def (\w+)", body, re.M)) - {"__init__", "__len__", "_clip_fractions", "_loss_around"}
        assert members == {m for m in dir(getattr(_native, name)) if not m.startswith("_")}


def test_every_public_name_is_documented_and_functions_have_an_example_that_runs():
    finder, runner = doctest.DocTestFinder(recurse=False), doctest.DocTestRunner()
    own = [n for n, f in vars(stats).items() if inspect.isfunction(f) and n[0] != "_" and f.__module__ == stats.__name__]
    for owner, names in ((grpo_lambda, grpo_lambda.__all__), (stats, own)):
        for name in names:
            value = getattr(owner, name)
            assert value.__doc__ or name in ("MethodName", "__version__"), name
            if inspect.isfunction(value):
                (example,) = finder.find(value, name)
                assert example.examples or name == "grade_batch", f"{name} has no example"
                takes = set(inspect.signature(value).parameters) - {"settings"}
                # The grader's docstrings name their arguments in sentences.
                described = "Args:" in value.__doc__ and all(f"{p}:" in value.__doc__ for p in takes)
                assert described or not takes or name.startswith("grade"), (name, takes)
                assert runner.run(example).failed == 0, name


@pytest.mark.parametrize("module", ["grpo_lambda", "grpo_lambda._native"])
def test_examples_in_the_documentation_of_the_code(module):
    done = doctest.testmod(importlib.import_module(module))
    assert done.failed == 0


def test_the_names_of_methods_are_those_of_the_registry():
    assert list(typing.get_args(grpo_lambda.MethodName)) == [m.name for m in grpo_lambda.methods()]


def test_there_is_one_version():
    manifest = (Path(__file__).parents[1] / "Cargo.toml").read_text()
    version = re.search(r'^version = "(.*)"$', manifest, re.M)[1]
    assert grpo_lambda.__version__ == metadata.version("grpo-lambda") == version


def test_help_begins_with_every_function():
    text = pydoc.plain(pydoc.render_doc(grpo_lambda))
    first = text[: text.index("PACKAGE CONTENTS")]
    functions = [name for name in grpo_lambda.__all__ if inspect.isfunction(getattr(grpo_lambda, name))]
    assert len(functions) == 13 and first.count("\n") < 40
    assert [name for name in [*functions, "Mdp"] if not re.search(rf"`{name}`", first)] == []


def test_one_dependency_and_an_import_at_its_price():
    card = metadata.metadata("grpo-lambda")
    hard = [need for need in metadata.requires("grpo-lambda") if "extra ==" not in need]
    assert [re.match(r"[\w-]+", need)[0] for need in hard] == ["numpy"]
    assert card["Author"] and card["License-Expression"] and card.get_all("Project-URL") and card["Description"]
    assert {"Typing :: Typed", "Programming Language :: Python :: 3.10", "Programming Language :: Python :: 3.14"} <= set(card.get_all("Classifier"))
    loaded = "import sys, numpy; before = set(sys.modules); import grpo_lambda; print(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    beyond = {name.partition(".")[0] for name in done.stdout.split()} - set(sys.stdlib_module_names)
    assert beyond <= {"grpo_lambda", "numpy"}, beyond


def test_the_package_is_typed_and_verl_finds_it():
    assert Path(grpo_lambda.__file__).with_name("py.typed").exists()
    found = [e for e in metadata.entry_points(group="verl.plugins") if e.dist.name == "grpo-lambda"]
    assert [e.value for e in found] == ["grpo_lambda.verl"]


@pytest.mark.parametrize("groups, kind", [({"rewards": [1]}, "dict"), (3, "int"), ("rewards", "str"), (object(), "object"), (None, "NoneType")])
def test_what_is_no_list_of_groups_is_named_by_its_type(groups, kind):
    for call in (lambda: grpo_lambda.credit("grpo", groups), lambda: grpo_lambda.estimate("grpo", groups), lambda: grpo_lambda.diagnose(groups, loss=1.0)):
        with pytest.raises(ValueError, match=f"groups = a value of type {kind}; must be a list of groups, as in"):
            call()
