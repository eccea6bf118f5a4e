//! Findings.

use super::{Numbers, Slope};
use crate::experiment::Finding;
use crate::experiments::common::findings::{finding, holds_or, holds_when};
use crate::experiments::common::text::{percent, rounding_error, short};
use crate::experiments::common::vectors::{EXACT, largest};
use grpo_lambda_tools::length_direction::{ARMS, POLICIES, Point};

pub(super) fn findings(n: &Numbers) -> Vec<Finding> {
    vec![bonus(n), every_lambda(n), reward_times_length(n), without_clamp(n), settings(n), horizons(n)]
}

/// The numbers of λ = 1.
fn at_one(n: &Numbers) -> Option<&super::identities::AtLambda> {
    n.noise.iter().find(|at| at.lambda == 1.0)
}

fn bonus(n: &Numbers) -> Finding {
    let off = at_one(n).map_or(f64::INFINITY, |at| at.off_bonus);
    let r = &n.rationals;
    finding(
        "With rewards that do not depend on the response, the expected update at λ = 1 is ā ∇E[T], and the clamp makes ā positive",
        holds_or(
            off < EXACT && r.different == 0 && r.not_zero > 0 && n.mean_advantage > 0.0,
            format!("off by {off:e} of its norm; {} components differ in rationals", r.different),
        ),
        format!(
            "recent, γ = 1, constant reduction: largest relative difference over {} updates of 100 random trees {}; in exact rationals {} of {} components \
             differ ({} of them not 0). ā = E[max(A, -0.1)] = {:.4} at success rate 1/2, G = 8, ddof 1",
            at_one(n).map_or(0, |at| at.cases),
            rounding_error(off),
            r.different,
            r.compared,
            r.not_zero,
            n.mean_advantage
        ),
    )
}

fn every_lambda(n: &Numbers) -> Finding {
    let off = largest(n.noise.iter().map(|at| at.off_noise));
    let each: Vec<String> = n
        .noise
        .iter()
        .map(|at| {
            format!("λ = {}: {:.4} (least {:.4}), {:.2}", at.lambda, at.cosine[1], at.cosine[0], at.norm)
        })
        .collect();
    finding(
        "For every λ it is ā Σ_t Σ_(k≤t) λ^(t-k) E[∇_k 1{T>t}]: nearly ∇E[T] long before λ = 1",
        holds_or(off < EXACT, format!("off by {off:e}")),
        format!(
            "largest difference {}. Mean cosine with ∇E[T], and norm over that of ā ∇E[T], with the clamp: {}",
            rounding_error(off),
            each.join("; ")
        ),
    )
}

fn reward_times_length(n: &Numbers) -> Finding {
    let w = &n.with_rewards;
    let [least, mean] = w.cosine_reward_times_length;
    finding(
        "At λ = 1, with rewards that do depend on the response, the expected update is ∇E[A T], REINFORCE on advantage times length",
        holds_when(
            least > 1.0 - EXACT,
            w.off < EXACT && w.off_at_prompt < EXACT,
            "the logits are those of the prompt; at depth k it is ∇E[A T] - k ∇E[A], as if every token from there on paid A",
            format!("off by {:e} at the prompt, by {:e} from the corrected form", w.off_at_prompt, w.off),
        ),
        format!(
            "{} updates of 100 random trees with their own rewards: cosine with ∇E[A T] {mean:.3} on average, {least:.3} at least; the corrected form differs by {}",
            w.cases,
            rounding_error(w.off)
        ),
    )
}

fn without_clamp(n: &Numbers) -> Finding {
    let slopes = |clamped: bool| n.slopes.iter().filter(move |s| (s.clamp != "none") == clamped);
    let moved = slopes(false).filter(|s| s.slope != 0.0).count();
    finding(
        "Without a clamp noise rewards leave the expected length alone, under every λ, reduction, style and update of the map",
        holds_or(moved == 0, format!("{moved} of {} settings move it", slopes(false).count())),
        format!("{} settings without a clamp, {} with one", slopes(false).count(), slopes(true).count()),
    )
}

fn settings(n: &Numbers) -> Finding {
    let clamped: Vec<&Slope> = n.slopes.iter().filter(|s| s.clamp != "none").collect();
    let share = |of: &dyn Fn(&Slope) -> bool| {
        let those: Vec<&&Slope> = clamped.iter().filter(|s| of(s)).collect();
        let up = those.iter().filter(|s| s.slope > 0.0).count();
        (up, those.len())
    };
    let paper = |s: &Slope| s.update == "trace" && s.lambda >= 0.98 && s.reduction == "token_mean";
    let (up, all) = share(&|_| true);
    let (paper_up, paper_all) = share(&paper);
    let words = |name: &str, (up, all): (usize, usize)| format!("{name} {up} of {all}");
    let each: Vec<String> = ["response_sum", "token_mean", "response_mean"]
        .iter()
        .flat_map(|reduction| {
            let share = &share;
            ["trace", "weight"].iter().map(move |update| {
                let name = format!("{reduction}, ε-{update}");
                words(&name, share(&|s: &Slope| s.reduction == *reduction && s.update == *update))
            })
        })
        .collect();
    finding(
        "With a clamp every setting lengthens responses under noise rewards",
        holds_when(
            up == all,
            paper_up == paper_all && paper_all > 0,
            "the update is ε-trace with λ ≥ 0.98 under the token mean, as in the paper; 1/T per response and ε-weight can shorten instead",
            format!("{} of {all} settings lengthen", up),
        ),
        format!(
            "settings with a positive slope of E[T], of a chain with a horizon of {} tokens: {}",
            super::HORIZON,
            each.join("; ")
        ),
    )
}

