//! The decoder as a function of its input embeddings, for perturbation and saliency: logits at shifted embeddings, the gradient in them, and
//! the last states. Logits are not divided by a temperature, and a row's numbers do not depend on other rows.

use super::decoder::Decoder;
use super::error::Result;
use super::gradients::Gradients;
use super::ops::buffer::Buffer;
use super::ops::{Real, norm};
use super::rows::Rows;

impl<T: Real> Decoder<T> {
    /// The embeddings of these rows, `[tokens, width]`, plus `shift`.
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
    /// They are held at once: choose rows with few scored tokens.
    ///
    /// # Errors
    /// When the rows do not suit the model.
    ///
    /// # Panics
    /// If `shift` has another length.
    pub fn target_logits(&self, rows: &Rows, shift: Option<&[T]>) -> Result<Vec<T>> {
        let x = self.stream(&self.pass(rows)?, self.moved(rows, shift));
        let (places, _) = rows.targets();
        let mut logits = vec![T::ZERO; places.len() * self.config().vocab_size];
        self.logits_of(&self.streams_at(&places, &x), &mut logits);
        Ok(logits)
    }

    /// The state of the last layer after the final norm at every token, `[tokens, width]`.
    ///
    /// # Errors
    /// When the rows do not suit the model.
    pub fn states(&self, rows: &Rows) -> Result<Vec<T>> {
        let x = self.stream(&self.pass(rows)?, self.embed(rows.tokens()));
        Ok(self.norm(&self.final_norm(), &x).0.to_vec())
    }

    /// The gradient in the input embeddings, `[tokens, width]`, of a function of [`Decoder::target_logits`] under the same `shift`.
    ///
    /// `slope` takes the logits and returns the function's derivative by each of them. `recompute` is as in
    /// [`ForwardOptions`](super::ForwardOptions). No parameter's gradient is computed.
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
        recompute: bool,
        slope: impl FnOnce(&[T]) -> Vec<T>,
    ) -> Result<Vec<T>> {
        let pass = self.pass(rows)?;
        let (x, layers) = self.taped_stream(&pass, self.moved(rows, shift), recompute);
        let mut dx = self.target_logits_backward(rows, &x, slope);
        drop(x);
        let mut frozen = Gradients::new(self.config(), |_| false);
        for (l, tape) in layers.into_iter().enumerate().rev() {
            self.layer_backward(l, tape, &pass, &mut dx, &mut frozen, true);
        }
        Ok(dx.to_vec())
    }
}
