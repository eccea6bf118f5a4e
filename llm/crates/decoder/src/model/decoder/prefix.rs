//! Prefixes that rows share: read once forwards; backwards, once all rows that continue them have been differentiated.
//!
//! A prefix enters a row through its keys and values alone. So the backward pass of rows gives, layer by layer, the gradient of the prefix's
//! keys and values, which [`Gradients`] keeps as sums; [`Decoder::complete`] takes them on through the prefix. These sums are chains over
//! rows in their order, and prefixes follow all rows: however rows are cut into passes, the gradient has the same bits.

use super::{Decoder, Pass};
use crate::model::gradients::{Gradients, Pending};
use crate::model::ops::Real;
use crate::model::ops::attention::Context;
use crate::model::ops::buffer::Buffer;
use crate::model::ops::parallel::in_pool;
use crate::model::rows::Rows;

/// The prefixes of some rows.
pub(super) struct Prefixes<T> {
    /// As rows of their own, of which nothing is scored.
    rows: Rows,
    /// By layer: queries, keys and values as attention reads them.
    layers: Vec<Buffer<T>>,
}

impl<T: Real> Prefixes<T> {
    /// Numbers held.
    pub(super) fn numbers(&self) -> usize {
        self.layers.iter().map(|layer| layer.len()).sum()
    }

    /// Prefix `p` in layer `l`.
    fn tokens(&self, l: usize, p: usize) -> &[T] {
        let stride = self.layers[l].len() / self.rows.tokens().len();
        &self.layers[l][self.rows.offsets()[p] * stride..self.rows.offsets()[p + 1] * stride]
    }
}

impl<T: Real> Pass<'_, T> {
    /// What row `i` sees in layer `l` before its own tokens.
    fn before(&self, l: usize, i: usize) -> &[T] {
        self.prefixes.as_ref().zip(self.rows.prefix(i)).map_or(&[], |(prefixes, p)| prefixes.tokens(l, p))
    }

    /// [`Pass::before`] of every row.
    pub(super) fn all_before(&self, l: usize) -> Vec<&[T]> {
        (0..self.rows.len()).map(|i| self.before(l, i)).collect()
    }

    /// What every row has to do with others in the backward pass of layer `l`.
    pub(super) fn contexts(&self, l: usize) -> Vec<Context<'_, T>> {
        let own = self.continued.map_or(&[][..], |layers| &layers[l]);
        let sum = |i| self.rows.prefix(i).map_or(0, |p| self.sums[p]);
        (0..self.rows.len()).map(|i| Context { before: self.before(l, i), sum: sum(i), own }).collect()
    }
}

impl<T: Real> Decoder<T> {
    /// Reads the prefixes of these rows, where there are any.
    pub(super) fn prefixes(&self, rows: &Rows) -> Option<Prefixes<T>> {
        if rows.prefixes().is_empty() {
            return None;
        }
        let mut apart = Rows::new();
        rows.prefixes().iter().for_each(|prefix| apart.push(prefix, prefix.len()));
        let pass = self.pass_of(&apart);
        let mut layers = Vec::with_capacity(self.config.num_hidden_layers);
        let mut x = self.embed(apart.tokens());
        for l in 0..self.config.num_hidden_layers {
            let (next, steps) = self.row_layer(l, x, &pass);
            layers.push(self.attention_input(l, steps, &pass.positions));
            x = next;
        }
        drop(pass);
        Some(Prefixes { rows: apart, layers })
    }

    /// Takes what [`Decoder::backward`] left of shared prefixes through them. To be called once all rows of a gradient have been
    /// differentiated, with the weights they were differentiated with; without prefixes there is nothing to do. `recompute` is as in
    /// [`ForwardOptions`](super::ForwardOptions).
    pub fn complete(&self, gradients: &mut Gradients<T>, recompute: bool) {
        let pending = gradients.take_pending();
        if !pending.is_empty() {
            in_pool(|| self.complete_here(pending, gradients, recompute));
        }
    }

    fn complete_here(&self, pending: Vec<Pending<T>>, gradients: &mut Gradients<T>, recompute: bool) {
        for Pending { tokens, layers: sums } in pending {
            let mut rows = Rows::new();
            rows.push(&tokens, tokens.len());
            let pass = Pass { continued: Some(&sums), ..self.pass_of(&rows) };
            let (_, layers) = self.taped_stream(&pass, self.embed(rows.tokens()), recompute);
            let dx = self.pool.zeros(tokens.len() * self.config.hidden_size);
            self.stream_backward(layers, &pass, dx, gradients);
        }
    }
}
