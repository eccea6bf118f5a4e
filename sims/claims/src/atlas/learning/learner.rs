//! A tabular learner that is charged for what it samples.

use super::competitors::{COMPLETIONS, Competitor, Knowledge, Valued};
use crate::atlas::entries::Source;
use crate::training::{Task, splitmix64};
use grpo_lambda::group::{Group, Response, StepValue};
use grpo_lambda::learner::{Policy, Samples, Scored};
use grpo_lambda_mdp::extra_inputs::critic;
use grpo_lambda_mdp::{NodeId, Oracle, Sampler, TabularLearner, Target, Tree, sample_reward};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::collections::HashMap;
use std::convert::Infallible;
use std::ops::Range;

/// Responses and tokens spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cost {
    /// Responses sampled and graded: those of the groups, and fresh completions.
    pub(super) responses: usize,
    /// Tokens sampled for them, and tokens scored by a teacher.
    pub(super) tokens: usize,
}

/// A [`TabularLearner`] that counts what it samples.
pub(super) struct MeteredLearner<'t> {
    inner: TabularLearner<'t>,
    tree: &'t Tree,
    knowledge: Knowledge,
    source: Source,
    /// Completions have a stream of their own, so that the groups' draws stay those of every other method.
    completions: ChaCha8Rng,
    cost: Cost,
}

impl<'t> MeteredLearner<'t> {
    pub(super) fn new(task: &'t Task, who: &Competitor, rate: f64, stream: u64) -> Self {
        let knowledge = who.knowledge;
        let inner = TabularLearner::new(&task.tree, task.start.clone(), rate, stream);
        let free = matches!(knowledge, Knowledge::Distribution | Knowledge::Oracle | Knowledge::Teacher);
        MeteredLearner {
            inner: if free { inner.with_inputs() } else { inner },
            tree: &task.tree,
            knowledge,
            source: who.entry.source,
            completions: ChaCha8Rng::seed_from_u64(splitmix64(stream ^ COMPLETIONS as u64)),
            cost: Cost::default(),
        }
    }

    pub(super) fn j(&self) -> f64 {
        self.inner.j()
    }

    /// A critic that errs, by prefix; `None` where the extra inputs of the table stand.
    fn critic(&self) -> Option<Vec<f64>> {
        let oracle = || Oracle::new(self.tree, self.inner.policy());
        match self.source {
            Source::NoisyCritic(scale) => Some(critic::noisy(&oracle(), scale, CRITIC)),
            Source::ConstantCritic => {
                let oracle = oracle();
                Some(critic::constant(&oracle, oracle.j))
            }
            _ => None,
        }
    }

    pub(super) fn cost(&self) -> Cost {
        self.cost
    }
}

/// Seed of a noisy critic's errors, which stay the same for all runs and all of a run.
const CRITIC: u64 = 1;

/// The values of prefixes within one group: each is estimated once, however many responses pass it.
struct Values<'a, 't> {
    sampler: Sampler<'t>,
    known: HashMap<NodeId, f64>,
    rng: &'a mut ChaCha8Rng,
    cost: &'a mut Cost,
}

impl Values<'_, '_> {
    /// The mean reward of fresh completions of a prefix. Prefixes on the way to the same next choice share it.
    fn at(&mut self, node: NodeId) -> f64 {
        let tree = self.sampler.tree();
        let key = next_choice(tree, node);
        if let Some(&value) = self.known.get(&key) {
            return value;
        }
        let mut sum = 0.0;
        for _ in 0..COMPLETIONS {
            let leaf = self.sampler.complete(node, self.rng);
            self.cost.responses += 1;
            self.cost.tokens += tree.leaf_len(leaf) - tree.depth(node);
            sum += sample_reward(tree, leaf, self.rng);
        }
        *self.known.entry(key).or_insert(sum / COMPLETIONS as f64)
    }

    fn fill(&mut self, response: &mut Response, valued: Valued) {
        let tree = self.sampler.tree();
        let prefixes = prefixes(tree, &response.tokens);
        let step = |values: &mut Self, start: usize| StepValue { start, value: values.at(prefixes[start]) };
        match valued {
            Valued::All => {
                response.extra_inputs.values = Some(prefixes.iter().map(|&node| self.at(node)).collect());
            }
            Valued::Choices => {
                let choice = |&t: &usize| t == 0 || tree.edges_of(prefixes[t]).len() > 1;
                let starts = (0..prefixes.len()).filter(choice);
                response.extra_inputs.steps = Some(starts.map(|t| step(self, t)).collect());
            }
            Valued::Cuts => {
                let unsure = (0..prefixes.len()).filter(|&t| response.old_logps[t].exp() < UNSURE);
                let starts = std::iter::once(0).chain(unsure.skip(INTERVAL).step_by(INTERVAL));
                response.extra_inputs.steps = Some(starts.map(|t| step(self, t)).collect());
            }
        }
    }
}

