//! Prefixes that rows share: computed once forward, and once backward after all rows that continue them.
//!
//! A prefix enters a row through its keys and values alone. The backward pass of rows adds their gradients, layer by layer, to sums in
//! [`Gradients`]; [`Decoder::complete`] propagates them through the prefix. The sums are chains over rows in their order, and prefixes follow
//! all rows: the gradient has the same bits however rows are cut into passes.

use super::{Decoder, Pass};
use crate::model::gradients::{Gradients, Pending};
use crate::model::ops::Real;
use crate::model::ops::attention::Context;
use crate::model::ops::buffer::Buffer;
use crate::model::ops::parallel::in_pool;
use crate::model::rows::Rows;
use crate::pack::pack;

/// The prefixes of some rows.
pub(super) struct Prefixes<T> {
    /// Rows of their own that score nothing.
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
    /// The tokens that row `i` sees in layer `l` before its own.
    fn before(&self, l: usize, i: usize) -> &[T] {
        self.prefixes.as_ref().zip(self.rows.prefix(i)).map_or(&[], |(prefixes, p)| prefixes.tokens(l, p))
    }

    /// [`Pass::before`] of every row.
    pub(super) fn all_before(&self, l: usize) -> Vec<&[T]> {
        (0..self.rows.len()).map(|i| self.before(l, i)).collect()
    }

    /// The context of every row in the backward pass of layer `l`.
    pub(super) fn contexts(&self, l: usize) -> Vec<Context<'_, T>> {
        let own = |i| self.continued.get(i).map_or(&[][..], |row: &Pending<T>| &row.layers[l]);
        let sum = |i| self.rows.prefix(i).map_or(0, |p| self.sums[p]);
        let context = |i| Context { before: self.before(l, i), sum: sum(i), own: own(i) };
        (0..self.rows.len()).map(context).collect()
    }
}

impl<T: Real> Decoder<T> {
    /// Computes the prefixes of these rows; `None` without prefixes.
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

    /// Propagates the gradients that [`Decoder::backward`] left for shared prefixes through them. Call it after the last row of a gradient, with
    /// the same weights. `recompute` is as in [`ForwardOptions`](super::ForwardOptions). Prefixes are taken together as long as they have no more
    /// tokens than the rows of the largest pass had.
    pub fn complete(&self, gradients: &mut Gradients<T>, recompute: bool) {
        let (pending, most) = gradients.take_pending();
        if !pending.is_empty() {
            in_pool(|| self.complete_here(&pending, most, gradients, recompute));
        }
    }

    fn complete_here(
        &self,
        pending: &[Pending<T>],
        most: usize,
        gradients: &mut Gradients<T>,
        recompute: bool,
    ) {
        for part in pack(pending.iter().map(|prefix| prefix.tokens.len()), most) {
            let part = &pending[part];
            let mut rows = Rows::new();
            part.iter().for_each(|prefix| rows.push(&prefix.tokens, prefix.tokens.len()));
            let pass = Pass { continued: part, ..self.pass_of(&rows) };
            let (_, layers) = self.taped_stream(&pass, self.embed(rows.tokens()), recompute);
            let dx = self.pool.zeros(rows.tokens().len() * self.config.hidden_size);
            self.stream_backward(layers, &pass, dx, gradients);
        }
    }
}
