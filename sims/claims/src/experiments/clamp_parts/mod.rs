//! `clamp_parts`: the clamp taken apart on a transformer that learns single-digit addition.
//!
//! The runs are recorded, and this claim reads their file; `paper/protocols/clamp.toml` names the program that trains them. The arms are those of `clamp_gain`, whose tabular version of the task predicts what is measured here.

pub(crate) mod shown;

use crate::experiment::{Context, Experiment, Parts};
use crate::experiments::common::record::recorded;
use crate::experiments::common::{average, grouped, mean};
use anyhow::Context as _;
use grpo_lambda::advantage::ClampPart;
use grpo_lambda_stats::{Interval, chosen_on_the_others};
use grpo_lambda_trials::{Difference, correct};
use serde::Deserialize;
use shown::{figures, findings, tables};

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "clamp_parts",
    title: "Which part of the clamp helps a transformer learn addition, and at which learning rates?",
    claim: "Clamped advantages make a transformer learn addition better, by how they re-weight prompts",
    source: "Our question: do the results of `clamp_gain` hold on a transformer?",
    run: |context| Parts { measure, findings, tables, figures }.report(context),
};

/// The recorded runs, and the tabular version's.
const RUNS: &str = include_str!("../../../../../paper/data/clamp_parts_runs.csv");
const TABULAR: &str = include_str!("../../../../../paper/data/clamp_gain.csv");

const PARTS: [ClampPart; 4] = ClampPart::ALL;
/// The place of the whole clamp.
const CLAMP: usize = 3;

/// Means over seeds, by arm.
type ByArm = [f64; PARTS.len()];

/// All arms under one optimiser and learning rate.
#[derive(Clone, Debug, Default)]
struct Outcome {
    optimiser: String,
    rate: f64,
    /// Rate over the one of those run at which GRPO solves most.
    ratio: f64,
    /// Share of all problems that the most probable response solves, of every seed in order; by arm.
    solved: [Vec<f64>; PARTS.len()],
    /// The mean of that share over seeds.
    accuracy: ByArm,
    /// The gain of that share over GRPO by arm, corrected over the three arms of all cells; GRPO's own is 0.
    gain: Vec<Difference>,
    /// Success rate of sampled responses.
    sampled: ByArm,
    ungradable: ByArm,
    entropy: ByArm,
    kl: ByArm,
    grad_norm: ByArm,
}

/// An optimiser where every seed has the rate that the other seeds choose, for each arm.
#[derive(Clone, Debug)]
struct Nested {
    optimiser: String,
    /// Mean share of solved problems by arm.
    accuracy: ByArm,
    /// Re-weighting alone, the offset alone, the clamp, the gain of the clamp beyond the sum of its parts, and re-weighting minus the offset.
    gains: [Difference; 5],
}

/// The places in [`Nested::gains`] of the gain beyond the sum and of the difference of the parts; that of an arm is one less than in [`PARTS`].
const BEYOND: usize = 3;
const APART: usize = 4;

struct Numbers {
    nested: Vec<Nested>,
    cells: Vec<Outcome>,
    seeds: usize,
    /// Means over seeds at the start: accuracy, sampled.
    start: [f64; 2],
    /// `(optimiser, ratio, gain of the clamp)` of the tabular version with shared parameters.
    tabular: Vec<(String, f64, Interval)>,
}

/// A run, as it was recorded.
#[derive(Deserialize)]
struct Run {
    optimiser: String,
    rate: f64,
    part: String,
    seed: f64,
    accuracy_before: f64,
    sampled_before: f64,
    accuracy: f64,
    sampled: f64,
    ungradable: f64,
    entropy: f64,
    kl: f64,
    grad_norm: f64,
}

fn measure(_: &Context) -> anyhow::Result<Numbers> {
    from(RUNS, TABULAR)
}

