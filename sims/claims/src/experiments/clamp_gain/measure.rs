//! What is computed.

use std::sync::atomic::{AtomicUsize, Ordering};

use grpo_lambda_stats::{Interval, holm, mean, paired_permutation, t_interval};
use rayon::prelude::*;

use super::optimiser::Kind;
use super::run::{Setting, Sums, train};
use super::weights::ARMS;
use crate::experiment::Context;

/// Learning rates over the best of GRPO.
pub(super) const RATIOS: [f64; 6] = [1.0 / 16.0, 1.0 / 8.0, 1.0 / 4.0, 1.0 / 2.0, 1.0, 2.0];
/// Paired runs per cell; also start policies.
pub(super) const RUNS: usize = 12;
/// Runs per rate of the choice, on streams of their own.
const SELECTION: usize = 4;
/// Sign flips of a permutation test, where not all are taken.
const FLIPS: usize = 9999;
/// Success rates at which the weights of prompts are drawn.
const POINTS: usize = 49;

/// All arms under one policy, optimiser and learning rate.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) shared: bool,
    pub(super) kind: Kind,
    pub(super) ratio: f64,
    /// The learning rate.
    pub(super) rate: f64,
    /// Mean final `J` by arm.
    pub(super) level: [f64; ARMS.len()],
    /// Final `J` less that of GRPO, pairs of runs, Student's t interval at 95 %; by arm.
    pub(super) gain: [Interval; ARMS.len()],
    /// Paired permutation test of the clamp's gain, two-sided, and corrected over all cells (Holm).
    pub(super) p: f64,
    pub(super) p_holm: f64,
}

pub(super) struct Numbers {
    pub(super) cells: Vec<Outcome>,
    pub(super) updates: usize,
    /// Quartiles of the success rates of prompts under the start policies.
    pub(super) start: [f64; 3],
    /// `(success rate, weight by arm)`.
    pub(super) weights: Vec<(f64, [f64; ARMS.len()])>,
}

pub(super) fn measure(context: &Context) -> anyhow::Result<Numbers> {
    let updates = if context.full { 600 } else { 150 };
    let sums: Vec<Sums> = (0..RUNS + SELECTION)
        .into_par_iter()
        .map(|i| Sums::new(context.seed.wrapping_add(i as u64)))
        .collect();
    (context.progress)(0.1, "imitation");
    let (reported, selection) = sums.split_at(RUNS);
    let settings: Vec<(bool, Kind)> =
        [true, false].into_iter().flat_map(|shared| Kind::ALL.map(|kind| (shared, kind))).collect();
    let done = AtomicUsize::new(0);
    let mut cells = Vec::new();
    for &(shared, kind) in &settings {
        let best = kept_best_rate(context, selection, shared, kind, updates)?;
        for ratio in RATIOS {
            let setting = Setting { shared, kind, rate: best * ratio, updates };
            cells.push(cell(context, reported, setting, ratio)?);
            let share =
                (done.fetch_add(1, Ordering::Relaxed) + 1) as f64 / (settings.len() * RATIOS.len()) as f64;
            (context.progress)(0.1 + 0.85 * share, "training");
        }
    }
    let corrected = holm(&cells.iter().map(|c| c.p).collect::<Vec<_>>());
    cells.iter_mut().zip(corrected).for_each(|(c, p)| c.p_holm = p);
    let starts: Vec<f64> = reported.iter().flat_map(Sums::start).collect();
    let quartile = |q| crate::experiments::common::vectors::quantile(&starts, q);
    let weight = |i: usize| {
        let p = (i + 1) as f64 / (POINTS + 1) as f64;
        (p, ARMS.map(|arm| arm.weight(p)))
    };
    let weights = (0..POINTS).map(weight).collect();
    Ok(Numbers { cells, updates, start: [0.25, 0.5, 0.75].map(quartile), weights })
}

/// [`best_rate`], or what is kept of it.
fn kept_best_rate(
    context: &Context,
    sums: &[Sums],
    shared: bool,
    kind: Kind,
    updates: usize,
) -> anyhow::Result<f64> {
    let work = || Ok(best_rate(sums, shared, kind, updates, context.seed));
    context.store.piece(&format!("best/{shared}/{}", kind.name()), work)
}

/// GRPO's best rate on a grid of powers of two.
fn best_rate(sums: &[Sums], shared: bool, kind: Kind, updates: usize, seed: u64) -> f64 {
    let exponents = match kind {
        Kind::Sgd => -3..=8,
        Kind::AdamW => -12..=0,
    };
    let score = |k: i32| {
        let setting = Setting { shared, kind, rate: 2f64.powi(k), updates };
        let of = |(i, s): (usize, &Sums)| train(s, ARMS[0], setting, seed ^ 0x5e1e_c710 ^ ((i as u64) << 32));
        let all: Vec<f64> = sums.iter().enumerate().map(of).collect();
        (k, mean(&all).unwrap_or(f64::NAN))
    };
    let tried: Vec<(i32, f64)> = exponents.collect::<Vec<_>>().into_par_iter().map(score).collect();
    let best = tried.iter().max_by(|a, b| a.1.total_cmp(&b.1));
    2f64.powi(best.map_or(0, |(k, _)| *k))
}

/// The final `J` of every run by arm, computed or kept.
fn runs(
    context: &Context,
    sums: &[Sums],
    setting: Setting,
    ratio: f64,
) -> anyhow::Result<Vec<[f64; ARMS.len()]>> {
    let seed = |i: usize| context.seed.wrapping_add((i as u64) << 24);
    let of = |i: usize| ARMS.map(|arm| train(&sums[i], arm, setting, seed(i)));
    let work = || Ok((0..sums.len()).into_par_iter().map(of).collect());
    context.store.piece(&format!("runs/{}/{}/{ratio}", setting.shared, setting.kind.name()), work)
}

fn cell(context: &Context, sums: &[Sums], setting: Setting, ratio: f64) -> anyhow::Result<Outcome> {
    let runs = runs(context, sums, setting, ratio)?;
    let gains = |arm: usize| runs.iter().map(|r| r[arm] - r[0]).collect::<Vec<f64>>();
    let none = Interval { low: 0.0, mid: 0.0, high: 0.0, level: 0.95 };
    let interval = |arm: usize| t_interval(&gains(arm), 0.95).unwrap_or(none);
    let of = |arm: usize| runs.iter().map(|r| r[arm]).collect::<Vec<f64>>();
    let p = paired_permutation(&of(ARMS.len() - 1), &of(0), FLIPS, context.seed).map_or(1.0, |test| test.p);
    Ok(Outcome {
        shared: setting.shared,
        kind: setting.kind,
        ratio,
        rate: setting.rate,
        level: std::array::from_fn(|arm| runs.iter().map(|r| r[arm]).sum::<f64>() / runs.len() as f64),
        gain: std::array::from_fn(interval),
        p,
        p_holm: p,
    })
}
