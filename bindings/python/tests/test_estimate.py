"""Every method through the wheel gives the bits and the refusals of `sim estimate`."""

import random
import warnings

import numpy as np
import pytest
from samples import as_words, group, groups, settings

import grpo_lambda

NAMES = [method.name for method in grpo_lambda.methods()]


@pytest.fixture(scope="module")
def thousand():
    return groups(1, 1000)


def plain(estimate):
    return {
        "id": estimate.id,
        "advantages": [row.tolist() for row in estimate.advantages],
        "loss": estimate.loss,
        "dlogps": [row.tolist() for row in estimate.dlogps],
        "metrics": estimate.metrics,
    }


def ours(method, lines, chosen):
    """The package's results, or the text of its refusal."""
    with warnings.catch_warnings():
        # Settings without effect are tested below.
        warnings.simplefilter("ignore")
        try:
            return [plain(found) for found in grpo_lambda.estimate(method, lines, **chosen)]
        except ValueError as error:
            return str(error)


@pytest.mark.parametrize("method", NAMES)
def test_a_thousand_groups(sim, thousand, method):
    assert ours(method, thousand, {}) == sim.estimate(method, {}, thousand)


@pytest.mark.parametrize("method", grpo_lambda.methods(), ids=lambda m: m.name)
def test_random_settings(sim, thousand, method):
    rng = random.Random(method.name)
    computed = 0
    for draw in range(6):
        chosen = settings(rng, method)
        lines = thousand[draw * 30 : draw * 30 + 30]
        theirs, found = sim.estimate(method.name, as_words(chosen), lines), ours(method.name, lines, chosen)
        if isinstance(theirs, str):
            # `sim estimate: error: [stdin:LINE: ]text` and `[groups[INDEX]: ]text`
            assert isinstance(found, str) and theirs.endswith(found.split(": ", 1)[-1]), (theirs, found)
        else:
            assert found == theirs, chosen
            computed += 1
    assert computed >= 3


@pytest.mark.parametrize("method", NAMES)
def test_groups_as_one_batch(sim, thousand, method):
    lines = thousand[:40]
    theirs = sim.estimate(method, {}, lines, "--batch")
    fixed = grpo_lambda.credit(method, lines)
    found = grpo_lambda.loss(fixed, [line["logps"] for line in lines])
    assert found.loss == grpo_lambda.loss(fixed).loss  # the groups hold the same log-probabilities
    assert sum(line["loss"] for line in theirs) == found.loss
    for g, line in enumerate(theirs):
        assert [row.tolist() for row in fixed.advantages[g]] == line["advantages"]
        assert [row.tolist() for row in found.dlogps[g]] == line["dlogps"]


def test_arrays_and_lists_are_the_same():
    line = groups(2, 1)[0]
    ragged = ("logps", "old_logps", "ref_logps", "entropies", "values", "collisions", "teacher_logps", "hidden")
    arrays = {**line, **{key: [np.array(row) for row in line[key]] for key in ragged}}
    arrays["tokens"] = [np.array(row, dtype=np.int64) for row in line["tokens"]]
    arrays["truncated"] = np.array(line["truncated"])
    for method in NAMES:
        assert ours(method, [arrays], {}) == ours(method, [line], {})


def spoilt():
    """Wrong lines of JSON that Python can express too, each with its mistake."""
    line = {"rewards": [1, 0], "logps": [[-0.5, -0.25], [-1.0]], "old_logps": [[-0.5, -0.25], [-1.0]]}
    changes = [
        {"rewards": 1},
        {"rewards": [True, 0]},
        {"rewards": ["1", 0]},
        {"rewards": []},
        {"rewards": [1]},
        {"rewards": [1, float("nan")]},
        {"rewards": [1, float("inf")]},
        {"logps": [-0.5, -0.25]},
        {"logps": [[-0.5, None], [-1.0]]},
        {"logps": [[-0.5], [-1.0]]},
        {"logps": [[], [-1.0]]},
        {"logps": [[-0.5, float("nan")], [-1.0]]},
        {"old_logps": [[-0.5, -0.25]]},
        {"old_logps": [[-0.5, "x"], [-1.0]]},
        {"old_logps": [[-0.5, -0.25], {"a": 1}]},
        {"tokens": [[1, -2], [3]]},
        {"tokens": [[1, 2], []]},
        {"tokens": [[1], [3]]},
        {"truncated": [0, 1]},
        {"truncated": [True]},
        {"steps": [[[0]], [[0, 1]]]},
        {"steps": [[[1, 0.5]], [[0, 1]]]},
        {"steps": [[[0.5, 1]], [[0, 1]]]},
        {"hidden": [[[1, 2], [1]], [[3, 4]]]},
        {"values": [[0.1], [0.2]]},
        {"shifts": [[0.1, 0.2, 0.3], [0.2]]},
        {"entropy": [[0.1, 0.2], [0.2]]},
        {"reward": [1, 0]},
        {"ref_logps": [[-0.5, -0.25]]},
    ]
    return [{**line, **change} for change in changes]


