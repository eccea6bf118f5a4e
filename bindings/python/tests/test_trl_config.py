"""TRL's configuration in the words of this library, without TRL; tests/trl/check.py compares the numbers with TRL's own."""

import dataclasses
import re

import pytest

from grpo_lambda import _native
from grpo_lambda._trl_config import asked, command, translated


@dataclasses.dataclass
class Config:
    """The fields of TRL 1.16's GRPOConfig that shape a loss, with its defaults."""

    loss_type: str = "dapo"
    epsilon: float = 0.2
    epsilon_high: float | None = None
    delta: float | None = None
    importance_sampling_level: str = "token"
    scale_rewards: str = "group"
    multi_objective_aggregation: str = "sum_then_normalize"
    reward_weights: list | None = None
    mask_truncated_completions: bool = False
    top_entropy_quantile: float = 1.0
    off_policy_mask_threshold: float | None = None
    entropy_coef: float = 0.0
    use_adaptive_entropy: bool = False
    beta: float = 0.0
    use_bias_correction_kl: bool = True
    sapo_temperature_pos: float = 1.0
    sapo_temperature_neg: float = 1.05
    vespo_k_pos: float = 2.0
    vespo_lambda_pos: float = 3.0
    vespo_k_neg: float = 3.0
    vespo_lambda_neg: float = 2.0
    use_vllm: bool = False
    vllm_importance_sampling_correction: bool = True
    vllm_importance_sampling_mode: str = "sequence_mask"
    vllm_importance_sampling_clip_max: float | None = 3.0
    vllm_importance_sampling_clip_min: float | None = None
    max_completion_length: int = 512


SEQUENCE = dict(importance_sampling_level="sequence")
TRANSLATED = [
    ({}, "grpo reduction=token_mean"),
    (dict(loss_type="grpo"), "grpo"),
    (dict(loss_type="bnpo"), "grpo reduction=token_mean"),
    (dict(loss_type="dr_grpo"), "dr_grpo max_length=512 scale=group"),
    (dict(loss_type="dr_grpo", scale_rewards="none", max_completion_length=64), "dr_grpo max_length=64"),
    (dict(loss_type="grpo", epsilon=0.3), "grpo epsilon_high=0.3 epsilon_low=0.3"),
    (dict(loss_type="grpo", epsilon_high=0.28), "grpo epsilon_high=0.28"),
    (dict(loss_type="grpo", delta=4.0), "grpo clip=two_sided"),
    (dict(loss_type="grpo", scale_rewards="batch"), "grpo scale=batch"),
    (dict(loss_type="grpo", beta=0.04), "grpo beta=0.04 kl=ratio_k3"),
    (dict(loss_type="grpo", beta=0.04, use_bias_correction_kl=False), "grpo beta=0.04"),
    (dict(loss_type="cispo", epsilon_high=5.0), "cispo"),
    (dict(loss_type="sapo", sapo_temperature_neg=2.0), "sapo tau_negative=2"),
    (dict(loss_type="vespo", vespo_k_pos=1.5), "vespo k_positive=1.5"),
    (dict(loss_type="luspo", **SEQUENCE), "luspo epsilon_high=0.2 epsilon_low=0.2"),
    (dict(loss_type="luspo"), "grpo reduction=response_sum"),
    (dict(loss_type="grpo", **SEQUENCE), "gspo epsilon_high=0.2 epsilon_low=0.2"),
    (dict(loss_type="grpo", beta=0.1, **SEQUENCE), "gspo beta=0.1 epsilon_high=0.2 epsilon_low=0.2 kl=response_ratio_k3"),
    (dict(off_policy_mask_threshold=0.1), "grpo off_policy_mask=0.1 reduction=token_mean"),
    (dict(multi_objective_aggregation="normalize_then_sum"), "gdpo std_preset=trl whiten_over=responses"),
    (dict(loss_type="bnpo", **SEQUENCE), "gspo epsilon_high=0.2 epsilon_low=0.2 reduction=token_mean"),
    (dict(use_vllm=True), "grpo correction=sequence_mask reduction=token_mean"),
    (dict(use_vllm=True, vllm_importance_sampling_correction=False), "grpo reduction=token_mean"),
]


@pytest.mark.parametrize("fields, expected", TRANSLATED, ids=str)
def test_the_loss_of_a_configuration_as_a_method(fields, expected):
    found = translated(Config(**fields))
    assert command(found.method, found.settings) == expected
    assert found.per_micro_batch == (fields.get("loss_type") == "bnpo")
    assert f"`{expected}`" in found.sentence()


@pytest.mark.parametrize(
    "fields, reason",
    [
        (dict(top_entropy_quantile=0.2), "counts the masked tokens"),
        (dict(entropy_coef=0.01), "entropy bonus"),
        (dict(multi_objective_aggregation="normalize_then_sum", loss_type="sapo"), "`gdpo` has PPO's clip"),
        (dict(loss_type="cispo"), "without epsilon_high"),
        (dict(loss_type="sapo", **SEQUENCE), "ratios of tokens"),
        (dict(loss_type="vespo", use_vllm=True), "the ratio of the density"),
    ],
    ids=str,
)
def test_a_loss_that_no_method_here_computes_says_why(fields, reason):
    found = translated(Config(**fields))
    assert found.method == "" and reason in found.sentence()


