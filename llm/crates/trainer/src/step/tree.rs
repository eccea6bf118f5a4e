//! Groups that are the leaves of a tree, and the credit of their segments.
//!
//! A branch is a response to a longer prompt: the prompt with the tokens before the fork. On the CPU, branches share the full pages of keys and values
//! that they begin with; a card reads these tokens again for each fork. Its random numbers are addressed by
//! its number in the whole tree, and its scores do not depend on other rows: a tree does not depend on the batch, the slots or an interruption.

use grpo_lambda::assignment::PrefixTree;
use grpo_lambda::group::{Group, Response};
use grpo_lambda::methods::{Coupling, Credit, Loss, Method};
use grpo_lambda_decoder::generate::{RolloutError, SampledResponse};

use super::engine::Engine;
use super::{StepContext, TrainingPrompt};
use crate::config::Branching;

/// The start of responses: a prompt with the first tokens of a response, which others continue.
pub(super) struct Stem {
    pub(super) prompt: usize,
    pub(super) prefix: SampledResponse,
    /// The tokens that may follow, at least 1.
    pub(super) most: usize,
}

/// The segment of every token of every response of a group, by a number of its own in the tree.
pub type Segments = Vec<Vec<u32>>;

/// A leaf of a sampled tree.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Leaf {
    pub(super) response: SampledResponse,
    /// The segment of each token.
    pub(super) segments: Vec<u32>,
    /// The leaves that it stands for: one that ended early stands for all below it.
    pub(super) copies: usize,
}

/// The trees of a batch.
pub(super) struct Trees {
    /// The leaves of each prompt's; empty for groups that are no trees.
    pub(super) leaves: Vec<Vec<Leaf>>,
    /// The tokens that were written.
    pub(super) tokens: usize,
}

/// A node that is not a leaf yet.
struct Open {
    prompt: usize,
    /// Its number among the nodes of its level in the whole tree.
    number: usize,
    written: SampledResponse,
    segments: Vec<u32>,
}

impl StepContext<'_> {
    /// A tree for every prompt; see [`Branching`].
    pub(super) fn trees(
        &self,
        engine: &dyn Engine,
        prompts: &[TrainingPrompt],
        branching: &Branching,
        (group_size, step): (usize, u64),
    ) -> Result<Trees, RolloutError> {
        match branching {
            Branching::Intervals { children, segment } => {
                self.intervals(engine, prompts, (children, *segment), step)
            }
            Branching::Search { forks, branches } => {
                let chains = group_size / (1 + forks * branches);
                self.search(engine, prompts, [chains, *forks, *branches], step)
            }
        }
    }

    fn intervals(
        &self,
        engine: &dyn Engine,
        prompts: &[TrainingPrompt],
        (children, segment): (&[usize], usize),
        step: u64,
    ) -> Result<Trees, RolloutError> {
        let limit = self.settings.sampling.max_new_tokens;
        let (mut trees, mut tokens) = (vec![Vec::new(); prompts.len()], 0);
        let root =
            |prompt| Open { prompt, number: 0, written: SampledResponse::default(), segments: Vec::new() };
        let mut open: Vec<Open> = (0..prompts.len()).map(root).collect();
        let mut before = 0;
        for (level, &count) in children.iter().enumerate() {
            let below: usize = children[level + 1..].iter().product();
            let is_last = level + 1 == children.len();
            let end = if is_last { limit } else { limit.min((level + 1) * segment) };
            let stem = |node: &Open| Stem {
                prompt: node.prompt,
                prefix: node.written.clone(),
                most: end - node.written.tokens.len(),
            };
            let stems: Vec<Stem> = open.iter().map(stem).collect();
            let name = |node: &Open, child: usize| before + node.number * count + child;
            let numbers = |stem: usize, child: usize| name(&open[stem], child) as u64;
            let continued = self.continued(engine, prompts, &stems, (count, &numbers), (usize::MAX, step))?;
            let mut next = Vec::new();
            for (node, continued) in open.iter().zip(continued) {
                for (child, written) in continued.into_iter().enumerate() {
                    tokens += written.tokens.len() - node.written.tokens.len();
                    let mut segments = node.segments.clone();
                    segments.resize(written.tokens.len(), name(node, child) as u32);
                    // It ended, or has all the tokens that a response can have.
                    if !written.truncated || written.tokens.len() == limit {
                        trees[node.prompt].push(Leaf { response: written, segments, copies: below });
                    } else {
                        let number = node.number * count + child;
                        next.push(Open { prompt: node.prompt, number, written, segments });
                    }
                }
            }
            before += children[..=level].iter().product::<usize>();
            open = next;
        }
        Ok(Trees { leaves: trees, tokens })
    }

    fn search(
        &self,
        engine: &dyn Engine,
        prompts: &[TrainingPrompt],
        [chains, forks, branches]: [usize; 3],
        step: u64,
    ) -> Result<Trees, RolloutError> {
        let limit = self.settings.sampling.max_new_tokens;
        let first = self.generate(engine, prompts, chains, step)?;
        let mut tokens: usize = first.iter().flatten().map(|r| r.tokens.len()).sum();
        let mut trees = vec![Vec::new(); prompts.len()];
        let (mut stems, mut numbers) = (Vec::new(), Vec::new());
        for (prompt, written) in first.into_iter().enumerate() {
            for (chain, response) in written.into_iter().enumerate() {
                let places = unlikeliest(&response.logps, forks);
                for (fork, &place) in places.iter().enumerate() {
                    stems.push(Stem { prompt, prefix: cut(&response, place), most: limit - place });
                    numbers.push((chain * forks + fork) * branches);
                }
                // A segment ends where the tree forks.
                let segment =
                    |t: usize| chain * (forks + 1) + places.iter().filter(|place| **place <= t).count();
                let segments = (0..response.tokens.len()).map(|t| segment(t) as u32).collect();
                trees[prompt].push(Leaf { response, segments, copies: 1 });
            }
        }
        let number = |stem: usize, branch: usize| (chains + numbers[stem] + branch) as u64;
        let continued = self.continued(engine, prompts, &stems, (branches, &number), (usize::MAX, step))?;
        for ((stem, continued), own) in stems.iter().zip(continued).zip(&numbers) {
            let chain = own / (forks * branches);
            for (branch, response) in continued.into_iter().enumerate() {
                tokens += response.tokens.len() - stem.prefix.tokens.len();
                let mut segments = trees[stem.prompt][chain].segments[..stem.prefix.tokens.len()].to_vec();
                segments.resize(response.tokens.len(), (chains * (forks + 1) + own + branch) as u32);
                trees[stem.prompt].push(Leaf { response, segments, copies: 1 });
            }
        }
        Ok(Trees { leaves: trees, tokens })
    }
}

