//! Every entry over all tasks.

use super::measure::Atlas;
use super::row::{Column, GROUP, Row};
use crate::atlas::entries::{BASELINE, ENTRIES, Entry};
use crate::experiments::common::list;
use grpo_lambda_stats::{OverTasks, holm};

/// Responses written or scored for one update, at which costs are compared.
pub(super) const BUDGET: f64 = 16.0;

/// One entry over all tasks.
pub(super) struct Overall {
    pub(super) entry: &'static Entry,
    pub(super) tasks: usize,
    pub(super) sampled: usize,
    pub(super) unbiased: usize,
    pub(super) mean_cosine: f64,
    /// The lowest cosine with its task.
    pub(super) worst: (f64, String),
    /// The largest share of visits at reversed prefixes with its task.
    pub(super) reversed: (f64, String),
    /// Mean of `1 - cos²`.
    pub(super) lost: f64,
    pub(super) mse: f64,
    /// Its error minus the baseline's, by task, with the tasks as the sample.
    pub(super) beyond_baseline: Option<OverTasks>,
    /// The p-value of that difference, corrected for the number of entries (Holm).
    pub(super) p_holm: f64,
    pub(super) mse_bias: f64,
    pub(super) mse_variance: f64,
    /// Mean error at equal cost; `None` where a group of two costs more on some task.
    pub(super) mse_at_budget: Option<f64>,
    pub(super) passes: f64,
    /// One per [`MEANS`].
    pub(super) means: Vec<Option<f64>>,
}

impl Overall {
    /// True if its error is shown to be below the baseline's for tasks like these, after correction.
    pub(super) fn errs_less(&self) -> bool {
        self.p_holm <= 0.05 && self.beyond_baseline.as_ref().is_some_and(OverTasks::negative)
    }

    /// The mean of a column of [`MEANS`] over tasks.
    pub(super) fn mean(&self, column: Column) -> Option<f64> {
        self.means[MEANS.iter().position(|c| *c == column)?]
    }
}

/// Columns averaged for the summary.
pub(super) const MEANS: [Column; 7] = [
    Column::Bias,
    Column::BiasDirection,
    Column::BiasRescaling,
    Column::KappaCv,
    Column::SignAgreement,
    Column::CreditRankCorrelation,
    Column::CreditR2,
];

/// Columns of the credit's order, which only exact rows tell.
const CREDIT: [Column; 2] = [Column::CreditRankCorrelation, Column::CreditR2];

/// The largest standard error of a cosine that can show an update unbiased: with a larger one anything would be.
pub(super) const SHARP: f64 = 0.0003;

/// True if a row's expected update is a positive multiple of the gradient: to rounding if exact; if simulated, within three standard
/// errors of at most [`SHARP`].
pub(super) fn unbiased(row: &Row) -> bool {
    let (Some(cosine), Some(error)) = (row.get(Column::Cosine), row.get(Column::CosineSe)) else {
        return false;
    };
    if row.exact() {
        cosine > 0.0 && row.get(Column::Bias).is_some_and(|b| b < 1e-6)
    } else {
        1.0 - cosine <= 3.0 * error && error <= SHARP
    }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Every entry over all tasks, in groups of [`GROUP`].
pub(super) fn overall(atlas: &Atlas) -> Vec<Overall> {
    let summary = |(e, entry): (usize, &'static Entry)| {
        let rows: Vec<&Row> = atlas.rows_of(e, GROUP).filter(|row| row.how != "impossible").collect();
        let column = |column| rows.iter().filter_map(move |row| row.get(column));
        let extreme = |column, sign: f64| {
            let found = rows.iter().filter_map(|row| Some((row.get(column)?, row.task.clone())));
            found.max_by(|a, b| (sign * a.0).total_cmp(&(sign * b.0))).unwrap_or((f64::NAN, String::new()))
        };
        // Per task the largest group that the budget pays for.
        let at_budget = |row: &Row| {
            let passes = row.get(Column::Passes)?;
            let t = atlas.tasks.iter().position(|t| t.name == row.task)?;
            let paid = |r: &&Row| r.group as f64 * passes <= BUDGET * (1.0 + 1e-12);
            atlas.rows[t][e].iter().rfind(paid)?.get(Column::Mse)
        };
        let paid: Option<Vec<f64>> = rows.iter().map(|row| at_budget(row)).collect();
        let beyond = |row: &&Row| {
            let baseline = atlas.rows_of(0, GROUP).find(|b| b.task == row.task)?;
            Some(row.get(Column::Mse)? - baseline.get(Column::Mse)?)
        };
        let beyond: Vec<f64> = rows.iter().filter_map(beyond).collect();
        // Noise breaks the ties of tokens with one advantage, which no number of draws mends.
        let reported = |name| !CREDIT.contains(&name) || rows.iter().all(|row| row.exact());
        Overall {
            entry,
            beyond_baseline: OverTasks::new(&beyond),
            p_holm: 1.0,
            tasks: rows.len(),
            sampled: rows.iter().filter(|row| !row.exact()).count(),
            unbiased: rows.iter().filter(|row| unbiased(row)).count(),
            mean_cosine: mean(column(Column::Cosine)).unwrap_or(f64::NAN),
            worst: extreme(Column::Cosine, -1.0),
            reversed: extreme(Column::ReversedVisits, 1.0),
            lost: mean(column(Column::Cosine).map(|c| 1.0 - c * c)).unwrap_or(f64::NAN),
            mse: mean(column(Column::Mse)).unwrap_or(f64::NAN),
            mse_bias: mean(column(Column::MseBias)).unwrap_or(f64::NAN),
            mse_variance: mean(column(Column::MseVariance)).unwrap_or(f64::NAN),
            mse_at_budget: paid.and_then(|v| mean(v.into_iter())),
            passes: mean(column(Column::Passes)).unwrap_or(f64::NAN),
            means: MEANS.map(|name| mean(column(name)).filter(|_| reported(name))).to_vec(),
        }
    };
    let mut all: Vec<Overall> = ENTRIES.iter().enumerate().map(summary).collect();
    let mut others: Vec<&mut Overall> = all.iter_mut().filter(|o| o.entry.name != BASELINE).collect();
    let p = |o: &&mut Overall| o.beyond_baseline.as_ref().map_or(1.0, |over| over.p);
    let corrected = holm(&others.iter().map(p).collect::<Vec<_>>());
    others.iter_mut().zip(corrected).for_each(|(o, p)| o.p_holm = p);
    all
}

/// The names of some entries; `none` if there is none.
pub(super) fn names<'a>(all: impl Iterator<Item = &'a Overall>) -> String {
    list(&all.map(|o| o.entry.name).collect::<Vec<_>>())
}
