//! The MLP block of a layer: `exit = middle + down(silu(gate) up)` with `gate, up = gate_up(norm(middle))`, and back.

use super::Decoder;
use super::norm::NormTape;
use crate::model::config::{Activation, NormPlacement, parameter};
use crate::model::gradients::Gradients;
use crate::model::ops::buffer::Buffer;
use crate::model::ops::{Real, norm, swiglu};

/// Everything of the block that its backward pass reads and that is not cheap to compute again.
pub(super) struct MlpTape<T> {
    pub(super) norm: NormTape<T>,
    pub(super) gate_up: Buffer<T>,
}

impl<T: Real> Decoder<T> {
    /// The product of the activated gate and up.
    fn gated(&self, gate_up: &[T]) -> Buffer<T> {
        let mut gated = self.pool.take(gate_up.len() / 2);
        match self.layer.activation {
            Activation::Silu => swiglu::forward(gate_up, self.config.intermediate_size, &mut gated),
        }
        gated
    }

    /// From the stream after attention to the stream at the exit of layer `l`.
    pub(super) fn mlp_block(&self, l: usize, middle: Buffer<T>) -> (Buffer<T>, MlpTape<T>) {
        let NormPlacement::Pre = self.layer.norm_placement;
        let packed = &self.layers[l];
        let (normed, scale) = self.norm(&parameter(l, &self.layer.mlp_norm.weight()), &middle);
        let gate_up = packed.gate_up.forward(&self.pool, &normed);
        drop(normed);
        let gated = self.gated(&gate_up);
        let mut output = packed.down.forward(&self.pool, &gated);
        norm::add(&mut output, &middle);
        (output, MlpTape { norm: NormTape { input: middle, scale }, gate_up })
    }

    /// `dx` holds the gradient at the exit of the block, then at its entry.
    pub(super) fn mlp_block_backward(
        &self,
        l: usize,
        tape: MlpTape<T>,
        dx: &mut Buffer<T>,
        gradients: &mut Gradients<T>,
    ) {
        let NormPlacement::Pre = self.layer.norm_placement;
        let MlpTape { norm, mut gate_up } = tape;
        let layer = &self.layer;
        let gated = self.gated(&gate_up);
        self.linear_gradients(l, &layer.down, dx, &gated, gradients);
        drop(gated);
        let dgated = self.linear_backward(l, &layer.down, dx);
        match layer.activation {
            Activation::Silu => swiglu::backward(&mut gate_up, self.config.intermediate_size, &dgated),
        }
        drop(dgated);
        let name = parameter(l, &layer.mlp_norm.weight());
        let normed = self.norm_again(&name, &norm);
        self.linear_gradients(l, &layer.gate_up, &gate_up, &normed, gradients);
        drop(normed);
        let dnormed = self.linear_backward(l, &layer.gate_up, &gate_up);
        self.norm_backward(&name, &norm, &dnormed, dx, gradients);
    }
}
