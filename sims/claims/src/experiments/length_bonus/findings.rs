//! Findings.

use super::law::LawRow;
use super::spread::{self, ARMS as OF_TASKS, OnTask, PAPER};
use super::{Numbers, Slope};
use crate::experiment::Finding;
use crate::experiments::common::claim::claim;
use crate::experiments::common::{EXACT, average, largest, percent, rounding_error};
use grpo_lambda_tools::length_direction::{ARMS, GROUP, POLICIES, Point};

pub(super) fn findings(n: &Numbers) -> Vec<Finding> {
    let all: [fn(&Numbers) -> Finding; 7] =
        [bonus, every_lambda, without_clamp, settings, over_tasks, horizons, law];
    all.map(|finding| finding(n)).into()
}

fn bonus(n: &Numbers) -> Finding {
    let at_one = n.noise.iter().find(|at| at.lambda == 1.0);
    let r = &n.rationals;
    let exact = at_one.is_some_and(|at| at.off_bonus < EXACT) && r.different == 0 && r.not_zero > 0;
    claim(
        "bonus",
        "Under random rewards the expected update at λ = 1 is ā ∇E[T], where T is the length and ā the mean \
         advantage, which the clamp makes positive",
    )
    .holds_or(exact && n.mean_advantage > 0.0, "an update differs")
    .value("updates of 100 random trees", at_one.map(|at| at.cases))
    .value("largest relative difference", at_one.map(|at| rounding_error(at.off_bonus)))
    .value("components in exact rationals", r.compared)
    .value("of them different", r.different)
    .value("of them not 0", r.not_zero)
    .value("G", GROUP)
    .value("ā = E[max(A, -0.1)] at success rate 1/2", n.mean_advantage)
    .note("Style recent, γ = 1, constant reduction, sample standard deviation.")
}

fn every_lambda(n: &Numbers) -> Finding {
    claim(
        "every_lambda",
        "Under random rewards the expected update at any λ is ā Σ_t Σ_(k≤t) λ^(t-k) E[∇_k 1{T>t}]. Even for λ \
         well below 1 its direction is close to ∇E[T]",
    )
    .identity(largest(n.noise.iter().map(|at| at.off_noise)))
    .rows(
        "",
        &[
            "lambda",
            "cosine_with_length_gradient_mean",
            "cosine_with_length_gradient_least",
            "norm_over_bonus_mean",
        ],
    )
}

fn without_clamp(n: &Numbers) -> Finding {
    let slopes = |clamped: bool| n.slopes.iter().filter(move |s| (s.clamp != "none") == clamped);
    let moved = slopes(false).filter(|s| s.slope != 0.0).count();
    claim(
        "without_clamp",
        "Without a clamp random rewards do not change the expected length, whatever the λ, reduction, style and \
         update",
    )
    .holds_or(moved == 0, "the expected length changes in a setting")
    .value("settings that move it", moved)
    .value("settings without a clamp", slopes(false).count())
    .value("settings with one", slopes(true).count())
}

fn settings(n: &Numbers) -> Finding {
    let share = |of: &dyn Fn(&Slope) -> bool| {
        let those: Vec<&Slope> = n.slopes.iter().filter(|s| s.clamp != "none" && of(s)).collect();
        [those.iter().filter(|s| s.slope > 0.0).count(), those.len()]
    };
    let [up, all] = share(&|_| true);
    let [paper_up, paper_all] =
        share(&|s| s.update == "trace" && s.lambda >= 0.98 && s.reduction == "token_mean");
    let pairs = super::REDUCTIONS.iter().flat_map(|r| super::UPDATES.map(|u| (*r, u)));
    claim("settings", "With a clamp random rewards lengthen responses in every setting")
        .holds_when(
            up == all,
            paper_up == paper_all && paper_all > 0,
            "the update is ε-trace with λ ≥ 0.98 under the token mean, as in the paper",
            format!("responses become longer in {up} of {all} settings"),
        )
        .each(pairs, |finding, (reduction, update)| {
            let [up, all] = share(&|s| s.reduction == reduction && s.update == update);
            let name = format!("{reduction}, ε-{update}: settings that lengthen");
            finding.value(name, format!("{up} of {all}"))
        })
        .note(format!(
            "Settings with a positive slope of E[T], of a chain with a horizon of {} tokens.",
            super::HORIZON
        ))
}

