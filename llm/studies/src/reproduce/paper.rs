//! The paper's Tables 1 and 3 to 6 as printed, each score with its interval and with what an audit finds wrong with it.
//!
//! Numbers and audit are those of [`grpo_lambda_printed`], which `sim paper_audit` reads, too: a cell is judged in one place.

use grpo_lambda_printed::consistency::{self, AverageCheck, CellCheck, Table1Check};
use grpo_lambda_printed::{self as paper, Model, Run, Score};
use grpo_lambda_stats::{Interval, mean_of_independent, wilson};

use super::axes::{PaperDataset, Variant, benchmarks, dataset};
use grpo_lambda_trainer::eval::CONFIDENCE_LEVEL;

/// A printed accuracy with the interval its number of problems implies.
#[derive(Clone, Debug, PartialEq)]
pub struct PrintedScore {
    /// The printed value, 0 to 1.
    pub value: f64,
    /// 95 %: from the test items alone. `None` where the scores it is made of are not printed.
    pub ends: Option<[f64; 2]>,
    /// The audit's objection to it.
    pub caveat: Option<String>,
}

/// A run of the paper: one column under one data set.
#[derive(Clone, Debug, PartialEq)]
pub struct PaperRun {
    /// The column.
    pub variant: Variant,
    /// The data set of its reinforcement learning.
    pub dataset: &'static PaperDataset,
    /// Scores in the order of [`benchmarks`].
    pub scores: Vec<PrintedScore>,
    /// The printed AVG.
    pub average: PrintedScore,
}

/// A row of Table 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Table1Row {
    /// The model, as in Table 1.
    pub model: String,
    /// True for the GRPO-lambda row.
    pub lambda: bool,
    /// Scores in the order of [`benchmarks`].
    pub scores: Vec<PrintedScore>,
    /// The printed Average.
    pub average: PrintedScore,
    /// Its origin in Tables 3 to 6, as the audit reconstructs it.
    pub made_of: String,
}

/// The tables.
#[derive(Clone, Debug, PartialEq)]
pub struct Paper {
    /// Runs by table number, 3 to 6: data set by data set in the order of the table.
    pub tables: Vec<(u8, Vec<PaperRun>)>,
    /// Table 1, in its order.
    pub table1: Vec<Table1Row>,
}

impl Paper {
    /// Reads the compiled-in tables.
    ///
    /// # Panics
    /// Never: a test reads it.
    pub fn load() -> Paper {
        let paper = paper::Paper::embedded().expect("what is compiled in was read by a test");
        let audit = Audit { cells: consistency::cells(&paper), averages: consistency::averages(&paper) };
        let tables = Model::ALL.into_iter().map(|model| {
            let in_order = paper.datasets(model).iter();
            let runs =
                in_order.flat_map(|d| paper.runs.iter().filter(move |r| (r.model, r.dataset) == (model, *d)));
            (model.table() as u8, runs.map(|run| audit.run(run)).collect())
        });
        Paper {
            tables: tables.collect(),
            table1: consistency::table1(&paper).iter().map(table1_row).collect(),
        }
    }

    /// The runs of a table, 3 to 6.
    pub fn table(&self, number: u8) -> Option<&[PaperRun]> {
        self.tables.iter().find(|(n, _)| *n == number).map(|(_, runs)| runs.as_slice())
    }
}

/// A score of a benchmark with Wilson's interval of the nearest count.
fn score(value: Score, items: u64) -> PrintedScore {
    let value = value.value();
    let interval = wilson((value * items as f64).round() as u64, items, CONFIDENCE_LEVEL);
    PrintedScore { value, ends: interval.map(|i| [i.low, i.high]), caveat: None }
}

/// A printed average, with the interval that the scores it is the mean of imply, moved to it.
fn average(scores: &[PrintedScore], value: Score) -> PrintedScore {
    let value = value.value();
    let part = |s: &PrintedScore| {
        s.ends.map(|[low, high]| Interval { low, mid: s.value, high, level: CONFIDENCE_LEVEL })
    };
    let parts: Option<Vec<Interval>> = scores.iter().map(part).collect();
    let interval = parts.and_then(|parts| mean_of_independent(&parts));
    let ends = interval.map(|i| [i.low, i.high].map(|end| end + value - i.mid));
    PrintedScore { value, ends, caveat: None }
}

/// The audit's checks of Tables 3 to 6.
struct Audit {
    cells: Vec<CellCheck>,
    averages: Vec<AverageCheck>,
}

impl Audit {
    fn run(&self, run: &Run) -> PaperRun {
        let scores: Vec<PrintedScore> = benchmarks()
            .iter()
            .map(|b| {
                let check = self.cells.iter().find(|c| c.run == *run && c.benchmark == b.printed());
                let caveat = check.filter(|c| !c.by_rounding).map(impossible_score);
                PrintedScore { caveat, ..score(run.scores[b.printed() as usize], b.items()) }
            })
            .collect();
        let check = self.averages.iter().find(|a| a.run == *run);
        let caveat = check.filter(|a| a.impossible()).map(wrong_average);
        let average = PrintedScore { caveat, ..average(&scores, run.printed_average) };
        PaperRun { variant: Variant(run.column), dataset: dataset(run.dataset.name()), scores, average }
    }
}

