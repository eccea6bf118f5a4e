//! The tables and the figures.

use super::judged::{Evaluated, compared, dots, filled, label};
use super::rows::UpdateRow;
use super::updates::PLACES;
use super::{CLAMP, GRPO, Numbers, REFERENCE, TRACE, VERIFIER};
use crate::experiments::common::record::{Record, table, yes};
use crate::experiments::common::{distinct, mean, placed};
use crate::figure::{Axis, Figure, Panel};
use grpo_lambda_stats::table::Table;
use grpo_lambda_stats::{Interval, t_interval};
use grpo_lambda_trials::Compared;

impl Numbers {
    /// The scores of a method minus those of RLOO, by seed, with their interval; none without any.
    fn minus_reference(&self, method: &Evaluated) -> Option<(Vec<f64>, Interval)> {
        method.minus(self.methods.iter().find(|m| m.name == REFERENCE)?, self.study.level)
    }
}

pub(super) fn tables(n: &Numbers) -> Vec<(String, Table)> {
    let all = [
        ("", table(n.methods.iter().map(|method| method_row(n, method)))),
        ("compared", table(compared_rows(n))),
        ("seeds", table(n.methods.iter().flat_map(|method| seed_rows(n, method)))),
        ("updates", table(n.updates.iter().map(UpdateRow::record))),
    ];
    filled(all)
}

fn method_row(n: &Numbers, method: &Evaluated) -> Record {
    let minus = n.minus_reference(method).map(|(_, interval)| interval).filter(|_| method.name != REFERENCE);
    Record::default()
        .with("method", &*method.name)
        .with("label", &*method.label)
        .with("rate", method.rate)
        .with("at_an_end", yes(method.at_an_end))
        .with("seeds", method.scores.len())
        .interval("accuracy", t_interval(&method.scores, n.study.level))
        .interval("minus_rloo", minus)
        .with("last", mean(&method.last()))
}

fn compared_rows(n: &Numbers) -> impl Iterator<Item = Record> {
    let row = |role: &str, c: &Compared, corrected: Option<f64>, verdict: &str| {
        compared(Record::default().with("role", role), c, corrected, verdict)
    };
    let of_family = move |c: &Compared| {
        let verdict = if n.is_gate_passed() { c.difference.verdict(n.study.margin).name() } else { "" };
        row("family", c, Some(c.difference.corrected), verdict)
    };
    let gate = n.gate.iter().map(move |c| row("gate", c, None, ""));
    gate.chain(n.family.iter().map(of_family))
        .chain(n.reported.iter().map(move |c| row("reported", c, None, "")))
}

fn seed_rows(n: &Numbers, method: &Evaluated) -> Vec<Record> {
    let minus = n.minus_reference(method).map(|(values, _)| values).unwrap_or_default();
    let runs = n.study.seeds.evaluation.iter().zip(&method.scores).zip(method.last()).zip(minus);
    let row = |(((seed, accuracy), last), minus_rloo): (((&u64, &f64), f64), f64)| {
        Record::default()
            .with("method", &*method.name)
            .with("seed", *seed as usize)
            .with("accuracy", *accuracy)
            .with("minus_rloo", minus_rloo)
            .with("last", last)
    };
    runs.map(row).collect()
}

pub(super) fn figures(n: &Numbers) -> Vec<(String, Figure)> {
    let reference = n.methods.iter().find(|method| method.name == REFERENCE);
    let accuracy = reference.map(|reference| (String::new(), of_accuracy(n, reference)));
    let noise = (!n.updates.is_empty()).then(|| ("noise".to_owned(), of_updates(n)));
    accuracy.into_iter().chain(noise).collect()
}

