use grpo_lambda_stats::Interval;
use grpo_lambda_stats::table::significant;

use super::efficiency::Efficiency;
use super::measure::{FIXED_HORIZON, GIVEN_THE_PREFIX, Numbers, PLAIN};
use super::trained::{Advantage, Overall};
use crate::experiment::Finding;
use crate::experiments::common::findings::{finding, holds_or, holds_when};
use crate::experiments::common::text::{list, short};

pub(super) fn findings(n: &Numbers) -> Vec<Finding> {
    vec![headline(n), efficiency(n), length(n), learning(n)]
}

fn interval(i: Interval) -> String {
    format!("{} [{}, {}]", short(i.mid), short(i.low), short(i.high))
}

/// A log ratio as a factor with its interval.
fn factor(i: Interval) -> String {
    format!("{} [{}, {}]", short(i.mid.exp()), short(i.low.exp()), short(i.high.exp()))
}

/// The spans with a better efficiency than uniform weights on families that were held out.
fn efficient(n: &Numbers) -> Vec<&Efficiency> {
    n.efficiencies.iter().filter(|e| e.held_out.positive()).collect()
}

/// The spans that learn faster than RLOO and GRPO.
fn faster(n: &Numbers) -> Vec<&'static str> {
    n.spans().filter(|o| o.faster()).map(|o| o.name).collect()
}

fn headline(n: &Numbers) -> Finding {
    let (efficient, faster) = (efficient(n), faster(n));
    let both: Vec<&str> =
        faster.iter().copied().filter(|name| efficient.iter().any(|e| e.span.name == *name)).collect();
    let best = efficient.iter().max_by(|a, b| a.held_out.interval.mid.total_cmp(&b.held_out.interval.mid));
    let best = best.map_or("none".to_owned(), |e| format!("{} {}", e.span.name, factor(e.held_out.interval)));
    finding(
        "Some weights of position, length and entropy, chosen on other families, beat RLOO and GRPO both in efficiency and in learning",
        holds_or(
            !both.is_empty(),
            format!(
                "efficiency on held-out families is better with {} of {} ({best}), but no such weights learn faster than both RLOO and GRPO at tuned rates",
                efficient.len(),
                n.efficiencies.len() - 1
            ),
        ),
        format!("in both: {}; in learning: {}", list(&both), list(&faster)),
    )
}

fn efficiency(n: &Numbers) -> Finding {
    let better = efficient(n);
    let worse: Vec<String> = n
        .efficiencies
        .iter()
        .filter(|e| e.held_out.negative())
        .map(|e| format!("{} {}", e.span.name, factor(e.held_out.interval)))
        .collect();
    let fitted = || n.efficiencies.iter().filter(|e| e.span.fitted);
    let say = |e: &Efficiency| {
        format!("{} {} ({} in sample)", e.span.name, factor(e.held_out.interval), short(e.in_sample.exp()))
    };
    finding(
        "Weights chosen on other families lower the mean squared error at the best step size on a family that was held out",
        holds_when(
            fitted().all(|e| e.held_out.positive()),
            !better.is_empty(),
            format!("they are {}", better.iter().map(|e| e.span.name).collect::<Vec<_>>().join(", ")),
            "no span has an interval above 1",
        ),
        format!(
            "η/η(RLOO), geometric mean over {} families [Student's t over families, 95 %]: {}; worse: {}; ceiling, the best weight per prefix known to the oracle: {}",
            n.families.len(),
            fitted().map(say).collect::<Vec<_>>().join("; "),
            list(&worse),
            factor(n.ceiling)
        ),
    )
}

fn length(n: &Numbers) -> Finding {
    let (Some(plain), Some(fixed), Some(given)) =
        (n.efficiency(PLAIN), n.efficiency(FIXED_HORIZON), n.efficiency(GIVEN_THE_PREFIX))
    else {
        return finding("a GRPO-λ without length bias", holds_or(false, "spans are missing"), "");
    };
    let Some(over_plain) = &n.without_length else {
        return finding("a GRPO-λ without length bias", holds_or(false, "there is one family only"), "");
    };
    let over_plain = [&over_plain.fixed_horizon, &over_plain.given_the_prefix];
    let over_rloo = [&fixed.held_out, &given.held_out];
    finding(
        "A GRPO-λ without length bias (the trace of a fixed horizon, or its mean given the prefix) is more efficient than GRPO-λ and than RLOO",
        holds_or(
            over_plain.iter().chain(&over_rloo).all(|o| o.positive()),
            format!(
                "η over GRPO-λ's {} with a fixed horizon and {} with the mean given the prefix, over RLOO's {} and {}",
                factor(over_plain[0].interval),
                factor(over_plain[1].interval),
                factor(over_rloo[0].interval),
                factor(over_rloo[1].interval)
            ),
        ),
        format!(
            "both weigh by the prefix alone: the implied credit is Q times a factor per prefix, and no preference can turn round. Geometric means over families, in pairs [Student's t, 95 %]; GRPO-λ over RLOO {}",
            factor(plain.held_out.interval)
        ),
    )
}