/// SPO-chain counts tokens sampled with less than this as unsure, as its authors do.
const UNSURE: f64 = 0.9;
/// Unsure tokens per segment.
const INTERVAL: usize = 2;

/// The first prefix from `node` on at which there is a choice, or the last before the end.
fn next_choice(tree: &Tree, mut node: NodeId) -> NodeId {
    loop {
        let edges = tree.edges_of(node);
        match tree.target(edges.start) {
            Target::Node(child) if edges.len() == 1 => node = child,
            _ => return node,
        }
    }
}

/// The prefix before each token.
fn prefixes(tree: &Tree, tokens: &[u32]) -> Vec<NodeId> {
    let mut node = 0;
    let step = |&token: &u32| {
        let before = node;
        if let Some(Target::Node(next)) = tree.edge(node, token).map(|edge| tree.target(edge)) {
            node = next;
        }
        before
    };
    tokens.iter().map(step).collect()
}

impl<'t> Policy for MeteredLearner<'t> {
    type Prompt = ();
    type Tape = <TabularLearner<'t> as Policy>::Tape;
    type Error = Infallible;

    fn log_probs(
        &self,
        prompts: &[()],
        batch: &[Group],
        part: Range<usize>,
    ) -> Result<Scored<Self::Tape>, Infallible> {
        self.inner.log_probs(prompts, batch, part)
    }

    fn backward(&mut self, tape: Self::Tape, dlogps: &[Vec<f64>]) -> Result<(), Infallible> {
        self.inner.backward(tape, dlogps)
    }

    fn step(&mut self) -> Result<(), Infallible> {
        self.inner.step()
    }
}

