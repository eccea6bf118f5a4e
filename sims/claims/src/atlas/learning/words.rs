//! Numbers and names as they stand in findings and titles.

use super::competitors::Knowledge;
use super::measure::{Ranking, VARIANTS, drawn};
use super::results::CostAxis;
use crate::atlas::entries::BASELINE;
use crate::experiments::common::interval;

/// The variants that take part, headline first.
pub(super) fn variants(r: &Ranking) -> Vec<usize> {
    VARIANTS.iter().filter_map(|name| r.results.find(name)).collect()
}

/// A competitor against GRPO, in a word.
pub(super) fn word(sign: i8) -> &'static str {
    match sign {
        1 => "faster",
        -1 => "slower",
        _ => "not significantly different",
    }
}

pub(super) fn ranking_title(r: &Ranking) -> String {
    let faster = r.order.iter().copied().filter(|&c| r.standing(c, CostAxis::Responses).sign() > 0);
    let faster: Vec<usize> = faster.collect();
    let free = |c: &usize| r.results.competitors[*c].knowledge == Knowledge::Oracle;
    let beyond = if faster.is_empty() {
        "No method learns faster than GRPO beyond noise".to_owned()
    } else if faster.iter().all(free) {
        "Beyond noise only methods with free true values learn faster than GRPO".to_owned()
    } else {
        let names: Vec<String> = faster.iter().filter(|c| !free(c)).map(|&c| r.name(c)).collect();
        format!("Faster than GRPO beyond noise, without free values: {}", names.join(", "))
    };
    let Some(&variant) = variants(r).first() else { return beyond };
    let s = r.standing(variant, CostAxis::Responses);
    format!(
        "{beyond}; {} is {} ({}over tasks), place {} to {} of {}",
        VARIANTS[0],
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
