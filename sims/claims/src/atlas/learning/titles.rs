//! The titles of the figures, which say what the figures show.

use super::competitors::Knowledge;
use super::curves::drawn;
use super::measure::Ranking;
use super::run::CostAxis;
use super::why::{MEASURED, QUANTITIES, READINGS, Regime};
use super::words::{correlations, interval, readings, word};

pub(super) fn ranking(r: &Ranking) -> String {
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

pub(super) fn curves(r: &Ranking) -> String {
    let drawn = drawn(r);
    let gain = |c: usize, axis: CostAxis| r.standing(c, axis).gain.mid;
    let paid = |&c: &usize| matches!(r.results.competitors[c].knowledge, Knowledge::Completions(_));
    let Some(c) = drawn.iter().copied().find(|c| paid(c)) else { return "Learning curves".into() };
    let others = drawn.iter().filter(|&&d| d != c);
    let apart = others.map(|&d| gain(d, CostAxis::Responses).abs()).fold(0.0, f64::max);
    format!(
        "{} pays for its completions: {:+.3} in area against responses, {:+.3} against tokens; the other five are within {apart:.3} of GRPO",
        r.name(c),
        gain(c, CostAxis::Responses),
        gain(c, CostAxis::Tokens)
    )
}

pub(super) fn why(r: &Ranking) -> String {
    let explain = |measured: bool| -> Vec<&str> {
        let found = correlations(r, Regime::Tuned).filter(|c| c.explains());
        let names = found.map(|c| QUANTITIES[c.quantity].name);
        names.filter(|name| MEASURED.contains(name) == measured).collect()
    };
    let (before, after) = (explain(false), explain(true));
    let mut title = if before.is_empty() {
        format!("Tuned, no exact quantity of the first update tells where {} beats GRPO", READINGS[0])
    } else {
        format!("Tuned, where {} gains over GRPO goes with {}", READINGS[0], before.join(", "))
    };
    if !after.is_empty() {
        let words = after.iter().map(|name| match *name {
            "clamp_gain" => "what the clamp alone does",
            _ => "where the runs end",
        });
        title += &format!("; {} does", words.collect::<Vec<_>>().join(" and "));
    }
    title
}
