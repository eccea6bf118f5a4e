//! [`TabularLearner`]: a tabular policy that the training step of [`grpo_lambda::learner`] can update.

use std::convert::Infallible;
use std::ops::Range;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::extra_inputs::{Exact, Provider};
use super::policy::pull_back;
use super::{EdgeId, Oracle, Sampler, Tabular, Target, Tree, sample_reward};
use grpo_lambda::group::{ExtraInputs, Group, Response};
use grpo_lambda::learner::{Policy, Samples, Scored};

/// A tabular policy under plain gradient descent, with its own seeded stream.
///
/// The softmax is taken once per step of the parameters; sampling, scoring, the gradient and [`j`](TabularLearner::j)
/// share it.
#[derive(Clone, Debug)]
pub struct TabularLearner<'t> {
    tree: &'t Tree,
    policy: Tabular,
    /// `log π(a|s)` and `π(a|s)` per edge, of `policy` as it stands.
    log_probs: Vec<f64>,
    probs: Vec<f64>,
    reference: Vec<f64>,
    rate: f64,
    rng: ChaCha8Rng,
    /// True if responses carry the extra inputs that a table gives.
    with_inputs: bool,
    /// The gradient with respect to `log π(a|s)` per edge, which the next step pulls back to the logits.
    cotangent: Vec<f64>,
}

impl<'t> TabularLearner<'t> {
    /// Starts from `policy`, which is also the reference of a KL term, at learning rate `rate`.
    ///
    /// # Panics
    /// If the policy belongs to a tree of another size.
    pub fn new(tree: &'t Tree, policy: Tabular, rate: f64, seed: u64) -> Self {
        let reference = policy.log_probs(tree);
        let mut learner = TabularLearner {
            tree,
            policy,
            log_probs: Vec::new(),
            probs: Vec::new(),
            reference,
            rate,
            rng: ChaCha8Rng::seed_from_u64(seed),
            with_inputs: false,
            cotangent: vec![0.0; tree.edge_count()],
        };
        learner.refresh();
        learner
    }

    /// Makes responses carry every kind of extra input a table gives, of the policy as it stands when it
    /// samples. Costs a pass over the tree per sampling.
    pub fn with_inputs(mut self) -> Self {
        self.with_inputs = true;
        self
    }

    /// The policy as it stands.
    pub fn policy(&self) -> &Tabular {
        &self.policy
    }

    /// `J`, exactly, of the policy as it stands: [`Oracle::j`](super::Oracle::j) without the other quantities.
    pub fn j(&self) -> f64 {
        let mut v = vec![0.0; self.tree.node_count()];
        for node in self.tree.nodes().rev() {
            let value = |edge: EdgeId| match self.tree.target(edge) {
                Target::Leaf(leaf) => self.tree.reward(leaf),
                Target::Node(child) => self.tree.gamma() * v[child],
            };
            v[node] = self.tree.edges_of(node).map(|e| self.probs[e] * value(e)).sum();
        }
        v[0]
    }

    /// Takes the softmax again, after the logits have changed.
    fn refresh(&mut self) {
        self.policy.log_probs_into(self.tree, &mut self.log_probs);
        self.probs.clear();
        self.probs.extend(self.log_probs.iter().map(|x| x.exp()));
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

    fn log_probs(
        &self,
        _: &[()],
        batch: &[Group],
        part: Range<usize>,
    ) -> Result<Scored<Self::Tape>, Infallible> {
        let responses = batch.iter().flat_map(|g| &g.responses).skip(part.start).take(part.len());
        let paths: Vec<Vec<EdgeId>> = responses.map(|r| self.path(&r.tokens)).collect();
        let along = |path: &Vec<EdgeId>| path.iter().map(|&e| self.log_probs[e]).collect();
        Ok((paths.iter().map(along).collect(), paths))
    }

    fn backward(&mut self, paths: Self::Tape, dlogps: &[Vec<f64>]) -> Result<(), Infallible> {
        for (path, dlogps) in paths.iter().zip(dlogps) {
            for (&edge, d) in path.iter().zip(dlogps) {
                self.cotangent[edge] += d;
            }
        }
        Ok(())
    }

    fn step(&mut self) -> Result<(), Infallible> {
        let gradient = pull_back(self.tree, &self.probs, &self.cotangent);
        self.policy.step(&gradient, -self.rate);
        self.cotangent.fill(0.0);
        self.refresh();
        Ok(())
    }
}

impl Samples for TabularLearner<'_> {
    fn sample(&mut self, prompts: &[()], group_size: usize) -> Result<Vec<Group>, Infallible> {
        let sampler = Sampler::from_probs(self.tree, self.probs.clone());
        let exact = self.with_inputs.then(|| Exact::new(&Oracle::new(self.tree, &self.policy)));
        let mut path = Vec::new();
        let mut response = || {
            let leaf = sampler.sample_into(&mut self.rng, &mut path);
            let along = |per_edge: &[f64]| path.iter().map(|&e| per_edge[e]).collect::<Vec<_>>();
            Response {
                tokens: path.iter().map(|&e| self.tree.token(e)).collect(),
                old_logps: along(&self.log_probs),
                ref_logps: Some(along(&self.reference)),
                reward: Some(sample_reward(self.tree, leaf, &mut self.rng)),
                truncated: self.tree.truncated(leaf),
                extra_inputs: exact
                    .as_ref()
                    .map_or_else(ExtraInputs::default, |e| e.extra_inputs(leaf, &path)),
            }
        };
        Ok(prompts
            .iter()
            .map(|()| Group { responses: (0..group_size).map(|_| response()).collect() })
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{zoo, zoo::Family};
    use super::*;
    use grpo_lambda::{learner::iterate, methods};

    #[test]
    fn what_is_shared_between_steps_is_that_of_the_policy_as_it_stands() {
        let family = zoo::Random { seed: 3, ..zoo::Random::default() };
        let tree = family.tree().unwrap();
        let mut learner = TabularLearner::new(&tree, family.initial(&tree), 3.0, 1);
        let method = methods::parse("rloo", "").unwrap().method;
        for _ in 0..20 {
            let oracle = Oracle::new(&tree, learner.policy());
            assert_eq!(learner.log_probs, oracle.log_probs);
            assert!((learner.j() - oracle.j).abs() < 1e-14);
            iterate(&mut learner, method.as_ref(), &[()], 8, 1).unwrap();
        }
    }

    #[test]
    fn a_step_goes_along_the_pulled_back_gradient() {
        let family = zoo::LuckyGuess::default();
        let tree = family.tree().unwrap();
        let mut learner = TabularLearner::new(&tree, family.initial(&tree), 0.5, 2);
        let batch = learner.sample(&[()], 4).unwrap();
        let (logps, tape) = learner.log_probs(&[()], &batch, 0..4).unwrap();
        let mut cotangent = vec![0.0; tree.edge_count()];
        for (i, path) in tape.iter().enumerate() {
            path.iter().for_each(|&e| cotangent[e] += logps[i][0] * (i as f64 - 1.0));
        }
        let mut expected = learner.policy().clone();
        expected.step(&expected.backward(&tree, &cotangent), -0.5);
        let dlogps: Vec<Vec<f64>> =
            (0..4).map(|i| vec![logps[i][0] * (i as f64 - 1.0); tape[i].len()]).collect();
        learner.backward(tape, &dlogps).unwrap();
        learner.step().unwrap();
        for (a, b) in learner.policy().logits.iter().zip(&expected.logits) {
            assert!((a - b).abs() < 1e-14);
        }
    }
}
