//! Findings.

use super::{Arm, CLAMP, Numbers, TOKEN_MEAN};
use crate::experiment::{Finding, Verdict};
use crate::experiments::common::claim::{Claim, claim};
use crate::experiments::common::{extremes, percent, unless};
use grpo_lambda::advantage::ClampPart;
use grpo_lambda_stats::Interval;

pub(super) fn findings(n: &Numbers) -> Vec<Finding> {
    let theorem = [only_together(n), dose(n), predicted(n)];
    theorem.into_iter().chain(adamw(n)).chain(law(n)).chain(size_of_law(n)).collect()
}

/// True if random rewards lengthen in every setting where a trace meets a clamp, whatever the optimiser, and elsewhere move as the length law says.
pub(super) fn as_the_theorems_say(n: &Numbers) -> bool {
    let arms: Vec<&Arm> = n.arms.iter().filter(|a| a.of_trace()).collect();
    together(n, &arms) == Verdict::Holds && law(n).is_some_and(|f| f.verdict == Verdict::Holds)
}

/// The names of settings of which something is so.
fn named<'a>(arms: &[&'a Arm], kept: impl Fn(&'a Arm) -> bool) -> Vec<String> {
    arms.iter().filter(|a| kept(a)).map(|a| a.name()).collect()
}

/// True if an interval lies within a margin around 0.
fn within(i: Interval, margin: f64) -> bool {
    -margin <= i.low && i.high <= margin
}

/// The verdict on growth where a trace meets a clamp, and nowhere else. That a setting does not change needs an interval within the margin of
/// equivalence; one that merely holds 0 tells nothing.
fn together(n: &Numbers, arms: &[&Arm]) -> Verdict {
    let expected = |a: &Arm| a.lambda > 0.0 && a.pays();
    let margin = n.margin_in_tokens();
    let missed = named(arms, |a| expected(a) && !a.lengthens());
    let moving = named(arms, |a| !expected(a) && moves(a) != 0.0);
    let wide = named(arms, |a| !expected(a) && !within(a.together, margin));
    if missed.is_empty() && !moving.is_empty() {
        let others = moving.join("; ");
        return Verdict::HoldsWhen(format!(
            "the settings have trace and clamp; the length also changes in these others: {others}"
        ));
    }
    let beyond = format!(
        "responses grow with trace and clamp, but in these other settings a change of over {margin:.2} tokens \
         ({} of the initial length) cannot be excluded",
        percent(n.margin)
    );
    unless(("with trace and clamp no growth is shown in these settings", &missed), (&beyond, &wide))
}

/// The settings of an optimiser with the paper's clamp or none.
fn of_paper(n: &Numbers, plain: bool) -> Vec<&Arm> {
    n.arms.iter().filter(|a| a.of_trace() && a.clamp == CLAMP && a.plain() == plain).collect()
}

/// The columns of a setting that a finding shows.
const SHOWN: [&str; 9] = [
    "lambda",
    "part",
    "clamp",
    "mean_advantage",
    "change",
    "change_low",
    "change_high",
    "together_low",
    "together_high",
];

/// Shows the settings of an optimiser with the paper's reduction.
fn showing(finding: Finding, optimiser: &str) -> Finding {
    finding.rows("", &SHOWN).only("optimiser", &[optimiser]).only("reduction", &[TOKEN_MEAN])
}

/// `None` if no run uses AdamW.
fn adamw(n: &Numbers) -> Option<Finding> {
    let arms = of_paper(n, false);
    let statement = "Under AdamW, too, random rewards lengthen responses with trace and clamp together, and do \
        not change their length otherwise";
    (!arms.is_empty()).then(|| {
        showing(claim("adamw", statement).verdict(together(n, &arms)), "AdamW")
            .value("learning rate", n.rates[1])
            .value("seeds", n.seeds)
    })
}

