//! The operations of a layer on candle's tensors, differentiable by candle. Norms, angles and scores are `f32` where the stream is narrower.

use candle_core::{D, DType, Device, Result, Tensor};
use grpo_lambda_decoder::model::ops::attention::Heads;

use crate::product::product;

/// The tensor in `f32`, if its numbers are narrower.
pub(crate) fn widened(x: &Tensor) -> Result<Tensor> {
    if x.dtype().size_in_bytes() < DType::F32.size_in_bytes() {
        x.to_dtype(DType::F32)
    } else {
        Ok(x.clone())
    }
}

/// `x / sqrt(mean(x^2) + eps) * weight` in groups side by side: so many with a weight, as long as it, then those of the next. Numbers after
/// the last group stay.
pub fn norm(x: &Tensor, parts: &[(usize, &Tensor)], eps: f64) -> Result<Tensor> {
    let (tokens, width) = x.dims2()?;
    let (mut normed, mut from) = (Vec::new(), 0);
    for (groups, weight) in parts {
        let size = weight.dims1()?;
        let part = widened(&x.narrow(1, from, groups * size)?)?.reshape((tokens, *groups, size))?;
        let mean = part.sqr()?.mean_keepdim(D::Minus1)?;
        let part = part.broadcast_div(&(mean + eps)?.sqrt()?)?.broadcast_mul(&widened(weight)?)?;
        normed.push(part.to_dtype(x.dtype())?.reshape((tokens, groups * size))?);
        from += groups * size;
    }
    if from < width {
        normed.push(x.narrow(1, from, width - from)?);
    }
    Tensor::cat(&normed, 1)
}

/// `x W^T + b`, or without `b`.
pub fn linear(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    let y = product(x, &weight.t()?)?;
    bias.map_or(Ok(y.clone()), |bias| y.broadcast_add(bias))
}

/// The rotations of tokens at these positions.
pub struct Rotations {
    cos: Tensor,
    sin: Tensor,
}

impl Rotations {
    /// Computed in `f64`; kept in `f32`, or in `f64` for a stream of that type.
    pub fn new(positions: &[u32], frequencies: &[f64], dtype: DType, device: &Device) -> Result<Self> {
        let shape = (positions.len(), 1, frequencies.len());
        let table = |f: fn(f64) -> f64| {
            let angles = positions.iter().flat_map(|&p| frequencies.iter().map(move |w| f64::from(p) * w));
            if dtype == DType::F64 {
                return Tensor::from_vec(angles.map(f).collect::<Vec<f64>>(), shape, device);
            }
            Tensor::from_vec(angles.map(|a| f(a) as f32).collect::<Vec<f32>>(), shape, device)
        };
        Ok(Self { cos: table(f64::cos)?, sin: table(f64::sin)? })
    }
}

/// Rotates the query and key heads by their position; the values stay.
pub fn rotate(qkv: &Tensor, heads: Heads, rotations: &Rotations) -> Result<Tensor> {
    let (tokens, half) = (qkv.dim(0)?, heads.dim / 2);
    let Rotations { cos, sin } = rotations;
    let x = qkv.reshape((tokens, heads.rotated() + heads.key, heads.dim))?;
    let rotated = widened(&x.narrow(1, 0, heads.rotated())?)?;
    let (a, b) = (rotated.narrow(2, 0, half)?, rotated.narrow(2, half, half)?);
    let first = (a.broadcast_mul(cos)? - b.broadcast_mul(sin)?)?;
    let second = (b.broadcast_mul(cos)? + a.broadcast_mul(sin)?)?;
    let rotated = Tensor::cat(&[first, second], 2)?.to_dtype(qkv.dtype())?;
    let values = x.narrow(1, heads.rotated(), heads.key)?;
    Tensor::cat(&[rotated, values], 1)?.reshape((tokens, heads.stride()))
}

/// `softmax(q k^T / sqrt(d) + mask) v`: queries `[rows, heads, T, d]`, keys and values `[rows, key heads, L, d]`, a mask `[rows, 1, T, L]`. Key
/// heads are not copied: the queries of those that share one lie in one matrix.
pub fn attend(query: &Tensor, key: &Tensor, value: &Tensor, mask: &Tensor) -> Result<Tensor> {
    let (rows, heads, t, dim) = query.dims4()?;
    let (shared, l) = (key.dim(1)?, key.dim(2)?);
    let one = (rows, shared, heads / shared * t, dim);
    let scores = widened(&product(&query.reshape(one)?, &key.t()?)?)?;
    let scores = (scores.reshape((rows, heads, t, l))? * (1.0 / (dim as f64).sqrt()))?.broadcast_add(mask)?;
    let e = scores.broadcast_sub(&scores.detach().max_keepdim(D::Minus1)?)?.exp()?;
    let p = e.broadcast_div(&e.sum_keepdim(D::Minus1)?)?.to_dtype(value.dtype())?;
    product(&p.reshape((rows, shared, heads / shared * t, l))?, value)?.reshape((rows, heads, t, dim))
}

/// `silu(gate) * up` of the two halves.
pub fn swiglu(gate_up: &Tensor) -> Result<Tensor> {
    let halves = gate_up.chunk(2, 1)?;
    halves[0].silu()? * &halves[1]
}

/// The terms `p log p` of log-probabilities, 0 where `p` is 0.
pub fn p_log_p(log_p: &Tensor) -> Result<Tensor> {
    log_p.exp()? * log_p.maximum(f64::from(f32::MIN))?
}

/// Log-probabilities from the hidden states of tokens, `[tokens, vocabulary]`.
pub fn log_probs(hidden: &Tensor, head: &Tensor, temperature: f64) -> Result<Tensor> {
    let logits = (widened(&linear(hidden, head, None)?)? * (1.0 / temperature))?;
    let logits = logits.broadcast_sub(&logits.detach().max_keepdim(1)?)?;
    logits.broadcast_sub(&logits.exp()?.sum_keepdim(1)?.log()?)
}
