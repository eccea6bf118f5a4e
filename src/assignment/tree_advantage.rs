//! Advantages from the prefix tree of a group: TEMPO, SPO-tree, TreeRPO, TreeRL.

use super::{Assignment, PrefixTree, Siblings};
use crate::advantage::{OutcomeAdvantage, all_equal};
use crate::equation::{Part, number};
use crate::group::Group;

/// The credit that a prefix tree adds to the outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeCredit {
    /// TEMPO: the outcome plus the difference of prefix values, `(r_i - mean r) + V(s_{t+1}) - V(s_t)`.
    Difference,
    /// The difference of prefix values alone, `V(s_{t+1}) - V(s_t)`: the edge advantages of SPO-tree.
    Edge,
    /// A z-score among the continuations of a prefix, `(V(s_{t+1}) - mean) / (std + epsilon)` (TreeRPO, its normaliser reconstructed).
    SiblingScore,
    /// TreeRL: `(V(s_{t+1}) - V(s_t)) + V(s_{t+1})`, of rewards centred by the mean of the others.
    LocalAndGlobal {
        /// Divide by the square root of the number of responses that begin with `s_{t+1}`, so that a prefix many share does not count as
        /// often as it was met.
        leaf_weight: bool,
        /// A token whose credit is 0 takes that of the token before it, but for the first.
        fill: bool,
    },
}

/// Advantages from the prefix tree of each group.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TreeAdvantage {
    /// Baseline of the outcome, and what everything is divided by.
    pub outcome: OutcomeAdvantage,
    /// The credit taken from the tree.
    pub credit: TreeCredit,
}

/// Keeps a z-score among siblings finite, as TRL's does for a group.
const SIBLING_EPSILON: f64 = 1e-4;

impl TreeAdvantage {
    /// The advantages of one graded response: `own` its outcome, `divisor` the group's.
    fn along(&self, tree: &PrefixTree, i: usize, own: f64, divisor: f64) -> Vec<f64> {
        let values = tree.values(i);
        let difference = |w: &[f64]| (w[1] - w[0]) / divisor;
        let steps = values.windows(2);
        match self.credit {
            TreeCredit::Difference => steps.map(|w| own + difference(w)).collect(),
            TreeCredit::Edge => steps.map(difference).collect(),
            TreeCredit::LocalAndGlobal { leaf_weight, fill } => {
                let mut credit: Vec<f64> = steps.map(|w| difference(w) + w[1] / divisor).collect();
                if leaf_weight {
                    let leaves = &tree.leaves(i)[1..];
                    credit.iter_mut().zip(leaves).for_each(|(c, &n)| *c /= (n as f64).sqrt());
                }
                for t in 1..if fill { credit.len() } else { 0 } {
                    if credit[t] == 0.0 {
                        credit[t] = credit[t - 1];
                    }
                }
                credit
            }
            TreeCredit::SiblingScore => {
                let mut scores = vec![0.0; values.len() - 1];
                for Siblings { token, values: children } in tree.siblings(i) {
                    let n = children.len() as f64;
                    let mean = children.iter().sum::<f64>() / n;
                    let variance = children.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0);
                    if !all_equal(children) {
                        scores[*token] = (values[token + 1] - mean) / (variance.sqrt() + SIBLING_EPSILON);
                    }
                }
                scores
            }
        }
    }
}

impl Assignment for TreeAdvantage {
    fn advantages(&self, batch: &[Group], _: &[bool]) -> Vec<Vec<f64>> {
        let rewards: Vec<_> = batch.iter().map(Group::rewards).collect();
        let outcomes = self.outcome.of_batch(&rewards);
        let divisors = self.outcome.divisors(&rewards);
        let mut advantages = Vec::new();
        for ((group, outcomes), divisor) in batch.iter().zip(outcomes).zip(divisors) {
            let graded: Vec<usize> =
                (0..group.responses.len()).filter(|&i| group.responses[i].reward.is_some()).collect();
            let leaf = |&i: &usize| {
                let r = &group.responses[i];
                assert_eq!(
                    r.tokens.len(),
                    r.len(),
                    "tokens: a prefix tree needs the token ids of every response"
                );
                let value = match self.credit {
                    TreeCredit::LocalAndGlobal { .. } => outcomes[i],
                    _ => r.reward.expect("graded"),
                };
                (r.tokens.as_slice(), value)
            };
            let start = advantages.len();
            advantages.extend(group.responses.iter().map(|r| vec![0.0; r.len()]));
            // Without a divisor the rewards agree: nothing to compare.
            let Some(divisor) = divisor else { continue };
            let tree = PrefixTree::new(&graded.iter().map(leaf).collect::<Vec<_>>());
            for (place, &i) in graded.iter().enumerate() {
                advantages[start + i] = self.along(&tree, place, outcomes[i], divisor);
            }
        }
        advantages
    }

    fn equation(&self, token: &str) -> Vec<Part> {
        let difference = "V(s_{t+1}) - V(s_t)";
        let (over, deviation) = match self.outcome.divisor_equation() {
            Some((divisor, deviation)) => (format!(" / {divisor}"), format!(", {deviation}")),
            None => (String::new(), String::new()),
        };
        let edge = if over.is_empty() { difference.to_owned() } else { format!("({difference}){over}") };
        let agree = "0 where all rewards agree";
        let outcome = ("advantage", self.outcome.equation());
        let leaves = "of the responses of the group that begin with u, s_t being the tokens before t";
        let rewards = ("value", format!("V(u) = the mean reward {leaves}"));
        match self.credit {
            TreeCredit::Difference => vec![("credit", format!("{token} = A_i + {edge}")), rewards, outcome],
            TreeCredit::Edge => vec![("credit", format!("{token} = {edge}{deviation}; {agree}")), rewards],
            TreeCredit::LocalAndGlobal { leaf_weight, fill } => vec![
                (
                    "credit",
                    format!(
                        "{token} = ({difference} + V(s_{{t+1}})){over}{}{}",
                        if leaf_weight {
                            " / sqrt(m), m the number of responses of the group that begin with s_{t+1}"
                        } else {
                            ""
                        },
                        if fill { "; where that is 0, the one of token t-1" } else { "" }
                    ),
                ),
                ("value", format!("V(u) = the mean A_j {leaves}")),
                outcome,
            ],
            TreeCredit::SiblingScore => {
                let score = format!(
                    "{token} = (V(s_{{t+1}}) - m_t) / (d_t + {}) where responses that begin with s_t go on with different tokens, \
                     else 0; {agree}",
                    number(SIBLING_EPSILON)
                );
                let spread = "m_t and d_t the mean and standard deviation (over n - 1) of V over those n continuations; 0 where they agree";
                vec![("credit", score), ("siblings", spread.to_owned()), rewards]
            }
        }
    }
}
