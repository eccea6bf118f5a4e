//! A table of the paper, ours beside theirs.

use grpo_lambda_stats::{Interval, mean_of_independent};

use super::axes::{PaperDataset, Variant, benchmarks, datasets, models};
use super::grid::{Cell, averaged};
use super::paper::{Paper, PrintedScore};
use super::run::CellStatus;
use super::score::CellScores;

/// An accuracy of ours.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OurScore {
    /// With its 95 % interval: of the test items alone, as for the paper's.
    pub value: Interval,
    /// Right answers and problems, where it is one count.
    pub count: Option<(u64, u64)>,
}

/// A field of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct TableEntry {
    pub column: String,
    /// Ours; `None` where there is none yet.
    pub ours: Option<OurScore>,
    pub paper: PrintedScore,
}

#[derive(Clone, Debug, PartialEq)]
pub struct TableRow {
    /// The block it is in: a data set in Tables 3 to 6, a model in Table 1.
    pub block: String,
    /// Its name: a benchmark or AVG in Tables 3 to 6, a method in Table 1.
    pub name: String,
    /// Its fields, by column.
    pub entries: Vec<TableEntry>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct TableComparison {
    pub number: u8,
    pub title: String,
    /// The noun for a block.
    pub blocks: &'static str,
    pub rows_are: &'static str,
    pub columns_are: &'static str,
    /// Names of its columns.
    pub columns: Vec<String>,
    pub rows: Vec<TableRow>,
    /// Caveats of the table.
    pub notes: Vec<String>,
}

/// The cells of a grid with their status.
pub type Cells = [(Cell, CellStatus)];

fn scores<'a>(
    cells: &'a Cells,
    model: &str,
    dataset: &PaperDataset,
    variant: Variant,
) -> Option<&'a CellScores> {
    let is = |cell: &Cell| cell.model.name == model && *cell.dataset == *dataset && cell.variant == variant;
    match &cells.iter().find(|(cell, _)| is(cell))?.1 {
        CellStatus::Done(scores) => Some(scores),
        CellStatus::Partial | CellStatus::Missing => None,
    }
}

/// A cell's accuracies in the order of [`benchmarks`], then their unweighted mean; nothing where a benchmark had no graded answer.
fn accuracies(scores: &CellScores) -> Option<[Vec<OurScore>; 2]> {
    let each = scores
        .scores
        .iter()
        .map(|s| Some(OurScore { value: s.interval()?, count: Some((s.correct, s.n)) }))
        .collect::<Option<Vec<_>>>()?;
    let mean = mean(&each)?;
    Some([each, vec![mean]])
}

/// The unweighted mean over benchmarks.
fn mean(each: &[OurScore]) -> Option<OurScore> {
    let parts: Vec<Interval> = each.iter().map(|o| o.value).collect();
    Some(OurScore { value: mean_of_independent(&parts)?, count: None })
}

/// The mean over runs on the same problems: value by value, and end by end, as wide as if the runs were right and wrong together.
fn mean_over_runs(runs: &[Vec<OurScore>]) -> Option<Vec<OurScore>> {
    let n = runs.len() as f64;
    let at = |i: usize, part: fn(&Interval) -> f64| runs.iter().map(|r| part(&r[i].value)).sum::<f64>() / n;
    let level = runs.first()?.first()?.value.level;
    let mean = |i| Interval { low: at(i, |v| v.low), mid: at(i, |v| v.mid), high: at(i, |v| v.high), level };
    Some((0..benchmarks().len()).map(|i| OurScore { value: mean(i), count: None }).collect())
}

/// One of Tables 3 to 6; `None` for another number.
pub fn runs_table(paper: &Paper, number: u8, cells: &Cells) -> Option<TableComparison> {
    let runs = paper.table(number)?;
    let model = models().iter().find(|m| m.table == number)?;
    let mut rows: Vec<TableRow> = Vec::new();
    let names: Vec<&str> = benchmarks().iter().map(|b| b.name.as_str()).chain(["AVG"]).collect();
    for block in runs.chunk_by(|a, b| a.dataset == b.dataset) {
        let ours: Vec<Option<Vec<OurScore>>> = block
            .iter()
            .map(|run| Some(accuracies(scores(cells, &model.name, run.dataset, run.variant)?)?.concat()))
            .collect();
        for (i, name) in names.iter().enumerate() {
            let entry = |(run, ours): (&super::paper::PaperRun, &Option<Vec<OurScore>>)| TableEntry {
                column: run.variant.to_string(),
                ours: ours.as_ref().map(|o| o[i]),
                paper: run.scores.get(i).unwrap_or(&run.average).clone(),
            };
            let entries = block.iter().zip(&ours).map(entry).collect();
            rows.push(TableRow { block: block[0].dataset.name.clone(), name: (*name).to_owned(), entries });
        }
    }
    Some(TableComparison {
        number,
        title: format!("{} ({})", model.name, model.id),
        blocks: "data set",
        rows_are: "benchmark",
        columns_are: "variant",
        columns: model.variants.iter().map(Variant::to_string).collect(),
        rows,
        notes: vec![
            "intervals, 95 %: Wilson's of right answers out of n, ours and the paper's (nearest k of n); AVG, the unweighted mean of the five, by \
             square-and-add. They hold what the choice of test problems leaves open, not what another training seed would change"
                .to_owned(),
        ],
    })
}