/// The settings of the length law, with the sign of the force at the start weights: `None` where its interval holds 0.
pub(super) fn of_law(n: &Numbers) -> Vec<(&Arm, Option<f64>)> {
    let sign = |[force, ..]: [Interval; 3]| match force {
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
fn moves(a: &Arm) -> f64 {
    f64::from(i8::from(a.lengthens()) - i8::from(a.shortens()))
}

/// The settings of the length law whose force is significant at the start weights, and those of them that are shown to move with its sign.
pub(super) fn forced_and_shown(n: &Numbers) -> [usize; 2] {
    let forces: Vec<(&Arm, f64)> =
        of_law(n).into_iter().filter_map(|(a, sign)| Some((a, sign.filter(|s| *s != 0.0)?))).collect();
    [forces.len(), forces.iter().filter(|(a, sign)| moves(a) == *sign).count()]
}

/// `None` without a run of the length law.
fn law(n: &Numbers) -> Option<Finding> {
    let (arms, margin) = (of_law(n), n.margin_in_tokens());
    let with = |fits: &dyn Fn(&Arm, f64) -> bool| {
        let kept = arms.iter().filter(|(a, sign)| sign.is_some_and(|s| fits(a, s)));
        kept.map(|(a, _)| a.name()).collect::<Vec<_>>()
    };
    let wrong = with(&|a, sign| moves(a) != 0.0 && moves(a) != sign);
    let unclear = with(&|a, sign| if sign == 0.0 { !within(a.together, margin) } else { moves(a) == 0.0 });
    let verdict = unless(
        ("the length changes in the other direction in these settings", &wrong),
        ("no direction is shown in these settings", &unclear),
    );
    let [forced, shown] = forced_and_shown(n);
    let statement = "Random rewards change the mean length in the direction that the length law (`length_bonus`) \
        predicts, under every reduction and map from rewards to advantages";
    (!arms.is_empty()).then(|| {
        claim("law", statement)
            .verdict(verdict)
            .value("settings", arms.len())
            .value("seeds", n.seeds)
            .value("with a force at the start weights", forced)
            .value("of them with its sign", with(&|a, sign| a.change.mid * sign > 0.0).len())
            .value("of them shown", shown)
            .value("with a force of 0, or one that is significant", with(&|_, _| true).len())
            .rows("", &[&["reduction"], &SHOWN[..], &["predicted"]].concat())
            .only("optimiser", &["SGD"])
            .note(format!("A setting moves if the interval that holds for all of them together (Bonferroni) leaves 0 out, and stays if it lies within {margin:.2} tokens."))
    })
}

fn only_together(n: &Numbers) -> Finding {
    let statement = "Random rewards lengthen responses with trace and clamp together, and do not change their \
        length otherwise";
    let verdict = together(n, &of_paper(n, true));
    showing(claim("only_together", statement).verdict(verdict), "SGD")
        .only("clamp", &[CLAMP])
        .only("part", &[ClampPart::None, ClampPart::Both, ClampPart::Reweighting].map(ClampPart::name))
        .value("steps", n.steps)
        .value("seeds", n.seeds)
        .value("mean length at the start", [n.start[1], n.start[0], n.start[2]])
        .value("settings judged together", n.arms.iter().filter(|a| a.of_trace()).count())
        .value("margin", n.margin)
        .note("Change of the mean length in tokens under plain gradient descent, mean over seeds with its 95 % interval (Student's t). A setting moves if the interval that holds for all settings together (Bonferroni) leaves 0 out. It does not change if that interval lies within the margin, a share of the start that was fixed before.")
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
    claim("dose", "The larger the mean clamped advantage ā, the more responses grow")
        .holds_or(rises && arms.len() > 2, "the mean change does not rise with ā everywhere")
        .each(&arms, |f, a| f.interval(format!("change at ā = {:.3}", a.mean_advantage), a.change))
        .value("λ", arms.first().map(|a| a.lambda))
}

/// A setting with its prediction, the excess over it, and the excess at the joint level.
type Excess<'a> = (&'a Arm, [Interval; 3]);

/// The finding on a size that is the predicted one: the 95 % interval of the excess lies within the margin of equivalence. One that merely
/// holds 0 tells nothing, and one that lies beyond at the joint level refutes it.
fn sized(n: &Numbers, claim: Claim, arms: &[Excess]) -> Finding {
    let margin = n.margin_in_tokens();
    let list = |kept: &dyn Fn(Interval, Interval) -> bool| {
        let kept = arms.iter().filter(|(_, [_, beyond, jointly])| kept(*beyond, *jointly));
        kept.map(|(a, _)| a.name()).collect::<Vec<_>>()
    };
    let off = list(&|_, jointly| jointly.low > margin || jointly.high < -margin);
    let mut wide = list(&|beyond, _| !within(beyond, margin));
    if arms.is_empty() {
        wide.push("no setting has a prediction".into());
    }
    let lies = format!("measured minus predicted change exceeds {margin:.2} tokens in these settings");
    let reach = format!("an error of over {margin:.2} tokens cannot be excluded in these settings");
    claim.verdict(unless((&lies, &off), (&reach, &wide)))
}

/// Shows the predictions, and what was measured beyond them.
fn sizes(finding: Finding, n: &Numbers, arms: &[Excess]) -> Finding {
    let margin = n.margin_in_tokens();
    let small = arms.iter().filter(|(_, [predicted, ..])| predicted.mid.abs() <= margin).count();
    finding
        .value("margin in tokens", margin)
        .value("predictions within the margin themselves", small)
        .rows(
            "",
            &["lambda", "part", "clamp", "reduction", "predicted", "beyond", "beyond_low", "beyond_high"],
        )
        .only("optimiser", &["SGD"])
}

fn predicted(n: &Numbers) -> Finding {
    let paying = n.arms.iter().filter(|a| a.of_trace() && a.lambda > 0.0 && a.pays());
    let predicted: Vec<Excess> = paying.filter_map(|a| Some((a, a.predicted?))).collect();
    let over = extremes(predicted.iter().map(|(_, [predicted, beyond, _])| 1.0 + beyond.mid / predicted.mid));
    let statement = "Responses grow by what theory predicts from the initial weights: lr ā <g_λ, ∇E[T]> / E[T] \
        per step";
    let finding = sized(n, claim("predicted", statement), &predicted).value("measured over predicted", over);
    sizes(finding, n, &predicted)
        .only("reduction", &[TOKEN_MEAN])
        .only("part", &[ClampPart::Both.name()])
        .note("Measured is the change minus that of the same random rewards without a clamp; the prediction is to first order. It counts as predicted if the 95 % interval of measured minus predicted lies within the margin.")
}

/// `None` without a run of the length law that has a force.
fn size_of_law(n: &Numbers) -> Option<Finding> {
    let forced = of_law(n).into_iter().filter(|(_, sign)| *sign != Some(0.0));
    let forced: Vec<Excess> = forced.filter_map(|(a, _)| Some((a, a.predicted?))).collect();
    let leave_0_out = |which: usize| forced.iter().filter(|(_, p)| !p[which].contains(0.0)).count();
    let statement = "In the settings that test the length law the length changes by as much as the initial weights predict";
    (!forced.is_empty()).then(|| {
        sizes(sized(n, claim("size_of_law", statement), &forced), n, &forced)
            .value("settings with a force", forced.len())
            .value("intervals without 0 at 95 %", leave_0_out(1))
            .value("intervals without 0 for all together", leave_0_out(2))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::common::words;

    fn about(mid: f64) -> Interval {
        Interval { low: mid - 0.1, mid, high: mid + 0.1, level: 0.95 }
    }

    fn arm(lambda: f64, part: &str, clamp: f64, a: f64, change: f64) -> Arm {
        Arm {
            optimiser: "SGD".into(),
            lambda,
            part: part.into(),
            clamp,
            reduction: TOKEN_MEAN.into(),
            mean_advantage: a,
            change: about(change),
            predicted: Some([10.0 * a, change - 10.0 * a, change - 10.0 * a].map(about)),
            together: about(change),
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

    /// A setting of the length law.
    fn constant(force: f64, change: f64) -> Arm {
        let predicted = Some([force, change - force, change - force].map(about));
        Arm { reduction: "constant".into(), predicted, ..arm(0.99, "both (the clamp)", CLAMP, 0.4, change) }
    }

    #[test]
    fn a_size_needs_an_interval_within_the_margin() {
        let verdict = |beyond: [Interval; 2]| {
            let mut n = numbers(0.0, 2.0, 4.0, 0.0);
            n.arms.push(constant(2.0, 2.0));
            let paying = n.arms.iter_mut().filter(|a| a.pays());
            paying.filter_map(|a| a.predicted.as_mut()).for_each(|p| p[1..].copy_from_slice(&beyond));
            words(&[predicted(&n), size_of_law(&n).unwrap()])
        };
        let i = |low, high| Interval { low, mid: (low + high) / 2.0, high, level: 0.95 };
        // A tenth of two tokens.
        assert_eq!(verdict([i(-0.15, 0.1), i(-0.3, 0.25)]), ["Holds"; 2]);
        assert_eq!(verdict([i(0.01, 0.19), i(-0.1, 0.3)]), ["Holds"; 2]);
        assert_eq!(verdict([i(-100.0, 100.0); 2]), ["Inconclusive"; 2]);
        // Beyond the margin by the interval of one setting alone, and by the joint one.
        assert_eq!(verdict([i(0.3, 0.5), i(0.1, 0.7)]), ["Inconclusive"; 2]);
        assert_eq!(verdict([i(0.3, 0.5), i(0.25, 0.55)]), ["Fails"; 2]);
    }

    #[test]
    fn the_title_needs_every_finding_that_it_heads() {
        let title = |arms: Vec<Arm>| {
            let mut n = numbers(0.0, 2.0, 4.0, 0.0);
            n.arms.extend(arms);
            super::super::shown::title(&n)
        };
        let lawful = title(vec![constant(2.0, 1.5), constant(-2.0, -1.0), constant(0.0, 0.05)]);
        assert!(lawful.contains("as the length law says"), "{lawful}");
        let unclear = title(vec![constant(2.0, 0.05), constant(-2.0, -0.05), constant(2.0, 1.5)]);
        assert!(unclear.contains("in 4 of 8 settings of trace and clamp"), "{unclear}");
        assert!(unclear.ends_with("the sign of the length law in 1 of 3"), "{unclear}");
        assert!(!title(Vec::new()).contains("law"));
    }

    #[test]
    fn the_law_is_judged_where_the_start_weights_tell_a_sign() {
        let verdict = |arms: Vec<Arm>| {
            let n = Numbers { arms, ..numbers(0.0, 2.0, 4.0, 0.0) };
            words(&law(&n).into_iter().collect::<Vec<_>>())
        };
        assert_eq!(verdict(vec![constant(2.0, 1.5), constant(-2.0, -1.0), constant(0.0, 0.05)]), ["Holds"]);
        // A force whose interval holds 0 tells no sign.
        assert_eq!(verdict(vec![constant(2.0, 1.5), constant(0.05, -3.0)]), ["Holds"]);
        assert_eq!(verdict(vec![constant(2.0, 0.05)]), ["Inconclusive"]);
        assert_eq!(verdict(vec![constant(0.0, 0.15)]), ["Fails"]);
        assert_eq!(verdict(vec![constant(2.0, -0.5)]), ["Fails"]);
        assert!(verdict(Vec::new()).is_empty());
    }

    #[test]
    fn each_verdict_follows_its_own_numbers() {
        let verdicts = |n: Numbers| words(&findings(&n));
        assert_eq!(verdicts(numbers(0.0, 2.0, 4.0, 0.0)), ["Holds"; 4]);
        assert_eq!(verdicts(numbers(3.0, 1.0, 0.0, 0.0)), ["Fails"; 4]);
        assert_eq!(verdicts(numbers(0.0, 2.0, 5.0, 3.0)), ["Holds when", "Holds", "Fails", "Holds when"]);
        // Intervals of ±0.1 about 0 are within 10 % of 2 tokens, and not of half a token.
        let short = Numbers { start: [0.5; 3], ..numbers(0.0, 2.0, 4.0, 0.0) };
        assert_eq!(verdicts(short), ["Inconclusive", "Holds", "Inconclusive", "Inconclusive"]);
    }
}
