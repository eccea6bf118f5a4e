//! The extra inputs the laboratory can give, exactly, for any response of a [`Tree`].
//!
//! | extra inputs | what it is here | file |
//! | --- | --- | --- |
//! | entropies | `-Σ_a π log π` at each prefix | [`Oracle::entropies`] |
//! | collisions | `Σ_a π²` at each prefix | here |
//! | values | the exact critic, or a noisy or constant one | [`critic`] |
//! | steps | every token a step, valued exactly (infinitely many completions) or from `K` of them | [`rollouts`] |
//! | process_rewards | the progress of each token: the value after it minus the value before it | [`rollouts`] |
//! | teacher_logps | the Bayes posterior of the policy given that the answer is right | [`teacher`] |
//! | hidden | a fixed function of the prefix, where it is asked for | [`features`] |
//!
//! Scores of OAR need a policy whose input can be masked, and SHEAR one with hidden states, which a table is not:
//! [`MaskableInputs`](super::MaskableInputs) gives them for [`Maskable`](super::Maskable). A method that takes any function of the prefix for a
//! state gets one by [`Exact::with_states`].

pub mod critic;
pub mod features;
pub mod rollouts;
pub mod teacher;

use std::convert::Infallible;

use super::{EdgeId, LeafId, Oracle, RewardKind, Tabular, Tree};
use grpo_lambda::group::{ExtraInputs, InputKind, InputSource, PerStep, StatePerToken};
use grpo_lambda::methods::Configured;

/// Gives the extra inputs of a response under the policy that sampled it.
pub trait Provider: Sync + std::fmt::Debug {
    /// The extra inputs of response `leaf`, whose edges are `path`.
    fn extra_inputs(&self, leaf: LeafId, path: &[EdgeId]) -> ExtraInputs;

    /// The kinds it provides, tokens included.
    fn kinds(&self) -> Vec<InputKind>;
}

/// The numbers of one kind of extra input for every place of a tree.
#[derive(Clone, Debug, PartialEq)]
enum Numbers {
    /// One per prefix: what is known before a token.
    PerNode(Vec<f64>),
    /// One per token of a prefix.
    PerEdge(Vec<f64>),
}

/// Every kind of extra input a table gives, exactly.
#[derive(Clone, Debug, PartialEq)]
pub struct Exact {
    /// The kinds it provides with their numbers: a kind listed here is given, in the form that its declaration says.
    given: Vec<(InputKind, Numbers)>,
    /// Substitutes for the hidden state after each edge, if there are any.
    states: Option<Vec<Vec<f64>>>,
    edge_node: Vec<usize>,
}

impl Exact {
    /// The extra inputs of the oracle's policy, with the exact critic.
    pub fn new(oracle: &Oracle) -> Exact {
        use InputKind::{Collisions, Entropies, ProcessRewards, Steps, TeacherLogps, Values};
        use Numbers::{PerEdge, PerNode};
        let tree = oracle.tree;
        let successes = rollouts::expected(oracle);
        let collisions =
            tree.nodes().map(|node| tree.edges_of(node).map(|e| oracle.probs[e].powi(2)).sum()).collect();
        let teacher = (tree.reward_kind() == RewardKind::Binary)
            .then(|| (TeacherLogps, PerEdge(teacher::log_probs(oracle, &successes))));
        let always = [
            (Entropies, PerNode(oracle.entropies())),
            (Values, PerNode(oracle.v.clone())),
            (Collisions, PerNode(collisions)),
            (ProcessRewards, PerEdge(rollouts::progress(oracle, &successes))),
            (Steps, PerNode(successes)),
        ];
        Exact {
            given: always.into_iter().chain(teacher).collect(),
            states: None,
            edge_node: tree.edges().map(|e| tree.edge_node(e)).collect(),
        }
    }

    /// Replaces the critic's values, one per node.
    ///
    /// # Panics
    /// If there is not one value per node.
    pub fn with_critic(mut self, values: Vec<f64>) -> Exact {
        for (kind, numbers) in &mut self.given {
            if let (InputKind::Values, Numbers::PerNode(old)) = (*kind, numbers) {
                assert_eq!(values.len(), old.len(), "one value per node");
                old.clone_from(&values);
            }
        }
        self
    }

    /// Adds hidden states: one vector per edge, of the prefix that ends with it. [`features`] has some.
    ///
    /// # Panics
    /// If there is not one vector per edge.
    pub fn with_states(mut self, states: Vec<Vec<f64>>) -> Exact {
        assert_eq!(states.len(), self.edge_node.len(), "one state per edge");
        self.states = Some(states);
        self
    }

    /// The kinds that a table of this tree provides.
    pub fn kinds_on(tree: &Tree) -> Vec<InputKind> {
        Exact::new(&Oracle::new(tree, &Tabular::uniform(tree))).kinds()
    }
}

/// The extra inputs that a method finds on this tree. The initial policy is its own reference, as in the first step of a training run.
pub fn provided(tree: &Tree) -> Vec<InputKind> {
    [Exact::kinds_on(tree), vec![InputKind::RefLogps]].concat()
}

/// Checks that a method can be measured on this tree: a table gives its extra inputs, and it takes responses of every length.
///
/// # Errors
/// The input that is missing, or the limit that the settings set to the length of a response.
pub fn check_measurable(configured: &Configured, tree: &Tree) -> Result<(), String> {
    configured.require(&provided(tree)).map_err(|missing| missing.to_string())?;
    let longest = tree.max_len();
    match configured.method.max_len().filter(|limit| *limit < longest) {
        Some(limit) => Err(format!(
            "matrix_length = {limit}: a response of this task has up to {longest} tokens; set {longest} or more"
        )),
        None => Ok(()),
    }
}

impl Provider for Exact {
    fn extra_inputs(&self, _: LeafId, path: &[EdgeId]) -> ExtraInputs {
        let Ok(extra_inputs) = ExtraInputs::read(&mut AlongPath { exact: self, path });
        extra_inputs
    }

    fn kinds(&self) -> Vec<InputKind> {
        let given = self.given.iter().map(|(kind, _)| *kind);
        let hidden = self.states.iter().map(|_| InputKind::Hidden);
        std::iter::once(InputKind::Tokens).chain(given).chain(hidden).collect()
    }
}

/// The extra inputs of one response.
struct AlongPath<'a> {
    exact: &'a Exact,
    path: &'a [EdgeId],
}

impl InputSource for AlongPath<'_> {
    type Error = Infallible;

    fn numbers(&mut self, kind: InputKind) -> Result<Option<Vec<f64>>, Infallible> {
        let along = |numbers: &Numbers| match numbers {
            Numbers::PerNode(at) => self.path.iter().map(|&e| at[self.exact.edge_node[e]]).collect(),
            Numbers::PerEdge(at) => self.path.iter().map(|&e| at[e]).collect(),
        };
        Ok(self.exact.given.iter().find(|(given, _)| *given == kind).map(|(_, numbers)| along(numbers)))
    }

    fn steps(&mut self, kind: InputKind) -> Result<Option<PerStep>, Infallible> {
        Ok(self.numbers(kind)?.map(|values| rollouts::every_token(&values)))
    }

    fn states(&mut self, _: InputKind) -> Result<Option<StatePerToken>, Infallible> {
        let states = self.exact.states.as_ref();
        Ok(states.map(|states| self.path.iter().map(|&e| states[e].clone()).collect()))
    }
}
