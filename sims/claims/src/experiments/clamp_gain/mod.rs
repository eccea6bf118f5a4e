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
//! weights      β_k as without the clamp, α_k = 0, times the clamp's multiple of ∇p over GRPO's, at the prompt's true success rate
//! ```
//! With `p` the success rate of the prompt and one token weight per response the expected update of each is a multiple of `∇p`:
//!
//! ```text
//! E[ Σ_i A_i ∇log π_i ] = E[ β_k k (G-k)/G + α_k (k - G p) ] / (p (1-p))  ∇p
//! ```
//! **Proof.** Given its reward a response is independent of the others, with `E[∇log π | r=1] = ∇p/p` and `E[∇log π | r=0] = -∇p/(1-p)`.
//! Sum over the group: the wrong and right parts of `β_k (r_i - k/G)` give `β_k k (G-k)/G (1/p + 1/(1-p))`, those of `α_k` give
//! `α_k (k/p - (G-k)/(1-p))`. ∎
//!
//! By Stein's identity for the binomial, `E[(k - Gp) f(k)] = G p (1-p) E[f(k+1) - f(k)]` with `k` of Bin(G-1, p) on the right, the multiple is,
//! per response,
//!
//! ```text
//! w(p) = (G-1)/G E_Bin(G-2,p)[ β_(k+1) ] + E_Bin(G-1,p)[ α_(k+1) - α_k ]
//! ```
//! The offset acts through its slope in `k`: a constant one does nothing, and one that rises and falls helps and hurts prompts by their success
//! rate.

mod findings;
pub(crate) mod measure;
pub(crate) mod shown;

use crate::experiment::{Context, Experiment, Parts};
use crate::experiments::common::quantile;
use anyhow::Context as _;
use findings::findings;
use grpo_lambda_stats::{chosen_on_the_others, mean};
use grpo_lambda_trials::{Difference, correct};
use measure::{ARMS, CLAMPED, Course, Kind, Setting, Sums, train};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use shown::{figures, tables};

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "clamp_gain",
    title: "Does the clamp help by re-weighting prompts, by an offset, through shared parameters or through Adam?",
    claim: "The clamp at -0.1 helps a policy that answers many prompts from shared parameters",
    source: "Our question: why did the clamp help a transformer on addition, but not tabular policies?",
    run: |context| Parts { measure, findings, tables, figures }.report(context),
};

/// Learning rates over the best of GRPO.
const RATIOS: [f64; 7] = [1.0 / 16.0, 1.0 / 8.0, 1.0 / 4.0, 1.0 / 2.0, 1.0, 2.0, 4.0];
/// Paired runs per cell; also start policies.
const RUNS: usize = 12;
/// Runs per rate of the choice, on streams of their own.
const SELECTION: usize = 4;
/// Success rates at which the weights of prompts are drawn.
const POINTS: usize = 49;

/// All arms under one policy, optimiser and learning rate.
#[derive(Clone, Debug)]
struct Outcome {
    shared: bool,
    kind: Kind,
    ratio: f64,
    rate: f64,
    /// The areas of every run by arm.
    areas: [Vec<f64>; ARMS.len()],
    /// Mean final `J` by arm.
    last: [f64; ARMS.len()],
    /// Updates until `J` is 0.8 of every run by arm; none where it does not get there.
    learned: [Vec<Option<usize>>; ARMS.len()],
    /// Area minus that of GRPO, pairs of runs, at 95 %; by arm. The clamp's is corrected over all cells.
    gain: Vec<Difference>,
}

impl Outcome {
    /// The mean number of updates until `J` is 0.8, if every run of an arm gets there.
    fn updates_to_learned(&self, arm: usize) -> Option<f64> {
        let all: Option<Vec<usize>> = self.learned[arm].iter().copied().collect();
        mean(&all?.into_iter().map(|updates| updates as f64).collect::<Vec<_>>())
    }
}

/// GRPO's best rate on a grid.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Best {
    rate: f64,
    /// True if it is an end of the grid.
    at_edge: bool,
}

/// A policy and optimiser where every run has the rate that the other runs choose, for the arm and for GRPO.
#[derive(Clone, Debug)]
struct Nested {
    shared: bool,
    kind: Kind,
    /// Area minus GRPO's by arm, at 95 %.
    gain: Vec<Difference>,
    /// True if the arm's best mean area is at an end of the ratios.
    at_edge: [bool; ARMS.len()],
    /// The rate at the ratio 1.
    best: Best,
}

