//! `clamp_gain`: the effect of the clamp on learning, taken apart.
//!
//! In a group of `G` binary rewards, `k` of them right, clamped advantages are
//!
//! ```text
//! A_i = β_k (r_i - k/G) + α_k,      β_k = A(right) - A(wrong),   α_k = the mean of the group's clamped advantages
//! none         β_k as without the clamp, α_k = 0
//! re-weighting β_k of the clamp,         α_k = 0
//! offset       β_k as without the clamp, α_k of the clamp
//! both         the clamp
//! ```
//! With `p` the success rate of the prompt and one token weight per response the expected update of each is a multiple of `∇p`:
//!
//! ```text
//! E[ Σ_i A_i ∇log π_i ] = E[ β_k k (G-k)/G + α_k (k - G p) ] / (p (1-p))  ∇p
//! ```
//! **Proof.** Given its reward a response is independent of the others, with `E[∇log π | r=1] = ∇p/p` and `E[∇log π | r=0] = -∇p/(1-p)`.
//! Sum over the group: the wrong and right parts of `β_k (r_i - k/G)` give `β_k k (G-k)/G (1/p + 1/(1-p))`, those of `α_k` give
//! `α_k (k/p - (G-k)/(1-p))`. ∎ The offset alone would push nothing on average if `α_k` were a constant; it depends on `k`, and does.

mod findings;
mod run;
pub(crate) mod shown;
pub(crate) mod weights;

use grpo_lambda_stats::{Interval, holm, mean, paired_permutation, t_interval};
use rayon::prelude::*;

use crate::experiment::{Context, Experiment, Parts};
use crate::experiments::common::vectors::{difference, quantile};
use findings::findings;
use run::{Kind, Setting, Sums, train};
use shown::{figures, tables};
use weights::ARMS;

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "clamp_gain",
    title: "Where does the clamp's gain come from: prompts re-weighted, an offset, shared parameters or Adam?",
    claim: "The clamp at -0.1 helps a policy that answers many prompts from shared parameters",
    source: "ours; a transformer trained on addition gained from the clamp, tables did not",
    run: |context| Parts { measure, findings, tables, figures }.report(context),
};

/// Learning rates over the best of GRPO.
const RATIOS: [f64; 6] = [1.0 / 16.0, 1.0 / 8.0, 1.0 / 4.0, 1.0 / 2.0, 1.0, 2.0];
/// Paired runs per cell; also start policies.
const RUNS: usize = 12;
/// Runs per rate of the choice, on streams of their own.
const SELECTION: usize = 4;
/// Sign flips of a permutation test that cannot take all.
const FLIPS: usize = 9999;
/// Success rates at which the weights of prompts are drawn.
const POINTS: usize = 49;

/// All arms under one policy, optimiser and learning rate.
#[derive(Clone, Debug)]
struct Outcome {
    shared: bool,
    kind: Kind,
    ratio: f64,
    /// The learning rate.
    rate: f64,
    /// Mean final `J` by arm.
    level: [f64; ARMS.len()],
    /// Final `J` less that of GRPO, pairs of runs, Student's t interval at 95 %; by arm.
    gain: [Interval; ARMS.len()],
    /// Paired permutation test of the clamp's gain, two-sided, and corrected over all cells (Holm).
    p: f64,
    p_holm: f64,
}

struct Numbers {
    cells: Vec<Outcome>,
    updates: usize,
    /// Quartiles of the success rates of prompts under the start policies.
    start: [f64; 3],
    /// `(success rate, weight by arm)`.
    weights: Vec<(f64, [f64; ARMS.len()])>,
}

fn measure(context: &Context) -> anyhow::Result<Numbers> {
    let updates = if context.full { 600 } else { 150 };
    let sums: Vec<Sums> = (0..RUNS + SELECTION)
        .into_par_iter()
        .map(|i| Sums::new(context.seed.wrapping_add(i as u64)))
        .collect();
    (context.progress)(0.1, "imitation");
    let (reported, selection) = sums.split_at(RUNS);
    let settings: Vec<(bool, Kind)> =
        [true, false].into_iter().flat_map(|shared| Kind::ALL.map(|kind| (shared, kind))).collect();
    let mut cells = Vec::new();
    for &(shared, kind) in &settings {
        let best = kept_best_rate(context, selection, shared, kind, updates)?;
        for ratio in RATIOS {
            let setting = Setting { shared, kind, rate: best * ratio, updates };
            cells.push(cell(context, reported, setting, ratio)?);
            let share = cells.len() as f64 / (settings.len() * RATIOS.len()) as f64;
            (context.progress)(0.1 + 0.85 * share, "training");
        }
    }
    let corrected = holm(&cells.iter().map(|c| c.p).collect::<Vec<_>>());
    cells.iter_mut().zip(corrected).for_each(|(c, p)| c.p_holm = p);
    let starts: Vec<f64> = reported.iter().flat_map(Sums::start).collect();
    let weight = |i: usize| {
        let p = (i + 1) as f64 / (POINTS + 1) as f64;
        (p, ARMS.map(|arm| arm.weight(p)))
    };
    let weights = (0..POINTS).map(weight).collect();
    Ok(Numbers { cells, updates, start: [0.25, 0.5, 0.75].map(|q| quantile(&starts, q)), weights })
}

/// [`best_rate`], computed or kept.
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
        let j = |(i, s): (usize, &Sums)| train(s, ARMS[0], setting, seed ^ 0x5e1e_c710 ^ ((i as u64) << 32));
        let all: Vec<f64> = sums.iter().enumerate().map(j).collect();
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
    let by_arm = |i: usize| ARMS.map(|arm| train(&sums[i], arm, setting, seed(i)));
    let work = || Ok((0..sums.len()).into_par_iter().map(by_arm).collect());
    context.store.piece(&format!("runs/{}/{}/{ratio}", setting.shared, setting.kind.name()), work)
}

fn cell(context: &Context, sums: &[Sums], setting: Setting, ratio: f64) -> anyhow::Result<Outcome> {
    let runs = runs(context, sums, setting, ratio)?;
    let none = Interval { low: 0.0, mid: 0.0, high: 0.0, level: 0.95 };
    let finals = |arm: usize| runs.iter().map(|r| r[arm]).collect::<Vec<f64>>();
    let interval = |arm: usize| t_interval(&difference(&finals(arm), &finals(0)), 0.95).unwrap_or(none);
    let p = paired_permutation(&finals(ARMS.len() - 1), &finals(0), FLIPS, context.seed)
        .map_or(1.0, |test| test.p);
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
