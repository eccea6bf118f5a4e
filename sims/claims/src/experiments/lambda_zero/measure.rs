//! What is computed: every reading at λ = 0 against GRPO on random batches, and both estimators against GRPO along λ.

use grpo_lambda::advantage::gae;
use grpo_lambda::group::Group;

use crate::experiment::Context;
use crate::experiments::common::methods::{evaluate, group, on_policy_weights};
use crate::experiments::common::random::{noise, stream, symmetric};
use crate::experiments::common::vectors::{difference, gap, norm};

/// GRPO with the reduction of the code base the paper builds on.
const GRPO: &str = "reduction=token_mean";
pub(super) const BATCHES: usize = 200;
/// Tokens of the response whose advantages are followed along λ.
pub(super) const LEN: usize = 16;

/// The readings compared with GRPO.
const READINGS: [(&str, &str); 12] = [
    ("recent", "clamp=none"),
    ("recent, Eq. 18 as printed", "clamp=none matrix=as_printed"),
    ("recent, rows normalised", "clamp=none normalise=rows"),
    ("recent, A clamped at -0.1", ""),
    ("recent, printed clip", "clamp=none clip=printed"),
    ("recent, terminal δ", "clamp=none delta=terminal"),
    ("both", "clamp=none style=both"),
    ("both, Eq. 17 as printed", "clamp=none style=both matrix=as_printed"),
    ("both, rows normalised", "clamp=none style=both normalise=rows"),
    ("both, mean normalised", "clamp=none style=both normalise=mean"),
    ("ϵ-weight", "clamp=none update=weight"),
    ("ϵ-weight, no soft gradient", "clamp=none update=weight soft_gradient=false"),
];

pub(super) struct Numbers {
    pub(super) readings: Vec<Reading>,
    pub(super) by_lambda: Vec<AtLambda>,
    /// Largest difference of the gradient of delta=terminal at λ = 1 from GRPO's, on-policy.
    pub(super) terminal_at_one: f64,
    /// Weights of the six tokens of a response at λ = 0.
    pub(super) weights: Weights,
}

/// One reading at λ = 0 against GRPO.
#[derive(Clone, Copy)]
pub(super) struct Reading {
    pub(super) name: &'static str,
    pub(super) on_policy: Distance,
    pub(super) off_policy: Distance,
}

/// Largest differences over the batches.
#[derive(Clone, Copy, Default, PartialEq)]
pub(super) struct Distance {
    pub(super) loss: f64,
    /// Relative to GRPO's gradient.
    pub(super) gradient: f64,
}

impl Reading {
    /// To the last bit, on and off policy.
    pub(super) fn is_grpo(&self) -> bool {
        [self.on_policy, self.off_policy].iter().all(|d| *d == Distance::default())
    }
}

/// Relative distances from GRPO's advantages at one λ.
#[derive(Clone, Copy)]
pub(super) struct AtLambda {
    pub(super) lambda: f64,
    /// Of GAE with the critic GRPO implies, `V(s_0)` everywhere.
    pub(super) implied_critic: f64,
    /// Of GRPO-lambda, style recent.
    pub(super) recent: f64,
}

pub(super) struct Weights {
    pub(super) recent: Vec<f64>,
    pub(super) both: Vec<f64>,
    pub(super) weight: Vec<f64>,
    pub(super) terminal: Vec<f64>,
}

pub(super) fn measure(context: &Context) -> anyhow::Result<Numbers> {
    let mut readings = Vec::new();
    for (i, (name, settings)) in READINGS.into_iter().enumerate() {
        (context.progress)(0.8 * i as f64 / READINGS.len() as f64, name);
        let distance = |drift| distance(settings, context.seed, drift);
        readings.push(Reading { name, on_policy: distance(0.0)?, off_policy: distance(0.5)? });
    }
    let six = [-0.5; 6];
    Ok(Numbers {
        readings,
        by_lambda: (0..=20).map(|step| at_lambda(f64::from(step) / 20.0)).collect::<Result<_, _>>()?,
        terminal_at_one: terminal_at_one(context.seed)?,
        weights: Weights {
            recent: on_policy_weights("lambda=0", &six)?,
            both: on_policy_weights("lambda=0 style=both", &six)?,
            weight: on_policy_weights("lambda=0 update=weight", &six)?,
            terminal: on_policy_weights("lambda=0 delta=terminal", &six)?,
        },
    })
}

/// A seeded group of five with binary rewards, lengths 1 to 9, and current log-probabilities that differ by up to `drift`.
fn batch(seed: u64, index: usize, drift: f64) -> (Group, Vec<Vec<f64>>) {
    let mut rng = stream(seed, index as u64);
    let sampled = |i: usize, rng: &mut _| -> Vec<f64> {
        (0..1 + (index + 2 * i) % 9).map(|_| -1.0 + 0.9 * symmetric(rng)).collect()
    };
    let old: Vec<Vec<f64>> = (0..5).map(|i| sampled(i, &mut rng)).collect();
    let mut moved = |o: &Vec<f64>| -> Vec<f64> {
        o.iter().zip(noise(&mut rng, o.len())).map(|(o, d)| o + drift * d).collect()
    };
    let logps = old.iter().map(&mut moved).collect();
    let rewards: Vec<f64> = (0..5).map(|i| f64::from((index + i) % 5 < 1 + index % 4)).collect();
    (group(&rewards, &old), logps)
}

/// A reading at λ = 0 from GRPO, over all batches.
fn distance(settings: &str, seed: u64, drift: f64) -> anyhow::Result<Distance> {
    let mut worst = Distance::default();
    for index in 0..BATCHES {
        let (group, logps) = batch(seed, index, drift);
        let ours = evaluate("grpo_lambda", &format!("lambda=0 {settings}"), &group, &logps)?;
        let grpo = evaluate("grpo", GRPO, &group, &logps)?;
        let (a, b) = (ours.dlogps.concat(), grpo.dlogps.concat());
        worst.loss = worst.loss.max((ours.value - grpo.value).abs());
        worst.gradient = worst.gradient.max(gap(&a, &b) / norm(&b).max(f64::MIN_POSITIVE));
    }
    Ok(worst)
}

/// The GAE of a constant critic against `r - V(s_0)` at every token, and the weights of GRPO-lambda against 1.
fn at_lambda(lambda: f64) -> anyhow::Result<AtLambda> {
    let (reward, v0) = (1.0, 0.375);
    let mut rewards = vec![0.0; LEN];
    rewards[LEN - 1] = reward;
    let relative = |x: &[f64], y: &[f64]| norm(&difference(x, y)) / norm(y);
    let advantages = gae(&rewards, &[v0; LEN], 1.0, lambda);
    let weights = on_policy_weights(&format!("lambda={lambda}"), &[-0.5; LEN])?;
    Ok(AtLambda {
        lambda,
        implied_critic: relative(&advantages, &[reward - v0; LEN]),
        recent: relative(&weights, &[1.0; LEN]),
    })
}

fn terminal_at_one(seed: u64) -> anyhow::Result<f64> {
    let (group, logps) = batch(seed, 1, 0.0);
    let ours = evaluate("grpo_lambda", "lambda=1 delta=terminal clamp=none", &group, &logps)?;
    let grpo = evaluate("grpo", GRPO, &group, &logps)?;
    Ok(gap(&ours.dlogps.concat(), &grpo.dlogps.concat()))
}
