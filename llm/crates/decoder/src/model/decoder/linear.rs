//! A layer's linear maps: packed for `y = x W^T + b`, and back.

use super::Decoder;
use crate::model::config::layer::{Linear, Projection};
use crate::model::config::parameter;
use crate::model::gradients::Gradients;
use crate::model::ops::buffer::{Buffer, Pool};
use crate::model::ops::matmul::{Left, Panels, matmul, pack_rows, pack_transposed, packed_len};
use crate::model::ops::{Real, norm};
use crate::model::weights::Parameters;

/// A matrix `W`, packed for `x W^T`.
#[derive(Default)]
pub(super) struct PackedMatrix<T> {
    data: Vec<T>,
    inputs: usize,
    outputs: usize,
}

impl<T: Real> PackedMatrix<T> {
    /// Packs the matrix with these rows, of `inputs` numbers each.
    pub(super) fn pack(&mut self, rows: &[&[T]], inputs: usize) {
        (self.inputs, self.outputs) = (inputs, rows.len());
        self.data.resize(packed_len(inputs, rows.len()), T::ZERO);
        pack_transposed(|i| rows[i], inputs, rows.len(), &mut self.data);
    }

    pub(super) fn panels(&self) -> Panels<'_, T> {
        Panels::new(&self.data, self.inputs, self.outputs)
    }

    /// Writes `x W^T`.
    pub(super) fn product(&self, pool: &Pool<T>, x: &[T], out: &mut [T]) {
        let tokens = x.len() / self.inputs;
        matmul(pool, Left::rows(x, self.inputs), tokens, self.panels(), out, self.outputs, false);
    }
}

/// A [`Linear`] with its parameters.
#[derive(Default)]
pub(super) struct PackedLinear<T> {
    weight: PackedMatrix<T>,
    /// Empty where there is none.
    bias: Vec<T>,
}

impl<T: Real> PackedLinear<T> {
    pub(super) fn pack(&mut self, linear: &Linear, l: usize, parameters: &Parameters<T>) {
        self.weight.pack(&weight_rows(linear, l, parameters), linear.inputs());
        let biases = linear.projections.iter().filter_map(|p| parameters.get(&parameter(l, &p.bias())));
        self.bias = biases.flat_map(|bias| &bias.data).copied().collect();
    }

    /// `x W^T + b`.
    pub(super) fn forward(&self, pool: &Pool<T>, x: &[T]) -> Buffer<T> {
        let mut y = pool.take(x.len() / self.weight.inputs * self.weight.outputs);
        self.weight.product(pool, x, &mut y);
        if !self.bias.is_empty() {
            norm::add_bias(&mut y, &self.bias);
        }
        y
    }
}

/// The rows of the weights of these projections in layer `l`, one projection after the other.
fn weight_rows<'p, T>(linear: &Linear, l: usize, parameters: &'p Parameters<T>) -> Vec<&'p [T]> {
    let weight = |p: &Projection| parameters[&parameter(l, &p.weight())].data.chunks_exact(linear.inputs());
    linear.projections.iter().flat_map(weight).collect()
}

impl<T: Real> Decoder<T> {
    /// `d loss / d x` of `y = x W^T + b`: `dy W`.
    pub(super) fn linear_backward(&self, l: usize, linear: &Linear, dy: &[T]) -> Buffer<T> {
        let (inputs, outputs) = (linear.inputs(), linear.outputs());
        let tokens = dy.len() / outputs;
        let mut packed = self.pool.take(packed_len(outputs, inputs));
        let rows = weight_rows(linear, l, &self.parameters);
        pack_rows(|i| rows[i], outputs, inputs, &mut packed);
        let mut dx = self.pool.take(tokens * inputs);
        let weight = Panels::new(&packed, outputs, inputs);
        matmul(&self.pool, Left::rows(dy, outputs), tokens, weight, &mut dx, inputs, false);
        dx
    }

    /// Adds `dy^T x` to the gradients of the weights, and the sums of `dy` to those of the biases.
    pub(super) fn linear_gradients(
        &self,
        l: usize,
        linear: &Linear,
        dy: &[T],
        x: &[T],
        gradients: &mut Gradients<T>,
    ) {
        let (inputs, outputs) = (linear.inputs(), linear.outputs());
        let tokens = dy.len() / outputs;
        let weight = |p: &Projection| parameter(l, &p.weight());
        let trained = linear.projections.iter().any(|p| gradients.contains(&weight(p)));
        let packed = trained.then(|| {
            let mut packed = self.pool.take(packed_len(tokens, inputs));
            pack_rows(|t| &x[t * inputs..], tokens, inputs, &mut packed);
            packed
        });
        let mut from = 0;
        for p in &linear.projections {
            if let (Some(dw), Some(packed)) = (gradients.get(&weight(p)), &packed) {
                let (left, x) = (Left::transposed(&dy[from..], outputs), Panels::new(packed, tokens, inputs));
                matmul(&self.pool, left, p.outputs, x, dw, inputs, true);
            }
            if let Some(db) = gradients.get(&parameter(l, &p.bias())) {
                norm::backward_bias(dy, outputs, from, db);
            }
            from += p.outputs;
        }
    }
}
