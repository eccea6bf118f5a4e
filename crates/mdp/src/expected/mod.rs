//! The exact expected update of any method, in ways that must agree.
//!
//! On-policy or off it, a group of `G` responses moves the logits by
//!
//! ```text
//! g = -∇_θ L = Σ_i Σ_t w_{i,t} ∇log π(a_{i,t}|s_{i,t}),        w = -∂L/∂log π
//! ```
//! and for a tabular softmax its expectation only needs the *implied credit* `ω(s,a)`, the mean weight a token receives:
//!
//! ```text
//! E[g](s,a) = b(s,a) ω(s,a) - π(a|s) Σ_c b(s,c) ω(s,c),        ω(s,a) = G E[w_t | s_t=s, a_t=a]
//! ```
//! with `b(s,a)` the probability that a sampled response takes the edge. The policy gradient is `ω = Q`.
//!
//! | function | what it sums over | when |
//! | --- | --- | --- |
//! | [`implied`] | own response × what the others can do to it ([`Coupling`](grpo_lambda::methods::Coupling)) | rewards (and lengths) of others are all that matters |
//! | [`implied_mean`] | the same, without the variance | larger trees |
//! | [`enumerated`] | every tuple of `G` responses | tiny MDPs; any method |
//! | [`multisets`] | the same without regard to order | small MDPs |
//! | [`systematic`] | every shift of every set of a systematic sample | tiny MDPs; any method |
//! | [`PrefixMoments`] | every prefix | values of prefixes as baselines; any MDP |
//! | [`SetMoments`] | every shift of one set | means as baselines; any MDP |
//! | [`conditional`] | own response; the others sampled | anything, mean only |
//! | [`sampled`], [`sampled_in_sets`] | seeded groups, with standard errors | anything |
//! | [`branched`] | seeded trees of samples | methods that branch |
//! | [`under_ratios`] | every response, off-policy | a trace of ratios without a clip or a group |

mod branched;
mod compare;
mod conditional;
mod entropy_search;
mod enumerated;
mod implied;
mod prefix_moments;
mod ratios;
mod sampled;
mod set_moments;
mod shifts;

pub use branched::{Branching, TreeLeaf, TreeSampling, branched};
pub use compare::{Comparison, compare, cosine};
pub use conditional::{Conditional, conditional};
pub use entropy_search::EntropySearch;
pub use enumerated::{enumerated, multisets, systematic};
pub use implied::{implied, implied_mean};
pub use prefix_moments::{DepthVariance, PrefixMoments};
pub use ratios::{Product, RatioCredit, under_ratios};
pub use sampled::{Sampled, sampled, sampled_in_sets};
pub use set_moments::SetMoments;
pub use shifts::{code_intervals, response_at};

use super::extra_inputs::{Exact, Provider};
use super::policy::pull_back;
use super::{EdgeId, LeafId, Oracle, Tabular, Tree};
use grpo_lambda::group::Response;

/// The policy that sampled, the one being updated, and the size of the groups.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    /// The MDP.
    pub tree: &'a Tree,
    /// The policy that samples (`pi_old`).
    pub behaviour: &'a Tabular,
    /// The policy being updated; the same on-policy.
    pub current: &'a Tabular,
    /// The reference policy of a KL term.
    pub reference: Option<&'a Tabular>,
    /// Source of extra inputs; `None`: everything a table gives, exactly, with the exact critic.
    pub extra_inputs: Option<&'a dyn Provider>,
    /// Responses per group, at least 2.
    pub group_size: usize,
}

impl<'a> Situation<'a> {
    /// On-policy, without a reference.
    pub fn on_policy(tree: &'a Tree, policy: &'a Tabular, group_size: usize) -> Self {
        Situation {
            tree,
            behaviour: policy,
            current: policy,
            reference: None,
            extra_inputs: None,
            group_size,
        }
    }
}

/// An expected update with its variance.
#[derive(Clone, Debug, PartialEq)]
pub struct Expected {
    /// `E[g]` per edge: the expected step of the logits at learning rate 1, for one group.
    pub update: Vec<f64>,
    /// Implied credit `ω(s,a)` per edge; 0 where no response passes.
    pub credit: Vec<f64>,
    /// `Var(g)` per edge, over groups.
    pub variance: Vec<f64>,
}

