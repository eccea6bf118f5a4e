//! Learning on a tabular policy: the training step moves the parameters by the expected update on average, the policy
//! gradient raises `J`, and a seed is a curve.

use crate::laboratory::{laid_out, method};
use crate::strategies::Batch;
use std::convert::Infallible;
use std::ops::Range;

use grpo_lambda::group::{Group, Response};
use grpo_lambda::learner::{Policy, Samples, Scored, iterate};
use grpo_lambda::methods::{self, Method};
use grpo_lambda::metrics::Metrics;
use grpo_lambda_mdp::expected::{Situation, implied};
use grpo_lambda_mdp::{Oracle, TabularLearner, zoo, zoo::Family};

const GROUP: usize = 8;

fn step(learner: &mut TabularLearner, method: &dyn Method, inner_updates: usize) -> Metrics {
    let Ok(metrics) = iterate(learner, method, &[()], GROUP, inner_updates);
    metrics
}

/// `J` before training and after each of `updates` updates.
fn curve(family: &impl Family, method: &dyn Method, rate: f64, updates: usize, seed: u64) -> Vec<f64> {
    let tree = family.tree().expect("knobs in range");
    let mut learner = TabularLearner::new(&tree, family.initial(&tree), rate, seed);
    let mut js = vec![learner.j()];
    for _ in 0..updates {
        step(&mut learner, method, 1);
        js.push(learner.j());
    }
    js
}

#[test]
fn the_training_step_is_the_expected_update_on_average() {
    let (tree, start) = laid_out(&zoo::EosHazard { horizon: 4, ..zoo::EosHazard::default() });
    for (name, settings) in [("grpo", "reduction=token_mean"), ("rloo", ""), ("grpo_lambda", "style=both")] {
        let method = method(name, settings);
        let exact = implied(method.as_ref(), &Situation::on_policy(&tree, &start, GROUP)).expect("feasible");
        // At learning rate 1 the step of the logits is the update itself.
        let runs = 4000;
        let mut sum = vec![0.0; tree.edge_count()];
        for seed in 0..runs {
            let mut learner = TabularLearner::new(&tree, start.clone(), 1.0, seed);
            step(&mut learner, method.as_ref(), 1);
            for (s, (after, before)) in sum.iter_mut().zip(learner.policy().logits.iter().zip(&start.logits))
            {
                *s += after - before;
            }
        }
        let z = |e: usize| {
            let error = (exact.variance[e] / runs as f64).sqrt();
            (sum[e] / runs as f64 - exact.update[e]) / error
        };
        let edges: Vec<usize> = tree.edges().filter(|&e| exact.variance[e] > 1e-9).collect();
        let chi2 = edges.iter().map(|&e| z(e).powi(2)).sum::<f64>() / edges.len() as f64;
        let worst = edges.iter().map(|&e| z(e).abs()).fold(0.0, f64::max);
        assert!(edges.len() > 20 && (0.3..2.5).contains(&chi2) && worst < 5.0, "{name}: {chi2} {worst}");
    }
}

#[test]
fn small_steps_of_rloo_raise_j_on_every_mdp_of_the_zoo_that_gives_a_signal() {
    for named in zoo::all() {
        let tree = (named.build)();
        let start = (named.initial)(&tree);
        let grad = Oracle::new(&tree, &start).grad_j();
        // Steps whose expected gain over all updates is about 0.05.
        let updates = 200.0;
        let rate = 0.05 / (updates * grad.iter().map(|g| g * g).sum::<f64>());
        if rate > 5.0 {
            continue; // needle and chain: hardly any group has a reward, a step is a jump
        }
        let gain = |seed| {
            let mut learner = TabularLearner::new(&tree, start.clone(), rate, seed);
            let before = learner.j();
            let rloo = method("rloo", "");
            (0..updates as usize).for_each(|_| {
                step(&mut learner, rloo.as_ref(), 1);
            });
            learner.j() - before
        };
        let mean = (0..8).map(gain).sum::<f64>() / 8.0;
        assert!(mean > 0.02, "{}: {mean} at rate {rate}", named.name);
    }
}

#[test]
fn the_same_seed_gives_the_same_curve_bit_for_bit() {
    let family = zoo::Fork::default();
    let lambda = method("grpo_lambda", "");
    let bits =
        |seed| curve(&family, lambda.as_ref(), 4.0, 40, seed).iter().map(|j| j.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(1), bits(1));
    assert_ne!(bits(1), bits(2));
}

