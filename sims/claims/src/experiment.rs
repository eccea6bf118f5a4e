//! The shape of an experiment: what it claims, what it returns.

use crate::figure::Figure;
use crate::sentences::SentenceId;
use crate::store::Store;
use grpo_lambda_stats::Interval;
use grpo_lambda_stats::table::{Table, significant};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A verdict on a claim, computed from numbers by the experiment, never typed in.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// The claim holds in every case examined, to numerical accuracy.
    Holds,
    /// The claim holds under a condition the text does not state; the string says which.
    HoldsWhen(String),
    /// The numbers do not tell: an effect is not shown, nor that there is none; the string says what would have to be
    /// known.
    Inconclusive(String),
    /// The claim fails; the string names the counterexample with its numbers.
    Fails(String),
}

impl Verdict {
    /// `Holds`, `Holds when`, `Inconclusive` or `Fails`.
    pub fn word(&self) -> &'static str {
        match self {
            Verdict::Holds => "Holds",
            Verdict::HoldsWhen(_) => "Holds when",
            Verdict::Inconclusive(_) => "Inconclusive",
            Verdict::Fails(_) => "Fails",
        }
    }
    /// The condition or counterexample; empty for `Holds`.
    pub fn detail(&self) -> &str {
        match self {
            Verdict::Holds => "",
            Verdict::HoldsWhen(s) | Verdict::Inconclusive(s) | Verdict::Fails(s) => s,
        }
    }
}

/// One statement put to the test, with our numbers.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The name by which pages ask for it; no other finding of the experiment has it.
    pub key: String,
    /// Sentence of the paper under test. `None` for a question of ours.
    pub tests: Option<SentenceId>,
    /// The statement examined, short. The first finding of a report is the paper's claim itself.
    pub statement: String,
    /// The meaning of the numbers for the statement.
    pub verdict: Verdict,
    /// Numbers and names that stand in no table, by name.
    pub values: Map<String, Value>,
    /// The rows of the experiment's tables that decide.
    pub rows: Option<Rows>,
    /// Notes that a reader needs for the numbers: settings, reasons.
    pub note: String,
}

/// Rows of a table of the experiment, as a page shows them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rows {
    /// The table's name in [`Report::tables`].
    pub table: String,
    /// The columns that are shown; every column if there is none.
    pub columns: Vec<String>,
    /// Columns with the texts of which a row has one there to be shown.
    pub only: Vec<(String, Vec<String>)>,
}

/// The name of a table of single cases, which summaries stand for: `sim` writes it, git and the pages do without it.
pub const CASES: &str = "cases";

/// Digits of a number in a file of verdicts; as many as in a table.
const DIGITS: usize = 12;

impl Finding {
    /// A finding on a question of ours.
    pub fn new(key: impl Into<String>, statement: impl Into<String>, verdict: Verdict) -> Finding {
        let (values, note) = (Map::new(), String::new());
        Finding {
            key: key.into(),
            tests: None,
            statement: statement.into(),
            verdict,
            values,
            rows: None,
            note,
        }
    }

    /// The finding that tests a sentence of the paper.
    pub fn on(id: SentenceId, verdict: Verdict) -> Finding {
        let sentence = id.sentence();
        Finding { tests: Some(id), ..Finding::new(sentence.key, sentence.statement, verdict) }
    }

    /// Adds a number, a name, a list of either, or `None`.
    #[must_use]
    pub fn value(mut self, name: impl Into<String>, value: impl Serialize) -> Finding {
        let value = serde_json::to_value(value).unwrap_or(Value::Null);
        self.values.insert(name.into(), rounded(value));
        self
    }

    /// Adds a number with the ends of its interval.
    #[must_use]
    pub fn interval(self, name: impl Into<String>, interval: impl Into<Option<Interval>>) -> Finding {
        self.value(name, interval.into().map(|i| [i.mid, i.low, i.high]))
    }

    /// Adds what each of some items gives.
    #[must_use]
    pub fn each<T>(self, items: impl IntoIterator<Item = T>, add: impl Fn(Finding, T) -> Finding) -> Finding {
        items.into_iter().fold(self, add)
    }

    /// Shows these columns of a table of the experiment; every column if there is none.
    #[must_use]
    pub fn rows(mut self, table: &str, columns: &[&str]) -> Finding {
        let columns = columns.iter().map(|&column| column.to_owned()).collect();
        self.rows = Some(Rows { table: table.to_owned(), columns, only: Vec::new() });
        self
    }

    /// Keeps only the rows of the table that have one of these texts in a column.
    ///
    /// # Panics
    /// Before [`Finding::rows`].
    #[must_use]
    pub fn only<T: ToString>(mut self, column: &str, texts: &[T]) -> Finding {
        let rows = self.rows.as_mut().expect("rows come before those that are shown");
        rows.only.push((column.to_owned(), texts.iter().map(T::to_string).collect()));
        self
    }

    /// Adds what a reader must know of the numbers.
    #[must_use]
    pub fn note(self, note: impl Into<String>) -> Finding {
        Finding { note: note.into(), ..self }
    }

    /// The verdict for a person: a sentence of the paper that fails is refuted.
    pub fn said(&self) -> String {
        let word = match (&self.verdict, self.tests) {
            (Verdict::Fails(_), Some(_)) => "the paper's claim is refuted",
            (verdict, _) => verdict.word(),
        };
        let detail = self.verdict.detail();
        if detail.is_empty() { word.to_owned() } else { format!("{word}: {detail}") }
    }
}

/// A value with its numbers rounded, whole ones without a decimal point.
fn rounded(value: Value) -> Value {
    match value {
        Value::Number(n) => match n.as_f64().and_then(|x| significant(x, DIGITS).parse::<f64>().ok()) {
            Some(x) if x.fract() == 0.0 && x.abs() < 1e15 => Value::from(x as i64),
            x => Value::from(x),
        },
        Value::Array(all) => Value::Array(all.into_iter().map(rounded).collect()),
        other => other,
    }
}

