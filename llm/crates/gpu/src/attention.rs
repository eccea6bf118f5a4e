//! Causal attention over a batch.

use grpo_lambda_decoder::device::DeviceError;

use super::array::Array;
use super::kernels::{self, AttentionKeys, AttentionKeysSum, AttentionQueries, HeadShape, Kernels, Segments};
use super::ledger::ACTIVATIONS;
use super::ptr::{Ptr, PtrMut, Real};

/// Attention of every token of a batch to what it sees.
#[derive(Clone, Copy)]
pub(super) struct Attention<'a> {
    pub(super) kernels: &'a Kernels,
    pub(super) heads: HeadShape,
    pub(super) segments: Segments,
    pub(super) tokens: usize,
}

/// Attention's output, token-major, and the log-sum of every query's scores.
#[derive(Debug)]
pub(super) struct Attended {
    pub(super) out: Array<Real>,
    pub(super) log_sum: Array<f32>,
}

impl Attention<'_> {
    fn scale(&self) -> f32 {
        (1.0 / f64::from(self.heads.dim).sqrt()) as f32
    }

    /// A number for every query.
    fn column(&self) -> Result<Array<f32>, DeviceError> {
        self.kernels.array(ACTIVATIONS, self.tokens * self.heads.query as usize)
    }

    /// The output for a fused projection, rotated.
    pub(super) fn forward(&self, qkv: Ptr<Real>) -> Result<Attended, DeviceError> {
        let width = (self.heads.query * self.heads.dim) as usize;
        let out = self.kernels.array(ACTIVATIONS, self.tokens * width)?;
        let attended = Attended { out, log_sum: self.column()? };
        self.kernels.launch(kernels::Attention {
            qkv,
            segments: self.segments,
            out: attended.out.ptr_mut(),
            log_sum: attended.log_sum.ptr_mut(),
            heads: self.heads,
            scale: self.scale(),
        })?;
        Ok(attended)
    }

    /// The gradient `dqkv` of `qkv` from that of the output.
    pub(super) fn backward(
        &self,
        qkv: Ptr<Real>,
        attended: &Attended,
        dout: Ptr<Real>,
        dqkv: PtrMut<Real>,
    ) -> Result<(), DeviceError> {
        let (log_sum, inner) = (attended.log_sum.ptr(), self.column()?);
        let (segments, heads, scale) = (self.segments, self.heads, self.scale());
        let (out, to) = (attended.out.ptr(), inner.ptr_mut());
        let queries = AttentionQueries { qkv, out, dout, log_sum, segments, inner: to, dqkv, heads, scale };
        self.kernels.launch(queries)?;
        let (inner, parts) = (inner.ptr(), segments.sums(heads));
        let sums: Option<Array<f32>> =
            (parts > 0).then(|| self.kernels.array(ACTIVATIONS, parts)).transpose()?;
        let to = sums.as_ref().map(Array::ptr_mut);
        let keys = AttentionKeys { qkv, dout, log_sum, inner, segments, dqkv, sums: to, heads, scale };
        self.kernels.launch(keys)?;
        let Some(sums) = &sums else { return Ok(()) };
        self.kernels.launch(AttentionKeysSum { sums: sums.ptr(), segments, dqkv, heads })
    }
}
