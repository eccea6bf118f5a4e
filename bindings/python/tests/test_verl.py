"""verl's recorded estimators and losses against the plug-in's computations.

The recordings are those of the theory's tests (`tests/fixtures/verl.json.gz`); their batches: 0 full masks, 1 ragged, 2 masks with holes, 3 prompts
of 1, 2 and 5 responses, 4 rewards of 0 and 1, 5 rewards on every token and one row without a token.
"""

import gzip
import json

import numpy as np
import pytest
from conftest import ROOT

import grpo_lambda
from grpo_lambda import _verl

RECORDED = json.loads(gzip.decompress((ROOT / "tests/fixtures/verl.json.gz").read_bytes()))


def recorded(kind, wanted):
    batches = RECORDED[kind]["batches"]
    return [{**case, "inputs": batches[str(case["batch"])]} for case in RECORDED[kind]["cases"] if wanted(case)]


#: verl's estimator, the method here, and its settings by verl's keyword arguments.
ESTIMATORS = {
    "gae": ("ppo", lambda k, c: {"gamma": k["gamma"], "lambda": k["lam"]}),
    "grpo": ("grpo", lambda k, c: _grpo(k["norm_adv_by_std_in_grpo"])),
    "grpo_vectorized": ("grpo", lambda k, c: _grpo(k["norm_adv_by_std_in_grpo"])),
    "grpo_passk": ("grpo_passk", lambda k, c: _grpo(c["norm_adv_by_std_in_grpo"])),
    "rloo": ("rloo", lambda k, c: {}),
    "rloo_vectorized": ("rloo", lambda k, c: {}),
    "opo": ("opo", lambda k, c: {}),
    "gpg": ("gpg", lambda k, c: {"divisor": k.get("f_norm", 1.0)}),
    "reinforce_plus_plus": ("reinforce_pp", lambda k, c: {"gamma": c["gamma"]}),
    "reinforce_plus_plus_baseline": ("reinforce_pp_baseline", lambda k, c: {}),
}


def _grpo(scaled):
    return {"std_preset": "verl"} if scaled else {"scale": "none"}


def ours(case):
    method, settings = ESTIMATORS[case["estimator"]]
    inputs = case["inputs"]
    rewards, mask = np.array(inputs["token_level_rewards"]), np.array(inputs["response_mask"])
    extra_inputs = {"values": np.array(inputs["values"])} if method == "ppo" else {}
    return _verl.advantages(
        method, rewards, mask, inputs["index"], extra_inputs, settings(case["kwargs"], case["config"])
    )


def without_empty_rows(case):
    """REINFORCE++-baseline by its formula, in which a row without tokens does not count."""
    inputs = case["inputs"]
    rewards, mask = np.array(inputs["token_level_rewards"]), np.array(inputs["response_mask"])
    index, kept = np.array(inputs["index"]), mask.sum(axis=1) > 0
    scores = rewards.sum(axis=1)
    centred = np.array([s - scores[(index == i) & kept].mean() for s, i in zip(scores, index)])
    tokens = np.repeat(centred, mask.sum(axis=1))
    return mask * ((centred - tokens.mean()) / np.sqrt(tokens.var(ddof=1) + 1e-8))[:, None]


@pytest.mark.parametrize(
    "case",
    recorded("advantages", lambda c: c["estimator"] in ESTIMATORS),
    ids=lambda c: f"{c['estimator']}/{c['batch']}",
)
def test_recorded_estimators(case):
    mask = np.array(case["inputs"]["response_mask"])
    grouped = case["estimator"] not in ("gae", "reinforce_plus_plus")
    if case["batch"] == 3 and grouped:
        # A prompt with one response: verl keeps its raw reward, this library refuses to compare it with nothing.
        with pytest.raises(ValueError, match="the group has one response"):
            ours(case)
        return
    if case["batch"] == 5 and not grouped:
        # Rewards on every token: verl discounts each, this library knows the reward of a response.
        with pytest.raises(ValueError, match=r"^token_level_rewards\[0\]\[1\] = .*must be 0 before the last token"):
            ours(case)
        return
    found, _ = ours(case)
    if case["batch"] == 5 and case["estimator"] == "reinforce_plus_plus_baseline":
        # A row without tokens: verl counts its reward in its prompt's mean, this library leaves the row out.
        np.testing.assert_allclose(found, without_empty_rows(case), atol=1e-6)
        return
    np.testing.assert_allclose(found, np.array(case["advantages"]) * mask, atol=1.5e-6)


