//! Findings.

use super::{
    ByLambda, EXACT_VALUES, GOAL, GROUPS, LAMBDAS, METHODS, Numbers, OPTIMAL, OTHER_RIDGES, PREFIX, RIDGE,
    Row, STATE, TEMPO,
};
use crate::experiment::Finding;
use crate::experiments::common::{finding, holds_or, holds_when, mean, percent, quantile};

pub(super) fn findings(n: &Numbers) -> Vec<Finding> {
    vec![goal(n), less_than_rloo(n), ridge(n), error(n), lambda(n), lambda_exact(n)]
}

/// All rows of the smallest group size.
fn smallest(n: &Numbers) -> Vec<&Row> {
    n.rows.iter().filter(|r| r.group == GROUPS[0]).collect()
}

/// The rows of a group size for the tasks that were measured at all of them: only those compare group sizes.
fn at(n: &Numbers, group: usize) -> Vec<&Row> {
    n.rows.iter().filter(|r| r.group == group && r.common).collect()
}

/// The share of rows on which a method's variance is at most the goal.
fn reached(rows: &[&Row], method: usize) -> f64 {
    rows.iter().filter(|r| r.ratio[method].0 <= GOAL).count() as f64 / rows.len() as f64
}

/// Mean, and the range of the middle 90 %, of a method's share of RLOO's variance.
fn spread(rows: &[&Row], method: usize) -> String {
    let values: Vec<f64> = rows.iter().map(|r| r.ratio[method].0).collect();
    format!(
        "{:.3} (middle 90 % {:.3} to {:.3})",
        mean(&values),
        quantile(&values, 0.05),
        quantile(&values, 0.95)
    )
}

fn each_group(n: &Numbers, of: impl Fn(&[&Row]) -> String) -> String {
    GROUPS.map(|g| format!("G = {g}: {}", of(&at(n, g)))).join("; ")
}

fn goal(n: &Numbers) -> Finding {
    let small = smallest(n);
    let ok = |g: usize| reached(&if g == GROUPS[0] { smallest(n) } else { at(n, g) }, PREFIX) >= 0.8;
    finding(
        "Prefix RLOO has at most 0.85 of RLOO's variance on 80 % of tasks",
        holds_when(
            GROUPS.iter().all(|&g| ok(g)),
            GROUPS.iter().any(|&g| ok(g)),
            format!(
                "groups are as large as {}",
                GROUPS.iter().filter(|&&g| ok(g)).map(usize::to_string).collect::<Vec<_>>().join(", ")
            ),
            format!(
                "it does on {} of the tasks at G = {}; exact values of every prefix as a baseline reach it on {}, and the best baseline there is, b*, on {}",
                percent(reached(&small, PREFIX)),
                GROUPS[0],
                percent(reached(&small, EXACT_VALUES)),
                percent(reached(&small, OPTIMAL))
            ),
        ),
        format!(
            "{} tasks (the zoo and random trees), {} simulated groups of 8 each, the same groups for every method. Share at or below 0.85 of the {} tasks that were measured at every G: {}",
            small.len(),
            n.simulated,
            at(n, GROUPS[0]).len(),
            each_group(n, |rows| format!(
                "Prefix RLOO {}, exact values {}, b* {}",
                percent(reached(rows, PREFIX)),
                percent(reached(rows, EXACT_VALUES)),
                percent(reached(rows, OPTIMAL))
            ))
        ),
    )
}

fn less_than_rloo(n: &Numbers) -> Finding {
    let (_, above) = beyond(&smallest(n), PREFIX);
    let lower = |g: usize| mean(&at(n, g).iter().map(|r| r.ratio[PREFIX].0).collect::<Vec<_>>()) < 1.0;
    finding(
        "Prefix RLOO has no more variance than RLOO",
        holds_when(
            above == 0 && GROUPS.iter().all(|&g| lower(g)),
            GROUPS.iter().all(|&g| lower(g)),
            format!(
                "tasks are averaged over; at G = {} it has more on {above} of {} beyond two standard errors",
                GROUPS[0],
                smallest(n).len()
            ),
            "its mean share of RLOO's variance is above 1",
        ),
        format!(
            "share of RLOO's variance, {}",
            each_group(n, |rows| {
                let (below, above) = beyond(rows, PREFIX);
                format!(
                    "Prefix RLOO {}, below on {below} and above on {above} of {}; prefix only {}; exact values {}; b* {}",
                    spread(rows, PREFIX),
                    rows.len(),
                    spread(rows, STATE),
                    spread(rows, EXACT_VALUES),
                    spread(rows, OPTIMAL)
                )
            })
        ),
    )
}

