//! The comparison of two evaluations: as a table for a terminal, as CSV and JSON, and as a figure.

use grpo_lambda_figure::{Axis, Figure, Panel};
use grpo_lambda_stats::Interval;
use grpo_lambda_stats::table::{Cell, Table};
use serde_json::{Value, json};

use super::{Pair, Paired, PairedDifference};
use crate::significance::Significance;
use crate::terminal;
use grpo_lambda_trainer::eval::summary::percent;

/// The names of the sides of a comparison of two evaluations.
pub const SIDES: [&str; 2] = ["A", "B"];
/// Problems named on each side of a benchmark in the notes.
const NAMED: usize = 5;

/// A signed number of percentage points.
fn points(x: f64) -> String {
    let text = format!("{:+.1}", 100.0 * x);
    if text == "-0.0" { "+0.0".to_owned() } else { text }
}

fn p_value(p: f64) -> String {
    if p < 0.001 { "<0.001".to_owned() } else { format!("{p:.3}") }
}

fn spelt(d: &PairedDifference) -> String {
    let Interval { low, mid, high, .. } = d.value;
    let p = p_value(d.adjusted);
    let p = if p.starts_with('<') { format!("p {p}") } else { format!("p = {p}") };
    format!("({} points, 95 % interval {} to {}, {p})", points(mid), points(low), points(high))
}

/// The result in a sentence.
pub fn finding(pair: &Pair) -> String {
    match (&pair.average, pair.benchmarks.as_slice()) {
        (Some((_, d)), all) => {
            format!("B against A: {} {} in the mean of {} benchmarks", d.verdict.word(), spelt(d), all.len())
        }
        (None, all) => {
            let sentence = |b: &Paired| match &b.difference {
                Some(d) => format!("{} {} on {}", d.verdict.word(), spelt(d), b.name),
                None => format!("no problem of {} is gradable on both sides", b.name),
            };
            format!("B against A: {}", all.iter().map(sentence).collect::<Vec<_>>().join("; "))
        }
    }
}

/// The change of a run over its RL, in a sentence.
pub fn of_run(pair: &Pair, step: u64) -> String {
    let difference = pair.benchmarks.first().and_then(|b| Some((b, b.difference.as_ref()?)));
    match difference {
        Some((b, d)) => format!(
            "After RL step {step} against before RL: {} {} on the {} held-out problems",
            d.verdict.word(),
            spelt(d),
            b.n
        ),
        None => "no held-out problem is gradable both before RL and after it".to_owned(),
    }
}

/// The numbers of problems that each side wins, in words.
pub fn sides(b: &Paired) -> String {
    let [won, same, lost] = b.sides;
    format!("{won} problems were won, {lost} lost, {same} stayed as they were")
}

/// A line of the table: a benchmark, or the average of several.
struct Line<'a> {
    name: &'a str,
    means: [f64; 2],
    difference: Option<&'a PairedDifference>,
    /// None for the average.
    benchmark: Option<&'a Paired>,
}

fn lines(pair: &Pair) -> Vec<Line<'_>> {
    let lines = pair.benchmarks.iter().map(|b| Line {
        name: &b.name,
        means: b.means,
        difference: b.difference.as_ref(),
        benchmark: Some(b),
    });
    let average = pair.average.iter().map(|(means, d)| Line {
        name: "average",
        means: *means,
        difference: Some(d),
        benchmark: None,
    });
    lines.chain(average).collect()
}

/// The table for a terminal.
pub fn table(pair: &Pair) -> String {
    let heads = ["benchmark", "n", "A %", "B %", "B minus A", "problems\n>/=/<", "p", "p, Holm", "verdict"];
    let mut table = terminal::table(heads.to_vec());
    for Line { name, means, difference, benchmark } in lines(pair) {
        let Some(d) = difference else {
            table.add_row([name, "0", "no problem is gradable on both sides"]);
            continue;
        };
        let own = |text: fn(&Paired) -> String| benchmark.map_or(String::new(), text);
        table.add_row([
            name.to_owned(),
            own(|b| b.n.to_string()),
            percent(means[0]),
            percent(means[1]),
            format!("{}\n{} to {}", points(d.value.mid), points(d.value.low), points(d.value.high)),
            own(|b| b.sides.map(|n| n.to_string()).join("/")),
            p_value(d.p),
            benchmark.map_or(String::new(), |_| p_value(d.adjusted)),
            d.verdict.word().to_owned(),
        ]);
    }
    table.to_string()
}

/// The first of so many problems; none without any.
fn named<'a>(ids: impl Iterator<Item = &'a str>, all: usize) -> Option<String> {
    let shown: Vec<&str> = ids.take(NAMED).collect();
    let more = match all.saturating_sub(shown.len()) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!shown.is_empty()).then(|| format!("{}{more}", shown.join(", ")))
}

/// Caveats of the comparison; the two sides are called by these names.
pub fn notes(pair: &Pair, [first, second]: [&str; 2]) -> Vec<String> {
    let mut notes = Vec::new();
    for b in &pair.benchmarks {
        if b.left_out > 0 {
            notes.push(format!(
                "{}: {} of {} problems are left out, because a side has no gradable response; scored 0 instead: {} {}",
                b.name,
                b.left_out,
                b.n + b.left_out,
                b.as_wrong.verdict.word(),
                spelt(&b.as_wrong)
            ));
        }
        if let Some(limits) = b.limits.as_ref().filter(|limits| limits.spread > 0.0) {
            notes.push(format!("{}: {}", b.name, limits.sentence("as observed")));
        }
        let won = b.discordant.iter().filter(|d| d.b > d.a).map(|d| d.id.as_str());
        let lost = b.discordant.iter().rev().filter(|d| d.b < d.a).map(|d| d.id.as_str());
        let [better, worse] = [named(won, b.sides[0]), named(lost, b.sides[2])];
        for (how, ids) in [("better", better), ("worse", worse)] {
            notes.extend(ids.map(|ids| format!("{}: {second} is {how} on problems {ids}", b.name)));
        }
    }
    for (names, side) in pair.alone.iter().zip([first, second]) {
        if !names.is_empty() {
            notes.push(format!("only {side} was asked {}", names.join(", ")));
        }
    }
    for (key, a, b) in &pair.settings {
        notes.push(format!("the settings differ: {key} is {a} in {first} and {b} in {second}"));
    }
    notes
}

