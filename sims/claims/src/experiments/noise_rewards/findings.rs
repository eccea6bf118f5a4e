//! Findings.

use super::{Arm, CLAMP, Numbers};
use crate::experiment::{Finding, Verdict};
use crate::experiments::common::{coarse_interval as said, extremes, finding, holds_or, holds_when, percent};
use grpo_lambda_stats::Interval;

pub(super) fn findings(n: &Numbers) -> Vec<Finding> {
    let theorem = [only_together(n), dose(n), predicted(n)];
    theorem.into_iter().chain(adamw(n)).chain(law(n)).collect()
}

fn each(arms: &[&Arm], of: fn(&Arm) -> Interval) -> String {
    arms.iter().map(|a| format!("{}: {}", a.name(), said(of(a)))).collect::<Vec<_>>().join("; ")
}

fn names(arms: &[&Arm]) -> String {
    arms.iter().map(|a| a.name()).collect::<Vec<_>>().join("; ")
}

/// The verdict on growth where a trace meets a clamp, and nowhere else. That a setting does not change needs an interval within the margin of
/// equivalence; one that merely holds 0 tells nothing.
fn together(n: &Numbers, arms: &[&Arm]) -> Verdict {
    let expected = |a: &&Arm| a.lambda > 0.0 && a.pays();
    let missed: Vec<&Arm> = arms.iter().copied().filter(expected).filter(|a| !a.lengthens()).collect();
    let moved = |a: &&Arm| a.lengthens() || a.shortens();
    let others = || arms.iter().copied().filter(|a| !expected(a));
    let moving: Vec<&Arm> = others().filter(moved).collect();
    let margin = n.margin * n.start[1];
    let wide: Vec<&Arm> = others().filter(|a| a.together.low < -margin || a.together.high > margin).collect();
    if !missed.is_empty() {
        return Verdict::Fails(format!("not clearly longer: {}", names(&missed)));
    }
    if !moving.is_empty() {
        let others = names(&moving);
        return Verdict::HoldsWhen(format!(
            "the trace with the clamp lengthens, but others move, too: {others}"
        ));
    }
    if !wide.is_empty() {
        return Verdict::NotTold(format!(
            "it lengthens there; whether the others stay within {margin:.2} tokens, {} of the start, their joint intervals do not tell: {}",
            percent(n.margin),
            each(&wide, |a| a.together)
        ));
    }
    Verdict::Holds
}

/// The settings of an optimiser with the paper's clamp or none.
fn of_paper(n: &Numbers, plain: bool) -> Vec<&Arm> {
    n.arms.iter().filter(|a| a.of_trace() && a.clamp == CLAMP && a.plain() == plain).collect()
}

/// `None` if no run uses AdamW.
fn adamw(n: &Numbers) -> Option<Finding> {
    let arms = of_paper(n, false);
    let said = finding(
        "Under AdamW, too, responses grow longer where a trace meets a clamp, and change nowhere else",
        together(n, &arms),
        format!(
            "learning rate {}, {} seeds, intervals likewise. {}",
            n.rates[1],
            n.seeds,
            each(&arms, |a| a.change)
        ),
    );
    (!arms.is_empty()).then_some(said)
}

/// The settings of the length law, with the sign of the force at the start weights: `None` where its interval holds 0.
pub(super) fn of_law(n: &Numbers) -> Vec<(&Arm, Option<f64>)> {
    let sign = |[force, _]: [Interval; 2]| match force {
        // Without an offset, or without a weight that differs between lengths, what is left is rounding.
        Interval { mid, .. } if mid.abs() < 1e-9 => Some(0.0),
        Interval { low, .. } if low > 0.0 => Some(1.0),
        Interval { high, .. } if high < 0.0 => Some(-1.0),
        _ => None,
    };
    let arms = n.arms.iter().filter(|a| !a.of_trace());
    arms.filter_map(|a| Some((a, sign(a.predicted?)))).collect()
}

/// The sign of the change, 0 where it is not shown.
pub(super) fn moves(a: &Arm) -> f64 {
    f64::from(i8::from(a.lengthens()) - i8::from(a.shortens()))
}

