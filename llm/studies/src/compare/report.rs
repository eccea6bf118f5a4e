//! The result of a comparison as a table for a terminal, as CSV and as JSON.

use grpo_lambda_stats::table::{Cell, Table, significant};
use serde_json::{Value, json};

use super::differing::{DIFFERING, differing, in_words};
use super::run::{ComparisonResult, MethodScores};
use super::statistics::{ALPHA, IqmEstimate, MethodDifference, MethodStanding, bands, standings};
use crate::significance::Significance;
use crate::terminal;

/// Statistics of every method.
fn places(outcome: &ComparisonResult) -> Vec<(&MethodScores, MethodStanding)> {
    let pairs: Vec<(&[f64], &[f64])> =
        outcome.scores.iter().map(|s| (s.before.as_slice(), s.after.as_slice())).collect();
    outcome.scores.iter().zip(standings(&pairs)).collect()
}

/// The result in a sentence.
pub fn finding(outcome: &ComparisonResult) -> String {
    let places = places(outcome);
    let (first, seeds) = (&outcome.scores[0].entry.label, outcome.plan.seeds);
    let others: Vec<_> = places.iter().filter_map(|(s, p)| Some((*s, p.difference?))).collect();
    if let [(score, d)] = others.as_slice() {
        let interval =
            d.paired.ends.map_or(String::new(), |[l, h]| format!(" ({} to {})", signed(l), signed(h)));
        return format!(
            "{} against {first}: {}, held-out accuracy {}{interval} over {}",
            score.entry.label,
            d.word(),
            signed(d.paired.mid),
            plural(seeds)
        );
    }
    let named = |word: &str| {
        let named = others.iter().filter(|(_, d)| d.word() == word);
        let names: Vec<&str> = named.map(|(s, _)| s.entry.label.as_str()).collect();
        (!names.is_empty()).then(|| format!("{word}: {}", names.join(", ")))
    };
    let kinds = ["better", "leans better", "no difference shown", "leans worse", "worse", "one seed"];
    let parts: Vec<String> = kinds.iter().filter_map(|word| named(word)).collect();
    format!("Against {first} over {}: {}", plural(seeds), parts.join("; "))
}

pub(super) fn plural(seeds: u64) -> String {
    if seeds == 1 { "1 seed".to_owned() } else { format!("{seeds} seeds") }
}

fn signed(x: f64) -> String {
    format!("{x:+.3}")
}

/// The table for a terminal.
pub fn table(outcome: &ComparisonResult) -> String {
    let first = &outcome.scores[0].entry.label;
    let versus = format!("less {}", first.replacen(':', "\n", 1).replace(',', "\n"));
    let mut table =
        terminal::table(vec!["method", "rate", "before RL", "after RL", &versus, "P(better)", "seeds >/=/<"]);
    let shown = |s: IqmEstimate| match s.ends {
        Some([low, high]) => format!("{:.3}\n{low:.3} to {high:.3}", s.mid),
        None => format!("{:.3}", s.mid),
    };
    let change = |s: IqmEstimate| match s.ends {
        Some([low, high]) => format!("{}\n{} to {}", signed(s.mid), signed(low), signed(high)),
        None => signed(s.mid),
    };
    let mut verdicts = String::new();
    for (score, place) in places(outcome) {
        // Narrow enough for a terminal: settings below the name.
        let name = score.entry.label.replacen(':', "\n", 1).replace(',', "\n");
        let mut row = vec![name, significant(score.rate, 3), shown(place.before), shown(place.after)];
        match place.difference {
            Some(d) => {
                row.extend([
                    change(d.paired),
                    shown(d.improvement),
                    d.seeds.map(|n| n.to_string()).join("/"),
                ]);
                verdicts += &format!("{} against {first}: {}\n", score.entry.label, d.sentence());
            }
            None => row.extend(["", "", ""].map(str::to_owned)),
        }
        table.add_row(row);
    }
    let unlike = match in_words(&differing(&outcome.plan), &outcome.plan) {
        none if none.is_empty() => String::new(),
        words => format!("\n{DIFFERING}\n{words}"),
    };
    format!("{}\n{table}\n{}\n{verdicts}{unlike}", finding(outcome), conditions(outcome))
}

/// The conditions of the numbers.
fn conditions(outcome: &ComparisonResult) -> String {
    format!(
        "Accuracy on {}: interquartile mean over {}, below it the 95 % bootstrap interval over seeds; differences by \
         seed, whose runs share start and problems.",
        outcome.problems_in_words(),
        plural(outcome.plan.seeds)
    )
}