fn learning(n: &Numbers) -> Finding {
    let faster = faster(n);
    let at_an_end: Vec<String> = n
        .trained
        .iter()
        .flat_map(|t| t.tasks.iter().filter(|on| !on.learned.inside).map(|on| (t.name, &on.task)))
        .map(|(name, task)| format!("{name} on {task}"))
        .collect();
    let say = |o: &Overall| {
        let over = |a: &Advantage| {
            format!("{} (p {})", interval(a.over_tasks.interval), significant(a.over_tasks.p, 2))
        };
        format!(
            "{}: area {}, against RLOO {}, P(better) {}; against GRPO {}, P(better) {}",
            o.name,
            interval(o.area),
            over(&o.over_rloo),
            interval(o.over_rloo.improves),
            over(&o.over_grpo),
            interval(o.over_grpo.improves)
        )
    };
    finding(
        "Weights with the best efficiency on held-out families also learn faster than RLOO and GRPO, each at its best rate",
        holds_when(
            faster.len() == n.spans().count(),
            !faster.is_empty(),
            format!("they are {}", faster.join(", ")),
            "no difference to both is shown with the tasks as the sample",
        ),
        format!(
            "area under J/J*, {} runs on {} tasks, weights chosen without the task's family; differences with Student's t over tasks at 95 % and the p of sign flips. {}. Best rates at an end of the grid: {}",
            n.trained.first().and_then(|t| t.tasks.first()).map_or(0, |on| on.learned.areas.len()),
            n.trained.first().map_or(0, |t| t.tasks.len()),
            n.overall.iter().map(say).collect::<Vec<_>>().join(". "),
            list(&at_an_end)
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::super::measure::WithoutLength;
    use super::super::spans::SPANS;
    use super::*;
    use crate::experiments::common::findings::words;
    use grpo_lambda_stats::OverTasks;

    fn at(mid: f64) -> Interval {
        Interval { low: mid - 0.05, mid, high: mid + 0.05, level: 0.95 }
    }

    fn over(mid: f64) -> OverTasks {
        OverTasks::new(&[mid; 9]).unwrap()
    }

    /// Every span has one efficiency, and learns by so much faster than RLOO and GRPO.
    fn numbers(efficiency: f64, gain: f64) -> Numbers {
        let efficiency_of = |span| Efficiency {
            span,
            held_out: over(efficiency),
            in_sample: efficiency,
            families: vec![efficiency],
            astray: 0,
            alpha: vec![1.0],
        };
        let advantage = || Advantage { gain: at(gain), over_tasks: over(gain), improves: at(0.5) };
        let overall = |span: &super::super::spans::Span| Overall {
            name: span.name,
            area: at(0.9),
            over_rloo: advantage(),
            over_grpo: advantage(),
        };
        Numbers {
            families: vec!["fork".into()],
            efficiencies: SPANS.iter().map(efficiency_of).collect(),
            ceiling: at(1.0),
            without_length: Some(WithoutLength {
                fixed_horizon: over(efficiency),
                given_the_prefix: over(efficiency),
            }),
            trained: Vec::new(),
            overall: SPANS[1..].iter().map(overall).collect(),
        }
    }

    #[test]
    fn each_verdict_follows_its_own_numbers() {
        let verdicts = |n: &Numbers| words(&findings(n));
        let [h, w, f] = ["Holds", "Holds when", "Fails"];
        assert_eq!(verdicts(&numbers(0.3, 0.2)), [h; 4]);
        assert_eq!(verdicts(&numbers(0.0, 0.0)), [f; 4], "no interval excludes no difference");
        assert_eq!(verdicts(&numbers(0.3, 0.0)), [f, h, h, f]);
        assert_eq!(verdicts(&numbers(0.0, 0.2)), [f, f, f, h]);
        let mut some = numbers(0.3, 0.2);
        some.efficiencies
            .iter_mut()
            .filter(|e| e.span.name == "entropy")
            .for_each(|e| e.held_out = over(-0.3));
        some.overall[3].over_grpo.over_tasks = over(-0.1);
        assert_eq!(verdicts(&some), [h, w, h, w]);
        some.without_length = None;
        assert_eq!(verdicts(&some)[2], f, "what could not be compared does not hold");
    }
}
