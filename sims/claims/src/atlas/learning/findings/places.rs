//! Places in the ranking.

use crate::atlas::learning::competitors::{COMPLETIONS, Competitor, Knowledge};
use crate::atlas::learning::measure::Ranking;
use crate::atlas::learning::ranking::{identical, order};
use crate::atlas::learning::results::CostAxis;
use crate::atlas::learning::words::variants;
use crate::experiment::{Finding, Verdict};
use crate::experiments::common::holds_or;
use grpo_lambda_stats::OverTasks;

/// Shows the standings of some competitors on both axes.
fn showing(finding: Finding, r: &Ranking, who: &[usize], columns: &[&str]) -> Finding {
    let names: Vec<String> = who.iter().map(|&c| r.name(c)).collect();
    finding.rows("", &[&["against", "method"], columns].concat()).only("method", &names)
}

/// The columns of a gain over GRPO.
const GAIN: [&str; 5] = ["rank", "gain", "gain_low_over_tasks", "gain_high_over_tasks", "p_holm"];

pub(super) fn headline(r: &Ranking) -> Finding {
    let signs = CostAxis::ALL.map(|axis| variants(r).into_iter().map(move |c| r.standing(c, axis).sign()));
    let all: Vec<i8> = signs.into_iter().flatten().collect();
    let [faster, slower] = [1, -1].map(|sign| all.iter().filter(|s| **s == sign).count());
    let said = format!("GRPO-λ is faster in {faster} and slower in {slower} of {} comparisons", all.len());
    let verdict = match (faster, slower) {
        (0, 0) => Verdict::Inconclusive(said),
        (0, _) => Verdict::Fails(said),
        _ if faster == all.len() => Verdict::Holds,
        _ => Verdict::HoldsWhen(said),
    };
    let statement = "At tuned learning rates GRPO-λ learns faster than GRPO from equally many responses or \
        tokens";
    showing(Finding::new("headline", statement, verdict), r, &variants(r), &GAIN)
        .value("competitors", r.results.competitors.len())
        .value("tasks", r.results.tasks.len())
        .note("The variants with and without the clamp, against responses and against tokens.")
}

/// The competitors with a sign, best first.
fn with_sign(r: &Ranking, axis: CostAxis, sign: i8) -> Vec<usize> {
    let own = order(&r.standings[axis as usize]);
    own.into_iter().filter(|&c| c != 0 && r.standing(c, axis).sign() == sign).collect()
}

/// Competitors that beat GRPO without true values.
pub(super) fn best(r: &Ranking) -> Finding {
    let reported =
        |c: &usize| matches!(r.results.competitors[*c].knowledge, Knowledge::Oracle | Knowledge::Teacher);
    let honest = CostAxis::ALL.map(|axis| with_sign(r, axis, 1).iter().any(|c| !reported(c)));
    let verdict = match honest {
        [true, true] => Verdict::Holds,
        [true, false] => Verdict::HoldsWhen("against responses".into()),
        [false, true] => Verdict::HoldsWhen("against tokens".into()),
        [false, false] => Verdict::Fails(
            "no such method is shown to be faster after Holm's correction for the number of \
                methods"
                .into(),
        ),
    };
    let statement = "Some method that needs neither exact values nor a teacher learns faster than GRPO";
    let names = |all: Vec<usize>| all.into_iter().map(|c| r.name(c)).collect::<Vec<_>>();
    let finding =
        CostAxis::ALL.into_iter().fold(Finding::new("best", statement, verdict), |finding, axis| {
            finding
                .value(format!("faster against {}", axis.name()), names(with_sign(r, axis, 1)))
                .value(format!("slower against {}", axis.name()), names(with_sign(r, axis, -1)))
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
        "No two methods have the same update on-policy, with one prompt and one step per group",
        holds_or(groups.is_empty(), format!("these are equal: {}", named.join("; "))),
    )
    .note("These are the same in every run (areas within 1e-9), so that only one of each group's places is information.")
}

pub(super) fn efficiency(r: &Ranking) -> Finding {
    let fewer = |axis: CostAxis| {
        let (ours, theirs) = (r.spent(variants(r)[0], axis), r.spent(0, axis));
        ours.zip(theirs).is_some_and(|(a, b)| a.high < b.low)
    };
    let verdict = match CostAxis::ALL.map(fewer) {
        [true, true] => Verdict::Holds,
        [true, false] => Verdict::HoldsWhen("against responses".into()),
        [false, true] => Verdict::HoldsWhen("against tokens".into()),
        [false, false] => {
            Verdict::Fails("the intervals of GRPO-λ and GRPO overlap, or GRPO needs fewer".into())
        }
    };
    let who = [&[0], &variants(r)[..1]].concat();
    let statement =
        "GRPO-λ with the recent trace reaches 90 % of J* with fewer responses and fewer tokens than GRPO";
    let columns = ["spent_to_90", "spent_to_90_low", "spent_to_90_high", "share_reaching_90"];
    showing(Finding::new("efficiency", statement, verdict), r, &who, &columns).note(
        "Spent until J >= 0.9 J*, as a share of the budget; a run that does not get there counts 1. Means over tasks of the mean.",
    )
}

/// Exact values against values from completions.
pub(super) fn values(r: &Ranking) -> Finding {
    let is_paid = |c: &usize| matches!(r.results.competitors[*c].knowledge, Knowledge::Completions(_));
    let paid: Vec<usize> = (0..r.results.competitors.len()).filter(is_paid).collect();
    let cases = paid.iter().flat_map(|&c| CostAxis::ALL.map(|axis| r.standing(c, axis).sign() > 0));
    let verdict = match (cases.clone().filter(|faster| *faster).count(), cases.count()) {
        (0, _) => {
            Verdict::Fails("no method with such values learns faster than GRPO on the same budget".into())
        }
        (pays, all) if pays == all => Verdict::Holds,
        (pays, all) => Verdict::HoldsWhen(format!("in {pays} of {all} cases")),
    };
    let statement = format!("Values estimated from K = {COMPLETIONS} fresh completions are worth their cost");
    showing(Finding::new("values", statement, verdict), r, &paid, &["gain", "gain_low", "gain_high"])
        .note("Gain over GRPO in area.")
}

/// The gain that a method with exact values, at no charge, must show if these tasks can tell credit apart at all.
pub(super) fn assay(r: &Ranking) -> Finding {
    let free = |c: &Competitor| c.entry.method == "vine_ppo" && c.knowledge == Knowledge::Oracle;
    let statement = "These tasks can show that credit helps: VinePPO with exact values at no cost learns faster \
        than GRPO, with the tasks as the sample";
    let Some(c) = r.results.competitors.iter().position(free) else {
        let verdict = Verdict::Inconclusive("no method with exact values takes part".into());
        return Finding::new("assay", statement, verdict);
    };
    let standing = r.standing(c, CostAxis::Responses);
    let shown = standing.over_tasks.as_ref().is_some_and(OverTasks::positive);
    let verdict = match shown {
        true => Verdict::Holds,
        false => Verdict::Inconclusive(
            "exact values are not shown to help here, so a method that is no faster may still assign credit well"
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
