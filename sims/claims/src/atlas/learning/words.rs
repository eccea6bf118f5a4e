//! Numbers and names as they stand in findings and titles.

use super::competitors::Knowledge;
use super::measure::{Ranking, drawn};
use super::ranking::Standing;
use super::results::CostAxis;
use super::why::{Correlation, MEASURED, QUANTITIES, READINGS, Regime};
use crate::atlas::entrants::BASELINE;
use crate::experiments::common::{coarse_interval, interval, over_tasks as over_all_tasks};
use grpo_lambda_stats::table::significant;

pub(super) fn p(p: f64) -> String {
    significant(p, 2)
}

/// The gain with the tasks as the sample, and without the task that moves it most.
pub(super) fn over_tasks(r: &Ranking, s: &Standing) -> String {
    let name = |task: usize| r.results.tasks.get(task).map_or("?", |t| t.name.as_str());
    s.over_tasks.as_ref().map_or("unknown".into(), |over| over_all_tasks(over, name))
}

/// Place, gain, and chance of a better run.
pub(super) fn standing(r: &Ranking, c: usize, s: &Standing) -> String {
    format!(
        "{}: place {} [{}, {}] of {}, gain over runs {}, over tasks {}, better in {:.0} % [{:.0}, {:.0}] of pairs, Holm p {}, better on {} and worse on {} of {} tasks",
        r.name(c),
        s.rank.mid,
        s.rank.low.round(),
        s.rank.high.round(),
        r.results.competitors.len(),
        interval(s.gain),
        over_tasks(r, s),
        100.0 * s.improvement.mid,
        100.0 * s.improvement.low,
        100.0 * s.improvement.high,
        p(s.p_holm),
        s.better().len(),
        s.worse().len(),
        r.results.tasks.len()
    )
}

/// The readings that take part, headline first.
pub(super) fn readings(r: &Ranking) -> Vec<usize> {
    READINGS.iter().filter_map(|name| r.results.find(name)).collect()
}

/// A competitor against GRPO, in a word.
pub(super) fn word(sign: i8) -> &'static str {
    match sign {
        1 => "faster",
        -1 => "slower",
        _ => "not told apart",
    }
}

/// The correlations of the headline reading.
pub(super) fn correlations(r: &Ranking, regime: Regime) -> impl Iterator<Item = &Correlation> {
    r.why.correlations.iter().filter(move |c| c.reading == 0 && c.regime == regime)
}

pub(super) fn said(c: &Correlation) -> String {
    let signed = QUANTITIES[c.quantity].signed;
    let signs = match (signed, c.against.is_empty()) {
        (false, _) => String::new(),
        (true, true) => format!(", sign right on {} of {}", c.agree.0, c.agree.1),
        (true, false) => {
            let mut against = c.against.clone();
            let more = against.len().saturating_sub(4);
            against.truncate(4);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!(", sign right on {} of {}, wrong on {}{more}", c.agree.0, c.agree.1, against.join(", "))
        }
    };
    let (name, rho) = (QUANTITIES[c.quantity].name, coarse_interval(c.rho));
    format!("{name} rho {rho}, Holm p {}{signs}", p(c.p_holm))
}

pub(super) fn ranking_title(r: &Ranking) -> String {
    let faster = r.order.iter().copied().filter(|&c| r.standing(c, CostAxis::Responses).sign() > 0);
    let faster: Vec<usize> = faster.collect();
    let free = |c: &usize| r.results.competitors[*c].knowledge == Knowledge::Oracle;
    let beyond = if faster.is_empty() {
        "No method learns faster than GRPO beyond noise".to_owned()
    } else if faster.iter().all(free) {
        "Beyond noise only methods with free values from the oracle learn faster than GRPO".to_owned()
    } else {
        let names: Vec<String> = faster.iter().filter(|c| !free(c)).map(|&c| r.name(c)).collect();
        format!("Faster than GRPO beyond noise, without free values: {}", names.join(", "))
    };
    let Some(&reading) = readings(r).first() else { return beyond };
    let s = r.standing(reading, CostAxis::Responses);
    format!(
        "{beyond}; {} is {} ({}over tasks), place {} to {} of {}",
        READINGS[0],
        word(s.sign()),
        s.over_tasks.as_ref().map_or(String::new(), |over| interval(over.interval) + " "),
        s.rank.low.round(),
        s.rank.high.round(),
        r.results.competitors.len()
    )
}

pub(super) fn curves_title(r: &Ranking) -> String {
    let drawn = drawn(r);
    let gain = |c: usize, axis: CostAxis| r.standing(c, axis).gain.mid;
    let paid = |&c: &usize| matches!(r.results.competitors[c].knowledge, Knowledge::Completions(_));
    let Some(c) = drawn.iter().copied().find(|c| paid(c)) else { return "Learning curves".into() };
    let others: Vec<usize> = drawn.into_iter().filter(|&d| d != c && r.name(d) != BASELINE).collect();
    let apart = others.iter().map(|&d| gain(d, CostAxis::Responses).abs()).fold(0.0, f64::max);
    format!(
        "{} pays for its completions: {:+.3} in area against responses, {:+.3} against tokens; the other {} are within {apart:.3} of {BASELINE}",
        r.name(c),
        gain(c, CostAxis::Responses),
        gain(c, CostAxis::Tokens),
        others.len()
    )
}

pub(super) fn why_title(r: &Ranking) -> String {
    let explain = |measured: bool| -> Vec<&str> {
        let found = correlations(r, Regime::Tuned).filter(|c| c.explains());
        let names = found.map(|c| QUANTITIES[c.quantity].name);
        names.filter(|name| MEASURED.contains(name) == measured).collect()
    };
    let (before, after) = (explain(false), explain(true));
    let mut title = if before.is_empty() {
        format!(
            "Tuned, no exact quantity known before training is shown to tell where {} beats GRPO",
            READINGS[0]
        )
    } else {
        format!("Tuned, where {} gains over GRPO goes with {}", READINGS[0], before.join(", "))
    };
    if !after.is_empty() {
        let words = after.iter().map(|name| match *name {
            "clamp_gain" => "what the clamp alone does",
            _ => "where the runs end",
        });
        title += &format!("; the gain goes with {}", words.collect::<Vec<_>>().join(" and "));
    }
    title
}
