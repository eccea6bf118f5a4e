#!/usr/bin/env python3
"""One GRPO step in PyTorch on random weights of a published shape: what `llm-train bench` times, for the ratio.

The step: sample `prompts` x `group` responses of full length, log-probabilities under the policy and a frozen copy, GRPO's loss with the
k3 estimate of the KL, backward, clipping at 1, AdamW. Every prompt and every response has the same length, so nothing is padded.

--impl plain         a Qwen2 written here: fused projections and scaled_dot_product_attention. Rollout by a preallocated cache and, on a
                     card, one decode step captured in a CUDA graph and replayed, sampling included; the host waits once, at the end
--impl transformers  Qwen2ForCausalLM, and its generate() with a static cache

Weights and activations are bf16 on a card. AdamW holds f32 weights and moments and writes the bf16 weights (--optimizer master), or works
on the bf16 weights with bf16 moments (--optimizer plain, which loses small updates). Prints one JSON line, with the keys of
`llm-train bench`.
"""

import argparse
import copy
import json
import math
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

# vocabulary, width, MLP, layers, query heads, key heads, numbers of a head, tied head, base of the rotation
SHAPES = {
    "tiny": (512, 64, 176, 2, 4, 2, 16, True, 1e4),
    "qwen2.5-math-1.5b": (151936, 1536, 8960, 28, 12, 2, 128, True, 1e4),
    "qwen2.5-3b": (151936, 2048, 11008, 36, 16, 2, 128, True, 1e6),
    "smollm2": (49152, 576, 1536, 30, 9, 3, 64, True, 1e5),  # with Qwen's biases, 0.02 % of its weights
    "qwen2.5-7b": (152064, 3584, 18944, 28, 28, 4, 128, False, 1e6),
}
EPS = 1e-6


def turn(x, cos, sin):
    low, high = x.chunk(2, -1)
    return x * cos + torch.cat([-high, low], -1) * sin


class Layer(nn.Module):
    def __init__(self, shape):
        super().__init__()
        _, h, f, _, q, k, d, _, _ = shape
        self.heads = (q, k, d)
        self.norm1 = nn.Parameter(torch.ones(h))
        self.qkv = nn.Linear(h, (q + 2 * k) * d)
        self.out = nn.Linear(q * d, h, bias=False)
        self.norm2 = nn.Parameter(torch.ones(h))
        self.gate_up = nn.Linear(h, 2 * f, bias=False)
        self.down = nn.Linear(f, h, bias=False)

    def forward(self, x, cos, sin, attend):
        q, k, d = self.heads
        rows, tokens, h = x.shape
        y = self.qkv(F.rms_norm(x, (h,), self.norm1, EPS))
        y = y.view(rows, tokens, q + 2 * k, d).transpose(1, 2)
        query, key, value = y.split([q, k, k], 1)
        y = attend(turn(query, cos, sin), turn(key, cos, sin), value)
        x = x + self.out(y.transpose(1, 2).reshape(rows, tokens, q * d))
        gate, up = self.gate_up(F.rms_norm(x, (h,), self.norm2, EPS)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Qwen2(nn.Module):
    """tokens [rows, n] -> hidden states [rows, n, width]; `head` gives logits."""

    def __init__(self, shape):
        super().__init__()
        vocabulary, h, _, layers, _, _, d, tied, base = shape
        self.shape = shape
        self.embedding = nn.Embedding(vocabulary, h)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(layers))
        self.norm = nn.Parameter(torch.ones(h))
        self.own_head = None if tied else nn.Linear(h, vocabulary, bias=False)
        self.register_buffer("frequencies", base ** (-torch.arange(0, d, 2).double() / d), persistent=False)
        for p in self.parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02)

    def head(self, x):
        return F.linear(x, self.embedding.weight if self.own_head is None else self.own_head.weight)

    def turns(self, positions, dtype):
        angles = positions.double()[..., None] * self.frequencies
        angles = torch.cat([angles, angles], -1)
        return angles.cos().to(dtype), angles.sin().to(dtype)

    def hidden(self, tokens, cos, sin, attend, recompute=False):
        x = self.embedding(tokens)
        for i, layer in enumerate(self.layers):
            run = lambda x, layer=layer, i=i: layer(x, cos, sin, lambda q, k, v: attend(i, q, k, v))
            x = torch.utils.checkpoint.checkpoint(run, x, use_reentrant=False) if recompute else run(x)
        return F.rms_norm(x, (x.shape[-1],), self.norm, EPS)

    def forward(self, tokens, recompute=False, keep=None):
        cos, sin = self.turns(torch.arange(tokens.shape[1], device=tokens.device), self.norm.dtype)

        def attend(i, q, k, v):
            if keep is not None:
                keep(i, k, v)
            return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

        return self.hidden(tokens, cos, sin, attend, recompute)