#: verl's loss, and the method with its settings by verl's configuration.
LOSSES = {
    # verl's dual clip caps the ratio of negative advantages.
    "vanilla": ("grpo", lambda c, p: {"clip": "two_sided", "clip_max": c["clip_ratio_c"]}),
    # verl gives each token its own advantage under the response's ratio.
    "gspo": ("gspo_token", lambda c, p: {}),
    "cispo": ("cispo", lambda c, p: {"clip_form": "interval"}),
    "sapo": ("sapo", lambda c, p: {}),
    "gpg": ("gpg", lambda c, p: {}),
    "dro": ("dro", lambda c, p: {"pull": p["dro_beta"]}),
    "dppo_tv": ("dppo", lambda c, p: {}),
    "dppo_kl": ("dppo", lambda c, p: {"divergence": "kl"}),
}


@pytest.mark.filterwarnings("ignore:.*used as it is")  # the recordings hold log-probabilities above 0
@pytest.mark.parametrize(
    "case",
    recorded("losses", lambda c: c["loss_mode"] in LOSSES),
    ids=lambda c: f"{c['loss_mode']}/{c['batch']}/{c['loss_agg_mode']}",
)
def test_recorded_losses(case):
    config, (method, settings) = case["config"], LOSSES[case["loss_mode"]]
    settings = settings(config, case["policy_loss_config"])
    if "clip_ratio_low" in config:
        bounds = (config["clip_ratio_low"], config["clip_ratio_high"], config.get("clip_ratio_c"))
        settings = _verl.clip_settings(method, settings, *bounds)
    inputs = {key: None if value is None else np.array(value) for key, value in case["inputs"].items()}
    mask = inputs["response_mask"]
    weights = _verl.aggregation_weights(mask, case["loss_agg_mode"], **(case["global_batch_info"] or {}))
    if inputs.get("rollout_is_weights") is not None:
        weights = weights * inputs["rollout_is_weights"]
    found = _verl.policy_loss(
        method, inputs["old_log_prob"], inputs["log_prob"], inputs["advantages"], mask, weights, settings
    )
    assert found.loss == pytest.approx(case["loss"], abs=1e-6)
    np.testing.assert_allclose(found.dlogps, case["gradient"], atol=1e-6)


@pytest.mark.parametrize(
    "case", recorded("reductions", lambda c: True), ids=lambda c: f"{c['mode']}/{c['batch']}/{len(c['kwargs'])}"
)
def test_recorded_aggregations(case):
    weights = _verl.aggregation_weights(np.array(case["inputs"]["mask"]), case["mode"], **case["kwargs"])
    np.testing.assert_allclose(weights, case["gradient"], rtol=1e-7)
    assert (weights * np.array(case["inputs"]["values"])).sum() == pytest.approx(case["loss"], rel=1e-6)


def test_aggregations_that_verl_refuses_are_refused():
    for mode in ("token-mean", "seq-mean-token-sum", "seq-mean-token-mean"):
        with pytest.raises(ValueError, match=f"missing; loss_agg_mode={mode} needs it where dp_size is 2"):
            _verl.aggregation_weights(np.ones((2, 3)), mode, dp_size=2)
    with pytest.raises(ValueError, match="^loss_agg_mode = bogus; must be one of token-mean, "):
        _verl.aggregation_weights(np.ones((2, 3)), "bogus")


def test_settings_that_verl_decides_are_refused():
    rows = np.ones((2, 3))
    for key, value in [("beta", 0.1), ("reduction", "token_mean"), ("mask_truncated", True)]:
        with pytest.raises(ValueError, match=f"^{key} = {value}: not a setting in verl; "):
            _verl.advantages("grpo", rows, rows, ["a", "a"], {}, {key: value})
        with pytest.raises(ValueError, match=f"^{key} = {value}: not a setting in verl; "):
            _verl.policy_loss("grpo", -rows, -rows, rows, rows, rows, {key: value})
    with pytest.raises(ValueError, match="^index: missing; the method compares the responses of a prompt"):
        _verl.advantages("grpo", rows, rows, None, {}, {})


