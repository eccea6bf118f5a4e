use super::{Assignment, each_counted, needed};
use crate::equation::Part;
use crate::group::{Group, Response};
use crate::method::Coupling;

/// The reward minus one that was earned without sampling (ReMax): that of the greedy response to the same prompt.
///
/// ```text
/// A_i = r_i - r_greedy
/// ```
/// The baseline is the first of the response's [`reward_parts`](crate::group::ExtraInputs::reward_parts). It is independent of the response, so that
/// the expected update is the policy gradient. A group of one response has an advantage.
///
/// Source: ReMax, arXiv 2310.10505; verl `remax`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GivenBaseline;

impl Assignment for GivenBaseline {
    fn advantages(&self, batch: &[Group], active: &[bool]) -> Vec<Vec<f64>> {
        let advantages = |r: &Response, reward: f64| {
            let greedy = needed(&r.extra_inputs.reward_parts, "reward_parts");
            vec![reward - greedy.first().expect("the reward of the greedy response"); r.len()]
        };
        each_counted(batch, active, advantages)
    }

    fn equation(&self, token: &str) -> Vec<Part> {
        vec![("credit", format!("{token} = r_i - (the reward of the greedy response to its prompt)"))]
    }

    fn coupling(&self) -> Coupling {
        Coupling::Rewards
    }

    fn compares(&self) -> bool {
        false
    }

    fn needs_others(&self) -> bool {
        false
    }
}
