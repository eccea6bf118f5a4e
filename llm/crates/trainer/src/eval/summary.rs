//! The numbers of an evaluation as a table for a terminal, CSV and JSON.

use comfy_table::presets;
use grpo_lambda_stats::table::{Cell, Table, significant};
use grpo_lambda_stats::{Interval, mean_of_independent};
use serde_json::{Map, Value, json};

use super::completion::{CompletionRecord, ResponseOutcome};
use super::power::{PowerLimits, limits};
use super::score::{BenchmarkScores, Tally, scores};
use super::settings::Settings;

/// The numbers of an evaluation.
#[derive(Clone, Debug)]
pub struct EvalSummary {
    pub settings: Settings,
    pub scores: Vec<BenchmarkScores>,
    /// The difference that each benchmark can detect.
    pub limits: Vec<PowerLimits>,
    /// The unweighted mean over several benchmarks.
    pub average: Option<Average>,
    /// Remarks for a reader of the numbers.
    pub remarks: Vec<String>,
    /// The numbers without the problems that the model was trained on, for each benchmark; `None` where that is not known or none is left.
    pub untrained: Vec<Option<BenchmarkScores>>,
}

/// The unweighted mean over benchmarks, as papers print it. Its interval combines those of the benchmarks, which are independent samples
/// of problems.
#[derive(Clone, Debug, PartialEq)]
pub struct Average {
    /// Without ungradable responses; `None` if a benchmark has no gradable response.
    pub accuracy: Option<Interval>,
    /// With ungradable responses scored 0.
    pub as_wrong: Interval,
    /// pass@k, in the order of the benchmarks' own.
    pub pass: Vec<Interval>,
    pub majority: Option<Interval>,
}

/// The assumption of [`limits`], in words.
pub const ASSUMED: &str = "as of two independent models of this accuracy";

impl EvalSummary {
    /// The numbers of benchmarks from their responses.
    ///
    /// # Panics
    /// When a benchmark has no problem or an element of `pass_at` is 0 or above the samples.
    pub fn new(
        settings: &Settings,
        benchmarks: &[(&str, &[Vec<CompletionRecord>])],
        pass_at: &[usize],
    ) -> EvalSummary {
        let all: Vec<BenchmarkScores> = benchmarks.iter().map(|(name, c)| scores(name, c, pass_at)).collect();
        let tallies = |completions: &[Vec<CompletionRecord>]| -> Vec<Tally> {
            completions.iter().map(|c| Tally::new(c)).collect()
        };
        let limits = benchmarks.iter().filter_map(|(_, c)| limits(&tallies(c))).collect();
        let average = if all.len() > 1 { average(&all) } else { None };
        let (remarks, untrained) = (Vec::new(), vec![None; all.len()]);
        EvalSummary { settings: settings.clone(), scores: all, limits, average, remarks, untrained }
    }

    /// The name of the accuracy: `accuracy`, or `avg@8`.
    pub fn measure(&self) -> String {
        match self.settings.samples {
            1 => "accuracy".to_owned(),
            k => format!("avg@{k}"),
        }
    }

    /// The result in a sentence.
    pub fn finding(&self) -> String {
        let measure = self.measure();
        match (&self.average, self.scores.as_slice()) {
            (Some(average), all) => {
                format!("{measure}, mean of {} benchmarks: {}", all.len(), shown(average.accuracy))
            }
            (None, [one]) => format!("{measure} on {}: {}", one.name, shown(one.accuracy)),
            (None, _) => measure,
        }
    }

