//! The direction of the expected update over many tasks: the zoo and random trees, two reductions.

use crate::experiments::common::mdp::{Mdp, method, random_mdps};
use crate::experiments::common::{cosine, norm};
use grpo_lambda_mdp::expected::{Situation, implied_mean};
use grpo_lambda_mdp::zoo::{self, Random};
use grpo_lambda_tools::length_direction::{CLAMP, GROUP};
use rayon::prelude::*;

/// Responses of the largest task of the zoo.
const LARGEST: usize = 300;
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
/// The place of the paper's algorithm.
pub(crate) const PAPER: usize = 3;

/// A task under a reduction.
#[derive(Clone, Debug)]
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
    let mut tasks: Vec<(&'static str, Mdp)> = Vec::new();
    for entry in zoo::all() {
        let mdp = Mdp::named(entry.name)?;
        if mdp.tree.leaf_count() <= LARGEST && norm(&mdp.oracle().grad_j()) > 1e-3 {
            tasks.push(("zoo", mdp));
        }
    }
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
    let (tree, oracle) = (&mdp.tree, mdp.oracle());
    let gradient = oracle.grad_j();
    let length = oracle.update_of_credit(&oracle.expect_given_edge(|y| tree.leaf_len(y) as f64));
    let under = |(setting, reduction): (&str, &'static str)| {
        let of_arm = |(_, name, clamped): (&str, &str, bool)| {
            let clamp = if clamped { CLAMP.to_string() } else { "none".into() };
            let method = method(name, &format!("reduction={setting} clamp={clamp}"))?;
            let update = implied_mean(method.as_ref(), &Situation::on_policy(tree, &mdp.policy, GROUP))?;
            anyhow::Ok(cosine(&update, &gradient))
        };
        let mut found = [f64::NAN; ARMS.len()];
        for (cosine, arm) in found.iter_mut().zip(ARMS) {
            *cosine = of_arm(arm)?;
        }
        Ok(OnTask {
            task: mdp.name.clone(),
            family,
            reduction,
            longer_is_better: (norm(&length) > 1e-9).then(|| cosine(&length, &gradient)),
            cosine: found,
        })
    };
    REDUCTIONS.into_iter().map(under).collect()
}
