//! The figures of an evaluation.

use grpo_lambda_figure::{Axis, Figure, Panel};
use grpo_lambda_stats::pass_at_k;

use crate::eval::CONFIDENCE_LEVEL;
use crate::eval::completion::{CompletionRecord, RecordedFinish, ResponseOutcome};
use crate::eval::score::Tally;
use crate::eval::summary::EvalSummary;

/// Bars of a histogram.
const BINS: usize = 16;
/// Benchmarks with a histogram of their own; more are drawn together.
const PANELS: usize = 6;
const RIGHT: &str = "right";
const OTHER: &str = "not right";

/// Accuracy of every benchmark with its interval; a single number needs no figure.
pub fn accuracy(summary: &EvalSummary) -> Option<Figure> {
    let uncounted = summary.scores.iter().any(|s| s.uncounted() > 0);
    if summary.scores.len() == 1 && !uncounted {
        return None;
    }
    let names = summary.scores.iter().map(|s| s.name.clone());
    let names: Vec<String> = names.chain(summary.average.as_ref().map(|_| "average".to_owned())).collect();
    let bars = |values: Vec<Option<grpo_lambda_stats::Interval>>| {
        let place = |(i, v): (usize, Option<grpo_lambda_stats::Interval>)| {
            let v = v?;
            Some((i as f64, 100.0 * v.low, 100.0 * v.mid, 100.0 * v.high))
        };
        values.into_iter().enumerate().filter_map(place).collect::<Vec<_>>()
    };
    let average = summary.average.as_ref();
    let counted = summary.scores.iter().map(|s| s.accuracy).chain(average.map(|a| a.accuracy)).collect();
    let as_wrong =
        summary.scores.iter().map(|s| Some(s.as_wrong)).chain(average.map(|a| Some(a.as_wrong))).collect();
    let measure = summary.measure();
    // The full range, unless all bars would be short in it.
    let highest = summary.scores.iter().map(|s| s.as_wrong.high.max(s.accuracy.map_or(0.0, |a| a.high)));
    let highest = highest.fold(0.0, f64::max);
    let top = if highest > 0.45 { 100.0 } else { 10.0 * (10.5 * highest).ceil().max(1.0) };
    let mut panel = Panel::new("")
        .x(Axis::new("").categories(names.iter().cloned()))
        .y(Axis::new(format!("{measure} (%)")).range(0.0, top))
        .bars_with_intervals(&measure, bars(counted));
    if uncounted {
        panel = panel.bars_with_intervals("the same, what cannot be graded as wrong", bars(as_wrong));
    }
    let width = (260 + 110 * names.len() as u32).clamp(480, 960);
    let figure = Figure::new(summary.finding())
        .caption(format!(
            "{}, {}; bars: {:.0} % intervals {}.",
            summary.settings.template_in_words(),
            summary.settings.decoding(),
            100.0 * CONFIDENCE_LEVEL,
            intervals(summary)
        ))
        .columns(1)
        .panel_size(width, 320)
        .panel(panel);
    Some(figure)
}

fn intervals(summary: &EvalSummary) -> &'static str {
    if summary.settings.samples == 1 {
        "(Wilson; of an average, from those of the benchmarks)"
    } else {
        "(bootstrap over problems; of an average, from those of the benchmarks)"
    }
}

/// Lengths of right and of other responses.
pub fn lengths(benchmarks: &[(&str, &[Vec<CompletionRecord>])]) -> Figure {
    let all: Vec<(String, Vec<&CompletionRecord>)> = if benchmarks.len() <= PANELS {
        benchmarks.iter().map(|(name, c)| ((*name).to_owned(), c.iter().flatten().collect())).collect()
    } else {
        vec![("all benchmarks".to_owned(), benchmarks.iter().flat_map(|(_, c)| c.iter().flatten()).collect())]
    };
    let made = |of: &[&CompletionRecord]| -> Vec<(bool, f64)> {
        let made = of.iter().filter(|c| c.finish != RecordedFinish::NoRoom);
        made.map(|c| (c.verdict == ResponseOutcome::Right, c.tokens as f64)).collect()
    };
    let columns = all.len().clamp(1, 3);
    let responses: Vec<&&CompletionRecord> =
        all.iter().flat_map(|(_, c)| c).filter(|c| c.finish != RecordedFinish::NoRoom).collect();
    let cut = responses.iter().filter(|c| c.finish == RecordedFinish::Length).count();
    let title = match responses.len() {
        0 => "No prompt left room for a response".to_owned(),
        n if cut == 0 => format!("None of {n} responses was cut off at the length limit"),
        n => format!(
            "{:.1} % of {n} responses were cut off at the length limit",
            100.0 * cut as f64 / n as f64
        ),
    };
    let mut figure = Figure::new(title)
        .caption("Length of a response in tokens, its end token included.")
        .columns(columns)
        .panel_size(if columns == 1 { 640 } else { 360 }, 260)
        .names([RIGHT, OTHER]);
    for (name, completions) in &all {
        let lengths = made(completions);
        let longest = lengths.iter().map(|l| l.1).fold(1.0, f64::max);
        let width = (longest / BINS as f64).ceil();
        let bar = |right: bool| {
            let mut counts = vec![0.0; BINS];
            for (_, length) in lengths.iter().filter(|l| l.0 == right) {
                counts[((length / width).ceil() as usize).clamp(1, BINS) - 1] += 1.0; // lengths are at least 1
            }
            // Bar i counts the whole numbers from i width + 1 to (i + 1) width.
            let place = move |(i, n): (usize, f64)| (i as f64 * width + (width + 1.0) / 2.0, n);
            counts.into_iter().enumerate().map(place).collect::<Vec<_>>()
        };
        figure = figure.panel(
            Panel::new(name.as_str())
                .x(Axis::new(match width as usize {
                    1 => "length (tokens)".to_owned(),
                    n => format!("length (tokens; a bar for every {n})"),
                }))
                .y(Axis::new("responses"))
                .bars(RIGHT, bar(true).into_iter().filter(|b| b.0 <= longest + width))
                .bars(OTHER, bar(false).into_iter().filter(|b| b.0 <= longest + width)),
        );
    }
    figure
}

/// pass@k against k; `None` with one sample.
pub fn attempts(summary: &EvalSummary, benchmarks: &[(&str, &[Vec<CompletionRecord>])]) -> Option<Figure> {
    let samples = summary.settings.samples;
    if samples < 2 {
        return None;
    }
    let mut panel = Panel::new("")
        .x(Axis::new("attempts k").log())
        .y(Axis::new("problems solved in at least one of k attempts (%)").range(0.0, 100.0));
    for (name, completions) in benchmarks {
        let tallies: Vec<Tally> = completions.iter().map(|c| Tally::new(c)).collect();
        let at = |k: usize| {
            let estimates = tallies.iter().filter_map(|t| pass_at_k(t.samples, t.right, k as u64));
            (k as f64, 100.0 * estimates.sum::<f64>() / tallies.len() as f64)
        };
        panel = panel.line(*name, (1..=samples).map(at));
        let ends = summary.scores.iter().find(|s| s.name == *name).map_or(&[][..], |s| &s.pass);
        let band = ends.iter().map(|p| (p.k as f64, 100.0 * p.value.low, 100.0 * p.value.high));
        panel = panel.band(*name, band);
    }
    Some(
        Figure::new(format!("What {samples} attempts find that one does not"))
            .caption("pass@k, estimated without bias from all samples; bands: 95 % intervals at the k of the table.")
            .columns(1)
            .panel_size(640, 320)
            .panel(panel),
    )
}
