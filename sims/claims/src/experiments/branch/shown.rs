//! Findings, tables and the figure.

use super::{
    ADDITION, CHAIN, EXPERIMENT, Evaluated, GRPO, Numbers, OnTask, PPO, SPO, TEMPO, TREE_RL, TREE_RPO, VINE,
};
use crate::experiment::{Finding, Verdict};
use crate::experiments::chain::findings::{self, Outcome, Said, summary};
use crate::experiments::chain::judged::{self, dots, filled, label};
use crate::experiments::common::claim::claim;
use crate::experiments::common::record::{Record, table, yes};
use crate::experiments::common::{Shown, gains_everywhere, list, mean};
use crate::figure::Figure;
use grpo_lambda_stats::t_interval;
use grpo_lambda_stats::table::{Cell, Table};
use grpo_lambda_trials::{Compared, Point, Verdict as Effect};

const TASKS: [&str; 2] = [ADDITION, CHAIN];

/// A prediction on pairs of methods on some tasks.
fn prediction(
    n: &Numbers,
    of: (&str, &str),
    (pairs, tasks): (&[[&str; 2]], &[&str]),
    said: Said,
) -> Option<(Outcome, Finding)> {
    let parts = tasks.iter().flat_map(|task| pairs.iter().map(move |[method, with]| (task, method, with)));
    let parts = parts.map(|(task, method, with)| {
        let name = format!("{task}: {} minus {}", label(&n.study, method), label(&n.study, with));
        (name, n.pair(task, method, with), said)
    });
    findings::prediction(of, n.study.margin, parts)
}

/// The effects over GRPO of the methods with a sampler or a critic of their own, on both tasks.
fn effects(n: &Numbers) -> impl Iterator<Item = (String, Effect)> {
    let methods = [VINE, SPO, TREE_RL, TREE_RPO, PPO];
    let places = TASKS.into_iter().flat_map(move |task| methods.map(|method| (task, method)));
    places.filter_map(|(task, method)| {
        let difference = n.pair(task, method, GRPO)?;
        Some((format!("{} on {task}", label(&n.study, method)), difference.verdict(n.study.margin)))
    })
}

/// Methods that gain on a task, named with it.
fn gaining(n: &Numbers) -> Vec<String> {
    effects(n).filter(|(_, effect)| *effect == Effect::Higher).map(|(place, _)| place).collect()
}

/// Finding on whether any method gains.
fn gains(n: &Numbers) -> Finding {
    let shown: Vec<Shown> = effects(n)
        .map(|(_, effect)| match effect {
            Effect::Higher => Shown::Gain,
            Effect::Lower => Shown::Loss,
            Effect::Equivalent | Effect::Inconclusive => Shown::Neither,
        })
        .collect();
    let condition = format!("shown for {}", list(&gaining(n)));
    let ends: Vec<String> = n
        .tasks
        .iter()
        .flat_map(|task| {
            task.methods.iter().filter(|m| m.at_an_end).map(|m| format!("{} on {}", m.label, task.name))
        })
        .collect();
    claim("gains", EXPERIMENT.claim)
        .verdict(gains_everywhere(&shown, condition, "none of them is shown to be better"))
        .value("seeds", n.study.seeds.evaluation.len())
        .value("margin of equivalence", n.study.margin)
        .value("methods whose rate is an end of the grid", list(&ends))
        .rows("", &[])
        .note("Mean held-out accuracy over the budget of sampled tokens, paired by seed, each method at the rate that other seeds chose; Holm over both tasks.")
}

pub(super) fn findings(n: &Numbers) -> Vec<Finding> {
    let [there, planned] = n.runs;
    if !n.is_complete() {
        let reason = format!(
            "{there} of {planned} runs of the protocol are complete, and we conclude nothing before all are"
        );
        return vec![claim("gains", EXPERIMENT.claim).verdict(Verdict::Inconclusive(reason))];
    }
    let vine = ("vine", "P1: VinePPO is worse than GRPO on both tasks");
    let critic = ("critic", "P2: PPO is better than GRPO on chains");
    let learned = ("learned", "P3: PPO is better than VinePPO on both tasks");
    let trees = ("trees", "P4: Neither SPO-tree nor TreeRPO is better than GRPO on either task");
    let tempo = ("tempo", "P5: TEMPO is not better than GRPO on either task");
    let found = [
        prediction(n, vine, (&[[VINE, GRPO]], &TASKS), Said::Loses),
        prediction(n, critic, (&[[PPO, GRPO]], &[CHAIN]), Said::Gains)
            .map(|(outcome, finding)| (outcome, finding.rows("critic", &[]))),
        prediction(n, learned, (&[[PPO, VINE]], &TASKS), Said::Gains),
        prediction(n, trees, (&[[SPO, GRPO], [TREE_RPO, GRPO]], &TASKS), Said::DoesNotGain),
        prediction(n, tempo, (&[[TEMPO, GRPO]], &TASKS), Said::DoesNotGain),
    ];
    let (outcomes, found): (Vec<Outcome>, Vec<Finding>) = found.into_iter().flatten().unzip();
    [gains(n), summary(&outcomes)].into_iter().chain(found).collect()
}

