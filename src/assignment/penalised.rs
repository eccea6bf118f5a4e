use super::{Assignment, counted, needed};
use crate::advantage::{OutcomeAdvantage, Std, all_equal};
use crate::equation::{Part, inner, number};
use crate::group::{Group, Response, by_group};
use crate::method::Coupling;

/// Outcome advantages of a reward that was clipped and then lost the KL of its whole response.
///
/// ```text
/// r'_i = clip(r_i, low, high) - beta sum_t (log pi_old - log pi_ref)(a_t|s_t)
/// ```
/// Source: TRL `RLOOTrainer`, its `reward_clip_range` and `beta`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PenalisedReward {
    /// From the rewards of a group to one advantage per response.
    pub outcome: OutcomeAdvantage,
    /// Coefficient of the KL penalty.
    pub beta: f64,
    /// Smallest and largest reward.
    pub bounds: (f64, f64),
}

impl PenalisedReward {
    /// The reward that is compared; that of a response without weight has no KL.
    fn reward(&self, r: &Response, active: bool) -> Option<f64> {
        let reward = r.reward?.clamp(self.bounds.0, self.bounds.1);
        if self.beta == 0.0 || !active || r.is_empty() {
            return Some(reward);
        }
        let reference = needed(&r.ref_logps, "ref_logps");
        let kl: f64 = r.old_logps.iter().zip(reference).map(|(old, reference)| old - reference).sum();
        Some(reward - self.beta * kl)
    }
}

impl Assignment for PenalisedReward {
    fn advantages(&self, batch: &[Group], active: &[bool]) -> Vec<Vec<f64>> {
        let of_group = |(g, own): (&Group, &[bool])| {
            g.responses.iter().zip(own).map(|(r, active)| self.reward(r, *active)).collect()
        };
        let rewards: Vec<Vec<Option<f64>>> = by_group(batch, active).map(of_group).collect();
        let outcomes = self.outcome.of_batch(&rewards).into_iter().flatten();
        batch.iter().flat_map(|g| &g.responses).zip(outcomes).map(|(r, a)| vec![a; r.len()]).collect()
    }

    fn equation(&self, token: &str) -> Vec<Part> {
        let clipped = match self.bounds {
            (f64::NEG_INFINITY, f64::INFINITY) => "the graded reward".to_owned(),
            (low, high) => format!("clip(the graded reward, {}, {})", number(low), number(high)),
        };
        let penalty = match self.beta {
            0.0 => String::new(),
            beta => format!(" - {} sum_t (log pi_old(a_t|s_t) - log pi_ref(a_t|s_t))", number(beta)),
        };
        vec![
            ("credit", format!("{token} = A_i at every token")),
            ("advantage", self.outcome.equation()),
            ("reward", format!("r_i = {clipped}{penalty}")),
        ]
    }

    fn coupling(&self) -> Coupling {
        if self.beta == 0.0 { Coupling::Rewards } else { Coupling::Everything }
    }

    fn reads_tokens(&self) -> bool {
        self.beta != 0.0
    }

    fn compares(&self) -> bool {
        self.beta == 0.0
    }
}

/// Another assignment of one advantage per response, centred and scaled over the responses of the batch that have one.
///
/// ```text
/// A' = (A - mean A) / (std A + 1e-4)          std with ddof 1
/// ```
/// Source: TRL `RLOOTrainer` (`normalize_advantages`) and `normalize_then_sum`.
#[derive(Debug)]
pub struct OverResponses {
    /// The assignment whose advantages are scaled.
    pub inner: Box<dyn Assignment>,
    /// True if a masked response has an advantage, from its reward alone; false where advantages are made of extra inputs, which it may lack.
    pub masked: bool,
}

impl Assignment for OverResponses {
    fn advantages(&self, batch: &[Group], active: &[bool]) -> Vec<Vec<f64>> {
        let mut advantages = self.inner.advantages(batch, active);
        let graded =
            |(r, counts): (&Response, bool)| !r.is_empty() && (counts || self.masked && r.reward.is_some());
        let graded: Vec<bool> = counted(batch, active).map(graded).collect();
        let rows = advantages.iter().zip(&graded).filter(|(_, graded)| **graded);
        let all: Vec<f64> = rows.map(|(row, _)| row[0]).collect();
        let (centre, divisor) = match all_equal(&all) {
            true => (all.first().copied().unwrap_or(0.0), 1.0),
            false => Std::TRL.centre_and_divisor(&all),
        };
        for (row, graded) in advantages.iter_mut().zip(graded) {
            row.iter_mut().for_each(|a| *a = if graded { (*a - centre) / divisor } else { 0.0 });
        }
        advantages
    }

    fn equation(&self, token: &str) -> Vec<Part> {
        let raw = inner(token);
        let scaled = format!(
            "{token} = ({raw} - m) / (s + {}), m and s the mean and standard deviation (over n - 1) of {raw} over the responses of the batch; \
             0 where all agree",
            number(Std::TRL.epsilon)
        );
        [vec![("normalised", scaled)], self.inner.equation(&raw)].concat()
    }

    fn compares(&self) -> bool {
        self.inner.compares()
    }

    fn needs_others(&self) -> bool {
        self.inner.needs_others()
    }
}
