use super::Assignment;
use crate::advantage::all_equal;
use crate::equation::Part;
use crate::group::{Group, Response};

/// Rewards minus the group's mean reward weighted by length (OPO).
///
/// ```text
/// A_i = r_i - sum_j T_j r_j / sum_j T_j
/// ```
/// Responses without a reward are left out of the mean and get 0; where all rewards agree, or there is one, all get 0.
///
/// Source: OPO, arXiv 2505.23585; verl `opo`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LengthBaseline;

fn of_group(group: &Group) -> Vec<Vec<f64>> {
    let known: Vec<(f64, f64)> =
        group.responses.iter().filter_map(|r| r.reward.map(|reward| (reward, r.len() as f64))).collect();
    let rewards: Vec<f64> = known.iter().map(|(reward, _)| *reward).collect();
    let teaches = !all_equal(&rewards);
    let tokens: f64 = known.iter().map(|(_, len)| len).sum();
    let baseline = known.iter().map(|(reward, len)| reward * len).sum::<f64>() / tokens;
    let row =
        |r: &Response| vec![r.reward.filter(|_| teaches).map_or(0.0, |reward| reward - baseline); r.len()];
    group.responses.iter().map(row).collect()
}

impl Assignment for LengthBaseline {
    fn advantages(&self, batch: &[Group], _: &[bool]) -> Vec<Vec<f64>> {
        batch.iter().flat_map(of_group).collect()
    }

    fn equation(&self, token: &str) -> Vec<Part> {
        vec![(
            "credit",
            format!(
                "{token} = r_i - sum_j T_j r_j / sum_j T_j, j in the group of i; 0 where all rewards agree"
            ),
        )]
    }

    fn reads_tokens(&self) -> bool {
        false
    }
}