/// `None` without a run of the length law.
fn law(n: &Numbers) -> Option<Finding> {
    let (arms, margin) = (of_law(n), n.margin * n.start[1]);
    let with = |fits: &dyn Fn(&Arm, f64) -> bool| {
        let kept = arms.iter().filter(|(a, sign)| sign.is_some_and(|s| fits(a, s)));
        kept.map(|(a, _)| *a).collect::<Vec<_>>()
    };
    let wrong = with(&|a, sign| moves(a) != 0.0 && moves(a) != sign);
    let unclear = with(&|a, sign| match sign {
        0.0 => a.together.low < -margin || a.together.high > margin,
        _ => moves(a) == 0.0,
    });
    let verdict = match (wrong.is_empty(), unclear.is_empty()) {
        (true, true) => Verdict::Holds,
        (true, false) => {
            Verdict::NotTold(format!("their joint intervals do not tell: {}", each(&unclear, |a| a.together)))
        }
        (false, _) => Verdict::Fails(format!("another sign: {}", each(&wrong, |a| a.together))),
    };
    let forced = with(&|_, sign| sign != 0.0).len();
    let same = with(&|a, sign| a.change.mid * sign > 0.0).len();
    let shown = with(&|a, sign| sign != 0.0 && moves(a) == sign).len();
    let list = |wanted: Option<f64>| {
        let kept: Vec<&Arm> = arms.iter().filter(|(_, sign)| *sign == wanted).map(|(a, _)| *a).collect();
        each(&kept, |a| a.change)
    };
    (!arms.is_empty()).then(|| {
        finding(
            "Coins change the mean length with the sign of the length law under every reduction and map from rewards to advantages",
            verdict,
            format!(
                "{} settings, {} seeds; a setting moves if the interval that holds for all of them together (Bonferroni) leaves 0 out, and stays if it lies within {margin:.2} tokens. Of the {forced} whose force is told at the start weights {same} change with its sign, {shown} of them shown. Force above 0: {}. Below 0: {}. None: {}. Not told, and in no verdict: {}",
                arms.len(),
                n.seeds,
                list(Some(1.0)),
                list(Some(-1.0)),
                list(Some(0.0)),
                list(None),
            ),
        )
    })
}

fn only_together(n: &Numbers) -> Finding {
    let paper = of_paper(n, true);
    finding(
        "With rewards that are coins, responses grow longer where a trace meets a clamp, and change nowhere else",
        together(n, &paper),
        format!(
            "change of the mean length in tokens over {} steps of plain gradient descent, mean over {} seeds with its 95 % interval (Student's t), from {:.1} tokens ({:.1} to {:.1}); a setting moves if the interval that holds for all {} settings together (Bonferroni) leaves 0 out, and does not change if it lies within {} of the start, a margin that was fixed before these intervals were compared with it. {}",
            n.steps,
            n.seeds,
            n.start[1],
            n.start[0],
            n.start[2],
            n.arms.iter().filter(|a| a.of_trace()).count(),
            percent(n.margin),
            each(&paper, |a| a.change)
        ),
    )
}

/// The settings of the longest trace with the clamp left in, by ā.
pub(super) fn doses(n: &Numbers) -> Vec<&Arm> {
    let longest = n.arms.iter().map(|a| a.lambda).fold(0.0, f64::max);
    let paying_or_none =
        |a: &&Arm| a.of_trace() && a.plain() && a.lambda == longest && (a.pays() || a.part == "none");
    let mut arms: Vec<&Arm> = n.arms.iter().filter(paying_or_none).collect();
    arms.sort_by(|a, b| a.mean_advantage.total_cmp(&b.mean_advantage));
    arms
}

fn dose(n: &Numbers) -> Finding {
    let arms = doses(n);
    let rises = arms.windows(2).all(|w| w[1].change.mid > w[0].change.mid);
    let list: Vec<String> =
        arms.iter().map(|a| format!("ā = {:.3}: {}", a.mean_advantage, said(a.change))).collect();
    finding(
        "The more a clamp pays on average (ā), the more responses grow",
        holds_or(rises && arms.len() > 2, "the mean change does not rise with ā everywhere"),
        format!("λ = {}. {}", arms.first().map_or(0.0, |a| a.lambda), list.join("; ")),
    )
}