/// The share of tasks on which the paper's update has a negative cosine with the gradient.
fn share_reversed(tasks: &[&OnTask], arm: usize) -> f64 {
    tasks.iter().filter(|on| on.cosine[arm] < 0.0).count() as f64 / tasks.len() as f64
}

/// A name of some tasks, and which they are.
type Kind = (&'static str, fn(&OnTask) -> bool);

fn over_tasks(n: &Numbers) -> Finding {
    let tasks = |reduction: &'static str, keep: fn(&OnTask) -> bool| -> Vec<&OnTask> {
        n.tasks.iter().filter(|on| on.reduction == reduction && keep(on)).collect()
    };
    let reversed = spread::REDUCTIONS.map(|(_, r)| (r, share_reversed(&tasks(r, |_| true), PAPER)));
    let never: Vec<&str> = reversed.iter().filter(|(_, share)| *share == 0.0).map(|(r, _)| *r).collect();
    let said = reversed.map(|(r, share)| format!("{} ({r})", percent(share))).join(" and ");
    let mut finding = claim(
        "over_tasks",
        "With the paper's settings the expected update raises J on all tasks of the zoo and all random trees, \
         under the token mean and under 1/T",
    )
    .holds_when(
        never.len() == reversed.len(),
        !never.is_empty(),
        format!("the reduction is {}; the update lowers J on these shares of the tasks: {said}", never.join(", ")),
        format!("the update lowers J on these shares of the tasks: {said}"),
    );
    let kinds: [Kind; 5] = [
        ("zoo", |on| on.family == "zoo"),
        ("random, horizon 4", |on| on.family == "random, horizon 4"),
        ("random, horizon 6", |on| on.family == "random, horizon 6"),
        ("longer is better", |on| on.longer_is_better.is_some_and(|c| c > 0.0)),
        ("shorter is better", |on| on.longer_is_better.is_some_and(|c| c < 0.0)),
    ];
    for (_, reduction) in spread::REDUCTIONS {
        for (kind, keep) in kinds {
            let own = tasks(reduction, keep);
            finding = finding
                .value(format!("{reduction}, {kind}: tasks"), own.len())
                .value(
                    format!("{reduction}, {kind}: mean cosine"),
                    average(own.iter().map(|on| on.cosine[PAPER])),
                )
                .value(format!("{reduction}, {kind}: share reversed"), share_reversed(&own, PAPER));
        }
        for (arm, (name, ..)) in OF_TASKS.iter().enumerate().take(PAPER) {
            let share = share_reversed(&tasks(reduction, |_| true), arm);
            finding = finding.value(format!("{reduction}, {name}: share reversed"), share);
        }
    }
    finding
}

fn law(n: &Numbers) -> Finding {
    let off = largest(n.law.iter().filter_map(|row| row.off));
    let sign = |x: f64| if x == 0.0 { 0.0 } else { x.signum() };
    // Constant reduction without a trace: nothing. A trace turns the sign of the other reductions where it outweighs
    // them.
    let lawful = |row: &&LawRow| match (row.lambda > 0.0, row.reduction) {
        (false, "response_sum") => row.slope_of_length == 0.0,
        (false, _) => sign(row.slope_of_length) == -sign(row.mean_advantage),
        (true, _) => sign(row.slope_of_length) == sign(row.mean_advantage),
    };
    let lawless = n.law.iter().filter(|row| !lawful(row)).count();
    claim(
        "law",
        "Under random rewards the expected update is ā times a fixed vector, for every reduction and every map \
         from rewards to advantages. If ā > 0, the expected length rises with a trace; without one it falls \
             under 1/T and the token mean, and does not change under a constant reduction",
    )
    .holds_when(
        off < EXACT && lawless == 0,
        off < EXACT,
        "under 1/T there is no trace, or a long one; a short trace under 1/T has the opposite sign",
        "a registered method differs",
    )
    .value("conventions with the other sign", lawless)
    .value("largest difference of registered methods", rounding_error(off))
    .rows("law", &["reduction", "advantages", "lambda", "mean_advantage", "slope_of_length"])
    .note(format!(
        "On-policy, G = 8, success rate 1/2, a chain of at most {} tokens; the slope is the change of E[T] per unit \
         of rate.",
        super::HORIZON
    ))
}

