//! The result of a comparison as a table for a terminal, as CSV and as JSON.

use grpo_lambda_stats::table::{Cell, Table, significant};
use serde_json::{Value, json};

use super::differing::{DIFFERING, differing, in_words};
use super::run::{ComparisonResult, MethodScores};
use super::statistics::{
    ALPHA, IqmEstimate, MethodDifference, MethodStanding, bands, correct, difference, standings,
};
use crate::significance::Significance;
use crate::terminal;

/// Statistics of every method.
fn places(outcome: &ComparisonResult) -> Vec<(&MethodScores, MethodStanding)> {
    let pairs: Vec<(&[f64], &[f64])> =
        outcome.scores.iter().map(|s| (s.before.as_slice(), s.after.as_slice())).collect();
    outcome.scores.iter().zip(standings(&pairs)).collect()
}

/// Every method against its step-size control, the first method at the equal rate, if it has one.
fn against_controls(outcome: &ComparisonResult) -> Vec<Option<(&MethodScores, MethodDifference)>> {
    let against_control = |score: &MethodScores| {
        let control = outcome.scores.iter().find(|s| s.control_of.contains(&score.entry.label))?;
        Some((control, difference(&score.after, &control.after)))
    };
    let mut all: Vec<_> = outcome.scores.iter().map(against_control).collect();
    correct(all.iter_mut().flatten().map(|(_, d)| d).collect());
    all
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
    for ((score, place), to_control) in places(outcome).into_iter().zip(against_controls(outcome)) {
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
                let label = &score.entry.label;
                verdicts += &format!("{label} against {first}: {}\n", d.sentence());
                if let Some((control, d)) = to_control {
                    let control = &control.entry.label;
                    let change = change(d.paired).replace('\n', ", ");
                    verdicts += &format!("{label} against {control}: {change}; {}\n", d.sentence());
                }
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
    let mut text = format!(
        "Accuracy on {}: interquartile mean over {}, below it the 95 % bootstrap interval over seeds; differences by \
         seed, whose runs share start and problems.",
        outcome.problems_in_words(),
        plural(outcome.plan.seeds)
    );
    if outcome.plan.ablate_rate {
        let controls = outcome.scores.iter().filter(|s| !s.control_of.is_empty());
        let controls: Vec<String> = controls
            .map(|s| format!("{} is the step-size control of {}", s.entry.label, s.control_of.join(" and ")))
            .collect();
        text += &match controls.is_empty() {
            true => " No other method's rate times mean token weight differs from the first's, so there is no step-size control."
                .to_owned(),
            false => format!(
                " {}: {} at the learning rate that equalises rate times mean on-policy token weight in a response of {} tokens, the mean before RL. \
                 AdamW divides a constant factor of the gradient out again, so the steps of a step-size control are longer than either's.",
                controls.join("; "),
                outcome.scores[0].entry.label,
                outcome.length
            ),
        };
    }
    text
}

/// One row a method; `command` goes into the first line.
pub fn csv(outcome: &ComparisonResult, command: &str) -> String {
    let mut columns = vec!["method", "control_of", "learning_rate", "mean_token_weight", "seeds", "n_least"];
    columns.extend(["before", "before_low", "before_high", "after", "after_low", "after_high"]);
    columns.extend(["gain", "gain_low", "gain_high", "difference", "difference_low", "difference_high"]);
    columns.extend(["improvement", "improvement_low", "improvement_high", "sign_flip_p", "sign_flip_p_holm"]);
    columns.extend(["seeds_better", "seeds_equal", "seeds_worse", "verdict"]);
    columns.extend(["to_control", "to_control_low", "to_control_high", "to_control_p", "to_control_p_holm"]);
    columns.push("to_control_verdict");
    let mut table = Table::new(&columns);
    let cells = |s: Option<IqmEstimate>| {
        let ends = s.and_then(|s| s.ends);
        [s.map(|s| s.mid).into(), ends.map(|e| e[0]).into(), ends.map(|e| e[1]).into()]
    };
    for ((score, place), to_control) in places(outcome).into_iter().zip(against_controls(outcome)) {
        let d = place.difference;
        let mut row: Vec<Cell> = vec![score.entry.label.as_str().into()];
        row.push(if score.control_of.is_empty() { Cell::Empty } else { score.control_of.join(" ").into() });
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
        let to_control = to_control.map(|(_, d)| d);
        row.extend(cells(to_control.map(|d| d.paired)));
        row.extend([to_control.map(|d| d.p).into(), to_control.map(|d| d.adjusted).into()]);
        row.push(to_control.map_or(Cell::Empty, |d| d.word().into()));
        table.push(row);
    }
    table.to_csv(command)
}

/// Everything: scores by seed, what follows from them, and the curves of the figure.
pub fn json(outcome: &ComparisonResult) -> Value {
    let spread = |s: IqmEstimate| json!({ "iqm": s.mid, "interval": s.ends });
    let methods: Vec<Value> = places(outcome)
        .into_iter()
        .zip(against_controls(outcome))
        .map(|((score, place), to_control)| {
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
                "control_of": score.control_of,
                "learning_rate": score.rate,
                "mean_token_weight": score.weight,
                "n_by_seed": score.n,
                "accuracy_before_by_seed": score.before,
                "accuracy_after_by_seed": score.after,
                "accuracy_before": spread(place.before),
                "accuracy_after": spread(place.after),
                "gain": spread(place.gain),
                "difference": place.difference.map(difference),
                "difference_to_control": to_control.map(|(_, d)| difference(d)),
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

#[cfg(test)]
mod tests {
    use super::super::{Entry, Plan, parse_methods};
    use super::*;
    use grpo_lambda_trainer::config::Config;

    #[test]
    fn comparisons_with_controls_are_corrected_for_their_number() {
        let methods = "grpo,rloo,dr_grpo,dapo,grpo:rl.lr=0.1,grpo:rl.lr=0.2,grpo:rl.lr=0.3";
        let base = Config::resolve("tiny", &[""; 0]).expect("valid");
        let plan = Plan::new(parse_methods(methods).expect("valid"), 6, true, base).expect("valid");
        let of_method = |(i, entry): (usize, &Entry)| {
            let is_other = (1..4).contains(&i);
            MethodScores {
                entry: entry.clone(),
                control_of: if i > 3 { vec![plan.entries[i - 3].label.clone()] } else { Vec::new() },
                rate: 0.1,
                weight: 1.0,
                n: vec![100; 6],
                before: vec![0.25; 6],
                after: (0..6).map(|seed| if is_other { 0.5 + 0.01 * f64::from(seed) } else { 0.4 }).collect(),
                ..MethodScores::default()
            }
        };
        let scores = plan.entries.iter().enumerate().map(of_method).collect();
        let outcome = ComparisonResult { plan: plan.clone(), scores, length: 20, parameters: 1 };
        let controls: Vec<_> =
            against_controls(&outcome).into_iter().flatten().map(|(_, d)| (d.p, d.adjusted)).collect();
        assert_eq!(controls, [(0.03125, 0.09375); 3]);
        let to_control = &json(&outcome)["methods"][1]["difference_to_control"];
        assert_eq!(
            (&to_control["sign_flip_p_holm"], &to_control["verdict"]),
            (&0.09375.into(), &"leans better".into())
        );
        let rows = csv(&outcome, "");
        let row = rows.lines().find(|row| row.starts_with("rloo,")).expect("a row");
        assert!(row.ends_with(",0.03125,0.09375,leans better"), "{row}");
        let lines = table(&outcome);
        let line = lines
            .lines()
            .find(|line| line.starts_with("rloo against grpo:rl.lr=0.1: "))
            .expect("its step-size control");
        assert!(line.contains("leans better") && line.contains("corrected for 3 comparisons"), "{line}");
    }
}
