//! The exact expected update: three ways of computing it agree, and it is what theory says it is.

use crate::laboratory::{gap, method, relative_gap, update};
use grpo_lambda::group::{ExtraInputs, InputKind, InputSource, PerStep, StatePerToken};
use grpo_lambda::methods::{Coupling, REGISTRY};
use grpo_lambda_mdp::expected::{ExpectedError, Situation, enumerated, implied, implied_mean};
use grpo_lambda_mdp::extra_inputs::{Exact, Provider};
use grpo_lambda_mdp::zoo::RandomRewards::{Bits, Probabilities, Real};
use grpo_lambda_mdp::{Oracle, Tabular, Tree, zoo, zoo::Family};
use std::convert::Infallible;

/// MDPs small enough to enumerate all groups of 3, with binary, noisy and real rewards, and ragged lengths.
fn tiny() -> Vec<(&'static str, Tree, Tabular)> {
    let mut all = Vec::new();
    let mut add = |name, tree: Tree| {
        let policy = Tabular::random(&tree, 7, 0.8);
        let spread = Oracle::new(&tree, &policy).reward_distribution().len();
        assert!(
            tree.leaf_count() <= 60 && spread > 1,
            "{name}: {} leaves, {spread} rewards",
            tree.leaf_count()
        );
        all.push((name, tree, policy));
    };
    add("lemma", zoo::LemmaCounterexample.tree().expect("valid"));
    for (seed, rewards) in [(0, Bits), (1, Probabilities), (2, Real), (4, Bits), (6, Real)] {
        let random = zoo::Random { seed, symbols: 2, horizon: 3, eos: 0.7, rewards, scale: 1.0 };
        add("random", random.tree().expect("valid"));
    }
    let gamma = zoo::Random { seed: 3, symbols: 2, horizon: 3, ..zoo::Random::default() };
    add("random, gamma 0.9", gamma.tree().expect("valid").with_gamma(0.9));
    all
}

/// Everything a table gives, and [`MadeUp`] numbers for the rest.
#[derive(Debug)]
struct Complete(Exact);

impl Provider for Complete {
    fn extra_inputs(&self, leaf: usize, path: &[usize]) -> ExtraInputs {
        let Ok(made_up) = ExtraInputs::read(&mut MadeUp { leaf, path });
        self.0.extra_inputs(leaf, path).or(made_up)
    }
    fn kinds(&self) -> Vec<InputKind> {
        InputKind::ALL.to_vec()
    }
}

/// Numbers in place of the scores of a maskable policy, of a teacher where rewards are no probabilities, and of what no table has. A kind without
/// an arm here gets the score of each token.
struct MadeUp<'a> {
    leaf: usize,
    path: &'a [usize],
}

impl InputSource for MadeUp<'_> {
    type Error = Infallible;

    fn numbers(&mut self, kind: InputKind) -> Result<Option<Vec<f64>>, Infallible> {
        let of_edges = |number: fn(usize) -> f64| self.path.iter().map(|&edge| number(edge)).collect();
        let score = |(t, &edge): (usize, &usize)| ((7 * edge + 3 * t + self.leaf) % 5) as f64 * 0.4 - 0.3;
        let scores = |len: usize| self.path.iter().enumerate().map(score).take(len).collect();
        Ok(Some(match kind {
            InputKind::TeacherLogps => of_edges(|edge| -0.1 - (edge % 3) as f64),
            InputKind::SamplerLogps => of_edges(|edge| -0.2 - 0.3 * (edge % 4) as f64),
            InputKind::RewardParts => vec![(self.leaf % 3) as f64 - 0.4, (self.leaf % 2) as f64],
            InputKind::Shifts | InputKind::Saliencies => scores(self.path.len().max(2) - 1),
            _ => scores(self.path.len()),
        }))
    }

    fn steps(&mut self, _: InputKind) -> Result<Option<PerStep>, Infallible> {
        Ok(None)
    }

    fn states(&mut self, _: InputKind) -> Result<Option<StatePerToken>, Infallible> {
        Ok(Some(self.path.iter().map(|&edge| vec![(edge % 3) as f64, (edge % 7) as f64]).collect()))
    }
}

#[test]
fn implied_credit_equals_the_enumeration_of_all_groups_on_and_off_policy() {
    assert!(REGISTRY.iter().all(|spec| !spec.samples.is_empty()));
    let cases =
        || REGISTRY.iter().flat_map(|spec| spec.samples.iter().map(|settings| (spec.name, *settings)));
    let mut compared = 0;
    for (mdp, tree, policy) in tiny() {
        let moved = Tabular::random(&tree, 8, 0.8);
        let extra_inputs = Complete(Exact::new(&Oracle::new(&tree, &policy)));
        for (name, settings) in cases() {
            let method = method(name, settings);
            for (current, g) in [(&policy, 2), (&moved, 2), (&moved, 3)] {
                let on_policy = Situation::on_policy(&tree, &policy, g);
                let situation = Situation {
                    current,
                    reference: Some(&moved),
                    extra_inputs: Some(&extra_inputs),
                    ..on_policy
                };
                if g == 3 && tree.leaf_count() > 12 {
                    continue;
                }
                let a = match implied(method.as_ref(), &situation) {
                    Err(ExpectedError::Coupled) if method.coupling() == Coupling::Everything => continue,
                    other => other.expect("feasible"),
                };
                compared += 1;
                let b = enumerated(method.as_ref(), &situation).expect("feasible");
                // A variance is a sum of squares, some of which are large: what is rounded off grows with it.
                let gaps = [
                    gap(&a.update, &b.update),
                    gap(&a.credit, &b.credit),
                    relative_gap(&a.variance, &b.variance),
                ];
                assert!(gaps.iter().all(|g| *g < 1e-12), "{mdp} {name} {settings}: {gaps:?}");
                let mean = implied_mean(method.as_ref(), &situation).expect("feasible");
                assert!(gap(&mean, &b.update) < 1e-12, "{mdp} {name} {settings}");
                // Off-policy the clip can silence a whole tiny MDP; on-policy nothing may be trivially zero.
                assert!(b.total_variance() > 0.0 || current != &policy, "{mdp} {name} {settings}");
            }
        }
    }
    assert!(compared > 200, "{compared}");
}

#[test]
fn rloo_is_the_policy_gradient_and_dr_grpo_a_multiple_of_it() {
    for (mdp, tree, policy) in tiny() {
        // The reward a method sees is not discounted, so its gradient is that of the undiscounted J.
        let tree = tree.with_gamma(1.0);
        let grad = Oracle::new(&tree, &policy).grad_j();
        for g in [2, 3, 8] {
            assert!(gap(&update("rloo", &tree, &policy, g), &grad) < 1e-12, "{mdp} {g}");
            let shrunk: Vec<f64> = grad.iter().map(|x| x * (g as f64 - 1.0) / g as f64 / 5.0).collect();
            let dr_grpo = update("dr_grpo max_length=5", &tree, &policy, g);
            assert!(gap(&dr_grpo, &shrunk) < 1e-12, "{mdp} {g}");
        }
    }
}
