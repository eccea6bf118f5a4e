//! Places in the ranking.

use crate::atlas::learning::competitors::{COMPLETIONS, Competitor, Knowledge};
use crate::atlas::learning::measure::Ranking;
use crate::atlas::learning::ranking::{identical, level, order};
use crate::atlas::learning::results::CostAxis;
use crate::atlas::learning::words::{readings, word};
use crate::experiment::{Finding, Verdict};
use crate::experiments::common::{holds_or, list};
use grpo_lambda_stats::OverTasks;

/// Shows the standings of some competitors on both axes.
fn showing(finding: Finding, r: &Ranking, who: &[usize], columns: &[&str]) -> Finding {
    let names: Vec<String> = who.iter().map(|&c| r.name(c)).collect();
    finding.rows("", &[&["against", "method"], columns].concat()).only("method", &names)
}

/// The columns of a gain over GRPO.
const GAIN: [&str; 10] = [
    "rank",
    "gain",
    "gain_low",
    "gain_high",
    "gain_low_over_tasks",
    "gain_high_over_tasks",
    "p_over_tasks",
    "p_holm",
    "tasks_better",
    "tasks_worse",
];

pub(super) fn headline(r: &Ranking) -> Finding {
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
    let statement = "GRPO-λ learns faster than GRPO from the same responses, each at its own best rate";
    showing(Finding::new("headline", statement, verdict), r, &readings(r), &GAIN)
        .value("competitors", r.results.competitors.len())
        .value("tasks", r.results.tasks.len())
}

/// Names of the competitors with a sign, best first.
fn with_sign(r: &Ranking, axis: CostAxis, sign: i8) -> Vec<String> {
    let standings = &r.standings[axis as usize];
    let order = order(standings);
    let own = order.iter().filter(|&&c| c != 0 && standings[c].sign() == sign);
    own.map(|&c| r.name(c)).collect()
}

/// Competitors that beat GRPO without the oracle.
pub(super) fn best(r: &Ranking) -> Finding {
    let honest = |axis: CostAxis| -> Vec<String> {
        let standings = &r.standings[axis as usize];
        let known =
            |c: usize| matches!(r.results.competitors[c].knowledge, Knowledge::Oracle | Knowledge::Teacher);
        let order = order(standings);
        let better = order.into_iter().filter(|&c| standings[c].sign() > 0 && !known(c));
        better.map(|c| r.name(c)).collect()
    };
    let both = CostAxis::ALL.map(honest);
    let verdict = match (both[0].is_empty(), both[1].is_empty()) {
        (true, true) => Verdict::Fails("none of them, after correction for the number of methods".into()),
        (false, false) => Verdict::Holds,
        _ => Verdict::HoldsWhen(format!(
            "against responses {}; against tokens {}",
            list(&both[0]),
            list(&both[1])
        )),
    };
    let statement = "Some method that needs neither the oracle nor a teacher learns faster than GRPO (Holm-corrected paired permutation tests)";
    let finding =
        CostAxis::ALL.into_iter().fold(Finding::new("best", statement, verdict), |finding, axis| {
            finding
                .value(format!("faster against {}", axis.name()), with_sign(r, axis, 1))
                .value(format!("slower against {}", axis.name()), with_sign(r, axis, -1))
        });
    showing(finding, r, &r.order[..1], &GAIN)
        .note("The rest are no different. The method shown is the first by area against responses.")
}

pub(super) fn coincide(r: &Ranking) -> Finding {
    let groups = identical(&r.results.scores(|run| run.area[0]));
    let named = |group: &Vec<usize>| group.iter().map(|&c| r.name(c)).collect::<Vec<_>>().join(" = ");
    let named: Vec<String> = groups.iter().map(named).collect();
    Finding::new(
        "coincide",
        "Every method is an update of its own, also on policy with one prompt and one step per group",
        holds_or(groups.is_empty(), named.join("; ")),
    )
    .note("These are the same in every run (areas within 1e-9), so that only one of each group's places is information.")
}

pub(super) fn efficiency(r: &Ranking) -> Finding {
    let spent = |c: usize, axis: CostAxis| level(&r.effort_to_learn(c, axis), r.bootstrap);
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
    let who = [&[0], readings(r).as_slice()].concat();
    let statement = "GRPO-λ (recent) reaches 90 % of J* with less than GRPO";
    let columns = ["spent_to_90", "spent_to_90_low", "spent_to_90_high", "share_reaching_90"];
    showing(Finding::new("efficiency", statement, verdict), r, &who, &columns).note(
        "Spent until J >= 0.9 J*, as a share of the budget; a run that does not get there counts 1. Means over tasks of the mean.",
    )
}

/// Exact values against values from completions.
pub(super) fn values(r: &Ranking) -> Finding {
    let (mut pays, mut paid) = (Vec::new(), Vec::new());
    for (c, competitor) in r.results.competitors.iter().enumerate() {
        if matches!(competitor.knowledge, Knowledge::Completions(_)) {
            paid.push(c);
            let faster = CostAxis::ALL.into_iter().filter(|axis| r.standing(c, *axis).sign() > 0);
            pays.extend(faster.map(|axis| format!("{} against {}", competitor.name(), axis.name())));
        }
    }
    let all = CostAxis::ALL.len() * paid.len();
    let verdict = match pays.len() {
        0 => Verdict::Fails("no method with paid values learns faster than GRPO on the same budget".into()),
        n if n == all => Verdict::Holds,
        _ => Verdict::HoldsWhen(pays.join(", ")),
    };
    let statement = format!("Values from K = {COMPLETIONS} fresh completions pay for themselves");
    showing(Finding::new("values", statement, verdict), r, &paid, &["gain", "gain_low", "gain_high"])
        .note("Gain over GRPO in area.")
}

/// The gain that a method with exact values, at no charge, must show if these tasks can tell credit apart at all.
pub(super) fn assay(r: &Ranking) -> Finding {
    let free = |c: &Competitor| c.entrant.method == "vine_ppo" && c.knowledge == Knowledge::Oracle;
    let statement = "These tasks can tell credit from none (assay sensitivity): VinePPO with exact values at no charge learns faster than GRPO, with the tasks as the sample";
    let Some(c) = r.results.competitors.iter().position(free) else {
        let verdict = Verdict::NotTold("no method with exact values takes part".into());
        return Finding::new("assay", statement, verdict);
    };
    let standing = r.standing(c, CostAxis::Responses);
    let shown = standing.over_tasks.as_ref().is_some_and(OverTasks::positive);
    let verdict = match shown {
        true => Verdict::Holds,
        false => Verdict::NotTold(
            "not even perfect credit is shown to gain here, so that no gain of another method says little about its credit"
                .into(),
        ),
    };
    let finding = Finding::new("assay", statement, verdict)
        .value("tasks", r.results.tasks.len())
        .value("a gain that would be seen in a learning curve", ASSAY)
        .value("tasks with a larger one", standing.gains.iter().filter(|g| g.mid > ASSAY).count());
    showing(finding, r, &[c], &GAIN).only("against", &[CostAxis::Responses.name()])
}

/// A gain in area that would be seen in a learning curve.
const ASSAY: f64 = 0.02;
