//! From the rewards of a group to the advantage of each token.

use crate::trace::scan;

/// How a standard deviation is taken and kept away from zero: `std = sqrt(sum (r - mean)^2 / (n - ddof)) + epsilon`.
///
/// Every public implementation chooses differently; the presets are theirs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Std {
    /// Delta degrees of freedom: 1 (Bessel, `torch.std`) or 0.
    pub ddof: u8,
    /// Added to the standard deviation.
    pub epsilon: f64,
}

impl Std {
    /// Hugging Face TRL: ddof 1, 1e-4.
    pub const TRL: Std = Std { ddof: 1, epsilon: 1e-4 };
    /// verl (and TEMPO): ddof 1, 1e-6.
    pub const VERL: Std = Std { ddof: 1, epsilon: 1e-6 };
    /// understand-r1-zero: ddof 1, 1e-8.
    pub const UNDERSTAND_R1_ZERO: Std = Std { ddof: 1, epsilon: 1e-8 };
    /// OpenRLHF's `group_norm`: ddof 1, 1e-9.
    pub const OPENRLHF: Std = Std { ddof: 1, epsilon: 1e-9 };
    /// DeepSeekMath, as printed: no epsilon. The text does not say which ddof; 0, the plain definition of std, is our choice.
    pub const DEEPSEEKMATH: Std = Std { ddof: 0, epsilon: 0.0 };

    /// The presets by configuration name.
    pub const PRESETS: [(&'static str, Std); 5] = [
        ("trl", Std::TRL),
        ("verl", Std::VERL),
        ("understand_r1_zero", Std::UNDERSTAND_R1_ZERO),
        ("openrlhf", Std::OPENRLHF),
        ("deepseekmath", Std::DEEPSEEKMATH),
    ];

    /// The divisor for these values, not all equal. In two passes: the one-pass form `E[x^2] - E[x]^2` loses all digits when
    /// rewards are close to each other. In units of the largest deviation: the square of 1e-200 would be 0, and that of 1e200
    /// infinite.
    fn divisor(self, values: &[f64]) -> f64 {
        let mean = mean(values);
        let largest = values.iter().fold(0.0, |m, r| f64::max(m, (r - mean).abs()));
        let squares: f64 = values.iter().map(|r| ((r - mean) / largest).powi(2)).sum();
        largest * (squares / (values.len() as f64 - f64::from(self.ddof))).sqrt() + self.epsilon
    }
}

/// What is subtracted from a reward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Baseline {
    /// The group's mean reward (GRPO).
    GroupMean,
    /// The mean reward of the *other* responses of the group (RLOO): `g/(g-1)` times the centred reward.
    LeaveOneOut,
    /// The mean reward of the whole batch (REINFORCE++).
    BatchMean,
}

/// What the difference is divided by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scale {
    /// Nothing (Dr. GRPO, RLOO).
    None,
    /// The group's standard deviation: the z-score of GRPO, the paper's `A_NAE`.
    Group(
        /// How it is taken.
        Std,
    ),
    /// The standard deviation of all rewards of the batch (TRL's `scale_rewards="batch"`).
    Batch(
        /// How it is taken.
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
/// use grpo_lambda::advantage::{Baseline, Outcome, Scale, Std};
/// let z = Outcome { baseline: Baseline::GroupMean, scale: Scale::Group(Std::TRL), clamp: None };
/// let a = z.of_batch(&[vec![Some(1.0), Some(0.0), Some(0.0), None]]);
/// assert!((a[0][0] - (2.0 / 3.0) / (1.0 / 3f64.sqrt() + 1e-4)).abs() < 1e-15);
/// assert_eq!(a[0][3], 0.0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// What is subtracted.
    pub baseline: Baseline,
    /// What the difference is divided by.
    pub scale: Scale,
    /// Lower bound on the advantage; the paper uses -0.1. It destroys the zero sum of a group: every mixed group then
    /// pushes likelihoods up on balance, and prompts are re-weighted (erratum E14).
    pub clamp: Option<f64>,
}

