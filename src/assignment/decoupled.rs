use super::{Assignment, needed};
use crate::advantage::OutcomeAdvantage;
use crate::equation::{Part, number};
use crate::group::{Group, Response, by_group};

/// The sum of the outcome advantages of every part of the reward (GDPO): each part is compared and scaled in its group by itself.
///
/// ```text
/// A_i = sum_k w_k A_i^k,      A_i^k the outcome advantage of part k
/// ```
/// A part with a large spread cannot drown another one, as it does in the sum of rewards. The parts are the response's
/// [`reward_parts`](crate::group::ExtraInputs::reward_parts); its reward itself does not enter, but where it is missing all parts are.
///
/// Source: GDPO, arXiv 2601.05242; verl `gdpo`, TRL `normalize_then_sum`.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoupled {
    /// From the values of one part in a group to advantages.
    pub outcome: OutcomeAdvantage,
    /// Weights of the parts; 1 for those beyond the list.
    pub weights: Vec<f64>,
}

impl Decoupled {
    /// The values of part `k`; none for a response without a reward, or that carries no weight.
    fn part(group: &Group, active: &[bool], k: usize) -> Vec<Option<f64>> {
        let value = |(r, active): (&Response, &bool)| {
            let counted = *active && r.reward.is_some();
            let parts = || needed(&r.extra_inputs.reward_parts, "reward_parts");
            counted.then(|| parts().get(k).copied()).flatten()
        };
        group.responses.iter().zip(active).map(value).collect()
    }
}

impl Assignment for Decoupled {
    fn advantages(&self, batch: &[Group], active: &[bool]) -> Vec<Vec<f64>> {
        let responses: Vec<&Response> = batch.iter().flat_map(|g| &g.responses).collect();
        let counted = responses.iter().zip(active).filter(|(r, active)| **active && r.reward.is_some());
        let parts = counted.map(|(r, _)| needed(&r.extra_inputs.reward_parts, "reward_parts").len()).max();
        let mut sums = vec![0.0; responses.len()];
        for k in 0..parts.unwrap_or(0) {
            let of_group = |(group, own)| Self::part(group, own, k);
            let values: Vec<Vec<Option<f64>>> = by_group(batch, active).map(of_group).collect();
            let weight = self.weights.get(k).copied().unwrap_or(1.0);
            for (sum, a) in sums.iter_mut().zip(self.outcome.of_batch(&values).into_iter().flatten()) {
                *sum += weight * a;
            }
        }
        responses.iter().zip(sums).map(|(r, a)| vec![a; r.len()]).collect()
    }

    fn equation(&self, token: &str) -> Vec<Part> {
        let weights: Vec<String> = self.weights.iter().map(|w| number(*w)).collect();
        let credit = format!(
            "{token} = sum_k w_k A_i over the parts k of the reward, each A_i of that part alone; w = {}, then 1",
            weights.join(", ")
        );
        vec![("credit", credit), ("advantage", self.outcome.equation())]
    }

    fn compares(&self) -> bool {
        false
    }
}
