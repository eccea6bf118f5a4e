//! The states after the final norm that predict scored tokens, which a head reads, with their backward pass through the layers.

use super::tape::StatesTape;
use super::{Decoder, Pass};
use crate::model::config::FINAL_NORM;
use crate::model::error::Result;
use crate::model::gradients::Gradients;
use crate::model::ops::buffer::Buffer;
use crate::model::ops::{Real, norm};
use crate::model::rows::Rows;

/// The stream at the tokens that predict a target, before and after the final norm.
pub(super) struct Predicting<T: Real> {
    input: Buffer<T>,
    scale: Buffer<T>,
    pub(super) normed: Buffer<T>,
}

impl<T: Real> Decoder<T> {
    /// The states that predict the scored tokens of `rows`, from the stream after the last layer.
    pub(super) fn predicting(&self, rows: &Rows, x: &[T]) -> Predicting<T> {
        let input = self.streams_at(&rows.targets().0, x);
        let (normed, scale) = self.norm(&self.final_norm(), &input);
        Predicting { input, scale, normed }
    }

    /// The states after the final norm that predict the scored tokens, `[scored tokens, width]`, with the tape for
    /// [`Decoder::states_backward`].
    pub(super) fn taped_states(&self, rows: &Rows, recompute: bool) -> Result<(Buffer<T>, StatesTape<T>)> {
        let pass = self.pass(rows)?;
        let (x, layers) = self.taped_stream(&pass, self.embed(rows.tokens()), recompute);
        let Predicting { input, scale, normed } = self.predicting(rows, &x);
        let prefixes = pass.prefixes;
        Ok((normed, StatesTape { rows: rows.clone(), layers, prefixes, input, scale }))
    }

    /// From the gradient of the states to those of the final norm and of the parameters below it.
    pub(super) fn states_backward(
        &self,
        tape: StatesTape<T>,
        mut dstates: Buffer<T>,
        gradients: &mut Gradients<T>,
    ) {
        let StatesTape { rows, layers, prefixes, input, scale } = tape;
        let final_norm = self.final_norm();
        if let Some(dw) = gradients.get(FINAL_NORM) {
            norm::backward_weight(&final_norm, 0..1, &input, &scale, &dstates, dw);
        }
        norm::backward(&final_norm, &input, &scale, &mut dstates);
        drop((input, scale));
        let dx = self.spread(&rows.targets().0, &dstates, rows.tokens().len());
        drop(dstates);
        let numbers = self.layer.heads.cached();
        let (tokens, depth) = (rows.tokens().len(), self.config.num_hidden_layers);
        let sum = |prefix: &Vec<u32>| gradients.pending(tokens, prefix, depth, numbers);
        let sums = rows.prefixes().iter().map(sum).collect();
        let pass = Pass { prefixes, sums, ..self.pass_of(&rows) };
        self.stream_backward(layers, &pass, dx, gradients);
    }
}
