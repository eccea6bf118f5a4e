//! From a sampled and graded batch to the advantage of every token: where the methods of this field differ most.
//!
//! | assignment | advantage of token `t` of response `i` | used by |
//! | --- | --- | --- |
//! | [`OutcomeCredit`] | `A_i` at every token, or at the last | GRPO and its relatives, GRPO-lambda |
//! | [`PenalisedReward`] | `A_i` of a clipped reward minus the KL of its response | TRL's RLOO |
//! | [`OverResponses`] | another one, centred and scaled over the responses of the batch | TRL's RLOO, GDPO |
//! | [`BetaNormal`] | `(r_i - p) / f_Beta(p)` | BNPO (Beta normalisation) |
//! | [`GroupPolicyGradient`] | centred rewards times a factor of the batch | GPG |
//! | [`GivenBaseline`] | `r_i` minus the reward of the greedy response | ReMax |
//! | [`EarlierVisit`] | `r_i` minus the success rate of the prompt's earlier visit, inside a guard | systematic sets |
//! | [`Decoupled`] | outcome advantages of the parts of a reward, added up | GDPO |
//! | [`DifficultyWeighted`] | outcome advantages of a reward that falls with length, times a weight of the group | GRPO-LEAD |
//! | [`LengthBaseline`] | `r_i` minus the mean reward weighted by length | OPO |
//! | [`BestOfGroup`] | the lead of the best response, 0 for the others | pass@k |
//! | [`ReturnsToGo`] | discounted rewards from `t` on | REINFORCE++ |
//! | [`Signed`] | a constant by the sign of `r_i` | W-REINFORCE |
//! | [`ProcessCredit`] | process rewards from `t` on and the outcome, each minus the other responses' | PRIME |
//! | [`Whitened`] | another one, centred and scaled over all tokens of the batch | REINFORCE++, PPO |
//! | [`HighEntropy`] | another one at high-entropy tokens, 0 elsewhere | 80/20 |
//! | [`TokenBaseline`] | `r_i` minus the variance-minimising baseline at `t` | optimal token baseline |
//! | [`PrefixControl`] | `r_i` minus values of prefix and token from the other responses, handed back | prefix RLOO |
//! | [`StateRidge`] | `r_i` minus a value of the prefix, regressed on hidden states of the other responses | ridge RLOO |
//! | [`TreeAdvantage`] | `A_i` and differences of prefix-tree values | TEMPO, SPO-tree, TreeRPO, TreeRL |
//! | [`Reshaped`] | another one times bi-level weights of token scores | OAR-P, OAR-G |
//! | [`Gae`] | generalised advantage estimation over values | PPO |
//! | [`StepDifference`] | differences of Monte-Carlo values between steps | VinePPO, SPO-chain |
//! | [`SpanWeighted`] | another one times the distance of a span of hidden states from opposite responses | SHEAR |
//! | [`TeacherWeighted`] | another one times a teacher's likelihood ratio | RLSD, SERL |
//! | [`TeacherGap`] | a teacher's log-ratio | on-policy distillation |
//!
//! A mask of the policy term is an advantage of 0: the loss of a token is then 0 with gradient 0 (but for the pull of `dro`), while denominators and
//! the KL term keep the token.

mod best_of_group;
mod beta_normal;
mod decoupled;
mod earlier_visit;
mod entropy;
mod gae;
mod given_baseline;
mod group_gradient;
mod lead;
mod length_baseline;
mod outcome;
mod overlong;
mod penalised;
mod prefix_control;
mod prefix_tree;
mod process;
mod reshape;
mod returns;
mod selection;
mod signed;
mod sinkhorn;
mod spans;
mod state_ridge;
mod steps;
mod teacher;
mod token_baseline;
mod tree_advantage;
mod whitened;

pub use best_of_group::BestOfGroup;
pub use beta_normal::BetaNormal;
pub use decoupled::Decoupled;
pub use earlier_visit::EarlierVisit;
pub use entropy::HighEntropy;
pub use gae::Gae;
pub use given_baseline::GivenBaseline;
pub use group_gradient::{GroupPolicyGradient, Stretch};
pub use lead::DifficultyWeighted;
pub use length_baseline::LengthBaseline;
pub use outcome::OutcomeCredit;
pub use overlong::Overlong;
pub use penalised::{OverResponses, PenalisedReward};
pub use prefix_control::PrefixControl;
pub use prefix_tree::{PrefixTree, Siblings};
pub use process::ProcessCredit;
pub use reshape::{Answer, BiLevel, Reshaped, Threshold, TokenScores};
pub use returns::ReturnsToGo;
pub use selection::{EntropySelection, Scope};
pub use signed::Signed;
pub use sinkhorn::Sinkhorn;
pub use spans::SpanWeighted;
pub use state_ridge::StateRidge;
pub use steps::StepDifference;
pub use teacher::{TeacherGap, TeacherWeighted};
pub use token_baseline::TokenBaseline;
pub use tree_advantage::{TreeAdvantage, TreeCredit};
pub use whitened::Whitened;