fn impossible_score(check: &CellCheck) -> String {
    let (items, nearest) = (check.benchmark.items(), check.nearest);
    let hint = match (check.by_truncation, check.by_two_decimals) {
        (true, _) => "; it is one if cut instead of rounded",
        (_, true) => "; it is one to two decimals",
        _ => "",
    };
    let value = check.score().value();
    format!(
        "{value} is no k/{items} (nearest {nearest}/{items} = {:.4}){hint}",
        nearest as f64 / items as f64
    )
}

fn wrong_average(check: &AverageCheck) -> String {
    let (printed, mean) = (check.run.printed_average.value(), check.run.mean());
    format!("printed average {printed}, but the mean of its five scores is {mean}")
}

fn table1_row(check: &Table1Check) -> Table1Row {
    let mismatches = check.mismatches();
    let made_of = check.best.name.clone();
    let with_caveat = |place: usize, cell: PrintedScore| {
        let (value, recomputed) = (cell.value, check.best.values[place]);
        let said = || format!("printed {value}, but Tables 3-6 give {recomputed:.4} ({made_of})");
        PrintedScore { caveat: mismatches.contains(&place).then(said), ..cell }
    };
    let scores: Vec<PrintedScore> = benchmarks()
        .iter()
        .map(|b| {
            let place = b.printed() as usize;
            // A mean over runs on the same items is known no better than if these went together on every item: Wilson with n items.
            with_caveat(place, score(check.printed[place], b.items()))
        })
        .collect();
    let average = with_caveat(AVERAGE, average(&scores, check.printed[AVERAGE]));
    Table1Row { model: check.model.name().to_owned(), lambda: check.lambda, scores, average, made_of }
}

/// The place of the average in a row of Table 1, after the five benchmarks.
const AVERAGE: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_and_caveats_are_those_of_the_paper_and_its_audit() {
        let paper = Paper::load();
        let shapes: Vec<(u8, usize)> = paper.tables.iter().map(|(n, runs)| (*n, runs.len())).collect();
        assert_eq!(shapes, [(3, 36), (4, 36), (5, 12), (6, 8)]);
        let all = || paper.tables.iter().flat_map(|(_, runs)| runs);
        let caveats = all().flat_map(|r| &r.scores).filter(|s| s.caveat.is_some()).count();
        assert_eq!(caveats, 5, "the audit has five scores that are no k/N");
        assert_eq!(
            all().filter(|r| r.average.caveat.is_some()).count(),
            5,
            "and five averages that are no mean"
        );
        // Table 5, gsm8k, both/ε-trace: .033 .524 .277 .179 .132, printed AVG .277.
        let runs = paper.table(5).expect("there");
        let run = runs.iter().find(|r| r.dataset.name == "gsm8k" && r.variant.slug() == "both-trace-0.99");
        let run = run.expect("there");
        assert_eq!(
            run.scores.iter().map(|s| s.value).collect::<Vec<_>>(),
            [0.033, 0.524, 0.277, 0.179, 0.132]
        );
        assert_eq!(
            run.average.caveat.as_deref(),
            Some("printed average 0.277, but the mean of its five scores is 0.229")
        );
    }

    #[test]
    fn table_1_says_where_it_departs_from_the_others() {
        let paper = Paper::load();
        assert_eq!(paper.table1.len(), 8);
        let row = paper.table1.iter().find(|r| r.model == "R1-Distill-LLaMA-3B" && !r.lambda).expect("there");
        let off: Vec<&str> = benchmarks()
            .iter()
            .zip(&row.scores)
            .filter(|(_, s)| s.caveat.is_some())
            .map(|(b, _)| b.printed().name())
            .collect();
        assert_eq!(off, ["MATH", "AMC"]);
        assert_eq!(row.average.value, 0.142);
        let others = paper.table1.iter().filter(|r| r.model != "R1-Distill-LLaMA-3B" || r.lambda);
        assert!(others.flat_map(|r| &r.scores).all(|s| s.caveat.is_none()));
    }

    #[test]
    fn an_average_is_known_as_well_as_the_audit_says() {
        // The audit's standard error of a difference of two averages, from p(1 - p)/n: 2.4 points here.
        let run = &Paper::load().tables[0].1[0];
        let ends = run.average.ends.expect("all scores are printed");
        let se = (ends[1] - ends[0]) / 2.0 / 1.96;
        assert!((se * 2f64.sqrt() - 0.024).abs() < 0.002, "{se}");
        assert!(ends[0] < run.average.value && run.average.value < ends[1]);
    }
}
