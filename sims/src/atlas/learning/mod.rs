//! `atlas_learning`: who learns faster, against responses and against tokens, and why GRPO-lambda wins or loses.
//!
//! Every entrant of the atlas trains a table with exact `J`, one group of eight responses per update, each at the learning rate that
//! is best for it on selection runs. Values that a method needs come from the exact oracle at no charge (an upper bound that
//! says so in its name) and once more from fresh completions that are charged in full.

mod competitors;
mod exact;
mod field;
mod figures;
mod learner;
mod ranking;
mod run;
mod tables;
mod tasks;
mod verdicts;
mod why;

use std::sync::atomic::{AtomicUsize, Ordering};

use grpo_lambda::stats::Bootstrap;
use rayon::prelude::*;

use crate::experiment::{Context, Experiment, Report};
use crate::training::rates::Grid;
use competitors::Excluded;
use field::{Effort, Field, Lab};
use ranking::Standing;
use run::Spent;
use why::Why;

/// The experiment.
pub static EXPERIMENT: Experiment = Experiment {
    id: "atlas_learning",
    title: "which method learns faster, from the same responses and from the same tokens, and why GRPO-λ wins or loses",
    claim: "\"GRPO-λ learns faster\" than GRPO, and where it stands among every other method",
    source: "ours; the words in quotation marks: arXiv 2510.00194v1, section 1",
    run: |ctx| compare(ctx, &Size::of(ctx.full)),
};

/// How much is run.
#[derive(Clone, Copy, Debug)]
struct Size {
    effort: Effort,
    /// Ranked tasks at most.
    ranked: usize,
    /// Random tasks beside the ranked ones.
    random: usize,
    resamples: usize,
    /// The longer list of ranked tasks.
    all_tasks: bool,
}

impl Size {
    fn of(full: bool) -> Size {
        let grid = Grid { low: -3, high: 12, per_octave: 1, widen: 4, seeds: 6 };
        let quick = Size {
            effort: Effort { runs: 32, updates: 48, pieces: 48, grid },
            ranked: usize::MAX,
            random: 16,
            resamples: 1000,
            all_tasks: false,
        };
        if !full {
            return quick;
        }
        let grid = Grid { per_octave: 2, seeds: 30, ..grid };
        let effort = Effort { runs: 100, updates: 240, pieces: 120, grid };
        Size { effort, random: 60, resamples: 4000, all_tasks: true, ..quick }
    }
}

/// Everything that was run, and what the statistics say.
struct Ranking {
    effort: Effort,
    field: Field,
    excluded: Vec<Excluded>,
    /// `[axis][competitor]`, axes as in [`Spent`].
    standings: [Vec<Standing>; 2],
    /// Competitors, best against responses first.
    order: Vec<usize>,
    why: Why,
    bootstrap: Bootstrap,
}

fn compare(ctx: &Context, size: &Size) -> anyhow::Result<Report> {
    let r = Ranking::run(ctx, size)?;
    (ctx.progress)(0.97, "tables and figures");
    let verdicts = verdicts::of(&r);
    let tables = vec![
        (String::new(), tables::ranking(&r)),
        ("by_task".into(), tables::by_task(&r)),
        ("rates".into(), tables::rates(&r)),
        ("curves".into(), tables::curves(&r)),
        ("why".into(), tables::why(&r)),
        ("correlations".into(), tables::correlations(&r)),
    ];
    let titles = verdicts.titles;
    let figures = vec![
        ("ranking".into(), figures::ranking(&r, &titles.ranking)),
        ("curves".into(), figures::curves(&r, &titles.curves)),
        ("why".into(), figures::why(&r, &titles.why)),
    ];
    (ctx.progress)(1.0, "done");
    Ok(Report { findings: verdicts.findings, tables, figures })
}

