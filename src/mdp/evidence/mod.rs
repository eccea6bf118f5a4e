//! The evidence the laboratory can give, exactly, for any response of a [`Tree`].
//!
//! | evidence | what it is here | file |
//! | --- | --- | --- |
//! | entropies | `-Σ_a π log π` at each prefix | [`Oracle::entropies`] |
//! | collisions | `Σ_a π²` at each prefix | [`collisions`] |
//! | values | the exact critic, or a noisy or constant one | [`critic`] |
//! | steps | every token a step, valued exactly (infinitely many completions) or from `K` of them | [`rollouts`] |
//! | teacher_logps | the Bayes posterior of the policy given that the answer is right | [`teacher`] |
//!
//! Scores of OAR need a policy whose input can be masked, and SHEAR one with hidden states, which a table is not: [`Scored`](super::Scored)
//! gives them for [`Maskable`](super::Maskable).

pub mod collisions;
pub mod critic;
pub mod rollouts;
pub mod teacher;

use super::{EdgeId, LeafId, Oracle, RewardKind, Tree};
use crate::group::{Evidence, EvidenceKind};

/// Gives the evidence of a response under the policy that sampled it.
pub trait Provider: Sync + std::fmt::Debug {
    /// The evidence of response `leaf`, whose edges are `path`.
    fn evidence(&self, leaf: LeafId, path: &[EdgeId]) -> Evidence;

    /// What it provides, tokens included.
    fn kinds(&self) -> Vec<EvidenceKind>;
}

/// Every kind of evidence a table gives, exactly.
#[derive(Clone, Debug, PartialEq)]
pub struct Exact {
    entropies: Vec<f64>,
    values: Vec<f64>,
    collisions: Vec<f64>,
    /// Mean rewards to come, not discounted.
    successes: Vec<f64>,
    teacher: Option<Vec<f64>>,
    edge_node: Vec<usize>,
}

impl Exact {
    /// The evidence of the oracle's policy, with the exact critic.
    pub fn new(oracle: &Oracle) -> Exact {
        let tree = oracle.tree;
        let successes = rollouts::expected(oracle);
        let teacher =
            (tree.reward_kind() == RewardKind::Binary).then(|| teacher::log_probs(oracle, &successes));
        Exact {
            entropies: oracle.entropies(),
            values: oracle.v.clone(),
            collisions: collisions::per_node(oracle),
            successes,
            teacher,
            edge_node: tree.edges().map(|e| tree.edge_node(e)).collect(),
        }
    }

    /// The same with another critic, one value per node.
    ///
    /// # Panics
    /// If there is not one value per node.
    pub fn with_critic(self, values: Vec<f64>) -> Exact {
        assert_eq!(values.len(), self.values.len(), "one value per node");
        Exact { values, ..self }
    }

    /// What a table of this tree provides.
    pub fn kinds_on(tree: &Tree) -> Vec<EvidenceKind> {
        use EvidenceKind::{Collisions, Entropies, Steps, TeacherLogps, Tokens, Values};
        let all = [Tokens, Entropies, Values, Collisions, Steps, TeacherLogps];
        let given = |kind: &EvidenceKind| *kind != TeacherLogps || tree.reward_kind() == RewardKind::Binary;
        all.into_iter().filter(given).collect()
    }
}

impl Provider for Exact {
    fn evidence(&self, _: LeafId, path: &[EdgeId]) -> Evidence {
        let at_nodes =
            |per_node: &[f64]| path.iter().map(|&e| per_node[self.edge_node[e]]).collect::<Vec<_>>();
        Evidence {
            entropies: Some(at_nodes(&self.entropies)),
            values: Some(at_nodes(&self.values)),
            collisions: Some(at_nodes(&self.collisions)),
            steps: Some(rollouts::every_token(&at_nodes(&self.successes))),
            teacher_logps: self.teacher.as_ref().map(|t| path.iter().map(|&e| t[e]).collect()),
            ..Evidence::default()
        }
    }

    fn kinds(&self) -> Vec<EvidenceKind> {
        use EvidenceKind::{Collisions, Entropies, Steps, TeacherLogps, Tokens, Values};
        let teacher = self.teacher.as_ref().map(|_| TeacherLogps);
        [Tokens, Entropies, Values, Collisions, Steps].into_iter().chain(teacher).collect()
    }
}