impl Outcome {
    /// Advantages of every response of every group. `rewards[g][i]` is `None` for a response that could not be graded.
    pub fn of_batch(&self, rewards: &[Vec<Option<f64>>]) -> Vec<Vec<f64>> {
        let all: Vec<f64> = rewards.iter().flatten().flatten().copied().collect();
        rewards.iter().map(|group| self.of_group(group, &all)).collect()
    }

    /// What the centred rewards of each group are divided by; `None` where there is nothing to compare and the advantages are 0.
    pub fn divisors(&self, rewards: &[Vec<Option<f64>>]) -> Vec<Option<f64>> {
        let all: Vec<f64> = rewards.iter().flatten().flatten().copied().collect();
        let of_group = |group: &Vec<Option<f64>>| {
            let known: Vec<f64> = group.iter().flatten().copied().collect();
            let compared = if self.baseline == Baseline::BatchMean { &all } else { &known };
            if all_equal(compared) { None } else { self.divisor(&known, &all) }
        };
        rewards.iter().map(of_group).collect()
    }

    fn divisor(&self, known: &[f64], batch: &[f64]) -> Option<f64> {
        match self.scale {
            Scale::None => Some(1.0),
            // Only reached with a batch baseline: a group of equal rewards has no spread of its own to divide by.
            Scale::Group(_) if all_equal(known) => None,
            Scale::Group(std) => Some(std.divisor(known)),
            Scale::Batch(std) => Some(std.divisor(batch)),
        }
    }

    fn of_group(&self, rewards: &[Option<f64>], batch: &[f64]) -> Vec<f64> {
        let known: Vec<f64> = rewards.iter().flatten().copied().collect();
        let compared = match self.baseline {
            Baseline::GroupMean | Baseline::LeaveOneOut => &known,
            Baseline::BatchMean => batch,
        };
        if all_equal(compared) {
            return vec![0.0; rewards.len()];
        }
        let n = known.len() as f64;
        let centre = mean(compared);
        let stretch = if self.baseline == Baseline::LeaveOneOut { n / (n - 1.0) } else { 1.0 };
        let Some(divisor) = self.divisor(&known, batch) else { return vec![0.0; rewards.len()] };
        let floor = self.clamp.unwrap_or(f64::NEG_INFINITY);
        rewards.iter().map(|r| r.map_or(0.0, |r| (stretch * (r - centre) / divisor).max(floor))).collect()
    }
}

/// Whether no two values differ (also for none or one).
pub fn all_equal(values: &[f64]) -> bool {
    values.windows(2).all(|w| w[0] == w[1])
}

/// The mean, corrected once by the mean of what it leaves over, so that close rewards keep their differences.
fn mean(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    mean + values.iter().map(|r| r - mean).sum::<f64>() / n
}

/// How an outcome advantage becomes the `delta_t` of a response's tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delta {
    /// `delta_t = A` at every token: what GRPO-lambda does (and GRPO).
    Constant,
    /// `delta_t = 0` but for the last token, which gets `A`: the TD errors of a constant critic `V = V(s_0)` at
    /// `gamma = 1`. With a [`Recent`](crate::trace::Recent) trace it is GAE, `A_t = lambda^(T-1-t) A`.
    Terminal,
}

impl Delta {
    /// The `delta_t` of a response of `len` tokens.
    ///
    /// ```
    /// use grpo_lambda::advantage::Delta;
    /// assert_eq!(Delta::Terminal.spread(2.0, 3), [0.0, 0.0, 2.0]);
    /// ```
    pub fn spread(self, advantage: f64, len: usize) -> Vec<f64> {
        match self {
            Delta::Constant => vec![advantage; len],
            Delta::Terminal => {
                let mut delta = vec![0.0; len];
                delta[len - 1] = advantage;
                delta
            }
        }
    }
}

/// TD errors `delta_t = r_t + gamma V(s_{t+1}) - V(s_t)`, with `V = 0` after the last token.
///
/// `rewards` and `values` have one entry per token.
///
/// # Panics
/// If lengths differ.
pub fn td_errors(rewards: &[f64], values: &[f64], gamma: f64) -> Vec<f64> {
    assert_eq!(rewards.len(), values.len());
    let next = |t: usize| values.get(t + 1).copied().unwrap_or(0.0);
    (0..rewards.len()).map(|t| rewards[t] + gamma * next(t) - values[t]).collect()
}

