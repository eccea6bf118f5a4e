//! [`Arm`]: one of the compared settings; [`Advantages`]: a method whose clamp is taken apart.

use grpo_lambda::advantage::{Baseline, ClampPart, OutcomeAdvantage, Scale, Std};
use grpo_lambda::group::{Group, Response};
use grpo_lambda::methods::{self, Configured, Coupling, Credit, Loss, Method};
use grpo_lambda::settings::SettingError;
use serde::Deserialize;

use super::force::Weighing;
use super::lab::Optimiser;

/// An arm of a protocol: one value of each of its fields that list several.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arm {
    pub method: String,
    #[serde(default)]
    pub settings: String,
    #[serde(default)]
    pub optimiser: Optimiser,
    /// Settings of the method that are columns as well.
    pub lambda: Option<f64>,
    pub reduction: Option<Weighing>,
    /// The part of a clamp at `clamp` that is on, in place of the method's own.
    pub part: Option<Part>,
    pub clamp: Option<f64>,
    /// Its rate, where the protocol chooses none; and the rate that it is a multiple of.
    pub rate: Option<f64>,
    pub reference_rate: Option<f64>,
}

impl Arm {
    /// Its name in results.
    pub(crate) fn name(&self) -> String {
        format!("{} {}", self.method, self.settings).trim().to_owned()
    }

    pub(crate) fn configured(&self) -> Result<Configured, SettingError> {
        let words = [
            Some(self.settings.clone()),
            self.lambda.map(|lambda| format!("lambda={lambda}")),
            self.reduction.map(|weighing| format!("reduction={}", weighing.names().1)),
            self.part.map(|_| "clamp=none".to_owned()),
        ];
        methods::parse(&self.method, &words.into_iter().flatten().collect::<Vec<_>>().join(" "))
    }

    /// The method with the part of the clamp that is on; none where the method keeps its own advantages.
    pub(crate) fn advantages(&self) -> Result<Option<Advantages>, SettingError> {
        let Some((part, clamp)) = self.part.zip(self.clamp) else { return Ok(None) };
        let method = self.configured()?.method;
        Ok(Some(Advantages { method, clamp, above: part.above, part: part.part }))
    }
}

/// A part of a clamp, from below or from above; in a protocol by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Part {
    part: ClampPart,
    above: bool,
}

/// The name of a clamp from above.
const ABOVE: &str = "upper clamp";

impl Part {
    pub(crate) fn name(self) -> &'static str {
        if self.above { ABOVE } else { self.part.name() }
    }
}

impl TryFrom<String> for Part {
    type Error = String;

    fn try_from(name: String) -> Result<Part, String> {
        let below = ClampPart::ALL.map(|part| Part { part, above: false });
        let mut all = below.into_iter().chain([Part { part: ClampPart::Both, above: true }]);
        all.find(|part| part.name() == name).ok_or_else(|| format!("{name}: no such part of a clamp"))
    }
}

/// The largest group over whose random rewards a mean is taken: a million results.
pub(super) const MOST_RANDOM_REWARDS: usize = 20;

/// A method with z-scores of which parts of a clamp are on, in place of its own advantages.
#[derive(Debug)]
pub(crate) struct Advantages {
    /// The trace, the surrogate and the reduction.
    pub method: Box<dyn Method>,
    /// Bound of the advantages, from below unless `above`.
    pub clamp: f64,
    pub above: bool,
    pub part: ClampPart,
}

impl Advantages {
    /// The advantage of each response of a group with these rewards; 0 without a reward.
    pub(crate) fn of_group(&self, rewards: &[Option<f64>]) -> Vec<f64> {
        let z = |clamp| {
            let scale = Scale::Group(Std::TRL);
            let outcome = OutcomeAdvantage { baseline: Baseline::GroupMean, scale, clamp };
            let all = outcome.of_batch(&[rewards.to_vec()]).remove(0);
            all.into_iter().zip(rewards).filter_map(|(a, r)| r.map(|_| a)).collect::<Vec<f64>>()
        };
        let plain = z(None);
        let bounded = match self.above {
            true => plain.iter().map(|a| a.min(self.clamp)).collect(),
            false => z(Some(self.clamp)),
        };
        let mut known = self.part.of_group(&plain, &bounded).into_iter();
        rewards.iter().map(|r| r.and_then(|_| known.next()).unwrap_or(0.0)).collect()
    }

