//! What is read, and what follows from it.

use grpo_lambda::advantage::ClampPart;
use grpo_lambda_stats::{Interval, holm, paired_permutation, t_interval};

use crate::experiment::Context;
use crate::experiments::common::recorded::Recorded;
use crate::experiments::common::vectors::mean;

/// The recorded runs, and what the tabular twin says.
pub(super) const RUNS: &str = include_str!("../../../../../paper/data/clamp_parts_runs.csv");
pub(super) const TWIN: &str = include_str!("../../../../../paper/data/clamp_gain.csv");

pub(super) const PARTS: [ClampPart; 4] = ClampPart::ALL;
/// The place of the whole clamp.
pub(super) const CLAMP: usize = 3;

/// One quantity of the runs of a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Level {
    /// Mean over seeds, by arm.
    pub(super) of: [f64; PARTS.len()],
}

/// All arms under one optimiser and learning rate.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) optimiser: String,
    pub(super) rate: f64,
    /// Rate over the one of those run at which GRPO solves most.
    pub(super) ratio: f64,
    /// Share of all problems that the most probable response solves, of every seed in order; by arm.
    pub(super) solved: [Vec<f64>; PARTS.len()],
    /// Its mean over seeds.
    pub(super) accuracy: Level,
    /// Its gain over GRPO, pairs of runs, Student's t interval at 95 %; by arm.
    pub(super) gain: [Interval; PARTS.len()],
    /// Sign flips of each arm's gain over seeds, two-sided; and corrected over the three arms of all cells (Holm). 1 for GRPO.
    pub(super) p: [f64; PARTS.len()],
    pub(super) p_holm: [f64; PARTS.len()],
    /// Success rate of sampled responses.
    pub(super) sampled: Level,
    pub(super) ungradable: Level,
    pub(super) entropy: Level,
    pub(super) kl: Level,
    pub(super) grad_norm: Level,
}

/// A gain in solved problems, over pairs of runs, with its p by sign flips over seeds, corrected over all of a kind (Holm).
#[derive(Clone, Copy, Debug)]
pub(super) struct Gain {
    pub(super) interval: Interval,
    pub(super) p_holm: f64,
}

/// An optimiser over all its learning rates: every seed counts once, with its mean over the rates.
#[derive(Clone, Debug)]
pub(super) struct Overall {
    pub(super) optimiser: String,
    /// Re-weighting alone, the offset alone, the clamp, and what the clamp gains beyond the sum of its parts.
    pub(super) gains: [Gain; 4],
    /// The clamp at the rate at which it solves most less GRPO at its own.
    pub(super) at_best: Interval,
}

/// The place of what is beyond the sum, in [`Overall::gains`]; that of an arm is one less than in [`PARTS`].
pub(super) const BEYOND: usize = 3;

pub(super) struct Numbers {
    pub(super) overall: Vec<Overall>,
    pub(super) cells: Vec<Outcome>,
    pub(super) seeds: usize,
    /// Means over seeds at the start: accuracy, sampled.
    pub(super) start: [f64; 2],
    /// `(optimiser, ratio, gain of the clamp)` of the tabular twin with shared parameters.
    pub(super) twin: Vec<(String, f64, Interval)>,
}

/// The columns that are averaged, in the order of [`Outcome`].
const COLUMNS: [&str; 6] = ["accuracy", "sampled", "ungradable", "entropy", "kl", "grad_norm"];
const AT_START: [&str; 2] = ["accuracy_before", "sampled_before"];

/// A run's numbers: those of [`COLUMNS`]; none where it has none.
struct Run {
    optimiser: String,
    rate: f64,
    part: String,
    seed: f64,
    values: [Option<f64>; COLUMNS.len()],
}

pub(super) fn measure(_: &Context) -> anyhow::Result<Numbers> {
    from(RUNS, TWIN)
}

