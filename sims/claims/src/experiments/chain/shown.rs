//! The tables and the figures.

use super::judged::{Evaluated, dots};
use super::rows::{ComparedRow, MethodRow, SeedRow, UpdateRow};
use super::updates::PLACES;
use super::{CLAMP, Compared, GRPO, Numbers, REFERENCE, Role, TRACE, VERIFIER};
use crate::experiments::common::record::Yes;
use crate::experiments::common::{distinct, mean, placed};
use crate::figure::{Axis, Figure, Panel};
use grpo_lambda_stats::table::Table;
use grpo_lambda_stats::{Interval, t_interval};
use grpo_lambda_trials::Verdict;

pub(in crate::experiments) fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Higher => "higher",
        Verdict::Lower => "lower",
        Verdict::Equivalent => "equivalent",
        Verdict::Inconclusive => "inconclusive",
    }
}

impl Numbers {
    /// The scores of a method minus those of RLOO, by seed, with their interval; none without any.
    fn minus_reference(&self, method: &Evaluated) -> Option<(Vec<f64>, Interval)> {
        method.minus(self.methods.iter().find(|m| m.name == REFERENCE)?, self.study.level)
    }
}

pub(super) fn tables(n: &Numbers) -> Vec<(String, Table)> {
    fn named<R: serde::Serialize>(name: &str, rows: Vec<R>) -> Option<(String, Table)> {
        (!rows.is_empty()).then(|| (name.to_owned(), Table::from_rows(rows)))
    }
    let methods: Option<Vec<MethodRow>> = n.methods.iter().map(|method| method_row(n, method)).collect();
    let tables = [
        named("", methods.unwrap_or_default()),
        named("compared", n.compared.iter().map(|c| compared_row(n, c)).collect()),
        named("seeds", seed_rows(n)),
        named("updates", n.updates.clone()),
    ];
    tables.into_iter().flatten().collect()
}

fn method_row(n: &Numbers, method: &Evaluated) -> Option<MethodRow> {
    let accuracy = t_interval(&method.scores, n.study.level)?;
    let minus = n.minus_reference(method).map(|(_, interval)| interval).filter(|_| method.name != REFERENCE);
    Some(MethodRow {
        method: method.name.clone(),
        label: method.label.clone(),
        rate: method.rate,
        at_an_end: Yes(method.at_an_end),
        seeds: method.scores.len(),
        accuracy: accuracy.mid,
        accuracy_low: accuracy.low,
        accuracy_high: accuracy.high,
        minus_rloo: minus.map(|i| i.mid),
        minus_rloo_low: minus.map(|i| i.low),
        minus_rloo_high: minus.map(|i| i.high),
        last: mean(&method.last()),
    })
}

fn compared_row(n: &Numbers, compared: &Compared) -> ComparedRow {
    let Compared { role, pair, difference: d } = compared;
    let in_family = *role == Role::Family;
    ComparedRow {
        role: role.name().to_owned(),
        method: pair.method.clone(),
        with: pair.with.clone(),
        difference: d.interval.mid,
        difference_low: d.interval.low,
        difference_high: d.interval.high,
        narrow_low: d.narrow.low,
        narrow_high: d.narrow.high,
        higher_on: d.values.iter().filter(|value| **value > 0.0).count(),
        p: d.p,
        corrected: in_family.then_some(d.corrected),
        verdict: if in_family && n.is_gate_passed() { word(d.verdict(n.study.margin)) } else { "" }
            .to_owned(),
    }
}

fn seed_rows(n: &Numbers) -> Vec<SeedRow> {
    let of_method = |method: &Evaluated| {
        let runs = n.study.seeds.evaluation.iter().zip(&method.scores).zip(method.last());
        let row = |(((seed, accuracy), last), minus_rloo): (((&u64, &f64), f64), f64)| SeedRow {
            method: method.name.clone(),
            seed: *seed,
            accuracy: *accuracy,
            minus_rloo,
            last,
        };
        let minus = n.minus_reference(method).map(|(values, _)| values).unwrap_or_default();
        runs.zip(minus).map(row).collect::<Vec<_>>()
    };
    n.methods.iter().flat_map(of_method).collect()
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
    let said = |gains: &str, loses: &str, [method, with]: [&str; 2]| {
        let mid = n.family(method, with)?.interval.mid;
        let verb = if mid > 0.0 { gains } else { loses };
        Some(format!("{verb} {:.3}", mid.abs()))
    };
    let verifier = n.gate().find(|c| c.pair.method == VERIFIER && c.pair.with == REFERENCE);
    let parts = || {
        let clamp = said("gains", "loses", [CLAMP, GRPO])?;
        let trace = said("gains", "loses", [TRACE, GRPO])?;
        let own = verifier?.difference.interval.mid;
        Some(format!(
            "Verifier credit gains {own:.3} of accuracy over RLOO; against GRPO the clamp {clamp}, and the trace alone {trace}"
        ))
    };
    parts().unwrap_or_else(|| "The gate is not passed: no method is compared".to_owned())
}

fn of_updates(n: &Numbers) -> Figure {
    let arms = n.updates.iter().map(|update| update.arm.as_str()).filter(|arm| *arm != REFERENCE);
    let mut arms = distinct(arms);
    let at_start = |arm: &str| n.updates.iter().find(|u| u.arm == arm).map_or(f64::INFINITY, |u| u.noise);
    arms.sort_by(|a, b| at_start(a).total_cmp(&at_start(b)));
    let panel = |name: &str, axis: Axis, number: fn(&UpdateRow) -> Interval| {
        let panel = Panel::new(name)
            .x(axis)
            .y(Axis::new("").categories(arms.iter().map(|arm| n.label(arm))))
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
        .panel(panel("Noise", noise, UpdateRow::noise))
        .panel(panel("Direction of the mean update", Axis::new("cosine with the gradient over RLOO's"), UpdateRow::cosine))
}

fn title_of_updates(n: &Numbers, arms: &[&str]) -> String {
    let is_lower = |arm: &&&str| {
        let own: Vec<&UpdateRow> = n.updates.iter().filter(|u| u.arm == **arm).collect();
        own.len() == PLACES.len() && own.iter().all(|u| u.noise_high < 1.0)
    };
    let lower: Vec<&str> = arms.iter().filter(is_lower).map(|arm| n.label(arm)).collect();
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
