//! Findings.

use super::{Arm, KL, LONG, Numbers, Reading, SYSTEMATIC, Trial};
use crate::experiment::{Finding, Verdict};
use crate::experiments::common::{finding, finding_on, holds_or, interval, ratio, within_range};
use crate::sentences::SentenceId;
use grpo_lambda_stats::Interval;

/// The shares of RLOO's variance that were predicted for systematic groups before the runs.
const PREDICTED: [f64; 2] = [0.65, 0.8];

/// The names of arms in the protocols.
pub(super) const SETS: &str = "systematic_rloo";
const CLAMP: &str = "grpo clamp=-0.1";
const TRACE: &str = "grpo_lambda clamp=none";
const BOTH: &str = "grpo_lambda";
const GRPO: &str = "grpo";
/// The paper's KL term, behind the name of an arm without one.
const TERM: &str = " beta=0.04";

pub(super) fn findings(n: &Numbers) -> Vec<Finding> {
    let later = [faster(n), long(n, BOTH), long(n, CLAMP), long(n, TRACE), divergence(n), kl_term(n)];
    [variance(n)].into_iter().chain(later.into_iter().flatten()).collect()
}

pub(super) fn variance(n: &Numbers) -> Finding {
    let own = n.shares.iter().find(|share| share.method == SETS);
    let readings: Vec<(&str, Interval)> =
        own.iter().flat_map(|s| [("at the start", s.at_start), ("after RL", s.after_rl)]).collect();
    let all = n.shares.iter().map(|s| format!("{}: {}, {}", s.method, ratio(s.at_start), ratio(s.after_rl)));
    finding(
        "Two systematic sets of eight have 0.65 to 0.8 of RLOO's variance on addition, as predicted",
        within_range(&readings, PREDICTED),
        format!(
            "variance of the gradient of one group of 16 over RLOO's, at the start and after RL with RLOO, mean over 48 seeds with Student's t at 99.64 %, which is 95 % for all fourteen. {}",
            all.collect::<Vec<_>>().join("; ")
        ),
    )
}

/// The verdict on a statement that an arm has more than the first one.
fn more(trial: &Trial, arm: &Arm) -> Verdict {
    match arm.reading(&trial.protocol) {
        Some(Reading::More) => Verdict::Holds,
        Some(Reading::Less) => Verdict::Fails("it has less".into()),
        Some(Reading::Equal) => Verdict::Fails(format!("they are equal, within {}", trial.protocol.margin)),
        _ => Verdict::NotTold("the interval holds 0 and reaches beyond the margin of equality".into()),
    }
}

fn numbers(trial: &Trial) -> String {
    let each = trial.arms.iter().map(|arm| {
        let end = if arm.is_at_end { ", an end of the grid" } else { "" };
        let compared =
            arm.over_first.map_or(String::new(), |(i, p)| format!(", {}, p = {p:.4}", interval(i)));
        format!("{} (rate {}{end}): {:.3}{compared}", arm.name, arm.rate, arm.mean)
    });
    format!(
        "{}; less that of {}, paired over {} seeds, Student's t at {:.2} % and sign flips. {}",
        trial.protocol.measure.words(),
        trial.arms.first().map_or("", |arm| arm.name.as_str()),
        trial.protocol.evaluation.len(),
        100.0 * trial.protocol.level,
        each.collect::<Vec<_>>().join("; ")
    )
}

fn faster(n: &Numbers) -> Option<Finding> {
    let trial = &n.trials[SYSTEMATIC];
    let arm = trial.arm(SETS)?;
    Some(finding("Systematic groups teach addition faster than RLOO's", more(trial, arm), numbers(trial)))
}

fn long(n: &Numbers, arm: &str) -> Option<Finding> {
    let trial = &n.trials[LONG];
    let statement = match arm {
        BOTH => "With a long budget GRPO-λ ends above GRPO on addition, each at its own rate",
        CLAMP => {
            "With a long budget GRPO with the clamp alone ends above GRPO on addition, each at its own rate"
        }
        _ => "With a long budget GRPO-λ without the clamp ends above GRPO on addition, each at its own rate",
    };
    Some(finding(statement, more(trial, trial.arm(arm)?), numbers(trial)))
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
    let [without, with] = pairs
        .map(|(i, _)| format!("{:.2} times GRPO's ({:.2} to {:.2})", i.mid.exp(), i.low.exp(), i.high.exp()));
    let said = format!("{without} at β = 0, {with} at β = 0.04");
    let readings = pairs.map(|pair| trial.protocol.reading(pair));
    let verdict = if readings.iter().all(|r| *r == Reading::More) {
        Verdict::Holds
    } else if readings.iter().all(|r| matches!(r, Reading::Less | Reading::Equal)) {
        Verdict::Fails(said)
    } else {
        Verdict::NotTold(said)
    };
    let (i, p) = pairs[1];
    Some(finding_on(
        SentenceId::DivergenceOfTheClamp,
        verdict,
        format!(
            "{}. {BOTH}{TERM} less {GRPO}{TERM}, both as the paper trains and none of the protocol's comparisons: {}, p = {p:.4}",
            numbers(trial),
            interval(i)
        ),
    ))
}

fn kl_term(n: &Numbers) -> Option<Finding> {
    let trial = &n.trials[KL];
    let pairs: Vec<(&Arm, &Arm)> =
        trial.arms.iter().filter_map(|arm| Some((arm, trial.arm(&format!("{}{TERM}", arm.name))?))).collect();
    let above: Vec<&str> =
        pairs.iter().filter(|(a, b)| b.mean >= a.mean).map(|(a, _)| a.name.as_str()).collect();
    let list = pairs.iter().map(|(a, b)| format!("{}: {:.2}", a.name, (b.mean - a.mean).exp()));
    (!pairs.is_empty()).then(|| {
        finding(
            "The KL term at β = 0.04 lowers the divergence with every trace and clamp",
            holds_or(above.is_empty(), format!("not for {}", above.join(", "))),
            format!(
                "divergence with the term over that without it, geometric mean over seeds. {}",
                list.collect::<Vec<_>>().join("; ")
            ),
        )
    })
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
            (1.0, -1.0, "Not told"),
            (-1.0, 1.0, "Not told"),
        ] {
            let arms =
                [(GRPO, 0.0), (BOTH, without), ("grpo beta=0.04", 0.0), ("grpo_lambda beta=0.04", with)];
            let n = Numbers { trials: vec![trial(arms); KL + 1], shares: Vec::new() };
            assert_eq!(divergence(&n).map(|f| f.verdict.word()), Some(word), "{without} {with}");
        }
    }
}