/// The places of the `n` smallest log-probabilities, the smallest first, of equal ones the first.
fn unlikeliest(logps: &[f64], n: usize) -> Vec<usize> {
    let mut places: Vec<usize> = (0..logps.len()).collect();
    places.sort_by(|&a, &b| logps[a].total_cmp(&logps[b]));
    places.truncate(n);
    places
}

/// The first tokens of a response.
pub(super) fn cut(response: &SampledResponse, tokens: usize) -> SampledResponse {
    let first = |numbers: &[f64]| numbers.iter().take(tokens).copied().collect();
    SampledResponse {
        tokens: response.tokens[..tokens].to_vec(),
        logps: first(&response.logps),
        entropies: first(&response.entropies),
        truncated: true,
    }
}

/// Every item as often as its leaf counts.
pub(super) fn repeated<T: Clone>(items: Vec<T>, leaves: &[Leaf]) -> Vec<T> {
    items.into_iter().zip(leaves).flat_map(|(item, leaf)| vec![item; leaf.copies]).collect()
}

/// The prefixes that the responses of groups share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedPrefixes {
    /// Tokens of the responses.
    pub tokens: usize,
    /// Tokens that another response of the group has, too, after the same tokens.
    pub shared: usize,
    /// Tokens where responses with the same tokens so far go on differently.
    pub parting: usize,
}

impl SharedPrefixes {
    /// Counts them.
    pub fn new(groups: &[Group]) -> SharedPrefixes {
        let mut all = SharedPrefixes::default();
        for group in groups {
            let leaves: Vec<(&[u32], f64)> =
                group.responses.iter().map(|r| (r.tokens.as_slice(), 0.0)).collect();
            let tree = PrefixTree::new(&leaves);
            for (i, (tokens, _)) in leaves.iter().enumerate() {
                all.tokens += tokens.len();
                all.shared += tree.leaves(i)[1..].iter().filter(|n| **n > 1).count();
                all.parting += tree.siblings(i).len();
            }
        }
        all
    }
}

/// A method that compares branches, on groups whose trees were sampled: the nodes are those of the sampling, so that two siblings are two samples
/// even where they wrote the same tokens, and every token of a segment gets the credit of the first, where its siblings part from it.
#[derive(Debug)]
pub struct OnTree<'a> {
    pub method: &'a dyn Method,
    /// By group.
    pub segments: &'a [Segments],
}

impl Method for OnTree<'_> {
    fn credit(&self, batch: &[Group]) -> Vec<Credit> {
        let named = |(response, names): (&Response, &Vec<u32>)| Response {
            tokens: names.clone(),
            ..response.clone()
        };
        let group = |(group, segments): (&Group, &Segments)| Group {
            responses: group.responses.iter().zip(segments).map(named).collect(),
        };
        let groups: Vec<Group> = batch.iter().zip(self.segments).map(group).collect();
        let mut credits = self.method.credit(&groups);
        for (credit, response) in credits.iter_mut().zip(groups.iter().flat_map(|g| &g.responses)) {
            for t in 1..response.tokens.len() {
                if response.tokens[t] == response.tokens[t - 1] {
                    credit.advantages[t] = credit.advantages[t - 1];
                }
            }
        }
        credits
    }

    fn loss_around(&self, response: &Response, credit: &Credit, logps: &[f64], frozen: &[f64]) -> Loss {
        self.method.loss_around(response, credit, logps, frozen)
    }

    fn loss(&self, response: &Response, credit: &Credit, logps: &[f64]) -> Loss {
        self.method.loss(response, credit, logps)
    }

    fn coupling(&self) -> Coupling {
        Coupling::Everything
    }

    fn weights_read_old_logps(&self) -> bool {
        self.method.weights_read_old_logps()
    }
}
