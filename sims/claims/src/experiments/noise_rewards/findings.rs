//! Findings.

use super::{Arm, CLAMP, Numbers};
use crate::experiment::{Finding, Verdict};
use crate::experiments::common::findings::{finding, holds_or, holds_when};
use crate::experiments::common::text::percent;
use crate::experiments::common::vectors::extremes;
use grpo_lambda_stats::Interval;

pub(super) fn findings(n: &Numbers) -> Vec<Finding> {
    let theorem = [only_together(n), dose(n), predicted(n)];
    theorem.into_iter().chain(adamw(n)).chain(per_response(n)).collect()
}

fn said(i: Interval) -> String {
    format!("{:+.2} [{:+.2}, {:+.2}]", i.mid, i.low, i.high)
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
    n.arms.iter().filter(|a| a.by_token() && a.clamp == CLAMP && a.plain() == plain).collect()
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

/// `None` if no run weighs responses alike.
fn per_response(n: &Numbers) -> Option<Finding> {
    let arms: Vec<&Arm> = n.arms.iter().filter(|a| !a.by_token()).collect();
    let offset: Vec<&Arm> = arms.iter().copied().filter(|a| a.lambda == 0.0 && a.pays()).collect();
    let longer: Vec<&Arm> = offset.iter().copied().filter(|a| a.lengthens()).collect();
    let unclear: Vec<&Arm> = offset.iter().copied().filter(|a| !a.shortens()).collect();
    let verdict = match (longer.is_empty(), unclear.is_empty()) {
        (true, true) => Verdict::Holds,
        (true, false) => Verdict::NotTold(format!("not clearly shorter: {}", names(&unclear))),
        (false, _) => Verdict::Fails(format!("longer: {}", names(&longer))),
    };
    (!offset.is_empty()).then(|| {
        finding(
            "With 1/T per response and no trace an offset of the advantages shortens responses, as the length law says",
            verdict,
            format!("{} seeds, joint intervals over these {} settings. {}", n.seeds, arms.len(), each(&arms, |a| a.change)),
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
            n.arms.iter().filter(|a| a.by_token()).count(),
            percent(n.margin),
            each(&paper, |a| a.change)
        ),
    )
}

/// The settings of the longest trace with the clamp left in, by ā.
pub(super) fn doses(n: &Numbers) -> Vec<&Arm> {
    let longest = n.arms.iter().map(|a| a.lambda).fold(0.0, f64::max);
    let paying_or_none =
        |a: &&Arm| a.by_token() && a.plain() && a.lambda == longest && (a.pays() || a.part == "none");
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
    let paying = n.arms.iter().filter(|a| a.by_token() && a.lambda > 0.0 && a.pays());
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
    use crate::experiments::common::findings::words;

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
