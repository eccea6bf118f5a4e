//! Findings, tables and figures.

use super::{Arm, Effect, KL, LONG, Numbers, SYSTEMATIC, Share, Trial};
use crate::experiment::{Finding, Verdict};
use crate::experiments::common::claim::{claim, quoted};
use crate::experiments::common::record::{Record, table};
use crate::experiments::common::{placed, within_range};
use crate::figure::{Axis, Figure, Panel};
use crate::sentences::SentenceId;
use grpo_lambda_stats::Interval;
use grpo_lambda_stats::table::Table;
use grpo_lambda_trials::Difference;

/// The shares of RLOO's variance that were predicted for systematic groups before the runs.
const PREDICTED: [f64; 2] = [0.65, 0.8];

/// The names of arms in the protocols.
pub(super) const SETS: &str = "systematic_rloo";
const CLAMP: &str = "grpo clamp=-0.1";
const TRACE: &str = "grpo_lambda clamp=none";
const BOTH: &str = "grpo_lambda";
const GRPO: &str = "grpo";
/// The paper's KL term, after the name of an arm without one.
const TERM: &str = " beta=0.04";

pub(super) fn findings(n: &Numbers) -> Vec<Finding> {
    let learnt = faster(n).into_iter().chain(long(n)).chain(divergence(n)).chain(kl_term(n));
    [variance(n)].into_iter().chain(learnt).collect()
}

pub(super) fn variance(n: &Numbers) -> Finding {
    let own = n.shares.iter().find(|share| share.method == SETS);
    let readings: Vec<(&str, Interval)> =
        own.iter().flat_map(|s| [("at the start", s.start), ("after RL", s.after_rl)]).collect();
    claim(
        "variance",
        "On addition two systematic sets of eight have 0.65 to 0.8 of RLOO's variance, as predicted",
    )
    .verdict(within_range(&readings, PREDICTED))
    .value("level of the intervals in %", 99.64)
    .rows("variance", &[])
    .note("Variance of the gradient of one group of 16 over RLOO's, at the start and after RL with RLOO, mean over 48 seeds. The level of Student's t is 95 % for all fourteen.")
}

/// The verdict on a statement that an arm has more than the first one.
fn more(trial: &Trial, arm: &Arm) -> Verdict {
    match arm.effect(&trial.protocol) {
        Some(Effect::Higher) => Verdict::Holds,
        Some(Effect::Lower) => Verdict::Fails("the opposite is shown".into()),
        Some(Effect::Equivalent) => {
            Verdict::Fails(format!("the two are equivalent within {}", trial.protocol.margin))
        }
        Some(Effect::Inconclusive) | None => Verdict::Inconclusive(
            "the interval contains 0 and reaches beyond the margin of equivalence".into(),
        ),
    }
}

/// Shows the arms of a protocol.
fn showing(finding: Finding, trial: &Trial) -> Finding {
    let columns = ["arm", "rate", "mean", "difference", "difference_low", "difference_high", "p"];
    finding
        .rows("", &columns)
        .only("protocol", &[trial.name])
        .value("paired seeds", trial.protocol.evaluation.len())
        .value("level of the intervals in %", 100.0 * trial.protocol.level)
        .value("arms at an end of the grid", trial.arms.iter().filter(|arm| arm.is_at_end).count())
        .note(format!(
            "The measure is {}. Differences from the first arm are paired by seed, with Student's t and sign flips.",
            trial.protocol.measure.words()
        ))
}

fn faster(n: &Numbers) -> Option<Finding> {
    let trial = &n.trials[SYSTEMATIC];
    let statement = "The model learns addition faster with systematic groups than with RLOO";
    Some(showing(claim("faster", statement).verdict(more(trial, trial.arm(SETS)?)), trial))
}