/// Below and above 1 by two standard errors.
fn beyond(rows: &[&Row], method: usize) -> (usize, usize) {
    let count = |of: fn(&(f64, f64)) -> bool| rows.iter().filter(|r| of(&r.ratio[method])).count();
    (count(|(ratio, error)| ratio + 2.0 * error < 1.0), count(|(ratio, error)| ratio - 2.0 * error > 1.0))
}

fn ridge(n: &Numbers) -> Finding {
    let ok: Vec<usize> = GROUPS.into_iter().filter(|&g| reached(&at(n, g), RIDGE) >= 0.8).collect();
    let small = smallest(n);
    finding(
        "A ridge regression on features of the prefix reaches 0.85 of RLOO's variance on 80 % of tasks",
        holds_when(
            ok.len() == GROUPS.len(),
            !ok.is_empty(),
            format!(
                "groups are as large as {}",
                ok.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
            ),
            format!("it does on {} of the tasks at G = {}", percent(reached(&small, RIDGE)), GROUPS[0]),
        ),
        format!(
            "share of RLOO's variance, {}; features: which token stands at which position; a prefix's value is fitted without the response itself",
            each_group(n, |rows| {
                let (below, above) = beyond(rows, RIDGE);
                let others = OTHER_RIDGES.map(|m| format!("{} {}", METHODS[m].0, spread(rows, m))).join(", ");
                format!(
                    "Ridge RLOO {}, at or below 0.85 on {}, below 1 by two standard errors on {below} and above on {above} of {}; {others}",
                    spread(rows, RIDGE),
                    percent(reached(rows, RIDGE)),
                    rows.len()
                )
            })
        ),
    )
}

fn error(n: &Numbers) -> Finding {
    let mean_error =
        |rows: &[&Row], method: usize| mean(&rows.iter().map(|r| r.error[method]).collect::<Vec<_>>());
    let lowest = |rows: &[&Row]| {
        (0..METHODS.len())
            .filter(|&m| ![EXACT_VALUES, OPTIMAL].contains(&m) && !OTHER_RIDGES.contains(&m))
            .min_by(|&a, &b| mean_error(rows, a).total_cmp(&mean_error(rows, b)))
    };
    let won: Vec<Option<usize>> = GROUPS.iter().map(|&g| lowest(&at(n, g))).collect();
    finding(
        "Of the methods without a critic Prefix RLOO has the lowest error of one update at its best step size",
        holds_when(
            won.iter().all(|w| *w == Some(PREFIX)),
            won.contains(&Some(PREFIX)),
            format!(
                "groups are as large as {}; below, the biased {} is lower",
                GROUPS
                    .iter()
                    .zip(&won)
                    .filter(|(_, w)| **w == Some(PREFIX))
                    .map(|(g, _)| g.to_string())
                    .collect::<Vec<_>>()
                    .join(", "),
                METHODS[TEMPO].0
            ),
            format!("the biased {} has it", METHODS[TEMPO].0),
        ),
        format!(
            "mean over tasks of min_c E|c g - ∇J|² / |∇J|², {}; Dr. GRPO is RLOO times a constant and has RLOO's error",
            each_group(n, |rows| {
                (0..METHODS.len())
                    .filter(|m| !OTHER_RIDGES.contains(m))
                    .map(|m| format!("{} {:.3}", METHODS[m].0, mean_error(rows, m)))
                    .collect::<Vec<_>>()
                    .join(", ")
            })
        ),
    )
}