impl Expected {
    /// The trace of the covariance of `g`.
    pub fn total_variance(&self) -> f64 {
        self.variance.iter().sum()
    }
}

/// Why an expectation was not computed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ExpectedError {
    /// The method looks at more of a group than this way of computing allows.
    #[error(
        "the method's gradient depends on the other responses through more than rewards and lengths; enumerate or sample instead"
    )]
    Coupled,
    /// The sum would take too long.
    #[error("{terms} terms to sum, the limit is {limit}; use a smaller MDP or group, or sample instead")]
    TooMany {
        /// Number of terms, as far as they were counted.
        terms: f64,
        /// The largest number that is allowed.
        limit: f64,
    },
}

/// A situation with everything per edge and per leaf that these ways share.
struct Evaluated<'a> {
    tree: &'a Tree,
    behaviour: Oracle<'a>,
    current: Oracle<'a>,
    reference: Option<Vec<f64>>,
    exact: Exact,
    extra_inputs: Option<&'a dyn Provider>,
    group_size: usize,
}

/// A response with a reward, its probability under the policy that samples, and what the policy being updated says of it.
struct Atom {
    leaf: LeafId,
    probability: f64,
    response: Response,
    path: Vec<EdgeId>,
    logps: Vec<f64>,
}

impl<'a> Evaluated<'a> {
    fn new(s: &Situation<'a>) -> Self {
        assert!(s.group_size >= 2, "a group has at least two responses, not {}", s.group_size);
        let behaviour = Oracle::new(s.tree, s.behaviour);
        Evaluated {
            tree: s.tree,
            exact: Exact::new(&behaviour),
            extra_inputs: s.extra_inputs,
            behaviour,
            current: Oracle::new(s.tree, s.current),
            reference: s.reference.map(|r| r.log_probs(s.tree)),
            group_size: s.group_size,
        }
    }

    /// A response as a method sees it, with its extra inputs.
    fn response(&self, leaf: LeafId, path: &[usize], reward: f64) -> Response {
        let along = |per_edge: &[f64]| path.iter().map(|&e| per_edge[e]).collect::<Vec<_>>();
        Response {
            tokens: path.iter().map(|&e| self.tree.token(e)).collect(),
            old_logps: along(&self.behaviour.log_probs),
            ref_logps: self.reference.as_deref().map(along),
            reward: Some(reward),
            truncated: self.tree.truncated(leaf),
            extra_inputs: self.extra_inputs.unwrap_or(&self.exact).extra_inputs(leaf, path),
        }
    }

    /// Every (response, reward) of positive probability.
    fn atoms(&self) -> Vec<Atom> {
        let mut atoms = Vec::new();
        for leaf in self.tree.leaves() {
            let path = self.tree.path(leaf);
            let logps: Vec<f64> = path.iter().map(|&e| self.current.log_probs[e]).collect();
            for (reward, p) in self.tree.outcomes(leaf) {
                let probability = p * self.behaviour.leaf_prob(leaf);
                if probability > 0.0 {
                    let response = self.response(leaf, &path, reward);
                    atoms.push(Atom {
                        leaf,
                        probability,
                        response,
                        path: path.clone(),
                        logps: logps.clone(),
                    });
                }
            }
        }
        atoms
    }

    /// Pulls token weights, summed per edge, back to logits under the current policy.
    fn pull_back(&self, per_edge: &[f64]) -> Vec<f64> {
        pull_back(self.tree, &self.current.probs, per_edge)
    }

    /// Divides weights summed per edge by the probability of the edge.
    fn per_visit(&self, per_edge: &[f64]) -> Vec<f64> {
        let credit = |(e, w): (usize, &f64)| {
            let visit = self.behaviour.edge_visit(e);
            if visit > 0.0 { w / visit } else { 0.0 }
        };
        per_edge.iter().enumerate().map(credit).collect()
    }
}
