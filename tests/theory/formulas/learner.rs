use grpo_lambda::group::{ExtraInputs, Group, Response};
use grpo_lambda::learner::{Policy, Samples, Scored, iterate};
use grpo_lambda::methods;
use std::ops::Range;

/// A policy that a sampler of another rounding sampled for, and that a step moves by 0.1 at every token.
#[derive(Default)]
struct Rounding {
    recomputes: bool,
    whole: bool,
    scored: std::cell::Cell<usize>,
    moved: f64,
    gradient: Vec<f64>,
}

/// The sampler's number of token `t`, and the policy's before it moved.
fn sampled(t: usize) -> f64 {
    -1.0 - t as f64 / 8.0
}
fn own(t: usize) -> f64 {
    sampled(t) + 0.05
}

impl Policy for Rounding {
    type Prompt = ();
    type Tape = ();
    type Error = std::convert::Infallible;

    fn parts(&self, _: &[()], _: &[Group]) -> Vec<Range<usize>> {
        let cut = if self.whole { 4 } else { 1 };
        [0..cut, cut..4].into_iter().filter(|part| !part.is_empty()).collect()
    }
    fn recomputes_old_logps(&self) -> bool {
        self.recomputes
    }
    fn log_probs(&self, _: &[()], _: &[Group], part: Range<usize>) -> Result<Scored<()>, Self::Error> {
        self.scored.set(self.scored.get() + 1);
        Ok((part.map(|_| (0..6).map(|t| own(t) + self.moved).collect()).collect(), ()))
    }
    fn backward(&mut self, (): (), dlogps: &[Vec<f64>]) -> Result<(), Self::Error> {
        self.gradient.extend(dlogps.iter().flatten());
        Ok(())
    }
    fn step(&mut self) -> Result<(), Self::Error> {
        self.moved += 0.1;
        Ok(())
    }
}

impl Samples for Rounding {
    fn sample(&mut self, _: &[()], group_size: usize) -> Result<Vec<Group>, Self::Error> {
        let logps = || (0..6).map(sampled).collect::<Vec<f64>>();
        let extra_inputs = || ExtraInputs { sampler_logps: Some(logps()), ..ExtraInputs::default() };
        let response =
            |i| Response { extra_inputs: extra_inputs(), ..Response::graded(logps(), (i % 2) as f64) };
        Ok(vec![Group { responses: (0..group_size).map(response).collect() }])
    }
}

#[test]
fn rounding_between_sampler_and_trainer_is_no_step_of_the_policy() {
    let method = methods::parse("grpo_lambda", "lambda=0.9").unwrap().method;
    let run = |recomputes: bool, inner_updates: usize| {
        let mut policy = Rounding { recomputes, ..Rounding::default() };
        iterate(&mut policy, &*method, &[()], 4, inner_updates).unwrap()
    };
    // A trace at the last of six tokens: 1 + 0.9 + ... + 0.9^5.
    let trace = (1.0 - 0.9f64.powi(6)) / 0.1;
    let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} for {b}");
    near(run(false, 1).trace_log_ratio_max, 0.05 * trace);
    assert!(run(false, 1).clip_fraction_high() > 0.0);
    let first = run(true, 1);
    assert_eq!((first.log_ratio_max, first.trace_log_ratio_max, first.ratio_mean()), (0.0, 0.0, 1.0));
    assert_eq!((first.clip_fraction_low(), first.clip_fraction_high()), (0.0, 0.0));
    // Later updates are measured from the first, not from the one before.
    near(run(true, 2).trace_log_ratio_max, 0.1 * trace);
    near(run(true, 3).log_ratio_max, 0.2);
}

#[test]
fn a_correction_weighs_the_trainer_s_own_numbers_against_the_sampler_s() {
    let gradient = |settings: &str| {
        let method = methods::parse("grpo", settings).unwrap().method;
        let mut policy = Rounding { recomputes: true, ..Rounding::default() };
        iterate(&mut policy, &*method, &[()], 4, 1).unwrap();
        policy.gradient
    };
    let (plain, truncated) = (gradient(""), gradient("correction=token_truncate correction_high=2"));
    assert!(plain.len() == 24 && plain.iter().all(|g| *g != 0.0));
    for (plain, corrected) in plain.iter().zip(truncated) {
        assert!((corrected - plain * 0.05f64.exp()).abs() < 1e-12, "{corrected} for {plain}");
    }
}

/// A batch of one micro-batch is scored once for the weights that its log-probabilities decide and for its first gradient step; one of several twice.
#[test]
fn one_forward_pass_serves_a_rejection_and_the_first_step() {
    let run = |whole: bool, updates: usize| {
        let method = methods::parse("grpo", "reject=token_k3 reject_high=1").unwrap().method;
        let mut policy = Rounding { recomputes: true, whole, ..Rounding::default() };
        iterate(&mut policy, &*method, &[()], 4, updates).unwrap();
        (policy.scored.get(), policy.gradient)
    };
    let (once, gradient) = run(true, 1);
    let (in_parts, same) = run(false, 1);
    assert_eq!((once, in_parts), (1, 4));
    assert!(gradient.iter().any(|g| *g != 0.0) && gradient == same);
    assert_eq!((run(true, 3).0, run(false, 3).0), (3, 8));
}
