//! `learning`: does GRPO-lambda learn faster, and because of its credit assignment?
//!
//! Exact `J(θ)` against responses sampled, every method trained by [`grpo_lambda::learner::iterate`] on a tabular
//! policy. A trace multiplies the gradient as well as reshaping it, so a comparison at one learning rate mixes two things;
//! `Regime` separates them. Learning rates are chosen on selection runs whose streams are never reported.

mod exact;
mod figures;
mod reading;
mod run;
mod scores;
mod tables;
mod verdicts;

use std::sync::atomic::{AtomicUsize, Ordering};

use grpo_lambda::mdp::expected;
use grpo_lambda::stats::Bootstrap;
use rayon::prelude::*;

use crate::experiment::{Context, Experiment, Report};
use crate::training::rates::{self, Choice, Grid, Sweep};
use crate::training::stream::{Phase, stream};
use crate::training::task::{self, Task};
use reading::{PAPER, Reading};
use run::{Plan, train};
use scores::{Overall, Regime, Scores};

/// The experiment.
pub static EXPERIMENT: Experiment = Experiment {
    id: "learning",
    title: "does GRPO-λ learn faster than GRPO, and is it the credit or the step size?",
    claim: "\"GRPO-λ learns faster and improves 30-40% better than GRPO on mathematical benchmarks tasks\"",
    source: "arXiv 2510.00194v1, contributions (section 1), section 4.2, appendix C",
    run: |ctx| compare(ctx, &Size::of(ctx.full)),
};

/// Ends the name of a sweep with weights normalised to mean 1.
const UNIT: &str = ", unit mean";

/// How much is run.
struct Size {
    runs: usize,
    plan: Plan,
    grid: Grid,
    resamples: usize,
    full: bool,
}

impl Size {
    fn of(full: bool) -> Size {
        let quick = Size {
            runs: 30,
            plan: Plan { updates: 80, every: 2 },
            grid: Grid { low: -1, high: 10, per_octave: 1, widen: 4, seeds: 10 },
            resamples: 1000,
            full,
        };
        if !full {
            return quick;
        }
        Size {
            runs: 100,
            plan: Plan { updates: 320, every: 8 },
            grid: Grid { per_octave: 2, seeds: 30, ..quick.grid },
            resamples: 4000,
            full,
        }
    }
}

/// Everything that was run and chosen.
struct Comparison {
    tasks: Vec<Task>,
    readings: Vec<Reading>,
    grid: Grid,
    plan: Plan,
    runs: usize,
    /// `[reading][task]`.
    choices: Vec<Vec<Choice>>,
    /// The sweeps of the paper's readings with unit mean weight, `[reading of PAPER][task]`.
    unit_sweeps: Vec<Vec<Choice>>,
    /// `[reading][task]`.
    exact: Vec<Vec<Option<expected::Comparison>>>,
    scores: Scores,
    /// `[regime][reading]`, `None` where a reading has no place in a regime.
    overall: Vec<Vec<Option<Overall>>>,
}

fn compare(ctx: &Context, size: &Size) -> anyhow::Result<Report> {
    let c = Comparison::run(ctx, size)?;
    (ctx.progress)(0.95, "tables and figures");
    let tables = vec![
        (String::new(), tables::overall(&c)),
        ("by_mdp".into(), tables::by_mdp(&c)),
        ("rates".into(), tables::rates(&c)),
        ("curves".into(), tables::curves(&c)),
        ("sweep".into(), tables::sweep(&c)),
    ];
    let verdicts = verdicts::of(&c);
    let titles = &verdicts.titles;
    let figures = vec![
        (
            "curves".into(),
            figures::curves(&c, Regime::OwnBest, &titles.own_best, "each method at its own best rate"),
        ),
        (
            "small_rate".into(),
            figures::curves(&c, Regime::Cautious, &titles.cautious, "all at a sixteenth of GRPO's best rate"),
        ),
        ("forest".into(), figures::forest(&c, &titles.forest)),
        ("map".into(), figures::map(&c, &titles.map)),
        ("sweep".into(), figures::sweep(&c, &titles.sweep)),
    ];
    (ctx.progress)(1.0, "done");
    Ok(Report { findings: verdicts.findings, tables, figures })
}

