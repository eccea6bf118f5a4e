"""CreditTrainer against real TRL on a tiny model on the CPU. Writes `results.json` next to this file.

    python check.py                                     # one process
    torchrun --nproc-per-node 2 check.py                # two processes, gloo
    torchrun --nproc-per-node 2 check.py accumulation   # the comparisons whose name holds a word
    PYTHONPATH=FOLDER python check.py                   # with an older TRL, as pip install --no-deps --target FOLDER trl==1.0.0 puts it there
"""

import contextlib
import dataclasses
import functools
import inspect
import json
import logging
import os
import re
import subprocess
import sys
import tempfile
import textwrap
import warnings
from pathlib import Path

import torch
import transformers
import trl
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from transformers.trainer_callback import PrinterCallback

import grpo_lambda
from grpo_lambda import _trl_config
from grpo_lambda import trl as credit_trainer
from grpo_lambda.trl import CreditTrainer, RLOOCreditTrainer, answer_reward, record

RESULTS = Path(__file__).with_name("results.json")
NEWEST = trl.__version__.startswith("1.16")
PROCESSES = int(os.environ.get("WORLD_SIZE", 1))
TOLERANCE = 1e-6


def refused(kind, text, call):
    """Checks that `call` raises this kind of error with a text that the pattern finds."""
    try:
        call()
    except kind as error:
        assert re.search(text, str(error)), (text, str(error))
    else:
        raise AssertionError(f"accepted where an error was expected: {text}")


def tokenizer():
    words = ["<pad>", "<eos>", "<unk>", *"0123456789+=", r"\boxed{", "}"]
    made = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>", padding_side="left"
    )


def model():
    torch.manual_seed(0)
    shape = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2)
    config = LlamaConfig(vocab_size=16, max_position_embeddings=64, eos_token_id=1, pad_token_id=0, bos_token_id=None, **shape)
    return LlamaForCausalLM(config).to(torch.float32)


DATA = Dataset.from_list([{"prompt": f"{a} + {b} =", "answer": str(a + b)} for a in range(5) for b in range(5)])


#: TRL's first versions count a completion without any reward as one of reward 0, where a method here leaves it out of its group.
LEAVES_OUT = "unscorable_mask" in inspect.getsource(trl.GRPOTrainer._generate_and_score_completions)


def reward(completion_ids, **_):
    """Depends on the tokens, so that most groups differ; None at times, as for an ungradable answer."""
    return [None if LEAVES_OUT and sum(ids) % 11 == 0 else float(sum(ids) % 5 in (0, 1)) for ids in completion_ids]


@functools.cache
def start():
    """The folder of the first weights; TRL reads the reference of a KL term from the model's folder."""
    folder = tempfile.mkdtemp()
    model().save_pretrained(folder)
    return folder


#: The trainer that `train` made last.
LAST = []