use crate::equation::Part;
use crate::group::{Group, Response};
use crate::method::Coupling;

/// A rule that gives every token of a batch its advantage.
pub trait Assignment: Send + Sync + std::fmt::Debug {
    /// Advantages of every response in flat order, each of length `T`. Constant in the parameters.
    ///
    /// `active[i]` says whether response `i` carries weight. The reward of a masked response counts in its group's
    /// statistics and prefix tree; its extra inputs and log-probabilities, which may hold anything, are not looked at. A response without a reward
    /// gets 0 and counts nowhere.
    ///
    /// # Panics
    /// If an extra input of an active response is missing or has another length.
    fn advantages(&self, batch: &[Group], active: &[bool]) -> Vec<Vec<f64>>;

    /// The tokens of every response in flat order that keep an advantage, whoever gives it; the others get 0. `None` masks no token.
    ///
    /// `counts[i]` says whether response `i` takes part in a threshold of the batch.
    fn mask(&self, batch: &[Group], counts: &[bool]) -> Option<Vec<Vec<bool>>> {
        let _ = (batch, counts);
        None
    }

    /// The definition of these advantages with their numbers, outermost first. `token` is what the advantage of token `t` is called,
    /// as in `delta_t`; an assignment inside another one gets [`inner`](crate::equation::inner) of that name.
    ///
    /// `r_i` is the reward of response `i`, `T_i` its length; every other symbol is defined by one of the parts.
    fn equation(&self, token: &str) -> Vec<Part>;

    /// The way in which the other responses of the group enter a response's advantages; [`Coupling::Everything`] is always right.
    fn coupling(&self) -> Coupling {
        Coupling::Everything
    }

    /// True if a response's advantages depend on its own tokens or extra inputs, beyond reward and length; true is always right.
    fn reads_tokens(&self) -> bool {
        true
    }

    /// The tokens of a response that stay in the batch. A token that is dropped has weight 0 and does not count in any denominator. `None`
    /// means that every token of every response stays.
    fn kept(&self, _response: &Response) -> Option<Vec<bool>> {
        None
    }

    /// True if every advantage is 0 in a batch whose rewards all agree. That is so where responses are compared with each
    /// other. A critic, or a reward per token, gives advantages without a comparison.
    fn compares(&self) -> bool {
        true
    }

    /// True if a response that is alone in its group gets 0, whatever its reward, because its group has nothing to compare it with.
    fn needs_others(&self) -> bool {
        true
    }

    /// The advantages of the tokens of a response of `len` tokens whose own advantage is 1.
    fn profile(&self, len: usize) -> Vec<f64> {
        vec![1.0; len]
    }
}

/// Advantages with 0 at the tokens that a mask leaves out.
pub(crate) fn masked(mut advantages: Vec<Vec<f64>>, mask: Option<Vec<Vec<bool>>>) -> Vec<Vec<f64>> {
    for (row, mask) in advantages.iter_mut().zip(mask.into_iter().flatten()) {
        row.iter_mut().zip(mask).filter(|(_, kept)| !kept).for_each(|(a, _)| *a = 0.0);
    }
    advantages
}

/// The responses of a batch in flat order, each with whether it counts: whether it carries weight and has a reward.
pub(crate) fn counted<'a>(
    batch: &'a [Group],
    active: &'a [bool],
) -> impl Iterator<Item = (&'a Response, bool)> {
    let all = batch.iter().flat_map(|g| &g.responses);
    all.zip(active).map(|(r, &active)| (r, active && r.reward.is_some()))
}

/// `of(response, reward)` for every response that counts, zeros for the others.
pub(crate) fn each_counted(
    batch: &[Group],
    active: &[bool],
    of: impl Fn(&Response, f64) -> Vec<f64>,
) -> Vec<Vec<f64>> {
    let row = |(r, counts): (&Response, bool)| match r.reward {
        Some(reward) if counts => of(r, reward),
        _ => vec![0.0; r.len()],
    };
    counted(batch, active).map(row).collect()
}

/// Extra inputs that the method declared to need.
pub(crate) fn needed<'a, T>(field: &'a Option<Vec<T>>, name: &str) -> &'a [T] {
    field.as_deref().unwrap_or_else(|| panic!("{name}: an extra input that the method needs is missing"))
}