    /// Caveats of the numbers: what was left out, what was cut off, and which differences they cannot detect.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = self.remarks.clone();
        for (s, own) in self.scores.iter().zip(&self.untrained) {
            let Some(own) = own.as_ref().filter(|own| own.problems < s.problems) else { continue };
            let (name, measure, left_out) = (&s.name, self.measure(), s.problems - own.problems);
            notes.push(format!(
                "{name}: without the {left_out} problems of training {measure} {}",
                shown(own.accuracy)
            ));
        }
        for s in &self.scores {
            let all = s.problems * s.samples;
            let no_room = s.count(ResponseOutcome::NoRoom) / s.samples;
            if no_room > 0 {
                notes.push(format!(
                    "{}: {no_room} of {} prompts leave no room in a context of {} tokens; they were skipped",
                    s.name, s.problems, self.settings.context
                ));
            }
            let unreadable = s.count(ResponseOutcome::Unreadable);
            if unreadable > 0 {
                notes.push(format!("{}: {unreadable} of {all} answers could not be read", s.name));
            }
            if s.lenient > 0 {
                notes.push(format!(
                    "{}: {} of {} right answers are right by a lenient rule of the grader only",
                    s.name,
                    s.lenient,
                    s.count(ResponseOutcome::Right)
                ));
            }
            notes.extend(s.doubts(self.settings.extract));
            if s.responses > 0 && 20 * s.cut_off >= s.responses {
                notes.push(format!(
                    "{}: {} % of responses were cut off at the length limit, so a longer one might score more",
                    s.name,
                    percent(s.cut_off as f64 / s.responses as f64)
                ));
            }
            if let Some(majority) = s.majority.filter(|m| m.ties > 0) {
                notes.push(format!(
                    "{}: {} of {} votes are tied; each counts with the share of its leading answers that is right",
                    s.name, majority.ties, s.problems
                ));
            }
        }
        for (s, limits) in self.scores.iter().zip(&self.limits) {
            notes.push(format!("{} against another model: {}", s.name, limits.sentence(ASSUMED)));
        }
        notes
    }

    /// The names of the accuracies in [`SummaryRow::values`].
    pub fn headers(&self) -> Vec<String> {
        let k = self.settings.samples;
        let mut headers = vec![self.measure(), "of all problems".to_owned()];
        headers.extend(self.scores.iter().take(1).flat_map(|s| &s.pass).map(|p| format!("pass@{}", p.k)));
        headers.extend((k > 1).then(|| format!("maj@{k}")));
        headers
    }

    /// A row for each benchmark, and the average of several.
    pub fn rows(&self) -> Vec<SummaryRow> {
        let of_benchmark = |s: &BenchmarkScores| {
            let mut values = vec![s.accuracy, Some(s.as_wrong)];
            values.extend(s.pass.iter().map(|p| Some(p.value)));
            values.extend(s.majority.map(|m| Some(m.value)));
            let count = |n: usize| n.to_string();
            let tokens = s.mean_tokens.map_or(String::new(), |t| format!("{t:.0}"));
            let no_answer = s.count(ResponseOutcome::NoAnswer);
            let counts = [s.uncounted(), no_answer, s.cut_off].map(count);
            SummaryRow { name: s.name.clone(), n: count(s.problems), values, counts, tokens }
        };
        let of_average = |a: &Average| {
            let mut values = vec![a.accuracy, Some(a.as_wrong)];
            values.extend(a.pass.iter().map(|p| Some(*p)).chain(a.majority.map(Some)));
            SummaryRow { name: "average".to_owned(), values, ..SummaryRow::default() }
        };
        self.scores.iter().map(of_benchmark).chain(self.average.iter().map(of_average)).collect()
    }

    pub fn table(&self) -> String {
        let mut table = comfy_table::Table::new();
        let mut header = vec!["benchmark".to_owned(), "n".to_owned()];
        header.extend(self.headers().iter().map(|name| format!("{} %", name.replace("of all ", "of all\n"))));
        header.extend(["not\ncounted", "no\nanswer", "cut\noff", "mean\ntokens"].map(str::to_owned));
        table.load_preset(presets::UTF8_FULL_CONDENSED).set_header(header);
        let cell = |i: Option<Interval>| match i {
            Some(i) => format!("{}\n{} to {}", percent(i.mid), percent(i.low), percent(i.high)),
            None => "none\ncounts".to_owned(),
        };
        for SummaryRow { name, n, values, counts, tokens } in self.rows() {
            let values = values.into_iter().map(cell);
            table.add_row([name, n].into_iter().chain(values).chain(counts).chain([tokens]));
        }
        table.to_string()
    }

    /// One row per measurement; `command` goes into the first line.
    pub fn csv(&self, command: &str) -> String {
        let mut table = Table::new(&["benchmark", "measure", "n", "value", "low", "high"]);
        let mut measures = self.headers();
        measures[1] = format!("{} {}", measures[0], measures[1]);
        let asked = |s: &BenchmarkScores| [s.graded_problems, s.problems];
        let all = self.scores.iter().map(|s| s.problems).sum();
        // The first measure leaves out what cannot be graded.
        for (row, [graded, problems]) in
            self.rows().iter().zip(self.scores.iter().map(asked).chain([[all; 2]]))
        {
            for (i, (measure, value)) in measures.iter().zip(&row.values).enumerate() {
                let Some(Interval { mid, low, high, .. }) = value else { continue };
                let n = if i == 0 { graded } else { problems };
                let mut cells: Vec<Cell> = vec![row.name.clone().into(), measure.clone().into(), n.into()];
                cells.extend([*mid, *low, *high].map(Cell::from));
                table.push(cells);
            }
        }
        table.to_csv(command)
    }

    pub fn json(&self) -> Value {
        let settings: Map<String, Value> =
            self.settings.entries().into_iter().map(|(key, value)| (key.to_owned(), json!(value))).collect();
        let benchmarks = self.scores.iter().zip(&self.limits).map(|(s, limits)| {
            let outcomes: Map<String, Value> =
                ResponseOutcome::ALL.iter().zip(s.outcomes).map(|(o, n)| (o.words().to_owned(), n.into())).collect();
            json!({
                "name": s.name,
                "problems": s.problems,
                "graded_problems": s.graded_problems,
                "samples": s.samples,
                "accuracy": s.accuracy.map(interval),
                "accuracy_as_wrong": interval(s.as_wrong),
                "pass_at": s.pass.iter().map(|p| json!({"k": p.k, "value": interval(p.value)})).collect::<Vec<_>>(),
                "majority": s.majority.map(|m| json!({"value": interval(m.value), "ties": m.ties})),
                "responses": outcomes,
                "cut_off": s.cut_off,
                "mean_tokens": s.mean_tokens,
                "least_detectable_difference": limits.least,
                "least_detectable_assumes": limits.sentence(ASSUMED),
            })
        });
        json!({
            "finding": self.finding(),
            "settings": settings,
            "benchmarks": benchmarks.collect::<Vec<_>>(),
            "average": self.average.as_ref().map(|a| json!({
                "accuracy": a.accuracy.map(interval),
                "accuracy_as_wrong": interval(a.as_wrong),
                "pass_at": a.pass.iter().map(|p| interval(*p)).collect::<Vec<_>>(),
                "majority": a.majority.map(interval),
            })),
            "notes": self.notes(),
        })
    }
}

