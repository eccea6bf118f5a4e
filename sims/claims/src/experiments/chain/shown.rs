//! The tables and the figures.

use super::compare::{Compared, Rule, by_seed, exponential};
use super::findings::label;
use super::rows::{ArmRow, BySeed, COMPARED, ComparedRow, PairRow, UpdateRow};
use super::updates::PLACES;
use super::{ANTI, Arm, CLAMP, GRPO, Numbers, ORACLE, REFERENCE, Reading, Run, TRACE};
use crate::experiments::common::record::yes;
use crate::figure::{Axis, Figure, Panel};
use grpo_lambda_stats::Interval;
use grpo_lambda_stats::table::Table;

fn words(reading: Option<Reading>) -> &'static str {
    match reading {
        Some(Reading::Lower) => "fewer tokens",
        Some(Reading::Higher) => "more tokens",
        Some(Reading::Equivalent) => "equivalent",
        Some(Reading::Inconclusive) => "not told",
        None => "",
    }
}

/// The arms of which something may be said: the controls alone where the gate is not passed.
fn shown(n: &Numbers) -> impl Iterator<Item = (&str, &Arm)> {
    let valid = !n.valid().is_empty();
    let arms = n.cells.iter().flat_map(|cell| cell.arms.iter().map(|arm| (cell.name.as_str(), arm)));
    arms.filter(move |(_, arm)| valid || [REFERENCE, ORACLE, ANTI].contains(&arm.name.as_str()))
}

/// The arms of the first cell.
fn of_first_cell(n: &Numbers) -> Vec<&Arm> {
    let first = n.cells.first().map(|cell| cell.name.as_str());
    shown(n).filter(|(cell, _)| Some(*cell) == first).map(|(_, arm)| arm).collect()
}

pub(super) fn tables(n: &Numbers) -> Vec<(String, Table)> {
    fn named<R: serde::Serialize>(name: &str, rows: Vec<R>) -> Option<(String, Table)> {
        (!rows.is_empty()).then(|| (name.to_owned(), Table::from_rows(rows)))
    }
    let tables = [
        named("", arm_rows(n)),
        named("updates", n.updates.clone()),
        named("gate", n.gates.clone()),
        named("pairs", pair_rows(n)),
        named("compared", compared_rows(n)),
    ];
    tables.into_iter().flatten().collect()
}

fn arm_rows(n: &Numbers) -> Vec<ArmRow> {
    let share = |cell: &str, arm: &Arm| {
        let is_end = [GRPO, ORACLE].contains(&arm.name.as_str()) || n.valid().is_empty();
        n.cell(cell).filter(|_| !is_end)?.share_of_headroom(&arm.name)
    };
    let row = |(cell, arm): (&str, &Arm)| {
        let over = arm.over_reference.as_ref().map(|c| exponential(c.ratio.interval));
        let share = share(cell, arm);
        ArmRow {
            cell: cell.to_owned(),
            arm: arm.name.clone(),
            rate: arm.rate,
            seeds: arm.runs.len(),
            missed: arm.missed(),
            pairs: arm.over_reference.as_ref().map(Compared::pairs),
            tokens: over.map(|i| i.mid),
            tokens_low: over.map(|i| i.low),
            tokens_high: over.map(|i| i.high),
            p: arm.over_reference.as_ref().map(|c| c.ratio.p),
            corrected: arm.over_reference.as_ref().map(|c| c.ratio.corrected),
            reading: if n.valid().is_empty() { "" } else { words(arm.reading()) }.to_owned(),
            share: share.map(|i| i.mid),
            share_low: share.map(|i| i.low),
            share_high: share.map(|i| i.high),
        }
    };
    shown(n).map(row).collect()
}