/// The arms over GRPO at the end of a long budget, in order of their statements.
fn long(n: &Numbers) -> Vec<Finding> {
    let trial = &n.trials[LONG];
    let cases = [
        ("long_both", BOTH, "GRPO-λ"),
        ("long_clamp", CLAMP, "GRPO with the clamp alone"),
        ("long_trace", TRACE, "GRPO-λ without the clamp"),
    ];
    let finding = |(key, arm, name): (&'static str, &str, &str)| {
        let statement =
            format!("With a long budget on addition {name} ends above GRPO, each at its own learning rate");
        Some(claim(key, &statement).verdict(more(trial, trial.arm(arm)?)))
    };
    let mut all: Vec<Finding> = cases.into_iter().filter_map(finding).collect();
    // All three read the same arms.
    if let Some(first) = all.first_mut() {
        *first = showing(first.clone(), trial);
    }
    all
}

/// The paper's sentence on the divergence, of its trace and clamp over GRPO: without a KL term, as the protocol compares them, and with the one that
/// the paper trains with.
fn divergence(n: &Numbers) -> Option<Finding> {
    let trial = &n.trials[KL];
    let over_grpo = |term: &str| {
        let values = |method: &str| Some(trial.arm(&format!("{method}{term}"))?.values.as_slice());
        trial.protocol.difference(values(BOTH)?, values(GRPO)?)
    };
    let pairs = [over_grpo("")?, over_grpo(TERM)?];
    let verdict = match pairs.each_ref().map(|pair| trial.protocol.effect(pair)) {
        [Effect::Higher, Effect::Higher] => Verdict::Holds,
        both if both.iter().all(|r| matches!(r, Effect::Lower | Effect::Equivalent)) => {
            Verdict::Fails("it is no larger at either β".into())
        }
        [..] => Verdict::Inconclusive(
            "the results at the two values of β disagree, or an interval contains 0".into(),
        ),
    };
    let times = |d: &Difference| [d.interval.mid, d.interval.low, d.interval.high].map(f64::exp);
    Some(
        showing(quoted(SentenceId::DivergenceOfTheClamp).verdict(verdict), trial)
            .value("times GRPO's at β = 0", times(&pairs[0]))
            .value("times GRPO's at β = 0.04", times(&pairs[1]))
            .value("p at β = 0.04, none of the protocol's comparisons", pairs[1].p),
    )
}

fn kl_term(n: &Numbers) -> Option<Finding> {
    let trial = &n.trials[KL];
    let pairs = trial.arms.iter().filter_map(|arm| Some((arm, trial.arm(&format!("{}{TERM}", arm.name))?)));
    let pairs: Vec<(&Arm, &Arm)> = pairs.collect();
    let above = pairs.iter().filter(|(a, b)| b.mean >= a.mean).map(|(a, _)| a.name.as_str());
    let above: Vec<&str> = above.collect();
    (!pairs.is_empty()).then(|| {
        claim(
            "kl_term",
            "The KL term at β = 0.04 lowers the divergence from the start policy, whether the method has a trace, a clamp, both or neither",
        )
        .holds_or(above.is_empty(), format!("not for {}", above.join(", ")))
        .each(&pairs, |finding, (a, b)| {
            finding.value(format!("{}, divergence multiplied by", a.name), (b.mean - a.mean).exp())
        })
        .note("Divergence with the term over that without it, geometric mean over seeds.")
    })
}

pub(super) fn tables(n: &Numbers) -> Vec<(String, Table)> {
    let arm = |trial: &Trial, arm: &Arm| {
        let over_first = arm.over_first.as_ref();
        Record::default()
            .with("protocol", trial.name)
            .with("arm", &*arm.name)
            .with("rate", arm.rate)
            .with("seeds", arm.values.len())
            .with("mean", arm.mean)
            .interval("difference", over_first.map(|d| d.interval))
            .with("p", over_first.map(|d| d.p))
    };
    let share = |share: &Share| {
        let method = Record::default().with("method", &*share.method);
        method.interval("start", share.start).interval("after_rl", share.after_rl)
    };
    let arms = n.trials.iter().flat_map(|trial| trial.arms.iter().map(move |own| arm(trial, own)));
    vec![(String::new(), table(arms)), ("variance".into(), table(n.shares.iter().map(share)))]
}