impl Ranking {
    fn run(ctx: &Context, size: &Size) -> anyhow::Result<Ranking> {
        let mut named = tasks::named(size.all_tasks)?;
        named.truncate(size.ranked);
        let random = tasks::random(size.random)?;
        let (competitors, excluded) = competitors::all(&named[0])?;
        let compared = |c: &competitors::Competitor| {
            c.entrant.name == crate::atlas::entrants::BASELINE
                || c.entrant.name == why::CLAMP
                || why::READINGS.contains(&c.entrant.name)
        };
        let few: Vec<_> = competitors.iter().copied().filter(compared).collect();
        let lab = Lab { ctx, effort: size.effort };
        let pieces = competitors.len() * named.len()
            + few.len() * random.len()
            + why::READINGS.len() * (named.len() + random.len());
        let done = AtomicUsize::new(0);
        let tick = || {
            let share = (done.fetch_add(1, Ordering::Relaxed) + 1) as f64 / pieces as f64;
            (ctx.progress)(0.9 * share, "training");
        };
        let field = Field::run(&lab, named, competitors, &tick)?;
        let random = Field::run(&lab, random, few, &tick)?;
        let bootstrap = Bootstrap { resamples: size.resamples, seed: ctx.seed, ..Bootstrap::default() };
        let why = why::explain(&lab, (&field, &random), bootstrap, &tick)?;
        (ctx.progress)(0.9, "intervals");
        let of = |axis: Spent| {
            let scores = field.scores(|run| run.area[axis as usize]);
            ranking::standings(&scores, bootstrap)
                .ok_or_else(|| anyhow::anyhow!("too few runs for an interval"))
        };
        let both = Spent::ALL.par_iter().map(|&axis| of(axis)).collect::<anyhow::Result<Vec<_>>>()?;
        let [responses, tokens]: [Vec<Standing>; 2] =
            both.try_into().map_err(|_| anyhow::anyhow!("two axes have two rankings"))?;
        let order = ranking::order(&responses);
        let standings = [responses, tokens];
        Ok(Ranking { effort: size.effort, field, excluded, standings, order, why, bootstrap })
    }

    /// A competitor's name.
    fn name(&self, competitor: usize) -> String {
        self.field.competitors[competitor].name()
    }

    /// What it takes to reach 90 % of `J*`, as a share of the budget, a run that does not reach it counting 1; `[task][run]`.
    fn effort_to_learn(&self, competitor: usize, axis: Spent) -> Vec<Vec<f64>> {
        let of = |(cell, task): (&field::Cell, &crate::training::task::Task)| {
            let budget = run::Budget::new(task, self.effort.updates, 0).spend[axis as usize];
            cell.runs.iter().map(|run| run.learned[axis as usize].map_or(1.0, |x| x / budget)).collect()
        };
        self.field.cells[competitor].iter().zip(&self.field.tasks).map(of).collect()
    }

    /// The share of runs that reach 90 % of `J*` within the budget of responses.
    fn share_learned(&self, competitor: usize) -> f64 {
        let runs = || self.field.cells[competitor].iter().flat_map(|cell| &cell.runs);
        runs().filter(|run| run.learned[0].is_some()).count() as f64 / runs().count() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run;
    use crate::store::Store;
    use grpo_lambda::table::Table;
    use std::path::Path;

    fn tiny() -> Size {
        let grid = Grid { low: 2, high: 3, per_octave: 1, widen: 0, seeds: 2 };
        Size {
            effort: Effort { runs: 3, updates: 2, pieces: 4, grid },
            ranked: 4,
            random: 2,
            resamples: 20,
            all_tasks: false,
        }
    }

    fn run_with(store: &Store, threads: usize) -> (Vec<(String, Table)>, Report) {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
        let ctx = Context { seed: 5, full: false, progress: &|_, _| {}, store };
        let report = pool.install(|| compare(&ctx, &tiny())).expect("it runs");
        (run::tables("atlas_learning", &report), report)
    }

    #[test]
    fn the_number_of_threads_changes_nothing() {
        let ((one, a), (three, b)) = (run_with(&Store::none(), 1), run_with(&Store::none(), 3));
        assert_eq!(one, three);
        assert_eq!(a.figures, b.figures);
        assert!(one.iter().all(|(name, table)| !table.rows.is_empty() || panic!("{name} is empty")));
    }

    #[test]
    fn a_run_that_was_stopped_goes_on_to_the_same_result() {
        let folder = tempfile::tempdir().unwrap();
        let path: &Path = &folder.path().join("rows.jsonl");
        let whole = run_with(&Store::open(path, "sim atlas_learning --full").unwrap(), 2).0;
        // Stopped: only the first third of the pieces had been done, the next was being written.
        let text = std::fs::read_to_string(path).unwrap();
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let kept = lines.len() / 3;
        let cut = format!("{}{}", lines[..kept].concat(), &lines[kept][..lines[kept].len() / 2]);
        std::fs::write(path, cut).unwrap();
        let store = Store::open(path, "sim atlas_learning --full").unwrap();
        assert_eq!(store.len(), kept - 1);
        assert_eq!(run_with(&store, 1).0, whole);
        // And all pieces are there again, each once.
        drop(store);
        let again = Store::open(path, "sim atlas_learning --full").unwrap();
        assert_eq!(again.len(), lines.len() - 1);
        assert_eq!(std::fs::read_to_string(path).unwrap().lines().count(), lines.len());
    }
}