pub(super) fn pair_rows(n: &Numbers) -> Vec<PairRow> {
    let arms = of_first_cell(n);
    let reference = arms.iter().find(|arm| arm.name == REFERENCE).map_or(&[][..], |arm| &arm.runs);
    let others = arms.iter().filter(|arm| arm.name != REFERENCE);
    let own = others.flat_map(|arm| arm.runs.iter().zip(reference)).map(|pair| (n.protocol.version, pair));
    let before = |arm: &str| by_seed(&n.earlier, arm);
    let earlier = [ORACLE, ANTI].into_iter().flat_map(|arm| before(arm).into_iter().zip(before(REFERENCE)));
    let row = |(version, (run, other)): (u32, (&Run, &Run))| PairRow {
        version,
        arm: run.arm.clone(),
        seed: run.seed,
        tokens: run.over(other),
        reached: yes(run.reached.is_some()).to_owned(),
        rloo_reached: yes(other.reached.is_some()).to_owned(),
    };
    own.chain(earlier.map(|pair| (Rule::One.version(), pair))).map(row).collect()
}

fn compared_rows(n: &Numbers) -> Vec<ComparedRow> {
    let Some(cell) = n.valid().first() else { return Vec::new() };
    let row = |(arm, over): (&str, &str)| {
        let compared = cell.compare(arm, over)?;
        let tokens = exponential(compared.ratio.interval);
        Some(ComparedRow {
            arm: arm.to_owned(),
            over: over.to_owned(),
            pairs: compared.pairs(),
            missed: compared.missed[0],
            over_missed: compared.missed[1],
            tokens: tokens.mid,
            tokens_low: tokens.low,
            tokens_high: tokens.high,
            p: compared.ratio.p,
        })
    };
    COMPARED.into_iter().filter_map(row).collect()
}

pub(super) fn figures(n: &Numbers) -> Vec<(String, Figure)> {
    let tokens = (!n.cells.is_empty()).then(|| (String::new(), of_tokens(n)));
    let noise = (!n.updates.is_empty()).then(|| ("noise".to_owned(), of_updates(n)));
    tokens.into_iter().chain(noise).collect()
}

/// The ends of the axis of ratios.
const ENDS: [f64; 2] = [0.25, 4.0];

fn of_tokens(n: &Numbers) -> Figure {
    let mut arms: Vec<(&Arm, Interval)> = of_first_cell(n)
        .into_iter()
        .filter_map(|arm| Some((arm, exponential(arm.over_reference.as_ref()?.ratio.interval))))
        .collect();
    arms.sort_by(|a, b| a.1.mid.total_cmp(&b.1.mid));
    let mut pairs = pair_rows(n);
    pairs.retain(|pair| pair.version == n.protocol.version);
    let [low, high] = ENDS;
    let dots = |wanted: fn(&PairRow) -> bool| -> Vec<(f64, f64)> {
        let of_arm = |(row, (arm, _)): (usize, &(&Arm, Interval))| {
            let own = pairs.iter().filter(|pair| pair.arm == arm.name).enumerate();
            // A dot a seed, each a little lower than the one before.
            let place = |(k, pair): (usize, &PairRow)| (pair.tokens, row as f64 - 0.28 + 0.05 * k as f64);
            own.filter(|(_, pair)| wanted(pair)).map(place).collect::<Vec<_>>()
        };
        arms.iter().enumerate().flat_map(of_arm).collect()
    };
    let (reached, missed) = (dots(PairRow::is_of_both), dots(|pair| !pair.is_of_both()));
    let means = arms.iter().zip(0..).map(|((_, i), row)| (f64::from(row), i.low, i.mid, i.high));
    let panel = Panel::new("")
        .x(Axis::new("tokens to the target over RLOO's on the same seed").log().range(low, high))
        .y(Axis::new("").categories(arms.iter().map(|(arm, _)| label(&arm.name))))
        .vline(1.0, "RLOO")
        .dots("a seed", false, reached.iter().copied())
        .dots("a seed on which a run missed the target", true, missed.iter().copied())
        .spans("geometric mean, 95 %", means.filter(|(_, _, mid, _)| *mid <= high));
    // What lies beyond an end is written at it.
    let beyond = arms.iter().zip(0..).filter(|((_, i), _)| i.mid > high);
    let panel = beyond.fold(panel, |panel, ((_, i), row)| {
        panel.text(high, f64::from(row), format!("{:.1} ({:.1} to {:.1}) →", i.mid, i.low, i.high))
    });
    let inside = |row: f64| arms.get(row.round() as usize).is_some_and(|(_, i)| i.mid <= high);
    let single = reached.iter().chain(&missed).filter(|(_, row)| inside(*row));
    let panel = single.fold(panel, |panel, &(ratio, row)| match () {
        () if ratio > high => panel.text(high, row.round(), format!("{ratio:.1} →")),
        () if ratio < low => panel.text(low, row.round(), format!("← {ratio:.2}")),
        () => panel,
    });
    Figure::new(title(n, &pairs))
        .caption(format!("A small transformer on chains of eight operations; tokens until it solves {} of the held-out problems. The mean is over the pairs of which one run at least reached the target. Hollow dots are bounds, or, near 1, pairs of which neither reached it, which the mean leaves out. Verifier credit: a model of Q minus the baseline of least variance. Permuted credit: the same at random steps.", n.protocol.exam.target))
        .columns(1)
        .panel_size(780, 500)
        .panel(panel)
}

