//! [`TabularLearner`]: a tabular policy that the training step of [`crate::learner`] can update.

use std::convert::Infallible;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::{EdgeId, Sampler, Tabular, Target, Tree, sample_reward};
use crate::group::{Evidence, Group, Response};
use crate::learner::{Policy, Scored};

/// A tabular policy under plain gradient descent, with its own seeded stream.
#[derive(Clone, Debug)]
pub struct TabularLearner<'t> {
    tree: &'t Tree,
    /// The policy as it stands.
    pub policy: Tabular,
    reference: Vec<f64>,
    rate: f64,
    rng: ChaCha8Rng,
    gradient: Vec<f64>,
}

impl<'t> TabularLearner<'t> {
    /// Starts from `policy`, which is also the reference of a KL term, at learning rate `rate`.
    pub fn new(tree: &'t Tree, policy: Tabular, rate: f64, seed: u64) -> Self {
        let gradient = vec![0.0; tree.edge_count()];
        let reference = policy.log_probs(tree);
        TabularLearner { tree, policy, reference, rate, rng: ChaCha8Rng::seed_from_u64(seed), gradient }
    }

    fn path(&self, tokens: &[u32]) -> Vec<EdgeId> {
        let mut node = 0;
        let step = |&token: &u32| {
            let edge = self.tree.edge(node, token).expect("a sampled token is legal");
            if let Target::Node(next) = self.tree.target(edge) {
                node = next;
            }
            edge
        };
        tokens.iter().map(step).collect()
    }
}

impl Policy for TabularLearner<'_> {
    type Prompt = ();
    type Tape = Vec<Vec<EdgeId>>;
    type Error = Infallible;

    fn sample(&mut self, (): &(), g: usize) -> Result<Group, Infallible> {
        let sampler = Sampler::new(self.tree, &self.policy);
        let logps = self.policy.log_probs(self.tree);
        let mut path = Vec::new();
        let mut response = || {
            let leaf = sampler.sample_into(&mut self.rng, &mut path);
            let along = |per_edge: &[f64]| path.iter().map(|&e| per_edge[e]).collect::<Vec<_>>();
            Response {
                tokens: path.iter().map(|&e| self.tree.token(e)).collect(),
                old_logps: along(&logps),
                ref_logps: Some(along(&self.reference)),
                reward: Some(sample_reward(self.tree, leaf, &mut self.rng)),
                truncated: self.tree.truncated(leaf),
                evidence: Evidence::default(),
            }
        };
        Ok(Group { responses: (0..g).map(|_| response()).collect() })
    }

    fn log_probs(&self, batch: &[Group]) -> Result<Scored<Self::Tape>, Infallible> {
        let logps = self.policy.log_probs(self.tree);
        let paths: Vec<Vec<EdgeId>> =
            batch.iter().flat_map(|g| &g.responses).map(|r| self.path(&r.tokens)).collect();
        let along = |path: &Vec<EdgeId>| path.iter().map(|&e| logps[e]).collect();
        Ok((paths.iter().map(along).collect(), paths))
    }

    fn backward(&mut self, paths: Self::Tape, dlogps: &[Vec<f64>]) -> Result<(), Infallible> {
        let mut cotangent = vec![0.0; self.gradient.len()];
        for (path, dlogps) in paths.iter().zip(dlogps) {
            for (&edge, d) in path.iter().zip(dlogps) {
                cotangent[edge] += d;
            }
        }
        for (sum, d) in self.gradient.iter_mut().zip(self.policy.backward(self.tree, &cotangent)) {
            *sum += d;
        }
        Ok(())
    }

    fn step(&mut self) -> Result<(), Infallible> {
        self.policy.step(&self.gradient, -self.rate);
        self.gradient.fill(0.0);
        Ok(())
    }
}
