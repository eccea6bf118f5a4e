use super::Assignment;
use crate::advantage::{Baseline, OutcomeAdvantage, Scale, all_equal};
use crate::equation::{Part, number};
use crate::group::Group;
use crate::method::Coupling;

/// The factor of a batch by which [`GroupPolicyGradient`] stretches its advantages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stretch {
    /// Responses over responses whose reward is not 0 (at least 1): verl.
    Rewarded,
    /// Responses over responses in groups whose rewards differ: the paper.
    Mixed,
    /// No stretch.
    One,
}

/// Centred group rewards, stretched to make up for the responses that teach nothing (GPG).
///
/// ```text
/// A_i = alpha (r_i - mean r) / f
/// ```
/// The paper counts the responses of groups whose rewards agree, verl the rewards of 0. Responses without a reward are left out of all counts and get 0.
///
/// Source: GPG, arXiv 2504.02546; verl `gpg`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GroupPolicyGradient {
    /// The factor `alpha`.
    pub stretch: Stretch,
    /// `f`, positive.
    pub divisor: f64,
}

impl GroupPolicyGradient {
    fn alpha(&self, rewards: &[Vec<Option<f64>>]) -> f64 {
        let known: Vec<Vec<f64>> = rewards.iter().map(|g| g.iter().flatten().copied().collect()).collect();
        let all: usize = known.iter().map(Vec::len).sum();
        let counted: usize = match self.stretch {
            Stretch::Rewarded => known.iter().flatten().filter(|r| **r != 0.0).count().max(1),
            Stretch::Mixed => known.iter().filter(|g| !all_equal(g)).map(Vec::len).sum::<usize>().max(1),
            Stretch::One => all.max(1),
        };
        all as f64 / counted as f64
    }
}

impl Assignment for GroupPolicyGradient {
    fn advantages(&self, batch: &[Group], _: &[bool]) -> Vec<Vec<f64>> {
        let rewards: Vec<Vec<Option<f64>>> = batch.iter().map(Group::rewards).collect();
        let factor = self.alpha(&rewards) / self.divisor;
        let centred = OutcomeAdvantage { baseline: Baseline::GroupMean, scale: Scale::None, clamp: None };
        let outcomes = centred.of_batch(&rewards).into_iter().flatten();
        let responses = batch.iter().flat_map(|g| &g.responses);
        responses.zip(outcomes).map(|(r, a)| vec![factor * a; r.len()]).collect()
    }

    fn equation(&self, token: &str) -> Vec<Part> {
        let alpha = match self.stretch {
            Stretch::Rewarded => "alpha = responses / responses whose reward is not 0",
            Stretch::Mixed => "alpha = responses / responses in groups whose rewards differ",
            Stretch::One => "alpha = 1",
        };
        let credit = format!(
            "{token} = alpha (r_i - b_i) / {}, b_i the mean reward of its group, {alpha}; 0 where all rewards agree",
            number(self.divisor)
        );
        vec![("credit", credit)]
    }

    fn coupling(&self) -> Coupling {
        Coupling::Rewards
    }

    fn reads_tokens(&self) -> bool {
        false
    }
}