fn of_accuracy(n: &Numbers, reference: &Evaluated) -> Figure {
    let axis = "mean held-out accuracy over 500,000 tokens, minus RLOO's on the same seed";
    let panel = dots(&n.methods, reference, (n.study.level, "", axis));
    let reference = mean(&reference.scores);
    Figure::new(title(n))
        .caption(format!("A small transformer on chains of eight operations, {} seeds that chose no rate, every run counted; Student's t over seeds. RLOO's own mean is {reference:.3}. Verifier credit: the first wrong step is known; Q is modelled, V its mean, b* the baseline of least variance. Permuted credit: Q - b* at random steps of the response.", n.study.seeds.evaluation.len()))
        .columns(1)
        .panel_size(760, 430)
        .panel(panel)
}

/// The title of the figure: what the comparisons show.
fn title(n: &Numbers) -> String {
    let said = |gains: &str, loses: &str, pair: [&str; 2]| {
        let mid = n.family(pair)?.interval.mid;
        let verb = if mid > 0.0 { gains } else { loses };
        Some(format!("{verb} {:.3}", mid.abs()))
    };
    let verifier = Compared::find(&n.gate, VERIFIER, REFERENCE);
    let parts = || {
        let clamp = said("gains", "loses", [CLAMP, GRPO])?;
        let trace = said("gains", "loses", [TRACE, GRPO])?;
        let own = verifier?.interval.mid;
        Some(format!(
            "Verifier credit gains {own:.3} of accuracy over RLOO; against GRPO the clamp {clamp}, and the trace alone {trace}"
        ))
    };
    parts().unwrap_or_else(|| "The gate is not passed: no method is compared".to_owned())
}

fn of_updates(n: &Numbers) -> Figure {
    let arms = n.updates.iter().map(|update| update.arm.as_str()).filter(|arm| *arm != REFERENCE);
    let mut arms = distinct(arms);
    let at_start = |arm: &str| n.updates.iter().find(|u| u.arm == arm).map_or(f64::INFINITY, |u| u.noise.mid);
    arms.sort_by(|a, b| at_start(a).total_cmp(&at_start(b)));
    let panel = |name: &str, axis: Axis, number: fn(&UpdateRow) -> Interval| {
        let panel = Panel::new(name)
            .x(axis)
            .y(Axis::new("").categories(arms.iter().map(|arm| label(&n.study, arm))))
            .vline(1.0, "RLOO");
        PLACES.iter().zip([-0.24, 0.0, 0.24]).fold(panel, |panel, (place, aside)| {
            let intervals = arms.iter().zip(0..).filter_map(|(arm, k)| {
                let update = n.updates.iter().find(|u| u.arm == *arm && u.place == *place)?;
                Some(placed(f64::from(k) + aside, number(update)))
            });
            panel.spans(*place, intervals.collect::<Vec<_>>())
        })
    };
    let noise = Axis::new("noise over RLOO's").log().range(0.01, 5.0);
    let seeds = n.updates.first().map_or(0, |u| u.seeds);
    Figure::new(title_of_updates(n, &arms))
        .caption(format!("Updates at the start, in the middle and at the end of a run with RLOO; means over {seeds} seeds, Student's t at 95 %, bars that reach 0 cut at the left; not corrected for the number of comparisons. Noise: the variance of an update at the scale at which its mean goes as far along the gradient as the gradient itself."))
        .panel_size(520, 520)
        .panel(panel("Noise", noise, |u| u.noise))
        .panel(panel("Direction of the mean update", Axis::new("cosine with the gradient over RLOO's"), |u| u.cosine))
}

fn title_of_updates(n: &Numbers, arms: &[&str]) -> String {
    let is_lower = |arm: &&&str| {
        let own: Vec<&UpdateRow> = n.updates.iter().filter(|u| u.arm == **arm).collect();
        own.len() == PLACES.len() && own.iter().all(|u| u.noise.high < 1.0)
    };
    let lower: Vec<&str> = arms.iter().filter(is_lower).map(|arm| label(&n.study, arm)).collect();
    match lower.as_slice() {
        [] => "No method is shown to lower the noise of RLOO's update at all three places".to_owned(),
        [only] => format!(
            "Of all methods {only} alone is shown to lower the noise of RLOO's update at all three places"
        ),
        several => {
            format!("Shown to lower the noise of RLOO's update at all three places: {}", several.join(", "))
        }
    }
}
