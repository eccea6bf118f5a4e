//! Do the printed numbers agree with each other? Exact arithmetic on thousandths.

use super::{Benchmark, Column, Dataset, Model, Paper, Run, Score};

/// A printed AVG against the five scores above it.
#[derive(Clone, Copy, Debug)]
pub struct AverageCheck {
    /// The column.
    pub run: Run,
    /// `5·AVG − Σ scores` in thousandths: five times the difference to the mean.
    pub five_times_difference: i32,
    /// True if rounding the mean of the nearest k/N, instead of the rounded scores, gives the printed AVG.
    pub from_fractions: bool,
}

impl AverageCheck {
    /// `AVG − mean` in accuracy.
    pub fn difference(&self) -> f64 {
        f64::from(self.five_times_difference) / 5000.0
    }
    /// More than half a unit of the last digit: not the rounded mean of the printed scores.
    pub fn not_the_rounded_mean(&self) -> bool {
        self.five_times_difference.abs() * 2 > 5
    }
    /// More than 0.001, twice the largest rounding error (half a unit in the scores, half in AVG): not the
    /// mean of any scores that round to the printed ones.
    pub fn impossible(&self) -> bool {
        self.five_times_difference.abs() > 5
    }
}

/// Checks every printed AVG.
pub fn averages(paper: &Paper) -> Vec<AverageCheck> {
    let check = |run: &Run| {
        let nearest = |b: Benchmark| {
            let n = b.items();
            let k = (run.scores[b as usize].value() * n as f64).round();
            k / n as f64
        };
        let mean = Benchmark::ALL.map(nearest).iter().sum::<f64>() / 5.0;
        let printed = run.printed_average;
        AverageCheck {
            run: *run,
            five_times_difference: 5 * printed.0 - run.sum(),
            from_fractions: (mean - printed.value()).abs() <= 0.0005 + 1e-12,
        }
    };
    paper.runs.iter().map(check).collect()
}

/// True if a printed score can be a whole number of correct answers out of N.
#[derive(Clone, Copy, Debug)]
pub struct CellCheck {
    /// The column.
    pub run: Run,
    /// The row.
    pub benchmark: Benchmark,
    /// The nearest number of correct answers.
    pub nearest: i64,
    /// Some k/N rounds to it (either way at a tie).
    pub by_rounding: bool,
    /// Some k/N is cut to it.
    pub by_truncation: bool,
    /// It ends in 0 and some k/N rounds to its first two decimals.
    pub by_two_decimals: bool,
}

impl CellCheck {
    /// The printed score.
    pub fn score(&self) -> Score {
        self.run.scores[self.benchmark as usize]
    }
}

/// Checks each of the five scores of each run.
pub fn cells(paper: &Paper) -> Vec<CellCheck> {
    let check = |run: &Run, benchmark: Benchmark| {
        let (v, n) = (i64::from(run.scores[benchmark as usize].0), benchmark.items());
        CellCheck {
            run: *run,
            benchmark,
            nearest: (2 * v * n + 1000) / 2000,
            by_rounding: rounds_to(v, n, 1000),
            by_truncation: truncates_to(v, n, 1000),
            by_two_decimals: v % 10 == 0 && rounds_to(v / 10, n, 100),
        }
    };
    paper.runs.iter().flat_map(|run| Benchmark::ALL.map(|b| check(run, b))).collect()
}

/// True if some whole k has `|k/n − v/scale| ≤ half/scale`.
pub fn rounds_to(v: i64, n: i64, scale: i64) -> bool {
    let below = v * n / scale;
    [below, below + 1].iter().any(|k| 2 * (scale * k - v * n).abs() <= n && (0..=n).contains(k))
}

/// True if some whole k has `v ≤ scale·k/n < v + 1`.
pub fn truncates_to(v: i64, n: i64, scale: i64) -> bool {
    let k = (v * n + scale - 1) / scale;
    k <= n && scale * k < (v + 1) * n
}

/// A way in which a row of Table 1 may have been made from Tables 3-6.
#[derive(Clone, Debug)]
pub struct Aggregation {
    /// In words.
    pub name: String,
    /// The five benchmarks in the order of [`Benchmark::ALL`], then their mean.
    pub values: [f64; 6],
}

/// Rounding of the averaged scores and of the printed average together.
const TOLERANCE: f64 = 0.001 + 1e-12;

