//! A baseline per prefix: ridge regression of the other responses' rewards on their hidden states.

use super::{Assignment, needed};
use crate::advantage::all_equal;
use crate::equation::{Part, number};
use crate::group::{Group, Response, by_group};

/// Rewards minus values of prefixes, regressed on hidden states of the *other* responses of the group: unbiased at every group size.
///
/// ```text
/// m_i    = mean_{j != i} r_j
/// phi    = h / |h|,   h the last hidden state once the tokens before t have been read; 0 at t = 0, where all responses stand at the prompt
/// V_i(s_t) = m_i + u.phi_{i,t},   u = argmin  sum_j (r_j - m_i - u.phi_{j,t})^2 + kappa |u|^2      over the j != i with more than t tokens
/// A_{i,t}  = r_i - V_i(s_t)
/// ```
/// `V_i(s_t)` depends on the other responses and on the tokens of response `i` before `t`, never on `a_t` or `r_i`: a baseline, and on-policy the
/// expected update is the policy gradient for every `kappa` and for whatever states. As `kappa` grows `V_i` becomes `m_i`, RLOO's. With a unit
/// vector of its own for every prefix it is the value of [`PrefixControl`](super::PrefixControl) for states, `kappa` its shrinkage.
///
/// All responses of a position are fitted at once: with `P = (Phi Phi' + kappa I)^-1` over the `n` of them, the value that leaves `i` out has
/// `r_i - V_i = [P (r - m_i)]_i / P_ii`. That takes `n^2 d + n^3` operations per position, `d` the width of a state.
///
/// Source: ours; state-dependent baselines fitted without the response itself are those of RLOO and of VinePPO's argument, ridge regression that
/// of Hoerl and Kennard (1970), its leave-one-out residual that of Allen's PRESS (1974).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StateRidge {
    /// `kappa`, above 0.
    pub shrinkage: f64,
}

/// A graded response of a group.
struct Known<'a> {
    /// Its place in the group.
    place: usize,
    reward: f64,
    /// The mean reward of the others.
    others: f64,
    /// States of length 1, one per token; none where the response carries no weight.
    states: Option<Vec<Vec<f64>>>,
    response: &'a Response,
}

impl<'a> Known<'a> {
    fn new(response: &'a Response, place: usize, active: bool) -> Option<Known<'a>> {
        let reward = response.reward?;
        Some(Known { place, reward, others: 0.0, states: active.then(|| unit_states(response)), response })
    }

    /// The state in which it takes token `t`; none if it does not count or has no such token.
    fn before(&self, t: usize) -> Option<&[f64]> {
        let states = self.states.as_ref().filter(|_| t < self.response.len())?;
        Some(if t == 0 { &[] } else { &states[t - 1] })
    }
}

/// The hidden states, each divided by its norm; one that is 0 stays 0.
fn unit_states(response: &Response) -> Vec<Vec<f64>> {
    let states = needed(&response.extra_inputs.hidden, "hidden");
    assert_eq!(states.len(), response.len(), "one hidden state per token");
    let unit = |state: &Vec<f64>| {
        // The largest entry first: its square is finite where the state's own is not.
        let largest = state.iter().fold(0.0, |m: f64, x| m.max(x.abs()));
        let scaled: Vec<f64> = state.iter().map(|x| if largest > 0.0 { x / largest } else { 0.0 }).collect();
        let norm = dot(&scaled, &scaled).sqrt();
        scaled.iter().map(|x| if norm > 0.0 { x / norm } else { 0.0 }).collect()
    };
    states.iter().map(unit).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len(), "states of one width");
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The inverse of a symmetric positive definite matrix, by Gauss-Jordan elimination (no pivots are needed).
fn inverse(mut a: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
    let n = a.len();
    let unit = |i: usize| (0..n).map(|j| f64::from(u8::from(i == j))).collect();
    let mut inverse: Vec<Vec<f64>> = (0..n).map(unit).collect();
    for k in 0..n {
        let pivot = a[k][k];
        a[k].iter_mut().chain(&mut inverse[k]).for_each(|x| *x /= pivot);
        let (row, of_inverse) = (a[k].clone(), inverse[k].clone());
        for i in (0..n).filter(|&i| i != k) {
            let factor = a[i][k];
            a[i].iter_mut().zip(&row).for_each(|(x, p)| *x -= factor * p);
            inverse[i].iter_mut().zip(&of_inverse).for_each(|(x, p)| *x -= factor * p);
        }
    }
    inverse
}

impl StateRidge {
    fn of_group(&self, group: &Group, active: &[bool]) -> Vec<Vec<f64>> {
        let mut advantages: Vec<Vec<f64>> = group.responses.iter().map(|r| vec![0.0; r.len()]).collect();
        let rewards: Vec<f64> = group.responses.iter().filter_map(|r| r.reward).collect();
        // Such a group teaches nothing, and the trainer keeps no states of it.
        if all_equal(&rewards) {
            return advantages;
        }
        let total: f64 = rewards.iter().sum();
        let all = group.responses.iter().zip(active).enumerate();
        let mut known: Vec<Known> = all.filter_map(|(k, (r, &active))| Known::new(r, k, active)).collect();
        known.iter_mut().for_each(|k| k.others = (total - k.reward) / (rewards.len() - 1) as f64);
        for t in 0..known.iter().map(|k| k.response.len()).max().unwrap_or(0) {
            let there: Vec<(&Known, &[f64])> = known.iter().filter_map(|k| Some((k, k.before(t)?))).collect();
            for ((k, _), residual) in there.iter().zip(self.residuals(&there)) {
                advantages[k.place][t] = residual;
            }
        }
        advantages
    }

    /// `r_i - V_i` of the responses at one position, given with their states.
    fn residuals(&self, there: &[(&Known, &[f64])]) -> Vec<f64> {
        let entry = |i: usize, j: usize| {
            let ridge = if i == j { self.shrinkage } else { 0.0 };
            dot(there[i].1, there[j].1) + ridge
        };
        let n = there.len();
        let p = inverse((0..n).map(|i| (0..n).map(|j| entry(i, j)).collect()).collect());
        let residual = |(i, (own, _)): (usize, &(&Known, &[f64]))| {
            let centred = there.iter().map(|(k, _)| k.reward - own.others);
            p[i].iter().zip(centred).map(|(p, y)| p * y).sum::<f64>() / p[i][i]
        };
        there.iter().enumerate().map(residual).collect()
    }
}

impl Assignment for StateRidge {
    fn advantages(&self, batch: &[Group], active: &[bool]) -> Vec<Vec<f64>> {
        by_group(batch, active).flat_map(|(group, own)| self.of_group(group, own)).collect()
    }

    fn equation(&self, token: &str) -> Vec<Part> {
        let kappa = number(self.shrinkage);
        let fit = format!(
            "u_i = argmin_u sum_j (r_j - m_i - u.phi_j)^2 + {kappa} |u|^2 over the responses j != i of the group with more than t tokens"
        );
        let state = "phi_j = h / |h| of the last hidden state h of j once it has read the tokens before t, 0 at the first token";
        vec![
            ("credit", format!("{token} = r_i - V_i(s_t); 0 where all rewards of the group agree")),
            ("value", "V_i(s_t) = m_i + u_i.phi_i, m_i = mean_{j != i} r_j".to_owned()),
            ("fit", fit),
            ("state", state.to_owned()),
        ]
    }
}
