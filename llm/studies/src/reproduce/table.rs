//! The paper's Tables 1 and 3 to 6 as printed, each number with its interval and with what an audit finds wrong with
//! it; ours next to them.
//!
//! Numbers and audit are those of [`grpo_lambda_printed`], which `sim paper_audit` reads, too: a cell is judged in one
//! place.

use comfy_table::presets::ASCII_MARKDOWN;
use grpo_lambda_printed::consistency::{self, AverageCheck, CellCheck};
use grpo_lambda_printed::{Benchmark, Column, Score};
use grpo_lambda_stats::table::Table as Tidy;
use grpo_lambda_stats::{Interval, mean, mean_of_independent, wilson};

use super::axes::{PRINTED, PaperModel, benchmarks, models};
use super::grid::{Cell, averages};
use super::run::{CellScore, CellScores, CellStatus, Count};
use crate::terminal;
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

/// An accuracy of ours.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OurScore {
    /// With its 95 % interval: of the test items alone, as for the paper's.
    pub value: Interval,
    /// Right answers and problems, where it is one count.
    pub count: Option<Count>,
}

/// A field of a table.
#[derive(Clone, Debug)]
pub struct Field {
    /// The block it is in: a data set in Tables 3 to 6, a model in Table 1.
    pub block: String,
    /// Its row: a benchmark or AVG in Tables 3 to 6, a method in Table 1.
    pub row: String,
    pub column: String,
    pub paper: PrintedScore,
    /// Ours, counted as the paper's; `None` where there is none yet.
    pub ours: Option<OurScore>,
    /// Ours without the problems of training and without answers that cannot be read.
    pub decontaminated: Option<OurScore>,
    /// The runs whose mean it is, and the benchmark; `None` for the mean of all five.
    cells: Vec<Cell>,
    benchmark: Option<usize>,
}

