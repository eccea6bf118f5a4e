//! Every check on both sides of its bound.

use super::super::{Framework, checks};
use super::*;

/// Nothing is found by this check.
#[track_caller]
fn sound(id: &str, log: Log) {
    assert_eq!(examined(id, &log), None);
}

/// This check says so of these steps.
#[track_caller]
fn found(id: &str, log: Log, steps: (f64, f64), text: &str) {
    assert_eq!(examined(id, &log), Some(Evidence { text: text.to_owned(), steps }));
}

fn examined(id: &str, log: &Log) -> Option<Evidence> {
    checks().iter().find(|check| check.id == id).expect("a check").examine(log)
}

fn log() -> Log {
    Log::new(Framework::Ours, true)
}

/// A column of 20 steps: one value in the first half, one in the second.
fn halves(log: Log, column: Column, early: f64, recent: f64) -> Log {
    log.with(column, 20, |i| if i < 10 { early } else { recent })
}

/// Rewards that go up and down by so much around one value in the first half, and around one in the second.
fn waves(log: Log, size: f64, early: f64, recent: f64) -> Log {
    let wave = |i: usize| if i.is_multiple_of(2) { -size } else { size };
    log.with(Column::Reward, 20, |i| wave(i) + if i < 10 { early } else { recent })
}

#[test]
fn rewards_without_variance_are_found() {
    let constant = |last: usize| log().with(Column::Reward, 30, |i| if i < 30 - last { 0.1 } else { 0.2 });
    sound("constant-reward", constant(9));
    let text = "the mean reward is 0.2 in each of the last 10 steps";
    found("constant-reward", constant(10), (21.0, 30.0), text);
    let equal = |share: f64| log().with(Column::ZeroVariance, 40, |i| if i < 30 { 0.0 } else { share });
    sound("no-variance", equal(0.89));
    found("no-variance", equal(0.9), (31.0, 40.0), "90 % of the groups have equal rewards");
}

#[test]
fn a_reward_that_halves_is_found_and_one_that_falls_less_only_with_noise() {
    let fallen = |reward: f64, entropy: f64| {
        let log = halves(log(), Column::Entropy, 1.0, entropy).with(Column::Loss, 20, |_| 0.1);
        waves(log, 0.05, 0.8, reward)
    };
    for (reward, entropy) in [(0.45, 1.0), (0.45, 1.49), (0.7, 3.0)] {
        sound("divergence", fallen(reward, entropy));
    }
    found("divergence", fallen(0.375, 1.0), (11.0, 20.0), "the mean reward fell from 0.8 to 0.375");
    let text = "the mean reward fell from 0.8 to 0.45, while the entropy rose from 1 to 1.5 nats per token";
    found("divergence", fallen(0.45, 1.5), (11.0, 20.0), text);
}

#[test]
fn numbers_that_are_none_and_skipped_updates_are_found_in_any_log() {
    let loss = log().with(Column::Loss, 3, |i| [0.1, f64::INFINITY, 0.1][i]);
    found("divergence", loss, (2.0, 2.0), "in 1 of 3 steps the loss is not finite");
    for (column, what) in [(Column::Kl, "KL"), (Column::Entropy, "entropy")] {
        let of_none = log().with(Column::Loss, 3, |_| 0.1).with(column, 3, |_| f64::NAN);
        found("divergence", of_none, (1.0, 3.0), &format!("in 3 of 3 steps the {what} is not finite"));
    }
    let norms = |n: usize, sixth: f64| log().with(Column::GradNorm, n, |i| if i == 5 { sixth } else { 0.5 });
    found("gradient-norm", norms(6, f64::NAN), (6.0, 6.0), "in 1 of 6 steps the gradient is not finite");
    let skipped = norms(4, 0.5).with(Column::Skipped, 4, |i| f64::from(u8::from(i >= 2)));
    found("gradient-norm", skipped, (3.0, 4.0), "in 2 of 4 steps the gradient is not finite");
    // A jump is found, and a smaller one or one in a short log is not.
    sound("gradient-norm", norms(10, 9.99));
    sound("gradient-norm", norms(9, 100.0));
    let text = "1 of 10 norms are at least 20 times the median of 0.5; the largest is 10 at step 6";
    found("gradient-norm", norms(10, 10.0), (6.0, 6.0), text);
}