/// Table 1.
pub fn averages_table(paper: &Paper, cells: &Cells) -> TableComparison {
    let mut rows = Vec::new();
    let mut notes = Vec::new();
    for row in &paper.table1 {
        let model = models().iter().find(|m| m.name == row.model);
        let runs: Option<Vec<Vec<OurScore>>> = model.as_ref().and_then(|model| {
            let variants = averaged(model, row.lambda);
            let runs = datasets().iter().flat_map(|d| variants.iter().map(move |v| (d, *v)));
            runs.map(|(d, v)| Some(accuracies(scores(cells, &model.name, d, v)?)?[0].clone())).collect()
        });
        let each = runs.and_then(|runs| mean_over_runs(&runs));
        let mean = each.as_deref().and_then(mean);
        let ours: Vec<Option<OurScore>> = match each {
            Some(each) => each.into_iter().map(Some).collect(),
            None => vec![None; benchmarks().len()],
        };
        let printed = row.scores.iter().chain([&row.average]);
        let names = benchmarks().iter().map(|b| b.printed().name()).chain(["Average"]);
        let entries = printed
            .zip(names)
            .zip(ours.into_iter().chain([mean]))
            .map(|((paper, name), ours)| TableEntry { column: name.to_owned(), ours, paper: paper.clone() });
        let name = if row.lambda { "GRPO-λ" } else { "GRPO" };
        rows.push(TableRow { block: row.model.clone(), name: name.to_owned(), entries: entries.collect() });
        if row.lambda {
            notes.push(format!("{}: GRPO-λ is made, as the paper's row is, of {}", row.model, row.made_of));
        }
    }
    notes.push(
        "a field is the mean over data sets (and λ); its interval, 95 %, is as wide as if the runs were right and wrong on the same problems together, which \
         is the widest it can be: for the paper's, Wilson's with the benchmark's n"
            .to_owned(),
    );
    TableComparison {
        number: 1,
        title: "averages over the data sets".to_owned(),
        blocks: "model",
        rows_are: "method",
        columns_are: "benchmark",
        columns: benchmarks()
            .iter()
            .map(|b| b.printed().name())
            .chain(["Average"])
            .map(str::to_owned)
            .collect(),
        rows,
        notes,
    }
}

impl TableComparison {
    /// Caveats of the audit in the order of the table, each with the number its fields are marked with.
    pub fn caveats(&self) -> Vec<(usize, String)> {
        let mut out = Vec::new();
        for row in &self.rows {
            for entry in &row.entries {
                if let Some(caveat) = &entry.paper.caveat {
                    let place = format!("{}, {}, {}", row.block, entry.column, row.name);
                    out.push((out.len() + 1, format!("{place}: {caveat}")));
                }
            }
        }
        out
    }

    /// Fields of ours that are filled, and all there are.
    pub fn filled(&self) -> (usize, usize) {
        let all = || self.rows.iter().flat_map(|r| &r.entries);
        (all().filter(|e| e.ours.is_some()).count(), all().count())
    }