pub(super) fn figures(n: &Numbers) -> Vec<(String, Figure)> {
    let figure = Figure::new(title(n))
        .caption("A small transformer. Left: variance of the gradient of a group of 16 over RLOO's, 48 seeds, 95 % for the fourteen measurements together. The others: the difference from the first arm of a protocol, paired over 12 seeds, at the level that holds for its comparisons together.")
        .columns(2)
        .panel_size(460, 300)
        .panel(variance_panel(n));
    let compared = n.trials.iter().filter(|trial| trial.arms.len() > 1);
    vec![(String::new(), compared.fold(figure, |figure, trial| figure.panel(differences(trial))))]
}

fn title(n: &Numbers) -> String {
    let Some(share) = n.shares.iter().find(|share| share.method == SETS) else { return String::new() };
    let trial = &n.trials[SYSTEMATIC];
    let learning = match trial.arm(SETS).and_then(|arm| arm.effect(&trial.protocol)) {
        Some(Effect::Higher) => ", and teach faster",
        Some(Effect::Lower | Effect::Equivalent) => ", and teach no faster",
        Some(Effect::Inconclusive) | None => "",
    };
    format!(
        "On addition systematic groups keep {:.2} of RLOO's variance at the start, {:.2} after RL{learning}",
        share.start.mid, share.after_rl.mid
    )
}

fn variance_panel(n: &Numbers) -> Panel {
    let places = |of: fn(&Share) -> Interval, aside: f64| {
        n.shares.iter().zip(0..).map(move |(share, k)| placed(f64::from(k) + aside, of(share)))
    };
    Panel::new("Variance")
        .x(Axis::new("method").categories(n.shares.iter().map(|share| share.method.replace("_rloo", ""))))
        .y("variance over RLOO's")
        .intervals("at the start", places(|share| share.start, -0.1))
        .intervals("after RL", places(|share| share.after_rl, 0.1))
        .hline(1.0, "RLOO")
}

fn differences(trial: &Trial) -> Panel {
    let arms = || trial.arms.iter().filter_map(|arm| Some((arm, arm.over_first.as_ref()?.interval)));
    Panel::new(format!("Protocol: {}", trial.name))
        .x(Axis::new("arm").categories(arms().map(|(arm, _)| arm.name.clone())))
        .y(format!("difference of the {}", trial.protocol.measure.words()))
        .intervals("difference", arms().zip(0..).map(|((_, i), k)| placed(f64::from(k), i)))
        .hline(0.0, trial.arms.first().map_or("", |arm| arm.name.as_str()))
}

#[cfg(test)]
mod tests {
    use super::super::{Measure, Protocol};
    use super::*;

    /// Arms of six seeds whose logarithms of the divergence are about these.
    fn trial(arms: [(&str, f64); 4]) -> Trial {
        let arm = |(name, mean): (&str, f64)| Arm {
            name: name.into(),
            rate: 1.0,
            is_at_end: false,
            values: (0..6)
                .map(|seed| mean + if name == GRPO { 0.01 * f64::from(seed) } else { 0.0 })
                .collect(),
            mean,
            over_first: None,
        };
        let protocol = Protocol {
            rates: vec![1.0],
            evaluation: (0..6).collect(),
            measure: Measure::LogKl,
            margin: 0.1,
            level: 0.95,
            arms: Vec::new(),
        };
        Trial { name: "made up", protocol, arms: arms.map(arm).into() }
    }

    #[test]
    fn the_divergence_is_read_without_the_term_and_with_it() {
        for (without, with, word) in [
            (1.0, 1.0, "Holds"),
            (-1.0, -1.0, "Fails"),
            (0.0, -1.0, "Fails"),
            (1.0, -1.0, "Inconclusive"),
            (-1.0, 1.0, "Inconclusive"),
        ] {
            let arms =
                [(GRPO, 0.0), (BOTH, without), ("grpo beta=0.04", 0.0), ("grpo_lambda beta=0.04", with)];
            let n = Numbers { trials: vec![trial(arms); KL + 1], shares: Vec::new() };
            assert_eq!(divergence(&n).map(|f| f.verdict.word()), Some(word), "{without} {with}");
        }
    }
}
