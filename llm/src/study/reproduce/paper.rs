//! The paper's Tables 1 and 3 to 6 as printed, and what their audit found wrong with them.
//!
//! The numbers are those of `paper/data/paper_tables.json`. The caveats are read from what `sim paper_audit` wrote beside it, so that a cell is
//! judged in one place.

use grpo_lambda::stats::{Interval, mean_of_independent, wilson};
use grpo_lambda::table::{Cell as Field, Table as Rows};
use serde_json::Value;

use super::grid::{DATASETS, Dataset};
use super::variant::Variant;
use crate::eval::LEVEL;

const TABLES: &str = include_str!("../../../../paper/data/paper_tables.json");
const IMPOSSIBLE: &str = include_str!("../../../../paper/data/paper_audit_impossible_scores.csv");
const AVERAGES: &str = include_str!("../../../../paper/data/paper_audit_averages.csv");
const TABLE_1: &str = include_str!("../../../../paper/data/paper_audit_table1.csv");

/// A benchmark of the paper.
#[derive(Debug, PartialEq, Eq)]
pub struct Benchmark {
    /// As in Tables 3 to 6.
    pub name: &'static str,
    /// As in Table 1.
    pub long_name: &'static str,
    /// As `llm-train eval --benchmarks` names it.
    pub key: &'static str,
    /// Problems in the copy that understand-r1-zero evaluates, the code the paper names.
    pub items: u64,
}

/// The five, in the order of Tables 3 to 6.
pub static BENCHMARKS: &[Benchmark] = &[
    Benchmark { name: "AIME", long_name: "AIME24", key: "aime24", items: 30 },
    Benchmark { name: "MATH", long_name: "MATH", key: "math500", items: 500 },
    Benchmark { name: "AMC", long_name: "AMC", key: "amc", items: 83 },
    Benchmark { name: "OLBen", long_name: "Olympiad", key: "olympiad", items: 675 },
    Benchmark { name: "MIN", long_name: "Minerva", key: "minerva", items: 272 },
];

/// A printed accuracy with the interval its number of problems implies.
#[derive(Clone, Debug, PartialEq)]
pub struct Printed {
    /// As printed, 0 to 1.
    pub value: f64,
    /// 95 %: from the test items alone. `None` where the scores it is made of are not printed.
    pub ends: Option<[f64; 2]>,
    /// What the audit says of it.
    pub caveat: Option<String>,
}

/// A run of the paper: one column under one data set.
#[derive(Clone, Debug, PartialEq)]
pub struct PaperRun {
    /// The column.
    pub variant: Variant,
    /// The data set of its reinforcement learning.
    pub dataset: &'static Dataset,
    /// Scores in the order of [`BENCHMARKS`].
    pub scores: Vec<Printed>,
    /// The printed AVG.
    pub average: Printed,
}

/// A row of Table 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Table1Row {
    /// The model, as in Table 1.
    pub model: String,
    /// Whether it is the GRPO-lambda row.
    pub lambda: bool,
    /// Scores in the order of [`BENCHMARKS`].
    pub scores: Vec<Printed>,
    /// The printed Average.
    pub average: Printed,
    /// How the audit says it was made from Tables 3 to 6.
    pub made_of: String,
}

/// The tables.
#[derive(Clone, Debug, PartialEq)]
pub struct Paper {
    /// Runs by table number, 3 to 6: columns, and runs data set by data set in the order of the table.
    pub tables: Vec<(u8, Vec<Variant>, Vec<PaperRun>)>,
    /// Table 1, in its order.
    pub table1: Vec<Table1Row>,
}

/// A score of a benchmark with Wilson's interval of the nearest count.
fn printed(value: f64, items: u64) -> Printed {
    let interval = wilson((value * items as f64).round() as u64, items, LEVEL);
    Printed { value, ends: interval.map(|i| [i.low, i.high]), caveat: None }
}

impl Paper {
    /// What is compiled in.
    ///
    /// # Panics
    /// Never: a test reads it.
    pub fn load() -> Paper {
        read().expect("what is compiled in was read by a test")
    }

