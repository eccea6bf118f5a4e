//! From the projection of a layer to what its attention reads: queries, keys and values with their bias, the former two normed, where
//! the layer norms them, and rotated. And back. All of it is token-major, as the fused projection is.

use grpo_lambda_decoder::device::DeviceError;
use grpo_lambda_decoder::model::ModelConfig;

use super::array::Array;
use super::batch::Batch;
use super::gradients::Gradients;
use super::kernels::{HeadNorm, HeadNormBackward, HeadNormWeight, HeadShape, Kernels, RotateHeads};
use super::layout::Packed;
use super::ledger::ACTIVATIONS;
use super::ptr::{Ptr, PtrMut, Real};
use super::weights::Weights;

/// The model's heads, as kernels take them.
pub(super) fn head_shape(config: &ModelConfig) -> HeadShape {
    let heads = config.heads();
    HeadShape { query: heads.query as u32, key: heads.key as u32, dim: heads.dim as u32 }
}

/// The bias of a packed matrix of layer `l`, if it has one.
pub(super) fn bias(weights: &Weights, l: usize, packed: Packed) -> Option<Ptr<Real>> {
    weights.layer(l).bias(packed).map(|offset| weights.at(offset))
}

/// The norms of the heads of layer `l` over a fused projection of so many tokens, if it has any. `out` may be `qkv`.
pub(super) fn head_norm(
    weights: &Weights,
    l: usize,
    (qkv, out): (Ptr<Real>, PtrMut<Real>),
    tokens: u32,
) -> Option<HeadNorm> {
    let (config, weight) = (weights.config(), weights.at(weights.layer(l).head_norms?));
    let (heads, eps) = (head_shape(config), config.rms_norm_eps as f32);
    Some(HeadNorm { qkv, bias: bias(weights, l, Packed::Qkv), weight, out, tokens, heads, eps })
}

/// Queries, keys and values of a layer.
#[derive(Debug)]
pub(super) struct HeadActivations {
    /// As attention reads them.
    pub(super) rotated: Array<Real>,
    /// As projected, without bias, where there are norms: their gradients read it.
    projected: Option<Array<Real>>,
}

/// What is left of them for the backward pass.
#[derive(Debug)]
pub(super) enum SavedHeads {
    /// All.
    All(HeadActivations),
    /// As projected: to be normed and rotated again.
    Projected(Array<Real>),
}

impl SavedHeads {
    /// What a tape keeps.
    pub(super) fn on_tape(self) -> Self {
        match self {
            SavedHeads::All(HeadActivations { projected: Some(projected), .. }) => {
                SavedHeads::Projected(projected)
            }
            other => other,
        }
    }
}

/// The heads of layer `l` for the rows of a batch.
pub(super) struct Heads<'a> {
    pub(super) kernels: &'a Kernels,
    pub(super) weights: &'a Weights,
    pub(super) l: usize,
    pub(super) batch: &'a Batch,
    /// Cosines and sines of every position there is.
    pub(super) table: Ptr<f32>,
}

impl Heads<'_> {
    fn shape(&self) -> HeadShape {
        head_shape(self.weights.config())
    }

    fn tokens(&self) -> u32 {
        self.batch.tokens() as u32
    }

    /// An array as large as queries, keys and values.
    pub(super) fn array(&self) -> Result<Array<Real>, DeviceError> {
        self.kernels.array(ACTIVATIONS, self.batch.tokens() * self.weights.config().heads().stride())
    }

    /// From the projection to what attention reads.
    pub(super) fn forward(&self, projected: Array<Real>) -> Result<HeadActivations, DeviceError> {
        if self.weights.layer(self.l).head_norms.is_none() {
            self.rotate(&projected, bias(self.weights, self.l, Packed::Qkv), 1.0)?;
            return Ok(HeadActivations { rotated: projected, projected: None });
        }
        let normed = self.array()?;
        head_norm(self.weights, self.l, (projected.ptr(), normed.ptr_mut()), self.tokens())
            .map_or(Ok(()), |norm| self.kernels.launch(norm))?;
        self.rotate(&normed, None, 1.0)?;
        Ok(HeadActivations { rotated: normed, projected: Some(projected) })
    }

    /// Adds this bias and rotates queries and keys in place, forwards for `sign` 1 and back for -1.
    fn rotate(&self, qkv: &Array<Real>, bias: Option<Ptr<Real>>, sign: f32) -> Result<(), DeviceError> {
        self.kernels.launch(RotateHeads {
            qkv: qkv.ptr(),
            bias,
            table: self.table,
            positions: self.batch.positions(),
            out: qkv.ptr_mut(),
            tokens: self.tokens(),
            heads: self.shape(),
            sign,
        })
    }

    /// [`Heads::forward`] once more, where its result was not kept.
    pub(super) fn again(&self, saved: SavedHeads) -> Result<HeadActivations, DeviceError> {
        match saved {
            SavedHeads::All(activations) => Ok(activations),
            SavedHeads::Projected(projected) => self.forward(projected),
        }
    }

    /// From the gradient of what attention read to that of the projection plus its bias, in place.
    pub(super) fn backward(
        &self,
        dqkv: &Array<Real>,
        activations: &HeadActivations,
        gradients: &Gradients,
    ) -> Result<(), DeviceError> {
        self.rotate(dqkv, None, -1.0)?;
        let at = |x: &Array<Real>| (x.ptr(), dqkv.ptr_mut());
        let projected = activations.projected.as_ref();
        let norm = projected.and_then(|x| head_norm(self.weights, self.l, at(x), self.tokens()));
        norm.map_or(Ok(()), |norm| self.norm_backward(norm, gradients))
    }

    /// The gradient of a norm in the place of that of its output, and that of its weight, where it is trained.
    fn norm_backward(&self, norm: HeadNorm, gradients: &Gradients) -> Result<(), DeviceError> {
        let HeadNorm { qkv, bias, weight, out: dqkv, tokens, heads, eps } = norm;
        let (rows, width) = (HeadNormBackward::parts(tokens, heads), 2 * heads.dim);
        let trained = gradients.dense().and_then(|to| Some(to.at_mut(to.layer(self.l).head_norms?)));
        let room =
            trained.map(|_| self.kernels.array::<f32>(ACTIVATIONS, (rows * width) as usize)).transpose()?;
        let parts = room.as_ref().map(Array::ptr_mut);
        self.kernels.launch(HeadNormBackward { qkv, bias, weight, dqkv, parts, tokens, heads, eps })?;
        let Some((parts, dweight)) = parts.zip(trained) else { return Ok(()) };
        self.kernels.launch(HeadNormWeight { parts: parts.read(), dweight, rows, width })
    }
}
