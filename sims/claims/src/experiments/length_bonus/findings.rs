//! Findings.

use super::law::LawRow;
use super::spread::{self, ARMS as OF_TASKS, OnTask, PAPER};
use super::{Numbers, Slope};
use crate::experiment::Finding;
use crate::experiments::common::{
    EXACT, distinct, finding, holds_or, holds_when, largest, mean, percent, rounding_error, short,
};
use grpo_lambda_tools::length_direction::{ARMS, POLICIES, Point};

pub(super) fn findings(n: &Numbers) -> Vec<Finding> {
    vec![
        bonus(n),
        every_lambda(n),
        reward_times_length(n),
        without_clamp(n),
        settings(n),
        over_tasks(n),
        horizons(n),
        law(n),
    ]
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

/// The pairs of a reduction and an update with settings that do not lengthen, and their λ.
fn not_longer(clamped: &[&Slope]) -> String {
    let pairs = distinct(clamped.iter().map(|s| (s.reduction, s.update)));
    let said = pairs.into_iter().filter_map(|pair| {
        let own: Vec<&&Slope> = clamped.iter().filter(|s| (s.reduction, s.update) == pair).collect();
        let not: Vec<&&&Slope> = own.iter().filter(|s| s.slope <= 0.0).collect();
        let lambdas = distinct(not.iter().map(|s| s.lambda.to_string()));
        let ((reduction, update), not, all) = (pair, not.len(), own.len());
        (not > 0).then(|| format!("{reduction}, ε-{update} {not} of {all} (λ = {})", lambdas.join(", ")))
    });
    said.collect::<Vec<_>>().join("; ")
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
            format!(
                "the update is ε-trace with λ ≥ 0.98 under the token mean, as in the paper; settings that do not lengthen: {}",
                not_longer(&clamped)
            ),
            format!("{} of {all} settings lengthen", up),
        ),
        format!(
            "settings with a positive slope of E[T], of a chain with a horizon of {} tokens: {}",
            super::HORIZON,
            each.join("; ")
        ),
    )
}

/// The tasks under a reduction on which something is true, and those with a cosine of `∇E[T]` and `∇J` of the sign asked for.
fn on_tasks<'a>(n: &'a Numbers, reduction: &'a str, keep: fn(&OnTask) -> bool) -> Vec<&'a OnTask> {
    n.tasks.iter().filter(|on| on.reduction == reduction && keep(on)).collect()
}

/// The share of tasks on which the paper's update has a negative cosine with the gradient.
fn share_reversed(tasks: &[&OnTask], arm: usize) -> f64 {
    tasks.iter().filter(|on| on.cosine[arm] < 0.0).count() as f64 / tasks.len() as f64
}

/// That share by reduction.
fn reversed(n: &Numbers) -> String {
    let share = |(_, reduction): (&str, &str)| {
        let all = on_tasks(n, reduction, |_| true);
        format!("{} ({reduction})", percent(share_reversed(&all, PAPER)))
    };
    spread::REDUCTIONS.map(share).join(" and ")
}

fn over_tasks(n: &Numbers) -> Finding {
    let tasks = |reduction: &'static str| on_tasks(n, reduction, |_| true);
    let never: Vec<&str> = spread::REDUCTIONS
        .iter()
        .map(|(_, reduction)| *reduction)
        .filter(|reduction| share_reversed(&tasks(reduction), PAPER) == 0.0)
        .collect();
    let mean = |tasks: &[&OnTask]| {
        let cosines: Vec<f64> = tasks.iter().map(|on| on.cosine[PAPER]).collect();
        format!(
            "{} tasks, mean cosine {:.2}, reversed on {}",
            tasks.len(),
            mean(&cosines),
            percent(share_reversed(tasks, PAPER))
        )
    };
    let each = |(_, reduction): (&str, &'static str)| {
        let families = ["zoo", "random, horizon 4", "random, horizon 6"].map(|family| {
            let own: Vec<&OnTask> = tasks(reduction).into_iter().filter(|on| on.family == family).collect();
            format!("{family}: {}", mean(&own))
        });
        let better = on_tasks(n, reduction, |on| on.longer_is_better.is_some_and(|c| c > 0.0));
        let worse = on_tasks(n, reduction, |on| on.longer_is_better.is_some_and(|c| c < 0.0));
        let others: Vec<String> = (0..PAPER)
            .map(|arm| format!("{} {}", OF_TASKS[arm].0, percent(share_reversed(&tasks(reduction), arm))))
            .collect();
        format!(
            "{reduction}. {}. Where longer responses are better (<∇E[T], ∇J> > 0): {}; where shorter ones are: {}. Share reversed, other arms: {}",
            families.join("; "),
            mean(&better),
            mean(&worse),
            others.join(", ")
        )
    };
    finding(
        "Over random trees and the zoo the expected update of the paper's settings raises J (its cosine with ∇J is positive), under the token mean and under 1/T",
        holds_when(
            never.len() == spread::REDUCTIONS.len(),
            !never.is_empty(),
            format!("the reduction is {}; reversed on {}", never.join(", "), reversed(n)),
            format!("it is reversed on {}", reversed(n)),
        ),
        spread::REDUCTIONS.map(each).join(". "),
    )
}

