"""The differentiable losses of torch and JAX, where these are installed; .ci/weekly installs them."""

import numpy as np
import pytest

import grpo_lambda

MASK = np.array([[1, 1, 1], [0, 1, 1], [1, 0, 1], [0, 0, 0]])


def batch():
    rng = np.random.default_rng(0)
    old = -rng.exponential(size=MASK.shape)
    new = old + rng.normal(0, 0.1, size=MASK.shape)
    fixed = grpo_lambda.credit_padded("grpo", [1, 0, 0.5, 1], old, MASK, group_size=4, beta=0.1, ref_logps=old - 0.1)
    return fixed, new, grpo_lambda.loss(fixed, new)


def test_torch():
    torch = pytest.importorskip("torch")
    from grpo_lambda.torch import loss

    fixed, new, expected = batch()
    for kind, bound in ((torch.float64, 0.0), (torch.float32, 1e-6)):
        logps = torch.tensor(new, dtype=kind, requires_grad=True)
        value, metrics = loss(fixed, logps)
        (3.0 * value).backward()
        assert value.dtype == kind and value.shape == ()
        assert abs(value.item() - expected.loss) <= bound
        assert np.abs(logps.grad.double().numpy() - 3.0 * expected.dlogps).max() <= 3 * bound
        if kind is torch.float64:
            assert metrics == expected.metrics
            assert torch.autograd.gradcheck(lambda x: loss(fixed, x)[0], (logps,))
            (grad,) = torch.autograd.grad(loss(fixed, logps)[0], logps, create_graph=True)
            with pytest.raises(RuntimeError, match="does not require grad|once_differentiable"):
                grad.sum().backward()
    for wrong, kind in ((new, "ndarray"), (torch.zeros(MASK.shape, dtype=torch.long), "torch.int64")):
        with pytest.raises(ValueError, match=f"^logps = a value of type {kind}; must be a tensor of floating-point numbers$"):
            loss(fixed, wrong)


def test_jax():
    jax = pytest.importorskip("jax")
    from grpo_lambda.jax import _METRICS, loss

    fixed, new, expected = batch()
    assert set(_METRICS) == set(expected.metrics)
    for transform in (lambda f: f, jax.jit):
        both = transform(jax.value_and_grad(lambda x: loss(fixed, 2.0 * x), has_aux=True))
        (value, metrics), grad = both(jax.numpy.asarray(new / 2.0))
        assert abs(float(value) - expected.loss) < 1e-6
        assert np.abs(np.asarray(grad) - 2.0 * expected.dlogps).max() < 1e-6
        assert abs(float(metrics["kl"]) - expected.metrics["kl"]) < 1e-6
    with pytest.raises(ValueError, match="^logps = an array of type int32; must be one of floating-point numbers$"):
        loss(fixed, jax.numpy.zeros(MASK.shape, dtype=jax.numpy.int32))
