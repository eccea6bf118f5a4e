//! G4: dividing by the length of a response.

use grpo_lambda_mdp::expected::{Situation, implied};
use grpo_lambda_mdp::zoo::Random;

use crate::experiments::common::mdp::{Mdp, random_mdps};
use crate::experiments::common::methods::method;
use crate::experiments::common::vectors::{cosine, gap};

const GROUP: usize = 4;

/// The expected update of GRPO with 1/T per response.
pub(super) struct PerResponse {
    pub(super) mdp: String,
    pub(super) mean_length: f64,
    /// With the policy gradient.
    pub(super) cosine: f64,
    /// The largest difference from the formula.
    pub(super) off: f64,
}

pub(super) fn per_response(seed: u64) -> anyhow::Result<Vec<PerResponse>> {
    let mut mdps = random_mdps(3, seed, Random { eos: 1.0, ..Random::default() })?;
    mdps.push(Mdp::named("eos_hazard_dependent")?);
    mdps.push(Mdp::named("fork")?);
    mdps.iter().map(on_mdp).collect()
}

fn on_mdp(mdp: &Mdp) -> anyhow::Result<PerResponse> {
    let method = method("grpo", "scale=none reduction=response_mean")?;
    let oracle = mdp.oracle();
    let update = implied(method.as_ref(), &Situation::on_policy(&mdp.tree, &mdp.policy, GROUP))?.update;
    // ∇E[r/T] - V0 ∇E[1/T], each as the policy gradient of an MDP with that reward.
    let gradient_of = |f: &dyn Fn(usize) -> f64| -> Vec<f64> {
        let credit = oracle.implied_credit(|leaf, _, w| w.fill(f(leaf)));
        oracle.update_of_credit(&credit)
    };
    let rate = gradient_of(&|leaf| mdp.tree.reward(leaf) / mdp.tree.leaf_len(leaf) as f64);
    let inverse = gradient_of(&|leaf| 1.0 / mdp.tree.leaf_len(leaf) as f64);
    let share = (GROUP as f64 - 1.0) / GROUP as f64;
    let formula: Vec<f64> = rate.iter().zip(&inverse).map(|(a, b)| share * (a - oracle.j * b)).collect();
    Ok(PerResponse {
        mdp: mdp.name.clone(),
        mean_length: oracle.mean_length(),
        cosine: cosine(&update, &oracle.grad_j()),
        off: gap(&formula, &update),
    })
}
