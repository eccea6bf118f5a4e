//! Gains and losses of GRPO-lambda by cause: the length of the step, the clamp, the trace.

use crate::atlas::learning::measure::Ranking;
use crate::atlas::learning::why::{
    CLAMP, CLAMP_GAIN, Case, Correlation, LOG2_STEP, MEASURED, QUANTITIES, READINGS, Regime,
};
use crate::atlas::learning::words::{correlations, said};
use crate::experiment::{Finding, Verdict};
use crate::experiments::common::{Shown, finding, gains_everywhere, holds_or, list, over_tasks};
use grpo_lambda_stats::OverTasks;

fn cases(r: &Ranking, reading: usize) -> Vec<&Case> {
    r.why.cases.iter().filter(|case| case.reading == reading).collect()
}

fn names(cases: &[&&Case]) -> String {
    let task_gain = |case: &&&Case| format!("{} ({:+.3})", case.task, case.gains[Regime::Tuned as usize].mid);
    if cases.is_empty() { "none".into() } else { cases.iter().map(task_gain).collect::<Vec<_>>().join(", ") }
}

/// Wins, ties and losses per task.
pub(super) fn per_task(r: &Ranking) -> Finding {
    let mut numbers = Vec::new();
    let mut losses = Vec::new();
    for (i, name) in READINGS.iter().enumerate() {
        let all = cases(r, i);
        let sign = |case: &Case| match case.p_holm <= 0.05 {
            true if case.gains[0].mid > 0.0 => 1,
            true if case.gains[0].mid < 0.0 => -1,
            _ => 0,
        };
        let with_sign = |wanted: i8| all.iter().filter(|case| sign(case) == wanted).collect::<Vec<_>>();
        let (won, lost) = (with_sign(1), with_sign(-1));
        let ties = all.len() - won.len() - lost.len();
        numbers.push(format!(
            "{name}: wins {}; loses {}; ties {ties} of {}",
            names(&won),
            names(&lost),
            all.len()
        ));
        if !lost.is_empty() {
            losses.push(format!(
                "{name} wins {}, loses {}, ties {ties} of {}",
                won.len(),
                lost.len(),
                all.len()
            ));
        }
    }
    finding(
        "GRPO-λ loses to GRPO on no task, each at its own best rate",
        holds_or(losses.is_empty(), losses.join("; ")),
        format!(
            "paired permutation tests, Holm-corrected over the tasks of a reading: {}",
            numbers.join(". ")
        ),
    )
}

/// The mean gain with the tasks as the sample.
fn mean_gain(cases: &[&Case], regime: Regime) -> Option<OverTasks> {
    let mids: Vec<f64> = cases.iter().map(|case| case.gains[regime as usize].mid).collect();
    OverTasks::new(&mids)
}

/// The step length's share in a gain at a small equal rate.
pub(super) fn step_size(r: &Ranking) -> Finding {
    let mut numbers = Vec::new();
    let (mut gain_there, mut gone, mut kept) = (0, Vec::new(), Vec::new());
    for (i, name) in READINGS.iter().enumerate() {
        let all = cases(r, i);
        let ratios: Vec<f64> = all.iter().map(|case| case.quantities[LOG2_STEP]).collect();
        let gain = |regime| mean_gain(&all, regime);
        let said =
            |regime| gain(regime).map_or(String::from("unknown"), |o| over_tasks(&o, |task| &all[task].task));
        if gain(Regime::Cautious).is_some_and(|g| g.positive()) {
            gain_there += 1;
            let above = |regime| gain(regime).is_some_and(|g| g.positive());
            if above(Regime::CautiousUnit) || above(Regime::Tuned) {
                kept.push(*name)
            } else {
                gone.push(*name)
            }
        }
        numbers.push(format!(
            "{name}: |E[g]| is {:.1} times GRPO's (geometric mean; {:.1} to {:.1}); mean gain at a sixteenth of GRPO's best rate {}, there with mean weight 1 {}, at GRPO's best rate {}, there with mean weight 1 {}, each at its best {}, at its best with mean weight 1 {}",
            (ratios.iter().sum::<f64>() / ratios.len() as f64).exp2(),
            ratios.iter().copied().fold(f64::INFINITY, f64::min).exp2(),
            ratios.iter().copied().fold(f64::NEG_INFINITY, f64::max).exp2(),
            said(Regime::Cautious),
            said(Regime::CautiousUnit),
            said(Regime::Equal),
            said(Regime::EqualUnit),
            said(Regime::Tuned),
            said(Regime::TunedUnit)
        ));
    }
    let verdict = match (gain_there, kept.is_empty()) {
        (0, _) => Verdict::Fails("no reading gains at a small equal rate, averaged over tasks".into()),
        (n, true) if n == READINGS.len() => Verdict::Holds,
        (_, true) => Verdict::HoldsWhen(format!(
            "the reading gains there: {} do, the others do not",
            gone.join(" and ")
        )),
        (_, false) => Verdict::Fails(format!("{} keep a gain", kept.join(", "))),
    };
    finding(
        "Under plain SGD, what GRPO-λ gains at a small equal rate it gains by a longer step: nothing is left with weights of mean 1, nor at own best rates",
        verdict,
        format!("mean over tasks, Student's t over tasks at 95 %: {}", numbers.join(". ")),
    )
}

