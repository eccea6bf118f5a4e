//! The findings.

use super::{AfterStep, Distance, GROUP, Numbers, Point, UPDATES};
use crate::experiment::Finding;
use crate::experiments::common::{finding_on, holds_or, holds_when, keyed, largest, short};
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
    finding_on(
        SentenceId::ClippedObjective,
        holds_when(
            elsewhere == 0 && where_said == 0,
            elsewhere == 0 && raised == 0.0,
            "δ_t ≥ 0 or 1-ε ≤ ratio ≤ 1+ε. For δ_t < 0 outside it differs everywhere: the gradient stays on below 1-ε, where PPO stops pushing the token down, and is off above 1+ε, where PPO pulls it back",
            format!("{elsewhere} points differ from that statement"),
        ),
        format!(
            "{} points of ratio and advantage: the forms differ at {where_said}, all with δ < 0 and the ratio outside [0.8, 1.2]; at ratio 0.5, δ = -1: slope {} against {}; at ratio 1.5: {} against {} (printed against PPO)",
            n.points.len(),
            short(below.printed.slope),
            short(below.ppo.slope),
            short(above.printed.slope),
            short(above.ppo.slope)
        ),
    )
}

fn lower_bound(n: &Numbers) -> Finding {
    let off = largest(n.points.iter().map(Point::off_formula));
    keyed(
        "lower_bound",
        "As printed, the loss is -min(ratio, 1+ε) δ for either sign of δ: the lower bound never acts",
        holds_or(off < 1e-12, format!("largest difference {}", short(off))),
        format!("largest difference over the grid {}", short(off)),
    )
}

fn on_policy(n: &Numbers) -> Finding {
    let difference = n.on_policy.difference;
    keyed(
        "on_policy",
        "On-policy (one update per batch) the two forms are the same method",
        holds_or(difference == 0.0, format!("expected updates differ by {}", short(difference))),
        format!(
            "exact expected updates on {} MDPs, G = {GROUP}: largest difference {}",
            n.on_policy.mdps,
            short(difference)
        ),
    )
}

fn trust_region(n: &Numbers) -> Finding {
    let ends: Vec<(&str, Distance)> =
        n.drifts.iter().filter_map(|d| Some((d.form, *d.steps.last()?))).collect();
    let (ppo, printed) = (ends[0].1, ends[1].1);
    let said = |(form, end): &(&str, Distance)| {
        format!("{form}: KL {}, smallest ratio {}, J {}", short(end.kl), short(end.ratio), short(end.j))
    };
    keyed(
        "trust_region",
        "\"clipping π_ratio between 1-ϵ and 1+ϵ discourages π_θ from changing too much from π_θold\", as printed too",
        holds_or(
            printed.ratio > 0.9 * ppo.ratio,
            format!(
                "after {UPDATES} expected updates on groups of the first policy the smallest token ratio is {} as printed and {} with PPO's clip, the KL {} against {} nats",
                short(printed.ratio),
                short(ppo.ratio),
                short(printed.kl),
                short(ppo.kl)
            ),
        ),
        ends.iter().map(said).collect::<Vec<_>>().join("; "),
    )
}

fn off_policy(n: &Numbers) -> Finding {
    let apart = |m: &AfterStep| (m.ppo() - m.printed()).abs();
    // The first of the largest differences, of policies that have got worse and of those that have improved.
    let worst = [false, true].map(|improved| {
        let moved = n.off_policy.iter().filter(|m| (m.step > 0.0) == improved);
        moved.reduce(|worst, m| if apart(m) > apart(worst) { m } else { worst })
    });
    let said = |m: &AfterStep| {
        format!(
            "MDP {}, step {} along ∇J: PPO {}, printed {}",
            m.mdp,
            short(m.step),
            short(m.ppo()),
            short(m.printed())
        )
    };
    keyed(
        "off_policy",
        "Off-policy the printed form gives another direction than PPO's",
        holds_or(worst.iter().flatten().any(|m| apart(m) > 1e-6), "the same everywhere"),
        format!(
            "largest differences of the cosine with ∇J at the current policy: {}. PPO's clip pulls back a policy that has improved and corrects one that has got worse; as printed it does less of both",
            worst.into_iter().flatten().map(said).collect::<Vec<_>>().join("; ")
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::super::{Drift, OnPolicy};
    use super::*;
    use crate::experiments::common::words;
    use grpo_lambda::surrogate::ValueAndSlope;

    /// The two forms as they are, on a batch whose reuse they treat alike.
    fn numbers(difference: f64, printed_ratio: f64, printed_cosine: f64) -> Numbers {
        let drift = |form, ratio| Drift { form, steps: vec![Distance { kl: 0.1, ratio, j: 0.5 }] };
        let cosines = [0.9, printed_cosine, 0.9, 0.9];
        Numbers {
            points: Point::grid(),
            examples: Point::examples(),
            on_policy: OnPolicy { mdps: 3, difference },
            off_policy: vec![AfterStep { mdp: "fork", step: 1.0, cosines, norms: [1.0; 4] }],
            drifts: vec![drift("PPO", 0.5), drift("as printed", printed_ratio)],
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