fn from(text: &str, twin: &str) -> anyhow::Result<Numbers> {
    let recorded = Recorded::new(text)?;
    let mut runs = Vec::new();
    let mut starts: [Vec<f64>; AT_START.len()] = Default::default();
    for row in recorded.rows() {
        let mut values = [None; COLUMNS.len()];
        for (value, column) in values.iter_mut().zip(COLUMNS) {
            *value = row.optional(column)?;
        }
        for (start, column) in starts.iter_mut().zip(AT_START) {
            start.extend(row.optional(column)?);
        }
        runs.push(Run {
            optimiser: row.text("optimiser")?,
            rate: row.number("rate")?,
            part: row.text("part")?,
            seed: row.number("seed")?,
            values,
        });
    }
    let cells = cells(&runs)?;
    let seeds = runs.len() / (cells.len() * PARTS.len()).max(1);
    Ok(Numbers {
        overall: overall(&cells),
        cells,
        seeds,
        start: starts.map(|s| mean(&s)),
        twin: of_twin(twin)?,
    })
}

fn cells(runs: &[Run]) -> anyhow::Result<Vec<Outcome>> {
    let mut keys: Vec<(&str, f64)> = Vec::new();
    for run in runs {
        if !keys.contains(&(run.optimiser.as_str(), run.rate)) {
            keys.push((&run.optimiser, run.rate));
        }
    }
    keys.sort_by(|a, b| b.0.cmp(a.0).then(a.1.total_cmp(&b.1)));
    let of = |&(optimiser, rate): &(&str, f64)| {
        cell(&runs.iter().filter(|r| r.optimiser == optimiser && r.rate == rate).collect::<Vec<_>>())
    };
    let mut cells: Vec<Outcome> = keys.iter().map(of).collect::<anyhow::Result<_>>()?;
    over_best_of_grpo(&mut cells);
    let corrected = holm(&cells.iter().flat_map(|c| c.p[1..].to_vec()).collect::<Vec<_>>());
    let by_cell = corrected.chunks_exact(PARTS.len() - 1);
    cells.iter_mut().zip(by_cell).for_each(|(c, p)| c.p_holm[1..].copy_from_slice(p));
    Ok(cells)
}

/// Sets the ratio of every cell.
fn over_best_of_grpo(cells: &mut [Outcome]) {
    for optimiser in ["SGD", "AdamW"] {
        let own = || cells.iter().filter(|c| c.optimiser == optimiser);
        let best = own().max_by(|a, b| a.accuracy.of[0].total_cmp(&b.accuracy.of[0])).map(|c| c.rate);
        let Some(best) = best else { continue };
        cells.iter_mut().filter(|c| c.optimiser == optimiser).for_each(|c| c.ratio = c.rate / best);
    }
}

fn overall(cells: &[Outcome]) -> Vec<Overall> {
    let mut optimisers: Vec<&str> = cells.iter().map(|c| c.optimiser.as_str()).collect();
    optimisers.dedup();
    let of = |optimiser: &&str| {
        of_optimiser(&cells.iter().filter(|c| c.optimiser == *optimiser).collect::<Vec<_>>())
    };
    let mut all: Vec<Overall> = optimisers.iter().map(of).collect();
    let corrected = holm(&all.iter().flat_map(|o| o.gains.map(|g| g.p_holm)).collect::<Vec<_>>());
    for (gain, p) in all.iter_mut().flat_map(|o| &mut o.gains).zip(corrected) {
        gain.p_holm = p;
    }
    all
}

