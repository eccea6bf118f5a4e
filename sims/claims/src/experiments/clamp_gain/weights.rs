//! The four arms, and the expected weight of a prompt under each.

use grpo_lambda::advantage::{Baseline, ClampPart, OutcomeAdvantage, Scale, Std};

use crate::training::GROUP;

/// The paper's clamp.
const CLAMP: f64 = -0.1;

/// A choice among the parts of the clamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arm {
    pub(crate) name: &'static str,
    part: ClampPart,
}

/// The arms; the first is GRPO, the last the clamp.
pub(crate) const ARMS: [Arm; 4] = [
    Arm { name: "none (GRPO)", part: ClampPart::None },
    Arm { name: "re-weighting only", part: ClampPart::Reweighting },
    Arm { name: "offset only", part: ClampPart::Offset },
    Arm { name: "both (the clamp)", part: ClampPart::Both },
];

/// Advantages of a group whose first `right` responses are right.
fn advantages(clamp: Option<f64>, right: usize) -> Vec<f64> {
    let outcome = OutcomeAdvantage { baseline: Baseline::GroupMean, scale: Scale::Group(Std::TRL), clamp };
    let rewards = (0..GROUP).map(|i| Some(f64::from(u8::from(i < right)))).collect();
    outcome.of_batch(&[rewards]).remove(0)
}

impl Arm {
    /// The advantages of a wrong and of a right response in a group with `right` right ones; 0 if all agree.
    pub(super) fn advantages(self, right: usize) -> [f64; 2] {
        let all = self.part.of_group(&advantages(None, right), &advantages(Some(CLAMP), right));
        [all[GROUP - 1], all[0]]
    }

    /// The multiple of `∇p` that is the expected update of a group at success rate `p`, per response.
    pub(super) fn weight(self, p: f64) -> f64 {
        let mut chance = (1.0 - p).powi(GROUP as i32);
        let mut sum = 0.0;
        for right in 0..=GROUP {
            let [wrong, own] = self.advantages(right);
            let (k, n) = (right as f64, GROUP as f64);
            sum += chance * (own * k / p - wrong * (n - k) / (1.0 - p)) / n;
            chance *= p / (1.0 - p) * (n - k) / (k + 1.0);
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use grpo_lambda::methods;
    use grpo_lambda_mdp::expected::{Situation, implied_mean};
    use grpo_lambda_mdp::{Oracle, Rules, Tabular};

    #[test]
    fn both_parts_together_are_the_clamp_and_none_is_grpo() {
        for right in 1..GROUP {
            for (arm, clamp) in [(ARMS[0], None), (ARMS[3], Some(CLAMP))] {
                let (ours, want) = (arm.advantages(right), advantages(clamp, right));
                assert_eq!(ours, [want[GROUP - 1], want[0]], "{right}");
            }
            // The offset is what the group's advantages sum to.
            let sum = |arm: Arm| {
                let [wrong, own] = arm.advantages(right);
                wrong * (GROUP - right) as f64 + own * right as f64
            };
            assert!(sum(ARMS[1]).abs() < 1e-12 && (sum(ARMS[2]) - sum(ARMS[3])).abs() < 1e-12);
        }
    }

    #[test]
    fn weights_are_those_of_the_oracle_on_a_two_armed_prompt() {
        let names = ["wrong", "right", "EOS"].map(String::from);
        let tree = Rules::new(names, 1).build(|_| vec![0, 1], |y, _| f64::from(y[0])).unwrap();
        for p in [0.05, 0.3, 0.8, 0.95] {
            let policy = Tabular::from_weights(&tree, |_, e| if tree.token(e) == 1 { p } else { 1.0 - p });
            let gradient = Oracle::new(&tree, &policy).grad_j();
            for (arm, settings) in [(ARMS[0], "clamp=none"), (ARMS[3], "clamp=-0.1")] {
                let method = methods::parse("grpo", settings).unwrap().method;
                let update =
                    implied_mean(method.as_ref(), &Situation::on_policy(&tree, &policy, GROUP)).unwrap();
                assert!((update[1] - arm.weight(p) * gradient[1]).abs() < 1e-12, "{p} {}", arm.name);
            }
        }
    }
}
