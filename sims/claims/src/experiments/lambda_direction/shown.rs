//! Findings, tables and figures.

use super::{CRITICS, Curve, Numbers, REPORTED, STEPS, VISIBLE, lambda};
use crate::experiment::Finding;
use crate::experiments::common::claim::{claim, quoted};
use crate::experiments::common::{EXACT, average, largest, mean, quantile, rounding_error};
use crate::figure::{Axis, Figure, Panel, Style};
use crate::sentences::SentenceId;
use grpo_lambda_stats::table::Table;
use serde::Serialize;

pub(super) fn findings(n: &Numbers) -> Vec<Finding> {
    vec![as_printed(n), exact_critic(n), wrong_critics(n), perturbed_critic(n)]
}

/// 1 if a curve ends visibly above its start, -1 if below, else 0.
fn direction(values: &[f64]) -> i8 {
    let (first, last) = (values[0], values[STEPS]);
    i8::from(last > first + VISIBLE) - i8::from(last < first - VISIBLE)
}

fn rises(values: &[f64]) -> bool {
    values.windows(2).all(|w| w[1] >= w[0] - VISIBLE)
}

fn falls(values: &[f64]) -> bool {
    values.windows(2).all(|w| w[1] <= w[0] + VISIBLE)
}

/// The curves of the critics that are not exact.
fn wrong(n: &Numbers) -> Vec<&Curve> {
    n.curves[1..].iter().flatten().collect()
}

fn as_printed(n: &Numbers) -> Finding {
    let exact: Vec<&Curve> = n.curves[0].iter().collect();
    let wrong = wrong(n);
    let count = |set: &[&Curve], f: &dyn Fn(&Curve) -> bool| set.iter().filter(|c| f(c)).count();
    let is_printed = |c: &Curve| direction(&c.bias) > 0 && direction(&c.variance) < 0;
    let (printed, cases) =
        (count(&exact, &is_printed) + count(&wrong, &is_printed), exact.len() + wrong.len());
    let detail = format!(
        "from λ = 0 to 1 the bias falls in {} of {} cases with a wrong critic and rises in {}. With the exact \
         critic the variance rises in {} of {} MDPs and falls in {}",
        count(&wrong, &|c| direction(&c.bias) < 0),
        wrong.len(),
        count(&wrong, &|c| direction(&c.bias) > 0),
        count(&exact, &|c| direction(&c.variance) > 0),
        n.mdps(),
        count(&exact, &|c| direction(&c.variance) < 0)
    );
    quoted(SentenceId::BiasAndVariance)
        .holds_or(printed == cases, detail)
        .value("cases of an MDP and a critic", cases)
        .value("cases as printed", printed)
}

fn exact_critic(n: &Numbers) -> Finding {
    let e = &n.exact;
    claim(
        "exact_critic",
        "With the exact critic the estimate g(λ) is unbiased at every λ, and its variance never falls with λ. \
         Var(A_t|s,a) is Σ_{l≥1} λ^{2l} E[δ²_{t+l}|s,a], plus the variance of the reward if action a \
         completes the response",
    )
    .all_within(EXACT, e.bias.max(e.formula).max(e.fall))
    .value("MDPs", n.mdps())
    .value("largest bias", rounding_error(e.bias))
    .value("largest gap to the formula", rounding_error(e.formula))
    .value("largest fall", rounding_error(e.fall))
    .note("Every (prefix, token), λ = 0, ¼, ½, ¾, 1.")
}

fn wrong_critics(n: &Numbers) -> Finding {
    let wrong = wrong(n);
    let last = largest(wrong.iter().map(|c| c.bias[STEPS]));
    let count = |f: fn(&Curve) -> bool| wrong.iter().filter(|c| f(c)).count();
    let neither = count(|c| !rises(&c.variance) && !falls(&c.variance));
    claim(
        "wrong_critics",
        "With a wrong critic the bias is 0 at λ = 1, and the variance need not be monotone in λ",
    )
    .holds_or(last < EXACT && neither > 0, "a bias is left, or every variance has a direction")
    .value("cases (perturbed, stale, constant, zero critic)", wrong.len())
    .value("bias at λ = 1", rounding_error(last))
    .value("cases whose bias falls all the way", count(|c| falls(&c.bias)))
    .value("cases whose variance neither rises nor falls", neither)
    .value("cases whose variance is higher at 1 than at 0", count(|c| c.variance[STEPS] > c.variance[0]))
}

