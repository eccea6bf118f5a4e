//! Log-probabilities of chosen tokens, and their gradient, a chunk of logits at a time.
//!
//! The logits of a large vocabulary are the largest array of a step, so they exist for a few hundred tokens at a time, in `f32`, and
//! the backward pass computes them again.

use grpo_lambda_decoder::device::{DeviceError, Dtype};

use super::batch::{floats, room};
use super::device::{Gemm, Matrix};
use super::kernels::Kernels;
use super::projection::product;

/// The normed streams that predict, the output matrix, and what is asked of them.
#[derive(Clone, Copy, Debug)]
pub struct Predictions {
    /// `T[scored][width]`: normed streams.
    pub hidden: u64,
    /// `T[vocabulary][width]`: the output matrix.
    pub head: u64,
    /// `u32[scored]`: the tokens whose probability is asked for.
    pub targets: u64,
    /// How many.
    pub scored: usize,
    /// Numbers of a stream.
    pub width: usize,
    /// Tokens there are.
    pub vocabulary: usize,
    /// `1 / temperature`.
    pub inverse_temperature: f32,
    /// What the `f32` logits may take, unless one token alone needs more.
    pub bytes: usize,
}

impl Predictions {
    /// Tokens whose logits are computed together.
    fn chunk(&self) -> usize {
        let most = self.bytes / (size_of::<f32>() * self.vocabulary);
        // Matrix units work on tiles of 128.
        let tiles = if most >= 128 { most / 128 * 128 } else { most };
        tiles.clamp(1, self.scored.max(1))
    }

    /// First and number of every chunk.
    fn chunks(&self) -> impl Iterator<Item = (usize, usize)> {
        let (scored, size) = (self.scored, self.chunk());
        (0..scored).step_by(size).map(move |from| (from, size.min(scored - from)))
    }

    fn hidden(&self, k: &Kernels, from: usize) -> Matrix {
        Matrix::new(self.hidden + (from * self.width * k.dtype.bytes()) as u64, k.dtype, self.width)
    }

    fn head(&self, k: &Kernels) -> Matrix {
        Matrix::new(self.head, k.dtype, self.width)
    }

    fn targets(&self, from: usize) -> u64 {
        self.targets + (from * size_of::<u32>()) as u64
    }

    fn logits(&self, k: &Kernels, from: usize, n: usize, logits: u64) -> Result<Matrix, DeviceError> {
        let c = Matrix::new(logits, Dtype::F32, self.vocabulary);
        let size = (n, self.vocabulary, self.width);
        product(k, Gemm::new(size, self.hidden(k, from), self.head(k).t(), c))?;
        Ok(c)
    }
}

/// Four numbers per scored token into `saved f32[scored][4]`: see [`Kernels::log_prob`].
///
/// # Errors
/// When there is too little memory or the device fails.
pub fn forward(k: &Kernels, p: &Predictions, entropy: bool, saved: u64) -> Result<(), DeviceError> {
    let logits = floats(k, "logits", p.chunk() * p.vocabulary)?;
    for (from, n) in p.chunks() {
        p.logits(k, from, n, logits.address())?;
        let saved = saved + (4 * from * size_of::<f32>()) as u64;
        let (n, vocabulary) = (n as u32, p.vocabulary as u32);
        let targets = p.targets(from);
        k.log_prob(logits.address(), targets, saved, n, vocabulary, p.inverse_temperature, entropy)?;
    }
    Ok(())
}

/// The gradient of the log-probabilities weighted by `slopes f32[scored]`: `T[scored][width]` into `dhidden`, and added to `dhead
/// f32[vocabulary][width]` when it is trained. `saved` is the output of [`forward`].
///
/// # Errors
/// When there is too little memory or the device fails.
pub fn backward(
    k: &Kernels,
    p: &Predictions,
    saved: u64,
    slopes: u64,
    dhead: Option<u64>,
    dhidden: u64,
) -> Result<(), DeviceError> {
    let logits = floats(k, "logits", p.chunk() * p.vocabulary)?;
    let dlogits = room(k, "logits", p.chunk() * p.vocabulary)?;
    for (from, n) in p.chunks() {
        p.logits(k, from, n, logits.address())?;
        k.log_prob_backward(
            logits.address(),
            p.targets(from),
            saved + (4 * from * size_of::<f32>()) as u64,
            slopes + (from * size_of::<f32>()) as u64,
            dlogits.address(),
            n as u32,
            p.vocabulary as u32,
            p.inverse_temperature,
        )?;
        let d = Matrix::new(dlogits.address(), k.dtype, p.vocabulary);
        let c = Matrix { address: dhidden, ..p.hidden(k, 0) };
        let c = Matrix { address: c.address + (from * p.width * k.dtype.bytes()) as u64, ..c };
        product(k, Gemm::new((n, p.width, p.vocabulary), d, p.head(k), c))?;
        if let Some(dhead) = dhead {
            let c = Matrix::new(dhead, Dtype::F32, p.width);
            product(k, Gemm::new((p.vocabulary, p.width, n), d.t(), p.hidden(k, from), c).accumulate())?;
        }
    }
    Ok(())
}
