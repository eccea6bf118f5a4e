//! Findings: when each holds, with the numbers that show it.

use grpo_lambda_stats::table::significant;

use super::log::LEAST;
use super::{Column, Evidence, Log};

/// Looks for a check in a log.
type Examiner = fn(&Log) -> Option<Evidence>;

/// The function that looks for each check, by its id.
pub(super) const EXAMINERS: [(&str, Examiner); 12] = [
    ("constant-reward", constant_reward),
    ("no-variance", no_variance),
    ("divergence", divergence),
    ("memorised", memorised),
    ("kl-explodes", kl_explodes),
    ("entropy-collapse", entropy_collapse),
    ("gradient-norm", gradient_norm),
    ("ratio-off-policy", ratio_off_policy),
    ("mismatch", mismatch),
    ("clip-share", clip_share),
    ("truncation", truncation),
    ("length-bonus", length_bonus),
];

/// A reward that is the same at every step.
fn constant_reward(log: &Log) -> Option<Evidence> {
    let points = log.get(Column::Reward);
    let last = points.last()?;
    let is_same = |x: f64| x == last.1 || x.is_nan() && last.1.is_nan();
    let same = points.iter().rev().take_while(|p| is_same(p.1)).count();
    let first = points.get(points.len() - same)?;
    (same >= LEAST).then(|| Evidence {
        text: match last.1.is_nan() {
            true => format!("no response had a reward in any of the last {same} steps"),
            false => {
                format!("the mean reward is {} in each of the last {same} steps", significant(last.1, 3))
            }
        },
        steps: (first.0, last.0),
    })
}

/// Groups in which every response has the same reward.
fn no_variance(log: &Log) -> Option<Evidence> {
    // Share of groups from which so little is learned that most of the sampling is for nothing.
    const MOST: f64 = 0.9;
    let recent = log.recent(Column::ZeroVariance)?;
    (log.compares_groups && recent.mean() >= MOST)
        .then(|| Evidence::share(&recent, "groups have equal rewards"))
}

/// Steps at which a quantity is no number.
fn not_finite(log: &Log, mut steps: Vec<f64>, what: &str) -> Option<Evidence> {
    steps.sort_by(f64::total_cmp);
    steps.dedup();
    let text = format!("in {} of {} steps the {what} is not finite", steps.len(), log.steps);
    Some(Evidence { text, steps: (*steps.first()?, *steps.last()?) })
}

/// A run that has lost what it could do.
fn divergence(log: &Log) -> Option<Evidence> {
    // Standard errors by which the reward fell.
    const ERRORS: f64 = 4.0;
    // Share of the best tenth's reward that is left.
    const LEFT: f64 = 0.5;
    // Times the entropy of the first steps.
    const NOISE: f64 = 1.5;
    let all = [
        (Column::Loss, "loss"),
        (Column::Kl, "KL"),
        (Column::Entropy, "entropy"),
        (Column::Reward, "reward"),
    ];
    for (column, what) in all {
        let broken = log.get(column).iter().filter(|p| !p.1.is_finite());
        if let Some(found) = not_finite(log, broken.map(|p| p.0).collect(), what) {
            return Some(found);
        }
    }
    let reward = log.ends(Column::Reward)?;
    let (early, recent) = (reward.early.mean(), reward.recent.mean());
    let noise = log.ends(Column::Entropy).filter(|e| e.recent.mean() >= NOISE * e.early.mean());
    let left = if noise.is_some() { (1.0 + LEFT) / 2.0 } else { LEFT };
    // Only a reward that began above 0 has halves.
    let fell = early > 0.0 && recent <= left * early && reward.errors() <= -ERRORS;
    fell.then(|| {
        let entropy = noise.map_or(String::new(), |e| {
            let [a, b] = [&e.early, &e.recent].map(|window| significant(window.mean(), 3));
            format!(", while the entropy rose from {a} to {b} nats per token")
        });
        let (a, b) = (significant(early, 3), significant(recent, 3));
        Evidence {
            text: format!("the mean reward fell from {a} to {b}{entropy}"),
            steps: reward.recent.steps,
        }
    })
}

/// Problems of training that are solved where held-out ones are not.
fn memorised(log: &Log) -> Option<Evidence> {
    // Standard errors of the mean over steps that the training accuracy stays above the bound.
    const ERRORS: f64 = 2.0;
    let recent = log.recent(Column::Accuracy)?;
    let (step, bound) = *log.get(Column::HeldOutHigh).last()?;
    let above = recent.mean() - ERRORS * recent.error() > bound;
    (above && step >= recent.steps.0).then(|| Evidence {
        text: format!(
            "{} % of the responses in training are right, and the held-out accuracy is at most {} % (95 % interval)",
            significant(100.0 * recent.mean(), 3),
            significant(100.0 * bound, 3)
        ),
        steps: recent.steps,
    })
}

/// A policy that has left its reference.
fn kl_explodes(log: &Log) -> Option<Evidence> {
    // Nats per token. Published runs stay below 0.1; half a nat is a policy that writes another language.
    const LARGE: f64 = 0.5;
    // Times the KL of the first steps.
    const GROWN: f64 = 5.0;
    let ends = log.ends(Column::Kl)?;
    let (early, recent) = (ends.early.mean(), ends.recent.mean());
    (recent >= LARGE && recent >= GROWN * early).then(|| Evidence::nats("KL", &ends))
}