impl Samples for MeteredLearner<'_> {
    fn sample(&mut self, prompts: &[()], group_size: usize) -> Result<Vec<Group>, Infallible> {
        let mut batch = self.inner.sample(prompts, group_size)?;
        let lengths = || batch.iter().flat_map(|g| &g.responses).map(Response::len);
        let (responses, tokens) = (lengths().count(), lengths().sum::<usize>());
        self.cost.responses += responses;
        self.cost.tokens += tokens;
        match self.knowledge {
            Knowledge::Group | Knowledge::Distribution => {}
            Knowledge::Oracle => {
                if let Some(critic) = self.critic() {
                    for response in batch.iter_mut().flat_map(|g| &mut g.responses) {
                        let along = prefixes(self.tree, &response.tokens);
                        response.extra_inputs.values =
                            Some(along.into_iter().map(|node| critic[node]).collect());
                    }
                }
            }
            Knowledge::Teacher => self.cost.tokens += tokens,
            Knowledge::Completions(valued) => {
                for group in &mut batch {
                    let mut values = Values {
                        sampler: Sampler::new(self.tree, self.inner.policy()),
                        known: HashMap::new(),
                        rng: &mut self.completions,
                        cost: &mut self.cost,
                    };
                    group.responses.iter_mut().for_each(|r| values.fill(r, valued));
                }
            }
        }
        Ok(batch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::atlas::entries::ENTRIES;
    use grpo_lambda_mdp::Tabular;
    use grpo_lambda_mdp::extra_inputs::rollouts;
    use grpo_lambda_mdp::zoo::{self, Family};

    /// `fork` with a policy that gives the short answer, of two tokens, for certain.
    fn short() -> Task {
        let tree = zoo::Fork::default().tree().unwrap();
        let mut start = Tabular::uniform(&tree);
        start.logits[0] = 800.0;
        Task::with_start("short", "", tree, start)
    }

    /// Some entry with this knowledge.
    fn who(knowledge: Knowledge) -> Competitor {
        Competitor { entry: &ENTRIES[0], knowledge }
    }

    fn cost(task: &Task, knowledge: Knowledge) -> (usize, usize) {
        let mut learner = MeteredLearner::new(task, &who(knowledge), 1.0, 3);
        learner.sample(&[()], 8).unwrap();
        (learner.cost().responses, learner.cost().tokens)
    }

    #[test]
    fn the_bill_of_one_group_by_hand() {
        // Eight responses of two tokens. The first token is a choice, EOS is forced.
        let task = short();
        assert_eq!(cost(&task, Knowledge::Group), (8, 16));
        assert_eq!(cost(&task, Knowledge::Distribution), (8, 16));
        assert_eq!(cost(&task, Knowledge::Oracle), (8, 16));
        // The teacher scores 16 tokens more.
        assert_eq!(cost(&task, Knowledge::Teacher), (8, 32));
        // One prefix for all eight responses: eight completions of two tokens.
        assert_eq!(cost(&task, Knowledge::Completions(Valued::Choices)), (16, 32));
        assert_eq!(cost(&task, Knowledge::Completions(Valued::Cuts)), (16, 32));
        // A critic also needs the value before EOS: eight completions of one token.
        assert_eq!(cost(&task, Knowledge::Completions(Valued::All)), (24, 40));
    }

    #[test]
    fn completions_value_the_right_prefixes_and_leave_the_groups_as_they_are() {
        let task = Task::with_start(
            "chain",
            "",
            zoo::Chain::default().tree().unwrap(),
            Tabular::uniform(&zoo::Chain::default().tree().unwrap()),
        );
        let exact = rollouts::expected(&Oracle::new(&task.tree, &task.start));
        let (mut sums, mut counts) = (vec![0.0; task.tree.node_count()], vec![0.0; task.tree.node_count()]);
        for stream in 0..300 {
            let plain =
                MeteredLearner::new(&task, &who(Knowledge::Group), 1.0, stream).sample(&[()], 8).unwrap();
            let valued = Knowledge::Completions(Valued::Choices);
            let with = MeteredLearner::new(&task, &who(valued), 1.0, stream).sample(&[()], 8).unwrap();
            for (a, b) in plain[0].responses.iter().zip(&with[0].responses) {
                assert_eq!((&a.tokens, a.reward), (&b.tokens, b.reward));
                let nodes = prefixes(&task.tree, &b.tokens);
                for step in b.extra_inputs.steps.as_ref().unwrap() {
                    sums[nodes[step.start]] += step.value;
                    counts[nodes[step.start]] += 1.0;
                }
            }
        }
        for node in task.tree.nodes().filter(|&n| task.tree.edges_of(n).len() > 1) {
            if counts[node] > 200.0 {
                assert!((sums[node] / counts[node] - exact[node]).abs() < 0.1, "{node}: {}", exact[node]);
            }
        }
        assert!(counts[0] > 0.0);
    }

    #[test]
    fn segments_begin_at_every_second_unsure_token() {
        let tree = zoo::Parity { bits: 5 }.tree().unwrap();
        let task = Task::with_start("parity", "", tree.clone(), Tabular::uniform(&tree));
        let knowledge = Knowledge::Completions(Valued::Cuts);
        let batch = MeteredLearner::new(&task, &who(knowledge), 1.0, 1).sample(&[()], 2).unwrap();
        let response = &batch[0].responses[0];
        let starts: Vec<_> = response.extra_inputs.steps.as_ref().unwrap().iter().map(|s| s.start).collect();
        let unsure: Vec<_> = (0..response.len()).filter(|&t| response.old_logps[t].exp() < 0.9).collect();
        let expected: Vec<_> =
            [0].into_iter().chain((2..unsure.len()).step_by(2).map(|i| unsure[i])).collect();
        assert!(starts.len() > 1);
        assert_eq!(starts, expected);
    }

    #[test]
    fn critics_that_err_say_what_their_entry_says() {
        let task = short();
        let values = |name: &str| {
            let entry = ENTRIES.iter().find(|e| e.name == name).unwrap();
            let who = Competitor { entry, knowledge: Knowledge::Oracle };
            let batch = MeteredLearner::new(&task, &who, 1.0, 1).sample(&[()], 2).unwrap();
            batch[0].responses[0].extra_inputs.values.clone().unwrap()
        };
        // The short answer for certain: J = V = 0.9 everywhere.
        assert_eq!(values("GAE, exact critic"), [0.9, 0.9]);
        assert_eq!(values("GAE, constant critic"), [0.9, 0.9]);
        let noisy = values("GAE, noisy critic");
        assert!(noisy.iter().all(|v| (v - 0.9).abs() > 1e-6 && (v - 0.9).abs() < 1.0), "{noisy:?}");
    }
}