/// The sum of clamp and trace alone against both together.
pub(super) fn clamp(r: &Ranking) -> Finding {
    let mut numbers = Vec::new();
    let mut shown = Vec::new();
    for (with, without) in [(0, 2), (1, 3)] {
        let (both, trace) = (cases(r, with), cases(r, without));
        // Tasks on which a quantity is not defined are missing from both.
        let pairs: Vec<(&&Case, &&Case)> =
            both.iter().filter_map(|b| Some((b, trace.iter().find(|t| t.task == b.task)?))).collect();
        let n = pairs.len() as f64;
        let mean = |of: &dyn Fn(&Case, &Case) -> f64| pairs.iter().map(|(b, t)| of(b, t)).sum::<f64>() / n;
        let gain = |case: &Case| case.gains[Regime::Tuned as usize].mid;
        let rest = |b: &Case, t: &Case| gain(b) - b.quantities[CLAMP_GAIN] - gain(t);
        let rms = |of: &dyn Fn(&Case, &Case) -> f64| mean(&|b, t| of(b, t).powi(2)).sqrt();
        let more = |(b, t): &(&&Case, &&Case)| b.quantities[CLAMP_GAIN].powi(2) - gain(t).powi(2);
        let more = OverTasks::new(&pairs.iter().map(more).collect::<Vec<_>>());
        shown.push(match &more {
            Some(over) if over.positive() => Shown::Gain,
            Some(over) if over.negative() => Shown::Loss,
            _ => Shown::Neither,
        });
        numbers.push(format!(
            "{}: mean gain {:+.3}, {CLAMP} {:+.3}, {} {:+.3}; root mean square {:.3}, {:.3}, {:.3}, and of what does not add up {:.3}; square of the clamp's gain less the trace's {}",
            READINGS[with],
            mean(&|b, _| gain(b)),
            mean(&|b, _| b.quantities[CLAMP_GAIN]),
            READINGS[without],
            mean(&|_, t| gain(t)),
            rms(&|b, _| gain(b)),
            rms(&|b, _| b.quantities[CLAMP_GAIN]),
            rms(&|_, t| gain(t)),
            rms(&rest),
            more.map_or(String::from("unknown"), |over| over_tasks(&over, |task| &pairs[task].0.task))
        ));
    }
    let numbers =
        format!("each at its own best rate, over {} tasks: {}", cases(r, 0).len(), numbers.join(". "));
    finding(
        "Of what GRPO-λ gains or loses per task, the clamp alone moves more than the trace alone",
        gains_everywhere(&shown, "it has one of the two traces", "shown with neither trace, over tasks"),
        numbers,
    )
}

/// The quantities known before training.
pub(super) fn explained(r: &Ranking) -> Finding {
    let before = |c: &&Correlation| !MEASURED.contains(&QUANTITIES[c.quantity].name);
    let all: Vec<&Correlation> = correlations(r, Regime::Tuned).filter(before).collect();
    let yes: Vec<String> = all.iter().filter(|c| c.explains()).map(|c| said(c)).collect();
    let no: Vec<String> = all.iter().filter(|c| !c.explains()).map(|c| said(c)).collect();
    let verdict = if yes.is_empty() {
        Verdict::NotTold("no exact quantity is shown to go with the gain".into())
    } else {
        Verdict::HoldsWhen(format!("by {}", yes.join("; ")))
    };
    finding(
        format!(
            "Exact quantities of the update, known before training, say on which tasks {} gains, each at its own best rate",
            READINGS[0]
        ),
        verdict,
        format!(
            "Spearman's correlation over {} tasks with its 95 % interval, permutation p corrected over quantities. Explain: {}. Do not: {}",
            all.first().map_or(0, |c| c.tasks),
            list(&yes),
            list(&no)
        ),
    )
}

/// Quantities at equal rates, and the clamp's own gain.
pub(super) fn by_hindsight(r: &Ranking) -> Finding {
    let correlation =
        |regime: Regime, name: &str| correlations(r, regime).find(|c| QUANTITIES[c.quantity].name == name);
    let step = correlation(Regime::Cautious, "log2_step");
    let others = [
        ("each at its best", correlation(Regime::Tuned, "clamp_gain")),
        ("each at its best", correlation(Regime::Tuned, "final_gain")),
        ("at a sixteenth of GRPO's best rate", correlation(Regime::Cautious, "cosine")),
        ("at GRPO's best rate", correlation(Regime::Equal, "log2_step")),
        ("at GRPO's best rate", correlation(Regime::Equal, "cosine")),
    ];
    let text: Vec<String> =
        others.into_iter().filter_map(|(at, c)| Some(format!("{at}: {}", said(c?)))).collect();
    let numbers = format!(
        "at a sixteenth of GRPO's best rate: {}; {}",
        step.map_or(String::from("unknown"), said),
        text.join("; ")
    );
    finding(
        format!(
            "At a small equal rate the gain of {} goes with the length of its step over tasks",
            READINGS[0]
        ),
        match step {
            Some(c) if c.explains() && c.rho.mid > 0.0 => Verdict::Holds,
            Some(c) if c.explains() => Verdict::Fails(said(c)),
            Some(c) => Verdict::NotTold(said(c)),
            None => Verdict::NotTold("unknown".into()),
        },
        numbers,
    )
}
