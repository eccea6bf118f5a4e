"""Padded rows give the results of their groups, whatever the other slots hold."""

import random
import sys
import threading

import numpy as np
import pytest
from samples import groups

import grpo_lambda
from grpo_lambda import _native

NAMES = [method.name for method in grpo_lambda.methods()]
PER_TOKEN = ("entropies", "values", "collisions", "teacher_logps", "sampler_logps", "process_rewards")


def padded(lines, seed, width=14):
    """Rows of all groups in random order, their tokens at random slots, other slots without a number."""
    rng = random.Random(seed)
    flat = [(g, i) for g, line in enumerate(lines) for i in range(len(line["rewards"]))]
    order = flat[:]
    rng.shuffle(order)
    mask = np.zeros((len(order), width))
    slots = []
    for row, (g, i) in enumerate(order):
        n = len(lines[g]["old_logps"][i])
        if rng.random() < 0.5:
            start = rng.randint(0, width - n)
            slots.append(list(range(start, start + n)))
        else:
            slots.append(sorted(rng.sample(range(width), n)))
        mask[row, slots[-1]] = 1

    def array(key):
        out = np.full((len(order), width), np.nan)
        for row, (g, i) in enumerate(order):
            out[row, slots[row]] = lines[g][key][i]
        return out

    def listed(key):
        return [lines[g][key][i] for g, i in order]

    hidden = np.full((len(order), width, 3), np.nan)
    for row, (g, i) in enumerate(order):
        hidden[row, slots[row]] = lines[g]["hidden"][i]
    extra_inputs = {key: array(key) for key in PER_TOKEN}
    extra_inputs |= {key: listed(key) for key in ("steps", "shifts", "saliencies", "reward_parts")} | {"hidden": hidden}
    tokens = np.where(mask == 1, np.nan_to_num(array("tokens")), -100).astype(np.int64)
    kwargs = dict(
        rewards=listed("rewards"),
        old_logps=array("old_logps"),
        mask=mask,
        group=[f"prompt {g}" for g, _ in order],
        ref_logps=array("ref_logps"),
        truncated=listed("truncated"),
        tokens=tokens,
        extra_inputs=extra_inputs,
    )
    return kwargs, array("logps"), order, slots


def rows(array, order, slots, g, i):
    row = order.index((g, i))
    return array[row, slots[row]]


@pytest.mark.parametrize("method", NAMES)
def test_padded_rows_are_their_groups(method):
    lines = groups(11, 6)
    kwargs, logps, order, slots = padded(lines, method)
    fixed = grpo_lambda.credit_padded(method, **kwargs)
    found = grpo_lambda.loss(fixed, logps)
    # The responses in the order of the rows.
    seen = list(dict.fromkeys(g for g, _ in order))
    places = {g: [i for h, i in order if h == g] for g in seen}
    pick = lambda line, own: {  # noqa: E731
        key: [value[i] for i in own] if isinstance(value, list) else value for key, value in line.items()
    }
    same = [pick(lines[g], places[g]) for g in seen]
    theirs = grpo_lambda.credit(method, same)
    expected = grpo_lambda.loss(theirs)
    assert found.loss == expected.loss and found.metrics == expected.metrics
    for a, g in enumerate(seen):
        for b, i in enumerate(places[g]):
            assert (rows(found.dlogps, order, slots, g, i) == expected.dlogps[a][b]).all()
            assert (rows(fixed.advantages, order, slots, g, i) == theirs.advantages[a][b]).all()
            assert (rows(fixed.weights, order, slots, g, i) == theirs.weights[a][b]).all()
    outside = kwargs["mask"] == 0
    assert (found.dlogps[outside] == 0).all() and (fixed.advantages[outside] == 0).all()


@pytest.mark.parametrize("method", NAMES)
@pytest.mark.filterwarnings("ignore:.*has no effect")
def test_micro_batches_add_up(method):
    kwargs, logps, _, _ = padded(groups(12, 5), 1)
    settings = {"beta": 0.1} if any(s.key == "beta" for m in grpo_lambda.methods() if m.name == method for s in m.settings) else {}
    fixed = grpo_lambda.credit_padded(method, **kwargs, **settings)
    whole = grpo_lambda.loss(fixed, logps)
    parts = np.array_split(np.random.default_rng(0).permutation(len(fixed)), 4)
    total, dlogps = 0.0, np.zeros_like(whole.dlogps)
    for part in parts:
        micro = grpo_lambda.credit_from_rows(
            method,
            advantages=fixed.advantages[part],
            weights=fixed.weights[part],
            old_logps=kwargs["old_logps"][part],
            mask=kwargs["mask"][part],
            eligible=None if fixed.eligible is None else fixed.eligible[part],
            ref_logps=kwargs["ref_logps"][part],
            **settings,
        )
        share = grpo_lambda.loss(micro, logps[part])
        total += share.loss
        dlogps[part] = share.dlogps
    assert total == pytest.approx(whole.loss, rel=1e-12, abs=1e-15)
    assert (dlogps == whole.dlogps).all()