fn law(n: &Numbers) -> Finding {
    let off = largest(n.law.iter().filter_map(|row| row.off));
    let sign = |x: f64| if x == 0.0 { 0.0 } else { x.signum() };
    // Constant reduction without a trace: nothing. A trace turns the sign of the other reductions where it outweighs them.
    let lawful = |row: &&LawRow| match (row.lambda > 0.0, row.reduction) {
        (false, "response_sum") => row.slope_of_length == 0.0,
        (false, _) => sign(row.slope_of_length) == -sign(row.mean_advantage),
        (true, _) => sign(row.slope_of_length) == sign(row.mean_advantage),
    };
    let other: Vec<String> = n.law.iter().filter(|row| !lawful(row)).map(named).collect();
    finding(
        "Under noise rewards the force on the length is ā times one vector for every reduction and every map of rewards to advantages: none without an offset or under a constant reduction; with ā > 0 shorter responses under 1/T and the token mean, longer ones with a trace",
        holds_when(
            off < EXACT && other.is_empty(),
            off < EXACT,
            format!(
                "the trace is left out of, or long enough for, 1/T: the sign is the other one for {}",
                other.join("; ")
            ),
            format!("off by {off:e}"),
        ),
        format!(
            "on-policy, G = 8, success rate 1/2, a chain of at most {} tokens; largest difference of registered methods {}. Change of E[T] per unit of rate: {}",
            super::HORIZON,
            rounding_error(off),
            n.law.iter().filter(|row| row.mean_advantage != 0.0).map(named).collect::<Vec<_>>().join("; ")
        ),
    )
}

/// A convention with its slope.
fn named(row: &LawRow) -> String {
    let trace = if row.lambda > 0.0 { format!(", λ = {}", row.lambda) } else { String::new() };
    format!("{}, {}{trace} {:+.3}", row.reduction, row.advantages, row.slope_of_length)
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
    use super::super::law::Rationals;
    use super::*;
    use crate::experiments::common::words;

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
            credit: Vec::new(),
            law: vec![
                LawRow::made_up("response_sum", 0.0, 0.5, slopes[0], off),
                LawRow::made_up("token_mean", 0.0, 0.5, -slopes[1], off),
            ],
            tasks: spread::REDUCTIONS
                .map(|(_, reduction)| OnTask {
                    task: "a".into(),
                    family: "zoo",
                    reduction,
                    longer_is_better: Some(-1.0),
                    cosine: [1.0, 1.0, 1.0, cosine],
                })
                .to_vec(),
            sweep: ARMS.iter().map(point).collect(),
            mean_advantage: 0.4,
            pushes: Vec::new(),
        }
    }

    #[test]
    fn the_pairs_that_do_not_lengthen_are_named_and_no_others() {
        let mut n = numbers(0.0, 1.0, [0.0, 1.0, 1.0], 0.5);
        let [paper, other] = [n.slopes[1].clone(), n.slopes[2].clone()];
        n.slopes.extend([
            Slope { lambda: 0.0, slope: 0.0, ..paper.clone() },
            Slope { lambda: 0.5, slope: -0.1, ..other.clone() },
            Slope { update: "weight", ..other },
            Slope { update: "weight", slope: -0.1, ..paper },
        ]);
        assert_eq!(
            settings(&n).verdict.detail(),
            "the update is ε-trace with λ ≥ 0.98 under the token mean, as in the paper; settings that do not lengthen: \
             token_mean, ε-trace 1 of 2 (λ = 0); response_mean, ε-trace 1 of 2 (λ = 0.5); token_mean, ε-weight 1 of 1 (λ = 0.99)"
        );
    }

    #[test]
    fn each_verdict_follows_its_own_numbers() {
        let verdicts = |n: Numbers| words(&findings(&n));
        assert_eq!(verdicts(numbers(0.0, 1.0, [0.0, 1.0, 1.0], 0.5)), ["Holds"; 8]);
        assert_eq!(verdicts(numbers(0.1, 0.8, [1.0, -1.0, -1.0], -0.5)), ["Fails"; 8]);
        let between = verdicts(numbers(0.0, 0.8, [0.0, 1.0, -1.0], 0.5));
        assert_eq!(between[..6], ["Holds", "Holds", "Holds when", "Holds", "Holds when", "Holds"]);
        assert_eq!(between[6..], ["Holds"; 2]);
        let mut some = numbers(0.0, 1.0, [0.0, 1.0, 1.0], 0.5);
        some.tasks[1].cosine[PAPER] = -0.1;
        some.law[0].slope_of_length = 0.1;
        let said = verdicts(some);
        assert_eq!([said[5], said[7]], ["Holds when"; 2]);
    }
}