fn from(text: &str, tabular: &str) -> anyhow::Result<Numbers> {
    let runs: Vec<Run> = recorded(text)?;
    let cells = cells(&runs)?;
    let seeds = runs.len() / (cells.len() * PARTS.len()).max(1);
    Ok(Numbers {
        nested: nested(&cells)?,
        cells,
        seeds,
        start: [|run: &Run| run.accuracy_before, |run: &Run| run.sampled_before]
            .map(|level| average(runs.iter().map(level))),
        tabular: tabular_gains(tabular)?,
    })
}

fn cells(runs: &[Run]) -> anyhow::Result<Vec<Outcome>> {
    let mut groups = grouped(runs, |run| (run.optimiser.as_str(), run.rate));
    groups.sort_by(|(a, _), (b, _)| b.0.cmp(a.0).then(a.1.total_cmp(&b.1)));
    let mut cells: Vec<Outcome> = groups.iter().map(|(_, runs)| cell(runs)).collect::<anyhow::Result<_>>()?;
    over_best_of_grpo(&mut cells);
    correct(cells.iter_mut().flat_map(|c| &mut c.gain[1..]), 0);
    Ok(cells)
}

/// Sets the ratio of every cell.
fn over_best_of_grpo(cells: &mut [Outcome]) {
    for optimiser in ["SGD", "AdamW"] {
        let own = || cells.iter().filter(|c| c.optimiser == optimiser);
        let best = own().max_by(|a, b| a.accuracy[0].total_cmp(&b.accuracy[0])).map(|c| c.rate);
        let Some(best) = best else { continue };
        cells.iter_mut().filter(|c| c.optimiser == optimiser).for_each(|c| c.ratio = c.rate / best);
    }
}

/// Every optimiser at nested rates. The clamp's gains, the primary endpoint, are corrected over the optimisers, and so are the differences of the
/// parts, which count with a gain only; the others over all of them.
fn nested(cells: &[Outcome]) -> anyhow::Result<Vec<Nested>> {
    let by_optimiser = cells.chunk_by(|a, b| a.optimiser == b.optimiser);
    let mut all: Vec<Nested> = by_optimiser.map(at_rates_of_others).collect::<anyhow::Result<_>>()?;
    for family in [&[CLAMP - 1][..], &[0, 1, BEYOND], &[APART]] {
        let gains = all.iter_mut().flat_map(|o| o.gains.iter_mut().enumerate());
        correct(gains.filter(|(k, _)| family.contains(k)).map(|(_, gain)| gain), 0);
    }
    Ok(all)
}

/// An optimiser at nested rates; the p of the gains are not corrected yet.
fn at_rates_of_others(cells: &[Outcome]) -> anyhow::Result<Nested> {
    let chosen = |k: usize| {
        let by_rate: Vec<Vec<f64>> = cells.iter().map(|c| c.solved[k].clone()).collect();
        chosen_on_the_others(&by_rate).context("the recorded runs need two seeds of every rate")
    };
    let [none, reweighting, offset, clamp] = [chosen(0)?, chosen(1)?, chosen(2)?, chosen(CLAMP)?];
    let seeds = 0..none.len();
    let sum_of_parts: Vec<f64> = seeds.map(|s| reweighting[s] + offset[s] - none[s]).collect();
    Ok(Nested {
        optimiser: cells[0].optimiser.clone(),
        gains: [
            gain(&reweighting, &none)?,
            gain(&offset, &none)?,
            gain(&clamp, &none)?,
            gain(&clamp, &sum_of_parts)?,
            gain(&reweighting, &offset)?,
        ],
        accuracy: [none, reweighting, offset, clamp].map(|share| mean(&share)),
    })
}

/// The gain of an arm over another, paired by seed.
fn gain(own: &[f64], over: &[f64]) -> anyhow::Result<Difference> {
    Difference::new(own, over, 0.95).context("the recorded runs need two seeds of every rate")
}

