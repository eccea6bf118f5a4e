//! Findings, and the numbers and names in them.

mod causes;
mod regimes;

use super::measure::Comparison;
use super::reading::PAPER;
use super::scores::{Overall, Regime};
use crate::experiment::Finding;
use crate::experiments::common::text::{self, list};
use grpo_lambda_stats::Interval;

/// All findings; the first is the headline.
pub(super) fn findings(c: &Comparison) -> Vec<Finding> {
    let mut findings = vec![regimes::headline(c)];
    findings.extend(Regime::ALL.map(|regime| regimes::paper_under(c, regime)));
    findings.extend([
        regimes::gap(c),
        regimes::regardless(c),
        causes::step_size(c),
        causes::clamp(c),
        causes::direction(c),
        causes::inversion(c),
        causes::grid(c),
    ]);
    findings
}

/// The sign of a gain with the tasks as the sample, and over runs on these tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    Better,
    /// Clear over runs on these tasks, but not shown for tasks like these.
    TheseTasks,
    Tie,
    Worse,
}

impl Sign {
    fn new(o: &Overall) -> Sign {
        match o.gain {
            _ if o.over_tasks.positive() => Sign::Better,
            _ if o.over_tasks.negative() => Sign::Worse,
            g if g.low > 0.0 || g.high < 0.0 => Sign::TheseTasks,
            _ => Sign::Tie,
        }
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Sign::Better => "beats",
            Sign::TheseTasks | Sign::Tie => "is not told from",
            Sign::Worse => "loses to",
        }
    }
}

/// A regime's name in a sentence.
fn at(regime: Regime) -> &'static str {
    match regime {
        Regime::Equal => "at GRPO's best rate",
        Regime::Cautious => "at a sixteenth of GRPO's best rate",
        Regime::OwnBest => "each at its own best rate",
        Regime::UnitMean => "with weights of mean 1",
    }
}

/// The less favourable sign of the paper's two readings under a regime.
pub(super) fn of_paper(c: &Comparison, regime: Regime) -> Sign {
    let signs = PAPER.map(|name| Sign::new(c.against(regime, name)));
    let order = [Sign::Worse, Sign::TheseTasks, Sign::Tie, Sign::Better];
    order.into_iter().find(|s| signs.contains(s)).unwrap_or(Sign::Tie)
}

fn interval(i: Interval) -> String {
    format!("{:+.3} [{:+.3}, {:+.3}]", i.mid, i.low, i.high)
}

/// Names of tasks.
fn names(c: &Comparison, tasks: &[usize]) -> String {
    list(&tasks.iter().map(|&t| c.tasks[t].name.as_str()).collect::<Vec<_>>())
}

/// A gain over GRPO with the tasks as the sample.
fn over_tasks(c: &Comparison, o: &Overall) -> String {
    text::over_tasks(&o.over_tasks, |task| c.tasks.get(task).map_or("?", |t| t.name.as_str()))
}

/// A reading against GRPO in full.
fn numbers(c: &Comparison, name: &str, o: &Overall) -> String {
    format!(
        "{name}: area {:.3} against {:.3}, gain over runs {} ({:+.1} %), over tasks {}, P(better run) {:.2} [{:.2}, {:.2}], better on {} ({}), worse on {} ({}) of {} MDPs",
        o.area.mid,
        o.area.mid - o.gain.mid,
        interval(o.gain),
        o.percent.mid,
        over_tasks(c, o),
        o.improvement.mid,
        o.improvement.low,
        o.improvement.high,
        o.better.len(),
        names(c, &o.better),
        o.worse.len(),
        names(c, &o.worse),
        c.tasks.len()
    )
}

#[cfg(test)]
mod tests;
