//! Places in the ranking.

use crate::atlas::entrants::Source;
use crate::atlas::learning::competitors::{COMPLETIONS, Competitor, Knowledge};
use crate::atlas::learning::measure::{Ranking, drawn};
use crate::atlas::learning::ranking::{identical, level, order};
use crate::atlas::learning::results::CostAxis;
use crate::atlas::learning::words::{over_tasks, p, readings, standing, word};
use crate::experiment::{Finding, Verdict};
use crate::experiments::common::{finding, holds_or, interval, list};
use grpo_lambda_stats::OverTasks;

pub(super) fn headline(r: &Ranking) -> Finding {
    let places = |axis: CostAxis| {
        let place = |&c: &usize| standing(r, c, &r.standings[axis as usize][c]);
        readings(r).iter().map(place).collect::<Vec<_>>().join("; ")
    };
    let signs = |axis: CostAxis| -> Vec<i8> {
        readings(r).iter().map(|&c| r.standings[axis as usize][c].sign()).collect()
    };
    let both = [signs(CostAxis::Responses), signs(CostAxis::Tokens)];
    let all: Vec<i8> = both.concat();
    let said: Vec<String> = readings(r)
        .iter()
        .enumerate()
        .map(|(i, &c)| format!("{} {} ({} by tokens)", r.name(c), word(both[0][i]), word(both[1][i])))
        .collect();
    let verdict = match (all.iter().all(|&s| s > 0), all.iter().any(|&s| s > 0)) {
        (true, _) => Verdict::Holds,
        (false, true) => Verdict::HoldsWhen(said.join(", ")),
        (false, false) if all.iter().all(|&s| s == 0) => Verdict::NotTold(said.join(", ")),
        (false, false) => Verdict::Fails(said.join(", ")),
    };
    finding(
        "GRPO-λ learns faster than GRPO from the same responses, each at its own best rate",
        verdict,
        format!(
            "against responses, {}. Against tokens, {}",
            places(CostAxis::Responses),
            places(CostAxis::Tokens)
        ),
    )
}

/// Names of the competitors with a sign, best first.
fn with_sign(r: &Ranking, axis: CostAxis, sign: i8) -> Vec<String> {
    let standings = &r.standings[axis as usize];
    let order = order(standings);
    let name_and_gain = |&c: &usize| format!("{} ({:+.3})", r.name(c), standings[c].gain.mid);
    order.iter().filter(|&&c| c != 0 && standings[c].sign() == sign).map(name_and_gain).collect()
}

/// Competitors that beat GRPO without the oracle.
pub(super) fn best(r: &Ranking) -> Finding {
    let honest = |axis: CostAxis| -> Vec<String> {
        let standings = &r.standings[axis as usize];
        let known =
            |c: usize| matches!(r.results.competitors[c].knowledge, Knowledge::Oracle | Knowledge::Teacher);
        let order = order(standings);
        let better = order.into_iter().filter(|&c| standings[c].sign() > 0 && !known(c));
        better.map(|c| format!("{} ({:+.3})", r.name(c), standings[c].gain.mid)).collect()
    };
    let numbers = CostAxis::ALL.map(|axis| {
        format!(
            "against {}: faster {}; slower {}; the rest no different",
            axis.name(),
            list(&with_sign(r, axis, 1)),
            list(&with_sign(r, axis, -1))
        )
    });
    let both = CostAxis::ALL.map(honest);
    let (first, s) = (r.order[0], &r.standings[0][r.order[0]]);
    let leader = format!(
        "first by area against responses: {} ({}), better on {} and worse on {} of {} tasks, Holm p {}, place {} to {} when tasks are drawn as well",
        r.name(first),
        interval(s.gain),
        s.better().len(),
        s.worse().len(),
        r.results.tasks.len(),
        p(s.p_holm),
        s.rank_over_tasks.low.round(),
        s.rank_over_tasks.high.round()
    );
    let verdict = match (both[0].is_empty(), both[1].is_empty()) {
        (true, true) => Verdict::Fails("none of them, after correction for the number of methods".into()),
        (false, false) => Verdict::Holds,
        _ => Verdict::HoldsWhen(format!(
            "against responses {}; against tokens {}",
            list(&both[0]),
            list(&both[1])
        )),
    };
    finding(
        "Some method that needs neither the oracle nor a teacher learns faster than GRPO (Holm-corrected paired permutation tests)",
        verdict,
        format!("{}. {leader}", numbers.join(". ")),
    )
}

pub(super) fn coincide(r: &Ranking) -> Finding {
    let groups = identical(&r.results.scores(|run| run.area[0]));
    let named = |group: &Vec<usize>| group.iter().map(|&c| r.name(c)).collect::<Vec<_>>().join(" = ");
    let text = groups.iter().map(named).collect::<Vec<_>>().join("; ");
    finding(
        "Every method is an update of its own, also on policy with one prompt and one step per group",
        holds_or(groups.is_empty(), text.clone()),
        format!(
            "the same in every run (areas within 1e-9), so that only one of each group's places is information: {}",
            list(&[text])
        ),
    )
}

