"""rlax: returns and generalised advantages of one response at a time, and the clipped surrogate."""

import jax
import jax.numpy as jnp
import numpy as np
import rlax

import grpo_lambda
from grpo_lambda import _verl

jax.config.update("jax_enable_x64", True)

PACKAGES = ["rlax", "jax"]

# Compiled once for each length of a response.
gae_of = jax.jit(rlax.truncated_generalized_advantage_estimation)
lambda_returns_of = jax.jit(rlax.lambda_returns)
discounted_returns_of = jax.jit(rlax.discounted_returns)


def returns(batch, gamma, lam):
    """Generalised advantages, lambda-returns and discounted returns of every row."""
    gae, lambda_returns, discounted = (np.zeros_like(batch.old) for _ in range(3))
    for i, length in enumerate(batch.mask.sum(axis=1)):
        rewards = jnp.array(batch.token_rewards()[i, :length])
        values = jnp.append(batch.values[i, :length], 0.0)  # a response ends: nothing is worth anything after it
        discounts = jnp.full(length, gamma)
        gae[i, :length] = gae_of(rewards, discounts, lam, values)
        lambda_returns[i, :length] = lambda_returns_of(rewards, discounts, values[1:], lam)
        discounted[i, :length] = discounted_returns_of(rewards, discounts, jnp.zeros(length))
    return gae, lambda_returns, discounted


def compare(batch, holes):
    if holes:
        return  # a response of rlax has no mask
    for gamma, lam in [(1.0, 0.95), (0.97, 0.5)]:
        settings = {"gamma": gamma, "lambda": lam, "whiten": False}
        extra_inputs = {"values": batch.values}
        gae, lambda_returns, discounted = returns(batch, gamma, lam)
        ours, ours_returns = _verl.advantages("ppo", batch.token_rewards(), batch.mask, None, extra_inputs, settings)
        words = f"ppo gamma={gamma} lambda={lam} whiten=false"
        yield "truncated_generalized_advantage_estimation", words, "advantages", ours - gae, None
        yield "lambda_returns", words, "returns", ours_returns - lambda_returns, None
        settings = {"gamma": gamma, "whiten": False}
        ours, _ = _verl.advantages("reinforce_pp", batch.token_rewards(), batch.mask, None, {}, settings)
        yield "discounted_returns", f"reinforce_pp gamma={gamma} whiten=false", "advantages", ours - discounted, None
    yield from surrogate(batch)


def surrogate(batch):
    trained = batch.mask > 0
    fixed = grpo_lambda.credit_padded(
        "grpo", batch.rewards.tolist(), batch.old, batch.mask, group=batch.index, reduction="token_mean"
    )
    ours = grpo_lambda.loss(fixed, batch.new)
    advantages, old = jnp.array(fixed.advantages[trained]), jnp.array(batch.old[trained])

    def loss(logps):
        return rlax.clipped_surrogate_pg_loss(jnp.exp(logps - old), advantages, 0.2)

    theirs, gradient = jax.value_and_grad(loss)(jnp.array(batch.new[trained]))
    words = "grpo reduction=token_mean"
    yield "clipped_surrogate_pg_loss", words, "loss", ours.loss - np.asarray(theirs), None
    yield "clipped_surrogate_pg_loss", words, "gradient", ours.dlogps[trained] - np.asarray(gradient), None
