//! The direction of the expected update over many tasks (the zoo and random trees, two reductions), and the credit of
//! every token of two concrete responses: a right sum and one that forgot a carry, in one group of eight.

use super::identities::length_gradient;
use crate::experiments::common::mdp::{Mdp, evaluate, group, mean_update, random_mdps, zoo_mdps};
use crate::experiments::common::{cosine, norm};
use anyhow::Context as _;
use grpo_lambda_mdp::Target;
use grpo_lambda_mdp::zoo::Random;
use grpo_lambda_tools::length_direction::{CLAMP, GROUP};
use rayon::prelude::*;
use serde::Serialize;

/// Random trees by horizon.
const TREES: [(usize, usize); 2] = [(4, 150), (6, 60)];
/// The reductions that the paper leaves open.
pub(crate) const REDUCTIONS: [(&str, &str); 2] = [("token_mean", "token mean"), ("response_mean", "1/T")];
/// The arms: GRPO, either part, both.
pub(crate) const ARMS: [(&str, &str, bool); 4] = [
    ("GRPO", "grpo", false),
    ("clamp only", "grpo", true),
    ("trace only", "grpo_lambda", false),
    ("GRPO-λ (trace and clamp)", "grpo_lambda", true),
];
/// Method and settings of an arm under a reduction.
fn registered((_, name, clamped): &(&str, &'static str, bool), reduction: &str) -> (&'static str, String) {
    let clamp = if *clamped { CLAMP.to_string() } else { "none".into() };
    (name, format!("reduction={reduction} clamp={clamp}"))
}
/// The place of the paper's algorithm.
pub(crate) const PAPER: usize = 3;

/// A task under a reduction.
#[derive(Clone, Debug, Default)]
pub(super) struct OnTask {
    pub(super) task: String,
    pub(super) family: &'static str,
    pub(super) reduction: &'static str,
    /// Cosine of `∇E[T]` and `∇J`: positive where longer is better; none where all responses are equally long.
    pub(super) longer_is_better: Option<f64>,
    /// Cosine of the expected update with `∇J` by arm.
    pub(super) cosine: [f64; ARMS.len()],
}

/// Every task under every reduction.
pub(super) fn spread(seed: u64) -> anyhow::Result<Vec<OnTask>> {
    let zoo = zoo_mdps(usize::MAX)?.into_iter().filter(|mdp| norm(&mdp.oracle().grad_j()) > 1e-3);
    let mut tasks: Vec<(&'static str, Mdp)> = zoo.map(|mdp| ("zoo", mdp)).collect();
    for (horizon, trees) in TREES {
        let family = if horizon == TREES[0].0 { "random, horizon 4" } else { "random, horizon 6" };
        let knobs = Random { symbols: 2, horizon, ..Random::default() };
        tasks.extend(random_mdps(trees, seed, knobs)?.into_iter().map(|mdp| (family, mdp)));
    }
    let all =
        tasks.par_iter().map(|(family, mdp)| on_task(family, mdp)).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(all.into_iter().flatten().collect())
}

fn on_task(family: &'static str, mdp: &Mdp) -> anyhow::Result<Vec<OnTask>> {
    let oracle = mdp.oracle();
    let gradient = oracle.grad_j();
    let length = length_gradient(&oracle);
    let under = |(setting, reduction): (&str, &'static str)| {
        let of_arm = |arm| {
            let (name, settings) = registered(arm, setting);
            anyhow::Ok(cosine(&mean_update((name, &settings), (&mdp.tree, &mdp.policy), GROUP)?, &gradient))
        };
        Ok(OnTask {
            task: mdp.name.clone(),
            family,
            reduction,
            longer_is_better: (norm(&length) > 1e-9).then(|| cosine(&length, &gradient)),
            cosine: [of_arm(&ARMS[0])?, of_arm(&ARMS[1])?, of_arm(&ARMS[2])?, of_arm(&ARMS[3])?],
        })
    };
    REDUCTIONS.into_iter().map(under).collect()
}

/// The task: 47 + 85, the least significant digit first.
const TASK: &str = "carry_add";
/// The responses that are drawn: the sum, and the digits of someone who forgot the carry into the tens.
const RESPONSES: [(&str, &[u32]); 2] = [("right", &[2, 3, 1, 10]), ("forgot the carry", &[2, 2, 1, 10])];
/// Right responses among the eight.
const RIGHT: usize = 2;

/// A token's credit; a row of `length_bonus_credit.csv`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct CreditRow {
    response: &'static str,
    place: usize,
    token: String,
    /// The arm, or the true advantage, whose credit is `Q(s,a) - V(s)`.
    of: &'static str,
    credit: f64,
}

/// The rows, by response, arm and token; the true advantage last.
pub(super) fn credit() -> anyhow::Result<Vec<CreditRow>> {
    let mdp = Mdp::named(TASK)?;
    let oracle = mdp.oracle();
    let mut rows = Vec::new();
    for (response, tokens) in RESPONSES {
        let Some(Target::Leaf(leaf)) = mdp.tree.find(tokens) else {
            anyhow::bail!("{TASK} has no response {tokens:?}");
        };
        let path = mdp.tree.path(leaf);
        let reward = mdp.tree.reward(leaf);
        // The response first, then the others of its group.
        let mut rewards = vec![reward];
        rewards.extend((1..GROUP).map(|i| f64::from(i <= RIGHT - reward as usize)));
        let logps = vec![path.iter().map(|&edge| oracle.log_probs[edge]).collect::<Vec<f64>>(); GROUP];
        let members = group(&rewards, &logps);
        let mut push = |of, credit: Vec<f64>| {
            rows.extend(path.iter().zip(credit).enumerate().map(|(place, (&edge, credit))| CreditRow {
                response,
                place,
                token: mdp.tree.token_name(edge).to_owned(),
                of,
                credit,
            }));
        };
        for arm in &ARMS {
            let (name, settings) = registered(arm, "response_sum");
            let loss = evaluate(name, &settings, &members, &logps)?;
            let own = loss.dlogps.first().context("a group has a response")?;
            push(
                arm.0.trim_end_matches(" (trace and clamp)"),
                own.iter().map(|d| -(GROUP as f64) * d).collect(),
            );
        }
        push("true advantage", path.iter().map(|&edge| oracle.advantage(edge)).collect());
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credits_are_those_of_the_formulas() {
        let rows = credit().unwrap();
        let credits = |response: &str, arm: &str| -> Vec<f64> {
            rows.iter().filter(|r| r.response == response && r.of == arm).map(|r| r.credit).collect()
        };
        // Two of eight are right: mean 1/4, sample variance (2 (3/4)² + 6 (1/4)²) / 7 = 3/14; the deviation is
        // increased by 1e-4.
        let (deviation, j) = ((3.0_f64 / 14.0).sqrt() + 1e-4, 0.6_f64.powi(3) * 0.9_f64.powi(2));
        for (response, score, reward) in
            [("right", 0.75 / deviation, 1.0), ("forgot the carry", -0.25 / deviation, 0.0)]
        {
            let column: Vec<f64> = (0..4).map(|k| (0..4 - k).map(|l| 0.99_f64.powi(l)).sum()).collect();
            for (arm, advantage, weights) in [
                ("GRPO", score, &[1.0; 4][..]),
                ("clamp only", score.max(-0.1), &[1.0; 4]),
                ("trace only", score, &column),
                ("GRPO-λ", score.max(-0.1), &column),
            ] {
                for (credit, weight) in credits(response, arm).iter().zip(weights) {
                    assert!((credit - advantage * weight).abs() < 1e-12, "{response}, {arm}: {credit}");
                }
            }
            // The advantages along a response add up to its reward minus J.
            let sum: f64 = credits(response, "true advantage").iter().sum();
            assert!((sum - (reward - j)).abs() < 1e-12, "{response}: {sum}");
        }
        assert_eq!(credits("forgot the carry", "true advantage")[2..], [0.0, 0.0]);
    }
}
