//! The findings.

use super::{Curve, Numbers, REPORTED, STEPS, VISIBLE};
use crate::experiment::{Finding, Verdict};
use crate::experiments::common::{EXACT, finding_on, holds_or, keyed, largest, mean, rounding_error};
use crate::sentences::SentenceId;

pub(super) fn findings(n: &Numbers) -> Vec<Finding> {
    vec![as_printed(n), exact_critic(n), wrong_critics(n), perturbed_critic(n), constant_critic(n)]
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
    let all: Vec<&Curve> = n.curves.iter().flatten().collect();
    let exact: Vec<&Curve> = n.curves[0].iter().collect();
    let wrong = wrong(n);
    let count = |set: &[&Curve], f: &dyn Fn(&Curve) -> bool| set.iter().filter(|c| f(c)).count();
    let printed = count(&all, &|c| direction(&c.bias) > 0 && direction(&c.variance) < 0);
    let detail = format!(
        "from λ = 0 to 1 the bias falls in {} of {} cases with a wrong critic and rises in {}; with the exact critic the variance rises in {} of {} MDPs and falls in {}",
        count(&wrong, &|c| direction(&c.bias) < 0),
        wrong.len(),
        count(&wrong, &|c| direction(&c.bias) > 0),
        count(&exact, &|c| direction(&c.variance) > 0),
        n.mdps(),
        count(&exact, &|c| direction(&c.variance) < 0)
    );
    finding_on(
        SentenceId::BiasAndVariance,
        holds_or(printed == all.len(), detail.clone()),
        format!("as printed in {printed} of {} (MDP, critic) cases; {detail}", all.len()),
    )
}

fn exact_critic(n: &Numbers) -> Finding {
    let e = &n.exact;
    keyed(
        "exact_critic",
        "With the exact critic g(λ) is unbiased at every λ, and Var(A_t|s,a) = Σ_{l≥1} λ^{2l} E[δ²_{t+l}|s,a] (plus the grader's noise where a completes the response), which never falls with λ",
        holds_or(
            e.bias.max(e.formula).max(e.fall) < EXACT,
            format!("bias {:e}, formula off by {:e}, fall {:e}", e.bias, e.formula, e.fall),
        ),
        format!(
            "{} MDPs, every (prefix, token), λ = 0, ¼, ½, ¾, 1: largest bias {}, largest gap to the formula {}, largest fall {}",
            n.mdps(),
            rounding_error(e.bias),
            rounding_error(e.formula),
            rounding_error(e.fall)
        ),
    )
}

fn wrong_critics(n: &Numbers) -> Finding {
    let wrong = wrong(n);
    let last = largest(wrong.iter().map(|c| c.bias[STEPS]));
    let count = |f: fn(&Curve) -> bool| wrong.iter().filter(|c| f(c)).count();
    let neither = count(|c| !rises(&c.variance) && !falls(&c.variance));
    keyed(
        "wrong_critics",
        "With a wrong critic the bias vanishes at λ = 1, and the variance is in general not monotone in λ",
        holds_or(
            last < EXACT && neither > 0,
            format!("bias {last:e} at λ = 1; {neither} curves without a direction"),
        ),
        format!(
            "{} cases (perturbed, stale, constant, zero critic): bias at λ = 1 {}; bias falls all the way in {}; variance neither rises nor falls in {neither}, is higher at 1 than at 0 in {}",
            wrong.len(),
            rounding_error(last),
            count(|c| falls(&c.bias)),
            count(|c| c.variance[STEPS] > c.variance[0])
        ),
    )
}

fn perturbed_critic(n: &Numbers) -> Finding {
    let curves = &n.curves[1][..n.random];
    let means = |values: fn(&Curve) -> &Vec<f64>| -> Vec<f64> {
        REPORTED.map(|i| mean(&curves.iter().map(|c| values(c)[i]).collect::<Vec<_>>())).into()
    };
    let (bias, variance) = (means(|c| &c.bias), means(|c| &c.variance));
    let list = |v: &[f64]| v.iter().map(|x| format!("{x:.3}")).collect::<Vec<_>>().join(", ");
    let shaped = falls(&bias) && bias[4] < EXACT && !falls(&variance);
    let minimum_inside = variance[1..4].iter().any(|v| *v < variance[0] && *v < variance[4]);
    keyed(
        "perturbed_critic",
        "Averaged over random MDPs, a critic off by normal noise of 0.3 has a bias that falls to 0 with λ and a variance with its minimum inside",
        match (shaped, minimum_inside) {
            (true, true) => Verdict::Holds,
            (true, false) => {
                Verdict::HoldsWhen("the mean variance has no interior minimum here; single MDPs do".into())
            }
            _ => Verdict::Fails(format!("bias {}, variance {}", list(&bias), list(&variance))),
        },
        format!("λ = 0, ¼, ½, ¾, 1: bias {}; variance {}", list(&bias), list(&variance)),
    )
}

fn constant_critic(n: &Numbers) -> Finding {
    let c = &n.constant;
    let off = c.advantage.max(c.update);
    keyed(
        "constant_critic",
        "A constant critic V̂ ≡ V(s_0) gives A_t = λ^{T-1-t}(r - V0): λ = 1, not λ = 0, is GRPO's centred advantage",
        holds_or(off < EXACT && c.silent == 1.0, format!("off by {off}")),
        format!(
            "λ = 1: A_t - (r - V0) {}, and the expected update of delta=terminal against GRPO without std {}; λ = 0: {:.0} % of the tokens before the last get credit 0",
            rounding_error(c.advantage),
            rounding_error(c.update),
            100.0 * c.silent
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::super::{ConstantCritic, ExactCritic};
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
            constant: ConstantCritic { advantage: 0.0, update: 0.0, silent: 1.0 },
        }
    }

    #[test]
    fn the_headline_holds_only_where_every_curve_does_as_the_sentence_says() {
        let printed = Curve { bias: line(0.0, 1.0), variance: line(1.0, 0.0), gradient: 1.0 };
        let verdicts = |n: Numbers| words(&findings(&n));
        assert_eq!(
            verdicts(numbers(printed.clone(), &printed)),
            ["Holds", "Holds", "Fails", "Fails", "Holds"]
        );
        let ours = valley(line(0.1, 0.0));
        assert_eq!(verdicts(numbers(printed, &ours)), ["Fails", "Holds", "Holds", "Holds", "Holds"]);
    }

    #[test]
    fn each_verdict_follows_its_own_numbers() {
        let ours = || numbers(valley(line(0.0, 0.0)), &valley(line(0.1, 0.0)));
        let verdicts = |change| words_after(ours(), findings, change);
        assert_eq!(verdicts(|n| n.exact.fall = 0.1)[1], "Fails");
        assert_eq!(verdicts(|n| n.curves[2][0].bias[STEPS] = 0.1)[2], "Fails");
        assert_eq!(verdicts(|n| n.curves[1][0].variance = line(0.0, 1.0))[3], "Holds when");
        assert_eq!(verdicts(|n| n.constant.silent = 0.9)[4], "Fails");
    }
}
