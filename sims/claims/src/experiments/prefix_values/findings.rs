//! Findings.

use super::{
    ByLambda, ESTIMATED, EXACT, EXACT_VALUES, GOAL, GROUPS, LAMBDAS, METHODS, Numbers, OPTIMAL, OTHER_RIDGES,
    PREFIX, RIDGE, Row, STATE, TEMPO,
};
use crate::experiment::{Finding, Verdict};
use crate::experiments::common::claim::claim;
use crate::experiments::common::{average, holds_when, list, mean, percent, sizes_where};
use grpo_lambda_stats::{Interval, OverTasks, holm};

pub(super) fn findings(n: &Numbers) -> Vec<Finding> {
    vec![goal(n), less_than_rloo(n), ridge(n), error(n), lambda(n), lambda_exact(n)]
}

/// All rows of the smallest group size.
fn smallest(n: &Numbers) -> Vec<&Row> {
    n.rows.iter().filter(|r| r.group == GROUPS[0]).collect()
}

/// The rows of a group size for the tasks that were measured at all of them: only those compare group sizes.
pub(super) fn at(n: &Numbers, group: usize) -> Vec<&Row> {
    n.rows.iter().filter(|r| r.group == group && r.common).collect()
}

/// A method's shares of RLOO's variance.
pub(super) fn ratios(rows: &[&Row], method: usize) -> Vec<f64> {
    rows.iter().map(|r| r.ratio[method].0).collect()
}

/// The share of rows on which a method's variance is at most the goal.
pub(super) fn reached(rows: &[&Row], method: usize) -> f64 {
    rows.iter().filter(|r| r.ratio[method].0 <= GOAL).count() as f64 / rows.len() as f64
}

/// The verdict that a method reaches the goal on 80 % of tasks: at all group sizes, or at some.
fn reaches(n: &Numbers, method: usize) -> Verdict {
    let ok = sizes_where(&GROUPS, |g| {
        reached(&if g == GROUPS[0] { smallest(n) } else { at(n, g) }, method) >= 0.8
    });
    let least = percent(reached(&smallest(n), method));
    holds_when(
        ok.len() == GROUPS.len(),
        !ok.is_empty(),
        format!("groups have {} responses", list(&ok)),
        format!("in groups of {} it does so on {least} of the tasks", GROUPS[0]),
    )
}

/// Shows the rows of some methods.
fn with_methods(finding: Finding, methods: &[usize], columns: &[&str]) -> Finding {
    let names: Vec<&str> = methods.iter().map(|&m| METHODS[m].0).collect();
    finding.rows("", &[&["group", "method"], columns].concat()).only("method", &names)
}

fn goal(n: &Numbers) -> Finding {
    let small = smallest(n);
    let [prefix, exact, best] = [PREFIX, EXACT_VALUES, OPTIMAL].map(|m| reached(&small, m));
    let statement = "Prefix RLOO has at most 0.85 of RLOO's variance on 80 % of tasks";
    let finding = Finding::new("goal", statement, reaches(n, PREFIX))
        .value("goal", GOAL)
        .value("goal, share of tasks", 0.8)
        .value("tasks", small.len())
        .value("share of tasks that reach it", prefix)
        .value("with exact values", exact)
        .value("with the best baseline, b*", best)
        .value("groups of 8 simulated per task", n.simulated);
    with_methods(finding, &[PREFIX, STATE, EXACT_VALUES, OPTIMAL], &["variance_over_rloo", "share_at_goal"]).note(
        "Tasks of the zoo and random trees, the same groups for every method; rows by group size are over the tasks \
         that were measured at every size.",
    )
}

fn less_than_rloo(n: &Numbers) -> Finding {
    let (_, above) = beyond(&smallest(n), PREFIX);
    let lower = sizes_where(&GROUPS, |g| mean(&ratios(&at(n, g), PREFIX)) < 1.0).len() == GROUPS.len();
    let finding = claim("less_than_rloo", "Prefix RLOO has no more variance than RLOO").holds_when(
        above == 0 && lower,
        lower,
        format!(
            "the variance is averaged over tasks; at G = {} Prefix RLOO has more on {above} of {} tasks, by over \
             two standard errors",
            GROUPS[0],
            smallest(n).len()
        ),
        "its mean share of RLOO's variance is above 1",
    );
    with_methods(finding, &[PREFIX], &["tasks_below", "tasks_above"])
}

