//! Methods and comparisons of a study from its recorded runs: shared by the claims on runs at rates that other seeds chose.

use crate::experiments::common::mean;
use crate::experiments::common::placed;
use crate::experiments::common::record::Record;
use crate::figure::{Axis, Panel};
use grpo_lambda_stats::table::Table;
use grpo_lambda_stats::{Interval, t_interval};
use grpo_lambda_trials::{Compared, Method, Rows, Study, Trial};

/// A method with its evaluation runs.
#[derive(Clone, Debug)]
pub(in crate::experiments) struct Evaluated {
    pub(in crate::experiments) name: String,
    pub(in crate::experiments) label: String,
    pub(in crate::experiments) rate: f64,
    /// True if the rate is the least or the greatest of those tried.
    pub(in crate::experiments) at_an_end: bool,
    /// Mean accuracy over the budget, by seed.
    pub(in crate::experiments) scores: Vec<f64>,
    /// By seed.
    pub(in crate::experiments) runs: Vec<Trial>,
}

impl Evaluated {
    /// The methods of a study, once all their evaluation runs are there.
    pub(in crate::experiments) fn all<S>(rows: &Rows<'_, S>) -> Option<Vec<Evaluated>> {
        rows.study.methods.iter().map(|method| Evaluated::new(rows, method)).collect()
    }

    fn new<S>(rows: &Rows<'_, S>, method: &Method) -> Option<Evaluated> {
        let runs = rows.runs(&method.name)?;
        let rate = runs.first()?.rate;
        Some(Evaluated {
            name: method.name.clone(),
            label: method.label.clone(),
            rate,
            at_an_end: [rows.study.rates.first(), rows.study.rates.last()].contains(&Some(&rate)),
            scores: rows.scores(&method.name)?,
            runs: runs.into_iter().cloned().collect(),
        })
    }

    /// Accuracy at the last exam, by seed.
    pub(in crate::experiments) fn last(&self) -> Vec<f64> {
        self.runs.iter().filter_map(|run| Some(run.curve.0.last()?.accuracy)).collect()
    }

    /// The mean over runs of a number.
    pub(in crate::experiments) fn mean(&self, number: fn(&Trial) -> f64) -> f64 {
        mean(&self.runs.iter().map(number).collect::<Vec<_>>())
    }

    /// The scores minus those of another method, by seed, with their interval; none of fewer than two seeds.
    pub(in crate::experiments) fn minus(&self, with: &Evaluated, level: f64) -> Option<(Vec<f64>, Interval)> {
        let values: Vec<f64> = self.scores.iter().zip(&with.scores).map(|(own, with)| own - with).collect();
        let interval = t_interval(&values, level)?;
        Some((values, interval))
    }
}

/// The label of a method; its name if the study has none.
pub(in crate::experiments) fn label<'a, S>(study: &'a Study<S>, name: &'a str) -> &'a str {
    study.methods.iter().find(|method| method.name == name).map_or(name, |method| &method.label)
}

/// The tables that have a row.
pub(in crate::experiments) fn filled<const N: usize>(all: [(&str, Table); N]) -> Vec<(String, Table)> {
    let filled = all.into_iter().filter(|(_, table)| !table.rows.is_empty());
    filled.map(|(name, table)| (name.to_owned(), table)).collect()
}

/// Adds the columns of a comparison; outside a family it has no corrected p and no verdict.
pub(in crate::experiments) fn compared(
    row: Record,
    Compared { pair, difference: d }: &Compared,
    corrected: Option<f64>,
    verdict: &str,
) -> Record {
    row.with("method", &*pair.method)
        .with("with", &*pair.with)
        .interval("difference", d.interval)
        .bounds("narrow", d.narrow)
        .with("higher_on", d.values.iter().filter(|value| **value > 0.0).count())
        .with("p", d.p)
        .with("corrected", corrected)
        .with("verdict", verdict)
}

/// Methods by their differences from one of them, the highest first: a dot a seed, each a little lower than the one before, and the interval.
pub(in crate::experiments) fn dots(
    methods: &[Evaluated],
    with: &Evaluated,
    (level, title, axis): (f64, &str, &str),
) -> Panel {
    let others = methods.iter().filter(|method| method.name != with.name);
    let mut differences: Vec<(&str, Vec<f64>, Interval)> = others
        .filter_map(|method| method.minus(with, level).map(|(values, i)| (method.label.as_str(), values, i)))
        .collect();
    differences.sort_by(|a, b| b.2.mid.total_cmp(&a.2.mid));
    let dots = differences.iter().zip(0..).flat_map(|((_, values, _), row)| {
        let aside = move |k: usize| f64::from(row) - 0.3 + 0.6 * k as f64 / (values.len() - 1).max(1) as f64;
        values.iter().enumerate().map(move |(k, value)| (*value, aside(k)))
    });
    let means = differences.iter().zip(0..).map(|((_, _, i), row)| placed(f64::from(row), *i));
    Panel::new(title)
        .x(Axis::new(axis))
        .y(Axis::new("").categories(differences.iter().map(|(label, _, _)| *label)))
        .vline(0.0, &with.label)
        .dots("a seed", dots.collect::<Vec<_>>())
        .spans("mean, 95 %", means.collect::<Vec<_>>())
}