    /// By how many points each variant's average is above the first column's, GRPO's, in the mean over blocks; ours and the paper's. The paper's
    /// averages are the means of its five scores, as some of those printed are not. Blocks in which ours are not filled are left out of ours.
    pub fn gains(&self) -> Vec<(String, Option<f64>, f64)> {
        let averages = || self.rows.iter().filter(|r| r.name == "AVG");
        let ours = |row: &TableRow, i: usize| Some(row.entries.get(i)?.ours?.value.mid);
        let paper = |row: &TableRow, i: usize| {
            let scores = self.rows.iter().filter(|r| r.block == row.block && r.name != "AVG");
            let scores: Option<Vec<f64>> = scores.map(|r| Some(r.entries.get(i)?.paper.value)).collect();
            grpo_lambda_stats::mean(&scores?)
        };
        let gain = |of: &dyn Fn(&TableRow, usize) -> Option<f64>, i: usize| {
            let points = averages().filter_map(|r| Some(100.0 * (of(r, i)? - of(r, 0)?)));
            grpo_lambda_stats::mean(&points.collect::<Vec<_>>())
        };
        let columns = self.columns.iter().enumerate().skip(1);
        columns.filter_map(|(i, name)| Some((name.clone(), gain(&ours, i), gain(&paper, i)?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::grid::{TableSelection, expand};
    use super::super::score::CellScore;
    use super::*;

    fn filled(selection: TableSelection, share: impl Fn(&Cell) -> f64) -> Vec<(Cell, CellStatus)> {
        let cells = expand(selection);
        let scores = |cell: &Cell| {
            let score = |b: &super::super::axes::PaperBenchmark| CellScore {
                benchmark: b.name.to_owned(),
                correct: (share(cell) * b.items() as f64).round() as u64,
                n: b.items(),
                ungradable: 0,
            };
            let scores = benchmarks().iter().map(score).collect();
            CellStatus::Done(CellScores { checkpoint: "x".into(), how: String::new(), scores })
        };
        cells.iter().map(|c| (*c, scores(c))).collect()
    }

    #[test]
    fn a_table_has_the_papers_shape_with_or_without_ours() {
        let paper = Paper::load();
        for (number, columns, blocks) in [(3, 9, 4), (4, 9, 4), (5, 3, 4), (6, 2, 4)] {
            let empty = runs_table(&paper, number, &[]).expect("a table");
            assert_eq!((empty.columns.len(), empty.rows.len()), (columns, 6 * blocks));
            assert_eq!(empty.filled(), (0, columns * 6 * blocks));
            let full =
                runs_table(&paper, number, &filled(TableSelection::Model(number), |_| 0.5)).expect("a table");
            assert_eq!(full.filled(), (columns * 6 * blocks, columns * 6 * blocks));
        }
        let table = averages_table(&paper, &filled(TableSelection::Averages, |_| 0.5));
        assert_eq!((table.rows.len(), table.columns.len(), table.filled()), (8, 6, (48, 48)));
        assert!(runs_table(&paper, 2, &[]).is_none());
    }

    #[test]
    fn a_variants_gain_is_its_mean_average_less_grpos() {
        let paper = Paper::load();
        let cells = filled(TableSelection::Model(6), |c| if c.variant == Variant::GRPO { 0.5 } else { 0.6 });
        let gains = runs_table(&paper, 6, &cells).expect("a table").gains();
        let [(name, Some(ours), printed)] = gains.as_slice() else { panic!("{gains:?}") };
        // Of 83 and 675 problems a tenth is no whole number: .6024, .5060; .6, .5007.
        assert!((ours - 10.0).abs() < 0.2, "{ours}");
        // The audit's gains of the means of five scores: 3.56, 4.46, 0.32 and 0.1 points.
        assert!((printed - (3.56 + 4.46 + 0.32 + 0.1) / 4.0).abs() < 1e-9, "{printed}");
        assert_eq!(name, "recent/ε-trace/0.99");
    }

    #[test]
    fn a_row_of_table_1_is_the_mean_over_data_sets_and_lambda() {
        let paper = Paper::load();
        // GRPO 0.2 everywhere; recent/ε-trace 0.4 and 0.6 for the two λ.
        let share = |c: &Cell| match c.variant.lambda() {
            None => 0.2,
            Some(l) if l < 0.985 => 0.4,
            Some(_) => 0.6,
        };
        let table = averages_table(&paper, &filled(TableSelection::Averages, share));
        let value =
            |row: usize, column: usize| table.rows[row].entries[column].ours.expect("filled").value.mid;
        // AIME24 has 30 items, so these shares are whole numbers: 6, 12 and 18.
        assert!((value(0, 0) - 0.2).abs() < 1e-12 && (value(1, 0) - 0.5).abs() < 1e-12);
        assert!((value(5, 0) - 0.6).abs() < 1e-12, "the larger models have one λ");
        // As wide as one run's interval, not as that of four.
        let width = table.rows[0].entries[0].ours.expect("filled").value.width();
        let one = grpo_lambda_stats::wilson(6, 30, 0.95).expect("items").width();
        assert!((width - one).abs() < 1e-12);
        let half_filled: Vec<_> = filled(TableSelection::Averages, share).into_iter().skip(1).collect();
        assert_eq!(averages_table(&paper, &half_filled).filled(), (42, 48));
    }
}
