//! The LM head: log-probabilities of chosen tokens, and their gradient, a chunk of logits at a time.
//!
//! The logits of a large vocabulary are the largest array of a step, so they exist for a few hundred tokens at a time, in `f32`, and
//! the backward pass computes them again.

use grpo_lambda_decoder::device::DeviceError;

use super::array::Array;
use super::gemm::{Gemm, Matrix};
use super::kernels::{Kernels, LogProb, LogProbBackward};
use super::ptr::{Ptr, PtrMut, Real};

/// Use of the logits in the ledger.
pub(super) const LOGITS: &str = "logits";

/// Hidden states that predict a token each, and the matrix they are multiplied by.
#[derive(Clone, Copy, Debug)]
pub(super) struct LmHead<'a> {
    pub(super) kernels: &'a Kernels,
    /// `[scored, width]`: the normed hidden states.
    pub(super) hidden: Ptr<Real>,
    /// `[vocabulary, width]`: the output matrix.
    pub(super) weight: Ptr<Real>,
    /// `[scored]`: the tokens to score.
    pub(super) targets: Ptr<u32>,
    pub(super) scored: usize,
    /// Elements of a hidden state.
    pub(super) width: usize,
    pub(super) vocabulary: usize,
    /// `1 / temperature`.
    pub(super) inverse_temperature: f32,
    /// Bytes for the `f32` logits, unless one token alone needs more.
    pub(super) logit_bytes: usize,
}

/// The arrays of an [`LmHead`]'s backward pass.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeadGradients {
    /// `[scored, 4]`, from [`LmHead::forward`].
    pub(super) saved: Ptr<f32>,
    /// `[scored]`: the gradient of the loss with respect to the log-probabilities.
    pub(super) slopes: Ptr<f32>,
    /// `[scored]`: the gradient with respect to the entropies, which `saved` must have then.
    pub(super) entropy_slopes: Option<Ptr<f32>>,
    /// `[vocabulary, width]`: added to, if the matrix is trained.
    pub(super) dweight: Option<PtrMut<f32>>,
    /// `[scored, width]`.
    pub(super) dhidden: PtrMut<Real>,
}

impl LmHead<'_> {
    /// Tokens whose logits are computed together.
    fn chunk(&self) -> usize {
        let most = self.logit_bytes / (size_of::<f32>() * self.vocabulary);
        // Tensor cores work on tiles of 128.
        let tiles = if most >= 128 { most / 128 * 128 } else { most };
        tiles.clamp(1, self.scored.max(1))
    }

    /// First and number of every chunk.
    fn chunks(&self) -> impl Iterator<Item = (usize, usize)> {
        let (scored, size) = (self.scored, self.chunk());
        (0..scored).step_by(size).map(move |from| (from, size.min(scored - from)))
    }

    fn hidden(&self, from: usize) -> Matrix {
        Matrix::new(self.hidden.offset(from * self.width), self.width)
    }

    fn weight(&self) -> Matrix {
        Matrix::new(self.weight, self.width)
    }

    /// The logits of `n` hidden states.
    fn logits(&self, from: usize, n: usize, logits: &Array<f32>) -> Result<(), DeviceError> {
        let c = Matrix::new(logits.ptr_mut(), self.vocabulary);
        let size = (n, self.vocabulary, self.width);
        self.kernels.gemm(Gemm::new(size, self.hidden(from), self.weight().t(), c))
    }

    /// Four numbers per scored token into `saved [scored, 4]`: see [`LogProb`].
    pub(super) fn forward(&self, entropy: bool, saved: PtrMut<f32>) -> Result<(), DeviceError> {
        let logits = self.kernels.array(LOGITS, self.chunk() * self.vocabulary)?;
        for (from, n) in self.chunks() {
            self.logits(from, n, &logits)?;
            self.kernels.launch(LogProb {
                logits: logits.ptr(),
                targets: self.targets.offset(from),
                out: saved.offset(4 * from),
                tokens: n as u32,
                vocabulary: self.vocabulary as u32,
                inverse_temperature: self.inverse_temperature,
                entropy,
            })?;
        }
        Ok(())
    }

    /// The gradient of the log-probabilities and entropies weighted by their slopes.
    pub(super) fn backward(&self, d: HeadGradients) -> Result<(), DeviceError> {
        let (k, width, vocabulary) = (self.kernels, self.width, self.vocabulary);
        let logits = k.array(LOGITS, self.chunk() * vocabulary)?;
        let dlogits: Array<Real> = k.array(LOGITS, self.chunk() * vocabulary)?;
        for (from, n) in self.chunks() {
            self.logits(from, n, &logits)?;
            k.launch(LogProbBackward {
                logits: logits.ptr(),
                targets: self.targets.offset(from),
                saved: d.saved.offset(4 * from),
                slopes: d.slopes.offset(from),
                entropy_slopes: d.entropy_slopes.map(|slopes| slopes.offset(from)),
                dlogits: dlogits.ptr_mut(),
                tokens: n as u32,
                vocabulary: vocabulary as u32,
                inverse_temperature: self.inverse_temperature,
            })?;
            let dz = Matrix::new(dlogits.ptr(), vocabulary);
            let dhidden = Matrix::new(d.dhidden.offset(from * width), width);
            k.gemm(Gemm::new((n, width, vocabulary), dz, self.weight(), dhidden))?;
            if let Some(dweight) = d.dweight {
                let c = Matrix::new(dweight, width);
                k.gemm(Gemm::new((vocabulary, width, n), dz.t(), self.hidden(from), c).accumulate())?;
            }
        }
        Ok(())
    }
}