#[test]
fn several_inner_updates_leave_the_policy_that_sampled_and_begin_to_clip() {
    let (tree, start) = laid_out(&zoo::LuckyGuess::default());
    let clipped = |inner| {
        let lambda = method("grpo_lambda", "lambda=0.9");
        let mut learner = TabularLearner::new(&tree, start.clone(), 4.0, 11);
        (0..20)
            .map(|_| step(&mut learner, lambda.as_ref(), inner))
            .map(|m| m.clipped_low + m.clipped_high)
            .sum::<usize>()
    };
    assert_eq!(clipped(1), 0);
    assert!(clipped(4) > 0);
}

#[test]
fn mean_weight_one_means_so_for_every_update_and_delta() {
    // Weights λ^(T-1-k) of delta=terminal, divided by their mean.
    let batch = Batch::alone([1.0, 0.0].map(|r| Response::graded(vec![-0.5; 4], r)).to_vec());
    for settings in [
        "",
        "style=both",
        "delta=terminal",
        "delta=terminal style=both lambda=0.5",
        "update=weight",
        "update=weight soft_clamp=inner style=both",
        "update=weight soft_clamp=elementwise soft_gradient=false delta=terminal",
    ] {
        let sum = |method: Box<dyn Method>| -> f64 {
            methods::evaluate(method.as_ref(), &batch.groups, &batch.logps).dlogps[0].iter().sum()
        };
        let ours = method("grpo_lambda", &format!("{settings} normalise=mean clamp=none"));
        let gap = sum(ours) - sum(method("grpo", ""));
        assert!(gap.abs() < 1e-14, "{settings}: {gap}");
    }
}

#[test]
fn the_trace_learns_the_longer_worse_answer_and_rloo_the_better_one() {
    let mean_last = |method: &dyn Method, rate| {
        let last = |seed| curve(&zoo::Fork::default(), method, rate, 400, seed)[400];
        (0..10).map(last).sum::<f64>() / 10.0
    };
    let (lambda, rloo) = (method("grpo_lambda", ""), method("rloo", ""));
    assert!((mean_last(lambda.as_ref(), 4.0) - 0.8).abs() < 0.02);
    assert!(mean_last(rloo.as_ref(), 4.0) > 0.87);
}

/// A tabular learner that scores and differentiates `size` responses at a time.
struct MicroBatches<'t> {
    learner: TabularLearner<'t>,
    size: usize,
}

impl Policy for MicroBatches<'_> {
    type Prompt = ();
    type Tape = <TabularLearner<'static> as Policy>::Tape;
    type Error = Infallible;

    fn parts(&self, _: &[()], batch: &[Group]) -> Vec<Range<usize>> {
        let all: usize = batch.iter().map(|g| g.responses.len()).sum();
        (0..all).step_by(self.size).map(|start| start..all.min(start + self.size)).collect()
    }
    fn log_probs(
        &self,
        p: &[()],
        batch: &[Group],
        part: Range<usize>,
    ) -> Result<Scored<Self::Tape>, Infallible> {
        self.learner.log_probs(p, batch, part)
    }
    fn backward(&mut self, tape: Self::Tape, dlogps: &[Vec<f64>]) -> Result<(), Infallible> {
        self.learner.backward(tape, dlogps)
    }
    fn step(&mut self) -> Result<(), Infallible> {
        self.learner.step()
    }
}

impl Samples for MicroBatches<'_> {
    fn sample(&mut self, prompts: &[()], group_size: usize) -> Result<Vec<Group>, Infallible> {
        self.learner.sample(prompts, group_size)
    }
}

#[test]
fn micro_batches_of_any_size_move_the_parameters_to_the_same_bits() {
    let (tree, start) = laid_out(&zoo::Fork::default());
    for (name, settings) in [("grpo", "reduction=token_mean"), ("grpo_lambda", "update=weight scale=batch")] {
        let method = method(name, settings);
        let after = |size: usize| {
            let learner = TabularLearner::new(&tree, start.clone(), 0.5, 4);
            let mut policy = MicroBatches { learner, size };
            for _ in 0..5 {
                let Ok(_) = iterate(&mut policy, method.as_ref(), &[(), (), ()], GROUP, 2);
            }
            policy.learner.policy().logits.clone()
        };
        let whole = after(usize::MAX / 2);
        assert_ne!(whole, start.logits);
        for size in [1, 5, 7, 24] {
            assert_eq!(after(size), whole, "{name}, {size} responses at a time");
        }
    }
}