impl Comparison {
    fn run(ctx: &Context, size: &Size) -> anyhow::Result<Comparison> {
        let (tasks, readings) = (task::tasks(size.full)?, reading::readings());
        let Size { runs, plan, grid, .. } = *size;
        let done = AtomicUsize::new(0);
        let selections = (readings.len() + PAPER.len()) * tasks.len();
        let tick = |from: f64, to: f64, all: usize, what: &str| {
            let share = (done.fetch_add(1, Ordering::Relaxed) + 1) as f64 / all as f64;
            (ctx.progress)(from + (to - from) * share.min(1.0), what);
        };
        let choose = |reading: &Reading, unit_mean: bool| -> anyhow::Result<Vec<Choice>> {
            let of_task = |task: &Task| {
                let method = reading.build(task, unit_mean)?;
                let choice = rates::choose(grid, |rate, run| {
                    let stream = stream(ctx.seed, Phase::Selection, &task.name, run);
                    train(task, method.as_ref(), rate, plan, stream).area
                });
                tick(0.0, 0.5, selections, "learning rates");
                Ok(choice)
            };
            tasks.par_iter().map(of_task).collect()
        };
        let choices = readings.par_iter().map(|r| choose(r, false)).collect::<anyhow::Result<Vec<_>>>()?;
        let paper: Vec<&Reading> = readings.iter().filter(|r| PAPER.contains(&r.name.as_str())).collect();
        let unit_sweeps = paper.into_par_iter().map(|r| choose(r, true)).collect::<anyhow::Result<_>>()?;

        (ctx.progress)(0.5, "exact first updates");
        let first =
            |reading| tasks.par_iter().map(|task| exact::first_update(task, reading, false)).collect();
        let exact = readings.par_iter().map(first).collect::<anyhow::Result<_>>()?;

        done.store(0, Ordering::Relaxed);
        let best: Vec<Vec<f64>> = choices.iter().map(|c| c.iter().map(|c| c.rate).collect()).collect();
        let bootstrap = Bootstrap { resamples: size.resamples, seed: ctx.seed, ..Bootstrap::default() };
        let cells = Regime::ALL.len() * readings.len() * tasks.len();
        let tick = || tick(0.55, 0.9, cells, "training");
        let scores = Scores::train(&tasks, &readings, &best, (runs, plan, ctx.seed), bootstrap, &tick)?;
        (ctx.progress)(0.9, "intervals");
        let of = |&regime: &Regime| {
            (0..readings.len()).into_par_iter().map(|r| scores.overall(regime, r)).collect()
        };
        let overall = Regime::ALL.par_iter().map(of).collect();
        Ok(Comparison { tasks, readings, grid, plan, runs, choices, unit_sweeps, exact, scores, overall })
    }

    /// The index of a reading.
    fn index(&self, name: &str) -> usize {
        self.readings.iter().position(|r| r.name == name).expect("a name of the list of readings")
    }

    /// Every regime with every reading.
    fn keys(&self) -> Vec<(Regime, usize)> {
        let readings = 0..self.readings.len();
        Regime::ALL.into_iter().flat_map(|regime| readings.clone().map(move |r| (regime, r))).collect()
    }

    /// A reading against GRPO.
    fn overall(&self, regime: Regime, reading: usize) -> Option<&Overall> {
        self.overall[regime as usize][reading].as_ref()
    }

    /// Mean area over MDPs, and its standard error, against the learning rate relative to GRPO's best, where every MDP has
    /// been tried.
    fn sweeps(&self) -> Vec<(String, Sweep)> {
        let mean = |of: &dyn Fn(usize) -> Sweep| {
            // Rates are powers of two, so that ratios are found again exactly up to rounding.
            let octaves = |ratio: f64| (ratio.log2() * 1e6).round() as i64;
            let first: Vec<f64> =
                of(0).into_iter().map(|(rate, ..)| rate / self.choices[0][0].rate).collect();
            let at = |ratio: f64| {
                let area = |task: usize| {
                    let same = |&(rate, ..): &(f64, f64, f64)| {
                        octaves(rate / self.choices[0][task].rate) == octaves(ratio)
                    };
                    of(task).into_iter().find(same).map(|(_, area, error)| (area, error))
                };
                let areas = (0..self.tasks.len()).map(area).collect::<Option<Vec<(f64, f64)>>>()?;
                let count = areas.len() as f64;
                let squares = areas.iter().map(|a| a.1 * a.1).sum::<f64>();
                Some((ratio, areas.iter().map(|a| a.0).sum::<f64>() / count, squares.sqrt() / count))
            };
            first.into_iter().filter_map(at).collect::<Sweep>()
        };
        let raw = figures::CURVES.iter().map(|name| {
            let r = self.index(name);
            ((*name).to_owned(), mean(&|task| self.choices[r][task].tried.clone()))
        });
        let unit = PAPER.iter().enumerate().map(|(r, name)| {
            (format!("{name}{UNIT}"), mean(&|task| self.unit_sweeps[r][task].tried.clone()))
        });
        raw.chain(unit).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A comparison of seconds.
    fn tiny(threads: usize) -> Report {
        let size = Size {
            runs: 3,
            plan: Plan { updates: 4, every: 2 },
            grid: Grid { low: 3, high: 4, per_octave: 1, widen: 1, seeds: 2 },
            resamples: 20,
            full: false,
        };
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
        let ctx = Context { seed: 5, full: false, progress: &|_, _| {}, store: &crate::store::Store::none() };
        pool.install(|| compare(&ctx, &size)).expect("it runs")
    }

    #[test]
    fn the_number_of_threads_changes_nothing() {
        let (one, three) = (tiny(1), tiny(3));
        for ((name, a), (_, b)) in one.tables.iter().zip(&three.tables) {
            assert!(!a.rows.is_empty(), "{name}");
            assert_eq!(a, b, "{name}");
        }
        assert_eq!(one.figures, three.figures);
        assert!(one.tables.iter().map(|(_, t)| t.rows.len()).sum::<usize>() < 3000);
    }
}