pub(super) fn efficiency(r: &Ranking) -> Finding {
    let spent = |c: usize, axis: CostAxis| level(&r.effort_to_learn(c, axis), r.bootstrap);
    let effort = |c: usize| {
        let share = |axis| {
            spent(c, axis)
                .map_or(String::from("unknown"), |i| format!("{:.2} [{:.2}, {:.2}]", i.mid, i.low, i.high))
        };
        format!(
            "{}: {} of the responses, {} of the tokens, {:.0} % of runs",
            r.name(c),
            share(CostAxis::Responses),
            share(CostAxis::Tokens),
            100.0 * r.share_learned(c)
        )
    };
    let mut who = vec![0];
    who.extend(readings(r));
    who.extend(drawn(r).into_iter().filter(|c| !who.contains(c)).collect::<Vec<_>>());
    let fewer = |axis: CostAxis| {
        let (ours, theirs) = (spent(readings(r)[0], axis), spent(0, axis));
        ours.zip(theirs).is_some_and(|(a, b)| a.high < b.low)
    };
    let verdict = match CostAxis::ALL.map(fewer) {
        [true, true] => Verdict::Holds,
        [true, false] => Verdict::HoldsWhen("against responses".into()),
        [false, true] => Verdict::HoldsWhen("against tokens".into()),
        _ => Verdict::Fails("the intervals of GRPO-λ and GRPO overlap, or GRPO needs less".into()),
    };
    finding(
        "GRPO-λ (recent) reaches 90 % of J* with less than GRPO",
        verdict,
        format!(
            "spent until J >= 0.9 J*, as a share of the budget, a run that does not get there counting 1 (mean over tasks of the mean), and share of runs that get there: {}",
            who.into_iter().map(effort).collect::<Vec<_>>().join("; ")
        ),
    )
}

/// Exact values against values from completions.
pub(super) fn values(r: &Ranking) -> Finding {
    let mut numbers = Vec::new();
    let (mut pays, mut all) = (Vec::new(), 0);
    for (c, competitor) in r.results.competitors.iter().enumerate() {
        if !matches!(competitor.knowledge, Knowledge::Completions(_)) {
            continue;
        }
        let same = |c: &Competitor| (c.entrant.method, c.entrant.settings);
        let exact = |o: &Competitor| o.knowledge == Knowledge::Oracle && o.entrant.source == Source::Table;
        let oracle = r.results.competitors.iter().position(|o| exact(o) && same(o) == same(competitor));
        let gain = |c: usize, axis: CostAxis| interval(r.standings[axis as usize][c].gain);
        for axis in CostAxis::ALL {
            all += 1;
            if r.standings[axis as usize][c].sign() > 0 {
                pays.push(format!("{} against {}", competitor.name(), axis.name()));
            }
        }
        numbers.push(format!(
            "{} {} (responses), {} (tokens); exact and free {}, {}",
            competitor.name(),
            gain(c, CostAxis::Responses),
            gain(c, CostAxis::Tokens),
            oracle.map_or(String::new(), |o| gain(o, CostAxis::Responses)),
            oracle.map_or(String::new(), |o| gain(o, CostAxis::Tokens))
        ));
    }
    let verdict = match pays.len() {
        0 => Verdict::Fails("no method with paid values learns faster than GRPO on the same budget".into()),
        n if n == all => Verdict::Holds,
        _ => Verdict::HoldsWhen(pays.join(", ")),
    };
    finding(
        format!("Values from K = {COMPLETIONS} fresh completions pay for themselves"),
        verdict,
        format!("gain over GRPO in area: {}", numbers.join("; ")),
    )
}

/// The gain that a method with exact values, at no charge, must show if these tasks can tell credit apart at all.
pub(super) fn assay(r: &Ranking) -> Finding {
    let free = |c: &Competitor| c.entrant.method == "vine_ppo" && c.knowledge == Knowledge::Oracle;
    let statement = "These tasks can tell credit from none (assay sensitivity): VinePPO with exact values at no charge learns faster than GRPO, with the tasks as the sample";
    let Some(c) = r.results.competitors.iter().position(free) else {
        return finding(statement, Verdict::NotTold("no method with exact values takes part".into()), "");
    };
    let standing = r.standing(c, CostAxis::Responses);
    let large = standing.gains.iter().filter(|g| g.mid > ASSAY).count();
    let numbers = format!(
        "gain in area over GRPO {}; above {ASSAY} on {large} of {} tasks",
        over_tasks(r, standing),
        r.results.tasks.len()
    );
    let shown = standing.over_tasks.as_ref().is_some_and(OverTasks::positive);
    let verdict = if shown {
        Verdict::Holds
    } else {
        Verdict::NotTold(format!(
            "not even perfect credit is shown to gain here, so that no gain of another method says little about its credit: {numbers}"
        ))
    };
    finding(statement, verdict, numbers)
}

/// A gain in area that would be seen in a learning curve.
const ASSAY: f64 = 0.02;
