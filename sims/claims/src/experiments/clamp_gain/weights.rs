//! The arms, and the expected weight of a prompt under each.

use grpo_lambda::advantage::{Baseline, ClampPart, OutcomeAdvantage, Scale, Std};

use crate::training::GROUP;

/// The paper's clamp.
const CLAMP: f64 = -0.1;

/// A choice among the parts of the clamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arm {
    pub(crate) name: &'static str,
    part: ClampPart,
    /// True if the advantages of the part are multiplied by the clamp's weight over GRPO's at the prompt's true success rate, which only a
    /// table or a small network knows: its expected update is that of the clamp, without the clamp's contrast within a group.
    with_weights_of_clamp: bool,
}

const fn arm(name: &'static str, part: ClampPart) -> Arm {
    Arm { name, part, with_weights_of_clamp: false }
}

/// The arms; the first is GRPO.
pub(crate) const ARMS: [Arm; 5] = [
    arm("none (GRPO)", ClampPart::None),
    arm("re-weighting only", ClampPart::Reweighting),
    arm("offset only", ClampPart::Offset),
    arm("both (the clamp)", ClampPart::Both),
    Arm { name: "the clamp's weights", part: ClampPart::None, with_weights_of_clamp: true },
];
/// The places of the arms.
pub(crate) const REWEIGHTING: usize = 1;
pub(crate) const OFFSET: usize = 2;
pub(crate) const CLAMPED: usize = 3;
pub(crate) const WEIGHTS: usize = 4;

/// Advantages of a group whose first `right` responses are right.
fn advantages(clamp: Option<f64>, right: usize) -> Vec<f64> {
    let outcome = OutcomeAdvantage { baseline: Baseline::GroupMean, scale: Scale::Group(Std::TRL), clamp };
    let rewards = (0..GROUP).map(|i| Some(f64::from(u8::from(i < right)))).collect();
    outcome.of_batch(&[rewards]).remove(0)
}

/// The advantages of a wrong and of a right response in a group, by the number of right ones; 0 if all agree.
type ByRight = [[f64; 2]; GROUP + 1];

/// An arm, ready for many groups.
pub(super) struct Prepared {
    own: ByRight,
    /// The clamp's, where the arm has its weights.
    clamp: Option<ByRight>,
}

impl Arm {
    pub(super) fn prepared(self) -> Prepared {
        let of_part = |part: ClampPart| {
            std::array::from_fn(|right| {
                let all = part.of_group(&advantages(None, right), &advantages(Some(CLAMP), right));
                [all[GROUP - 1], all[0]]
            })
        };
        let clamp = self.with_weights_of_clamp.then(|| of_part(ClampPart::Both));
        Prepared { own: of_part(self.part), clamp }
    }
}

impl Prepared {
    /// The advantages of a wrong and of a right response in a group with `right` right ones, to a prompt of success rate `p`.
    pub(super) fn advantages(&self, right: usize, p: f64) -> [f64; 2] {
        let factor = self.clamp.as_ref().map_or(1.0, |clamp| weight(clamp, p) / weight(&self.own, p));
        self.own[right].map(|advantage| factor * advantage)
    }

    /// The multiple of `∇p` that is the expected update of a group at success rate `p`, per response.
    pub(super) fn weight(&self, p: f64) -> f64 {
        weight(self.clamp.as_ref().unwrap_or(&self.own), p)
    }
}

/// The multiple of `∇p` by Stein's identity, which divides by nothing:
///
/// ```text
/// w(p) = (G-1)/G E[β_(k+1)] + E[α_(k+1) - α_k],    k of Bin(G-2, p) and of Bin(G-1, p)
/// ```
fn weight(advantages: &ByRight, p: f64) -> f64 {
    let n = GROUP as f64;
    let offset = |k: usize| {
        let [wrong, right] = advantages[k];
        (k as f64 * right + (n - k as f64) * wrong) / n
    };
    let contrast = binomial(GROUP - 2, p, |k| advantages[k + 1][1] - advantages[k + 1][0]);
    (n - 1.0) / n * contrast + binomial(GROUP - 1, p, |k| offset(k + 1) - offset(k))
}

/// `E[f(k)]` for `k` of Bin(n, p), by `n` mixtures of neighbours.
fn binomial(n: usize, p: f64, f: impl Fn(usize) -> f64) -> f64 {
    let mut values: Vec<f64> = (0..=n).map(f).collect();
    for left in (0..n).rev() {
        (0..=left).for_each(|k| values[k] += p * (values[k + 1] - values[k]));
    }
    values[0]
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
                let (ours, want) = (arm.prepared().advantages(right, 0.3), advantages(clamp, right));
                assert_eq!(ours, [want[GROUP - 1], want[0]], "{right}");
            }
            // The offset is what the group's advantages sum to.
            let sum = |arm: Arm| {
                let [wrong, own] = arm.prepared().advantages(right, 0.3);
                wrong * (GROUP - right) as f64 + own * right as f64
            };
            assert!(sum(ARMS[1]).abs() < 1e-12 && (sum(ARMS[2]) - sum(ARMS[3])).abs() < 1e-12);
        }
    }

    /// The sum over groups of the module's page, which divides by p (1 - p); the advantages of the last arm are the clamp's weights apart.
    #[test]
    fn weights_are_the_sum_over_groups() {
        for arm in ARMS {
            let prepared = arm.prepared();
            for p in [0.01, 0.3, 0.5, 0.9, 0.99] {
                let (n, mut chance, mut sum) = (GROUP as f64, (1.0f64 - p).powi(GROUP as i32), 0.0);
                for right in 0..=GROUP {
                    let [wrong, own] = prepared.advantages(right, p);
                    let k = right as f64;
                    sum += chance * (own * k / p - wrong * (n - k) / (1.0 - p)) / n;
                    chance *= p / (1.0 - p) * (n - k) / (k + 1.0);
                }
                assert!((prepared.weight(p) - sum).abs() < 1e-12, "{} {p}: {sum}", arm.name);
            }
            let ends = [0.0, 1.0].map(|p| prepared.weight(p));
            assert!(ends.iter().all(|w| w.is_finite()), "{}: {ends:?}", arm.name);
        }
        assert_eq!(ARMS[WEIGHTS].prepared().weight(0.9), ARMS[CLAMPED].prepared().weight(0.9));
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
                assert!(
                    (update[1] - arm.prepared().weight(p) * gradient[1]).abs() < 1e-12,
                    "{p} {}",
                    arm.name
                );
            }
        }
    }
}
