"""The exact token-MDP against hand values, finite differences and an enumeration through the package's own losses."""

from itertools import product

import numpy as np
import pytest

import grpo_lambda
from grpo_lambda import Mdp

ROADS = dict(
    name="two roads",
    tokens="left right EOS",
    eos="EOS",
    horizon=2,
    rewards=[{"pattern": "left *", "reward": 1.0}, {"pattern": ["right", "right"], "reward": 1.0}],
    illegal=[{"prefix": "", "tokens": "EOS"}],
    policy=[{"prefix": "", "probabilities": {"left": 0.25, "right": 0.75}}],
)


def softmax_of_edges(mdp, logits):
    """Probabilities per edge, by the edges' prefixes."""
    prefixes = [tuple(prefix) for prefix, _ in mdp.edges]
    out = np.zeros(len(logits))
    for prefix in set(prefixes):
        own = [e for e, p in enumerate(prefixes) if p == prefix]
        out[own] = np.exp(logits[own]) / np.exp(logits[own]).sum()
    return out


def responses(mdp):
    """Every response as its edges, its tokens and its reward, read off the table alone."""
    of = {(tuple(prefix), token): e for e, (prefix, token) in enumerate(mdp.edges)}

    def walk(prefix, path):
        for token in ("left", "right", "EOS"):
            if (prefix, token) not in of:
                continue
            edges, tokens = path + [of[prefix, token]], prefix + (token,)
            if token == "EOS" or len(tokens) == 2:
                yield edges, tokens, float(tokens[0] == "left" or tokens == ("right", "right"))
            else:
                yield from walk(tokens, edges)

    return list(walk((), []))


def test_values_by_hand():
    mdp = Mdp(**ROADS)
    # left: 1; right: right with probability 1/3
    assert mdp.j == pytest.approx(0.25 + 0.75 / 3, abs=1e-15)
    assert mdp.j_best == 1.0
    assert mdp.size == (3, 8, 6)
    assert mdp.probabilities[:2].tolist() == pytest.approx([0.25, 0.75], abs=1e-15)
    assert mdp.edges[0] == ([], "left")


def test_the_gradient_is_that_of_j():
    mdp = Mdp(**ROADS)
    logits = np.log(mdp.probabilities)
    assert mdp.with_logits(logits).j == pytest.approx(mdp.j, abs=1e-15)
    for e in range(len(logits)):
        up, down = logits.copy(), logits.copy()
        up[e] += 1e-5
        down[e] -= 1e-5
        slope = (mdp.with_logits(up).j - mdp.with_logits(down).j) / 2e-5
        assert mdp.grad_j[e] == pytest.approx(slope, abs=1e-9)


@pytest.mark.parametrize("method", ["grpo", "rloo", "dr_grpo", "grpo_lambda", "high_entropy"])
def test_the_expected_update_is_the_mean_over_all_groups(method):
    mdp = Mdp(**ROADS)
    probabilities = softmax_of_edges(mdp, np.log(mdp.probabilities))
    prefixes = [tuple(prefix) for prefix, _ in mdp.edges]
    entropy = {p: -sum(q * np.log(q) for q, r in zip(probabilities, prefixes) if r == p) for p in set(prefixes)}
    all_responses = responses(mdp)
    chance = lambda edges: np.prod(probabilities[edges])  # noqa: E731
    assert sum(chance(edges) for edges, _, _ in all_responses) == pytest.approx(1)
    mean, square = np.zeros(len(probabilities)), np.zeros(len(probabilities))
    for group in product(all_responses, repeat=2):
        logps = [np.log(probabilities[edges]) for edges, _, _ in group]
        line = {
            "rewards": [reward for _, _, reward in group],
            "old_logps": logps,
            "logps": logps,
            "entropies": [[entropy[prefixes[e]] for e in edges] for edges, _, _ in group],
        }
        found = grpo_lambda.loss(grpo_lambda.credit(method, [line]))
        step = np.zeros(len(probabilities))
        for (edges, _, _), dlogps in zip(group, found.dlogps[0]):
            for e, d in zip(edges, dlogps):
                own = np.array([p == prefixes[e] for p in prefixes])
                step -= d * (np.eye(len(step))[e] - own * probabilities)
        p = chance(group[0][0]) * chance(group[1][0])
        mean += p * step
        square += p * step**2
    expected = mdp.expected(method, group_size=2, how="exact")
    assert expected.how == "exact"
    np.testing.assert_allclose(expected.update, mean, atol=1e-13)
    np.testing.assert_allclose(expected.variance, square - mean**2, atol=1e-13)
    assert expected.total_variance == pytest.approx((square - mean**2).sum())
    grad = mdp.grad_j
    cosine = mean @ grad / np.sqrt((mean @ mean) * (grad @ grad))
    assert expected.cosine == pytest.approx(cosine, abs=1e-12)


def test_sampled_updates_approach_the_exact_one():
    mdp = Mdp.zoo("pivot")
    exact = mdp.expected("rloo", group_size=4, how="exact")
    sampled = mdp.expected("rloo", group_size=4, how="sampled", samples=4000, seed=3)
    error = np.sqrt(exact.variance / 4000)
    assert (np.abs(sampled.update - exact.update) <= 5 * error + 1e-12).all()
    assert sampled.how == "sampled"


@pytest.mark.parametrize(
    "change, text",
    [
        (dict(eos="STOP"), "STOP"),
        (dict(horizon=0), "horizon"),
        (dict(rewards=[{"pattern": "lift *", "reward": 1}]), "lift"),
        (dict(rewards=[{"pattern": "left *", "reward": 1.5}]), r"rewards\[0\].reward = 1.5"),
        (dict(rewards=[{"pattern": "left *"}]), r"^rewards\[0\].reward: missing; must have pattern and reward$"),
        (dict(rewards=[{"patern": "left *", "reward": 1}]), r"unknown field `patern` \(did you mean `pattern`\?\)"),
        (dict(rewards=[3]), r"^rewards\[0\] = 3; must be a dictionary with pattern and reward$"),
        (dict(policy=[{"prefix": "", "probabilities": {"left": 0.5, "right": 0.75}}]), "sum to 1"),
        (dict(gamma=1.5), "gamma"),
        (dict(tokens=3), "^tokens = 3; must be tokens"),
        (dict(reward_kind="ternary"), "^reward_kind = `ternary`; must be binary or real$"),
    ],
)
def test_a_wrong_field_is_named(change, text):
    with pytest.raises(ValueError, match=text):
        Mdp(**{**ROADS, **change})


def test_wrong_questions_are_refused():
    mdp = Mdp(**ROADS)
    with pytest.raises(ValueError, match="^group_size = 1; must be at least 2$"):
        mdp.expected("grpo", group_size=1)
    with pytest.raises(ValueError, match="^how = `exakt`; must be one of auto, exact, sampled$"):
        mdp.expected("grpo", how="exakt")
    with pytest.raises(ValueError, match="shear needs hidden"):
        mdp.expected("shear")
    with pytest.raises(ValueError, match="^logits has 2 entries; must be 8, one per edge$"):
        mdp.with_logits([0.0, 1.0])
    with pytest.raises(ValueError, match="did you mean `pivot`"):
        Mdp.zoo("pivott")