/// A policy that says one and the same.
fn entropy_collapse(log: &Log) -> Option<Evidence> {
    // Nats per token: ten tokens in a row are the most probable ones nine times of ten.
    const SMALL: f64 = 0.01;
    // Share of the first steps' entropy.
    const FALLEN: f64 = 0.1;
    let ends = log.ends(Column::Entropy)?;
    let (early, recent) = (ends.early.mean(), ends.recent.mean());
    (recent <= SMALL && recent <= FALLEN * early).then(|| Evidence::nats("entropy", &ends))
}

/// Gradients that jump, or are no numbers.
fn gradient_norm(log: &Log) -> Option<Evidence> {
    // Times the median norm.
    const SPIKE: f64 = 20.0;
    let points = log.get(Column::GradNorm);
    let skipped = log.get(Column::Skipped).iter().filter(|p| p.1 > 0.0).map(|p| p.0);
    let broken = points.iter().filter(|p| !p.1.is_finite()).map(|p| p.0);
    if let Some(found) = not_finite(log, skipped.chain(broken).collect(), "gradient") {
        return Some(found);
    }
    let mut norms: Vec<f64> = points.iter().map(|p| p.1).collect();
    norms.sort_by(f64::total_cmp);
    let median = *norms.get(norms.len() / 2).filter(|median| norms.len() >= LEAST && **median > 0.0)?;
    let spikes: Vec<_> = points.iter().filter(|p| p.1 >= SPIKE * median).collect();
    let largest = spikes.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(Evidence {
        text: format!(
            "{} of {} norms are at least {SPIKE} times the median of {}; the largest is {} at step {}",
            spikes.len(),
            points.len(),
            significant(median, 3),
            significant(largest.1, 3),
            largest.0
        ),
        steps: (spikes.first()?.0, spikes.last()?.0),
    })
}

/// Ratios other than 1 where sampler and policy are one.
fn ratio_off_policy(log: &Log) -> Option<Evidence> {
    // Distance of the mean ratio from 1 that rounding in bf16 does not reach.
    const FAR: f64 = 0.01;
    if !log.on_policy {
        return None;
    }
    let off: Vec<_> = log.get(Column::RatioMean).iter().filter(|p| (p.1 - 1.0).abs() > FAR).collect();
    let worst = off.iter().max_by(|a, b| (a.1 - 1.0).abs().total_cmp(&(b.1 - 1.0).abs()))?;
    Some(Evidence {
        text: format!(
            "the mean ratio differs from 1 in {} of {} steps; the furthest is {} at step {}",
            off.len(),
            log.get(Column::RatioMean).len(),
            significant(worst.1, 4),
            worst.0
        ),
        steps: (off.first()?.0, off.last()?.0),
    })
}

/// Sampler and trainer that disagree at the same weights.
fn mismatch(log: &Log) -> Option<Evidence> {
    // Factor between the two probabilities of a token, on average. bf16 alone makes about 1.01.
    const FAR: f64 = 1.05;
    let recent = log.recent(Column::Mismatch)?;
    let mean = recent.mean();
    (mean >= FAR).then(|| Evidence {
        text: format!(
            "their probabilities of a token differ by a factor of {} on average",
            significant(mean, 4)
        ),
        steps: recent.steps,
    })
}

/// A clip that binds for many tokens.
fn clip_share(log: &Log) -> Option<Evidence> {
    // Share of tokens.
    const MANY: f64 = 0.2;
    let clipped = log.recent(Column::Clipped)?;
    // verl does not say which bound binds.
    let split = match [Column::ClipLow, Column::ClipHigh].map(|column| log.recent(column)) {
        [Some(low), Some(high)] => {
            let [low, high] = [low, high].map(|bound| significant(100.0 * bound.mean(), 3));
            format!(" ({low} % below, {high} % above)")
        }
        _ => String::new(),
    };
    (clipped.mean() >= MANY).then(|| Evidence::share(&clipped, &format!("tokens are clipped{split}")))
}

/// Responses that are cut off.
fn truncation(log: &Log) -> Option<Evidence> {
    // Share of responses.
    const MANY: f64 = 0.2;
    // Nearly all, and yet rewarded: what is paid for may be no answer.
    const ALL: f64 = 0.9;
    let recent = log.recent(Column::Truncated)?;
    let paid = log.recent(Column::Reward).map_or(0.0, |reward| reward.mean());
    let what = if recent.mean() >= ALL && paid >= 0.5 {
        "responses are cut off, and they are rewarded all the same: read whether they give their answer (samples.jsonl)"
    } else {
        "responses are cut off"
    };
    (recent.mean() >= MANY).then(|| Evidence::share(&recent, what))
}

/// Responses that grow without being better.
fn length_bonus(log: &Log) -> Option<Evidence> {
    // Times the length of the first steps.
    const GROWN: f64 = 1.5;
    // Standard errors within which a reward has not risen.
    const ERRORS: f64 = 2.0;
    let (length, reward) = (log.ends(Column::Length)?, log.ends(Column::Reward)?);
    let (early, recent) = (length.early.mean(), length.recent.mean());
    // A reward without any spread has errors of 0: it has risen by infinitely many when it is larger at all.
    let risen = reward.rise() > 0.0 && reward.errors() >= ERRORS;
    (recent >= GROWN * early && !risen).then(|| Evidence {
        text: format!(
            "responses have {} tokens on average, after {} at first, while the mean reward went from {} to {}",
            significant(recent, 3),
            significant(early, 3),
            significant(reward.early.mean(), 3),
            significant(reward.recent.mean(), 3)
        ),
        steps: length.recent.steps,
    })
}

#[cfg(test)]
#[path = "findings_tests.rs"]
mod tests;
