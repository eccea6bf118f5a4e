//! GRPO-lambda against GRPO at different learning rates.

use super::{Sign, at, names, numbers, of_paper, over_tasks};
use crate::experiment::{Finding, Verdict};
use crate::experiments::common::findings::{finding, holds_or};
use crate::experiments::learning::measure::Comparison;
use crate::experiments::learning::reading::PAPER;
use crate::experiments::learning::scores::{Overall, Regime};

/// The paper's two readings under a regime.
pub(super) fn paper_under(c: &Comparison, regime: Regime) -> Finding {
    let both = PAPER.map(|name| (name, c.against(regime, name)));
    let sign = of_paper(c, regime);
    let (better, worse) = (names(c, &both[0].1.better), names(c, &both[0].1.worse));
    let gains = both.map(|(name, o)| format!("{name} {}", over_tasks(c, o))).join(", ");
    let verdict = match sign {
        Sign::Better if both.iter().all(|(_, o)| o.worse.is_empty()) => Verdict::Holds,
        Sign::Better => Verdict::HoldsWhen(format!("averaged over MDPs; worse on {worse}")),
        Sign::TheseTasks => Verdict::NotTold(format!(
            "no difference is shown with the tasks as the sample: {gains}; of these tasks it is better on {better}, worse on {worse}"
        )),
        Sign::Tie => Verdict::NotTold(format!("no difference is shown: {gains}")),
        Sign::Worse => Verdict::Fails(format!("worse: {gains}")),
    };
    finding(
        format!("GRPO-λ as in the paper (recent|both, trace, λ = .99, clamp -0.1) beats GRPO {}", at(regime)),
        verdict,
        both.map(|(name, o)| numbers(c, name, o)).join("; "),
    )
}

pub(super) fn headline(c: &Comparison) -> Finding {
    let signs = Regime::ALL.map(|regime| of_paper(c, regime));
    let list = |sign: Sign| {
        let named = Regime::ALL.iter().zip(signs).filter(|(_, s)| *s == sign).map(|(r, _)| at(*r));
        named.collect::<Vec<_>>().join(", ")
    };
    let rest = [
        (Sign::TheseTasks, "no difference is shown over tasks"),
        (Sign::Tie, "no difference is shown"),
        (Sign::Worse, "worse"),
    ]
    .into_iter()
    .filter(|(s, _)| signs.contains(s))
    .map(|(s, word)| format!("{word} {}", list(s)))
    .collect::<Vec<_>>()
    .join("; ");
    let verdict = if Regime::ALL.iter().all(|&r| paper_under(c, r).verdict == Verdict::Holds) {
        Verdict::Holds
    } else if signs.contains(&Sign::Better) {
        let but = if rest.is_empty() { "on average over MDPs, not on each".to_owned() } else { rest };
        Verdict::HoldsWhen(format!("faster {}; {but}", list(Sign::Better)))
    } else if signs.contains(&Sign::Worse) {
        Verdict::Fails(rest)
    } else {
        Verdict::NotTold(rest)
    };
    let gains = Regime::ALL.map(|regime| {
        let percent = |name| c.against(regime, name).percent.mid;
        format!("{}: {:+.1} % recent, {:+.1} % both", at(regime), percent(PAPER[0]), percent(PAPER[1]))
    });
    finding(
        "On small exact tasks GRPO-λ learns faster than GRPO, whichever the learning rate",
        verdict,
        format!(
            "area under J/J* over {} MDPs, {} runs each, plain SGD: {}",
            c.tasks.len(),
            c.runs,
            gains.join("; ")
        ),
    )
}

/// The 16 readings of the paper against GRPO under a regime.
fn sixteen(c: &Comparison, regime: Regime) -> Vec<&Overall> {
    (0..c.readings.len()).filter(|&r| c.readings[r].of_paper).filter_map(|r| c.overall(regime, r)).collect()
}

pub(super) fn gap(c: &Comparison) -> Finding {
    let mut inside = Vec::new();
    let mut numbers = Vec::new();
    for regime in Regime::ALL {
        let gains = sixteen(c, regime);
        let mean = gains.iter().map(|o| o.percent.mid).sum::<f64>() / gains.len() as f64;
        numbers.push(format!("{} {mean:+.1} %", at(regime)));
        if mean >= 20.0 {
            inside.push(at(regime));
        }
    }
    let verdict = match inside.len() {
        0 => Verdict::Fails(format!("average gap of the 16 readings: {}", numbers.join(", "))),
        4 => Verdict::Holds,
        _ => Verdict::HoldsWhen(inside.join(", ")),
    };
    finding(
        "On small exact tasks the average gap between the 16 readings of GRPO-λ and GRPO is 20 % or more, as section 4.2 reports of its training plots",
        verdict,
        format!("paper 20-50 %; ours, mean over the 16 readings: {}", numbers.join(", ")),
    )
}

pub(super) fn regardless(c: &Comparison) -> Finding {
    let mut all_better = true;
    let mut numbers = Vec::new();
    for regime in Regime::ALL {
        let gains = sixteen(c, regime);
        let better = gains.iter().filter(|o| o.over_tasks.positive()).count();
        let worse = gains.iter().filter(|o| o.over_tasks.negative()).count();
        all_better &= better == gains.len();
        numbers.push(format!(
            "{}: {better} better, {worse} worse, {} without a sign over tasks",
            at(regime),
            gains.len() - better - worse
        ));
    }
    let numbers = format!("of 16 readings (style, update, λ .99|.9, clamp on|off), {}", numbers.join("; "));
    finding(
        "On small exact tasks every reading of GRPO-λ beats GRPO, whichever the learning rate",
        holds_or(all_better, numbers.clone()),
        numbers,
    )
}