/// One row a benchmark; `command` goes into the first line.
pub fn csv(pair: &Pair, command: &str) -> String {
    let mut columns =
        vec!["benchmark", "n", "left_out", "a", "b", "difference", "low", "high", "p", "p_holm"];
    columns.extend(["exact", "better", "equal", "worse", "verdict", "difference_as_wrong", "p_as_wrong"]);
    let mut table = Table::new(&columns);
    for Line { name, means, difference, benchmark } in lines(pair) {
        let own = |value: fn(&Paired) -> f64| Cell::from(benchmark.map(value));
        let number = |value: fn(&PairedDifference) -> f64| Cell::from(difference.map(value));
        let word = |value: fn(&PairedDifference) -> &'static str| {
            difference.map_or(Cell::Empty, |d| value(d).into())
        };
        let side = |i: usize| Cell::from(benchmark.and(difference).and(benchmark).map(|b| b.sides[i] as f64));
        table.push(vec![
            name.into(),
            own(|b| b.n as f64),
            own(|b| b.left_out as f64),
            difference.map(|_| means[0]).into(),
            difference.map(|_| means[1]).into(),
            number(|d| d.value.mid),
            number(|d| d.value.low),
            number(|d| d.value.high),
            number(|d| d.p),
            number(|d| d.adjusted),
            word(|d| if d.exact { "yes" } else { "no" }),
            side(0),
            side(1),
            side(2),
            word(|d| d.verdict.word()),
            own(|b| b.as_wrong.value.mid),
            own(|b| b.as_wrong.p),
        ]);
    }
    table.to_csv(command)
}

pub fn json(pair: &Pair) -> Value {
    let difference = |d: &PairedDifference| {
        json!({
            "value": d.value.mid, "interval": [d.value.low, d.value.high], "p": d.p, "exact": d.exact,
            "p_holm": d.adjusted, "verdict": d.verdict.word(),
        })
    };
    let benchmark = |b: &Paired| {
        let discordant = b.discordant.iter().map(|d| json!({"problem": d.id, "a": d.a, "b": d.b}));
        json!({
            "name": b.name, "n": b.n, "left_out": b.left_out, "a": b.means[0], "b": b.means[1],
            "difference": b.difference.as_ref().map(difference),
            "difference_as_wrong": difference(&b.as_wrong),
            "problems_better_equal_worse": b.sides,
            "least_detectable_difference": b.limits.as_ref().and_then(|l| l.least),
            "discordant": discordant.collect::<Vec<_>>(),
        })
    };
    json!({
        "finding": finding(pair),
        "a": pair.paths[0].display().to_string(),
        "b": pair.paths[1].display().to_string(),
        "benchmarks": pair.benchmarks.iter().map(benchmark).collect::<Vec<_>>(),
        "average": pair.average.as_ref().map(|(means, d)| json!({"a": means[0], "b": means[1], "difference": difference(d)})),
        "notes": notes(pair, SIDES),
    })
}

/// The differences with their intervals.
pub fn figure(pair: &Pair) -> Figure {
    let rows: Vec<(String, &PairedDifference)> = pair
        .benchmarks
        .iter()
        .filter_map(|b| Some((format!("{} (n = {})", b.name, b.n), b.difference.as_ref()?)))
        .chain(pair.average.iter().map(|(_, d)| ("average".to_owned(), d)))
        .collect();
    let reach =
        rows.iter().flat_map(|(_, d)| [d.value.low, d.value.high]).fold(0.02, |m: f64, x| m.max(x.abs()));
    let reach = 100.0 * reach * 1.1;
    let clear = |d: &PairedDifference| matches!(d.verdict, Significance::Clear { .. });
    let spans = |is_clear: bool| {
        let spans = rows.iter().enumerate().filter(move |(_, (_, d))| clear(d) == is_clear);
        let span = |(i, (_, d)): (usize, &(String, &PairedDifference))| {
            (i as f64, 100.0 * d.value.low, 100.0 * d.value.mid, 100.0 * d.value.high)
        };
        spans.map(span).collect::<Vec<_>>()
    };
    let [significant, others] = ["p ≤ 0.05, corrected", "no difference shown, or not after correction"];
    let mut panel = Panel::new("")
        .x(Axis::new("B minus A (percentage points)").range(-reach, reach))
        .y(Axis::new("").categories(rows.iter().map(|(name, _)| name.clone())))
        .vline(0.0, "");
    for (name, spans) in [(significant, spans(true)), (others, spans(false))] {
        if !spans.is_empty() {
            panel = panel.spans(name, spans);
        }
    }
    Figure::new(finding(pair))
        .caption(format!(
            "A: {}; B: {}. Bars: 95 % intervals (bootstrap over problems). p: paired permutation test, over \
             benchmarks corrected after Holm.",
            pair.paths[0].display(),
            pair.paths[1].display()
        ))
        .columns(1)
        .names([significant, others])
        .panel_size(720, 120 + 44 * rows.len() as u32)
        .panel(panel)
}
