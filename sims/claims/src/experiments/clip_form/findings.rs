//! The findings.

use super::{AfterStep, FORMS, GROUP, Numbers, Point, UPDATES};
use crate::experiment::Finding;
use crate::experiments::common::claim::{claim, quoted};
use crate::experiments::common::largest;
use crate::sentences::SentenceId;

pub(super) fn findings(n: &Numbers) -> Vec<Finding> {
    vec![same_objective(n), lower_bound(n), on_policy(n), trust_region(n), off_policy(n)]
}

fn same_objective(n: &Numbers) -> Finding {
    let differs = |p: &Point| p.apart() > 1e-12;
    let where_said = n.points.iter().filter(|p| differs(p) && p.lowered_outside()).count();
    let elsewhere = n.points.iter().filter(|p| differs(p) != p.lowered_outside()).count();
    let raised = largest(n.points.iter().filter(|p| p.advantage >= 0.0).map(Point::apart));
    let [below, above] = &n.examples;
    quoted(SentenceId::ClippedObjective).holds_when(
            elsewhere == 0 && where_said == 0,
            elsewhere == 0 && raised == 0.0,
            "δ_t ≥ 0 or 1-ε ≤ ratio ≤ 1+ε. For δ_t < 0 outside it differs everywhere: the gradient stays on below \
             1-ε, where PPO stops pushing the token down, and is off above 1+ε, where PPO pulls it back",
            format!("{elsewhere} points differ from that statement"),
        )
    .value("points of ratio and advantage", n.points.len())
    .value("points that differ, all with δ < 0 and the ratio outside [0.8, 1.2]", where_said)
    .value("slopes at ratio 0.5, δ = -1, printed and PPO", [below.printed.slope, below.ppo.slope])
    .value("at ratio 1.5", [above.printed.slope, above.ppo.slope])
}

fn lower_bound(n: &Numbers) -> Finding {
    let off = largest(n.points.iter().map(Point::off_formula));
    claim(
        "lower_bound",
        "As printed, the loss is -min(ratio, 1+ε) δ for either sign of δ: the lower bound never acts",
    )
    .identity(off)
}

fn on_policy(n: &Numbers) -> Finding {
    let difference = n.on_policy.difference;
    claim("on_policy", "On-policy (one update per batch) the two forms are the same method")
        .holds_or(difference == 0.0, "expected updates differ")
        .value("MDPs", n.on_policy.mdps)
        .value("G", GROUP)
        .value("largest difference of the expected updates", difference)
}

fn trust_region(n: &Numbers) -> Finding {
    let end = |form| n.distances.iter().rfind(|d| d.form == form).map(|d| d.ratio);
    let kept = end(FORMS[1].0).zip(end(FORMS[0].0)).is_some_and(|(printed, ppo)| printed > 0.9 * ppo);
    claim("trust_region", "\"clipping π_ratio between 1-ϵ and 1+ϵ discourages π_θ from changing too much from π_θold\", as printed too").holds_or(kept, "with the printed form a policy moves farther")
    .rows("trust_region", &["form", "updates", "kl_from_sampling_policy", "smallest_ratio", "j"])
    .only("updates", &[UPDATES])
}

fn off_policy(n: &Numbers) -> Finding {
    let under = |form: &'static str| n.off_policy.iter().filter(move |m| m.form == form);
    let pairs: Vec<_> = under(FORMS[0].0).zip(under(FORMS[1].0)).collect();
    let apart = |(a, b): &(&AfterStep, &AfterStep)| (a.cosine_with_grad_j - b.cosine_with_grad_j).abs();
    let finding = claim("off_policy", "Off-policy the printed form gives another direction than PPO's")
        .holds_or(pairs.iter().any(|pair| apart(pair) > 1e-6), "the same everywhere");
    // The first of the largest differences, of policies that have got worse and of those that have improved.
    [("got worse", false), ("improved", true)].into_iter().fold(finding, |finding, (name, improved)| {
        let moved = pairs.iter().filter(|(m, _)| (m.step > 0.0) == improved);
        let Some((a, b)) = moved.reduce(|worst, m| if apart(m) > apart(worst) { m } else { worst }) else {
            return finding;
        };
        finding
            .value(format!("policy that has {name}: MDP"), a.mdp)
            .value(format!("policy that has {name}: step along ∇J"), a.step)
            .value(format!("policy that has {name}: cosine with ∇J, PPO"), a.cosine_with_grad_j)
            .value(format!("policy that has {name}: cosine, printed"), b.cosine_with_grad_j)
    })
}

#[cfg(test)]
mod tests {
    use super::super::{Distance, OnPolicy};
    use super::*;
    use crate::experiments::common::words;
    use grpo_lambda::surrogate::ValueAndSlope;

    /// The two forms as they are, on a batch whose reuse they treat equally.
    fn numbers(difference: f64, printed_ratio: f64, printed_cosine: f64) -> Numbers {
        let distance = |form, ratio| Distance { mdp: "noisy", form, updates: 1, kl: 0.1, ratio, j: 0.5 };
        let moved = |form, cosine_with_grad_j| AfterStep {
            mdp: "fork",
            step: 1.0,
            form,
            cosine_with_grad_j,
            norm: 1.0,
        };
        Numbers {
            points: Point::grid(),
            examples: Point::examples(),
            on_policy: OnPolicy { mdps: 3, difference },
            off_policy: vec![moved("PPO", 0.9), moved("as printed", printed_cosine)],
            distances: vec![distance("PPO", 0.5), distance("as printed", printed_ratio)],
        }
    }

    #[test]
    fn each_verdict_follows_its_own_numbers() {
        let verdicts = |n: Numbers| words(&findings(&n));
        assert_eq!(verdicts(numbers(0.0, 0.5, 0.9)), ["Holds when", "Holds", "Holds", "Holds", "Fails"]);
        assert_eq!(verdicts(numbers(0.1, 0.01, 0.2)), ["Holds when", "Holds", "Fails", "Fails", "Holds"]);
    }

    #[test]
    fn the_condition_on_the_forms_is_tested_point_by_point() {
        let mut same = numbers(0.0, 0.5, 0.9);
        same.points.retain(|p| !p.lowered_outside());
        assert_eq!(words(&findings(&same))[0], "Holds");
        let mut elsewhere = numbers(0.0, 0.5, 0.9);
        elsewhere.points[0].printed = ValueAndSlope { value: 7.0, slope: 7.0 };
        assert_eq!(words(&findings(&elsewhere))[..2], ["Fails", "Fails"]);
    }
}