fn perturbed_critic(n: &Numbers) -> Finding {
    let curves = &n.curves[1][..n.random];
    let means =
        |values: fn(&Curve) -> &Vec<f64>| REPORTED.map(|i| average(curves.iter().map(|c| values(c)[i])));
    let (bias, variance) = (means(|c| &c.bias), means(|c| &c.variance));
    let shaped = falls(&bias) && bias[4] < EXACT && !falls(&variance);
    let minimum_inside = variance[1..4].iter().any(|v| *v < variance[0] && *v < variance[4]);
    claim(
        "perturbed_critic",
        "If the critic has normal errors of standard deviation 0.3, the mean bias over random MDPs falls to 0 as \
         λ rises to 1, and the mean variance is smallest between λ = 0 and 1",
    )
    .holds_when(
        shaped && minimum_inside,
        shaped,
        "the mean variance has no interior minimum here; single MDPs do",
        "the curves have another shape",
    )
    .value("bias at λ = 0, ¼, ½, ¾", &bias[..4])
    .value("variance at λ = 0, ¼, ½, ¾, 1", variance)
}

/// A critic at a λ, on an MDP or in the mean over the random ones; a row of `lambda_direction.csv`.
#[derive(Serialize)]
struct Row {
    mdp: String,
    critic: &'static str,
    lambda: f64,
    bias: f64,
    relative_bias: f64,
    variance: f64,
    variance_p10: Option<f64>,
    variance_p90: Option<f64>,
}

impl Row {
    /// The mean over some curves, with the quantiles of the variance where there are several.
    fn new(mdp: String, critic: &'static str, i: usize, curves: &[Curve]) -> Row {
        let values = |f: &dyn Fn(&Curve) -> f64| curves.iter().map(f).collect::<Vec<f64>>();
        let variance = values(&|c| c.variance[i]);
        let spread = |p: f64| (curves.len() > 1).then(|| quantile(&variance, p));
        Row {
            mdp,
            critic,
            lambda: lambda(i),
            bias: mean(&values(&|c| c.visible_bias(i))),
            relative_bias: mean(&values(&|c| c.relative_bias(i))),
            variance: mean(&variance),
            variance_p10: spread(0.1),
            variance_p90: spread(0.9),
        }
    }
}

pub(super) fn tables(n: &Numbers) -> Vec<(String, Table)> {
    let mut rows = Vec::new();
    for ((critic, _), curves) in CRITICS.into_iter().zip(&n.curves) {
        let (random, named) = curves.split_at(n.random);
        let mean = format!("mean of {} random", random.len());
        rows.extend((0..=STEPS).map(|i| Row::new(mean.clone(), critic, i, random)));
        for (mdp, curve) in n.named.iter().zip(named) {
            rows.extend(REPORTED.map(|i| Row::new(mdp.clone(), critic, i, std::slice::from_ref(curve))));
        }
    }
    vec![(String::new(), Table::from_rows(rows))]
}

pub(super) fn figures(n: &Numbers) -> Vec<(String, Figure)> {
    let bias =
        Panel::new(format!("Bias, {} random MDPs", n.random)).x("λ").y("relative bias |E g - ∇J| / |∇J|");
    let variance = Panel::new(format!("Variance, {} random MDPs", n.random))
        .x("λ")
        .y(Axis::new("tr Cov g, relative to λ = 1"));
    let one_bias = Panel::new("Bias, MDP lucky_guess (constant lies under zero)").x("λ").y("|E g - ∇J|");
    let one_variance = Panel::new("Variance, MDP lucky_guess").x("λ").y("tr Cov g");
    let figure = Figure::new("Raising λ removes bias and, with a good critic, adds variance: the reverse of the \
        paper's sentence")
        .caption(
            "Exact moments of the GAE policy-gradient estimator of one response, γ = 1, by enumeration. Top: median \
             over MDPs, band 25-75 % (exact and perturbed critic). Critics: exact V; V + 0.3 normal noise; V of \
             another policy; V(s₀); 0.",
        )
        .names(CRITICS.map(|(name, _)| name))
        .panel(medians(n, bias, |c, i| c.visible_bias(i) / c.gradient))
        .panel(medians(n, variance, |c, i| c.variance[i] / c.variance[STEPS]))
        .panel(first_named(n, one_bias, Curve::visible_bias))
        .panel(first_named(n, one_variance, |c, i| c.variance[i]));
    vec![(String::new(), figure)]
}