def test_a_dual_clip_that_is_not_applied_is_reported(recwarn):
    with pytest.warns(UserWarning, match=r"actor.clip_ratio_c = 3.0: .*set clip=two_sided clip_max=3.0"):
        _verl.warn_of_dual_clip("grpo", {}, 3.0)
    recwarn.clear()
    _verl.warn_of_dual_clip("grpo", {"clip": "ppo"}, 3.0)
    _verl.warn_of_dual_clip("grpo", {}, None)
    _verl.warn_of_dual_clip("cispo", {}, 3.0)
    assert not recwarn.list


def test_verls_clip_range_reaches_every_method_that_has_one(recwarn):
    clip = _verl.clip_settings
    assert clip("grpo", {}, 0.1, 0.3, 3.0) == {"epsilon_low": 0.1, "epsilon_high": 0.3}
    assert clip("gmpo", {}, 0.1, 0.3) == {"log_low": 0.1, "log_high": 0.3}
    assert clip("dppo", {}, 0.1, 0.3, 3.0) == {"divergence_low": 0.1, "divergence_high": 0.3, "cap": 3.0}
    assert clip("dppo", {"cap": 20}, 0.1, 0.3, 3.0)["cap"] == 20
    assert clip("cispo", {"clip_form": "interval"}, 0.1, 0.3)["epsilon_low"] == 0.1
    assert clip("cispo", {}, 0.2, 0.2) == {} and not recwarn.list
    with pytest.warns(UserWarning, match="clip_ratio_low = 0.1, clip_ratio_high = 0.3: `cispo` reads its cap instead"):
        assert clip("cispo", {}, 0.1, 0.3) == {}


def test_advantages_are_scaled_as_verl_says():
    scaled = _verl.estimator_settings
    assert scaled("grpo", {}, False) == {"scale": "none"}
    assert scaled("grpo", {}, True) == scaled("grpo", {}, None) == scaled("opo", {}, False) == {}
    assert scaled("grpo", {"scale": "batch"}, False) == {"scale": "batch"}


def test_what_verl_can_carry_needs_no_extra_inputs():
    carried = _verl.carried()
    assert {"grpo", "rloo", "grpo_lambda", "reinforce_pp", "gspo", "cispo"} <= set(carried)
    assert not {"ppo", "high_entropy", "tempo"} & set(carried)
    assert all(grpo_lambda.extra_inputs(name) == [] for name in carried)


@pytest.mark.parametrize("method", _verl.carried())
def test_estimator_and_loss_together_are_the_method(method):
    """Cut into two micro-batches under a mean over all tokens, they give the method's own loss and gradient."""
    rng = np.random.default_rng(3)
    old = -rng.exponential(size=(8, 5))
    logps = np.minimum(old + rng.normal(0, 0.1, size=old.shape), 0)
    mask = np.arange(5) < rng.integers(1, 6, size=(8, 1))
    rewards = np.zeros_like(old)
    rewards[np.arange(8), mask.sum(axis=1) - 1] = rng.random(8)
    index = list("aabbaabb")
    advantages, _ = _verl.advantages(method, rewards, mask, index, {}, {})
    loss, dlogps = 0.0, []
    for part in (slice(0, 4), slice(4, 8)):
        weights = _verl.aggregation_weights(mask[part], "token-mean", batch_num_tokens=mask.sum())
        found = _verl.policy_loss(method, old[part], logps[part], advantages[part], mask[part], weights, {})
        loss, dlogps = loss + found.loss, [*dlogps, found.dlogps]
    whole = grpo_lambda.credit_padded(
        method, rewards.sum(axis=1).tolist(), old, mask, group=index, reduction="token_mean"
    )
    expected = grpo_lambda.loss(whole, logps)
    assert loss == pytest.approx(expected.loss, rel=1e-12, abs=1e-15)
    np.testing.assert_allclose(np.concatenate(dlogps), expected.dlogps, rtol=1e-12)