/// A table of the paper, row by row.
#[derive(Clone, Debug)]
pub struct PaperTable {
    pub number: usize,
    title: String,
    /// Nouns for a block, a row and a column.
    heads: [&'static str; 3],
    pub fields: Vec<Field>,
    /// Caveats of the table.
    notes: Vec<String>,
}

const AVERAGE: &str = "AVG";
const DECONTAMINATED: &str = "decontaminated";
const COUNTED: &str = "ours counts as the paper's evaluation code does: every problem of the benchmark, those of the training \
                       data too, and 0 for an answer that cannot be read or a prompt that leaves no room. The column \
                       decontaminated leaves all three out";

/// The count of a result that a number of ours is made of.
type Counted = fn(&CellScore) -> Option<Count>;

/// The five printed scores in the order of Tables 3 to 6, with Wilson's intervals of the nearest counts; then their
/// printed average, with the interval that they imply, moved to it. `caveat` objects to a score, or without one to the
/// average.
fn printed(
    scores: &[Score],
    average: Score,
    caveat: impl Fn(Option<Benchmark>) -> Option<String>,
) -> Vec<PrintedScore> {
    let mut parts = Vec::new();
    let mut all = Vec::new();
    for b in benchmarks() {
        let value = scores[b.printed() as usize].value();
        let interval = wilson((value * b.items() as f64).round() as u64, b.items(), CONFIDENCE_LEVEL);
        parts.push(interval.map(|i| Interval { mid: value, ..i }));
        let ends = interval.map(|i| [i.low, i.high]);
        all.push(PrintedScore { value, ends, caveat: caveat(Some(b.printed())) });
    }
    let parts: Option<Vec<Interval>> = parts.into_iter().collect();
    let value = average.value();
    let mean = parts.and_then(|parts| mean_of_independent(&parts));
    let ends = mean.map(|i| [i.low, i.high].map(|end| end + value - i.mid));
    all.push(PrintedScore { value, ends, caveat: caveat(None) });
    all
}

/// The objection to a score that is no whole number of right answers.
fn impossible_score(check: &CellCheck) -> String {
    let (items, nearest) = (check.benchmark.items(), check.nearest);
    let hint = match (check.by_truncation, check.by_two_decimals) {
        (true, _) => "; it is one if cut instead of rounded",
        (false, true) => "; it is one to two decimals",
        (false, false) => "",
    };
    let (value, share) = (check.score().value(), nearest as f64 / items as f64);
    format!("{value} is no k/{items} (nearest {nearest}/{items} = {share:.4}){hint}")
}

fn wrong_average(check: &AverageCheck) -> String {
    let (printed, mean) = (check.run.printed_average.value(), check.run.mean());
    format!("printed average {printed}, but the mean of its five scores is {mean}")
}

/// Names of the five benchmarks and of their mean.
fn rows(name: fn(Benchmark) -> &'static str, mean: &str) -> Vec<String> {
    benchmarks().iter().map(|b| name(b.printed())).chain([mean]).map(str::to_owned).collect()
}

/// One of Tables 3 to 6: the runs of a model.
fn of_model(model: &'static PaperModel) -> PaperTable {
    let (cells, means) = (consistency::cells(&PRINTED), consistency::averages(&PRINTED));
    let mut fields = Vec::new();
    for dataset in model.datasets() {
        let runs: Vec<(Cell, Vec<PrintedScore>)> = model
            .variants()
            .into_iter()
            .filter_map(|variant| {
                let run = PRINTED.run(model.printed(), dataset.printed(), variant)?;
                let impossible = |c: &&CellCheck, b| c.run == *run && c.benchmark == b && !c.by_rounding;
                let wrong = |a: &&AverageCheck| a.run == *run && a.impossible();
                let caveat = |of: Option<Benchmark>| match of {
                    Some(b) => cells.iter().find(|c| impossible(c, b)).map(impossible_score),
                    None => means.iter().find(wrong).map(wrong_average),
                };
                let scores = printed(&run.scores, run.printed_average, caveat);
                Some((Cell { model, dataset, variant }, scores))
            })
            .collect();
        for (i, row) in rows(Benchmark::row_name, AVERAGE).into_iter().enumerate() {
            fields.extend(runs.iter().map(|(cell, scores)| Field {
                block: dataset.name.clone(),
                row: row.clone(),
                column: cell.variant.name(),
                paper: scores[i].clone(),
                ours: None,
                decontaminated: None,
                cells: vec![*cell],
                benchmark: benchmarks().get(i).map(|_| i),
            }));
        }
    }
    let note = "intervals, 95 %: Wilson's of right answers out of n, ours and the paper's (nearest k of n); AVG, the \
                unweighted mean of the five, by square-and-add. They hold what the choice of test problems leaves \
                open, not what another training seed would change";
    PaperTable {
        number: model.printed().table(),
        title: format!("{} ({})", model.name, model.id),
        heads: ["data set", "benchmark", "variant"],
        fields,
        notes: vec![COUNTED.to_owned(), note.to_owned()],
    }
}

/// Table 1: averages over data sets and λ.
fn of_averages() -> PaperTable {
    let (mut fields, mut notes) = (Vec::new(), vec![COUNTED.to_owned()]);
    for check in consistency::table1(&PRINTED) {
        let Some(model) = models().iter().find(|m| m.printed() == check.model) else { continue };
        let made_of = &check.best.name;
        if check.lambda {
            notes.push(format!("{}: GRPO-λ is made, as the paper's row is, of {made_of}", model.name));
        }
        let variants: Vec<Column> =
            model.variants().into_iter().filter(|v| averages(*v, check.lambda)).collect();
        let cells = model.datasets().flat_map(|dataset| {
            variants.iter().map(move |variant| Cell { model, dataset, variant: *variant })
        });
        let cells: Vec<Cell> = cells.collect();
        // A mean over runs on the same items is known no better than if these went together on every item: Wilson with
        // n items.
        let mismatches = check.mismatches();
        let caveat = |of: Option<Benchmark>| {
            let i = of.map_or(Benchmark::ALL.len(), |b| b as usize);
            let (value, recomputed) = (check.printed[i].value(), check.best.values[i]);
            let text = format!("printed {value}, but Tables 3-6 give {recomputed:.4} ({made_of})");
            mismatches.contains(&i).then_some(text)
        };
        let scores = printed(&check.printed, check.printed[Benchmark::ALL.len()], caveat);
        let named = rows(Benchmark::name, "Average").into_iter().zip(scores).enumerate();
        fields.extend(named.map(|(i, (column, paper))| Field {
            block: model.name.clone(),
            row: check.method().to_owned(),
            column,
            paper,
            ours: None,
            decontaminated: None,
            cells: cells.clone(),
            benchmark: benchmarks().get(i).map(|_| i),
        }));
    }
    let width = "a field is the mean over data sets (and λ); its interval, 95 %, is as wide as if the runs were right \
                 and wrong on the same problems together, which is the widest it can be: for the paper's, Wilson's \
                 with the benchmark's n";
    notes.push(width.to_owned());
    let title = "averages over the data sets".to_owned();
    PaperTable { number: 1, title, heads: ["model", "method", "benchmark"], fields, notes }
}

/// The mean over runs on the same problems: end by end, as wide as if the runs were right and wrong together.
fn mean_over_runs(runs: &[&CellScores], benchmark: usize, counted: Counted) -> Option<Interval> {
    let all: Vec<Interval> =
        runs.iter().map(|run| counted(&run.scores[benchmark])?.interval()).collect::<Option<_>>()?;
    let part = |part: fn(&Interval) -> f64| mean(&all.iter().map(part).collect::<Vec<_>>());
    Some(Interval {
        low: part(|i| i.low)?,
        mid: part(|i| i.mid)?,
        high: part(|i| i.high)?,
        level: CONFIDENCE_LEVEL,
    })
}

impl Field {
    /// A number of ours from the runs that are done; nothing where one is not, or a benchmark of it has no count.
    fn number(&self, done: &[(Cell, CellStatus)], counted: Counted) -> Option<OurScore> {
        let scores = |cell: &Cell| match done.iter().find(|(c, _)| c == cell) {
            Some((_, CellStatus::Done(scores))) => Some(scores),
            Some((_, CellStatus::Partial | CellStatus::Missing)) | None => None,
        };
        let runs: Vec<&CellScores> = self.cells.iter().map(scores).collect::<Option<_>>()?;
        let value = |b: usize| mean_over_runs(&runs, b, counted);
        let Some(b) = self.benchmark else {
            let all: Vec<Interval> = (0..benchmarks().len()).map(value).collect::<Option<_>>()?;
            return Some(OurScore { value: mean_of_independent(&all)?, count: None });
        };
        let count = match runs.as_slice() {
            [one] => counted(&one.scores[b]),
            _several => None,
        };
        Some(OurScore { value: value(b)?, count })
    }
}

/// `.334` for an accuracy.
fn accuracy(x: f64) -> String {
    let text = format!("{x:.3}");
    text.strip_prefix('0').unwrap_or(&text).to_owned()
}

impl PaperTable {
    /// A table, 1 or 3 to 6, with the scores of the cells that are done; `None` for another number.
    pub fn new(number: usize, done: &[(Cell, CellStatus)]) -> Option<PaperTable> {
        let mut table = match number {
            1 => of_averages(),
            n => of_model(models().iter().find(|m| m.printed().table() == n)?),
        };
        for field in &mut table.fields {
            field.ours = field.number(done, |score| Some(score.all));
            field.decontaminated = field.number(done, |score| score.decontaminated);
        }
        Some(table)
    }