fn predicted(n: &Numbers) -> Finding {
    let paying = n.arms.iter().filter(|a| a.of_trace() && a.lambda > 0.0 && a.pays());
    let predicted: Vec<(&Arm, [Interval; 2])> = paying.filter_map(|a| Some((a, a.predicted?))).collect();
    let within = |beyond: Interval| (beyond.low..=beyond.high).contains(&0.0);
    let off: Vec<&Arm> =
        predicted.iter().filter(|(_, [_, beyond])| !within(*beyond)).map(|(a, _)| *a).collect();
    let ratios = predicted.iter().map(|(_, [predicted, beyond])| 1.0 + beyond.mid / predicted.mid);
    let (least, most) = extremes(ratios);
    let list: Vec<String> = predicted
        .iter()
        .map(|(a, [predicted, beyond])| format!("{}: {}, {}", a.name(), said(*predicted), said(*beyond)))
        .collect();
    finding(
        "The growth is the one that the theorem predicts at the start weights: lr ā <g_λ, ∇E[T]> / E[T] per step",
        holds_when(
            off.is_empty(),
            off.len() < predicted.len(),
            format!("not within the 95 % interval: {}", names(&off)),
            format!("measured over predicted is {least:.2} to {most:.2}"),
        ),
        format!(
            "measured: the change less that of the same coins without a clamp. Over predicted, which is to first order, it is {least:.2} to {most:.2}. Predicted, and measured less that, tokens: {}",
            list.join("; ")
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::common::words;

    fn arm(lambda: f64, part: &str, clamp: f64, a: f64, change: f64) -> Arm {
        let at = |mid: f64| Interval { low: mid - 0.1, mid, high: mid + 0.1, level: 0.95 };
        let part = part.to_owned();
        let predicted = Some([at(10.0 * a), at(change - 10.0 * a)]);
        let optimiser = "SGD".to_owned();
        Arm {
            optimiser,
            lambda,
            part,
            clamp,
            reduction: super::super::TOKEN_MEAN.to_owned(),
            mean_advantage: a,
            change: at(change),
            predicted,
            together: at(change),
            grad_norm: 1.0,
        }
    }

    fn numbers(off: f64, weak: f64, both: f64, centred: f64) -> Numbers {
        let mut arms = vec![
            arm(0.99, "none", CLAMP, 0.0, off),
            arm(0.99, "both (the clamp)", -0.5, 0.2, weak),
            arm(0.99, "both (the clamp)", CLAMP, 0.4, both),
            arm(0.99, "re-weighting only", CLAMP, 0.0, centred),
        ];
        let adam = |a: &Arm| Arm { optimiser: "AdamW".into(), predicted: None, ..a.clone() };
        arms.extend(arms.clone().iter().map(adam));
        Numbers { arms, seeds: 10, steps: 40.0, rates: [0.1; 2], start: [2.0; 3], margin: 0.1 }
    }

    #[test]
    fn the_law_is_judged_where_the_start_weights_tell_a_sign() {
        let constant = |force: f64, change: f64| {
            let at = |mid: f64| Interval { low: mid - 0.1, mid, high: mid + 0.1, level: 0.95 };
            let reduction = "constant".to_owned();
            let predicted = Some([at(force), at(change - force)]);
            Arm { reduction, predicted, ..arm(0.99, "both (the clamp)", CLAMP, 0.4, change) }
        };
        let verdict = |arms: Vec<Arm>| {
            let n = Numbers { arms, ..numbers(0.0, 2.0, 4.0, 0.0) };
            words(&law(&n).into_iter().collect::<Vec<_>>())
        };
        assert_eq!(verdict(vec![constant(2.0, 1.5), constant(-2.0, -1.0), constant(0.0, 0.05)]), ["Holds"]);
        // A force whose interval holds 0 tells no sign.
        assert_eq!(verdict(vec![constant(2.0, 1.5), constant(0.05, -3.0)]), ["Holds"]);
        assert_eq!(verdict(vec![constant(2.0, 0.05)]), ["Not told"]);
        assert_eq!(verdict(vec![constant(0.0, 0.15)]), ["Fails"]);
        assert_eq!(verdict(vec![constant(2.0, -0.5)]), ["Fails"]);
        assert!(verdict(Vec::new()).is_empty());
    }

    #[test]
    fn each_verdict_follows_its_own_numbers() {
        let verdicts = |n: Numbers| words(&findings(&n));
        assert_eq!(verdicts(numbers(0.0, 2.0, 4.0, 0.0)), ["Holds"; 4]);
        assert_eq!(verdicts(numbers(3.0, 1.0, 0.0, 0.0)), ["Fails"; 4]);
        assert_eq!(
            verdicts(numbers(0.0, 2.0, 5.0, 3.0)),
            ["Holds when", "Holds", "Holds when", "Holds when"]
        );
        // Intervals of ±0.1 about 0 are within 10 % of 2 tokens, and not of half a token.
        let short = Numbers { start: [0.5; 3], ..numbers(0.0, 2.0, 4.0, 0.0) };
        assert_eq!(verdicts(short), ["Not told", "Holds", "Holds", "Not told"]);
    }
}
