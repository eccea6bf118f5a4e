"""Objects that leave their process: pickles, copies, workers; and tensors of torch wherever an array is taken."""

import copy
import multiprocessing
import pickle

import numpy as np
import pytest

import grpo_lambda

OLD = np.array([[-0.5, -0.25, -1.0], [-1.0, -0.75, 0.0], [-0.125, 0.0, 0.0], [0.0, 0.0, 0.0]])
MASK = np.array([[1, 0, 1], [1, 1, 0], [1, 0, 0], [0, 0, 0]])
NOW = OLD - 0.3 * MASK


def padded(method, **settings):
    extra_inputs = {"entropies": np.abs(OLD)} if method == "s_trace_reconstructed" else None
    sampler = {"sampler_logps": OLD - 0.1 * MASK} if "correction" in settings else extra_inputs
    reference = OLD - 0.2 if "beta" in settings else None
    return grpo_lambda.credit_padded(
        method, [1, 0, 0, 1], OLD, MASK, group_size=2, ref_logps=reference, extra_inputs=sampler, **settings
    )


CREDITS = {
    "padded, with holes and an empty row": lambda: padded("grpo"),
    "a KL term": lambda: padded("grpo_lambda", lambda_=0.9, beta=0.04),
    "a correction": lambda: padded("grpo", correction="token_truncate"),
}


@pytest.mark.parametrize("name", CREDITS)
@pytest.mark.parametrize("travel", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_credit_travels_with_its_losses(name, travel):
    here = CREDITS[name]()
    there = travel(here)
    ours, theirs = grpo_lambda.loss(here, NOW), grpo_lambda.loss(there, NOW)
    assert (ours.loss, ours.metrics) == (theirs.loss, theirs.metrics)
    assert (ours.dlogps == theirs.dlogps).all()
    assert (here.method, here.settings, len(here)) == (there.method, there.settings, len(there))
    assert (here.advantages == there.advantages).all() and (here.weights == there.weights).all()


def test_a_credit_of_groups_travels_with_its_groups_metrics_and_logps():
    groups = [
        {"rewards": [1, 0], "old_logps": [[-0.5, -0.25], [-1.0]], "logps": [[-0.6, -0.2], [-1.1]]},
        {"rewards": [1, 1, None], "old_logps": [[-0.5], [-1.0], [-2.0]], "logps": [[-0.5], [-1.0], [-2.0]]},
    ]
    here = grpo_lambda.credit("grpo", groups)
    there = pickle.loads(pickle.dumps(here))
    ours, theirs = grpo_lambda.loss(here), grpo_lambda.loss(there)
    assert (ours.loss, ours.metrics) == (theirs.loss, theirs.metrics)
    assert ours.metrics["zero_variance_groups"] == 1 and ours.metrics["ungraded"] == 1
    assert [[row.tolist() for row in group] for group in there.advantages] == [[row.tolist() for row in group] for group in here.advantages]


def test_a_trace_that_chooses_tokens_travels_with_its_choice():
    here = grpo_lambda.credit("p_trace_reconstructed", [{"rewards": [1, 0], "old_logps": [[-0.5, -0.01, -2.0], [-1.0, -0.02]]}])
    there = pickle.loads(pickle.dumps(here))
    logps = [[[-0.4, -0.02, -1.5], [-1.2, -0.05]]]
    assert grpo_lambda.loss(here, logps).loss == grpo_lambda.loss(there, logps).loss


MDPS = {
    "of the library, another policy": lambda: (lambda m: m.with_logits(np.linspace(-1, 1, m.size[1])))(grpo_lambda.Mdp.zoo("pivot")),
    "a table": lambda: grpo_lambda.Mdp(
        tokens="left right EOS",
        eos="EOS",
        horizon=3,
        gamma=0.9,
        rewards=[{"pattern": "left *", "reward": 0.5}],
        illegal=[{"prefix": "left", "tokens": "right"}],
        policy=[{"prefix": "", "probabilities": {"left": 0.25, "right": 0.70, "EOS": 0.05}}],
    ),
}


@pytest.mark.parametrize("name", MDPS)
@pytest.mark.parametrize("travel", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_an_mdp_travels_to_the_bit(name, travel):
    here = MDPS[name]()
    there = travel(here)
    assert (here.name, here.j, here.gamma, here.size) == (there.name, there.j, there.gamma, there.size)
    assert here.edges == there.edges and (here.grad_j == there.grad_j).all()


def in_a_worker(objects):
    fixed, mdp = objects
    return grpo_lambda.loss(fixed, NOW).loss, mdp.j


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_a_process_pool_takes_and_gives_them(start):
    if start not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system has no {start}")
    fixed, mdp = padded("grpo"), MDPS["a table"]()
    with multiprocessing.get_context(start).Pool(1) as pool:
        assert pool.apply_async(in_a_worker, ((fixed, mdp),)).get(timeout=60) == in_a_worker((fixed, mdp))
        assert pool.apply_async(padded, ("grpo",)).get(timeout=60).method == "grpo"


def test_tensors_are_taken_with_a_graph_and_in_16_bits():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    for kind in (torch.bfloat16, torch.float16, torch.float32, torch.float64):
        old = torch.tensor(OLD, dtype=kind, requires_grad=True)
        fixed = grpo_lambda.credit_padded("grpo", torch.tensor([1, 0, 0, 1]), old, torch.tensor(MASK), group_size=2)
        value = grpo_lambda.loss(fixed, torch.tensor(NOW, dtype=kind, requires_grad=True))
        exact = grpo_lambda.loss(padded("grpo"), torch.tensor(NOW, dtype=kind).double().numpy())
        assert value.loss == exact.loss and (value.dlogps == exact.dlogps).all()
    group = {"rewards": [1, 0], "old_logps": [torch.tensor([-0.5, -0.25], dtype=torch.bfloat16, requires_grad=True), torch.tensor([-1.0])]}
    assert grpo_lambda.credit("rloo", [group]).advantages[0][0].tolist() == [1.0, 1.0]


def test_a_data_loader_and_torch_save_take_them(tmp_path):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    fixed = padded("grpo")
    loader = torch.utils.data.DataLoader([fixed, fixed], batch_size=None, num_workers=1)
    assert [grpo_lambda.loss(part, NOW).loss for part in loader] == [grpo_lambda.loss(fixed, NOW).loss] * 2
    torch.save({"credit": fixed}, tmp_path / "c.pt")
    again = torch.load(tmp_path / "c.pt", weights_only=False)["credit"]
    assert grpo_lambda.loss(again, NOW).loss == grpo_lambda.loss(fixed, NOW).loss