def chosen(logits, tokens):
    """log p of the tokens, in f32."""
    logits = logits.float()
    return logits.gather(-1, tokens[..., None])[..., 0] - logits.logsumexp(-1)


class Rollout:
    """Responses of full length: prompts are read once each, then one captured step is replayed."""

    def __init__(self, model, prompts, group, prompt_tokens, completion):
        _, _, _, layers, _, k, d, _, _ = model.shape
        weight = model.norm
        self.model, self.group, self.start = model, group, prompt_tokens
        rows, most = prompts * group, prompt_tokens + completion
        new = lambda *size, dtype=weight.dtype: torch.zeros(*size, dtype=dtype, device=weight.device)
        self.keys, self.values = new(layers, rows, k, most, d), new(layers, rows, k, most, d)
        self.token, self.place = new(rows, 1, dtype=torch.long), new(1, dtype=torch.long)
        self.out, self.logps = new(rows, completion, dtype=torch.long), new(rows, completion, dtype=torch.float32)
        self.cos, self.sin = model.turns(torch.arange(most, device=weight.device), weight.dtype)
        self.positions = torch.arange(most, device=weight.device)
        self.graph = None

    def draw(self, logits, at):
        # The largest of p / e with e exponential is a draw from p; no number has to reach the host.
        logits = logits.float()
        logps = logits - logits.logsumexp(-1, keepdim=True)
        self.token.copy_((logps.exp() / torch.empty_like(logps).exponential_(1.0)).argmax(-1, keepdim=True))
        self.out.index_copy_(1, at, self.token)
        self.logps.index_copy_(1, at, logps.gather(-1, self.token))

    def step(self):
        seen = (self.positions <= self.place)[None, None, None, :]

        def attend(i, q, k, v):
            self.keys[i].index_copy_(2, self.place, k)
            self.values[i].index_copy_(2, self.place, v)
            return F.scaled_dot_product_attention(
                q, self.keys[i], self.values[i], attn_mask=seen, enable_gqa=True
            )

        cos, sin = self.cos.index_select(0, self.place), self.sin.index_select(0, self.place)
        x = self.model.hidden(self.token, cos, sin, attend)
        self.place += 1
        self.draw(self.model.head(x[:, -1]), self.place - self.start)

    def capture(self):
        """After a first rollout: a side stream warms up, then the step is recorded."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):
                self.place.fill_(self.start)
                self.step()
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.step()

    @torch.no_grad()
    def run(self, prompts):
        def keep(i, k, v):
            self.keys[i][:, :, : self.start] = k.repeat_interleave(self.group, 0)
            self.values[i][:, :, : self.start] = v.repeat_interleave(self.group, 0)

        last = self.model(prompts, keep=keep)[:, -1]
        self.place.fill_(self.start)
        self.draw(self.model.head(last).repeat_interleave(self.group, 0), self.place - self.start)
        for _ in range(self.out.shape[1] - 1):
            self.graph.replay() if self.graph else self.step()
        return self.out.clone(), self.logps.clone()


class Optimizer:
    """AdamW, on f32 copies of the weights or on the weights."""

    def __init__(self, model, how, lr):
        self.weights = list(model.parameters())
        apart = how == "master" and self.weights[0].dtype != torch.float32
        self.master = [w.detach().float() for w in self.weights] if apart else None
        fused = self.weights[0].is_cuda
        self.inner = torch.optim.AdamW(self.master or self.weights, lr=lr, weight_decay=0.0, fused=fused)

    def step(self):
        owners = self.master or self.weights
        if self.master:
            for m, w in zip(self.master, self.weights):
                m.grad, w.grad = w.grad.float(), None
        nn.utils.clip_grad_norm_(owners, 1.0)
        self.inner.step()
        self.inner.zero_grad(set_to_none=True)
        if self.master:
            with torch.no_grad():
                torch._foreach_copy_(self.weights, self.master)


class Phases:
    """Seconds of the wall by phase; a card is waited for at both ends."""

    def __init__(self, device):
        self.cuda, self.steps, self.now = device == "cuda", [], {}

    def wait(self):
        if self.cuda:
            torch.cuda.synchronize()
        return time.perf_counter()

    def time(self, name, work):
        start = self.wait()
        result = work()
        self.now[name] = self.wait() - start
        return result

    def end(self):
        self.steps.append(self.now)
        self.now = {}


def with_transformers(shape, device, dtype):
    from transformers import Qwen2Config, Qwen2ForCausalLM

    vocabulary, h, f, layers, q, k, _, tied, base = shape
    config = Qwen2Config(
        vocab_size=vocabulary,
        hidden_size=h,
        intermediate_size=f,
        num_hidden_layers=layers,
        num_attention_heads=q,
        num_key_value_heads=k,
        tie_word_embeddings=tied,
        rms_norm_eps=EPS,
        rope_parameters={"rope_type": "default", "rope_theta": base},
    )
    model = Qwen2ForCausalLM(config).to(device=device, dtype=dtype)
    model.generation_config.eos_token_id = model.generation_config.pad_token_id = None
    return model


def take_over(plain, theirs):
    """The weights of a transformers model."""
    with torch.no_grad():
        plain.embedding.weight.copy_(theirs.model.embed_tokens.weight)
        plain.norm.copy_(theirs.model.norm.weight)
        if plain.own_head is not None:
            plain.own_head.weight.copy_(theirs.lm_head.weight)
        for own, other in zip(plain.layers, theirs.model.layers):
            a, m = other.self_attn, other.mlp
            own.norm1.copy_(other.input_layernorm.weight)
            own.norm2.copy_(other.post_attention_layernorm.weight)
            own.qkv.weight.copy_(torch.cat([a.q_proj.weight, a.k_proj.weight, a.v_proj.weight]))
            own.qkv.bias.copy_(torch.cat([a.q_proj.bias, a.k_proj.bias, a.v_proj.bias]))
            own.out.weight.copy_(a.o_proj.weight)
            own.gate_up.weight.copy_(torch.cat([m.gate_proj.weight, m.up_proj.weight]))
            own.down.weight.copy_(m.down_proj.weight)


def verify(shape):
    """The largest difference between the logits here and those of transformers, same weights, f32 on the CPU."""
    theirs = with_transformers(shape, "cpu", torch.float32)
    with torch.no_grad():
        for p in theirs.parameters():
            p.normal_(std=0.1)
        plain = Qwen2(shape)
        take_over(plain, theirs)
        tokens = torch.randint(0, shape[0], (3, 21))
        ours, expected = plain.head(plain(tokens)), theirs(tokens).logits
    return (ours - expected).abs().max().item(), expected.abs().max().item()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--shape", choices=SHAPES, default="qwen2.5-math-1.5b")
    p.add_argument("--impl", choices=["plain", "transformers"], default="plain")
    p.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    p.add_argument("--optimizer", choices=["master", "plain"], default="master")
    p.add_argument("--prompts", type=int, default=2)
    p.add_argument("--group", type=int, default=8)
    p.add_argument("--prompt-tokens", type=int, default=256)
    p.add_argument("--completion", type=int, default=256)
    p.add_argument("--steps", type=int, default=5)
    p.add_argument("--warmup", type=int, default=2)
    p.add_argument("--beta", type=float, default=0.04, help="weight of the KL; 0: no frozen copy")
    p.add_argument("--lr", type=float, default=1e-6)
    p.add_argument("--no-graph", action="store_true", help="plain: launch every step of decoding by itself")
    p.add_argument("--recompute", action="store_true", help="keep each layer's input only and compute the rest again")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--verify", action="store_true", help="compare logits with transformers at the tiny shape, and stop")
    a = p.parse_args()
    torch.manual_seed(a.seed)
    if a.verify:
        difference, largest = verify(SHAPES["tiny"])
        print(json.dumps({"logits_max_difference": difference, "logits_largest": largest}))
        sys.exit(0 if difference < 1e-4 * largest else 1)
    if a.device == "cuda" and not torch.cuda.is_available():
        sys.exit("torch_step.py: --device cuda: torch finds no CUDA device; --device cpu runs anywhere")

    shape = SHAPES[a.shape]
    dtype = torch.bfloat16 if a.device == "cuda" else torch.float32
    plain = a.impl == "plain"
    with torch.device(a.device):
        model = (
            Qwen2(shape).to(device=a.device, dtype=dtype) if plain else with_transformers(shape, a.device, dtype)
        )
    if plain:
        model.frequencies = model.frequencies.double()  # the cast above rounded them
        d = shape[6]
        model.frequencies.copy_(shape[8] ** (-torch.arange(0, d, 2).double() / d))
    reference = copy.deepcopy(model).requires_grad_(False) if a.beta else None
    if a.recompute and not plain:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    optimizer = Optimizer(model, a.optimizer, a.lr)
    rollout = Rollout(model, a.prompts, a.group, a.prompt_tokens, a.completion) if plain else None
    phases, rows, length = Phases(a.device), a.prompts * a.group, a.prompt_tokens
    rewards = (torch.arange(a.group, device=a.device) % 2 == 0).float()
    advantage = (rewards - rewards.mean()) / (rewards.std() + 1e-4)
    advantage = advantage.repeat(a.prompts)[:, None]
    worst = 0.0

    def generate(prompts):
        if plain:
            return rollout.run(prompts)
        ids = prompts.repeat_interleave(a.group, 0)
        model.eval()  # there is no dropout, but layers computed again would do without the cache
        with torch.no_grad():
            out = model.generate(
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
                do_sample=True,
                top_k=0,
                top_p=1.0,
                max_new_tokens=a.completion,
                cache_implementation="static" if a.device == "cuda" else None,
            )
        model.train()
        return out[:, length:], None

    def logps(m, ids):
        if plain:
            x = m(ids, recompute=a.recompute and m.training)[:, length - 1 : -1]
            return chosen(m.head(x), ids[:, length:])
        return chosen(m(ids, use_cache=False, logits_to_keep=a.completion + 1).logits[:, :-1], ids[:, length:])

    def reference_logps(ids):
        with torch.no_grad():
            return logps(reference, ids)

    def objective(ids, old, ref):
        lp = logps(model, ids)
        ratio = (lp - (lp.detach() if old is None else old)).exp()
        loss = -torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)
        if ref is not None:
            loss = loss + a.beta * ((ref - lp).exp() - (ref - lp) - 1)
        return loss.mean(), lp.detach()

    for step in range(a.warmup + a.steps):
        if step == a.warmup and a.device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        prompts = torch.randint(0, shape[0], (a.prompts, length), device=a.device)
        begin = phases.wait()
        responses, old = phases.time("generate", lambda: generate(prompts))
        ids = torch.cat([prompts.repeat_interleave(a.group, 0), responses], 1)
        ref = phases.time("reference", lambda: reference_logps(ids)) if a.beta else None
        loss, lp = phases.time("fwd_loss", lambda: objective(ids, old, ref))
        phases.time("backward", loss.backward)
        phases.time("optimizer", optimizer.step)
        now = phases.now
        now["step"] = phases.wait() - begin
        now["logprob_loss"] = now["fwd_loss"] + now["backward"]
        if old is not None:
            worst = max(worst, (lp - old).abs().max().item())
        if not math.isfinite(loss.item()):
            sys.exit(f"torch_step.py: step {step}: the loss is {loss.item()}; must be finite")
        if step == 0 and plain and a.device == "cuda" and not a.no_graph:
            with torch.no_grad():
                rollout.capture()
        phases.end()

    measured = phases.steps[a.warmup :]
    wall = {name: statistics.median(s[name] for s in measured) for name in measured[0]}
    card = torch.cuda.get_device_name() if a.device == "cuda" else "CPU"
    print(
        json.dumps(
            {
                "impl": f"torch-{a.impl}",
                "model": a.shape,
                "device": card,
                "dtype": str(dtype).removeprefix("torch."),
                "optimizer": a.optimizer,
                "graph": bool(plain and rollout.graph),
                "recompute": a.recompute,
                "prompts": a.prompts,
                "group": a.group,
                "prompt_tokens": a.prompt_tokens,
                "completion": a.completion,
                "steps": a.steps,
                "wall_s": wall,
                "rollout_tok_per_s": rows * a.completion / wall["generate"],
                "update_tok_per_s": rows * (length + a.completion) / (wall["logprob_loss"] + wall["optimizer"]),
                "peak_device_mib": torch.cuda.max_memory_allocated() / 2**20 if a.device == "cuda" else None,
                "sampler_trainer_max_difference": worst if plain else None,
                "params": sum(w.numel() for w in model.parameters()),
                "torch": torch.__version__,
            }
        )
    )


if __name__ == "__main__":
    main()
