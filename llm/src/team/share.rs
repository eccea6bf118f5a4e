//! [`Share`]: what a process computes of a gradient, the leader as much as a worker.

use std::ops::Range;

use grpo_lambda_decoder::model::{
    Config, Decoder, Error, ForwardOptions, Gradients, Rows, Tape, TokenScores,
};

use super::tree::{Forest, Node};

/// The gradients of a process's own shards.
pub(super) struct Share {
    shards: Range<usize>,
    gradients: Vec<Gradients<f32>>,
    /// Whether the passes of this gradient compute layers again.
    recomputes: bool,
    /// Of the last forward pass: its ticket, and shard and tape of each of its parts.
    ticket: u64,
    tapes: Vec<(usize, Tape<f32>)>,
}

impl Share {
    /// Zeros for the shards of a model of this shape.
    pub(super) fn new(shape: &Config, trained: &[String], shards: Range<usize>) -> Self {
        let trained = |name: &str| trained.iter().any(|t| t == name);
        let gradients = shards.clone().map(|_| Gradients::new(shape, trained)).collect();
        Share { shards, gradients, recomputes: false, ticket: 0, tapes: Vec::new() }
    }

    /// Scores rows by shard, and keeps what their gradient needs.
    pub(super) fn forward(
        &mut self,
        model: &Decoder<f32>,
        ticket: u64,
        parts: &[(usize, Rows)],
        options: ForwardOptions,
    ) -> Result<Vec<TokenScores>, Error> {
        self.ticket = ticket;
        self.tapes.clear();
        let one = |(shard, rows): &(usize, Rows)| {
            let (scores, tape) = model.forward(rows, options)?;
            self.tapes.push((*shard, tape));
            Ok::<_, Error>(scores)
        };
        parts.iter().map(one).collect()
    }

    /// Adds the gradient through the tapes of `ticket`.
    ///
    /// # Panics
    /// When the last forward pass had another ticket.
    pub(super) fn backward(&mut self, model: &Decoder<f32>, ticket: u64, dlogps: &[Vec<Vec<f64>>]) {
        assert_eq!((self.ticket, self.tapes.len()), (ticket, dlogps.len()), "the gradient of another pass");
        for ((shard, tape), dlogps) in self.tapes.drain(..).zip(dlogps) {
            self.recomputes = tape.recomputes();
            model.backward(tape, dlogps, &mut self.gradients[shard - self.shards.start]);
        }
    }

    /// Ends the sums over rows.
    pub(super) fn complete(&mut self, model: &Decoder<f32>) {
        self.gradients.iter_mut().for_each(|g| model.complete(g, self.recomputes));
    }

    /// The complete subtrees of one tensor's gradient.
    pub(super) fn nodes(&mut self, tensor: &str) -> Vec<Node> {
        let mut forest = Forest::default();
        for (start, gradient) in self.shards.clone().zip(&mut self.gradients) {
            let sum = gradient.parameters().get(tensor).map_or_else(Vec::new, |t| t.data.clone());
            forest.push(Node { start, len: 1, sum });
        }
        forest.into_nodes()
    }

    /// Begins a gradient anew.
    pub(super) fn clear(&mut self) {
        self.gradients.iter_mut().for_each(Gradients::clear);
        self.tapes.clear();
    }
}
