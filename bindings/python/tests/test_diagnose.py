"""The search for a convention: rows that were shuffled, and a loss on every line."""

import numpy as np
import pytest

import grpo_lambda


def batch():
    rng = np.random.default_rng(3)
    groups = []
    for rewards in ([1, 0, 0, 1], [0, 1, 0, 0], [0.5, 0, 1, 0]):
        old = [-rng.exponential(size=length) for length in rng.integers(1, 6, size=4)]
        logps = [np.minimum(row + rng.normal(0, 0.2, size=len(row)), -1e-3) for row in old]
        groups.append({"rewards": rewards, "old_logps": old, "logps": logps})
    return groups


def test_shuffled_rows_are_suspected_and_only_they():
    groups = batch()
    fixed = grpo_lambda.credit("grpo", groups)
    reported = grpo_lambda.diagnose(groups, advantages=fixed.advantages)[0]
    assert reported.matches and reported.note == ""
    # Rows of the whole batch in another order, every field in the same way.
    places = [(g, i) for g in range(3) for i in range(4)]
    order = np.random.default_rng(0).permutation(len(places))
    pick = lambda nested: [[nested[g][i] for g, i in (places[k] for k in part)] for part in np.split(order, 3)]  # noqa: E731
    columns = {key: pick([group[key] for group in groups]) for key in groups[0]}
    shuffled = [{key: column[g] for key, column in columns.items()} for g in range(3)]
    reported = grpo_lambda.diagnose(shuffled, advantages=pick(fixed.advantages))[0]
    assert not reported.matches and "are the rows of one prompt together? TRL shuffles" in reported.note
    # Numbers that are wrong in another way are no shuffle.
    twice = [[2 * row for row in rows] for rows in fixed.advantages]
    reported = grpo_lambda.diagnose(groups, advantages=twice)[0]
    assert not reported.matches and reported.note == ""
    raw = [[np.full(len(row), reward) for reward, row in zip(g["rewards"], g["logps"])] for g in groups]
    assert grpo_lambda.diagnose(groups, advantages=raw)[0].note == ""


@pytest.mark.parametrize("reduction", ["token_mean", "response_mean"])
def test_a_loss_on_every_line_is_the_batch_s_and_shares_add_up(reduction):
    groups = batch()
    fixed = grpo_lambda.credit("grpo", groups, reduction=reduction)
    loss = grpo_lambda.loss(fixed).loss
    wanted = f"grpo reduction={reduction}"
    for given in (loss, [loss], [loss] * 3, [0.25 * loss, 0.5 * loss, 0.25 * loss]):
        found = grpo_lambda.diagnose(groups, advantages=fixed.advantages, loss=given)[1]
        assert any(m.command == wanted and m.factor == 1.0 for m in found.matches), (given, found)
        assert ("on all 3 lines" in found.note) == (given == [loss] * 3)
    # Equal shares, whose sum alone is explained.
    found = grpo_lambda.diagnose(groups, advantages=fixed.advantages, loss=[loss / 3] * 3)[1]
    assert any(m.command == wanted for m in found.matches) and found.note == ""


def test_a_factor_of_accumulation_is_found_for_a_loss_too():
    groups = batch()
    fixed = grpo_lambda.credit("grpo", groups)
    found = grpo_lambda.diagnose(groups, advantages=fixed.advantages, loss=4 * grpo_lambda.loss(fixed).loss)[1]
    assert any(m.command == "grpo reduction=response_mean" and m.factor == 4.0 for m in found.matches), found
    found = grpo_lambda.diagnose(groups, advantages=fixed.advantages, loss=0.917 * grpo_lambda.loss(fixed).loss)[1]
    assert not found.matches


def test_the_conventions_are_those_of_the_page():
    found = grpo_lambda.conventions()
    assert len(found) > 70 and {c.framework for c in found} >= {"TRL", "verl", "OpenRLHF", "NeMo-RL"}
    for c in found:
        if c.method:
            grpo_lambda.extra_inputs(c.method, **c.settings)


def test_a_mean_of_each_micro_batch_is_named_where_the_parts_are_given():
    groups, parts = batch(), [[0, 1, 2, 1], [2, 0, 0, 1], [1, 2, 0, 2]]
    # A sum over the tokens of a response over 12 responses, as shares of the tokens of its micro-batch, one of three.
    summed = grpo_lambda.credit("grpo", groups, reduction="response_sum")
    tokens = np.zeros(3)
    for group, of_group in zip(groups, parts):
        for row, part in zip(group["logps"], of_group):
            tokens[part] += len(row)
    rows = zip(grpo_lambda.loss(summed).dlogps, parts)
    dlogps = [[12 * row / (3 * tokens[part]) for row, part in zip(of_group, own)] for of_group, own in rows]
    _, found = grpo_lambda.diagnose(groups, advantages=summed.advantages, dlogps=dlogps, parts=parts)
    best = found.matches[0]
    assert best.of_parts and best.command == "grpo reduction=token_mean" and "TRL loss_type=bnpo" in best.labels, found
    assert not grpo_lambda.diagnose(groups, advantages=summed.advantages, gradient=dlogps)[1].matches
    for wrong, text in [
        (parts[:1], "^parts: 1 entries for 3 groups; one per group is needed$"),
        ([0, 1, 2], r"^groups\[0\]: parts = 0; must be a list of whole numbers, one per response$"),
        ([[0, 1, 2, 1, 2], [0, 0, 1], [1, 2, 0, 2]], r"^groups\[0\]: parts: 5 entries for 4 rewards"),
        ([[0, 1, 2, 1.5]] * 3, r"^groups\[0\]: parts\[3\] = 1.5; must be a whole number from 0, the micro-batch of the response$"),
        ([[0, True, 2, 1]] * 3, r"parts\[1\] = true; must be a whole number"),
        ([[0, -1, 2, 1]] * 3, r"parts\[1\] = -1; must be a whole number"),
        ([[1] * 4] * 3, "parts: no response has 0; number the micro-batches from 0"),
    ]:
        with pytest.raises(ValueError, match=text):
            grpo_lambda.diagnose(groups, dlogps=dlogps, parts=wrong)
    of_arrays = grpo_lambda.diagnose(groups, advantages=summed.advantages, dlogps=dlogps, parts=np.array(parts))[1]
    assert of_arrays.matches[0] == best
    with pytest.raises(ValueError, match="dlogps and gradient: two names of one quantity"):
        grpo_lambda.diagnose(groups, dlogps=dlogps, gradient=dlogps)


def test_what_no_search_can_use_is_refused_by_name():
    groups = batch()
    for given, text in [
        (dict(loss=float("nan")), "^loss = NaN; must be a finite number$"),
        (dict(loss=[0.1, 0.2]), "^loss: 2 entries for 3 groups; give one, or one per group$"),
        (dict(loss="x"), "^loss = the text `x`; must be a number, or a list with a number for each group$"),
        (dict(loss=0.1, tolerance=float("nan")), "^tolerance = NaN; must be a number from 0 on and below 1$"),
        (dict(loss=0.1, beta=-1.0), "^beta = -1; must be a number of at least 0$"),
        (dict(loss=0.1, max_length=0), "^max_length = 0; must be a number above 0$"),
        (dict(loss=0.1, correction="corection=token_mask"), "^correction: unknown key `corection` for method gpg .did you mean `correction`"),
        (dict(loss=0.1, correction="correction=token_mask"), "^sampler_logps: missing; `correction=token_mask` reads it$"),
    ]:
        with pytest.raises(ValueError, match=text):
            grpo_lambda.diagnose(groups, **given)
