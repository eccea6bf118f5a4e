//! RMSNorm of the stream, and back.

use super::Decoder;
use crate::model::gradients::Gradients;
use crate::model::ops::buffer::Buffer;
use crate::model::ops::{Real, norm};

/// What the backward pass of a norm reads.
pub(super) struct NormTape<T> {
    pub(super) input: Buffer<T>,
    /// One number per token.
    pub(super) scale: Buffer<T>,
}

impl<T: Real> Decoder<T> {
    /// `norm(x)` with the weight of this name, and the scale of every token.
    pub(in crate::model) fn norm(&self, name: &str, x: &[T]) -> (Buffer<T>, Buffer<T>) {
        let mut normed = self.pool.take(x.len());
        let mut scale = self.pool.take(x.len() / self.config.hidden_size);
        norm::forward(x, self.weight(name), self.eps(), &mut normed, &mut scale);
        (normed, scale)
    }

    /// `norm(x)` once more, from the tape.
    pub(super) fn norm_again(&self, name: &str, tape: &NormTape<T>) -> Buffer<T> {
        let mut normed = self.pool.take(tape.input.len());
        norm::recompute(&tape.input, &tape.scale, self.weight(name), &mut normed);
        normed
    }

    /// Adds the gradient of the weight to `gradients`, and that of the input to `dx`.
    pub(super) fn norm_backward(
        &self,
        name: &str,
        tape: &NormTape<T>,
        dnormed: &[T],
        dx: &mut [T],
        gradients: &mut Gradients<T>,
    ) {
        if let Some(dw) = gradients.get(name) {
            norm::backward_weight(&tape.input, &tape.scale, dnormed, dw);
        }
        norm::backward(&tape.input, &tape.scale, self.weight(name), dnormed, dx);
    }
}
