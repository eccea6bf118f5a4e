//! The direction of the expected update against the horizon, under the paper's settings.

use grpo_lambda::advantage::{Baseline, OutcomeAdvantage, Scale, Std};

use super::lumped::Lumped;

/// Group size of the paper's Table 2.
pub const GROUP: usize = 8;
/// λ of the paper's best variant.
const LAMBDA: f64 = 0.99;
/// The paper's clamp.
pub const CLAMP: f64 = -0.1;
/// The horizons of the sweep.
pub const HORIZONS: [usize; 17] = [2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128];

/// GRPO with or without the trace and the clamp.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arm {
    pub name: &'static str,
    pub trace: bool,
    pub clamp: bool,
}

/// The four arms; the last one is the paper's algorithm.
pub const ARMS: [Arm; 4] = [
    Arm { name: "GRPO", trace: false, clamp: false },
    Arm { name: "clamp only", trace: false, clamp: true },
    Arm { name: "trace only", trace: true, clamp: false },
    Arm { name: "GRPO-λ (trace and clamp)", trace: true, clamp: true },
];

impl Arm {
    /// Method and settings as registered: what the tests compare with.
    #[cfg(test)]
    fn registered(self) -> (&'static str, String) {
        let clamp = if self.clamp { CLAMP.to_string() } else { "none".into() };
        match self.trace {
            false => ("grpo", format!("reduction=token_mean clamp={clamp}")),
            true => ("grpo_lambda", format!("lambda={LAMBDA} clamp={clamp}")),
        }
    }
}

/// An arm at a horizon.
#[derive(Clone, Debug)]
pub struct Point {
    /// The chances of EOS: those of the zoo, or smaller ones.
    pub policy: &'static str,
    pub horizon: usize,
    pub mean_length: f64,
    pub arm: &'static str,
    /// With ∇J.
    pub cosine: f64,
    /// With `∇E[T]`.
    pub cosine_length: f64,
}

/// Names of the policies.
pub const POLICIES: [&str; 2] = ["as in the zoo", "EOS a tenth as likely"];
/// The factors of their chances of EOS.
const EOS_SCALES: [f64; 2] = [1.0, 0.1];

/// Every arm at every horizon, exactly.
pub fn sweep() -> Vec<Point> {
    let of_policy = |(policy, scale): (&'static str, f64)| {
        HORIZONS.into_iter().flat_map(move |horizon| at(policy, &Lumped::new(horizon, scale), horizon))
    };
    POLICIES.into_iter().zip(EOS_SCALES).flat_map(of_policy).collect()
}

/// Every arm at one horizon of at least 2 under one of [`POLICIES`], exactly.
///
/// # Panics
/// If there is no such policy.
pub fn at_horizon(policy: usize, horizon: usize) -> Vec<Point> {
    at(POLICIES[policy], &Lumped::new(horizon, EOS_SCALES[policy]), horizon)
}

fn at(policy: &'static str, task: &Lumped, horizon: usize) -> Vec<Point> {
    let reward = task.credit(|r, _, _| r as f64);
    let length = task.credit(|_, t, _| t as f64);
    let others = task.others(GROUP - 1);
    let point = |arm: Arm| {
        let scale = Scale::Group(Std::TRL);
        let clamp = arm.clamp.then_some(CLAMP);
        let outcome = OutcomeAdvantage { baseline: Baseline::GroupMean, scale, clamp };
        let weights = task.token_mean_weights(&outcome, &others);
        let credit = task.credit(|r, t, k| weights[r][t] * if arm.trace { column_sum(t - k) } else { 1.0 });
        Point {
            policy,
            horizon,
            mean_length: task.mean_length(),
            arm: arm.name,
            cosine: task.cosine(&credit, &reward),
            cosine_length: task.cosine(&credit, &length),
        }
    };
    ARMS.into_iter().map(point).collect()
}

/// `c_k(T)`, by the tokens left: a geometric sum.
fn column_sum(left: usize) -> f64 {
    (1.0 - LAMBDA.powi(left as i32)) / (1.0 - LAMBDA)
}

#[cfg(test)]
mod tests {
    use super::*;
    use grpo_lambda::methods;
    use grpo_lambda_mdp::Oracle;
    use grpo_lambda_mdp::expected::{Situation, implied_mean};
    use grpo_lambda_mdp::zoo::{EosHazardDependent, Family};

    fn cosine(a: &[f64], b: &[f64]) -> f64 {
        let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
        dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
    }

    #[test]
    fn lumped_cosines_are_those_of_the_whole_tree() {
        for (policy, scale) in [("zoo", 1.0), ("scaled", 0.1)] {
            for horizon in [2, 3, 5, 7] {
                let named = EosHazardDependent::default();
                let family = EosHazardDependent {
                    horizon,
                    start: named.start * scale,
                    after_first: named.after_first * scale,
                    after_other: named.after_other * scale,
                    ..named
                };
                let tree = family.tree().unwrap();
                let start = family.initial(&tree);
                let oracle = Oracle::new(&tree, &start);
                let length = oracle.update_of_credit(&oracle.expect_given_edge(|y| tree.leaf_len(y) as f64));
                let task = Lumped::new(horizon, scale);
                assert!((task.mean_length() - oracle.expect(|y| tree.leaf_len(y) as f64)).abs() < 1e-12);
                for (arm, point) in ARMS.into_iter().zip(at(policy, &task, horizon)) {
                    let (name, settings) = arm.registered();
                    let method = methods::parse(name, &settings).unwrap().method;
                    let situation = Situation::on_policy(&tree, &start, GROUP);
                    let update = implied_mean(method.as_ref(), &situation).unwrap();
                    let want = [cosine(&update, &oracle.grad_j()), cosine(&update, &length)];
                    let gaps = [point.cosine - want[0], point.cosine_length - want[1]];
                    assert!(gaps.iter().all(|g| g.abs() < 1e-10), "{horizon} {}: {gaps:?}", arm.name);
                }
            }
        }
    }
}