fn horizons(n: &Numbers) -> Finding {
    let points_of = |arm: &str| n.sweep.iter().filter(|p| p.arm == arm).cloned().collect::<Vec<Point>>();
    let least = |points: &[Point]| points.iter().map(|p| p.cosine).fold(f64::INFINITY, f64::min);
    let both = points_of(ARMS[3].name);
    let first = |policy: &str| both.iter().filter(|p| p.policy == policy).find(|p| p.cosine < 0.0);
    let turn = |policy: &str| {
        let own: Vec<Point> = both.iter().filter(|p| p.policy == policy).cloned().collect();
        match first(policy) {
            None => format!("{policy}: never negative"),
            Some(p) => format!(
                "{policy}: negative from horizon {} (E[T] = {:.1}) on, least {:.3}",
                p.horizon,
                p.mean_length,
                least(&own)
            ),
        }
    };
    let alone: Vec<String> =
        ARMS[..3].iter().map(|arm| format!("{} {:.3}", arm.name, least(&points_of(arm.name)))).collect();
    let points = |policy: &str| {
        let own = both.iter().filter(|p| p.policy == policy && [5, 7, 8, 10].contains(&p.horizon));
        own.map(|p| format!("{}: {:.3}", p.horizon, p.cosine)).collect::<Vec<_>>().join(", ")
    };
    let negative = both.iter().filter(|p| p.cosine < 0.0).count();
    finding(
        "Under the paper's settings the expected update raises J (its cosine with ∇J is positive) however long responses may become",
        holds_or(
            least(&both) > 0.0,
            format!(
                "{} of {} points are negative. {}. {}",
                percent(negative as f64 / both.len() as f64),
                both.len(),
                turn(POLICIES[0]),
                turn(POLICIES[1])
            ),
        ),
        format!(
            "eos_hazard_dependent, G = 8, z-score, token mean, λ = 0.99, clamp -0.1, exact. As in the zoo, by horizon {}. Least cosine of the other arms over all \
             horizons and both policies: {}. Where it is negative, the update's cosine with ∇E[T] is {} at least",
            points(POLICIES[0]),
            alone.join(", "),
            short(both.iter().filter(|p| p.cosine < 0.0).map(|p| p.cosine_length).fold(1.0, f64::min))
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::super::identities::{AtLambda, WithRewards};
    use super::super::rationals::Rationals;
    use super::*;
    use crate::experiments::common::findings::words;

    fn numbers(off: f64, least: f64, slopes: [f64; 3], cosine: f64) -> Numbers {
        let slope = |(clamp, reduction, slope)| Slope {
            lambda: 0.99,
            rate: 0.5,
            clamp,
            reduction,
            style: "recent",
            update: "trace",
            slope,
            multiple: slope,
            cosine: None,
        };
        let point = |arm: &grpo_lambda_tools::length_direction::Arm| Point {
            policy: POLICIES[0],
            horizon: 8,
            mean_length: 4.0,
            arm: arm.name,
            cosine,
            cosine_length: 0.8,
        };
        Numbers {
            rationals: Rationals { compared: 4, different: 0, not_zero: 2 },
            noise: vec![AtLambda {
                lambda: 1.0,
                cases: 3,
                off_noise: off,
                off_bonus: off,
                cosine: [1.0; 2],
                norm: 1.0,
            }],
            with_rewards: WithRewards {
                cases: 3,
                off,
                off_at_prompt: off,
                cosine_reward_times_length: [least, 1.0],
            },
            slopes: [
                ("none", "token_mean", slopes[0]),
                ("-0.1", "token_mean", slopes[1]),
                ("0", "response_mean", slopes[2]),
            ]
            .map(slope)
            .to_vec(),
            sweep: ARMS.iter().map(point).collect(),
            mean_advantage: 0.4,
            pushes: Vec::new(),
        }
    }

    #[test]
    fn each_verdict_follows_its_own_numbers() {
        let verdicts = |n: Numbers| words(&findings(&n));
        assert_eq!(verdicts(numbers(0.0, 1.0, [0.0, 1.0, 1.0], 0.5)), ["Holds"; 6]);
        assert_eq!(verdicts(numbers(0.1, 0.8, [1.0, -1.0, -1.0], -0.5)), ["Fails"; 6]);
        let between = verdicts(numbers(0.0, 0.8, [0.0, 1.0, -1.0], 0.5));
        assert_eq!(between, ["Holds", "Holds", "Holds when", "Holds", "Holds when", "Holds"]);
    }
}
