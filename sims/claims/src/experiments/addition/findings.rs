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

pub(super) fn findings(n: &Numbers) -> Vec<Finding> {
    let later = [faster(n), long(n, BOTH), long(n, CLAMP), long(n, TRACE), divergence(n), kl_term(n)];
    [variance(n)].into_iter().chain(later.into_iter().flatten()).collect()
}

fn variance(n: &Numbers) -> Finding {
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

/// The paper's sentence on the divergence, with the trace of the paper and a KL term or none.
fn divergence(n: &Numbers) -> Option<Finding> {
    let trial = &n.trials[KL];
    let arms = [BOTH, CLAMP].map(|name| trial.arm(name));
    let [Some(both), Some(clamp)] = arms else { return None };
    let ratio = |arm: &Arm| {
        arm.over_first.map_or(String::new(), |(i, _)| {
            format!("{:.2} times GRPO's ({:.2} to {:.2})", i.mid.exp(), i.low.exp(), i.high.exp())
        })
    };
    let readings = [both, clamp].map(|arm| arm.reading(&trial.protocol));
    let verdict = match readings {
        [Some(Reading::More), Some(Reading::More)] => Verdict::Holds,
        [Some(Reading::Less), Some(Reading::Less)] => {
            Verdict::Fails(format!("it is lower: {} with the trace, {} without", ratio(both), ratio(clamp)))
        }
        _ => Verdict::NotTold(format!("{} with the trace, {} without", ratio(both), ratio(clamp))),
    };
    Some(finding_on(SentenceId::DivergenceOfTheClamp, verdict, numbers(trial)))
}

fn kl_term(n: &Numbers) -> Option<Finding> {
    let trial = &n.trials[KL];
    let pairs: Vec<(&Arm, &Arm)> = trial
        .arms
        .iter()
        .filter_map(|arm| Some((arm, trial.arm(&format!("{} beta=0.04", arm.name))?)))
        .collect();
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