/// Below and above 1 by two standard errors.
pub(super) fn beyond(rows: &[&Row], method: usize) -> (usize, usize) {
    let count = |of: fn(&(f64, f64)) -> bool| rows.iter().filter(|r| of(&r.ratio[method])).count();
    (count(|(ratio, error)| ratio + 2.0 * error < 1.0), count(|(ratio, error)| ratio - 2.0 * error > 1.0))
}

fn ridge(n: &Numbers) -> Finding {
    let statement = "With a ridge regression on features of the prefix the variance is at most 0.85 of RLOO's on 80 % of \
         tasks";
    let finding = Finding::new("ridge", statement, reaches(n, RIDGE));
    let columns = ["variance_over_rloo", "share_at_goal", "tasks_below", "tasks_above"];
    with_methods(finding, &[RIDGE, OTHER_RIDGES[0], OTHER_RIDGES[1]], &columns).note(
        "Features: which token stands at which position; a prefix's value is fitted without the response itself. \
         Below and above RLOO's variance by two standard errors.",
    )
}

/// The place of a reference among its rivals by the error of one update. A difference is shown where its interval over
/// tasks and its sign flips, after Holm's correction for all rivals, agree at 5 %.
#[derive(Debug, PartialEq)]
pub(super) enum Place {
    /// Every rival is shown to have a higher error.
    Lowest,
    /// These are shown to have a lower one.
    Above(String),
    /// None is, and from these it does not differ significantly.
    Open(String),
}

/// A name with an error per task.
type Errors = (String, Vec<f64>);

/// The place of a reference, and every rival's error less its, over tasks.
fn place(reference: &[f64], rivals: Vec<Errors>) -> (Place, Vec<(String, Interval)>) {
    let apart = |own: &[f64]| {
        OverTasks::new(&own.iter().zip(reference).map(|(own, other)| own - other).collect::<Vec<_>>())
    };
    let all: Vec<(String, OverTasks)> =
        rivals.into_iter().filter_map(|(name, own)| Some((name, apart(&own)?))).collect();
    let corrected = holm(&all.iter().map(|(_, o)| o.p).collect::<Vec<_>>());
    let named = |kept: fn(&OverTasks, f64) -> bool| {
        let kept = all.iter().zip(&corrected).filter(|((_, o), p)| kept(o, **p));
        kept.map(|((name, _), _)| name.as_str()).collect::<Vec<_>>()
    };
    let lower = named(|o, p| o.negative() && p <= 0.05);
    let open = named(|o, p| !o.positive() || p > 0.05);
    let found = match (lower.is_empty(), open.is_empty() && !all.is_empty()) {
        (false, _) => Place::Above(list(&lower)),
        (true, true) => Place::Lowest,
        (true, false) => Place::Open(list(&open)),
    };
    (found, all.into_iter().map(|(name, over)| (name, over.interval)).collect())
}

/// The place of Prefix RLOO at a group size among the methods that have neither a critic nor another shrinkage.
pub(super) fn among_methods(rows: &[&Row]) -> (Place, Vec<(String, Interval)>) {
    let errors = |m: usize| rows.iter().map(|r| r.error[m]).collect::<Vec<_>>();
    let rivals = (0..METHODS.len())
        .filter(|m| ![PREFIX, EXACT_VALUES, OPTIMAL].contains(m) && !OTHER_RIDGES.contains(m))
        .map(|m| (METHODS[m].0.to_owned(), errors(m)));
    place(&errors(PREFIX), rivals.collect())
}