struct Numbers {
    cells: Vec<Outcome>,
    nested: Vec<Nested>,
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
    let (mut cells, mut nested) = (Vec::new(), Vec::new());
    for &(shared, kind) in &settings {
        let work = || Ok(best_rate(selection, shared, kind, updates, context.seed));
        let best: Best = context.store.piece(&format!("best/{shared}/{}", kind.name()), work)?;
        for ratio in RATIOS {
            let setting = Setting { shared, kind, rate: best.rate * ratio, updates };
            cells.push(cell(context, reported, setting, ratio)?);
            let share = cells.len() as f64 / (settings.len() * RATIOS.len()) as f64;
            (context.progress)(0.1 + 0.85 * share, "training");
        }
        nested.push(at_rates_of_others(&cells[cells.len() - RATIOS.len()..], best)?);
    }
    correct(cells.iter_mut().map(|c: &mut Outcome| &mut c.gain[CLAMPED]), 0);
    let starts: Vec<f64> = reported.iter().flat_map(Sums::start).collect();
    let weight = |i: usize| {
        let p = (i + 1) as f64 / (POINTS + 1) as f64;
        (p, ARMS.map(|arm| arm.prepared().weight(p)))
    };
    let weights = (0..POINTS).map(weight).collect();
    Ok(Numbers { cells, nested, updates, start: [0.25, 0.5, 0.75].map(|q| quantile(&starts, q)), weights })
}

/// GRPO's best rate on a grid of powers of two.
fn best_rate(sums: &[Sums], shared: bool, kind: Kind, updates: usize, seed: u64) -> Best {
    let exponents = match kind {
        Kind::Sgd => -3..=8,
        Kind::AdamW => -12..=0,
    };
    let score = |k: i32| {
        let setting = Setting { shared, kind, rate: 2f64.powi(k), updates };
        let j =
            |(i, s): (usize, &Sums)| train(s, ARMS[0], setting, seed ^ 0x5e1e_c710 ^ ((i as u64) << 32)).area;
        let all: Vec<f64> = sums.iter().enumerate().map(j).collect();
        (k, mean(&all).unwrap_or(f64::NAN))
    };
    let tried: Vec<(i32, f64)> = exponents.clone().collect::<Vec<_>>().into_par_iter().map(score).collect();
    let best = tried.iter().max_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(k, _)| *k);
    Best { rate: 2f64.powi(best), at_edge: best == *exponents.start() || best == *exponents.end() }
}

/// Every run by arm, computed or kept.
fn runs(
    context: &Context,
    sums: &[Sums],
    setting: Setting,
    ratio: f64,
) -> anyhow::Result<Vec<[Course; ARMS.len()]>> {
    let seed = |i: usize| context.seed.wrapping_add((i as u64) << 24);
    let by_arm = |i: usize| ARMS.map(|arm| train(&sums[i], arm, setting, seed(i)));
    let work = || Ok((0..sums.len()).into_par_iter().map(by_arm).collect());
    context.store.piece(&format!("runs/{}/{}/{ratio}", setting.shared, setting.kind.name()), work)
}

fn cell(context: &Context, sums: &[Sums], setting: Setting, ratio: f64) -> anyhow::Result<Outcome> {
    let runs = runs(context, sums, setting, ratio)?;
    let score = |arm: usize, of: fn(&Course) -> f64| runs.iter().map(|r| of(&r[arm])).collect::<Vec<f64>>();
    let areas: [Vec<f64>; ARMS.len()] = std::array::from_fn(|arm| score(arm, |run| run.area));
    let average =
        |of: fn(&Course) -> f64| std::array::from_fn(|arm| mean(&score(arm, of)).unwrap_or(f64::NAN));
    Ok(Outcome {
        shared: setting.shared,
        kind: setting.kind,
        ratio,
        rate: setting.rate,
        last: average(|run| run.last),
        learned: std::array::from_fn(|arm| runs.iter().map(|r| r[arm].learned).collect()),
        gain: areas.iter().map(|own| gain(own, &areas[0])).collect::<anyhow::Result<_>>()?,
        areas,
    })
}

/// The gain of an arm over GRPO, paired by run.
fn gain(own: &[f64], grpo: &[f64]) -> anyhow::Result<Difference> {
    Difference::new(own, grpo, 0.95).context("a gain needs two runs")
}

/// The cells of a policy and optimiser, one per rate, at rates chosen on the other runs.
fn at_rates_of_others(cells: &[Outcome], best: Best) -> anyhow::Result<Nested> {
    let by_rate = |arm: usize| cells.iter().map(|c| c.areas[arm].clone()).collect::<Vec<_>>();
    let chosen = |arm: usize| chosen_on_the_others(&by_rate(arm)).unwrap_or_default();
    let level = |c: &Outcome, arm: usize| mean(&c.areas[arm]).unwrap_or(f64::NAN);
    let at_edge = |arm: usize| {
        let best = (0..cells.len()).max_by(|&a, &b| level(&cells[a], arm).total_cmp(&level(&cells[b], arm)));
        best == Some(0) || best == Some(cells.len() - 1)
    };
    Ok(Nested {
        shared: cells[0].shared,
        kind: cells[0].kind,
        gain: (0..ARMS.len()).map(|arm| gain(&chosen(arm), &chosen(0))).collect::<anyhow::Result<_>>()?,
        at_edge: std::array::from_fn(at_edge),
        best,
    })
}
