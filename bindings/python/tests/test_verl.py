"""verl's recorded estimators and losses through what the plug-in computes."""

import json
from pathlib import Path

import numpy as np
import pytest

from grpo_lambda import _verl

RECORDED = json.loads((Path(__file__).parent / "verl/recorded.json").read_text())

#: verl's estimator, the method here, and its settings by verl's keyword arguments.
ESTIMATORS = {
    "gae": ("ppo", lambda k, c: {"gamma": k["gamma"], "lambda": k["lam"]}),
    "grpo": ("grpo", lambda k, c: {"scale": "group" if k["norm_adv_by_std_in_grpo"] else "none"}),
    "rloo": ("rloo", lambda k, c: {}),
    "reinforce_plus_plus": ("reinforce_pp", lambda k, c: {"gamma": c["gamma"]}),
    "reinforce_plus_plus_baseline": ("reinforce_pp_baseline", lambda k, c: {}),
}
ESTIMATORS["grpo_vectorized"], ESTIMATORS["rloo_vectorized"] = ESTIMATORS["grpo"], ESTIMATORS["rloo"]


def ours(case):
    method, settings = ESTIMATORS[case["estimator"]]
    settings = settings(case["kwargs"], case["config"])
    if method == "grpo" and settings["scale"] == "group":
        settings["std_preset"] = "verl"
    inputs = {key: np.array(value) for key, value in case["inputs"].items() if key != "index"}
    evidence = {"values": inputs["values"]} if "values" in inputs else {}
    index = case["inputs"].get("index")
    return _verl.advantages(method, inputs["token_level_rewards"], inputs["response_mask"], index, evidence, settings)


def centred_and_whitened_without_empty_rows(case):
    rewards, mask = np.array(case["inputs"]["token_level_rewards"]), np.array(case["inputs"]["response_mask"])
    index, kept = np.array(case["inputs"]["index"]), mask.sum(axis=1) > 0
    scores = rewards.sum(axis=1)
    centred = np.array([s - scores[(index == i) & kept].mean() for s, i in zip(scores, index)])
    tokens = np.repeat(centred, mask.sum(axis=1))
    return mask * ((centred - tokens.mean()) / np.sqrt(tokens.var(ddof=1) + 1e-8))[:, None]


@pytest.mark.parametrize("case", RECORDED["estimators"], ids=lambda c: f"{c['estimator']}/{c['batch']}")
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
    found, returns = ours(case)
    if case["batch"] == 5 and case["estimator"] == "reinforce_plus_plus_baseline":
        # A row without tokens: verl counts its reward in its prompt's mean, this library leaves the row out.
        np.testing.assert_allclose(found, centred_and_whitened_without_empty_rows(case), atol=1e-6)
        return
    expected = np.array(case["advantages"]) * mask
    np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_allclose(returns, np.array(case["returns"]) * mask, atol=1e-6)


@pytest.mark.filterwarnings("ignore:.*used as it is")  # verl's recording has log-probabilities above 0
@pytest.mark.parametrize(
    "case", RECORDED["losses"], ids=lambda c: f"{c['loss_mode']}/{c['batch']}/{c['loss_agg_mode']}"
)
def test_recorded_losses(case):
    config = case["config"]
    method, settings = {
        # verl's dual clip caps the ratio of negative advantages.
        "vanilla": ("grpo", {"clip": "two_sided", "clip_max": 3.0}),
        # verl gives each token its own advantage under the response's ratio.
        "gspo": ("gspo_token", {}),
        "cispo": ("cispo", {"clip_form": "interval"}),
    }[case["loss_mode"]]
    settings = _verl.clip_settings(method, settings, config["clip_ratio_low"], config["clip_ratio_high"])
    inputs = {key: None if value is None else np.array(value) for key, value in case["inputs"].items()}
    mask = inputs["response_mask"]
    weights = _verl.aggregation_weights(mask, case["loss_agg_mode"], **(case["global_batch_info"] or {}))
    if inputs["rollout_is_weights"] is not None:
        weights = weights * inputs["rollout_is_weights"]
    found = _verl.policy_loss(
        method, inputs["old_log_prob"], inputs["log_prob"], inputs["advantages"], mask, weights, settings
    )
    assert found.loss == pytest.approx(case["loss"], abs=1e-6)
    np.testing.assert_allclose(found.dlogps, case["grad_log_prob"], atol=1e-6)


@pytest.mark.parametrize("case", RECORDED["aggregations"], ids=lambda c: f"{c['loss_agg_mode']}/{c['batch']}/{c['kwargs']}")
def test_recorded_aggregations(case):
    mask = np.array(case["loss_mask"])
    if "error" in case:
        with pytest.raises(ValueError):
            _verl.aggregation_weights(mask, case["loss_agg_mode"], **case["kwargs"])
        return
    weights = _verl.aggregation_weights(mask, case["loss_agg_mode"], **case["kwargs"])
    np.testing.assert_allclose(weights, case["grad"], rtol=1e-7)
    assert (weights * np.array(case["loss_mat"])).sum() == pytest.approx(case["loss"], rel=1e-7)


def test_settings_that_verl_decides_are_refused():
    rows = np.ones((2, 3))
    for key, value in [("beta", 0.1), ("reduction", "token_mean"), ("mask_truncated", True)]:
        with pytest.raises(ValueError, match=f"^{key} = {value}: not a setting in verl; "):
            _verl.advantages("grpo", rows, rows, ["a", "a"], {}, {key: value})
        with pytest.raises(ValueError, match=f"^{key} = {value}: not a setting in verl; "):
            _verl.policy_loss("grpo", -rows, -rows, rows, rows, rows, {key: value})
    with pytest.raises(ValueError, match="^index: missing; the method compares the responses of a prompt"):
        _verl.advantages("grpo", rows, rows, None, {}, {})


def test_what_verl_can_carry_needs_no_evidence():
    import grpo_lambda

    carried = _verl.carried()
    assert {"grpo", "rloo", "grpo_lambda", "reinforce_pp", "gspo", "cispo"} <= set(carried)
    assert not {"ppo", "high_entropy", "tempo"} & set(carried)
    assert all(grpo_lambda.evidence(name) == [] for name in carried)