fn error(n: &Numbers) -> Finding {
    let places = GROUPS.map(|g| (g, among_methods(&at(n, g)).0));
    let lowest = sizes_where(&GROUPS, |g| places.iter().any(|(own, p)| *own == g && *p == Place::Lowest));
    let rest = places.iter().filter_map(|(g, p)| match p {
        Place::Lowest => None,
        Place::Above(lower) => Some(format!("at G = {g} the error of \"{lower}\" is lower")),
        Place::Open(open) => Some(format!("at G = {g} the difference from \"{open}\" is not significant")),
    });
    let rest = rest.collect::<Vec<_>>().join("; ");
    let is_refuted = places.iter().any(|(_, p)| matches!(p, Place::Above(_)));
    let statement = "Of the methods without a critic Prefix RLOO has the lowest error (MSE) of one update at the \
        best step size";
    claim("error", statement)
        .verdict(if lowest.is_empty() && !is_refuted {
            Verdict::Inconclusive(rest)
        } else {
            let condition = format!("groups have {} responses; {rest}", lowest.join(", "));
            holds_when(lowest.len() == GROUPS.len(), !lowest.is_empty(), condition, rest)
        })
        .rows("", &["group", "method", "error_at_best_step", "minus_prefix_rloo", "minus_prefix_rloo_high"])
        .note(format!(
            "Means over tasks of min_c E|c g - ∇J|² / |∇J|², with Student's t over tasks; a difference counts if sign \
             flips agree after Holm's correction at each G. Dr. GRPO is RLOO times a constant and has RLOO's error; \
             {} alone is biased.",
            METHODS[TEMPO].0
        ))
}

/// The place of the λ at `reference` among all of them.
pub(super) fn among_lambdas(
    n: &Numbers,
    of: fn(&ByLambda) -> &Vec<f64>,
    reference: usize,
) -> (Place, Vec<(String, Interval)>) {
    let errors = |k: usize| n.by_lambda.iter().map(|b| of(b)[k]).collect::<Vec<_>>();
    let others = (0..LAMBDAS.len()).filter(|&k| k != reference);
    place(&errors(reference), others.map(|k| (LAMBDAS[k].to_string(), errors(k))).collect())
}

/// The share of tasks whose own best λ is inside (0, 1), and the mean gain of choosing it by task.
fn choice(n: &Numbers, of: fn(&ByLambda) -> &Vec<f64>) -> (f64, f64) {
    let own: Vec<(f64, f64)> = n.by_lambda.iter().map(|b| ByLambda::best(of(b))).collect();
    let inside = own.iter().filter(|(l, _)| *l > 0.0 && *l < 1.0).count() as f64 / own.len() as f64;
    (inside, average(own.iter().map(|o| o.1)))
}

/// Shows the mean errors with some values, and what a choice of λ by task would save.
fn with_lambdas(finding: Finding, n: &Numbers, values: &str, of: fn(&ByLambda) -> &Vec<f64>) -> Finding {
    let (inside, gain) = choice(n, of);
    finding
        .value("tasks", n.by_lambda.len())
        .value("share of tasks with their own best λ inside (0, 1)", inside)
        .value("share of the error of λ = 1 that it saves", gain)
        .rows("lambda", &[])
        .only("values", &[values])
}

fn lambda(n: &Numbers) -> Finding {
    let verdict = match among_lambdas(n, |b| &b.estimated, LAMBDAS.len() - 1).0 {
        Place::Above(_) => Verdict::Holds,
        Place::Lowest => Verdict::Fails("every λ below 1 has a higher one".into()),
        Place::Open(open) => Verdict::Inconclusive(format!(
            "no λ below 1 is shown to have one; the comparison is inconclusive at λ = {open}"
        )),
    };
    let statement = "If prefix values are estimated from the group, some λ below 1 has a lower mean error over \
        tasks than λ = 1";
    with_lambdas(claim("lambda", statement).verdict(verdict), n, ESTIMATED, |b| &b.estimated).note(format!(
        "Mean errors at G = {}, with Student's t over tasks; a difference counts if sign flips agree after Holm's \
         correction. A task's own best λ is chosen on the same groups.",
        GROUPS[0]
    ))
}

