"""TRL: the advantages of its GRPOTrainer and RLOOTrainer, and their losses with the gradient by each log-probability."""

import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
import trl

import grpo_lambda

sys.path.append(str(Path(__file__).parents[1] / "tests/trl"))
import check  # noqa: E402

PACKAGES = ["trl", "transformers", "torch"]
#: Responses per prompt, in the order of a batch's rows.
GROUP = 4
ROWS = 4 * GROUP


class Theirs:
    """A GRPOTrainer that never runs its model: responses and log-probabilities are given."""

    def __init__(self, scale_rewards):
        self.rewards = []
        with tempfile.TemporaryDirectory() as folder:
            shape = dict(per_device_train_batch_size=ROWS, num_generations=GROUP, max_completion_length=10)
            args = trl.GRPOConfig(
                output_dir=folder, use_cpu=True, bf16=False, report_to=[], gradient_checkpointing=False,
                beta=0.04, scale_rewards=scale_rewards, **shape,
            )
            made = dict(args=args, train_dataset=check.DATA, processing_class=check.tokenizer())
            policy = check.LlamaForCausalLM.from_pretrained(check.start(), dtype=torch.float32)
            self.trainer = trl.GRPOTrainer(model=policy, reward_funcs=lambda **_: self.rewards, **made)
        self.trainer.model.train()
        self.trainer.current_gradient_accumulation_steps = 1

    def advantages(self, batch):
        responses = [[3] * int(n - 1) + [1] for n in batch.mask.sum(axis=1)]
        self.rewards = batch.rewards.tolist()
        self.trainer._generate = lambda prompts: ([[3, 4]] * ROWS, responses, None, [""] * ROWS, None, {}, None, [])
        found = self.trainer._generate_and_score_completions([check.DATA[i // GROUP] for i in range(ROWS)])
        return found["advantages"].double().numpy()

    def loss(self, batch, advantages, case):
        """Loss and gradient on these log-probabilities. Slots outside the mask are a tool's output or padding."""
        trainer = self.trainer
        logps = torch.tensor(batch.new, requires_grad=True)
        trainer._get_per_token_logps_and_entropies = lambda *_, **__: (logps, torch.zeros_like(logps), None)
        trainer.loss_type, trainer.beta = case["loss_type"], case.get("beta", 0.0)
        trainer.epsilon_low, trainer.epsilon_high = case.get("epsilon", (0.2, 0.2))
        trainer.importance_sampling_level = case.get("level", "token")
        trainer.args.delta = case.get("delta")
        trainer.args.use_bias_correction_kl = case.get("corrected", False)
        mask, prompts = torch.tensor(batch.mask), torch.zeros(ROWS, 2, dtype=torch.long)
        inputs = dict(
            prompt_ids=prompts, prompt_mask=torch.ones_like(prompts), completion_ids=torch.zeros_like(mask),
            completion_mask=torch.ones_like(mask), tool_mask=mask, advantages=torch.tensor(advantages),
            old_per_token_logps=torch.tensor(batch.old), ref_per_token_logps=torch.tensor(batch.ref),
            num_items_in_batch=mask.sum(),
        )
        trainer._metrics["train"].clear()
        loss = trainer._compute_loss(trainer.model, inputs)
        loss.backward()
        return loss.item(), logps.grad.numpy()


class TheirsOfRloo:
    """An RLOOTrainer that never runs its model: responses and log-probabilities are given, packed to the left, as it knows no tools."""

    def __init__(self, config):
        self.rewards = []
        with tempfile.TemporaryDirectory() as folder:
            shape = dict(per_device_train_batch_size=ROWS, num_generations=GROUP, max_completion_length=10)
            args = trl.RLOOConfig(output_dir=folder, use_cpu=True, bf16=False, report_to=[], gradient_checkpointing=False, **shape, **config)
            made = dict(args=args, train_dataset=check.DATA, processing_class=check.tokenizer())
            policy = check.LlamaForCausalLM.from_pretrained(check.start(), dtype=torch.float32)
            self.trainer = trl.RLOOTrainer(model=policy, reward_funcs=lambda **_: self.rewards, **made)
        self.trainer.model.train()

    def step(self, batch):
        """Advantages, loss and gradient; rows of the gradient have the batch's places."""
        trainer, lengths = self.trainer, batch.mask.sum(axis=1)
        self.rewards = batch.rewards.tolist()
        trainer._generate = lambda prompts: ([[3, 4]] * ROWS, [[3] * int(n - 1) + [1] for n in lengths], [""] * ROWS)
        scored = iter([packed(batch.old, batch.mask), packed(batch.ref, batch.mask)])
        trainer._get_per_token_logps_and_entropies = lambda *_, **__: (next(scored), None, None)
        inputs = trainer._generate_and_score_completions([check.DATA[i // GROUP] for i in range(ROWS)])
        logps = packed(batch.new, batch.mask).requires_grad_()
        trainer._get_per_token_logps_and_entropies = lambda *_, **__: (logps, torch.zeros_like(logps), None)
        trainer._metrics["train"].clear()
        loss = trainer._compute_loss(trainer.model, inputs)
        loss.backward()
        gradient = np.zeros_like(batch.new)
        gradient[batch.mask != 0] = logps.grad.numpy()[np.arange(logps.shape[1]) < lengths[:, None]]
        return inputs["advantages"].double().numpy(), loss.item(), gradient


def packed(rows, mask):
    """The slots of the mask, moved to the left, as a tensor."""
    lengths = mask.sum(axis=1)
    out = np.zeros((len(rows), lengths.max()))
    out[np.arange(lengths.max()) < lengths[:, None]] = rows[mask != 0]
    return torch.tensor(out)


#: TRL's setting of RLOOTrainer, and our settings of ``rloo``.
RLOO = {
    "RLOOTrainer beta=0": (dict(beta=0.0), {}),
    "RLOOTrainer": ({}, {"reward_beta": 0.05}),
    "RLOOTrainer normalize_advantages": (dict(normalize_advantages=True), {"reward_beta": 0.05, "normalise": True}),
    "RLOOTrainer epsilon_high=0.28 reward_clip_range=[-1, 1]": (
        dict(reward_clip_range=(-1.0, 1.0), epsilon_high=0.28),
        {"reward_beta": 0.05, "reward_low": -1, "reward_high": 1, "epsilon_high": 0.28},
    ),
}


def of_rloo(batch):
    for name, (config, settings) in RLOO.items():
        if name not in TRAINERS:
            TRAINERS[name] = TheirsOfRloo(config)
        settings = {"ratio": "product", "clip": "ppo", "reduction": "response_mean", **settings}
        advantages, loss, gradient = TRAINERS[name].step(batch)
        fixed = grpo_lambda.credit_padded(
            "rloo", batch.rewards.tolist(), batch.old, batch.mask, group=batch.index, ref_logps=batch.ref, **settings
        )
        yield name, words("rloo", settings), "advantages", fixed.advantages.sum(axis=1) / batch.mask.sum(axis=1) - advantages, None
        # The loss is compared at its advantages, which it holds in 32 bits.
        given = grpo_lambda.credit_from_rows(
            "rloo", advantages=batch.mask * advantages[:, None], weights=fixed.weights, old_logps=batch.old, mask=batch.mask, ref_logps=batch.ref, **settings
        )
        ours = grpo_lambda.loss(given, batch.new)
        yield name, words("rloo", settings), "loss", np.asarray(ours.loss - loss), None
        yield name, words("rloo", settings), "gradient", ours.dlogps - gradient, None


BASE = {"reduction": "response_mean", "kl": "k3"}
WIDTH = {"reduction": "constant", "max_length": 10}
#: TRL's setting, our method and settings.
LOSSES = [
    ("loss_type=grpo", dict(loss_type="grpo"), "grpo", BASE),
    ("loss_type=grpo beta=0.04", dict(loss_type="grpo", beta=0.04), "grpo", {**BASE, "beta": 0.04}),
    (
        "loss_type=grpo beta=0.04 use_bias_correction_kl",
        dict(loss_type="grpo", beta=0.04, corrected=True),
        "grpo",
        {**BASE, "beta": 0.04, "kl": "ratio_k3"},
    ),
    ("loss_type=grpo epsilon_high=0.28", dict(loss_type="grpo", epsilon=(0.2, 0.28)), "grpo", {**BASE, "epsilon_high": 0.28}),
    ("loss_type=grpo delta=1.4", dict(loss_type="grpo", delta=1.4), "grpo", {**BASE, "clip": "two_sided", "clip_max": 1.4}),
    ("loss_type=dr_grpo", dict(loss_type="dr_grpo"), "dr_grpo", WIDTH),
    ("loss_type=bnpo", dict(loss_type="bnpo"), "grpo", {"reduction": "token_mean"}),
    ("loss_type=dapo", dict(loss_type="dapo", epsilon=(0.2, 0.28)), "dapo", {"reduction": "token_mean"}),
    ("loss_type=cispo epsilon_high=1.1", dict(loss_type="cispo", epsilon=(0.2, 1.1)), "cispo", {"cap": 1.1, "reduction": "token_mean"}),
    ("loss_type=sapo", dict(loss_type="sapo"), "sapo", {"reduction": "response_mean"}),
    ("loss_type=vespo", dict(loss_type="vespo"), "vespo", {}),
    (
        "loss_type=grpo importance_sampling_level=sequence",
        dict(loss_type="grpo", level="sequence"),
        "gspo",
        {**BASE, "epsilon_low": 0.2, "epsilon_high": 0.2},
    ),
    (
        "loss_type=luspo importance_sampling_level=sequence",
        dict(loss_type="luspo", level="sequence"),
        "luspo",
        {"reduction": "response_sum", "epsilon_low": 0.2, "epsilon_high": 0.2},
    ),
]

TRAINERS = {}


def theirs(scale):
    if scale not in TRAINERS:
        TRAINERS[scale] = Theirs(scale)
    return TRAINERS[scale]


def words(method, settings):
    return " ".join([method, *(f"{key}={str(value).lower()}" for key, value in settings.items())])


def compare(batch, holes):
    for scale in ["group", "batch", "none"]:
        settings = {"scale": scale, "std_preset": "trl"} if scale != "none" else {"scale": scale}
        found = grpo_lambda.credit_padded("grpo", batch.rewards.tolist(), batch.old, batch.mask, group=batch.index, **settings)
        ours = found.advantages.sum(axis=1) / batch.mask.sum(axis=1)
        yield f"scale_rewards={scale}", words("grpo", settings), "advantages", ours - theirs(scale).advantages(batch), None
    for name, case, method, settings in LOSSES:
        fixed = grpo_lambda.credit_padded(
            method, batch.rewards.tolist(), batch.old, batch.mask, group=batch.index, ref_logps=batch.ref, **settings
        )
        per_row = fixed.advantages.sum(axis=1) / batch.mask.sum(axis=1)
        ours = grpo_lambda.loss(fixed, batch.new)
        loss, gradient = theirs("none").loss(batch, per_row, case)
        yield name, words(method, settings), "loss", np.asarray(ours.loss - loss), None
        yield name, words(method, settings), "gradient", ours.dlogps - gradient, None
    yield from of_rloo(batch)


def sizes(_):
    """TRL has the same number of responses to every prompt."""
    return [GROUP] * 4
