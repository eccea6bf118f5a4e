//! Every entry over all tasks.

use super::measure::Atlas;
use super::row::{Column, GROUP, Row};
use crate::atlas::entries::{BASELINE, ENTRIES, Entry};
use crate::experiments::common::{self, list};
use grpo_lambda_stats::{OverTasks, holm};

/// Responses written or scored for one update, at which costs are compared.
pub(super) const BUDGET: f64 = 16.0;

/// One entry over all tasks.
pub(super) struct Overall<'a> {
    pub(super) entry: &'static Entry,
    /// Its rows but the impossible ones, one a task.
    rows: Vec<&'a Row>,
    /// The lowest cosine with its task.
    pub(super) worst: (f64, &'a str),
    /// The largest share of visits at reversed prefixes with its task.
    pub(super) reversed: (f64, &'a str),
    /// Its error minus the baseline's, by task, with the tasks as the sample.
    pub(super) beyond_baseline: Option<OverTasks>,
    /// The p-value of that difference, corrected for the number of entries (Holm).
    pub(super) p_holm: f64,
    /// Mean error at equal cost; `None` where a group of two costs more on some task.
    pub(super) mse_at_budget: Option<f64>,
}

impl Overall<'_> {
    pub(super) fn tasks(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn sampled(&self) -> usize {
        self.rows.iter().filter(|row| !row.exact()).count()
    }

    /// The number of tasks on which its expected update is unbiased up to scale.
    pub(super) fn unbiased(&self) -> usize {
        self.rows.iter().filter(|row| unbiased(row)).count()
    }

    pub(super) fn is_unbiased_everywhere(&self) -> bool {
        self.rows.iter().all(|row| unbiased(row))
    }

    /// True if its error is shown to be below the baseline's for tasks like these, after correction.
    pub(super) fn errs_less(&self) -> bool {
        self.p_holm <= 0.05 && self.beyond_baseline.as_ref().is_some_and(OverTasks::negative)
    }

    /// The mean of a column over tasks; none of the credit's order where a row is simulated, since noise breaks the ties of tokens with one
    /// advantage, which no number of draws mends.
    pub(super) fn mean(&self, column: Column) -> Option<f64> {
        let is_known = !CREDIT.contains(&column) || self.sampled() == 0;
        mean(&self.column(column)).filter(|_| is_known)
    }

    /// The numbers in a column, but where it is not defined.
    fn column(&self, column: Column) -> Vec<f64> {
        self.rows.iter().filter_map(|row| row.get(column)).collect()
    }

    /// Mean of `1 - cos²`.
    pub(super) fn lost(&self) -> Option<f64> {
        mean(&self.column(Column::Cosine).into_iter().map(|c| 1.0 - c * c).collect::<Vec<_>>())
    }
}

/// Columns of the bias and of the error taken apart.
pub(super) const PARTS: [Column; 9] = [
    Column::Bias,
    Column::BiasDirection,
    Column::BiasRescaling,
    Column::KappaCv,
    Column::SignAgreement,
    Column::CreditRankCorrelation,
    Column::CreditR2,
    Column::MseBias,
    Column::MseVariance,
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

/// The mean, infinite where a cost is.
fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| common::mean(values))
}

/// Every entry over all tasks, in groups of [`GROUP`].
pub(super) fn overall(atlas: &Atlas) -> Vec<Overall<'_>> {
    let summary = |(e, entry): (usize, &'static Entry)| {
        let rows: Vec<&Row> = atlas.rows_of(e, GROUP).filter(|row| row.how != "impossible").collect();
        let extreme = |column, sign: f64| {
            let found = rows.iter().filter_map(|row| Some((row.get(column)?, row.task.as_str())));
            found.max_by(|a, b| (sign * a.0).total_cmp(&(sign * b.0))).unwrap_or((f64::NAN, ""))
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
        Overall {
            entry,
            beyond_baseline: OverTasks::new(&beyond),
            p_holm: 1.0,
            worst: extreme(Column::Cosine, -1.0),
            reversed: extreme(Column::ReversedVisits, 1.0),
            mse_at_budget: paid.and_then(|errors| mean(&errors)),
            rows,
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
pub(super) fn names<'a>(all: impl Iterator<Item = &'a Overall<'a>>) -> String {
    list(&all.map(|o| o.entry.name).collect::<Vec<_>>())
}