/// One row a method; `command` goes into the first line.
pub fn csv(outcome: &ComparisonResult, command: &str) -> String {
    let mut columns = vec!["method", "learning_rate", "mean_token_weight", "seeds", "n_least"];
    columns.extend(["before", "before_low", "before_high", "after", "after_low", "after_high"]);
    columns.extend(["gain", "gain_low", "gain_high", "difference", "difference_low", "difference_high"]);
    columns.extend(["improvement", "improvement_low", "improvement_high", "sign_flip_p", "sign_flip_p_holm"]);
    columns.extend(["seeds_better", "seeds_equal", "seeds_worse", "verdict"]);
    let mut table = Table::new(&columns);
    let cells = |s: Option<IqmEstimate>| {
        let ends = s.and_then(|s| s.ends);
        [s.map(|s| s.mid).into(), ends.map(|e| e[0]).into(), ends.map(|e| e[1]).into()]
    };
    for (score, place) in places(outcome) {
        let d = place.difference;
        let mut row: Vec<Cell> = vec![score.entry.label.as_str().into()];
        row.extend([
            score.rate.into(),
            score.weight.into(),
            score.after.len().into(),
            score.n.iter().min().map(|n| *n as f64).into(),
        ]);
        for spread in [
            Some(place.before),
            Some(place.after),
            Some(place.gain),
            d.map(|d| d.paired),
            d.map(|d| d.improvement),
        ] {
            row.extend(cells(spread));
        }
        row.extend([d.map(|d| d.p).into(), d.map(|d| d.adjusted).into()]);
        row.extend((0..3).map(|i| Cell::from(d.map(|d| d.seeds[i] as f64))));
        row.push(d.map_or(Cell::Empty, |d| d.word().into()));
        table.push(row);
    }
    table.to_csv(command)
}

/// Everything: scores by seed, what follows from them, and the curves of the figure.
pub fn json(outcome: &ComparisonResult) -> Value {
    let spread = |s: IqmEstimate| json!({ "iqm": s.mid, "interval": s.ends });
    let methods: Vec<Value> = places(outcome)
        .into_iter()
        .map(|(score, place)| {
            let difference = |d: MethodDifference| {
                json!({
                    "paired": spread(d.paired),
                    "probability_of_improvement": spread(d.improvement),
                    "sign_flip_p": d.p,
                    "sign_flip_p_holm": d.adjusted,
                    "seeds_better_equal_worse": d.seeds,
                    "verdict": d.word(),
                    "sentence": d.sentence(),
                })
            };
            let curve = |curves| {
                let points = bands(curves).into_iter();
                points
                    .map(|(x, s)| json!({ "step": x, "iqm": s.mid, "interval": s.ends }))
                    .collect::<Vec<_>>()
            };
            json!({
                "method": score.entry.label,
                "directory": score.entry.slug(),
                "learning_rate": score.rate,
                "mean_token_weight": score.weight,
                "n_by_seed": score.n,
                "accuracy_before_by_seed": score.before,
                "accuracy_after_by_seed": score.after,
                "accuracy_before": spread(place.before),
                "accuracy_after": spread(place.after),
                "gain": spread(place.gain),
                "difference": place.difference.map(difference),
                "accuracy": curve(&score.accuracy),
                "reward": curve(&score.reward),
            })
        })
        .collect();
    json!({
        "finding": finding(outcome),
        "seeds": outcome.plan.all_seeds().collect::<Vec<_>>(),
        "response_length": outcome.length,
        "conditions": conditions(outcome),
        "differing_settings": differing_json(outcome),
        "methods": methods,
    })
}

/// `{key: {method: value}}` of the settings in which the methods differ; `null` where a method does not have one or it
/// has no effect.
fn differing_json(outcome: &ComparisonResult) -> Value {
    let labels = || outcome.plan.entries.iter().map(|e| e.label.clone());
    let by_method = |values: &[Option<String>]| -> Value {
        labels()
            .zip(values)
            .map(|(label, value)| (label, json!(value)))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    let settings = differing(&outcome.plan);
    settings.iter().map(|s| (s.key.clone(), by_method(&s.values))).collect::<serde_json::Map<_, _>>().into()
}

/// True if more seeds could have made a verdict clearer.
pub(super) fn too_few_seeds(outcome: &ComparisonResult) -> bool {
    let few = |d: MethodDifference| match d.verdict {
        None => true,
        Some(Significance::Leans { .. }) => d.least() > ALPHA,
        Some(Significance::NotShown | Significance::Clear { .. }) => false,
    };
    places(outcome).iter().any(|(_, p)| p.difference.is_some_and(few))
}
