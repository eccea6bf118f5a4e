//! Learning curves: registered baselines, and the trainable spans that did best when held out.

use std::sync::atomic::{AtomicUsize, Ordering};

use grpo_lambda::methods::{self, Method};
use grpo_lambda_stats::{Bootstrap, Interval, OverTasks, mean};
use rayon::prelude::*;

use super::efficiency::{Efficiency, Moments};
use super::instances::family;
use super::learn::{Learned, Weighted, learn};
use super::spans::{SPANS, UNIFORM};
use crate::experiment::Context;
use crate::training::task::Task;
use crate::training::{mean_of_means, paired};

/// The tasks of the learning curves, one per family.
const TASKS: [&str; 8] =
    ["fork", "chain", "eos_hazard", "random", "deceptive", "lucky_guess", "carry_add", "delayed_format"];

/// A method that learns.
enum Candidate {
    /// Name for a reader, registered name, settings.
    Registered(&'static str, &'static str, &'static str),
    /// RLOO with the weights of a span.
    Span(usize),
}

const BASELINES: [Candidate; 3] = [
    Candidate::Registered("RLOO", "rloo", ""),
    Candidate::Registered("GRPO", "grpo", "reduction=token_mean"),
    Candidate::Registered("GRPO-λ recent", "grpo_lambda", "style=recent"),
];

impl Candidate {
    fn name(&self) -> &'static str {
        match self {
            Candidate::Registered(name, ..) => name,
            Candidate::Span(span) => SPANS[*span].name,
        }
    }

    /// The method on a task; weights are chosen without the task's family.
    fn build(&self, task: &Task, moments: &Moments) -> anyhow::Result<Box<dyn Method>> {
        match self {
            Candidate::Registered(_, method, settings) => Ok(methods::parse(method, settings)?.method),
            Candidate::Span(span) => Ok(Box::new(Weighted {
                inner: methods::parse("rloo", "")?.method,
                span: &SPANS[*span],
                alpha: moments.fit(*span, Some(family(task))),
                longest: task.longest,
            })),
        }
    }
}

/// The baselines, the four spans that did best, the best that weighs by prefix, and GRPO-lambda with a fixed horizon.
fn candidates(efficiencies: &[Efficiency]) -> Vec<Candidate> {
    let mut ranked: Vec<usize> =
        (0..SPANS.len()).filter(|&i| SPANS[i].trainable && SPANS[i].name != UNIFORM).collect();
    ranked.sort_by(|&a, &b| {
        efficiencies[b].held_out.interval.mid.total_cmp(&efficiencies[a].held_out.interval.mid)
    });
    let by_prefix = ranked.iter().copied().find(|&i| SPANS[i].by_prefix);
    let mut shown: Vec<usize> = ranked.into_iter().take(4).chain(by_prefix).collect();
    shown.extend(SPANS.iter().position(|s| s.name == "recent 0.99, fixed horizon"));
    shown.sort_unstable();
    shown.dedup();
    BASELINES.into_iter().chain(shown.into_iter().map(Candidate::Span)).collect()
}

pub(super) struct Trained {
    pub(super) name: &'static str,
    pub(super) tasks: Vec<OnTask>,
}

pub(super) struct OnTask {
    pub(super) task: String,
    pub(super) learned: Learned,
    /// The mean of the areas; `None` when there are too few runs.
    pub(super) area: Option<Interval>,
}

/// Trains every candidate on every task.
pub(super) fn train(
    context: &Context,
    tasks: &[Task],
    moments: &Moments,
    efficiencies: &[Efficiency],
    bootstrap: Bootstrap,
) -> anyhow::Result<Vec<Trained>> {
    let candidates = candidates(efficiencies);
    let tasks: Vec<&Task> = TASKS.iter().filter_map(|name| tasks.iter().find(|t| t.name == *name)).collect();
    let work: Vec<(&Candidate, &Task)> =
        candidates.iter().flat_map(|c| tasks.iter().map(move |&task| (c, task))).collect();
    let done = AtomicUsize::new(0);
    let piece = |&(candidate, task): &(&Candidate, &Task)| {
        let learned = kept(context, candidate, task, moments)?;
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        let share = 0.4 + 0.6 * done as f64 / work.len() as f64;
        (context.progress)(share, &format!("{}, {}", candidate.name(), task.name));
        let area = bootstrap.interval(std::slice::from_ref(&learned.areas), mean_of_means);
        anyhow::Ok(OnTask { task: task.name.clone(), learned, area })
    };
    let mut pieces = work.par_iter().map(piece).collect::<anyhow::Result<Vec<_>>>()?.into_iter();
    let entry =
        |c: &Candidate| Trained { name: c.name(), tasks: pieces.by_ref().take(tasks.len()).collect() };
    Ok(candidates.iter().map(entry).collect())
}

/// A candidate's runs on a task, kept by the store of a long run.
fn kept(context: &Context, candidate: &Candidate, task: &Task, moments: &Moments) -> anyhow::Result<Learned> {
    // Selection runs, reported runs, updates.
    let size = if context.full { (20, 100, 160) } else { (6, 30, 60) };
    let name = candidate.name();
    let method = candidate.build(task, moments)?;
    context
        .store
        .piece(&format!("{name} {}", task.name), || Ok(learn(task, method.as_ref(), size, context.seed)))
}

/// One candidate against RLOO and GRPO over all tasks.
pub(super) struct Overall {
    pub(super) name: &'static str,
    /// Mean over tasks of the mean of areas.
    pub(super) area: Interval,
    pub(super) over_rloo: Advantage,
    pub(super) over_grpo: Advantage,
}

/// One candidate against another.
#[derive(Clone)]
pub(super) struct Advantage {
    /// The difference of areas, runs drawn in pairs.
    pub(super) gain: Interval,
    /// The difference with the tasks as the sample.
    pub(super) over_tasks: OverTasks,
    /// Probability that a run beats one of the other.
    pub(super) improves: Interval,
}

impl Overall {
    /// True if it learns faster than both, for tasks like these.
    pub(super) fn faster(&self) -> bool {
        self.over_rloo.over_tasks.positive() && self.over_grpo.over_tasks.positive()
    }
}

/// The areas of a candidate, one stratum per task.
fn strata(trained: &Trained) -> Vec<Vec<f64>> {
    trained.tasks.iter().map(|t| t.learned.areas.clone()).collect()
}

/// Everyone against RLOO and GRPO; empty where either is missing.
pub(super) fn compare(trained: &[Trained], bootstrap: Bootstrap) -> Vec<Overall> {
    let strata_of = |name: &str| trained.iter().find(|t| t.name == name).map(strata);
    let (Some(rloo), Some(grpo)) = (strata_of("RLOO"), strata_of("GRPO")) else { return Vec::new() };
    let one = |trained: &Trained| {
        let own = strata(trained);
        let over = |other: &[Vec<f64>]| {
            let means = own.iter().zip(other).map(|(x, y)| Some(mean(x)? - mean(y)?));
            Some(Advantage {
                over_tasks: OverTasks::new(&means.collect::<Option<Vec<f64>>>()?)?,
                gain: paired(bootstrap, &own, other, |x, y| x - y)?,
                improves: bootstrap.probability_of_improvement(&own, other)?,
            })
        };
        Some(Overall {
            name: trained.name,
            area: bootstrap.interval(&own, mean_of_means)?,
            over_rloo: over(&rloo)?,
            over_grpo: over(&grpo)?,
        })
    };
    trained.iter().filter_map(one).collect()
}
