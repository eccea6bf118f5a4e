//! [`OutcomeAdvantage`]: one advantage per response, from rewards alone.

use super::all_equal;
use super::deviation::{Std, mean};
use crate::equation::number;
use crate::systematic::Sets;

/// The baseline of a reward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Baseline {
    /// The group's mean reward (GRPO).
    GroupMean,
    /// The mean reward of the *other* responses of the group (RLOO): `g/(g-1)` times the centred reward.
    LeaveOneOut,
    /// The mean reward of the responses of *other* sets; RLOO's where every set is one response.
    OtherSets(
        /// The partition of every group.
        Sets,
    ),
    /// The mean reward of the whole batch (REINFORCE++).
    BatchMean,
}

/// The divisor of the difference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scale {
    /// Nothing (Dr. GRPO, RLOO).
    None,
    /// The group's mean (MaxRL). A group whose mean is not positive has advantages 0.
    Mean,
    /// The group's standard deviation: the z-score of GRPO, the paper's `A_NAE`.
    Group(
        /// The estimate of that deviation.
        Std,
    ),
    /// The standard deviation of the other rewards of the group; nothing where those agree (NeMo-RL with its leave-one-out baseline).
    Others(
        /// The estimate of that deviation.
        Std,
    ),
    /// The standard deviation of all rewards of the batch (TRL's `scale_rewards="batch"`).
    Batch(
        /// The estimate of that deviation.
        Std,
    ),
}

/// An outcome advantage: one number per response, from rewards alone.
///
/// ```text
/// A_i = max( (r_i - baseline) / scale, clamp )
/// ```
/// Responses without a reward are left out of every statistic and get 0. A group whose rewards are all equal, or that
/// has a single reward, gets 0 exactly: it holds no comparison and teaches nothing.
///
/// ```
/// use grpo_lambda::advantage::{Baseline, OutcomeAdvantage, Scale, Std};
/// let z = OutcomeAdvantage { baseline: Baseline::GroupMean, scale: Scale::Group(Std::TRL), clamp: None };
/// let a = z.of_batch(&[vec![Some(1.0), Some(0.0), Some(0.0), None]]);
/// assert!((a[0][0] - (2.0 / 3.0) / (1.0 / 3f64.sqrt() + 1e-4)).abs() < 1e-15);
/// assert_eq!(a[0][3], 0.0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OutcomeAdvantage {
    /// The baseline of a reward.
    pub baseline: Baseline,
    /// The divisor of the difference.
    pub scale: Scale,
    /// Lower bound on the advantage; the paper uses -0.1. It destroys the zero sum of a group: every mixed group then
    /// pushes likelihoods up on balance, and prompts are re-weighted (erratum E14).
    pub clamp: Option<f64>,
}

impl OutcomeAdvantage {
    /// Advantages of every response of every group. `rewards[g][i]` is `None` for a response that could not be graded.
    ///
    /// Time is linear in the number of rewards: what the whole batch contributes is computed once.
    pub fn of_batch(&self, rewards: &[Vec<Option<f64>>]) -> Vec<Vec<f64>> {
        let batch = self.whole(rewards);
        rewards.iter().map(|group| self.of_group(group, &batch)).collect()
    }

    /// The divisor of each group's centred rewards. `None` if the group's rewards agree, which makes its advantages 0.
    /// [`Scale::Others`], which has a divisor for every response, counts as [`Scale::None`] here.
    pub fn divisors(&self, rewards: &[Vec<Option<f64>>]) -> Vec<Option<f64>> {
        let batch = self.whole(rewards);
        rewards.iter().map(|group| self.centre_and_divisor(&known(group), &batch).map(|(_, d)| d)).collect()
    }

    /// The statistics of all rewards, as far as baseline and scale ask for them.
    fn whole(&self, rewards: &[Vec<Option<f64>>]) -> Whole {
        let asked = self.baseline == Baseline::BatchMean || matches!(self.scale, Scale::Batch(_));
        let all: Vec<f64> =
            if asked { rewards.iter().flatten().flatten().copied().collect() } else { Vec::new() };
        if all_equal(&all) {
            return Whole { agrees: true, centre: 0.0, divisor: 1.0 };
        }
        let divisor = if let Scale::Batch(std) = self.scale { std.divisor(&all) } else { 1.0 };
        Whole { agrees: false, centre: mean(&all), divisor }
    }