/// Generalised advantage estimation: `A_t = delta_t + gamma lambda A_{t+1}`.
///
/// With the exact critic it is unbiased at every `lambda`; with a wrong one its bias vanishes at `lambda = 1`.
///
/// Source: Schulman et al. 2016; the paper's text prints only its first two terms (erratum E19).
///
/// ```
/// use grpo_lambda::advantage::gae;
/// // constant critic, gamma = 1: A_t = lambda^(T-1-t) (r - V0)
/// assert_eq!(gae(&[0.0, 0.0, 1.0], &[0.5; 3], 1.0, 0.5), [0.125, 0.25, 0.5]);
/// ```
///
/// # Panics
/// If lengths differ.
pub fn gae(rewards: &[f64], values: &[f64], gamma: f64, lambda: f64) -> Vec<f64> {
    let mut advantages = td_errors(rewards, values, gamma);
    scan::decayed_suffix(gamma * lambda, &mut advantages);
    advantages
}

#[cfg(test)]
mod tests {
    use super::*;

    const Z: Outcome = Outcome { baseline: Baseline::GroupMean, scale: Scale::Group(Std::TRL), clamp: None };

    #[test]
    fn nearly_equal_rewards_keep_their_digits() {
        // B26: seven rewards of 0.35 and one next to it; the one-pass variance is negative or noise here.
        let mut rewards = vec![Some(0.35); 7];
        rewards.push(Some(0.35 + 1e-9));
        let exact = Outcome { scale: Scale::Group(Std { ddof: 1, epsilon: 0.0 }), ..Z };
        let a = &exact.of_batch(&[rewards])[0];
        assert!((a[7] - 7.0 / 8f64.sqrt()).abs() < 1e-6, "{a:?}");
        // The mean itself is only known to half an ulp of 0.35, which is 1.6e-7 of this group's std.
        assert!((a.iter().sum::<f64>()).abs() < 8.0 * 1.6e-7);
    }

    #[test]
    fn equal_rewards_teach_nothing_even_when_their_mean_is_inexact() {
        for preset in Std::PRESETS {
            let z = Outcome { scale: Scale::Group(preset.1), ..Z };
            assert_eq!(z.of_batch(&[vec![Some(0.1); 3]]), [[0.0; 3]], "{}", preset.0);
        }
    }

    #[test]
    fn rewards_of_any_size_have_finite_z_scores() {
        let exact = Outcome { scale: Scale::Group(Std::DEEPSEEKMATH), ..Z };
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
        let rloo = Outcome { baseline: Baseline::LeaveOneOut, scale: Scale::None, clamp: None };
        let a = &rloo.of_batch(&[vec![Some(3.0), Some(1.0), Some(0.5)]])[0];
        for (a, want) in a.iter().zip([3.0 - 0.75, 1.0 - 1.75, 0.5 - 2.0]) {
            assert!((a - want).abs() < 1e-15);
        }
    }

    #[test]
    fn clamp_leaves_a_net_push_of_3_34_when_half_of_eight_are_right() {
        // [E14] (rewards 1,1,1,1,0,0,0,0): sum of clamped z-scores.
        let half: Vec<_> = (0..8).map(|i| Some(f64::from(i < 4))).collect();
        let clamped = Outcome { clamp: Some(-0.1), ..Z };
        let push: f64 = clamped.of_batch(&[half])[0].iter().sum();
        assert!((push - 3.34).abs() < 0.005, "{push}");
    }

    #[test]
    fn batch_statistics_span_groups() {
        let batch = Outcome {
            baseline: Baseline::BatchMean,
            scale: Scale::Batch(Std { ddof: 0, epsilon: 0.0 }),
            clamp: None,
        };
        let a = batch.of_batch(&[vec![Some(1.0), Some(1.0)], vec![Some(0.0), Some(0.0)]]);
        assert_eq!(a, [[1.0, 1.0], [-1.0, -1.0]]);
    }
}
