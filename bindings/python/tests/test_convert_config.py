"""TRL's configuration as a run of llm-train, and back; the recorded step of llm/tests/fixtures is the one that `trl_step.rs` repeats."""

import json
from pathlib import Path

import pytest

from grpo_lambda import _native
from grpo_lambda.convert_config import COMBINED, LOSS, ONLY, SAME, flat, main, to_run, to_trl, toml

ROOT = Path(__file__).parents[3]
RECORDED = json.loads((ROOT / "llm/tests/fixtures/trl_step.json").read_text())

#: The settings under which `llm/tests/llm/trl_step.rs` gives TRL's loss, gradient and weights.
REPEATED = {
    "grpo": ("grpo", {"beta": 0.04}),
    "dr_grpo": ("dr_grpo", {"max_length": RECORDED["max_completion_length"]}),
    "dapo": ("grpo", {"reduction": "token_mean", "epsilon_high": 0.28}),
}


@pytest.mark.parametrize("name", REPEATED)
def test_a_recorded_configuration_becomes_the_settings_that_repeat_its_step(name):
    case = RECORDED["cases"][name]
    fields = {"per_device_train_batch_size": 6, "num_generations": 3, "max_completion_length": RECORDED["max_completion_length"]}
    fields |= {"learning_rate": case["lr"], "weight_decay": 0.01, "lr_scheduler_type": "constant", "max_steps": 1}
    fields |= {key: case[key] for key in ("loss_type", "beta", "temperature", "epsilon", "epsilon_high", "scale_rewards") if key in case}
    run = to_run(fields | {"use_bias_correction_kl": False})
    method, settings = REPEATED[name]
    given = {key.removeprefix("method."): value for key, value in run.items() if key.startswith("method.") and key != "method.name"}
    assert run["method.name"] == method
    assert _native.settings(method, **given) == _native.settings(method, **settings)
    expected = {
        "rl.group_size": 3,
        "rl.prompts_per_step": 2,
        "rl.lr": 1e-3,
        "rl.steps": 1,
        "rl.grad_clip": 1.0,
        "rl.temperature": case["temperature"],
        "adam.beta1": case["betas"][0],
        "adam.beta2": case["betas"][1],
        "adam.epsilon": case["eps"],
        "adam.weight_decay": case["weight_decay"][0],
    }
    assert {key: run[key] for key in expected} == expected


ROUND = [
    {},
    {"loss_type": "grpo", "epsilon_high": 0.28, "beta": 0.04},
    {"loss_type": "dr_grpo", "scale_rewards": "none"},
    {"loss_type": "dapo", "importance_sampling_level": "sequence"},
    {"loss_type": "cispo", "epsilon_high": 5.0},
    {"loss_type": "sapo", "sapo_temperature_neg": 1.2},
    {"loss_type": "luspo", "importance_sampling_level": "sequence"},
    {"loss_type": "vespo", "vespo_k_pos": 1.5},
    {"delta": 1.5},
    {"num_iterations": 2, "warmup_steps": 4, "lr_scheduler_type": "cosine", "max_grad_norm": 0.0},
    {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 6, "num_generations": 3, "mask_truncated_completions": True},
    {"eval_strategy": "steps", "eval_steps": 20, "save_steps": 50, "save_total_limit": 2},
]


@pytest.mark.parametrize("fields", ROUND, ids=str)
def test_there_and_back_is_the_same_run(fields):
    run = to_run({"max_steps": 40} | fields)
    back, notes = to_trl(run)
    assert to_run(back) == run
    assert not [note for note in notes if "warm-up" not in note]


def test_steps_prompts_and_warm_up_are_counted_as_the_trainer_counts_them():
    fields = {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 2, "num_generations": 4, "num_iterations": 2}
    run = to_run(fields | {"num_train_epochs": 3, "warmup_steps": 0.1}, rows=100, processes=2)
    # 8 x 2 x 2 = 32 responses or 8 prompts; 12 full batches an epoch, two updates each; a tenth of the 72 updates warms up.
    assert (run["rl.prompts_per_step"], run["rl.steps"], run["rl.warmup"]) == (8, 36, 4)
    with pytest.raises(ValueError, match="rows = 7: they fill no batch of 8 prompts"):
        to_run(fields, rows=7, processes=2)


def test_the_older_name_of_the_cap_is_the_cap():
    old = to_run({"max_steps": 1, "use_vllm": True, "vllm_importance_sampling_cap": 2.0})
    assert old == to_run({"max_steps": 1, "use_vllm": True, "vllm_importance_sampling_clip_max": 2.0})
    assert old["method.correction_high"] == 2


REFUSED = [
    ({"top_p": 0.9}, "top_p = 0.9: llm-train has no such setting; it must be 1.0"),
    ({"new_trick": 1}, "new_trick = 1: is not known here"),
    ({"max_steps": -1}, "give --rows N"),
    ({"steps_per_generation": 4}, "steps_per_generation = 4"),
    ({"num_generations": 5}, "must be a multiple"),
    ({"entropy_coef": 0.1}, "entropy bonus"),
    ({"loss_type": "bnpo", "gradient_accumulation_steps": 2}, "a mean over each micro-batch"),
    ({"lr_scheduler_type": "polynomial"}, "lr_scheduler_type"),
    ({"save_steps": 0.5, "max_steps": 0}, "max_steps"),
]


@pytest.mark.parametrize("fields, says", REFUSED, ids=str)
def test_what_has_no_setting_is_refused_by_name(fields, says):
    with pytest.raises(ValueError, match=says):
        to_run({"max_steps": 10} | fields)


def test_a_method_that_is_no_loss_of_trl_names_the_trainer_that_has_it():
    fields, notes = to_trl({"method.name": "grpo_lambda", "method.lambda": 0.95, "rl.lr": 1e-5, "model.checkpoint": "m"})
    assert fields == {"learning_rate": 1e-5}
    assert "CreditTrainer(method='grpo_lambda', settings={'lambda': 0.95})" in notes[0]
    assert "model.checkpoint" in notes[1]


def test_the_command_writes_toml_and_json_and_one_line_of_error(tmp_path, capsys):
    tomllib = pytest.importorskip("tomllib", reason="reading TOML needs Python 3.11")
    (tmp_path / "c.json").write_text(json.dumps({"max_steps": 7, "beta": 0.04}))
    assert main([str(tmp_path / "c.json")]) == 0
    written = capsys.readouterr().out
    assert flat(tomllib.loads(written)) == to_run({"max_steps": 7, "beta": 0.04})
    (tmp_path / "r.toml").write_text(written)
    assert main([str(tmp_path / "r.toml")]) == 0
    assert json.loads(capsys.readouterr().out)["max_steps"] == 7
    for name, text in (("e.toml", "# nothing"), ("b.json", '{"top_k": 5, "max_steps": 1}'), ("l.json", "[1]"), ("b.yaml", ""), ("missing.json", None)):
        if text is not None:
            (tmp_path / name).write_text(text)
        assert main([str(tmp_path / name)]) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1


def test_the_page_lists_every_field_that_is_read():
    page = (ROOT / "docs/from-trl.md").read_text()
    fields = [f.theirs for f in SAME] + [*LOSS, *COMBINED, *ONLY]
    assert [name for name in fields if f"`{name}`" not in page] == []
    assert toml({"a.b": 1, "c": "x"}) == 'c = "x"\n\n[a]\nb = 1\n'
