//! From the stream after the last layer to logits and log-probabilities, and back.

use super::{Decoder, ForwardOptions, TokenScores, inverse};
use crate::model::config::FINAL_NORM;
use crate::model::gradients::Gradients;
use crate::model::ops::buffer::Buffer;
use crate::model::ops::matmul::{Left, Panels, matmul, pack_rows, packed_len};
use crate::model::ops::norm::Groups;
use crate::model::ops::{Real, log_prob, norm as norm_op};
use crate::model::rows::Rows;
use crate::model::weights;

/// The end of a forward pass, for its backward pass.
pub(super) struct HeadTape<T> {
    normed: Buffer<T>,
    /// Output of [`log_prob::forward`].
    saved: Buffer<T>,
    /// The logits, if they are few.
    logits: Option<Buffer<T>>,
    inverse_temperature: T,
    /// True if `saved` has entropies.
    pub(super) entropy: bool,
}

impl<T: Real> HeadTape<T> {
    pub(super) fn numbers(&self) -> usize {
        self.normed.len() + self.saved.len() + self.logits.as_ref().map_or(0, |logits| logits.len())
    }
}

impl<T: Real> Decoder<T> {
    /// The norm after the last layer.
    pub(in crate::model) fn final_norm(&self) -> Groups<'_, T> {
        Groups::whole(self.weight(FINAL_NORM))
    }

    /// Writes the logits of these streams: final norm and output matrix.
    pub(crate) fn logits_of(&self, stream: &[T], logits: &mut [T]) {
        self.head.product(&self.pool, &self.norm(&self.final_norm(), stream).0, logits);
    }

    /// The streams at these places, one after the other.
    pub(in crate::model) fn streams_at(&self, places: &[usize], x: &[T]) -> Buffer<T> {
        let h = self.config.hidden_size;
        let mut streams = self.pool.take(places.len() * h);
        for (out, place) in streams.chunks_exact_mut(h).zip(places) {
            out.copy_from_slice(&x[place * h..(place + 1) * h]);
        }
        streams
    }

    /// The gradient of a stream of `tokens` tokens of which those at `places` have the gradients `d` and the others none.
    pub(in crate::model) fn spread(&self, places: &[usize], d: &[T], tokens: usize) -> Buffer<T> {
        let h = self.config.hidden_size;
        let mut dx = self.pool.zeros(tokens * h);
        for (d, place) in d.chunks_exact(h).zip(places) {
            dx[place * h..(place + 1) * h].copy_from_slice(d);
        }
        dx
    }

    /// Log-probabilities and entropies of the scored tokens, from the states after the final norm that predict them. The tape may keep logits
    /// if it is `taped`.
    pub(super) fn log_probs(
        &self,
        rows: &Rows,
        normed: Buffer<T>,
        options: ForwardOptions,
        taped: bool,
    ) -> (TokenScores, HeadTape<T>) {
        let ForwardOptions { temperature, entropy, .. } = options;
        let (h, v) = (self.config.hidden_size, self.config.vocab_size);
        let (_, targets) = rows.targets();
        let mut saved = self.pool.zeros(4 * targets.len());
        let (pool, head, it) = (&self.pool, self.head.panels(), inverse(temperature));
        let wanted = (entropy, taped && !options.recompute && log_prob::keeps(targets.len(), v));
        let logits = log_prob::forward(pool, &normed, h, head, v, &targets, it, wanted, &mut saved);
        let mut each = saved.chunks_exact(4);
        let mut scores = TokenScores { logps: Vec::with_capacity(rows.len()), entropies: Vec::new() };
        for i in 0..rows.len() {
            let (logps, entropies) =
                each.by_ref().take(rows.scored(i)).map(|s| (s[0].to_f64(), s[1].to_f64())).unzip();
            scores.logps.push(logps);
            if entropy {
                scores.entropies.push(entropies);
            }
        }
        (scores, HeadTape { normed, saved, logits, inverse_temperature: it, entropy })
    }

    /// The gradient in the states after the final norm of the log-probabilities weighted by `slopes`.
    pub(super) fn log_probs_backward(
        &self,
        rows: &Rows,
        tape: HeadTape<T>,
        slopes: (&[T], &[T]),
        gradients: &mut Gradients<T>,
    ) -> Buffer<T> {
        let HeadTape { normed, saved, logits, inverse_temperature: it, .. } = tape;
        let h = self.config.hidden_size;
        let (_, targets) = rows.targets();
        let mut dnormed = self.pool.take(normed.len());
        let (pool, head, dhead) = (&self.pool, self.head.panels(), gradients.head());
        let weight = self.weight(weights::head_name(&self.config));
        let to = (dhead, &mut dnormed[..]);
        log_prob::backward(pool, &normed, h, head, weight, &targets, it, &saved, logits, slopes, to.0, to.1);
        dnormed
    }

    /// The gradient in the stream after the last layer of a function of the logits that predict the scored tokens; `slope` takes
    /// the logits and returns the function's derivative by each of them. No parameter's gradient is computed.
    ///
    /// # Panics
    /// If the slopes have another length.
    pub(in crate::model) fn target_logits_backward(
        &self,
        rows: &Rows,
        x: &[T],
        slope: impl FnOnce(&[T]) -> Vec<T>,
    ) -> Buffer<T> {
        let (h, v) = (self.config.hidden_size, self.config.vocab_size);
        let (places, _) = rows.targets();
        let input = self.streams_at(&places, x);
        let norm = self.final_norm();
        let (normed, scale) = self.norm(&norm, &input);
        let mut logits = self.pool.take(places.len() * v);
        self.head.product(&self.pool, &normed, &mut logits);
        drop(normed);
        let dlogits = slope(&logits);
        assert_eq!(dlogits.len(), logits.len(), "one slope per logit");
        drop(logits);
        let mut packed = self.pool.take(packed_len(v, h));
        let weight = self.weight(weights::head_name(&self.config));
        pack_rows(|i| &weight[i * h..], v, h, &mut packed);
        let mut dnormed = self.pool.take(input.len());
        let head = Panels::new(&packed, v, h);
        matmul(&self.pool, Left::rows(&dlogits, v), places.len(), head, &mut dnormed, h, false);
        drop((packed, dlogits));
        norm_op::backward(&norm, &input, &scale, &mut dnormed);
        self.spread(&places, &dnormed, rows.tokens().len())
    }
}