/// A value for a reader, numbers to `digits` digits, an interval as `middle (low to high)`.
fn shown(value: &Value, digits: usize) -> String {
    let text = |value: &Value| match value {
        Value::Number(n) => n.as_f64().map_or_else(|| n.to_string(), |x| significant(x, digits)),
        Value::String(text) => text.clone(),
        Value::Null => "none".to_owned(),
        other => other.to_string(),
    };
    match value {
        Value::Array(all) if all.is_empty() => "none".to_owned(),
        Value::Array(all) => match all.as_slice() {
            [mid @ Value::Number(_), low @ Value::Number(_), high @ Value::Number(_)] => {
                format!("{} ({} to {})", text(mid), text(low), text(high))
            }
            all => all.iter().map(text).collect::<Vec<_>>().join(" / "),
        },
        one => text(one),
    }
}

/// Values for a reader: `name: value` with semicolons between them.
pub fn listed(values: &Map<String, Value>, digits: usize) -> String {
    let named = values.iter().map(|(name, value)| format!("{name}: {}", shown(value, digits)));
    named.collect::<Vec<_>>().join("; ")
}

/// Results of an experiment.
#[derive(Debug, Default)]
pub struct Report {
    /// Statements with verdicts; the first one is the claim's headline.
    pub findings: Vec<Finding>,
    /// Tables by name, written as `<id>_<name>.csv` (or `<id>.csv` when the name is empty).
    pub tables: Vec<(String, Table)>,
    /// Figures by name, written as `<id>_<name>.svg/.png` (or `<id>` when the name is empty).
    pub figures: Vec<(String, Figure)>,
}

/// The parts of an experiment. Only [`Parts::measure`] computes; the others read its numbers, so that a verdict can be
/// tested on numbers that are made up.
///
/// ```
/// use grpo_lambda_claims::experiment::{Experiment, Finding, Parts, Verdict};
///
/// static HALVES: Experiment = Experiment {
///     id: "halves",
///     title: "Two halves make a whole",
///     claim: "1/2 + 1/2 = 1",
///     source: "arithmetic",
///     run: |context| {
///         let findings = |sum: &f64| {
///             let verdict = if *sum == 1.0 { Verdict::Holds } else { Verdict::Fails(format!("it is {sum}")) };
///             vec![Finding::new("whole", HALVES.claim, verdict).value("sum", sum)]
///         };
///         Parts { measure: |_| Ok(0.5 + 0.5), findings, tables: |_| Vec::new(), figures: |_| Vec::new() }
///             .report(context)
///     },
/// };
/// ```
pub struct Parts<Numbers> {
    /// Computes the numbers.
    pub measure: fn(&Context) -> anyhow::Result<Numbers>,
    /// The statements with their verdicts; the first one is the claim's headline.
    pub findings: fn(&Numbers) -> Vec<Finding>,
    /// The tables; their names are those of [`Report::tables`].
    pub tables: fn(&Numbers) -> Vec<(String, Table)>,
    /// The figures; their names are those of [`Report::figures`].
    pub figures: fn(&Numbers) -> Vec<(String, Figure)>,
}

impl<Numbers> Parts<Numbers> {
    /// Measures, then reports what was measured.
    ///
    /// # Errors
    /// The errors of [`Parts::measure`].
    pub fn report(&self, context: &Context) -> anyhow::Result<Report> {
        let numbers = (self.measure)(context)?;
        (context.progress)(0.97, "findings, tables and figures");
        Ok(Report {
            findings: (self.findings)(&numbers),
            tables: (self.tables)(&numbers),
            figures: (self.figures)(&numbers),
        })
    }
}

#[cfg(test)]
impl<Numbers: Send> Parts<Numbers> {
    /// The report of a quick run on some threads, with what another `measure` computes.
    pub(crate) fn tiny(
        &self,
        measure: fn(&Context) -> anyhow::Result<Numbers>,
        threads: usize,
        store: &Store,
    ) -> Report {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
        let context = Context { seed: 5, full: false, progress: &|_, _| {}, store };
        pool.install(|| Parts { measure, ..*self }.report(&context)).expect("it runs")
    }
}

/// Settings of an experiment's run.
pub struct Context<'a> {
    /// Seed of every random stream of the run.
    pub seed: u64,
    /// The long version (`--full`).
    pub full: bool,
    /// Called with how much of the work (0..=1) is done and what is under way.
    pub progress: &'a (dyn Fn(f64, &str) + Sync),
    /// Kept pieces of a long version; see [`Store::piece`].
    pub store: &'a Store,
}

impl Context<'_> {
    /// Counts a piece of work as done whenever it is called, of `all` pieces that take the progress through `range`.
    pub(crate) fn pieces(&self, range: Range<f64>, all: usize) -> impl Fn(&str) + Sync {
        let done = AtomicUsize::new(0);
        move |what| {
            let share = (done.fetch_add(1, Ordering::Relaxed) + 1) as f64 / all as f64;
            (self.progress)(range.start + (range.end - range.start) * share.min(1.0), what);
        }
    }
}

/// A claim of a paper together with the code that tests it.
pub struct Experiment {
    /// The one id of the claim: test module, CSV, figure, row of `paper/`.
    pub id: &'static str,
    /// A line for `sim --list`.
    pub title: &'static str,
    /// The paper's words (quoted), or ours where the claim is ours.
    pub claim: &'static str,
    /// The claim's place: paper, section, equation.
    pub source: &'static str,
    /// Runs it.
    pub run: fn(&Context) -> anyhow::Result<Report>,
}