/// The mean error at each λ.
fn by_lambda(n: &Numbers, of: fn(&ByLambda) -> &Vec<f64>) -> String {
    let at = |k: usize| mean(&n.by_lambda.iter().map(|b| of(b)[k]).collect::<Vec<_>>());
    LAMBDAS.iter().enumerate().map(|(k, l)| format!("{l}: {:.3}", at(k))).collect::<Vec<_>>().join(", ")
}

/// The λ with the least mean error over tasks; the share of tasks whose own best is inside (0, 1), and the mean gain of choosing it by task.
fn choice(n: &Numbers, of: fn(&ByLambda) -> &Vec<f64>) -> (f64, f64, f64) {
    let at = |k: usize| mean(&n.by_lambda.iter().map(|b| of(b)[k]).collect::<Vec<_>>());
    let best = (0..LAMBDAS.len()).min_by(|&a, &b| at(a).total_cmp(&at(b))).unwrap_or(0);
    let own: Vec<(f64, f64)> = n.by_lambda.iter().map(|b| ByLambda::best(of(b))).collect();
    let inside = own.iter().filter(|(l, _)| *l > 0.0 && *l < 1.0).count() as f64 / own.len() as f64;
    (LAMBDAS[best], inside, mean(&own.iter().map(|o| o.1).collect::<Vec<_>>()))
}

fn lambda(n: &Numbers) -> Finding {
    let (best, inside, gain) = choice(n, |b| &b.estimated);
    finding(
        "With values of prefixes estimated from the group, some λ below 1 has a lower error than λ = 1, averaged over tasks",
        holds_or(best < 1.0, "λ = 1 has the lowest mean error: the values are too coarse to bootstrap from"),
        format!(
            "{} tasks, G = {}: mean error by λ {}; lowest at {best}; a task's own best λ lies inside (0, 1) on {} and saves {} of the error of λ = 1 on average (chosen on the same groups)",
            n.by_lambda.len(),
            GROUPS[0],
            by_lambda(n, |b| &b.estimated),
            percent(inside),
            percent(gain)
        ),
    )
}

fn lambda_exact(n: &Numbers) -> Finding {
    let (best, inside, gain) = choice(n, |b| &b.exact);
    finding(
        "With exact values the lowest error is that of λ = 0",
        holds_or(best == 0.0, format!("it is that of λ = {best}")),
        format!(
            "mean error by λ {}; a task's own best λ lies inside (0, 1) on {} and saves {} on average",
            by_lambda(n, |b| &b.exact),
            percent(inside),
            percent(gain)
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::common::words;

    fn numbers(ratio: f64, error: f64, estimated: Vec<f64>) -> Numbers {
        let row = |group| Row {
            task: "a".into(),
            of_zoo: true,
            common: true,
            group,
            ratio: vec![
                (1.0, 0.0),
                (ratio, 0.01),
                (ratio, 0.01),
                (0.8, 0.01),
                (0.9, 0.01),
                (ratio, 0.01),
                (1.0, 0.01),
                (1.0, 0.01),
                (0.6, 0.01),
            ],
            error: vec![0.7, error, 0.68, 0.4, 0.6, 0.65, 0.66, 0.67, 0.3],
        };
        let exact = estimated.iter().rev().copied().collect();
        Numbers {
            rows: GROUPS.map(row).to_vec(),
            by_lambda: vec![ByLambda { task: "a".into(), of_zoo: true, estimated, exact }],
            simulated: 2,
        }
    }

    #[test]
    fn each_verdict_follows_its_own_numbers() {
        let falling: Vec<f64> = (0..LAMBDAS.len()).map(|k| 0.9 - 0.05 * k as f64).collect();
        let rising: Vec<f64> = falling.iter().rev().copied().collect();
        let verdicts = |n: Numbers| words(&findings(&n));
        assert_eq!(
            verdicts(numbers(0.8, 0.5, rising)),
            ["Holds", "Holds", "Holds", "Holds", "Holds", "Fails"]
        );
        assert_eq!(
            verdicts(numbers(1.1, 0.9, falling)),
            ["Fails", "Fails", "Fails", "Fails", "Fails", "Holds"]
        );
    }
}