def train(kind, rewards=reward, steps=3, data=DATA, **config):
    """Weights after a few steps, and the logs."""
    own = {key: config.pop(key) for key in ("method", "settings") if key in config}
    with tempfile.TemporaryDirectory() as folder:
        args = (trl.RLOOConfig if issubclass(kind, trl.RLOOTrainer) else trl.GRPOConfig)(
            output_dir=folder,
            max_steps=steps,
            seed=7,
            bf16=False,
            use_cpu=True,
            # Plain gradient steps, unclipped: Adam and a bound on the norm would hide a wrong scale, and blow up rounding.
            optim="sgd",
            max_grad_norm=0.0,
            learning_rate=0.1,
            lr_scheduler_type="constant",
            num_generations=4,
            report_to=[],
            logging_steps=1,
            save_strategy="no",
            disable_tqdm=True,
            gradient_checkpointing=False,
            **{"per_device_train_batch_size": 8 // PROCESSES, "max_completion_length": 12, **config},
        )
        policy = LlamaForCausalLM.from_pretrained(start(), dtype=torch.float32)
        trainer = kind(model=policy, reward_funcs=rewards, args=args, train_dataset=data, processing_class=tokenizer(), **own)
        trainer.remove_callback(PrinterCallback)
        LAST[:] = [trainer]
        trainer.train()
        weights = {name: p.detach().clone() for name, p in trainer.accelerator.unwrap_model(trainer.model).named_parameters()}
        return weights, trainer.state.log_history


def apart(a, b):
    return max((a[name] - b[name]).abs().max().item() for name in a)


#: Configurations of TRL. Each is trained by TRL's trainer, by ours without a method, and by ours under the method that it is here.
CASES = {
    "default (dapo)": {},
    "dapo, accumulation 2": dict(gradient_accumulation_steps=2),
    "dapo, two steps per generation": dict(steps_per_generation=2),
    "grpo": dict(loss_type="grpo"),
    "grpo, accumulation 2": dict(loss_type="grpo", gradient_accumulation_steps=2),
    "grpo, two iterations": dict(loss_type="grpo", num_iterations=2),
    "grpo, two steps per generation": dict(loss_type="grpo", steps_per_generation=2),
    "grpo, beta 0.04": dict(loss_type="grpo", beta=0.04),
    "grpo, beta 0.04, two iterations": dict(loss_type="grpo", beta=0.04, num_iterations=2),
    "grpo, beta 0.04 without correction": dict(loss_type="grpo", beta=0.04, use_bias_correction_kl=False, num_iterations=2),
    "bnpo, accumulation 2": dict(loss_type="bnpo", gradient_accumulation_steps=2),
    "dr_grpo, accumulation 2": dict(loss_type="dr_grpo", gradient_accumulation_steps=2),
    "dr_grpo, scale_rewards none": dict(loss_type="dr_grpo", scale_rewards="none"),
    "scale_rewards batch": dict(scale_rewards="batch"),
    "scale_rewards none": dict(scale_rewards="none"),
    "narrow clip, two iterations": dict(epsilon=1e-3, epsilon_high=2e-3, num_iterations=2),
    "delta, two iterations": dict(epsilon=1e-3, delta=1.0015, num_iterations=2),
    "cispo, two iterations": dict(loss_type="cispo", epsilon_high=1.001, num_iterations=2),
    "sapo, two iterations": dict(loss_type="sapo", sapo_temperature_neg=2.0, num_iterations=2),
    "vespo, two iterations": dict(loss_type="vespo", vespo_k_pos=1.5, num_iterations=2),
    "luspo of sequences, two iterations": dict(loss_type="luspo", importance_sampling_level="sequence", epsilon=1e-3, num_iterations=2),
    "luspo of tokens": dict(loss_type="luspo", scale_rewards="none", gradient_accumulation_steps=2),
    "grpo of sequences": dict(loss_type="grpo", importance_sampling_level="sequence", epsilon=3e-4, epsilon_high=4e-4, num_iterations=2),
    "grpo of sequences, beta 0.04": dict(loss_type="grpo", importance_sampling_level="sequence", beta=0.04, num_iterations=2),
    "off_policy_mask_threshold": dict(off_policy_mask_threshold=1e-4, num_iterations=2),
    "dapo of sequences": dict(importance_sampling_level="sequence", epsilon=3e-4, num_iterations=2),
    "truncated completions masked": dict(mask_truncated_completions=True, loss_type="grpo"),
    "truncated completions masked, dapo": dict(mask_truncated_completions=True),
}

#: The same of ``RLOOTrainer``.
CASES_OF_RLOO = {
    "rloo, beta 0": dict(beta=0.0),
    "rloo, accumulation 2": dict(gradient_accumulation_steps=2),
    "rloo, two steps per generation": dict(steps_per_generation=2),
    "rloo, two iterations": dict(num_iterations=2, epsilon=1e-3, epsilon_high=2e-3),
    "rloo, beta 0.2, two iterations": dict(beta=0.2, num_iterations=2),
    "rloo, normalize_advantages": dict(normalize_advantages=True),
    "rloo, reward_clip_range": dict(reward_clip_range=(0.25, 0.5), beta=0.05, num_iterations=2, normalize_advantages=True),
    "rloo, truncated completions masked": dict(mask_truncated_completions=True, normalize_advantages=True),
}

#: Configurations that no method here computes: our trainer without a method is TRL's all the same.
NOWHERE = {
    "top_entropy_quantile": dict(top_entropy_quantile=0.5),
    "entropy_coef": dict(entropy_coef=0.01),
    "cispo without epsilon_high": dict(loss_type="cispo"),
}


def known(config, kind=trl.GRPOConfig):
    """True if this version of TRL has the fields, and the loss that the table has under their names."""
    names = {field.name for field in dataclasses.fields(kind)}
    # In 1.0 the luspo of tokens multiplies each token by the length, and is a mean over slots.
    sums = "(per_token_loss * mask).sum(-1).mean()" in inspect.getsource(trl.GRPOTrainer._compute_loss)
    luspo_of_tokens = config.get("loss_type") == "luspo" and "importance_sampling_level" not in config
    return set(config) <= names and (sums or not luspo_of_tokens)


#: True if a token mean over part of a generation batch is of the tokens of that part, as from TRL 1.9 on.
RESCALES = "current_gradient_accumulation_steps / self.args.steps_per_generation" in inspect.getsource(trl.GRPOTrainer._compute_loss)


def same_scale(config):
    """False where TRL divides a share of a generation batch by the tokens of all of it, masked responses among them."""
    counts = "steps_per_generation" in config or "mask_truncated_completions" in config
    return RESCALES or not (counts and config.get("loss_type", "dapo") in ("dapo", "cispo", "vespo"))


def equal_to_trl():
    """The largest difference of a weight between TRL's trainer and ours, and the largest move of a weight."""
    found = {}
    first = {name: p.detach() for name, p in model().named_parameters()}
    all_cases = [(trl.GRPOTrainer, CreditTrainer, case) for case in {**CASES, **NOWHERE}.items()]
    of_rloo = [(trl.RLOOTrainer, RLOOCreditTrainer, case) for case in CASES_OF_RLOO.items() if known(case[1], trl.RLOOConfig)]
    for plain, ours, (name, config) in all_cases + (of_rloo if NEWEST else []):
        if not any(word in name for word in sys.argv[1:] or [""]) or not (ours is RLOOCreditTrainer or known(config)):
            continue
        a, _ = train(plain, **config)
        b, _ = train(ours, **config)
        assert apart(a, b) == 0, (name, "one changed import changed something", apart(a, b))
        assert apart(a, first) > 1e-4, (name, "the comparison is empty: nothing was learned")
        if name in NOWHERE or not (ours is RLOOCreditTrainer or same_scale(config)):
            found[name] = {"without a method": "the same bits"}
            continue
        here = LAST[0].convention
        b, logs = train(ours, method=here.method, settings=here.settings, **config)
        words = _trl_config.command(LAST[0].method, LAST[0].settings)
        found[name] = {"here": words, "largest difference of a weight": apart(a, b), "largest step of a weight": apart(a, first)}
        print(PROCESSES, name, found[name], flush=True)
        assert apart(a, b) <= TOLERANCE, (name, found[name])
        assert "clip_ratio/low_mean" in logs[0] and "credit/ratio_mean" in logs[0]
    a, _ = train(CreditTrainer, method="grpo")
    b, _ = train(CreditTrainer, method="grpo_lambda")
    assert apart(a, b) > 100 * TOLERANCE, "the comparison would not notice another method"
    return found


def corrections():
    """The corrections of vLLM, with a sampler that is made up: TRL's loss, and the settings that a configuration with vLLM is here."""

    def sampled(kind):
        class Sampled(kind):
            def __init__(self, *args, **kwargs):
                super().__init__(*args, **kwargs)
                self.use_vllm = True

            def _generate(self, prompts):
                self.use_vllm = False
                found = list(super()._generate(prompts))
                self.use_vllm = True
                # As from vLLM, some tokens could not be scored.
                scored = lambda x: float("nan") if x % 11 == 0 else -2.8 + 0.2 * (x % 5 - 2)  # noqa: E731
                found[4] = [[scored(7 * t + i) for t, i in enumerate(ids)] for ids in found[1]]
                return tuple(found)

        return Sampled

    found = {}
    credit_trainer._PROVIDED.append("sampler_logps")  # as with vLLM
    for mode in ("sequence_mask", "sequence_truncate", "token_mask", "token_truncate"):
        config = dict(vllm_importance_sampling_mode=mode, vllm_importance_sampling_clip_max=1.3, vllm_importance_sampling_clip_min=0.5)
        with_vllm = trl.GRPOConfig(use_cpu=True, bf16=False, **config)
        with_vllm.use_vllm = True
        here = _trl_config.translated(with_vllm)
        a, _ = train(sampled(trl.GRPOTrainer), num_iterations=2, **config)
        b, _ = train(sampled(CreditTrainer), method=here.method, settings=here.settings, num_iterations=2, **config)
        plain, _ = train(trl.GRPOTrainer, num_iterations=2)
        found[mode] = {"here": _trl_config.command(here.method, here.settings), "largest difference of a weight": apart(a, b)}
        print(mode, found[mode], flush=True)
        assert apart(a, b) <= TOLERANCE, (mode, found[mode])
        assert apart(a, plain) > 100 * TOLERANCE, "the correction had no effect"
    credit_trainer._PROVIDED.remove("sampler_logps")
    return found


def reward_parts():
    """GDPO reads two reward functions; ReMax's baseline is the greedy completion, whose metrics are not logged."""
    other = lambda completion_ids, **_: [len(set(ids)) / 12 for ids in completion_ids]  # noqa: E731
    a, _ = train(CreditTrainer, rewards=[reward_of_every_completion, other], method="gdpo")
    b, _ = train(CreditTrainer, rewards=[reward_of_every_completion, other], method="gdpo", reward_weights=[1.0, 0.0])
    assert apart(a, b) > 100 * TOLERANCE, "the weights of the reward functions have no effect"
    two = dict(rewards=[reward_of_every_completion, other], multi_objective_aggregation="normalize_then_sum", reward_weights=[1.0, 0.5])
    if known(dict(multi_objective_aggregation=None)):
        a, _ = train(trl.GRPOTrainer, **two)
        b, _ = train(CreditTrainer, **two)
        here = LAST[0].convention
        c, _ = train(CreditTrainer, method=here.method, settings=here.settings, **two)
        assert here.method == "gdpo" and apart(a, b) == 0 and apart(a, c) <= TOLERANCE, (here, apart(a, c))
    lost = lambda completion_ids, **_: [None, *other(completion_ids[1:])]  # noqa: E731
    number = "`gdpo` compares every part of the reward; return a number"
    refused(ValueError, number, lambda: train(CreditTrainer, rewards=[lost, other], method="gdpo"))
    seen = []

    def constant(completion_ids, **_):
        """All rewards of a step agree, so that RLOO would have no gradient, but the greedy completion's is another."""
        seen.append(completion_ids)
        return [float(len(seen) % 2) for _ in completion_ids]

    _, logs = train(CreditTrainer, rewards=constant, method="remax")
    assert len(seen) == 6 and logs[0]["grad_norm"] > 0.0, (len(seen), logs[0])
    greedy = seen[1]
    assert all(ids == greedy[0] for ids in greedy[:4]), "the completions of a prompt differ: they were sampled"
    _, plain = train(CreditTrainer, rewards=lambda completion_ids, **_: [1.0 for _ in completion_ids], method="rloo")
    assert plain[0]["completions/mean_length"] == logs[0]["completions/mean_length"], "the greedy completions are logged"


def reward_of_every_completion(completion_ids, **_):
    return [float(sum(ids) % 5 in (0, 1)) for ids in completion_ids]


def every_method():
    """Checks which methods run in TRL and why the others do not."""
    ran, refused = [], {}
    for method in grpo_lambda.methods():
        try:
            weights, logs = train(CreditTrainer, steps=2, method=method.name, gradient_accumulation_steps=2)
        except ValueError as error:
            refused[method.name] = str(error)
            assert "this policy has none" in str(error), error
            continue
        assert all(torch.isfinite(p).all() for p in weights.values()) and all("loss" in log for log in logs[:-1]), method
        ran.append(method.name)
    return ran, refused


def no_credit_depends_on_the_split():
    """A trace of all tokens and a whitened batch: accumulation 2 on half the rows is accumulation 1 on all of them."""
    for settings in (dict(method="grpo_lambda"), dict(method="reinforce_pp"), dict(method="high_entropy")):
        # One generation batch of 16 rows in both cases.
        a, _ = train(CreditTrainer, per_device_train_batch_size=16 // PROCESSES, **settings)
        b, _ = train(CreditTrainer, per_device_train_batch_size=8 // PROCESSES, gradient_accumulation_steps=2, **settings)
        assert apart(a, b) <= TOLERANCE, (settings, apart(a, b))


def refusals():
    """Impossible settings are refused before a model is loaded. tests/test_trl_config.py has the refusals of configurations."""
    for config, text in [
        (dict(method="grop"), "did you mean `grpo`"),
        (dict(method="grpo", settings={"lambda": 0.9}), "unknown key `lambda`"),
        (dict(settings={"lambda": 0.9}), "settings of no method"),
        (dict(method="grpo", loss_type="sapo"), "^loss_type = sapo: it is another loss than `grpo`"),
        (dict(method="grpo", beta=0.1, settings={"beta": 0.2}), "^beta = 0.1 is beta=0.1, and settings have beta=0.2"),
        (dict(method="grpo", settings={"beta": 0.2}), "^beta = 0.2: must be GRPOConfig's beta, 0.0$"),
        (dict(method="ppo"), "needs values, which comes from a policy with a critic; this policy has none$"),
    ]:
        own = {key: config.pop(key) for key in ("method", "settings") if key in config}
        args = trl.GRPOConfig(use_cpu=True, bf16=False, report_to=[], **config)
        refused(ValueError, text, lambda: CreditTrainer("no such model", reward, args, DATA, **own))


def metrics_are_those_of_the_loss():
    """GSPO clips whole responses, which TRL's own loss with ratios of tokens does not."""
    _, logs = train(CreditTrainer, method="gspo", settings={"epsilon_low": 1e-6, "epsilon_high": 1e-6}, num_iterations=3)
    last = [log for log in logs if "loss" in log][-1]
    low, high, region = (last[f"clip_ratio/{name}_mean"] for name in ("low", "high", "region"))
    assert region > 0.3 and abs(low + high - region) < 1e-6, last
    assert not any(name.startswith("credit/clip") for name in last), last
    assert last["clip_ratio/low_min"] <= low and last["clip_ratio/high_max"] in (0.0, 1.0), last
    _, logs = train(CreditTrainer, method="vespo")
    assert not any(name.startswith("vespo/") for name in logs[0]), logs[0]


def masked(kind):
    """The trainer with every third row of completions masked whole."""

    class Masked(kind):
        def _generate(self, prompts):
            found = list(super()._generate(prompts))
            found[2] = [[0] * len(ids) if row % 3 == 0 else [1] * len(ids) for row, ids in enumerate(found[1])]
            return tuple(found)

    return Masked


def rows_without_a_token():
    """A completion whose tokens are all masked: the weights are TRL's, and training goes on."""
    # Before 1.9 the tokens are counted where they are generated, and a mask that comes later is not seen.
    for loss_type in ("grpo", "dr_grpo", *(["dapo"] if RESCALES else [])):
        a, _ = train(masked(trl.GRPOTrainer), loss_type=loss_type)
        b, _ = train(masked(CreditTrainer), loss_type=loss_type, method="dr_grpo" if loss_type == "dr_grpo" else "grpo",
                     settings={"scale": "group"})
        assert apart(a, b) <= TOLERANCE, (loss_type, apart(a, b))


def a_card_of_the_method():
    train(CreditTrainer, method="sapo", steps=1)
    with tempfile.TemporaryDirectory() as folder:
        LAST[0].args.output_dir = folder
        LAST[0].create_model_card(model_name="tiny")
        card = (Path(folder) / "README.md").read_text()
    assert "trained with SAPO" in card and "- sapo\n" in card and "- grpo\n" not in card and "papers/2511.20347" in card, card


def recorder(kind, steps):
    """The trainer with its training recorded into ``steps``."""

    class Recorded(kind):
        def train(self, *args, **kwargs):
            with record(self) as step:
                super().train(*args, **kwargs)
            steps.append(step)

    return Recorded


def recorded_steps():
    """The recorder names TRL's convention, changes nothing, and its files are read by the search."""
    found = {}
    for words, config in {
        "loss_type=dapo (the default)": {},
        "loss_type=grpo": dict(loss_type="grpo", gradient_accumulation_steps=2),
        "loss_type=dr_grpo, scale_rewards=none": dict(loss_type="dr_grpo", scale_rewards="none", steps_per_generation=2),
        "loss_type=sapo": dict(loss_type="sapo"),
    }.items():
        steps = []

        class Recorded(trl.GRPOTrainer):
            def train(self, *args, **kwargs):
                refused(FileNotFoundError, "there is no folder nowhere", record(self, "nowhere/step.jsonl").__enter__)
                refused(TypeError, "must be a GRPOTrainer or an RLOOTrainer of TRL", record("model").__enter__)
                with tempfile.TemporaryDirectory() as folder, record(self, Path(folder) / "step.jsonl") as step:
                    super().train(*args, **kwargs)
                steps.append(step)

        a, _ = train(trl.GRPOTrainer, **config)
        b, _ = train(Recorded, **config)
        assert apart(a, b) == 0, "recording changed the training"
        (step,) = steps
        advantages, gradient, loss = step.found
        assert gradient.matches and gradient.matches[0].error < 1e-6, step.sentence
        assert any(f"TRL {words}" in m.labels for m in gradient.matches), (words, step.sentence, gradient.matches)
        assert not advantages.note and advantages.matches, step.sentence
        # The loss of a response mean on-policy is 0 but for rounding, and tells nothing.
        assert words.split(" (")[0] in step.sentence and "as configured" in step.sentence, step.sentence
        assert step.configured.agrees(1e-6), step.configured
        assert not loss.nearest or abs(step.theirs[0]["loss"]) < 1e-6, step.sentence
        found[words] = step.sentence.split(": ", 1)[1]
    return found


def a_mean_of_each_micro_batch_is_named():
    """A trainer configured with dapo whose loss is bnpo's: the search reads the micro-batch of each response."""

    class OfParts(trl.GRPOTrainer):
        def _compute_loss(self, model, inputs):
            self.loss_type = "bnpo"
            return super()._compute_loss(model, inputs)

    steps = []
    shape = dict(steps=1, rewards=reward_of_every_completion, per_device_train_batch_size=4, gradient_accumulation_steps=2)
    train(recorder(OfParts, steps), max_completion_length=40, **shape)
    (step,) = steps
    assert sorted(part for line in step.theirs for part in line["parts"]) == [0] * 4 + [1] * 4, step.theirs
    expected = "NOT TRL loss_type=dapo", "that of TRL loss_type=bnpo (`grpo reduction=token_mean` of each micro-batch here)"
    assert all(words in step.sentence for words in expected), step.sentence
    return step.sentence


def rloo_is_recorded():
    """A step of RLOOTrainer on 100 groups, in the second pass over them; what RLOOCreditTrainer refuses, and another method in it."""
    found, steps = {}, []
    data = Dataset.from_list([{"prompt": f"{a} + {b} =", "answer": str(a + b)} for a in range(10) for b in range(10)])
    shape = dict(per_device_train_batch_size=400, num_iterations=2, data=data, steps=2, rewards=reward)
    for config in ({}, dict(beta=0.0), dict(normalize_advantages=True, reward_clip_range=(0.25, 0.5))):
        a, _ = train(trl.RLOOTrainer, **shape, **config)
        b, _ = train(recorder(trl.RLOOTrainer, steps), **shape, **config)
        assert apart(a, b) == 0, "recording changed the training"
        step = steps[-1]
        assert len(step.groups) == 100 and "400 responses in 100 groups: TRL RLOOTrainer" in step.sentence, step.sentence
        assert "as configured (`rloo " in step.sentence and step.configured.agrees(1e-5), step.sentence
        advantages, gradient, _ = step.found
        of_rloo = lambda f: any(label.startswith("TRL RLOOTrainer") for m in f.matches for label in m.labels)  # noqa: E731
        # Advantages are searched without the bounds of rewards.
        assert (of_rloo(advantages) or "reward_clip_range" in config) and of_rloo(gradient), step.sentence
        found[", ".join(f"{key}={value}" for key, value in config.items()) or "default"] = step.sentence
    a, _ = train(RLOOCreditTrainer, method="rloo", steps=2)
    b, _ = train(RLOOCreditTrainer, method="grpo", beta=0.0, steps=2)
    assert apart(a, b) > 100 * TOLERANCE, "the comparison would not notice another method"
    refused(ValueError, "`grpo` has no setting reward_beta; set beta=0.0$", lambda: train(RLOOCreditTrainer, method="grpo"))
    refused(ValueError, "generated by CreditTrainer", lambda: train(RLOOCreditTrainer, method="remax", beta=0.0))
    return found


def a_trainer_that_is_not_as_configured_is_reported():
    """PPO's clip the wrong way round is seen where ratios leave it, and said to be unseen where they are 1."""
    code = inspect.getsource(trl.GRPOTrainer._compute_loss)
    assert code.count("torch.min(") == 1
    module = vars(sys.modules[trl.GRPOTrainer.__module__])
    wrong = dict(module)
    exec(textwrap.dedent(code).replace("torch.min(", "torch.max("), wrong)
    found = {}
    for name, config in {"on-policy": {}, "second pass": dict(num_iterations=2, epsilon=1e-6)}.items():
        for loss_of in (None, wrong["_compute_loss"]):
            steps = []
            kind = recorder(trl.GRPOTrainer, steps)
            if loss_of is not None:
                kind._compute_loss = loss_of
            train(kind, **config)
            found[name, loss_of is None] = steps[0].sentence
    for right in (True, False):
        assert "as configured" in found["on-policy", right] and "every ratio is 1" in found["on-policy", right], found
        assert ("NOT TRL loss_type=dapo" in found["second pass", right]) is not right, found


def what_is_wrong_comes_first():
    """Advantages that no convention gives come before whose the gradient is with them; a mean of micro-batches is named as one."""

    class Shifted(trl.GRPOTrainer):
        def _generate_and_score_completions(self, inputs):
            output = super()._generate_and_score_completions(inputs)
            output["advantages"] = output["advantages"].roll(1)
            return output

    steps = []
    train(recorder(Shifted, steps))
    said = steps[0].sentence
    assert said.index("its advantages are of no known convention") < said.index("the gradient by log-probabilities is with these advantages"), said
    assert "stand in another order" in said, said
    train(recorder(trl.GRPOTrainer, steps), loss_type="bnpo", gradient_accumulation_steps=2)
    assert "`grpo reduction=token_mean` of each micro-batch here" in steps[1].sentence and steps[1].configured.agrees(1e-6), steps[1].sentence
    train(recorder(trl.GRPOTrainer, steps), rewards=lambda completion_ids, **_: [0.0] * len(completion_ids))
    assert re.search(r"Every reward is 0, and \d+ of \d+ completions have no .boxed", steps[2].sentence), steps[2].sentence
    train(recorder(trl.GRPOTrainer, steps), top_entropy_quantile=0.5)
    assert re.search(r"groups[^:]*: top_entropy_quantile = 0.5: TRL counts", steps[3].sentence), steps[3].sentence
    assert "nearest" not in steps[3].sentence, steps[3].sentence
    train(recorder(trl.GRPOTrainer, steps), loss_type="sapo", num_iterations=2)
    assert "reaches the clip" not in steps[4].sentence, steps[4].sentence
    if known(dict(entropy_coef=0.0)):
        train(recorder(trl.GRPOTrainer, steps), entropy_coef=0.01)
        assert "entropy_coef = 0.01: an entropy bonus" in steps[5].sentence, steps[5].sentence
        assert "the gradient by log-probabilities is that of TRL loss_type=dapo" in steps[5].sentence, steps[5].sentence


def responses_without_a_token_are_compared():
    steps = []
    train(masked(recorder(trl.GRPOTrainer, steps)), loss_type="grpo")  # before 1.9 a token mean counts masked tokens
    assert "without a token" in steps[0].sentence and steps[0].configured.agrees(1e-6), steps[0].sentence
    # Its file has the rows as they are, and the search reads them.
    assert any(not row for group in steps[0].groups for row in group["logps"]), steps[0].groups
    assert "grpo reduction=response_mean" in {match.command for match in steps[0].found[1].matches}, steps[0].found


def a_step_without_a_gradient_is_passed_over():
    calls = []

    def late(completion_ids, **_):
        calls.append(None)
        return [1.0 if len(calls) < 3 else float(sum(ids) % 2) for ids in completion_ids]

    steps = []
    a, _ = train(trl.GRPOTrainer, rewards=late, steps=4, gradient_accumulation_steps=2)
    calls.clear()
    b, _ = train(recorder(trl.GRPOTrainer, steps), rewards=late, steps=4, gradient_accumulation_steps=2)
    assert apart(a, b) == 0, "recording changed the training"
    assert "loss_type=dapo" in steps[0].sentence and {0.0, 1.0} == {r for g in steps[0].groups for r in g["rewards"]}, steps[0].sentence
    train(recorder(trl.GRPOTrainer, steps), rewards=lambda completion_ids, **_: [1.0] * len(completion_ids))
    assert steps[1].sentence.endswith("record more steps"), steps[1].sentence


def rewards_from_the_grader():
    reward = answer_reward("answer", extract="any")
    assert reward(completions=["so 3", "so 4"], answer=["3", 3], prompts=["", ""]) == [1.0, 0.0]
    boxed = answer_reward("answer")
    assert boxed(completions=[[{"role": "assistant", "content": r"\boxed{1/2}"}], r"\boxed{((}"], answer=["0.5", "1"]) == [1.0, None]
    # Training pays for no arithmetic still to be done, and in a text that was cut off for a marked answer only.
    prose = ["18 + 3 is a sum", "That makes 21.", "That makes 21 and", "The answer is 21, since"]
    ids = {"completion_ids": [[0], [0], [0] * 8, [0] * 8]}
    free = answer_reward("answer", extract="free", max_completion_length=8)
    assert free(completions=prose, answer=["21"] * 4, prompts=[""] * 4, **ids) == [0.0, 1.0, 0.0, 1.0]
    assert answer_reward("answer", extract="free", rules="lenient")(completions=prose[:1], answer=["21"], prompts=[""]) == [1.0]
    column = "column = `gold`: the data set has no such column; it has answer"
    refused(ValueError, column, lambda: answer_reward("gold")(completions=["1"], answer=["1"]))
    train(CreditTrainer, rewards=answer_reward("answer", extract="any"), steps=1, method="grpo_lambda")


def block_of_the_page():
    """The block of docs/python.md, with a user's model, arguments and data."""
    page = (Path(__file__).parents[4] / "docs/python.md").read_text()
    (block,) = [b for b in re.findall(r"^```python\n(.*?)^```", page, re.M | re.S) if "grpo_lambda.trl" in b]
    with tempfile.TemporaryDirectory() as folder:
        model().save_pretrained(folder)
        tokenizer().save_pretrained(folder)
        shape = dict(per_device_train_batch_size=4, num_generations=4, max_completion_length=8, max_steps=1)
        args = trl.GRPOConfig(output_dir=folder, use_cpu=True, bf16=False, report_to=[], save_strategy="no", **shape)
        names = {"model": folder, "args": args, "dataset": DATA}
        with contextlib.chdir(folder) if hasattr(contextlib, "chdir") else contextlib.nullcontext():
            exec(compile(block, "docs/python.md", "exec"), names)
        assert names["trainer"].state.global_step == 1


def example():
    """examples/with_trl.py on the tiny model, as its users run it."""
    with tempfile.TemporaryDirectory() as folder:
        model().save_pretrained(folder)
        tokenizer().save_pretrained(folder)
        script = Path(__file__).parents[2] / "examples/with_trl.py"
        words = [sys.executable, script, folder]
        env = {**os.environ, "ACCELERATE_USE_CPU": "true", "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, env=env)
        assert done.returncode == 0, done.stderr[-2000:]
        for text in ("TRL's own loss, unchanged: loss_type=dapo", "TRL loss_type=dapo, as configured", "you asked for `grpo_lambda lambda=0.95`"):
            assert text in done.stdout, done.stdout


def hooks():
    """The parts of TRL that CreditTrainer relies on. A release that moves one of them fails here by name."""
    import inspect

    base = trl.GRPOTrainer
    expected = {
        "_calculate_rewards": ["self", "inputs", "prompts", "completions", "completion_ids_list"],
        "_generate_and_score_completions": ["self", "inputs"],
        "_compute_loss": ["self", "model", "inputs"],
    }
    for name, parameters in expected.items():
        assert hasattr(base, name), f"GRPOTrainer has no {name} any more"
        found = list(inspect.signature(getattr(base, name)).parameters)
        assert found == parameters, f"GRPOTrainer.{name} takes {found}, not {parameters}"
    loss = inspect.getsource(base._compute_loss)
    assert "if advantages.dim() == 1:" in loss, "_compute_loss accepts no advantages of shape (B, T) any more"
    assert loss.count("self._get_per_token_logps_and_entropies(") == 1, "_compute_loss scores the batch another way"
    # Before 1.15 the trainer says so by other attributes, which the comparison of weights covers.
    assert vars(base).get("loss_is_scaled_for_ga", True) is True, "the loss of GRPOTrainer is scaled by the Trainer now"
    scored = inspect.getsource(base._generate_and_score_completions)
    for text in ('self._logs["advantages"].extend(', 'output["old_per_token_logps"]', "self._calculate_rewards("):
        assert text in scored, f"_generate_and_score_completions has no {text} any more"


def main():
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)  # the model is tiny: threads would wait for each other
    hooks()
    start()  # before there are several processes, of which only the first would write
    found = {"versions": {m.__name__: m.__version__ for m in (trl, transformers, torch)}, "tolerance": TOLERANCE}
    found["weights after 3 steps"] = equal_to_trl()
    if sys.argv[1:]:
        return print(json.dumps(found, indent=1))
    no_credit_depends_on_the_split()
    if PROCESSES == 1:
        refusals()
        metrics_are_those_of_the_loss()
        reward_parts()
        if NEWEST:
            found["corrections of vLLM"] = corrections()
            example()
        rows_without_a_token()
        a_card_of_the_method()
        found["recorded steps"] = recorded_steps()
        found["recorded mean of each micro-batch"] = a_mean_of_each_micro_batch_is_named()
        if NEWEST:
            found["recorded steps of RLOOTrainer"] = rloo_is_recorded()
        a_step_without_a_gradient_is_passed_over()
        a_trainer_that_is_not_as_configured_is_reported()
        what_is_wrong_comes_first()
        responses_without_a_token_are_compared()
        if NEWEST:
            rewards_from_the_grader()
            block_of_the_page()
            found["methods that run"], found["methods that are refused"] = every_method()
    if int(os.environ.get("RANK", 0)) == 0:
        known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        known[f"TRL {trl.__version__}, {PROCESSES} process{'es' if PROCESSES > 1 else ''}"] = found
        RESULTS.write_text(json.dumps(known, indent=1) + "\n")
        print(json.dumps(found, indent=1))


if __name__ == "__main__":
    sys.exit(main())
