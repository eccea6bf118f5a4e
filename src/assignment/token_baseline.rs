use super::{Assignment, needed};
use crate::advantage::all_equal;
use crate::equation::Part;
use crate::group::{Group, Response, by_group};

/// Rewards minus a baseline per token position that weighs the responses of the group by their realised energy.
///
/// ```text
/// A_{i,t} = r_i - B_t,      B_t = sum_j r_j W_{j,t} / sum_j W_{j,t}          j: responses with more than t tokens
/// W_{j,t} = sum_{k<=t} (1 - 2 pi(a_k|s_k) + sum_v pi(v|s_k)^2)               = sum_k |grad_logits log pi(a_k|s_k)|^2
/// ```
/// The exact minimiser of the variance weighs by squared gradients under expectations; this one puts the sample itself, with an
/// energy that depends on its own token, into its baseline. It is therefore biased at finite `G` (shown by enumeration in
/// the tests). The published code adds 1e-8 to the denominator; here a position whose energies are all 0 takes
/// the plain mean instead.
///
/// Source: Optimal Token Baseline, arXiv 2602.07078; verl `optimal_token_baseline`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TokenBaseline {
    /// True if a position that one response alone reaches has no baseline, so that its tokens there keep the whole reward (verl's
    /// `handle_zero_tail`). Otherwise the response is its own baseline and the advantage is 0.
    pub bare_tail: bool,
}

/// Largest rounding error of an energy of 0.
const ROUNDING: f64 = 1e-14;

/// `W_{j,t}` of one response.
fn energies(r: &Response) -> Vec<f64> {
    let collisions = needed(&r.extra_inputs.collisions, "collisions");
    assert_eq!(collisions.len(), r.len(), "one collision probability per token");
    let mut sum = 0.0;
    let step = |(old, square): (&f64, &f64)| {
        // A sum of squares; for a certain token rounding leaves something on either side of 0.
        let energy = 1.0 - 2.0 * old.exp() + square;
        sum += if energy.abs() < ROUNDING { 0.0 } else { energy };
        sum
    };
    r.old_logps.iter().zip(collisions).map(step).collect()
}

fn of_group(group: &Group, active: &[bool], bare_tail: bool) -> Vec<Vec<f64>> {
    let rows = group.responses.iter().zip(active);
    // Reward and energies of the responses that count.
    let known: Vec<Option<(f64, Vec<f64>)>> =
        rows.map(|(r, &active)| r.reward.filter(|_| active).map(|reward| (reward, energies(r)))).collect();
    let rewards: Vec<f64> = known.iter().flatten().map(|(reward, _)| *reward).collect();
    let longest = known.iter().flatten().map(|(_, w)| w.len()).max().unwrap_or(0);
    let mut advantages: Vec<Vec<f64>> = group.responses.iter().map(|r| vec![0.0; r.len()]).collect();
    if all_equal(&rewards) && !bare_tail {
        return advantages;
    }
    for t in 0..longest {
        let alive = || known.iter().flatten().filter(|(_, w)| w.len() > t);
        let total: f64 = alive().map(|(_, w)| w[t]).sum();
        let n = alive().count() as f64;
        let share = |w: &[f64]| if total != 0.0 { w[t] / total } else { 1.0 / n };
        // From one of the rewards: where all agree the difference is 0 to the last bit.
        let first = alive().next().map_or(0.0, |(reward, _)| *reward);
        let baseline = match n > 1.0 || !bare_tail {
            true => first + alive().map(|(reward, w)| (reward - first) * share(w)).sum::<f64>(),
            false => 0.0,
        };
        for (row, own) in advantages.iter_mut().zip(&known) {
            if let Some((reward, w)) = own
                && w.len() > t
            {
                row[t] = reward - baseline;
            }
        }
    }
    advantages
}

impl Assignment for TokenBaseline {
    fn advantages(&self, batch: &[Group], active: &[bool]) -> Vec<Vec<f64>> {
        by_group(batch, active).flat_map(|(group, own)| of_group(group, own, self.bare_tail)).collect()
    }

    fn equation(&self, token: &str) -> Vec<Part> {
        let baseline = "B_t = sum_j r_j W_{j,t} / sum_j W_{j,t} over the responses j of the group with more than t tokens, their mean \
                        reward where every W is 0";
        let energy = "W_{j,t} = sum_{k<=t} (1 - 2 pi_old(a_k|s_k) + sum_v pi_old(v|s_k)^2)";
        let credit = match self.bare_tail {
            false => format!("{token} = r_i - B_t; 0 where all rewards of the group agree"),
            true => format!("{token} = r_i - B_t, B_t = 0 where one response alone has more than t tokens"),
        };
        vec![("credit", credit), ("baseline", baseline.to_owned()), ("energy", energy.to_owned())]
    }

    fn compares(&self) -> bool {
        !self.bare_tail
    }
}