impl Aggregation {
    fn new(name: String, runs: &[&Run]) -> Self {
        let mut values = [0.0; 6];
        for b in 0..5 {
            let sum: i32 = runs.iter().map(|r| r.scores[b].0).sum();
            values[b] = f64::from(sum) / (1000 * runs.len()) as f64;
        }
        values[5] = values[..5].iter().sum::<f64>() / 5.0;
        Aggregation { name, values }
    }
    /// Cells of the row that it reproduces, and its largest deviation.
    fn fit(&self, printed: &[Score; 6]) -> (usize, f64) {
        let errors = printed.iter().zip(self.values).map(|(p, v)| (p.value() - v).abs());
        let matched = errors.clone().filter(|e| *e <= TOLERANCE).count();
        (matched, errors.fold(0.0, f64::max))
    }
}

/// A row of Table 1 and the aggregation that reproduces most of it.
#[derive(Clone, Debug)]
pub struct Table1Check {
    /// The model.
    pub model: Model,
    /// True if it is the GRPO-λ row.
    pub lambda: bool,
    /// The printed row: five benchmarks, average.
    pub printed: [Score; 6],
    /// The aggregation with the most matching cells (then the smallest deviation).
    pub best: Aggregation,
    /// Its largest deviation.
    pub largest_error: f64,
}

impl Table1Check {
    /// The indices of cells that the aggregation does not reproduce.
    pub fn mismatches(&self) -> Vec<usize> {
        let off = |i: &usize| (self.printed[*i].value() - self.best.values[*i]).abs() > TOLERANCE;
        (0..6).filter(off).collect()
    }
    /// `printed Average − mean of the five printed cells`.
    pub fn average_minus_row_mean(&self) -> f64 {
        let sum: i32 = self.printed[..5].iter().map(|s| s.0).sum();
        f64::from(5 * self.printed[5].0 - sum) / 5000.0
    }
    /// `GRPO` or `GRPO-λ`.
    pub fn method(&self) -> &'static str {
        if self.lambda { "GRPO-λ" } else { "GRPO" }
    }
}

/// Explains the eight rows of Table 1: for each model GRPO, then GRPO-λ.
pub fn table1(paper: &Paper) -> Vec<Table1Check> {
    let mut out = Vec::new();
    for (model, pair) in Model::ALL.into_iter().zip(&paper.table1) {
        for (lambda, printed) in [(false, pair.grpo.cells()), (true, pair.lambda.cells())] {
            let candidates = if lambda { variants(paper, model) } else { baselines(paper, model) };
            let mut best: Option<(Aggregation, (usize, f64))> = None;
            for candidate in candidates {
                let fit = candidate.fit(&printed);
                if best.as_ref().is_none_or(|(_, old)| fit.0 > old.0 || (fit.0 == old.0 && fit.1 < old.1)) {
                    best = Some((candidate, fit));
                }
            }
            let (best, (_, largest_error)) = best.expect("every model has columns");
            out.push(Table1Check { model, lambda, printed, best, largest_error });
        }
    }
    out
}

/// GRPO over the four data sets, and without each of them.
pub fn baselines(paper: &Paper, model: Model) -> Vec<Aggregation> {
    let all = paper.row_of_runs(model, Column::GRPO);
    let mut out = vec![Aggregation::new("mean of four data sets".into(), &all)];
    for dataset in Dataset::ALL {
        let rest: Vec<&Run> = all.iter().copied().filter(|r| r.dataset != dataset).collect();
        out.push(Aggregation::new(format!("mean without {}", dataset.name()), &rest));
    }
    out
}

/// Each variant over the four data sets, each family over its λ, and all of them together.
fn variants(paper: &Paper, model: Model) -> Vec<Aggregation> {
    let columns = &paper.columns(model)[1..];
    let mut out = Vec::new();
    let mut families: Vec<(&str, Vec<&Run>)> = Vec::new();
    let mut everything = Vec::new();
    for column in columns {
        let runs = paper.row_of_runs(model, *column);
        out.push(Aggregation::new(column.name(), &runs));
        everything.extend(&runs);
        match families.iter_mut().find(|(name, _)| *name == column.family()) {
            Some((_, members)) => members.extend(runs),
            None => families.push((column.family(), runs)),
        }
    }
    for (name, runs) in families.iter().filter(|(_, runs)| runs.len() > 4) {
        out.push(Aggregation::new(format!("{name}, mean over λ = 0.98 and 0.99"), runs));
    }
    out.push(Aggregation::new("mean of all variants".into(), &everything));
    out
}