/// The p of its gains are not corrected yet.
fn of_optimiser(cells: &[&Outcome]) -> Overall {
    let seeds = cells[0].solved[0].len();
    let over_rates = |k: usize| {
        let of_seed = |seed: usize| mean(&cells.iter().map(|c| c.solved[k][seed]).collect::<Vec<_>>());
        (0..seeds).map(of_seed).collect::<Vec<f64>>()
    };
    let arms: [Vec<f64>; PARTS.len()] = std::array::from_fn(over_rates);
    let none = &arms[0];
    let sum_of_parts: Vec<f64> = (0..seeds).map(|s| arms[1][s] + arms[2][s] - none[s]).collect();
    let gain = |a: &[f64], b: &[f64]| Gain { interval: interval(&less(a, b)), p_holm: by_sign_flips(a, b) };
    let best = |k: usize| {
        let most = cells.iter().max_by(|a, b| a.accuracy.of[k].total_cmp(&b.accuracy.of[k]));
        most.map_or(&[][..], |c| &c.solved[k])
    };
    Overall {
        optimiser: cells[0].optimiser.clone(),
        gains: [
            gain(&arms[1], none),
            gain(&arms[2], none),
            gain(&arms[3], none),
            gain(&arms[CLAMP], &sum_of_parts),
        ],
        at_best: interval(&less(best(CLAMP), best(0))),
    }
}

fn less(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a - b).collect()
}

/// Student's t at 95 % over seeds; the mean alone where there is one seed.
fn interval(differences: &[f64]) -> Interval {
    let mid = mean(differences);
    t_interval(differences, 0.95).unwrap_or(Interval { low: mid, mid, high: mid, level: 0.95 })
}

fn by_sign_flips(a: &[f64], b: &[f64]) -> f64 {
    paired_permutation(a, b, 9999, 0).map_or(1.0, |test| test.p)
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
    let values =
        |k: usize, column: usize| arms[k].iter().filter_map(|r| r.values[column]).collect::<Vec<f64>>();
    let level = |column| Level { of: std::array::from_fn(|k| mean(&values(k, column))) };
    let solved: [Vec<f64>; PARTS.len()] = std::array::from_fn(|k| values(k, 0));
    let p = std::array::from_fn(|k| match k {
        0 => 1.0,
        _ => by_sign_flips(&solved[k], &solved[0]),
    });
    Ok(Outcome {
        optimiser: runs[0].optimiser.clone(),
        rate: runs[0].rate,
        ratio: 1.0,
        accuracy: level(0),
        gain: std::array::from_fn(|k| interval(&less(&solved[k], &solved[0]))),
        solved,
        p,
        p_holm: p,
        sampled: level(1),
        ungradable: level(2),
        entropy: level(3),
        kl: level(4),
        grad_norm: level(5),
    })
}

fn of_twin(text: &str) -> anyhow::Result<Vec<(String, f64, Interval)>> {
    let recorded = Recorded::new(text)?;
    let mut all = Vec::new();
    for row in recorded.rows() {
        if row.text("policy")? == "shared" && row.text("arm")? == PARTS[CLAMP].name() {
            let [mid, low, high] = [row.number("gain")?, row.number("gain_low")?, row.number("gain_high")?];
            let ratio = row.number("rate_over_best_of_grpo")?;
            all.push((row.text("optimiser")?, ratio, Interval { low, mid, high, level: 0.95 }));
        }
    }
    Ok(all)
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
        let twin = "# y\npolicy,optimiser,rate_over_best_of_grpo,arm,gain,gain_low,gain_high\nshared,SGD,1,both (the clamp),0.1,0,0.2\n";
        let n = from(&text, twin).unwrap();
        assert_eq!((n.cells.len(), n.seeds), (1, 2));
        let c = &n.cells[0];
        assert!((c.gain[CLAMP].mid - 0.15).abs() < 1e-12 && c.accuracy.of[0] == 0.4);
        let o = &n.overall[0];
        assert!(
            (o.gains[CLAMP - 1].interval.mid - 0.15).abs() < 1e-12 && (o.at_best.mid - 0.15).abs() < 1e-12
        );
        // Seed 1 goes up by 0.1, 0.2 and 0.3, seed 0 not at all: the parts add up.
        assert!(o.gains[BEYOND].interval.mid.abs() < 1e-12, "{o:?}");
        assert_eq!((n.twin.len(), n.twin[0].2.mid), (1, 0.1));
        let lacking = text.replacen("SGD,0.5,offset only,1,", "SGD,0.5,offset only,7,", 1);
        assert!(from(&lacking, twin).is_err(), "pairs must be pairs");
    }
}