fn lambda_exact(n: &Numbers) -> Finding {
    let verdict = match among_lambdas(n, |b| &b.exact, 0).0 {
        Place::Lowest => Verdict::Holds,
        Place::Above(lower) => Verdict::Fails(format!("it is lower at λ = {lower}")),
        Place::Open(open) => Verdict::Inconclusive(format!("λ = 0 is not significantly lower than {open}")),
    };
    let claim = claim("lambda_exact", "If prefix values are exact, λ = 0 has the lowest error");
    with_lambdas(claim.verdict(verdict), n, EXACT, |b| &b.exact)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::common::words;

    /// Factors of the tasks' errors, which differ more between tasks than between neighbouring λ.
    const TASKS: [f64; 10] = [0.9, 0.92, 0.95, 0.97, 1.0, 1.0, 1.03, 1.05, 1.08, 1.1];

    fn numbers(ratio: f64, error: f64, estimated: Vec<f64>) -> Numbers {
        let row = |group, scale: f64| Row {
            common: true,
            group,
            ratio: [1.0, ratio, ratio, 0.8, 0.9, ratio, 1.0, 1.0, 0.6].map(|r| (r, 0.01)).to_vec(),
            error: [0.7, error, 0.68, 0.4, 0.6, 0.65, 0.66, 0.67, 0.3].map(|e| scale * e).to_vec(),
        };
        let scaled = |scale: f64| -> Vec<f64> { estimated.iter().map(|e| scale * e).collect() };
        let on_task = |scale| {
            let estimated = scaled(scale);
            let exact = estimated.iter().rev().copied().collect();
            ByLambda { estimated, exact }
        };
        Numbers {
            rows: GROUPS.iter().flat_map(|&g| TASKS.map(|scale| row(g, scale))).collect(),
            by_lambda: TASKS.map(on_task).to_vec(),
            simulated: 2,
        }
    }

    fn falling() -> Vec<f64> {
        (0..LAMBDAS.len()).map(|k| 0.9 - 0.05 * k as f64).collect()
    }

    #[test]
    fn each_verdict_follows_its_own_numbers() {
        let rising: Vec<f64> = falling().iter().rev().copied().collect();
        let verdicts = |n: Numbers| words(&findings(&n));
        let [h, f] = ["Holds", "Fails"];
        assert_eq!(verdicts(numbers(0.8, 0.5, rising)), [h, h, h, h, h, f]);
        assert_eq!(verdicts(numbers(1.1, 0.9, falling())), [f, f, f, f, f, h]);
    }

    #[test]
    fn differences_that_change_sign_between_tasks_are_inconclusive() {
        let mut n = numbers(0.8, 0.5, falling());
        let sign = |t: usize| if t.is_multiple_of(2) { 1.0 } else { -1.0 };
        for (t, on) in n.by_lambda.iter_mut().enumerate() {
            // The mean is the lowest at λ = 1 with either values, and at λ = 0 on half of the tasks only.
            let errors: Vec<f64> = falling().iter().map(|e| 0.5 + (e - 0.5) * (0.1 + sign(t))).collect();
            (on.estimated, on.exact) = (errors.clone(), errors.into_iter().rev().collect());
        }
        assert_eq!(words(&findings(&n))[4..], ["Inconclusive"; 2]);
        let detail = lambda(&n).verdict.detail().to_owned();
        assert!(detail.ends_with("inconclusive at λ = 0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95"), "{detail}");
    }

    #[test]
    fn the_methods_below_prefix_rloo_are_named_by_group_size() {
        let mut n = numbers(0.8, 0.5, falling());
        for (t, row) in n.rows.iter_mut().enumerate() {
            match row.group {
                8 => row.error[RIDGE] = 0.9 * row.error[PREFIX],
                16 => row.error[STATE] = row.error[PREFIX] + if t.is_multiple_of(2) { 0.1 } else { -0.101 },
                _ => {}
            }
        }
        let said = error(&n).verdict;
        assert_eq!(
            (said.word(), said.detail()),
            (
                "Holds when",
                "groups have 32 responses; at G = 8 the error of \"Ridge RLOO\" is lower; at G = 16 the difference from \"prefix only\" is not significant"
            )
        );
        n.rows.retain(|r| r.group == 16);
        n.rows =
            GROUPS.iter().flat_map(|&group| n.rows.iter().map(move |r| Row { group, ..r.clone() })).collect();
        assert_eq!(error(&n).verdict.word(), "Inconclusive");
    }
}