fn cell(runs: &[&Run]) -> anyhow::Result<Outcome> {
    let arm = |k: usize| {
        let mut own: Vec<&Run> = runs.iter().copied().filter(|r| r.part == PARTS[k].name()).collect();
        own.sort_by(|a, b| a.seed.total_cmp(&b.seed));
        own
    };
    let arms: [Vec<&Run>; PARTS.len()] = std::array::from_fn(arm);
    let seeds = |k: usize| arms[k].iter().map(|r| r.seed).collect::<Vec<_>>();
    anyhow::ensure!(
        (1..PARTS.len()).all(|k| seeds(k) == seeds(0)),
        "an arm of the recorded runs lacks a seed"
    );
    let values = |k: usize, of: fn(&Run) -> f64| arms[k].iter().map(|r| of(r)).collect::<Vec<f64>>();
    let level = |of: fn(&Run) -> f64| std::array::from_fn(|k| mean(&values(k, of)));
    let solved: [Vec<f64>; PARTS.len()] = std::array::from_fn(|k| values(k, |run| run.accuracy));
    Ok(Outcome {
        optimiser: runs[0].optimiser.clone(),
        rate: runs[0].rate,
        ratio: 1.0,
        accuracy: level(|run| run.accuracy),
        gain: solved.iter().map(|own| gain(own, &solved[0])).collect::<anyhow::Result<_>>()?,
        solved,
        sampled: level(|run| run.sampled),
        ungradable: level(|run| run.ungradable),
        entropy: level(|run| run.entropy),
        kl: level(|run| run.kl),
        grad_norm: level(|run| run.grad_norm),
    })
}

fn tabular_gains(text: &str) -> anyhow::Result<Vec<(String, f64, Interval)>> {
    #[derive(Deserialize)]
    struct Row {
        policy: String,
        optimiser: String,
        rate_over_best_of_grpo: f64,
        arm: String,
        gain: f64,
        gain_low: f64,
        gain_high: f64,
    }
    let mut rows: Vec<Row> = recorded(text)?;
    rows.retain(|row| row.policy == "shared" && row.arm == PARTS[CLAMP].name());
    let gain = |row: Row| {
        let interval = Interval { low: row.gain_low, mid: row.gain, high: row.gain_high, level: 0.95 };
        (row.optimiser, row.rate_over_best_of_grpo, interval)
    };
    Ok(rows.into_iter().map(gain).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_the_paired_rows_of_its_seeds() {
        let head = "optimiser,rate,part,seed,accuracy_before,sampled_before,accuracy,sampled,ungradable,entropy,kl,grad_norm";
        let row = |part: ClampPart, seed, accuracy| {
            format!("SGD,0.5,{},{seed},0.2,0.1,{accuracy},0.3,0,1,0.5,2\n", part.name())
        };
        let mut text = format!("# x\n{head}\n");
        for (k, part) in PARTS.into_iter().enumerate() {
            text += &row(part, 1, 0.5 + 0.1 * k as f64);
            text += &row(part, 0, 0.3);
        }
        let tabular = "# y\npolicy,optimiser,rate_over_best_of_grpo,arm,gain,gain_low,gain_high\nshared,SGD,1,both (the clamp),0.1,0,0.2\n";
        let n = from(&text, tabular).unwrap();
        assert_eq!((n.cells.len(), n.seeds), (1, 2));
        let c = &n.cells[0];
        assert!((c.gain[CLAMP].interval.mid - 0.15).abs() < 1e-12 && c.accuracy[0] == 0.4);
        let o = &n.nested[0];
        assert!((o.gains[CLAMP - 1].interval.mid - 0.15).abs() < 1e-12, "{o:?}");
        // Seed 1 goes up by 0.1, 0.2 and 0.3, seed 0 not at all: the parts add up.
        assert!(o.gains[BEYOND].interval.mid.abs() < 1e-12, "{o:?}");
        assert!((o.gains[APART].interval.mid + 0.05).abs() < 1e-12, "{o:?}");
        assert_eq!((n.tabular.len(), n.tabular[0].2.mid), (1, 0.1));
        let lacking = text.replacen("SGD,0.5,offset only,1,", "SGD,0.5,offset only,7,", 1);
        assert!(from(&lacking, tabular).is_err(), "pairs must be pairs");
    }
}
