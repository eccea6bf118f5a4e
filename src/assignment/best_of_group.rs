use super::Assignment;
use crate::advantage::OutcomeAdvantage;
use crate::equation::Part;
use crate::group::Group;
use crate::method::Coupling;

/// The lead of a group's best response over the second best, for the best alone (pass@k).
///
/// ```text
/// A_best = (r_max - r_second) / divisor,      0 for all others
/// ```
/// Where two share the best reward the lead is 0. Responses without a reward are left out.
///
/// Source: arXiv 2503.19595; verl `grpo_passk`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BestOfGroup {
    /// Gives the divisor: the standard deviation of the group or the batch, or 1.
    pub scale: OutcomeAdvantage,
}

/// The index of the best reward and its lead over the second best; none without two rewards.
fn lead(rewards: &[Option<f64>]) -> Option<(usize, f64)> {
    let mut known: Vec<(usize, f64)> =
        rewards.iter().enumerate().filter_map(|(i, r)| r.map(|r| (i, r))).collect();
    known.sort_by(|a, b| b.1.total_cmp(&a.1));
    match known[..] {
        [best, second, ..] => Some((best.0, best.1 - second.1)),
        _ => None,
    }
}

impl Assignment for BestOfGroup {
    fn advantages(&self, batch: &[Group], _: &[bool]) -> Vec<Vec<f64>> {
        let rewards: Vec<Vec<Option<f64>>> = batch.iter().map(Group::rewards).collect();
        let divisors = self.scale.divisors(&rewards);
        let mut rows: Vec<Vec<f64>> =
            batch.iter().flat_map(|g| &g.responses).map(|r| vec![0.0; r.len()]).collect();
        let mut first = 0;
        for (rewards, divisor) in rewards.iter().zip(divisors) {
            if let (Some((best, lead)), Some(divisor)) = (lead(rewards), divisor) {
                rows[first + best].fill(lead / divisor);
            }
            first += rewards.len();
        }
        rows
    }

    fn equation(&self, token: &str) -> Vec<Part> {
        let lead = "r_i - (the second best reward of its group)";
        let (value, deviation) = match self.scale.divisor_equation() {
            None => (lead.to_owned(), String::new()),
            Some((divisor, deviation)) => (format!("({lead}) / {divisor}"), format!(", {deviation}")),
        };
        vec![("credit", format!("{token} = {value} for the best response of a group, else 0{deviation}"))]
    }

    fn coupling(&self) -> Coupling {
        Coupling::Rewards
    }

    fn reads_tokens(&self) -> bool {
        false
    }
}