    /// The mean advantage of a response of a group of `group`, at most 20, whose rewards are random, 0 or 1 with equal probability.
    pub(crate) fn mean_of_random_rewards(&self, group: usize) -> f64 {
        let all = 1u64 << group;
        let mean_advantage = |tosses: u64| {
            let rewards: Vec<_> = (0..group).map(|i| Some(f64::from((tosses >> i & 1) as u8))).collect();
            self.of_group(&rewards).iter().sum::<f64>() / group as f64
        };
        (0..all).map(mean_advantage).sum::<f64>() / all as f64
    }
}

impl Method for Advantages {
    fn credit(&self, batch: &[Group]) -> Vec<Credit> {
        let rewards = |g: &Group| g.responses.iter().map(|r| r.reward).collect::<Vec<_>>();
        let spread = |(a, r): (f64, &Response)| vec![a; r.len()];
        let advantages = |g: &Group| {
            self.of_group(&rewards(g)).into_iter().zip(&g.responses).map(spread).collect::<Vec<_>>()
        };
        self.method.credit_given(batch, batch.iter().flat_map(advantages).collect())
    }

    fn loss_around(&self, response: &Response, credit: &Credit, logps: &[f64], frozen: &[f64]) -> Loss {
        self.method.loss_around(response, credit, logps, frozen)
    }

    fn coupling(&self) -> Coupling {
        self.method.coupling()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use grpo_lambda::group::ExtraInputs;
    use grpo_lambda::methods;

    fn arm(part: ClampPart, name: &str, settings: &str) -> Advantages {
        let method = methods::parse(name, settings).expect("a method").method;
        Advantages { method, clamp: -0.1, above: false, part }
    }

    fn batch() -> Vec<Group> {
        let response = |(i, reward): (usize, Option<f64>)| Response {
            tokens: vec![1; 2 + i],
            old_logps: vec![-0.5; 2 + i],
            ref_logps: None,
            reward,
            truncated: false,
            extra_inputs: ExtraInputs::default(),
        };
        let group = |rewards: [Option<f64>; 4]| Group {
            responses: rewards.into_iter().enumerate().map(response).collect(),
        };
        vec![
            group([Some(1.0), Some(0.0), None, Some(0.0)]),
            group([Some(1.0), Some(1.0), Some(0.0), Some(1.0)]),
        ]
    }

    #[test]
    fn without_parts_and_with_both_it_is_the_method_with_its_own_setting() {
        for name in ["grpo", "grpo_lambda"] {
            for (part, clamp) in [(ClampPart::None, "clamp=none"), (ClampPart::Both, "clamp=-0.1")] {
                let own = methods::parse(name, clamp).expect("a method").method;
                assert_eq!(arm(part, name, "clamp=none").credit(&batch()), own.credit(&batch()), "{name}");
            }
        }
    }

    #[test]
    fn the_mean_advantage_of_random_rewards_is_that_of_the_paper_and_0_without_the_offset() {
        let mean = |part| arm(part, "grpo", "").mean_of_random_rewards(8);
        assert!((mean(ClampPart::Both) - 0.384).abs() < 5e-4, "{}", mean(ClampPart::Both));
        assert!((mean(ClampPart::Offset) - mean(ClampPart::Both)).abs() < 1e-12);
        // Negative advantages alone cost what positive ones alone pay.
        let alone = |above| {
            Advantages { clamp: 0.0, above, ..arm(ClampPart::Both, "grpo", "") }.mean_of_random_rewards(8)
        };
        assert!(alone(false) > 0.3 && (alone(true) + alone(false)).abs() < 1e-12, "{}", alone(true));
        assert!(mean(ClampPart::None).abs() < 1e-12 && mean(ClampPart::Reweighting).abs() < 1e-12);
    }
}