#[test]
fn an_accuracy_above_the_interval_is_found_only_if_noise_and_time_allow() {
    let log = |accuracy: f64, bound: f64, measured: usize| {
        // 0.02 up and down: the error of a mean of 10 is 0.0067.
        let wave = |i: usize| if i.is_multiple_of(2) { 0.02 } else { -0.02 };
        let log = log().with(Column::Accuracy, 40, |i| accuracy + wave(i));
        log.with(Column::HeldOutHigh, measured, |_| bound)
    };
    let text = |percent: &str| {
        format!(
            "{percent} % of the responses in training are right, and the held-out accuracy is at most 45 % (95 % \
             interval)"
        )
    };
    found("memorised", log(0.98, 0.45, 40), (31.0, 40.0), &text("98"));
    found("memorised", log(0.466, 0.45, 40), (31.0, 40.0), &text("46.6"));
    sound("memorised", log(0.45, 0.45, 40));
    // Within two standard errors; measured before those steps only.
    sound("memorised", log(0.462, 0.45, 40));
    sound("memorised", log(0.98, 0.45, 30));
}

#[test]
fn a_kl_that_grew_and_an_entropy_that_fell_are_found_and_neither_alone_is() {
    let kl = |early, recent| halves(log(), Column::Kl, early, recent);
    sound("kl-explodes", kl(0.01, 0.49));
    sound("kl-explodes", kl(0.2, 0.99));
    let text = "the mean KL is 0.5 nats per token, after 0.1 at first";
    found("kl-explodes", kl(0.1, 0.5), (11.0, 20.0), text);
    let entropy = |early, recent| halves(log(), Column::Entropy, early, recent);
    sound("entropy-collapse", entropy(0.5, 0.011));
    sound("entropy-collapse", entropy(0.09, 0.01));
    let text = "the mean entropy is 0.01 nats per token, after 0.5 at first";
    found("entropy-collapse", entropy(0.5, 0.01), (11.0, 20.0), text);
}

#[test]
fn a_ratio_that_must_be_one_and_a_sampler_that_disagrees_are_found() {
    let ratios = |log: Log, ratio: f64| log.with(Column::RatioMean, 5, |i| if i == 2 { ratio } else { 1.0 });
    sound("ratio-off-policy", ratios(log(), 1.0099));
    sound("ratio-off-policy", ratios(Log::new(Framework::Ours, false), 2.0));
    let text = "the mean ratio differs from 1 in 1 of 5 steps; the furthest is 0.98 at step 3";
    found("ratio-off-policy", ratios(log(), 0.98), (3.0, 3.0), text);
    let mismatch = |mismatch: f64| log().with(Column::Mismatch, 10, |_| mismatch);
    sound("mismatch", mismatch(1.049));
    let text = "their probabilities of a token differ by a factor of 1.05 on average";
    found("mismatch", mismatch(1.05), (1.0, 10.0), text);
}

#[test]
fn many_clipped_tokens_and_cut_responses_are_found() {
    let clipped = |share: f64| log().with(Column::Clipped, 12, |_| share);
    sound("clip-share", clipped(0.1625));
    found("clip-share", clipped(0.25), (3.0, 12.0), "25 % of the tokens are clipped");
    let split = clipped(0.25).with(Column::ClipLow, 12, |_| 0.125).with(Column::ClipHigh, 12, |_| 0.125);
    let text = "25 % of the tokens are clipped (12.5 % below, 12.5 % above)";
    found("clip-share", split, (3.0, 12.0), text);
    let cut = |share: f64| log().with(Column::Truncated, 10, |_| share);
    sound("truncation", cut(0.199));
    found("truncation", cut(0.25), (1.0, 10.0), "25 % of the responses are cut off");
    let paid =
        |share: f64, reward: f64| cut(share).with(Column::Reward, 10, |step| reward + 0.001 * step as f64);
    let text = "95 % of the responses are cut off, and they are rewarded all the same: read whether they give their \
                answer (samples.jsonl)";
    found("truncation", paid(0.95, 0.9), (1.0, 10.0), text);
    found("truncation", paid(0.95, 0.1), (1.0, 10.0), "95 % of the responses are cut off");
}

#[test]
fn growth_without_reward_is_found_and_growth_with_it_is_not() {
    // The error of a mean of ten is 0.1 sqrt(10/9/10) = 0.0333, that of the difference 0.0471.
    let grown = |factor: f64, rise: f64| {
        waves(halves(log(), Column::Length, 100.0, 100.0 * factor), 0.1, 0.5, 0.5 + rise)
    };
    let text = |length: &str, reward: &str| {
        format!(
            "responses have {length} tokens on average, after 100 at first, while the mean reward went from 0.5 to \
             {reward}"
        )
    };
    sound("length-bonus", grown(1.49, 0.0));
    sound("length-bonus", grown(2.0, 0.095));
    found("length-bonus", grown(2.0, 0.094), (11.0, 20.0), &text("200", "0.594"));
    found("length-bonus", grown(1.5, 0.0), (11.0, 20.0), &text("150", "0.5"));
    // A rise without spread is one.
    sound("length-bonus", halves(halves(log(), Column::Length, 1.0, 2.0), Column::Reward, 0.0, 1.0));
}