/// A row of the table of an evaluation.
#[derive(Clone, Debug, Default)]
pub struct SummaryRow {
    pub name: String,
    /// The problems; empty of an average, as the other counts.
    pub n: String,
    /// The accuracies of [`EvalSummary::headers`]; `None` where no response counts.
    pub values: Vec<Option<Interval>>,
    /// Responses that are not counted, without an answer, and cut off.
    pub counts: [String; 3],
    /// Their mean length in tokens.
    pub tokens: String,
}

fn interval(i: Interval) -> Value {
    json!({ "value": i.mid, "interval": [i.low, i.high] })
}

/// An accuracy in words.
fn shown(value: Option<Interval>) -> String {
    match value {
        Some(i) => format!("{} % ({} to {})", percent(i.mid), percent(i.low), percent(i.high)),
        None => "no gradable response".to_owned(),
    }
}

/// A share in percent with one decimal.
pub fn percent(share: f64) -> String {
    // No minus before a zero.
    let text = format!("{:.1}", 100.0 * share);
    if text == "-0.0" { "0.0".to_owned() } else { text }
}

/// A number rounded for people.
pub(super) fn digits(x: f64) -> String {
    significant(x, 3)
}

fn average(all: &[BenchmarkScores]) -> Option<Average> {
    let mean = |f: &dyn Fn(&BenchmarkScores) -> Option<Interval>| {
        mean_of_independent(&all.iter().map(f).collect::<Option<Vec<Interval>>>()?)
    };
    let pass = (0..all.first()?.pass.len()).filter_map(|i| mean(&|s| Some(s.pass[i].value))).collect();
    Some(Average {
        accuracy: mean(&|s| s.accuracy),
        as_wrong: mean(&|s| Some(s.as_wrong))?,
        pass,
        majority: mean(&|s| Some(s.majority?.value)),
    })
}
