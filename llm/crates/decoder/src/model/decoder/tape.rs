//! What a forward pass keeps for its backward pass.

use super::attention::AttentionTape;
use super::head::HeadTape;
use super::heads::{QkvTape, Unnormed};
use super::mlp::MlpTape;
use super::prefix::Prefixes;
use crate::model::config::Layer;
use crate::model::ops::Real;
use crate::model::ops::buffer::Buffer;
use crate::model::rows::Rows;

/// What the backward pass needs of a forward pass.
pub struct Tape<T: Real> {
    pub(super) rows: Rows,
    pub(super) layers: Vec<LayerTape<T>>,
    pub(super) head: HeadTape<T>,
    pub(super) prefixes: Option<Prefixes<T>>,
}

/// One layer on the tape.
pub(in crate::model) enum LayerTape<T> {
    /// All that its backward pass reads.
    Whole(Box<Activations<T>>),
    /// The stream at its entry: the layer is to be computed again.
    Input(Buffer<T>),
}

/// The two blocks of a layer.
pub(crate) struct Activations<T> {
    pub(super) attention: AttentionTape<T>,
    pub(super) mlp: MlpTape<T>,
}

impl<T: Real> Activations<T> {
    fn numbers(&self) -> usize {
        let AttentionTape { norm, qkv, attended, log_sum } = &self.attention;
        let qkv = match qkv {
            QkvTape::Rotated(qkv) => qkv.len(),
            QkvTape::Unnormed(Unnormed { qkv, scale }) => qkv.len() + scale.len(),
        };
        let MlpTape { norm: mlp_norm, gate_up } = &self.mlp;
        let norms: usize = [norm, mlp_norm].iter().map(|n| n.input.len() + n.scale.len()).sum();
        norms + qkv + attended.len() + log_sum.len() + gate_up.len()
    }
}

impl<T: Real> Tape<T> {
    /// Whether layers are computed again: see [`ForwardOptions`](super::ForwardOptions).
    pub fn recomputes(&self) -> bool {
        self.layers.iter().any(|layer| matches!(layer, LayerTape::Input(_)))
    }

    /// Bytes it holds.
    pub fn bytes(&self) -> usize {
        let layer = |tape: &LayerTape<T>| match tape {
            LayerTape::Input(input) => input.len(),
            LayerTape::Whole(activations) => activations.numbers(),
        };
        let prefixes = self.prefixes.as_ref().map_or(0, Prefixes::numbers);
        (self.layers.iter().map(layer).sum::<usize>() + self.head.numbers() + prefixes) * size_of::<T>()
    }
}

/// Numbers that the tape keeps of a token in a layer, all of its activations kept.
pub fn numbers_per_token(layer: &Layer) -> usize {
    let heads = layer.heads;
    let norms = layer.attention_norm.width + layer.mlp_norm.width + 2;
    let head_scales = layer.head_norms.map_or(0, |_| heads.rotated());
    norms + heads.stride() + head_scales + heads.width() + heads.query + layer.gate_up.outputs()
}