    /// Its rows: the fields of the same block and row.
    fn rows(&self) -> impl Iterator<Item = &[Field]> {
        self.fields.chunk_by(|a, b| (&a.block, &a.row) == (&b.block, &b.row))
    }

    /// Caveats of the audit in the order of the table, each with the number its field is marked with.
    fn caveats(&self) -> Vec<String> {
        let caveat = |f: &Field| {
            let caveat = f.paper.caveat.as_ref()?;
            Some(format!("{}, {}, {}: {caveat}", f.block, f.column, f.row))
        };
        let all = self.fields.iter().filter_map(caveat);
        all.enumerate().map(|(i, text)| format!("  [{}] {text}", i + 1)).collect()
    }

    /// Fields of ours that are filled, and all there are.
    pub fn filled(&self) -> (usize, usize) {
        (self.fields.iter().filter(|f| f.ours.is_some()).count(), self.fields.len())
    }

    /// By how many points each variant's average is above the first column's, GRPO's, in the mean over data sets; ours
    /// and the paper's. The paper's averages are the means of its five scores, as some of those printed are not. Data
    /// sets in which ours are not filled are left out of ours. Empty for Table 1.
    pub fn gains(&self) -> Vec<(String, Option<f64>, f64)> {
        let averages: Vec<&[Field]> = self.rows().filter(|row| row[0].row == AVERAGE).collect();
        let paper = |field: &Field| {
            let is_score =
                |f: &&Field| (&f.block, &f.column) == (&field.block, &field.column) && f.row != AVERAGE;
            mean(&self.fields.iter().filter(is_score).map(|f| f.paper.value).collect::<Vec<_>>())
        };
        let ours = |field: &Field| Some(field.ours?.value.mid);
        let gain = |of: &dyn Fn(&Field) -> Option<f64>, i: usize| {
            let points = averages.iter().filter_map(|row| Some(100.0 * (of(&row[i])? - of(&row[0])?)));
            mean(&points.collect::<Vec<_>>())
        };
        let columns = averages.first().map_or(&[][..], |row| row).iter().enumerate().skip(1);
        columns.filter_map(|(i, f)| Some((f.column.clone(), gain(&ours, i), gain(&paper, i)?))).collect()
    }

    fn heading(&self) -> String {
        let state = match self.filled() {
            (filled, all) if filled == all => String::new(),
            (filled, all) => format!("; {filled} of {all} fields filled"),
        };
        format!(
            "Table {} of the paper: {}. In each field ours, its 95 % interval, (the paper's){state}",
            self.number, self.title
        )
    }

