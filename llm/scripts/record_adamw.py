#!/usr/bin/env python3
"""Records what torch's clip_grad_norm_ and AdamW do to three small parameters over three steps.

    python3 llm/scripts/record_adamw.py > llm/tests/fixtures/adamw.json

Every f32 is written as the shortest decimal of its exact f64 value, so it is read back to the bit.
"""
import json

import torch

torch.manual_seed(11)
SHAPES = {"layer.weight": (3, 5), "layer.bias": (5,), "input_layernorm.weight": (5,)}
SETTINGS = dict(lr=1e-3, betas=(0.9, 0.999), eps=1e-8)
DECAY, CLIP, STEPS = 0.1, 1.0, 3

start = {n: torch.randn(s) for n, s in SHAPES.items()}
# The second step's gradient is small, so that clipping does not bind there.
gradients = [{n: torch.randn(s) * k for n, s in SHAPES.items()} for k in (2.0, 0.02, 30.0)]
flat = lambda t: t.flatten().double().tolist()
out = dict(torch=torch.__version__, lr=SETTINGS["lr"], betas=SETTINGS["betas"], eps=SETTINGS["eps"], weight_decay=DECAY,
           max_grad_norm=CLIP, start={n: flat(t) for n, t in start.items()},
           gradients=[{n: flat(t) for n, t in g.items()} for g in gradients], runs={})
for variant in ("all", "matrices"):
    params = {n: torch.nn.Parameter(t.clone()) for n, t in start.items()}
    spared = lambda n: variant == "matrices" and (n.endswith("bias") or "norm" in n)
    groups = [dict(params=[p for n, p in params.items() if spared(n) == flag], weight_decay=0.0 if flag else DECAY)
              for flag in (False, True)]
    opt = torch.optim.AdamW([g for g in groups if g["params"]], **SETTINGS)
    steps = []
    for g in gradients:
        for n, p in params.items():
            p.grad = g[n].clone()
        norm = torch.nn.utils.clip_grad_norm_(params.values(), CLIP)
        opt.step()
        steps.append(dict(grad_norm=norm.item(), after={n: flat(p.detach()) for n, p in params.items()}))
    out["runs"][variant] = steps
print(json.dumps(out, indent=1))
