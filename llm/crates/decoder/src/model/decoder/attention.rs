//! The attention block of a layer: `middle = input + output(attention(heads(qkv(norm(input)))))`, and back.

use super::heads::{Positions, Qkv, QkvTape};
use super::norm::NormTape;
use super::{Decoder, Pass};
use crate::model::config::{NormPlacement, parameter};
use crate::model::gradients::Gradients;
use crate::model::ops::buffer::Buffer;
use crate::model::ops::{Real, attention, norm};

/// Everything of the block that its backward pass reads and that is not cheap to compute again.
pub(super) struct AttentionTape<T> {
    pub(super) norm: NormTape<T>,
    pub(super) qkv: QkvTape<T>,
    pub(super) attended: Buffer<T>,
    pub(super) log_sum: Buffer<T>,
}

impl<T: Real> Decoder<T> {
    /// `attend(qkv, out, log_sum)` is where training and decoding differ: in the keys it reads.
    pub(super) fn attention_block(
        &self,
        l: usize,
        input: Buffer<T>,
        positions: &Positions<T>,
        attend: impl FnOnce(&[T], &mut [T], &mut [T]),
    ) -> (Buffer<T>, AttentionTape<T>) {
        let NormPlacement::Pre = self.layer.norm_placement;
        let (layer, packed, tokens) = (&self.layer, &self.layers[l], positions.len());
        let (normed, scale) = self.norm(&parameter(l, &layer.attention_norm.weight()), &input);
        let qkv = self.heads_forward(l, packed.qkv.forward(&self.pool, &normed), positions);
        drop(normed);
        let mut attended = self.pool.take(tokens * layer.heads.width());
        let mut log_sum = self.pool.take(tokens * layer.heads.query);
        attend(&qkv.rotated, &mut attended, &mut log_sum);
        let mut middle = packed.output.forward(&self.pool, &attended);
        norm::add(&mut middle, &input);
        let norm = NormTape { input, scale };
        (middle, AttentionTape { norm, qkv: qkv.into(), attended, log_sum })
    }

    /// `dx` holds the gradient at the exit of the block, then at its entry where that is `wanted`.
    pub(super) fn attention_block_backward(
        &self,
        l: usize,
        tape: AttentionTape<T>,
        pass: &Pass<'_, T>,
        dx: &mut Buffer<T>,
        gradients: &mut Gradients<T>,
        wanted: bool,
    ) {
        let NormPlacement::Pre = self.layer.norm_placement;
        let AttentionTape { norm, qkv, attended, log_sum } = tape;
        let (layer, heads) = (&self.layer, self.layer.heads);
        self.linear_gradients(l, &layer.output, dx, &attended, gradients);
        let dattended = self.linear_backward(l, &layer.output, dx);
        let Qkv { rotated, unnormed } = self.heads_again(l, qkv, &pass.positions);
        let mut dqkv = self.pool.take(rotated.len());
        let (offsets, contexts, mut sums) = (pass.rows.offsets(), pass.contexts(l), gradients.take_sums(l));
        let (out, dout) = (&attended, &dattended);
        attention::backward_after(
            &self.pool, heads, &rotated, offsets, out, &log_sum, dout, &mut dqkv, &contexts, &mut sums,
        );
        gradients.put_sums(l, sums);
        drop((rotated, attended, log_sum, dattended));
        self.heads_backward(l, unnormed, &pass.positions, &mut dqkv, gradients);
        let name = parameter(l, &layer.attention_norm.weight());
        let normed = self.norm_again(&name, &norm);
        self.linear_gradients(l, &layer.qkv, &dqkv, &normed, gradients);
        drop(normed);
        if wanted || gradients.contains(&name) {
            let dnormed = self.linear_backward(l, &layer.qkv, &dqkv);
            self.norm_backward(&name, &norm, &dnormed, dx, gradients);
        }
    }
}