@pytest.mark.parametrize("method", ["grpo", "grpo_lambda", "gspo", "reinforce_pp"])
def test_the_gradient_is_that_of_the_loss(method):
    kwargs, logps, _, _ = padded(groups(13, 2), 2)
    # Without a clip the loss has no corner that a finite difference could straddle.
    fixed = grpo_lambda.credit_padded(method, **kwargs, clip="none")
    found = grpo_lambda.loss(fixed, logps)
    for row, slot in np.argwhere(kwargs["mask"] == 1)[::7]:
        up, down = logps.copy(), logps.copy()
        up[row, slot] += 1e-6
        down[row, slot] -= 1e-6
        slope = (grpo_lambda.loss(fixed, up).loss - grpo_lambda.loss(fixed, down).loss) / 2e-6
        assert found.dlogps[row, slot] == pytest.approx(slope, rel=1e-6, abs=1e-9)


def test_single_precision_and_other_orders_are_read_as_they_are():
    kwargs, logps, _, _ = padded(groups(14, 3), 3)
    single = {**kwargs, "old_logps": kwargs["old_logps"].astype(np.float32)}
    exact = {**kwargs, "old_logps": single["old_logps"].astype(np.float64)}
    a = grpo_lambda.loss(grpo_lambda.credit_padded("grpo", **single), np.asfortranarray(logps))
    b = grpo_lambda.loss(grpo_lambda.credit_padded("grpo", **exact), logps)
    assert a.loss == b.loss and (a.dlogps == b.dlogps).all()


@pytest.mark.parametrize("method", NAMES)
def test_a_prompt_without_any_reward_gets_no_credit(method):
    lines = groups(15, 4)
    lines[2]["rewards"] = [None] * len(lines[2]["rewards"])
    kwargs, logps, order, _ = padded(lines, 4)
    fixed = grpo_lambda.credit_padded(method, **kwargs)
    own = [row for row, (g, _) in enumerate(order) if g == 2]
    if method not in ("ppo", "spo_chain", "vine_ppo", "spo_tree"):  # these do not compare rewards
        assert (fixed.advantages[own] == 0).all()
    assert np.isfinite(grpo_lambda.loss(fixed, logps).dlogps).all()


@pytest.mark.parametrize("method", NAMES)
@pytest.mark.filterwarnings("ignore:.*has no effect")
def test_a_row_without_a_token_counts_with_its_reward_and_has_no_weight(method):
    """It is a response that was cut off and masked, of any length."""
    kwargs, logps, order, _ = padded(groups(16, 4), 5)
    kwargs["truncated"] = [False] * len(order)
    own = [row for row in range(len(order)) if order[row][0] == order[0][0]][0]
    gone = {**kwargs, "mask": kwargs["mask"].copy()}
    gone["mask"][own] = 0
    garbage = logps.copy()
    garbage[own] = np.nan
    found = grpo_lambda.credit_padded(method, **gone)
    assert (found.advantages[own] == 0).all() and (found.weights[own] == 0).all()
    lost = grpo_lambda.loss(found, garbage)
    assert (lost.dlogps[own] == 0).all() and np.isfinite(lost.loss)
    # Hidden states as a list per row, in which the row is empty too.
    hidden = [states[slots] for states, slots in zip(gone["extra_inputs"]["hidden"], gone["mask"] == 1)]
    listed = grpo_lambda.credit_padded(method, **{**gone, "extra_inputs": {**gone["extra_inputs"], "hidden": hidden}})
    plain = [states.tolist() for states in hidden]
    plainly = grpo_lambda.credit_padded(method, **{**gone, "extra_inputs": {**gone["extra_inputs"], "hidden": plain}})
    assert (listed.advantages == found.advantages).all() and (plainly.advantages == found.advantages).all()
    # The same batch with the row cut off in place of empty: equal, but for methods whose credit reads the tokens of the others.
    cut = {**kwargs, "truncated": [row == own for row in range(len(order))]}
    masked = grpo_lambda.credit_padded(method, **cut, mask_truncated=True)
    others = np.arange(len(order)) != own
    assert masked.weights[others].tolist() == found.weights[others].tolist()
    if method == "opo":
        # Its baseline weighs rewards by length: no token, no weight.
        kwargs["rewards"] = [None if row == own else reward for row, reward in enumerate(kwargs["rewards"])]
        masked = grpo_lambda.credit_padded(method, **kwargs)
    if not _native.credit_reads_tokens(method, None):
        assert masked.advantages[others].tolist() == found.advantages[others].tolist()


