//! Queries, keys and values of a layer, between its projection and its attention, and back: biases are added, queries and keys are normed, if
//! the layer norms them, and rotated. All arrays are token-major, as the fused projection is.

use std::sync::Arc;

use grpo_lambda_decoder::device::DeviceError;
use grpo_lambda_decoder::model::ModelConfig;

use super::array::Array;
use super::batch::Batch;
use super::device::Device;
use super::gradients::Gradients;
use super::kernels::{HeadNorm, HeadNormBackward, HeadNormWeight, HeadShape, Kernels, RotateHeads};
use super::layout::Packed;
use super::ledger::ACTIVATIONS;
use super::ptr::{Ptr, PtrMut, Real};
use super::weights::Weights;

/// Cosine and sine of every angle, `[positions, dim / 2, 2]`.
#[derive(Debug)]
pub(super) struct RotaryTable {
    positions: usize,
    array: Array<f32>,
}

impl RotaryTable {
    /// Covers positions `0..len` at least. Angles are computed in `f64` and rounded once.
    pub(super) fn new(
        device: &Arc<dyn Device>,
        len: usize,
        frequencies: &[f64],
    ) -> Result<Self, DeviceError> {
        let positions = len.next_power_of_two().max(256);
        let angles = (0..positions).flat_map(|p| frequencies.iter().map(move |f| p as f64 * f));
        let rotations: Vec<f32> = angles.flat_map(|a| [a.cos() as f32, a.sin() as f32]).collect();
        Ok(RotaryTable { positions, array: Array::from_slice(device, "workspace", &rotations)? })
    }

    pub(super) fn positions(&self) -> usize {
        self.positions
    }

    pub(super) fn ptr(&self) -> Ptr<f32> {
        self.array.ptr()
    }
}

/// The model's heads, for kernels.
pub(super) fn head_shape(config: &ModelConfig) -> HeadShape {
    let heads = config.heads();
    HeadShape { query: heads.query as u32, key: heads.key as u32, dim: heads.dim as u32 }
}

/// The bias of a packed matrix of layer `l`, if it has one.
pub(super) fn bias(weights: &Weights, l: usize, packed: Packed) -> Option<Ptr<Real>> {
    weights.layer(l).bias(packed).map(|offset| weights.at(offset))
}

/// The norms of the heads of layer `l` over the fused projection of so many tokens, if the layer has any. `out` may be `qkv`.
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
    /// The input of attention.
    pub(super) rotated: Array<Real>,
    /// The projection without bias, if there are norms: their gradients read it.
    projected: Option<Array<Real>>,
}

/// The heads kept for the backward pass.
#[derive(Debug)]
pub(super) enum SavedHeads {
    /// Both arrays.
    All(HeadActivations),
    /// The projection alone, to be normed and rotated again.
    Projected(Array<Real>),
}

impl SavedHeads {
    /// The part that a tape keeps.
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

    /// Turns the projection into the input of attention.
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

    /// Recomputes the result of [`Heads::forward`] if it was not kept.
    pub(super) fn recompute(&self, saved: SavedHeads) -> Result<HeadActivations, DeviceError> {
        match saved {
            SavedHeads::All(activations) => Ok(activations),
            SavedHeads::Projected(projected) => self.forward(projected),
        }
    }

    /// Turns the gradient of attention's input into that of the projection plus its bias, in place.
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

    /// Replaces the gradient of a norm's output by that of its input, and adds to that of its weight, if it is trained.
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
