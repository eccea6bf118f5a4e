//! [`Share`]: what a process computes of a gradient, the leader as much as a worker.

use std::ops::Range;

use grpo_lambda_decoder::model::{
    Decoder, Error, ForwardOptions, Gradients, ModelConfig, Rows, Tape, TokenScores,
};

use super::link::{Link, LinkError};
use super::order::receive_tensor;
use super::owners::Owners;
use super::shards::Shards;
use super::tree::{Forest, Node, blocks};

/// The gradients of a process's own shards.
pub(super) struct Share {
    /// The shards of all processes, and those of its own.
    all: Shards,
    shards: Range<usize>,
    gradients: Vec<Gradients<f32>>,
    /// True if the passes of this gradient recompute layers.
    recomputes: bool,
    /// The ticket of the last forward pass, and shard and tape of each of its parts.
    ticket: u64,
    tapes: Vec<(usize, Tape<f32>)>,
}

impl Share {
    /// Zeros for the shards of process `rank`, for the tensors of a model of this shape that have an owner.
    pub(super) fn new(shape: &ModelConfig, owners: &Owners, all: Shards, rank: usize) -> Self {
        let shards = all.owned_by(rank);
        let trained = |name: &str| owners.owner(name).is_some();
        let gradients = shards.clone().map(|_| Gradients::new(shape, trained)).collect();
        Share { all, shards, gradients, recomputes: false, ticket: 0, tapes: Vec::new() }
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
    /// If the last forward pass had another ticket.
    pub(super) fn backward(&mut self, model: &Decoder<f32>, ticket: u64, dlogps: &[Vec<Vec<f64>>]) {
        assert_eq!((self.ticket, self.tapes.len()), (ticket, dlogps.len()), "the gradient of another pass");
        for ((shard, tape), dlogps) in self.tapes.drain(..).zip(dlogps) {
            self.recomputes = tape.recomputes();
            model.backward(tape, dlogps, &mut self.gradients[shard - self.shards.start]);
        }
    }

    /// Adds up the gradient of every tensor, in the one order, at its owner, which hands those of its own to `keep`; then begins anew.
    ///
    /// Every process calls it. Tensor by tensor, each sends the complete subtrees among its shards to the owner, who takes them by rank. So each makes
    /// its transfers in the order of (tensor, sender), and the first of all that are still open has both its ends at it: nobody waits in a circle, even
    /// where a message waits for its receiver.
    pub(super) fn reduce(
        &mut self,
        model: &Decoder<f32>,
        link: &mut dyn Link,
        owners: &Owners,
        mut keep: impl FnMut(&str, Vec<f32>),
    ) -> Result<(), LinkError> {
        self.gradients.iter_mut().for_each(|g| model.complete(g, self.recomputes));
        let leaves: Vec<_> =
            self.shards.clone().zip(self.gradients.iter_mut().map(|g| &*g.parameters())).collect();
        for (name, owner) in owners.iter() {
            let mut own = Forest::default();
            for (start, gradient) in &leaves {
                let sum = gradient.get(name).map_or_else(Vec::new, |t| t.data.clone());
                own.push(Node { start: *start, len: 1, sum });
            }
            if owner == link.rank() {
                keep(name, completed(own, link, self.all)?);
            } else {
                let sums = own.into_nodes().into_iter().flat_map(|node| node.sum).collect::<Vec<f32>>();
                link.send(owner, bytemuck::cast_slice(&sums))?;
            }
        }
        self.clear();
        Ok(())
    }

    /// Begins a gradient anew.
    fn clear(&mut self) {
        self.gradients.iter_mut().for_each(Gradients::clear);
        self.tapes.clear();
    }
}

/// The sum over all shards: this process's subtrees with those that the others send.
fn completed(own: Forest, link: &mut dyn Link, shards: Shards) -> Result<Vec<f32>, LinkError> {
    let mut all = Forest::default();
    let mut own = own.into_nodes();
    // Every process has a shard.
    let each = own.first().map_or(0, |node| node.sum.len());
    for rank in 0..link.size() {
        if rank == link.rank() {
            own.drain(..).for_each(|node| all.push(node));
            continue;
        }
        let blocks = blocks(shards.owned_by(rank));
        let sums = receive_tensor(link, rank, each * blocks.len())?;
        for (sum, (start, len)) in sums.chunks(each.max(1)).zip(blocks) {
            all.push(Node { start, len, sum: sum.to_vec() });
        }
    }
    Ok(all.into_nodes().into_iter().next().map_or_else(Vec::new, |root| root.sum))
}