    /// Columns and runs of a table, 3 to 6.
    pub fn table(&self, number: u8) -> Option<(&[Variant], &[PaperRun])> {
        let (_, columns, runs) = self.tables.iter().find(|(n, ..)| *n == number)?;
        Some((columns, runs))
    }
}

fn read() -> Option<Paper> {
    let json: Value = serde_json::from_str(TABLES).ok()?;
    let (impossible, averages) = (Rows::from_csv(IMPOSSIBLE).ok()?, Rows::from_csv(AVERAGES).ok()?);
    let mut tables = Vec::new();
    for number in 3..=6u8 {
        let table = &json["tables"][format!("table{number}")];
        let columns: Option<Vec<Variant>> = table["columns"].as_array()?.iter().map(column).collect();
        let columns = columns?;
        let mut runs = Vec::new();
        for (name, block) in table["blocks"].as_object()? {
            let dataset = DATASETS.iter().find(|d| d.name == name)?;
            for (i, variant) in columns.iter().enumerate() {
                let at = |row: &str| block[row].get(i)?.as_f64();
                let mut scores = Vec::new();
                for b in BENCHMARKS {
                    let mut score = printed(at(b.name)?, b.items);
                    let place = [f64::from(number).into(), name.as_str().into(), variant.to_string().into()];
                    score.caveat = impossible_score(&impossible, &place, b);
                    scores.push(score);
                }
                let mut average = average(&scores, at("AVG")?);
                average.caveat = wrong_average(&averages, number, name, variant);
                runs.push(PaperRun { variant: *variant, dataset, scores, average });
            }
        }
        tables.push((number, columns, runs));
    }
    Some(Paper { tables, table1: table1(&json)? })
}

fn column(column: &Value) -> Option<Variant> {
    Variant::read(column["trace_style"].as_str()?, column["update_style"].as_str()?, column["lam"].as_f64())
}

/// A printed average, with the interval that the scores it is the mean of imply, moved to it.
fn average(scores: &[Printed], value: f64) -> Printed {
    let part = |s: &Printed| s.ends.map(|[low, high]| Interval { low, mid: s.value, high, level: LEVEL });
    let parts: Option<Vec<Interval>> = scores.iter().map(part).collect();
    let interval = parts.and_then(|parts| mean_of_independent(&parts));
    let ends = interval.map(|i| [i.low, i.high].map(|end| end + value - i.mid));
    Printed { value, ends, caveat: None }
}

/// The row of an audit's table in which these columns have these values.
fn find<'a>(rows: &'a Rows, values: &[(&str, Field)]) -> Option<&'a Vec<Field>> {
    let places: Option<Vec<_>> =
        values.iter().map(|(name, value)| Some((rows.column(name)?, value))).collect();
    let places = places?;
    rows.rows.iter().find(|row| places.iter().all(|(i, value)| row[*i] == **value))
}

fn field<'a>(rows: &Rows, row: &'a [Field], name: &str) -> Option<&'a Field> {
    row.get(rows.column(name)?)
}

fn impossible_score(audit: &Rows, [table, dataset, variant]: &[Field; 3], b: &Benchmark) -> Option<String> {
    let wanted = [
        ("table", table.clone()),
        ("dataset", dataset.clone()),
        ("variant", variant.clone()),
        ("benchmark", b.long_name.into()),
    ];
    let row = find(audit, &wanted)?;
    let nearest = field(audit, row, "nearest_k")?.number()?;
    let value = field(audit, row, "printed")?.number()?;
    let yes = |name: &str| field(audit, row, name).is_some_and(|f| *f == "yes".into());
    let hint = match (yes("right_if_cut"), yes("right_to_two_decimals")) {
        (true, _) => "; it is one if cut instead of rounded",
        (_, true) => "; it is one to two decimals",
        _ => "",
    };
    Some(format!(
        "{value} is no k/{} (nearest {nearest}/{} = {:.4}){hint}",
        b.items,
        b.items,
        nearest / b.items as f64
    ))
}

