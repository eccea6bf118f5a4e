//! A linear head that gives a number in place of logits: a critic's value of the state before a token.

use super::Decoder;
use super::tape::StatesTape;
use crate::model::error::Result;
use crate::model::gradients::Gradients;
use crate::model::ops::Real;
use crate::model::ops::buffer::Buffer;
use crate::model::ops::parallel::in_pool;
use crate::model::rows::Rows;

/// A linear function of the state after the final norm.
#[derive(Clone, Copy, Debug)]
pub struct ValueHead<'a, T> {
    /// One number per component of the state.
    pub weight: &'a [T],
    /// Its value at a state of zeros.
    pub bias: T,
}

impl<T: Real> ValueHead<'_, T> {
    fn value(&self, state: &[T]) -> f64 {
        let products = state.iter().zip(self.weight).map(|(x, w)| x.to_f64() * w.to_f64());
        products.fold(self.bias.to_f64(), |sum, product| sum + product)
    }
}

/// Everything that [`Decoder::backward_values`] reads of a forward pass.
pub struct ValueTape<T: Real> {
    states: StatesTape<T>,
    normed: Buffer<T>,
}

impl<T: Real> Decoder<T> {
    /// The value of the state before each scored token, row by row, with the tape for [`Decoder::backward_values`].
    ///
    /// # Errors
    /// When the rows do not suit the model.
    ///
    /// # Panics
    /// When the head has another width.
    pub fn forward_values(
        &self,
        rows: &Rows,
        head: ValueHead<'_, T>,
        recompute: bool,
    ) -> Result<(Vec<Vec<f64>>, ValueTape<T>)> {
        let h = self.config.hidden_size;
        assert_eq!(head.weight.len(), h, "numbers of the value head");
        in_pool(|| {
            let (normed, states) = self.taped_states(rows, recompute)?;
            let mut each = normed.chunks_exact(h).map(|state| head.value(state));
            let values = (0..rows.len()).map(|i| each.by_ref().take(rows.scored(i)).collect()).collect();
            drop(each);
            Ok((values, ValueTape { states, normed }))
        })
    }

    /// Adds the gradient of the values times `dvalues` to `gradients`, and that of the head to `dhead`, its bias last. The head's is a sum in f64 over
    /// tokens in their order, whatever the passes. [`Decoder::complete`] adds the part of shared prefixes.
    ///
    /// # Panics
    /// When `dvalues` has not one number per scored token, or `dhead` not one per number of the head.
    pub fn backward_values(
        &self,
        tape: ValueTape<T>,
        head: ValueHead<'_, T>,
        dvalues: &[Vec<f64>],
        (gradients, dhead): (&mut Gradients<T>, &mut [f64]),
    ) {
        let ValueTape { states, normed } = tape;
        let h = self.config.hidden_size;
        assert_eq!(dhead.len(), h + 1, "numbers of the gradient of the value head");
        in_pool(|| {
            let mut dstates = self.pool.take(normed.len());
            let (dweight, dbias) = dhead.split_at_mut(h);
            let places = normed.chunks_exact(h).zip(dstates.chunks_exact_mut(h));
            for ((state, dstate), slope) in places.zip(states.rows.flat_slopes(dvalues)) {
                dbias[0] += slope;
                dweight.iter_mut().zip(state).for_each(|(d, x)| *d += slope * x.to_f64());
                dstate.iter_mut().zip(head.weight).for_each(|(d, w)| *d = T::from_f64(slope * w.to_f64()));
            }
            drop(normed);
            self.states_backward(states, dstates, gradients);
        });
    }
}
