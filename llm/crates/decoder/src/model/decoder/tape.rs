//! The tape of a forward pass for its backward pass.

use super::head::HeadTape;
use super::prefix::Prefixes;
use crate::model::ops::Real;
use crate::model::ops::buffer::Buffer;
use crate::model::rows::Rows;

/// Everything that the backward pass reads of a forward pass.
pub struct Tape<T: Real> {
    pub(super) states: StatesTape<T>,
    pub(super) head: HeadTape<T>,
}

impl<T: Real> Tape<T> {
    /// True if layers are recomputed: see [`ForwardOptions`](super::ForwardOptions).
    pub fn recomputes(&self) -> bool {
        self.states.layers.iter().any(|layer| matches!(layer, LayerTape::Input(_)))
    }

    /// Bytes it holds.
    pub fn bytes(&self) -> usize {
        (self.states.numbers() + self.head.numbers()) * size_of::<T>()
    }
}

/// The part of a forward pass below its head, for its backward pass.
pub(super) struct StatesTape<T: Real> {
    pub(super) rows: Rows,
    pub(super) layers: Vec<LayerTape<T>>,
    pub(super) prefixes: Option<Prefixes<T>>,
    /// The stream at the tokens that predict a target.
    pub(super) input: Buffer<T>,
    /// Scales of the final norm.
    pub(super) scale: Buffer<T>,
}

impl<T: Real> StatesTape<T> {
    pub(super) fn numbers(&self) -> usize {
        let layers: usize = self.layers.iter().map(LayerTape::numbers).sum();
        let prefixes = self.prefixes.as_ref().map_or(0, Prefixes::numbers);
        layers + prefixes + self.input.len() + self.scale.len()
    }
}

/// An operation on the tape.
pub(crate) struct Step<T: Real> {
    /// Its input, if [`Layer::keeps`](crate::model::config::Layer::keeps) it.
    pub(super) input: Option<Buffer<T>>,
    /// Scales of a norm; logarithms of the sums of an attention.
    pub(super) statistics: Option<Buffer<T>>,
}

impl<T: Real> Step<T> {
    fn numbers(&self) -> usize {
        [&self.input, &self.statistics].into_iter().flatten().map(|buffer| buffer.len()).sum()
    }
}

/// One layer on the tape.
pub(in crate::model) enum LayerTape<T: Real> {
    /// All that its backward pass reads, by operation.
    Whole(Vec<Step<T>>),
    /// Its input: the layer is recomputed.
    Input(Buffer<T>),
}

impl<T: Real> LayerTape<T> {
    /// The tape of a layer that was computed in these steps.
    pub(super) fn new(mut steps: Vec<Step<T>>, recompute: bool) -> Self {
        match steps[0].input.take_if(|_| recompute) {
            Some(input) => LayerTape::Input(input),
            None => LayerTape::Whole(steps),
        }
    }

    pub(super) fn numbers(&self) -> usize {
        match self {
            LayerTape::Input(input) => input.len(),
            LayerTape::Whole(steps) => steps.iter().map(Step::numbers).sum(),
        }
    }
}
