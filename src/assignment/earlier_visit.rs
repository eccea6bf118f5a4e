use super::{Assignment, counted, needed};
use crate::advantage::{Baseline, OutcomeAdvantage, Scale};
use crate::equation::{Part, number};
use crate::group::{Group, Response};
use crate::systematic::Guard;

/// The reward minus the mean reward of the prompt's earlier visit, inside a guard; outside it minus the mean of the other sets.
///
/// ```text
/// A_i = r_i - J'                                       low < J' < high: the group is one set
/// A_i = r_i - mean reward of the other sets            else
/// ```
/// `J'` is the first of the response's [`reward_parts`](crate::group::ExtraInputs::reward_parts), the same for the whole group; 0 at a prompt's
/// first visit. It does not depend on the group, so that the expected update is the policy gradient.
///
/// Source: ours.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EarlierVisit {
    /// The range of `J'`, and the sets outside it.
    pub guard: Guard,
}

impl EarlierVisit {
    fn other_sets(&self) -> OutcomeAdvantage {
        OutcomeAdvantage { baseline: Baseline::OtherSets(self.guard.closed), scale: Scale::None, clamp: None }
    }
}

impl Assignment for EarlierVisit {
    fn advantages(&self, batch: &[Group], active: &[bool]) -> Vec<Vec<f64>> {
        let rewards: Vec<_> = batch.iter().map(Group::rewards).collect();
        let compared = self.other_sets().of_batch(&rewards).into_iter().flatten();
        let advantages = |((r, counts), compared): ((&Response, bool), f64)| match r.reward {
            Some(reward) if counts => {
                let earlier = needed(&r.extra_inputs.reward_parts, "reward_parts");
                let earlier = *earlier.first().expect("the mean reward of the earlier visit");
                vec![if self.guard.open(earlier) { reward - earlier } else { compared }; r.len()]
            }
            _ => vec![0.0; r.len()],
        };
        counted(batch, active).zip(compared).map(advantages).collect()
    }

    fn equation(&self, token: &str) -> Vec<Part> {
        let Guard { low, high, closed } = self.guard;
        let (low, high) = (number(low), number(high));
        vec![(
            "credit",
            format!(
                "{token} = r_i - J' where {low} < J' < {high}, J' the mean reward of the prompt's earlier visit; \
                 else r_i minus the mean reward of the {}",
                closed.others()
            ),
        )]
    }

    fn compares(&self) -> bool {
        false
    }
}