fn style(critic: &str) -> Style {
    if critic == "exact" { Style::Solid } else { Style::Dashed }
}

/// Adds the medians over the random MDPs, with the quartiles of two critics.
fn medians(n: &Numbers, mut panel: Panel, value: fn(&Curve, usize) -> f64) -> Panel {
    for ((critic, _), curves) in CRITICS.into_iter().zip(&n.curves) {
        let quartiles = |i: usize| {
            let values: Vec<f64> = curves[..n.random].iter().map(|c| value(c, i)).collect();
            [0.25, 0.5, 0.75].map(|p| quantile(&values, p))
        };
        let points: Vec<(f64, [f64; 3])> = (0..=STEPS).map(|i| (lambda(i), quartiles(i))).collect();
        if critic == "exact" || critic == "perturbed" {
            panel = panel.band(critic, points.iter().map(|(x, q)| (*x, q[0], q[2])));
        }
        panel = panel.styled_line(critic, style(critic), points.iter().map(|(x, q)| (*x, q[1])));
    }
    panel
}

/// Adds the curves of the first MDP of the zoo.
fn first_named(n: &Numbers, mut panel: Panel, value: fn(&Curve, usize) -> f64) -> Panel {
    for ((critic, _), curves) in CRITICS.into_iter().zip(&n.curves) {
        let curve = &curves[n.random];
        panel = panel.styled_line(critic, style(critic), (0..=STEPS).map(|i| (lambda(i), value(curve, i))));
    }
    panel
}

#[cfg(test)]
mod tests {
    use super::super::ExactCritic;
    use super::*;
    use crate::experiments::common::{words, words_after};

    fn line(from: f64, to: f64) -> Vec<f64> {
        (0..=STEPS).map(|i| from + (to - from) * i as f64 / STEPS as f64).collect()
    }

    /// A curve whose variance has its minimum inside.
    fn valley(bias: Vec<f64>) -> Curve {
        let variance = (0..=STEPS).map(|i| 1.0 + (i as f64 - 10.0).powi(2)).collect();
        Curve { bias, variance, gradient: 1.0 }
    }

    fn numbers(exact: Curve, wrong: &Curve) -> Numbers {
        Numbers {
            random: 1,
            named: Vec::new(),
            curves: vec![vec![exact], vec![wrong.clone()], vec![wrong.clone()]],
            exact: ExactCritic::default(),
        }
    }

    #[test]
    fn the_headline_holds_only_where_every_curve_does_as_the_sentence_says() {
        let printed = Curve { bias: line(0.0, 1.0), variance: line(1.0, 0.0), gradient: 1.0 };
        let verdicts = |n: Numbers| words(&findings(&n));
        assert_eq!(verdicts(numbers(printed.clone(), &printed)), ["Holds", "Holds", "Fails", "Fails"]);
        let ours = valley(line(0.1, 0.0));
        assert_eq!(verdicts(numbers(printed, &ours)), ["Fails", "Holds", "Holds", "Holds"]);
    }

    #[test]
    fn each_verdict_follows_its_own_numbers() {
        let ours = || numbers(valley(line(0.0, 0.0)), &valley(line(0.1, 0.0)));
        let verdicts = |change| words_after(ours(), findings, change);
        assert_eq!(verdicts(|n| n.exact.fall = 0.1)[1], "Fails");
        assert_eq!(verdicts(|n| n.curves[2][0].bias[STEPS] = 0.1)[2], "Fails");
        assert_eq!(verdicts(|n| n.curves[1][0].variance = line(0.0, 1.0))[3], "Holds when");
    }
}
