//! The decoder as a function of its input embeddings: logits with the embeddings moved, and the gradient in them; and its last states.
//!
//! What perturbation and saliency need, beside the log-probabilities of the training path: both read the logits that predict the
//! scored tokens of each row, undivided by a temperature. A row's numbers do not depend on the rows beside it, here as there.

use super::config::FINAL_NORM;
use super::decoder::Decoder;
use super::error::Result;
use super::gradients::Gradients;
use super::ops::buffer::Buffer;
use super::ops::matmul::{Left, Panels, matmul, pack_rows, packed_len};
use super::ops::{Real, norm};
use super::rows::Rows;
use super::weights;

impl<T: Real> Decoder<T> {
    /// The embeddings of these rows, `[tokens, width]`, each moved by what `shift` has in its place.
    fn moved(&self, rows: &Rows, shift: Option<&[T]>) -> Buffer<T> {
        let mut x = self.embed(rows.tokens());
        if let Some(shift) = shift {
            assert_eq!(shift.len(), x.len(), "one shift per number of the embeddings");
            norm::add(&mut x, shift);
        }
        x
    }

    /// The embedding of a token, before any shift.
    ///
    /// # Panics
    /// If the token is outside the vocabulary.
    pub fn embedding(&self, token: u32) -> &[T] {
        let h = self.config().hidden_size;
        &self.weight(super::config::EMBEDDING)[token as usize * h..][..h]
    }

    /// The logits that predict the scored tokens, `[scored tokens, vocabulary]` row after row, where `shift` (`[tokens, width]`)
    /// is added to the input embeddings.
    ///
    /// All of them are held at once: choose rows with few scored tokens.
    ///
    /// # Errors
    /// When the rows do not suit the model.
    ///
    /// # Panics
    /// If `shift` has another length.
    pub fn target_logits(&self, rows: &Rows, shift: Option<&[T]>) -> Result<Vec<T>> {
        rows.check(self.config())?;
        let positions = rows.positions();
        let mut x = self.moved(rows, shift);
        for l in 0..self.config().num_hidden_layers {
            x = self.row_layer(l, x, rows, &positions).0;
        }
        let (places, _) = rows.targets();
        Ok(self.head(&self.streams_at(&places, &x)).to_vec())
    }

    /// The state of the last layer behind the final norm at every token, `[tokens, width]`.
    ///
    /// # Errors
    /// When the rows do not suit the model.
    pub fn states(&self, rows: &Rows) -> Result<Vec<T>> {
        rows.check(self.config())?;
        let positions = rows.positions();
        let mut x = self.embed(rows.tokens());
        for l in 0..self.config().num_hidden_layers {
            x = self.row_layer(l, x, rows, &positions).0;
        }
        Ok(self.final_norm(&x).0.to_vec())
    }

    /// The gradient in the input embeddings, `[tokens, width]`, of a function of [`Decoder::target_logits`] under the same `shift`.
    ///
    /// `slope` takes the logits and returns the function's derivative by each of them. `checkpoint` computes layers again instead
    /// of keeping them. No parameter's gradient is computed.
    ///
    /// # Errors
    /// When the rows do not suit the model.
    ///
    /// # Panics
    /// If `shift` or the slopes have another length.
    pub fn embedding_gradient(
        &self,
        rows: &Rows,
        shift: Option<&[T]>,
        checkpoint: bool,
        slope: impl FnOnce(&[T]) -> Vec<T>,
    ) -> Result<Vec<T>> {
        rows.check(self.config())?;
        let (h, v) = (self.config().hidden_size, self.config().vocab_size);
        let positions = rows.positions();
        let mut x = self.moved(rows, shift);
        let mut layers = Vec::with_capacity(self.config().num_hidden_layers);
        for l in 0..self.config().num_hidden_layers {
            let (next, kept) = self.kept_layer(l, x, rows, &positions, checkpoint);
            layers.push(kept);
            x = next;
        }
        let (places, _) = rows.targets();
        let last = self.streams_at(&places, &x);
        drop(x);
        let (normed, scale) = self.final_norm(&last);
        let logits = self.packed_head(&normed);
        let dlogits = slope(&logits);
        assert_eq!(dlogits.len(), logits.len(), "one slope per logit");
        drop(logits);

        let mut packed = self.pool().take(packed_len(v, h));
        pack_rows(self.weight(weights::head_name(self.config())), h, v, h, &mut packed);
        let mut dnormed = self.pool().take(normed.len());
        let head = Panels::new(&packed, v, h);
        matmul(self.pool(), Left::rows(&dlogits, v), places.len(), head, &mut dnormed, h, false);
        drop((packed, normed, dlogits));
        let mut dlast = self.pool().zeros(last.len());
        norm::backward(&last, &scale, self.weight(FINAL_NORM), &dnormed, &mut dlast);
        let mut dx = self.spread(&places, &dlast, positions.len());
        drop((last, scale, dnormed, dlast));
        let mut frozen = Gradients::new(self.config(), |_| false);
        for (l, kept) in layers.into_iter().enumerate().rev() {
            self.kept_backward(l, kept, rows, &positions, &mut dx, &mut frozen, true);
        }
        Ok(dx.to_vec())
    }
}