fn wrong_average(audit: &Rows, table: u8, dataset: &str, variant: &Variant) -> Option<String> {
    let wanted = [
        ("table", f64::from(table).into()),
        ("dataset", dataset.into()),
        ("variant", variant.to_string().into()),
        ("reading", "not a mean of these scores".into()),
    ];
    let row = find(audit, &wanted)?;
    let (printed, mean) =
        (field(audit, row, "printed")?.number()?, field(audit, row, "mean_of_five")?.number()?);
    Some(format!("printed average {printed}, but the mean of its five scores is {mean}"))
}

fn table1(json: &Value) -> Option<Vec<Table1Row>> {
    let audit = Rows::from_csv(TABLE_1).ok()?;
    let mut rows = Vec::new();
    for (model, methods) in json["tables"]["table1"]["rows"].as_object()? {
        for (key, method, lambda) in [("GRPO", "GRPO", false), ("GRPO-lambda", "GRPO-λ", true)] {
            let judged = |column: &str| {
                let wanted =
                    [("model", model.as_str().into()), ("method", method.into()), ("column", column.into())];
                let row = find(&audit, &wanted)?;
                let of = |name: &str| field(&audit, row, name).cloned();
                Some((of("agrees")?, of("recomputed")?.number()?, of("aggregation")?.format(4)))
            };
            let cell = |column: &str, mut cell: Printed| {
                let (agrees, recomputed, made_of) = judged(column)?;
                if agrees == "no".into() {
                    let value = cell.value;
                    cell.caveat =
                        Some(format!("printed {value}, but Tables 3-6 give {recomputed:.4} ({made_of})"));
                }
                Some(cell)
            };
            let mut scores = Vec::new();
            for b in BENCHMARKS {
                // A mean over runs on the same items is known no better than if these went together on every item: Wilson with n items.
                scores.push(cell(b.long_name, printed(methods[key][b.long_name].as_f64()?, b.items))?);
            }
            let mean = average(&scores, methods[key]["Average"].as_f64()?);
            let average = cell("Average", mean)?;
            let made_of = judged("Average")?.2;
            rows.push(Table1Row { model: model.clone(), lambda, scores, average, made_of });
        }
    }
    Some(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_and_caveats_are_those_of_the_paper_and_its_audit() {
        let paper = Paper::load();
        let shapes: Vec<(u8, usize, usize)> =
            paper.tables.iter().map(|(n, columns, runs)| (*n, columns.len(), runs.len())).collect();
        assert_eq!(shapes, [(3, 9, 36), (4, 9, 36), (5, 3, 12), (6, 2, 8)]);
        let all = || paper.tables.iter().flat_map(|(_, _, runs)| runs);
        let caveats = all().flat_map(|r| &r.scores).filter(|s| s.caveat.is_some()).count();
        assert_eq!(caveats, 5, "the audit has five scores that are no k/N");
        assert_eq!(
            all().filter(|r| r.average.caveat.is_some()).count(),
            5,
            "and five averages that are no mean"
        );
        // Table 5, gsm8k, both/ε-trace: .033 .524 .277 .179 .132, printed AVG .277.
        let (_, runs) = paper.table(5).expect("there");
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
        let off: Vec<&str> = BENCHMARKS
            .iter()
            .zip(&row.scores)
            .filter(|(_, s)| s.caveat.is_some())
            .map(|(b, _)| b.long_name)
            .collect();
        assert_eq!(off, ["MATH", "AMC"]);
        assert_eq!(row.average.value, 0.142);
        let others = paper.table1.iter().filter(|r| r.model != "R1-Distill-LLaMA-3B" || r.lambda);
        assert!(others.flat_map(|r| &r.scores).all(|s| s.caveat.is_none()));
    }

    #[test]
    fn an_average_is_known_as_well_as_the_audit_says() {
        // The audit's standard error of a difference of two averages, from p(1 - p)/n: 2.4 points here.
        let run = &Paper::load().tables[0].2[0];
        let ends = run.average.ends.expect("all scores are printed");
        let se = (ends[1] - ends[0]) / 2.0 / 1.96;
        assert!((se * 2f64.sqrt() - 0.024).abs() < 0.002, "{se}");
        assert!(ends[0] < run.average.value && run.average.value < ends[1]);
    }
}