ASKED = [
    # What a method leaves open is the configuration's.
    ("grpo", {}, {}, "grpo reduction=token_mean"),
    ("grpo", {}, dict(loss_type="grpo"), "grpo"),
    ("grpo", {}, dict(loss_type="grpo", epsilon=0.2), "grpo"),
    ("sapo", {}, dict(sapo_temperature_neg=2.0, loss_type="sapo"), "sapo tau_negative=2"),
    ("grpo", {}, dict(loss_type="luspo"), "grpo reduction=response_sum"),
    ("opo", {}, dict(epsilon=0.3), "opo epsilon_high=0.3 epsilon_low=0.3"),
    ("grpo", {}, dict(scale_rewards="none"), "grpo reduction=token_mean scale=none"),
    ("grpo_lambda", {"lambda": 0.95}, dict(beta=0.04), "grpo_lambda beta=0.04 kl=ratio_k3 lambda=0.95"),
    ("grpo_lambda", {"lambda_": 0.95}, dict(use_vllm=True), "grpo_lambda correction=sequence_mask lambda=0.95"),
    # What makes it that method stays, unless the configuration says otherwise on purpose.
    ("dapo", {}, {}, "dapo"),
    ("dapo", {}, dict(epsilon_high=0.3), "dapo epsilon_high=0.3"),
    ("dapo", {}, dict(epsilon=0.1), "dapo epsilon_high=0.1 epsilon_low=0.1"),
    ("gspo", {}, dict(epsilon=0.1), "gspo epsilon_high=0.1 epsilon_low=0.1 reduction=token_mean"),
    ("dr_grpo", {}, {}, "dr_grpo max_length=512"),
    ("gspo", {}, {}, "gspo reduction=token_mean"),
    ("gspo", {}, dict(epsilon=0.1, **SEQUENCE), "gspo epsilon_high=0.1 epsilon_low=0.1 reduction=token_mean"),
    ("rloo", {}, {}, "rloo"),
    ("cispo", {}, dict(loss_type="cispo"), "cispo"),
    ("high_entropy", {}, dict(top_entropy_quantile=0.3), "high_entropy top_fraction=0.3"),
    ("gdpo", {}, dict(reward_weights=[1.0, 0.5]), "gdpo weight_2=0.5"),
    # Settings come first.
    ("grpo", {"reduction": "response_mean"}, {}, "grpo"),
    ("dr_grpo", {"reduction": "token_mean"}, dict(loss_type="bnpo"), "dr_grpo reduction=token_mean"),
]


@pytest.mark.parametrize("method, settings, fields, expected", ASKED, ids=str)
def test_a_method_under_a_configuration(method, settings, fields, expected):
    found = asked(method, settings, Config(**fields))
    assert command(method, found.settings) == expected
    assert f"you asked for `{expected}`" in found.sentence


def test_what_stays_of_a_method_is_said():
    found = asked("dapo", {}, Config())
    assert "its own epsilon_high=0.28 stays" in found.sentence
    assert "stays" not in asked("grpo", {}, Config()).sentence


@pytest.mark.parametrize(
    "method, settings, fields, text",
    [
        ("grop", {}, {}, "did you mean `grpo`"),
        ("dr_grpo", {}, dict(loss_type="grpo"), "^loss_type = grpo is reduction=response_mean, and `dr_grpo` has reduction=constant; leave"),
        ("grpo", {}, dict(loss_type="sapo"), "^loss_type = sapo: it is another loss than `grpo`; .*method='sapo'"),
        ("rloo", {}, SEQUENCE, "^importance_sampling_level = sequence: `rloo` has ratios of tokens"),
        ("grpo", {}, dict(sapo_temperature_neg=2.0), "^sapo_temperature_neg = 2.0: `grpo` has no such setting; .*method='sapo'"),
        ("grpo", {"epsilon_low": 0.1}, dict(epsilon=0.3), "^epsilon = 0.3 is epsilon_low=0.3, and settings have epsilon_low=0.1"),
        ("opo", {}, dict(scale_rewards="batch"), "^scale_rewards = batch: `opo` has no setting scale"),
        ("grpo", {}, dict(entropy_coef=0.1), "^entropy_coef = 0.1: an entropy bonus is a trainer's term"),
        ("grpo", {}, dict(top_entropy_quantile=0.2), "^top_entropy_quantile = 0.2: .*method='high_entropy'"),
        ("grpo", {}, dict(multi_objective_aggregation="normalize_then_sum"), "method='gdpo'"),
        ("gdpo", {}, dict(reward_weights=[1, 1, 1, 2.0]), r"^reward_weights\[3\] = 2.0"),
    ],
    ids=str,
)
def test_disagreements_are_refused(method, settings, fields, text):
    with pytest.raises(ValueError, match=text):
        asked(method, settings, Config(**fields))


@pytest.mark.filterwarnings("ignore:.*has no effect")
def test_every_method_stands_under_the_default_configuration():
    for method in (entry["name"] for entry in _native.methods()):
        found = asked(method, {}, Config())
        chosen, defaults = (dict(_native.settings(method, **s)) for s in (found.settings, {}))
        changed = {key for key in chosen if chosen[key] != defaults[key]}
        # TRL's default is a token mean, and its clip that of grpo: nothing else is carried.
        assert changed <= {"reduction", "max_length"}, (method, changed)
        assert re.match("TRL's loss_type=dapo is `grpo reduction=token_mean`; you asked for", found.sentence)