    /// The fields, with their parts parted by `between`: ours, its interval, the paper's in brackets with the mark of
    /// its caveat; then ours decontaminated, in a column of its own.
    fn body(&self, between: &str) -> comfy_table::Table {
        let columns = self.rows().next().unwrap_or_default().iter().map(|f| f.column.as_str());
        // A column that nothing stands in yet is left out.
        let filled = |i: usize| self.rows().any(|row| row[i].ours.is_some());
        let columns: Vec<(&str, bool)> = columns.enumerate().map(|(i, name)| (name, filled(i))).collect();
        let mut heads: Vec<&str> = self.heads[..2].to_vec();
        for (name, filled) in &columns {
            heads.push(name);
            heads.extend(filled.then_some(DECONTAMINATED));
        }
        let mut table = terminal::table(heads);
        let mut marks = 0;
        let number = |score: &Option<OurScore>| match score {
            Some(OurScore { value: v, .. }) => {
                vec![accuracy(v.mid), format!("{}-{}", accuracy(v.low), accuracy(v.high))]
            }
            None => vec!["-".to_owned()],
        };
        for row in self.rows() {
            let mut cells = vec![row[0].block.clone(), row[0].row.clone()];
            for (field, (_, filled)) in row.iter().zip(&columns) {
                let mut parts = number(&field.ours);
                marks += usize::from(field.paper.caveat.is_some());
                let mark = field.paper.caveat.as_ref().map_or(String::new(), |_| format!(" [{marks}]"));
                parts.push(format!("({}){mark}", accuracy(field.paper.value)));
                cells.push(parts.join(between));
                cells.extend(filled.then(|| number(&field.decontaminated).join(between)));
            }
            table.add_row(cells);
        }
        table
    }

    /// Gains, notes and caveats.
    fn footer(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let gains = self.gains();
        if !gains.is_empty() {
            let one = |(name, ours, paper): &(String, Option<f64>, f64)| {
                let ours = ours.map_or("-".to_owned(), |x| format!("{x:+.1}"));
                format!("{name} {ours} ({paper:+.1})")
            };
            let words = gains.iter().map(one).collect::<Vec<_>>().join("; ");
            lines.push(format!(
                "mean AVG over data sets minus GRPO's, in points, ours (the paper's): {words}"
            ));
        }
        lines.extend(self.notes.iter().cloned());
        let caveats = self.caveats();
        if !caveats.is_empty() {
            lines.push("what the audit of the paper's tables says (sim paper_audit):".to_owned());
            lines.extend(caveats);
        }
        lines
    }

    /// The table for a terminal.
    pub fn text(&self) -> String {
        format!("{}\n{}\n{}", self.heading(), self.body("\n"), self.footer().join("\n"))
    }

    /// The table as a Markdown page.
    pub fn markdown(&self, legend: &[String], command: &str) -> String {
        let mut body = self.body(" ");
        body.load_preset(ASCII_MARKDOWN);
        let legend: String = legend.iter().map(|line| format!("- {line}\n")).collect();
        let footer: String = self.footer().iter().map(|line| format!("\n{line}\n")).collect();
        format!(
            "<!-- {} -->\n# {}\n\n{legend}\n{body}\n{footer}",
            command.replace("--", "- -"),
            self.heading()
        )
    }

    /// The table as tidy rows, one for each field.
    pub fn csv(&self, scale: &str, command: &str) -> String {
        let heads = self.heads.map(|name| name.replace(' ', "_"));
        let mut columns = vec!["table"];
        columns.extend(heads.iter().map(String::as_str));
        let ends = ["", "_low95", "_high95", "_correct", "_n"];
        let names = ["ours", DECONTAMINATED].map(|name| ends.map(|end| format!("{name}{end}")));
        columns.push("scale");
        columns.extend(names.iter().flatten().map(String::as_str));
        columns.extend(["paper", "paper_low95", "paper_high95", "caveat"]);
        let mut tidy = Tidy::new(&columns);
        for f in &self.fields {
            let numbers = |score: Option<OurScore>| {
                let (value, count) = (score.map(|s| s.value), score.and_then(|s| s.count));
                let [low, mid, high] = [value.map(|v| v.low), value.map(|v| v.mid), value.map(|v| v.high)];
                [mid, low, high, count.map(|c| c.right as f64), count.map(|c| c.n as f64)]
            };
            let paper = [Some(f.paper.value), f.paper.ends.map(|p| p[0]), f.paper.ends.map(|p| p[1])];
            let names = [&f.block, &f.row, &f.column].map(|name| name.as_str().into());
            let mut row = vec![self.number.into()];
            row.extend(names);
            row.push(scale.into());
            row.extend([f.ours, f.decontaminated].into_iter().flat_map(numbers).map(Into::into));
            row.extend(paper.map(Into::into));
            row.push(f.paper.caveat.as_deref().map_or(grpo_lambda_stats::table::Cell::Empty, Into::into));
            tidy.push(row);
        }
        tidy.to_csv(command)
    }
}