def test_wrong_shapes_and_numbers_are_named():
    good = dict(rewards=[1, 0], old_logps=np.full((2, 3), -1.0), mask=np.ones((2, 3)), group_size=2)
    cases = [
        (dict(mask=np.ones((2, 4))), r"^old_logps has shape \[2, 3\]; must be \[2, 4\], the mask's$"),
        (dict(mask=np.full((2, 3), 0.5)), r"^mask\[0\]\[0\] = 0.5; must be 0 or 1$"),
        (dict(rewards=[1, 0, 1]), r"^group_size = 2; must divide the number of rows, 3$"),
        (dict(rewards=[1, 0, 1, 1]), r"^rewards: 4 entries for 2 rows of the mask"),
        (dict(rewards=np.array([1, np.nan])), r"^the group of rows 0, 1: rewards\[1\] = NaN; must be a finite number"),
        (dict(rewards=[None, None]), r"^the group of rows 0, 1: rewards: all 2 are missing"),
        (dict(group_size=None, group=["a", "b"]), r"^the group of row 0: rewards: the group has one response"),
        (dict(group_size=None), r"^group_size, group: give one of them"),
        (dict(group=[0, 0]), r"^group_size, group: give one of them"),
        (dict(group_size=0), r"^group_size = 0; must divide"),
        (dict(group_size=2.0), r"^group_size = 2.0; must be a whole number$"),
        (dict(group_size="2"), r"^group_size = '2'; must be a whole number$"),
        (dict(group_size=None, group=2), r"^group = a value of type int; must be a list with a label per row$"),
        (dict(group_size=None, group=[[0], [0]]), r"^group\[0\] = a value of type list; must be a text, a number"),
        (dict(group_size=None, group=[(0, [1]), (0, [1])]), r"^group\[0\] = a value of type tuple; must be a text, a number"),
        (dict(group_size=True), r"^group_size = True; must be a whole number$"),
        (dict(old_logps=np.full((2, 3), np.inf)), r"^old_logps\[0\]\[0\] = inf; must be a finite number$"),
        (dict(old_logps="x"), r"^old_logps = .*must be an array of numbers with 2 axes$"),
        (dict(old_logps=np.zeros((2, 3, 1))), r"must be an array of numbers with 2 axes$"),
        (dict(extra_inputs={"entropy": np.zeros((2, 3))}), r"^extra_inputs: `entropy`: unknown kind \(did you mean `entropies`\?\)"),
        (dict(extra_inputs={"entropies": [[0.1]]}), r"^entropies: 1 entries for 2 rows of the mask"),
        (dict(tokens=np.full((2, 3), -1)), r"^tokens\[0\]\[0\] = -1; must be a whole number"),
        (dict(truncated=[0, 1]), r"^truncated\[0\] = 0; must be true or false$"),
    ]
    for change, expected in cases:
        with pytest.raises(ValueError, match=expected):
            grpo_lambda.credit_padded("grpo", **{**good, **change})
    fixed = grpo_lambda.credit_padded("grpo", **good)
    for logps, expected in [
        (np.zeros((3, 2)), r"^logps has shape \[3, 2\]; must be \[2, 3\]$"),
        (np.full((2, 3), np.nan), r"^logps\[0\]\[0\] = NaN; must be a finite number$"),
        (None, r"^logps: missing"),
    ]:
        with pytest.raises(ValueError, match=expected):
            grpo_lambda.loss(fixed, logps)
    with pytest.raises(ValueError, match="^credit = a value of type str; must be what credit, credit_padded or credit_from_rows returned$"):
        grpo_lambda.loss("grpo", fixed.advantages)


def test_other_threads_run_while_a_loss_is_computed():
    rng = np.random.default_rng(0)
    old = -rng.exponential(size=(64, 4096))
    fixed = grpo_lambda.credit_padded("grpo_lambda", rng.random(64), old, np.ones(old.shape), group_size=8)
    order = []

    def work():
        order.append("begins")
        fixed.loss(old)
        order.append("ends")

    interval = sys.getswitchinterval()
    # The interpreter takes its lock from a thread that does not release it after this many seconds.
    sys.setswitchinterval(1000)
    try:
        thread = threading.Thread(target=work)
        thread.start()
        order.append("meanwhile")
        thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert order == ["begins", "meanwhile", "ends"]
