//! From the projection to what attention reads: queries and keys normed, where the layer norms them, and rotated. And back.

use std::sync::Arc;

use super::Decoder;
use crate::model::config::layer::HeadNorms;
use crate::model::config::parameter;
use crate::model::gradients::Gradients;
use crate::model::ops::attention::Heads;
use crate::model::ops::buffer::Buffer;
use crate::model::ops::head_norm::{self, Weights};
use crate::model::ops::{Real, rope};

/// The position of every token in its row, with the rotations of all of them.
pub(crate) struct Positions<T> {
    positions: Vec<u32>,
    table: Arc<rope::Table<T>>,
}

impl<T: Real> Positions<T> {
    /// How many tokens.
    pub(crate) fn len(&self) -> usize {
        self.positions.len()
    }

    /// Rotates queries and keys of every token, or back.
    fn rotate(&self, heads: Heads, qkv: &mut [T], back: bool) {
        rope::rotate(qkv, heads.stride(), heads.rotated(), &self.positions, &self.table, back);
    }
}

/// Queries, keys and values as projected, and the scale of every query and key head.
pub(super) struct Unnormed<T> {
    pub(super) qkv: Buffer<T>,
    pub(super) scale: Buffer<T>,
}

/// Queries, keys and values of a layer.
pub(super) struct Qkv<T> {
    /// As attention reads them.
    pub(super) rotated: Buffer<T>,
    /// As they were before their norms, where there are norms.
    pub(super) unnormed: Option<Unnormed<T>>,
}

/// Queries, keys and values on the tape.
pub(super) enum QkvTape<T> {
    /// As attention reads them.
    Rotated(Buffer<T>),
    /// Before their norms, to be normed and rotated again in the backward pass.
    Unnormed(Unnormed<T>),
}

impl<T> From<Qkv<T>> for QkvTape<T> {
    fn from(qkv: Qkv<T>) -> Self {
        qkv.unnormed.map_or(QkvTape::Rotated(qkv.rotated), QkvTape::Unnormed)
    }
}

impl<T: Real> Decoder<T> {
    /// These positions, with the rotations that they need.
    pub(crate) fn positions(&self, positions: Vec<u32>) -> Positions<T> {
        let longest = positions.iter().max().map_or(0, |p| *p as usize + 1);
        Positions { positions, table: self.table(longest) }
    }

    fn head_weights(&self, l: usize, norms: HeadNorms) -> Weights<'_, T> {
        let weight = |name: String| self.weight(&parameter(l, &name));
        Weights { query: weight(norms.query.weight()), key: weight(norms.key.weight()) }
    }

    /// From the projection of layer `l` to what its attention reads.
    pub(super) fn heads_forward(&self, l: usize, mut qkv: Buffer<T>, positions: &Positions<T>) -> Qkv<T> {
        let heads = self.layer.heads;
        let mut unnormed = None;
        if let Some(norms) = self.layer.head_norms {
            let mut normed = self.pool.take(qkv.len());
            let mut scale = self.pool.take(positions.len() * heads.rotated());
            let weights = self.head_weights(l, norms);
            head_norm::forward(heads, &qkv, weights, self.eps(), &mut normed, &mut scale);
            unnormed = Some(Unnormed { qkv: std::mem::replace(&mut qkv, normed), scale });
        }
        positions.rotate(heads, &mut qkv, false);
        Qkv { rotated: qkv, unnormed }
    }

    /// [`Decoder::heads_forward`] once more, from the tape.
    pub(super) fn heads_again(&self, l: usize, tape: QkvTape<T>, positions: &Positions<T>) -> Qkv<T> {
        let (unnormed, norms) = match (tape, self.layer.head_norms) {
            (QkvTape::Unnormed(unnormed), Some(norms)) => (unnormed, norms),
            (QkvTape::Unnormed(Unnormed { qkv: rotated, .. }) | QkvTape::Rotated(rotated), _) => {
                return Qkv { rotated, unnormed: None };
            }
        };
        let (heads, weights) = (self.layer.heads, self.head_weights(l, norms));
        let mut rotated = self.pool.take(unnormed.qkv.len());
        head_norm::again(heads, &unnormed.qkv, &unnormed.scale, weights, &mut rotated);
        positions.rotate(heads, &mut rotated, false);
        Qkv { rotated, unnormed: Some(unnormed) }
    }

    /// [`Decoder::heads_forward`] backwards, in place: `dqkv` holds the gradient in what attention read, then in the projection.
    pub(super) fn heads_backward(
        &self,
        l: usize,
        unnormed: Option<Unnormed<T>>,
        positions: &Positions<T>,
        dqkv: &mut [T],
        gradients: &mut Gradients<T>,
    ) {
        let heads = self.layer.heads;
        positions.rotate(heads, dqkv, true);
        let (Some(Unnormed { qkv, scale }), Some(norms)) = (unnormed, self.layer.head_norms) else {
            return;
        };
        for (norm, of) in [(norms.query, 0..heads.query), (norms.key, heads.query..heads.rotated())] {
            if let Some(dw) = gradients.get(&parameter(l, &norm.weight())) {
                head_norm::backward_weight(heads, of, &qkv, &scale, dqkv, dw);
            }
        }
        head_norm::backward(heads, &qkv, &scale, self.head_weights(l, norms), dqkv);
    }
}