pub(super) fn tables(n: &Numbers) -> Vec<(String, Table)> {
    let each = |of_task: fn(&Numbers, &OnTask) -> Vec<Record>| {
        table(n.tasks.iter().flat_map(|task| of_task(n, task)))
    };
    let all = [
        ("", each(methods)),
        ("compared", each(compared)),
        ("critic", each(critic)),
        ("updates", table(n.updates.iter().cloned())),
    ];
    filled(all)
}

fn on(task: &OnTask) -> Record {
    Record::default().with("task", task.name)
}

fn methods(n: &Numbers, task: &OnTask) -> Vec<Record> {
    let grpo = task.methods.iter().find(|method| method.name == GRPO);
    let row = |m: &Evaluated| {
        let minus = grpo.filter(|grpo| grpo.name != m.name).and_then(|grpo| m.minus(grpo, n.study.level));
        on(task)
            .with("method", &*m.name)
            .with("label", &*m.label)
            .with("rate", m.rate)
            .with("at_an_end", yes(m.at_an_end))
            .interval("accuracy", t_interval(&m.scores, n.study.level))
            .interval("minus_grpo", minus.map(|(_, interval)| interval))
            .with("last", mean(&m.last()))
            .with("updates", m.mean(|run| run.steps as f64))
            .with("seconds", m.mean(|run| run.seconds))
    };
    task.methods.iter().map(row).collect()
}

fn compared(n: &Numbers, task: &OnTask) -> Vec<Record> {
    let row = |c: &Compared| {
        let verdict = c.difference.verdict(n.study.margin).name();
        judged::compared(on(task), c, Some(c.difference.corrected), verdict)
    };
    task.compared.iter().map(row).collect()
}

/// Exams within a budget: one after each twentieth of it.
const EXAMS: usize = 20;

/// The share of the variance of returns that the critic explains, by exam, over the runs whose returns vary there.
fn critic(n: &Numbers, task: &OnTask) -> Vec<Record> {
    let Some(ppo) = task.methods.iter().find(|method| method.name == PPO) else { return Vec::new() };
    let points = || ppo.runs.iter().flat_map(|run| &run.explained.0);
    let exam_of = |point: &Point| (point.tokens * EXAMS as f64 / task.budget) as usize;
    let row = |exam: usize| {
        let at = |number: fn(&Point) -> f64| -> Vec<f64> {
            points().filter(|point| exam_of(point) == exam).map(number).collect()
        };
        let shares = at(|point| point.accuracy);
        on(task)
            .with("tokens", Cell::from(mean(&at(|point| point.tokens))))
            .interval("explained", t_interval(&shares, n.study.level))
            .with("runs", shares.len())
    };
    (1..=EXAMS).filter(|exam| points().any(|point| exam_of(point) == *exam)).map(row).collect()
}

/// A dot a seed and method; no figure before all runs are there.
pub(super) fn figures(n: &Numbers) -> Vec<(String, Figure)> {
    if !n.is_complete() {
        return Vec::new();
    }
    let gaining = gaining(n);
    let methods =
        if gaining.is_empty() { "no tree, completion or critic".to_owned() } else { list(&gaining) };
    let figure = Figure::new(format!("Shown to gain over GRPO at equal numbers of sampled tokens: {methods}"))
        .caption(format!("{} seeds that chose no rate, every run counted; Student's t over seeds. Each method minus GRPO on the same seed.", n.study.seeds.evaluation.len()))
        .columns(1)
        .panel_size(760, 360);
    let figure = n.tasks.iter().fold(figure, |figure, task| {
        let Some(grpo) = task.methods.iter().find(|method| method.name == GRPO) else { return figure };
        let axis = format!("mean held-out accuracy over {} tokens, minus GRPO's", task.budget);
        figure.panel(dots(&task.methods, grpo, (n.study.level, task.name, &axis)))
    });
    vec![(String::new(), figure)]
}