fn title(n: &Numbers, pairs: &[PairRow]) -> String {
    let by_seed = BySeed::new(pairs.iter().filter(|pair| pair.arm == ORACLE));
    let Some(said) = by_seed.said() else { return "Tokens to the target over RLOO's".to_owned() };
    let Some(cell) = n.valid().first() else {
        return format!("Verifier credit takes {said}: too many to conclude anything");
    };
    let is_open = |arm, over| {
        cell.compare(arm, over).is_some_and(|c| c.ratio.interval.low <= 0.0 && c.ratio.interval.high >= 0.0)
    };
    let control =
        if is_open(ORACLE, CLAMP) { ", and no significantly fewer than GRPO with the clamp" } else { "" };
    let trace = if is_open(TRACE, GRPO) { "; no effect of the trace is shown" } else { "" };
    format!("Verifier credit takes {said}{control}{trace}")
}

fn of_updates(n: &Numbers) -> Figure {
    let has_update = |arm: &&str| *arm != REFERENCE && n.updates.iter().any(|u| u.arm == *arm);
    let mut arms: Vec<&str> =
        n.protocol.arms.iter().map(|arm| arm.name.as_str()).filter(has_update).collect();
    let at_start = |arm: &str| n.updates.iter().find(|u| u.arm == arm).map_or(f64::NAN, |u| u.noise);
    arms.sort_by(|a, b| at_start(a).total_cmp(&at_start(b)));
    let panel = |name: &str, axis: Axis, number: fn(&UpdateRow) -> Interval| {
        let panel = Panel::new(name)
            .x(axis)
            .y(Axis::new("").categories(arms.iter().map(|arm| label(arm))))
            .vline(1.0, "RLOO");
        PLACES.iter().zip([-0.24, 0.0, 0.24]).fold(panel, |panel, (place, aside)| {
            let intervals = arms.iter().zip(0..).filter_map(|(arm, k)| {
                let i = number(n.updates.iter().find(|u| u.arm == *arm && u.place == *place)?);
                Some((f64::from(k) + aside, i.low, i.mid, i.high))
            });
            panel.spans(*place, intervals.collect::<Vec<_>>())
        })
    };
    let noise = Axis::new("noise over RLOO's").log().range(0.01, 5.0);
    let seeds = n.updates.first().map_or(0, |u| u.seeds);
    Figure::new(title_of_updates(n, &arms))
        .caption(format!("Updates at the start, in the middle and at the end of a run with RLOO; means over {seeds} seeds, Student's t at 95 %, bars that reach 0 cut at the left. Noise: the variance of an update at the scale at which its mean goes as far along the gradient as the gradient itself."))
        .panel_size(520, 520)
        .panel(panel("Noise", noise, UpdateRow::noise))
        .panel(panel("Direction of the mean update", Axis::new("cosine with the gradient over RLOO's"), UpdateRow::cosine))
}

fn title_of_updates(n: &Numbers, arms: &[&str]) -> String {
    let is_lower = |arm: &&&str| {
        let own: Vec<&UpdateRow> = n.updates.iter().filter(|u| u.arm == **arm).collect();
        own.len() == PLACES.len() && own.iter().all(|u| u.noise_high < 1.0)
    };
    let lower: Vec<&str> = arms.iter().filter(is_lower).map(|arm| label(arm)).collect();
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