@pytest.mark.parametrize("line", spoilt(), ids=lambda line: str({k: line[k] for k in line})[:60])
def test_wrong_input_is_refused_with_the_words_of_the_command_line(sim, line):
    theirs, found = sim.estimate("grpo", {}, [line]), ours("grpo", [line], {})
    theirs, found = theirs.removeprefix("sim estimate: error: stdin:1: "), found.removeprefix("groups[0]: ")
    # `advantages` and `mask` are fields of the command line alone.
    assert theirs.replace(", advantages, mask", "") == found


def test_a_group_without_any_reward_is_refused_here_and_zero_on_the_command_line(sim):
    line = {"rewards": [None, None], "logps": [[-0.5], [-1.0]], "old_logps": [[-0.5], [-1.0]]}
    assert "reward" in ours("grpo", [line], {})
    assert sim.estimate("grpo", {}, [line])[0]["advantages"] == [[0.0], [0.0]]


@pytest.mark.parametrize(
    "method, chosen",
    [
        ("grop", {}),
        ("grpo", {"lambda": 0.9}),
        ("grpo_lambda", {"lambda": 1.5}),
        ("grpo_lambda", {"style": "recentt"}),
        ("grpo", {"mask_truncated": 2}),
        ("grpo", {"clip": "two_sided", "clip_max": 1.1}),
        ("ppo", {}),
        ("grpo", {"beta": 0.1}),
        ("grpo_lambda", {"matrix": "as_printed", "matrix_length": 1}),
    ],
)
def test_wrong_settings_are_refused_with_the_words_of_the_command_line(sim, method, chosen):
    line = {"rewards": [1, 0], "logps": [[-0.5, -0.25], [-1.0]], "old_logps": [[-0.5, -0.25], [-1.0]]}
    theirs, found = sim.estimate(method, chosen, [line]), ours(method, [line], chosen)
    theirs = theirs.removeprefix("sim estimate: error: ").removeprefix("--method: ").removeprefix("stdin:1: ")
    assert theirs.split("; `sim methods`")[0] == found.removeprefix("groups[0]: ")


def test_the_place_of_a_wrong_group_is_named():
    lines = groups(3, 3)
    lines[2]["rewards"][0] = "one"
    with pytest.raises(ValueError, match=r"^groups\[2\]: rewards\[0\] = the text `one`; must be a number"):
        grpo_lambda.estimate("grpo", lines)


def test_infinite_results_are_refused():
    huge = {"rewards": [1e308, -1e308], "logps": [[-1.0], [-1.0]], "old_logps": [[-1.0], [-1.0]]}
    with pytest.raises(ValueError, match="too large for 64-bit floats"):
        grpo_lambda.estimate("rloo", [huge])


def test_positive_log_probabilities_and_idle_settings_warn():
    line = group(random.Random(4), 0)
    line["old_logps"][1][0] = 0.25
    with pytest.warns(UserWarning, match=r"groups\[0\]: old_logps\[1\]\[0\] = 0.25 used as it is"):
        grpo_lambda.credit("grpo", [line])
    with pytest.warns(UserWarning, match="kl=k2 has no effect with beta=0"):
        grpo_lambda.credit("grpo", [group(random.Random(5), 0)], kl="k2")
