use super::{Assignment, each_counted, needed};
use crate::equation::{Part, number};
use crate::group::{Group, Response};
use crate::method::Coupling;
use crate::trace::scan;

/// Rewards from each token on, with a KL penalty per token as part of the reward (REINFORCE++).
///
/// ```text
/// r_t = -beta (log pi_old - log pi_ref)(a_t|s_t) + 1{t = T-1} r
/// G_t = r_t + gamma G_{t+1}
/// ```
/// No baseline of its own: the whitening that follows subtracts the mean over all tokens of the batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReturnsToGo {
    /// Discount, in `[0, 1]`.
    pub gamma: f64,
    /// Coefficient of the KL penalty in the reward.
    pub beta: f64,
}

impl ReturnsToGo {
    fn rewards_to_go(&self, r: &Response, reward: f64) -> Vec<f64> {
        let mut rewards = vec![0.0; r.len()];
        if self.beta != 0.0 {
            let reference = needed(&r.ref_logps, "ref_logps");
            for ((reward, old), reference) in rewards.iter_mut().zip(&r.old_logps).zip(reference) {
                *reward = -self.beta * (old - reference);
            }
        }
        rewards[r.len() - 1] += reward;
        scan::decayed_suffix(self.gamma, &mut rewards);
        rewards
    }
}

impl Assignment for ReturnsToGo {
    fn advantages(&self, batch: &[Group], active: &[bool]) -> Vec<Vec<f64>> {
        each_counted(batch, active, |r, reward| self.rewards_to_go(r, reward))
    }

    fn equation(&self, token: &str) -> Vec<Part> {
        let last = "r_i at the last token, 0 before it";
        let reward = match self.beta {
            0.0 => format!("r_k = {last}"),
            beta => {
                format!("r_k = -{} (log pi_old(a_k|s_k) - log pi_ref(a_k|s_k)) + {{ {last} }}", number(beta))
            }
        };
        vec![
            ("credit", format!("{token} = sum_{{k>=t}} {}^(k-t) r_k", number(self.gamma))),
            ("reward", reward),
        ]
    }

    fn coupling(&self) -> Coupling {
        Coupling::Rewards
    }

    fn reads_tokens(&self) -> bool {
        self.beta != 0.0
    }

    fn compares(&self) -> bool {
        false
    }

    fn needs_others(&self) -> bool {
        false
    }
}
