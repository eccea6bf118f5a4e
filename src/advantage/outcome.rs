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

    /// The reward at `place` less its baseline, in a group with the mean `centre`. 0 where all other sets are without a reward.
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

#[cfg(test)]
mod tests {
    use super::*;

    const Z: OutcomeAdvantage =
        OutcomeAdvantage { baseline: Baseline::GroupMean, scale: Scale::Group(Std::TRL), clamp: None };

    #[test]
    fn nearly_equal_rewards_keep_their_digits() {
        // B26: seven rewards of 0.35 and one next to it; the one-pass variance is negative or noise here.
        let mut rewards = vec![Some(0.35); 7];
        rewards.push(Some(0.35 + 1e-9));
        let exact = OutcomeAdvantage { scale: Scale::Group(Std { ddof: 1, epsilon: 0.0 }), ..Z };
        let a = &exact.of_batch(&[rewards])[0];
        assert!((a[7] - 7.0 / 8f64.sqrt()).abs() < 1e-6, "{a:?}");
        // The mean itself is only known to half an ulp of 0.35, which is 1.6e-7 of this group's std.
        assert!((a.iter().sum::<f64>()).abs() < 8.0 * 1.6e-7);
    }

    #[test]
    fn equal_rewards_teach_nothing_even_when_their_mean_is_inexact() {
        for std in [Std::TRL, Std::VERL, Std::UNDERSTAND_R1_ZERO, Std::OPENRLHF, Std::DEEPSEEKMATH] {
            let z = OutcomeAdvantage { scale: Scale::Group(std), ..Z };
            assert_eq!(z.of_batch(&[vec![Some(0.1); 3]]), [[0.0; 3]], "{std:?}");
        }
    }

    #[test]
    fn rewards_of_any_size_have_finite_z_scores() {
        let exact = OutcomeAdvantage { scale: Scale::Group(Std::DEEPSEEKMATH), ..Z };
        for (a, b) in
            [(0.0, 1e-200), (0.0, f64::from_bits(1)), (1e200, -1e200), (1e300, 0.0), (1e-170, 3e-170)]
        {
            let z = &exact.of_batch(&[vec![Some(a), Some(b)]])[0];
            let want = if f64::from_bits(1) == b { 1.5 } else { 1.0 + 1e-12 }; // half of the smallest number is no number
            assert!(z.iter().all(|z| z.is_finite() && z.abs() <= want), "{a} {b}: {z:?}");
            assert!(z[0] != z[1]);
        }
    }

    #[test]
    fn missing_rewards_do_not_move_the_baseline() {
        let with = Z.of_batch(&[vec![Some(1.0), None, Some(0.0), Some(0.0)]]);
        let without = Z.of_batch(&[vec![Some(1.0), Some(0.0), Some(0.0)]]);
        assert_eq!(with[0][1], 0.0);
        assert_eq!([with[0][0], with[0][2], with[0][3]], without[0][..]);
        assert_eq!(Z.of_batch(&[vec![None, Some(1.0)]]), [[0.0, 0.0]]);
    }

    #[test]
    fn leave_one_out_is_the_mean_of_the_others() {
        let rloo = OutcomeAdvantage { baseline: Baseline::LeaveOneOut, scale: Scale::None, clamp: None };
        let a = &rloo.of_batch(&[vec![Some(3.0), Some(1.0), Some(0.5)]])[0];
        for (a, want) in a.iter().zip([3.0 - 0.75, 1.0 - 1.75, 0.5 - 2.0]) {
            assert!((a - want).abs() < 1e-15);
        }
    }

    #[test]
    fn clamp_leaves_a_net_push_of_3_34_when_half_of_eight_are_right() {
        // [E14] (rewards 1,1,1,1,0,0,0,0): sum of clamped z-scores.
        let half: Vec<_> = (0..8).map(|i| Some(f64::from(i < 4))).collect();
        let clamped = OutcomeAdvantage { clamp: Some(-0.1), ..Z };
        let push: f64 = clamped.of_batch(&[half])[0].iter().sum();
        assert!((push - 3.34).abs() < 0.005, "{push}");
    }

    #[test]
    fn the_deviation_of_the_others_by_hand() {
        // Others of the first: 1, 0, 0 with deviation 1/sqrt 3 over n - 1; of the last three of one group: they agree.
        let nemo = OutcomeAdvantage {
            baseline: Baseline::LeaveOneOut,
            scale: Scale::Others(Std { ddof: 1, epsilon: 0.0 }),
            clamp: None,
        };
        let a = &nemo.of_batch(&[vec![Some(2.0), Some(1.0), None, Some(0.0), Some(0.0)]])[0];
        assert!((a[0] - (2.0 - 1.0 / 3.0) * 3f64.sqrt()).abs() < 1e-14 && a[2] == 0.0, "{a:?}");
        let one_wrong = &nemo.of_batch(&[vec![Some(1.0), Some(1.0), Some(1.0), Some(0.0)]])[0];
        assert_eq!(one_wrong[3], -1.0);
        assert!((one_wrong[0] - (1.0 / 3.0) * 3f64.sqrt()).abs() < 1e-14);
    }

    #[test]
    fn divisors_by_hand_and_none_where_nothing_is_compared() {
        use Baseline::{BatchMean, GroupMean, LeaveOneOut};
        let rewards = [vec![Some(1.0), Some(1.0)], vec![Some(3.0), None, Some(0.0)]];
        let plain = Std { ddof: 0, epsilon: 0.0 };
        // Of 1, 1, 3, 0 around their mean 1.25: squares of 0.0625, 0.0625, 3.0625, 1.5625.
        let batch = Some(1.1875f64.sqrt());
        let outcome = |baseline, scale| OutcomeAdvantage { baseline, scale, clamp: None };
        for (baseline, scale, want) in [
            (GroupMean, Scale::None, [None, Some(1.0)]),
            (LeaveOneOut, Scale::Others(plain), [None, Some(1.0)]),
            (BatchMean, Scale::None, [Some(1.0), Some(1.0)]),
            (GroupMean, Scale::Group(plain), [None, Some(1.5)]),
            // Its rewards agree: it differs from the batch, and has no deviation to be divided by.
            (BatchMean, Scale::Group(plain), [None, Some(1.5)]),
            (GroupMean, Scale::Batch(plain), [None, batch]),
            (BatchMean, Scale::Batch(plain), [batch, batch]),
        ] {
            let divisors = outcome(baseline, scale).divisors(&rewards);
            for (found, want) in divisors.iter().zip(want) {
                let near = found.zip(want).is_some_and(|(a, b)| (a - b).abs() < 1e-15);
                assert!(near || *found == want, "{baseline:?} {scale:?}: {divisors:?}");
            }
            let advantages = outcome(baseline, scale).of_batch(&rewards);
            assert!(advantages.iter().flatten().all(|a| a.is_finite()), "{advantages:?}");
            assert_eq!(want[0].is_none(), advantages[0] == [0.0; 2], "{baseline:?} {scale:?}");
        }
        assert_eq!(outcome(BatchMean, Scale::None).divisors(&[vec![Some(2.0)], vec![Some(2.0)]]), [None; 2]);
    }

    #[test]
    fn batch_statistics_span_groups() {
        let batch = OutcomeAdvantage {
            baseline: Baseline::BatchMean,
            scale: Scale::Batch(Std { ddof: 0, epsilon: 0.0 }),
            clamp: None,
        };
        let a = batch.of_batch(&[vec![Some(1.0), Some(1.0)], vec![Some(0.0), Some(0.0)]]);
        assert_eq!(a, [[1.0, 1.0], [-1.0, -1.0]]);
    }
}