    /// The baseline of a group's rewards and the divisor of the differences; `None` if the rewards agree.
    fn centre_and_divisor(&self, known: &[f64], batch: &Whole) -> Option<(f64, f64)> {
        let of_batch = self.baseline == Baseline::BatchMean;
        if if of_batch { batch.agrees } else { all_equal(known) } {
            return None;
        }
        let divisor = match self.scale {
            Scale::None | Scale::Others(_) => 1.0,
            // Only reached with a batch baseline: a group of equal rewards has no spread of its own to divide by.
            Scale::Group(_) if all_equal(known) => return None,
            Scale::Group(std) => std.divisor(known),
            Scale::Mean if mean(known) <= 0.0 => return None,
            Scale::Mean => mean(known),
            Scale::Batch(_) => batch.divisor,
        };
        Some((if of_batch { batch.centre } else { mean(known) }, divisor))
    }

    fn of_group(&self, rewards: &[Option<f64>], batch: &Whole) -> Vec<f64> {
        let known = known(rewards);
        let Some((centre, divisor)) = self.centre_and_divisor(&known, batch) else {
            return vec![0.0; rewards.len()];
        };
        let floor = self.clamp.unwrap_or(f64::NEG_INFINITY);
        let mut position = 0;
        let own = |(place, reward): (usize, &Option<f64>)| {
            let Some(reward) = *reward else { return 0.0 };
            position += 1;
            let divisor = match self.scale {
                Scale::Others(std) => divisor_of_others(std, &known, position - 1),
                _ => divisor,
            };
            (self.centred(rewards, (place, reward), centre) / divisor).max(floor)
        };
        rewards.iter().enumerate().map(own).collect()
    }

    /// The reward at `place` minus its baseline, in a group with the mean `centre`. 0 where all other sets are without a reward.
    fn centred(&self, rewards: &[Option<f64>], (place, reward): (usize, f64), centre: f64) -> f64 {
        let set = match self.baseline {
            Baseline::GroupMean | Baseline::BatchMean => return reward - centre,
            Baseline::LeaveOneOut => place..place + 1,
            Baseline::OtherSets(sets) => sets.members(sets.set_of(place, rewards.len()), rewards.len()),
        };
        let n = rewards.iter().flatten().count() as f64;
        let (own, sum) =
            (rewards[set].iter().flatten()).fold((0.0, 0.0), |(own, sum), r| (own + 1.0, sum + (r - centre)));
        match n - own {
            0.0 => 0.0,
            others if own == 1.0 => n / others * (reward - centre),
            // What the set is above the group's mean the others are below it.
            others => reward - centre + sum / others,
        }
    }

    /// `A_i = ..`, of rewards `r_i`.
    pub fn equation(&self) -> String {
        let baseline = match self.baseline {
            Baseline::GroupMean => "the mean reward of its group",
            Baseline::LeaveOneOut => "the mean reward of the other responses of its group",
            Baseline::OtherSets(sets) => &format!("the mean reward of the {}", sets.others()),
            Baseline::BatchMean => "the mean reward of the batch",
        };
        let (centred, deviation) = match self.divisor_equation() {
            None => ("r_i - b_i".to_owned(), String::new()),
            Some((divisor, deviation)) => (format!("(r_i - b_i) / {divisor}"), format!(", {deviation}")),
        };
        let value = match self.clamp {
            Some(clamp) => format!("max({centred}, {})", number(clamp)),
            None => centred,
        };
        format!("A_i = {value}, b_i = {baseline}{deviation}; 0 where all rewards agree")
    }

    /// The divisor of centred rewards with its definition; `None` if it is 1.
    pub(crate) fn divisor_equation(&self) -> Option<(String, String)> {
        let (std, whose) = match self.scale {
            Scale::None => return None,
            Scale::Mean => {
                return Some((
                    "m_i".to_owned(),
                    "m_i the mean reward of its group, where it is positive".to_owned(),
                ));
            }
            Scale::Group(std) => (std, "its group"),
            Scale::Others(std) => (std, "the others of its group, no division where they agree"),
            Scale::Batch(std) => (std, "the batch"),
        };
        let over = if std.ddof == 0 { "n".to_owned() } else { format!("n - {}", std.ddof) };
        let deviation = format!("s_i the standard deviation of the rewards of {whose} (over {over})");
        Some((format!("(s_i + {})", number(std.epsilon)), deviation))
    }
}

/// The share of a whole batch's rewards in the advantages of each group.
struct Whole {
    /// True if no two of them differ.
    agrees: bool,
    centre: f64,
    divisor: f64,
}

/// The divisor of the reward at `position` under [`Scale::Others`]; 1 where the others agree.
fn divisor_of_others(std: Std, known: &[f64], position: usize) -> f64 {
    let others = [&known[..position], &known[position + 1..]].concat();
    if all_equal(&others) { 1.0 } else { std.divisor(&others) }
}

/// The rewards that are known.
fn known(rewards: &[Option<f64>]) -> Vec<f64> {
    rewards.iter().flatten().copied().collect()
}