fn horizons(n: &Numbers) -> Finding {
    let of_arm = |arm: &'static str| n.sweep.iter().filter(move |p| p.arm == arm);
    let least = |arm| of_arm(arm).map(|p| p.cosine).fold(f64::INFINITY, f64::min);
    let both = ARMS[3].name;
    let negative: Vec<&Point> = of_arm(both).filter(|p| p.cosine < 0.0).collect();
    let first = |policy| negative.iter().find(|p| p.policy == policy).map(|p| p.horizon);
    let length = negative.iter().map(|p| p.cosine_length).fold(1.0, f64::min);
    let statement = "With the paper's settings the expected update raises J whatever the maximum length of a \
        response";
    claim("horizons", statement)
        .holds_or(least(both) > 0.0, "its cosine with ∇J is negative if responses can become long")
        .value("points", of_arm(both).count())
        .value("negative points", negative.len())
        .each(POLICIES, |f, p| f.value(format!("{p}: least horizon that is negative"), first(p)))
        .each(&ARMS, |f, arm| f.value(format!("least cosine, {}", arm.name), least(arm.name)))
        .value("least cosine with ∇E[T] where it is negative", length)
        .rows("horizon", &["horizon", "mean_length", "cosine_with_gradient", "cosine_with_length_gradient"])
        .only("arm", &[both])
        .only("policy", &[POLICIES[0]])
        .note(
            "The task eos_hazard_dependent, G = 8, z-score, token mean, λ = 0.99, clamp -0.1, exact, at the policy of \
             the zoo.",
        )
}

#[cfg(test)]
mod tests {
    use super::super::identities::AtLambda;
    use super::super::law::Rationals;
    use super::*;
    use crate::experiments::common::words;

    fn numbers(off: f64, slopes: [f64; 3], cosine: f64) -> Numbers {
        let slope = |(clamp, reduction, slope)| Slope {
            update: "trace",
            reduction,
            clamp,
            lambda: 0.99,
            slope,
            ..Slope::default()
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
            noise: vec![AtLambda { lambda: 1.0, off_noise: off, off_bonus: off, ..AtLambda::default() }],
            slopes: [
                ("none", "token_mean", slopes[0]),
                ("-0.1", "token_mean", slopes[1]),
                ("0", "response_mean", slopes[2]),
            ]
            .map(slope)
            .to_vec(),
            law: vec![
                LawRow::made_up("response_sum", 0.0, 0.5, slopes[0], off),
                LawRow::made_up("token_mean", 0.0, 0.5, -slopes[1], off),
            ],
            tasks: spread::REDUCTIONS
                .map(|(_, reduction)| OnTask {
                    reduction,
                    cosine: [1.0, 1.0, 1.0, cosine],
                    ..OnTask::default()
                })
                .to_vec(),
            sweep: ARMS.iter().map(point).collect(),
            mean_advantage: 0.4,
            ..Numbers::default()
        }
    }

    #[test]
    fn each_verdict_follows_its_own_numbers() {
        let verdicts = |n: Numbers| words(&findings(&n));
        assert_eq!(verdicts(numbers(0.0, [0.0, 1.0, 1.0], 0.5)), ["Holds"; 7]);
        assert_eq!(verdicts(numbers(0.1, [1.0, -1.0, -1.0], -0.5)), ["Fails"; 7]);
        let between = verdicts(numbers(0.0, [0.0, 1.0, -1.0], 0.5));
        assert_eq!(between, ["Holds", "Holds", "Holds", "Holds when", "Holds", "Holds", "Holds"]);
        let mut some = numbers(0.0, [0.0, 1.0, 1.0], 0.5);
        some.tasks[1].cosine[PAPER] = -0.1;
        some.law[0].slope_of_length = 0.1;
        let said = verdicts(some);
        assert_eq!([said[4], said[6]], ["Holds when"; 2]);
    }
}
