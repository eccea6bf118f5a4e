//! The operations of a layer in plain candle.

use candle_core::{D, Result, Tensor};

use crate::model::ops::attention::Heads;

/// `x / sqrt(mean(x^2) + eps) * weight` in groups side by side: so many with a weight, as long as it, then those of the next. Numbers after
/// the last group stay.
///
/// # Errors
/// When candle fails.
pub fn norm(x: &Tensor, parts: &[(usize, &Tensor)], eps: f64) -> Result<Tensor> {
    let (tokens, width) = x.dims2()?;
    let (mut normed, mut from) = (Vec::new(), 0);
    for (groups, weight) in parts {
        let size = weight.dims1()?;
        let part = x.narrow(1, from, groups * size)?.reshape((tokens, *groups, size))?;
        let mean = part.sqr()?.mean_keepdim(D::Minus1)?;
        let part = part.broadcast_div(&(mean + eps)?.sqrt()?)?.broadcast_mul(weight)?;
        normed.push(part.reshape((tokens, groups * size))?);
        from += groups * size;
    }
    if from < width {
        normed.push(x.narrow(1, from, width - from)?);
    }
    Tensor::cat(&normed, 1)
}

/// Rotates the query and key heads by their position; the values stay.
///
/// # Errors
/// When candle fails.
pub fn rope(qkv: &Tensor, heads: Heads, positions: &[u32], frequencies: &[f64]) -> Result<Tensor> {
    let (tokens, half) = (positions.len(), heads.dim / 2);
    let angles: Vec<f64> =
        positions.iter().flat_map(|&p| frequencies.iter().map(move |f| f64::from(p) * f)).collect();
    let table = |f: fn(f64) -> f64| {
        let values: Vec<f64> = angles.iter().map(|&a| f(a)).collect();
        Tensor::from_vec(values, (tokens, 1, half), qkv.device())?.to_dtype(qkv.dtype())
    };
    let (cos, sin) = (table(f64::cos)?, table(f64::sin)?);
    let x = qkv.reshape((tokens, heads.rotated() + heads.key, heads.dim))?;
    let rotated = x.narrow(1, 0, heads.rotated())?;
    let (a, b) = (rotated.narrow(2, 0, half)?, rotated.narrow(2, half, half)?);
    let first = (a.broadcast_mul(&cos)? - b.broadcast_mul(&sin)?)?;
    let second = (b.broadcast_mul(&cos)? + a.broadcast_mul(&sin)?)?;
    let rotated = Tensor::cat(&[first, second], 2)?;
    let values = x.narrow(1, heads.rotated(), heads.key)?;
    Tensor::cat(&[rotated, values], 1)?.reshape((tokens, heads.stride()))
}

/// `softmax(q k^T / sqrt(d)) v` per row and head, a query seeing the keys up to its own.
///
/// # Errors
/// When candle fails.
pub fn attention(qkv: &Tensor, heads: Heads, offsets: &[usize]) -> Result<Tensor> {
    let mut rows = Vec::new();
    for pair in offsets.windows(2) {
        let len = pair[1] - pair[0];
        let row = qkv.narrow(0, pair[0], len)?.reshape((len, heads.query + 2 * heads.key, heads.dim))?;
        let row = row.transpose(0, 1)?; // head, token, number
        let query = row.narrow(0, 0, heads.query)?.contiguous()?;
        // A key head serves the query heads of its group.
        let serve = |from: usize| {
            let shape = (heads.key, heads.group(), len, heads.dim);
            row.narrow(0, from, heads.key)?.unsqueeze(1)?.broadcast_as(shape)?.reshape((
                heads.query,
                len,
                heads.dim,
            ))
        };
        let (key, value) = (serve(heads.query)?, serve(heads.query + heads.key)?);
        let scores = (query.matmul(&key.t()?)? / (heads.dim as f64).sqrt())?;
        let future: Vec<f64> =
            (0..len * len).map(|i| if i % len > i / len { f64::NEG_INFINITY } else { 0.0 }).collect();
        let future = Tensor::from_vec(future, (1, len, len), qkv.device())?.to_dtype(qkv.dtype())?;
        let scores = scores.broadcast_add(&future)?;
        let e = scores.broadcast_sub(&scores.max_keepdim(2)?.detach())?.exp()?;
        let p = e.broadcast_div(&e.sum_keepdim(2)?)?;
        rows.push(p.matmul(&value)?.transpose(0, 1)?.reshape((len, heads.width()))?);
    }
    Tensor::cat(&rows, 0)
}

/// `silu(gate) * up` of the two halves.
///
/// # Errors
/// When candle fails.
pub fn swiglu(gate_up: &Tensor) -> Result<Tensor> {
    let halves = gate_up.chunk(2, 1)?;
    halves[0].silu()? * &halves[1]
}

/// `log softmax(hidden head^T / temperature)` at the targets.
///
/// # Errors
/// When candle fails.
pub fn log_prob(hidden: &Tensor, head: &Tensor, targets: &[u32], temperature: f64) -> Result<Tensor> {
    let logits = (hidden.matmul(&head.t()?)? / temperature)?;
    let logits = logits.broadcast_sub(&logits.max_keepdim(1)?.detach())?;
    let log_sum = logits.exp()?.sum(1)?.log()?;
    let targets = Tensor::new(targets, hidden.device())?.unsqueeze(1)?;
    logits.gather(&targets, 1)?.squeeze(1)? - log_sum
}
