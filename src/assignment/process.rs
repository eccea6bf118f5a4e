use super::{Assignment, counted, needed};
use crate::advantage::{Baseline, OutcomeAdvantage, Scale};
use crate::equation::{Part, number};
use crate::group::{Group, Response, by_group};
use crate::trace::scan;

/// Two leave-one-out advantages, one of the outcome and one of the rewards that a process reward model gives from each token on (PRIME).
///
/// ```text
/// A_t = process sum_{k>=t} gamma^(k-t) q'_k + outcome (r_i - m_i),      m_i the mean reward of the other responses
/// q'_k = q_k - b_i                                 the paper:        b_i = 1/(n-1) sum_{j != i} mean_t q_j,t
/// q'_k = n/(n-1) q_k - 1/(n-1) sum_j mean_t q_j,t  the authors' code, whose sum includes i
/// ```
/// `n` responses of the group have a reward and carry weight; alone, a response has no process term. The process baseline is subtracted at every
/// token that follows, so that where lengths vary its share of an advantage depends on the length of the response.
///
/// Source: PRIME, arXiv 2502.01456, Eq. 5; the authors' `compute_rloo_advantage_return`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProcessCredit {
    /// Discount of later process rewards, in `[0, 1]`.
    pub gamma: f64,
    /// Weight of the process rewards.
    pub process: f64,
    /// Weight of the outcome.
    pub outcome: f64,
    /// True for the code's baseline, false for the paper's.
    pub as_coded: bool,
}

const OUTCOME: OutcomeAdvantage =
    OutcomeAdvantage { baseline: Baseline::LeaveOneOut, scale: Scale::None, clamp: None };

impl ProcessCredit {
    /// The process terms of the responses of one group; zeros for a response that does not count.
    fn process_terms(&self, group: &[(&Response, bool)]) -> Vec<Vec<f64>> {
        let rewards = |r: &Response| needed(&r.extra_inputs.process_rewards, "process_rewards").to_vec();
        let rows: Vec<Option<Vec<f64>>> =
            group.iter().map(|(r, counts)| counts.then(|| rewards(r))).collect();
        let mean = |row: &Vec<f64>| row.iter().sum::<f64>() / row.len() as f64;
        let total: f64 = rows.iter().flatten().map(mean).sum();
        let others = rows.iter().flatten().count() as f64 - 1.0;
        let term = |(row, (response, _)): (Option<Vec<f64>>, &(&Response, bool))| match row {
            Some(mut row) if others > 0.0 => {
                let (scale, baseline) = match self.as_coded {
                    true => ((others + 1.0) / others, total / others),
                    false => (1.0, (total - mean(&row)) / others),
                };
                row.iter_mut().for_each(|q| *q = self.process * (scale * *q - baseline));
                scan::decayed_suffix(self.gamma, &mut row);
                row
            }
            _ => vec![0.0; response.len()],
        };
        rows.into_iter().zip(group).map(term).collect()
    }
}

impl Assignment for ProcessCredit {
    fn advantages(&self, batch: &[Group], active: &[bool]) -> Vec<Vec<f64>> {
        let rewards: Vec<_> = batch.iter().map(Group::rewards).collect();
        let outcomes = OUTCOME.of_batch(&rewards).into_iter().flatten();
        let flat: Vec<(&Response, bool)> = counted(batch, active).collect();
        let mut terms: Vec<_> = by_group(batch, &flat).flat_map(|(_, own)| self.process_terms(own)).collect();
        for ((row, outcome), (_, counts)) in terms.iter_mut().zip(outcomes).zip(&flat) {
            let outcome = if *counts { self.outcome * outcome } else { 0.0 };
            row.iter_mut().for_each(|a| *a += outcome);
        }
        terms
    }

    fn equation(&self, token: &str) -> Vec<Part> {
        let [gamma, process, outcome] = [self.gamma, self.process, self.outcome].map(number);
        let centred = match self.as_coded {
            true => "q'_k = (n q_k - sum_j mean_t q_j,t) / (n - 1) over the n responses j of the group",
            false => "q'_k = q_k - the mean over the other responses j of mean_t q_j,t",
        };
        let credit = format!("{token} = {process} sum_{{k>=t}} {gamma}^(k-t) q'_k + {outcome} A_i");
        let process = format!("{centred}; q_k the process reward of token k; 0 for a response alone");
        vec![("credit", credit), ("process", process), ("advantage", OUTCOME.equation())]
    }

    fn compares(&self) -> bool {
        false
    }
}
