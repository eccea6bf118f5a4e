"""The loss of a batch in JAX, differentiable by ``custom_vjp``."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from ._credit import loss as _loss
from ._native import Credit

__all__ = ["loss"]

_METRICS = (
    "tokens",
    "policy_loss",
    "kl_loss",
    "kl",
    "ratio_mean",
    "ratio_max",
    "trace_ratio_max",
    "clip_fraction_low",
    "clip_fraction_high",
    "saturated_fraction",
    "groups",
    "zero_variance_groups",
    "ungraded",
)


def loss(credit: Credit, logps: jax.Array) -> tuple[jax.Array, dict[str, jax.Array]]:
    """The loss of a padded batch, differentiable in the log-probabilities, and its metrics.

    Value and gradient are computed in ``float64`` on the host by :func:`grpo_lambda.loss`, and rounded to the type of ``logps``. Under
    ``jax.jit`` the call is a callback, and ``credit`` a constant: compile what makes the log-probabilities, and call this outside, or every
    batch is compiled again.

    Args:
        credit: a batch from :func:`grpo_lambda.credit_padded`, or a micro-batch from :func:`grpo_lambda.credit_from_rows`.
        logps: log-probabilities of the sampled tokens under the current policy, of shape ``(B, T)``; slots outside the mask are not read, and
            get gradient 0.

    Returns:
        The loss to minimise, an array without axes, and the metrics of ``sim estimate``.

    Example:
        >>> import jax, jax.numpy as jnp, grpo_lambda
        >>> from grpo_lambda.jax import loss
        >>> logps = jnp.log(jnp.array([[0.5, 0.25], [0.5, 0.5]]))
        >>> fixed = grpo_lambda.credit_padded("rloo", [1, 0], logps, [[1, 1], [1, 0]], group_size=2)
        >>> jax.grad(lambda x: loss(fixed, x)[0])(logps).tolist()
        [[-0.5, -0.5], [0.5, 0.0]]
    """
    logps = jnp.asarray(logps)
    if not jnp.issubdtype(logps.dtype, jnp.floating):
        raise ValueError(f"logps = an array of type {logps.dtype}; must be one of floating-point numbers")
    number = jax.ShapeDtypeStruct((), logps.dtype)
    shapes = (number, jax.ShapeDtypeStruct(logps.shape, logps.dtype), dict.fromkeys(_METRICS, number))

    def on_host(logps):
        found = _loss(credit, np.asarray(logps, dtype=np.float64))
        round_to = lambda x: np.asarray(x, dtype=shapes[0].dtype)  # noqa: E731
        return round_to(found.loss), round_to(found.dlogps), {name: round_to(found.metrics[name]) for name in _METRICS}

    def called(logps):
        return jax.pure_callback(on_host, shapes, logps)

    @jax.custom_vjp
    def value(logps):
        found, _, metrics = called(logps)
        return found, metrics

    def forward(logps):
        found, dlogps, metrics = called(logps)
        return (found, metrics), dlogps

    def backward(dlogps, given):
        return (dlogps * given[0],)

    value.defvjp(forward, backward)
    return value(logps)
