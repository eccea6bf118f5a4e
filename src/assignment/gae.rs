use super::{Assignment, each_counted, needed};
use crate::advantage::gae;
use crate::equation::{Part, number};
use crate::group::Group;
use crate::method::Coupling;

/// Generalised advantage estimation over a critic's values.
///
/// ```text
/// delta_t = r_t + gamma V(s_{t+1}) - V(s_t),      A_t = delta_t + gamma lambda A_{t+1},      r_t = 1{t = T-1} r,  V(s_T) = 0
/// ```
/// With the exact critic its expectation is the policy gradient at every `lambda`; with any critic it is at `lambda = 1`, where the
/// values are a baseline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gae {
    /// Discount, in `[0, 1]`.
    pub gamma: f64,
    /// Decay of later TD errors, in `[0, 1]`.
    pub lambda: f64,
}

impl Assignment for Gae {
    fn advantages(&self, batch: &[Group], active: &[bool]) -> Vec<Vec<f64>> {
        each_counted(batch, active, |r, reward| {
            let mut rewards = vec![0.0; r.len()];
            rewards[r.len() - 1] = reward;
            gae(&rewards, needed(&r.extra_inputs.values, "values"), self.gamma, self.lambda)
        })
    }

    fn equation(&self, token: &str) -> Vec<Part> {
        let q = number(self.gamma * self.lambda);
        let error = format!(
            "e_k = r_k + {} V(s_{{k+1}}) - V(s_k), r_k = r_i at the last token, 0 before it; V the critic's value, 0 after the last token",
            number(self.gamma)
        );
        vec![("credit", format!("{token} = sum_{{k>=t}} {q}^(k-t) e_k")), ("TD error", error)]
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
