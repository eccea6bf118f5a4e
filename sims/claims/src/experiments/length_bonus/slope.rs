//! How fast the expected length moves, over the settings: rewards are noise of a success rate, responses a chain that may end anywhere.

use grpo_lambda_mdp::expected::{Situation, implied_mean};
use grpo_lambda_mdp::zoo::{EosHazard, Family};
use grpo_lambda_mdp::{Oracle, Tabular, Tree};
use rayon::prelude::*;

use crate::experiments::common::methods::method;
use crate::experiments::common::vectors::{cosine, dot, norm};
use grpo_lambda_tools::length_direction::GROUP;

/// The longest response.
pub(super) const HORIZON: usize = 24;
/// The chance of EOS after every token.
pub(super) const HAZARD: f64 = 0.08;

pub(super) const LAMBDAS: [f64; 6] = [0.0, 0.5, 0.9, 0.98, 0.99, 1.0];
pub(super) const RATES: [f64; 3] = [0.1, 0.5, 0.9];
pub(super) const CLAMPS: [&str; 2] = ["none", "-0.1"];
pub(super) const REDUCTIONS: [&str; 3] = ["response_sum", "token_mean", "response_mean"];
pub(super) const STYLES: [&str; 2] = ["recent", "both"];
pub(super) const UPDATES: [&str; 2] = ["trace", "weight"];

/// One setting.
#[derive(Clone, Debug)]
pub(super) struct Slope {
    pub(super) lambda: f64,
    pub(super) rate: f64,
    pub(super) clamp: &'static str,
    pub(super) reduction: &'static str,
    pub(super) style: &'static str,
    pub(super) update: &'static str,
    /// `<E[update], ∇E[T]>`: tokens per unit of learning rate, to first order.
    pub(super) slope: f64,
    /// `<E[update], ∇E[T]> / |∇E[T]|²`.
    pub(super) multiple: f64,
    /// Cosine with `∇E[T]`; none where the update is 0.
    pub(super) cosine: Option<f64>,
}

/// The chain with its start policy, rewards right with probability `rate`.
fn chain(rate: f64) -> anyhow::Result<(Tree, Tabular)> {
    let family = EosHazard { hazard: HAZARD, symbols: 1, horizon: HORIZON };
    let tree = family.tree()?;
    let policy = family.initial(&tree);
    Ok((tree.with_rewards(|_| rate), policy))
}

/// Every setting.
pub(super) fn map() -> anyhow::Result<Vec<Slope>> {
    let mut settings = Vec::new();
    for update in UPDATES {
        for style in STYLES {
            for reduction in REDUCTIONS {
                for clamp in CLAMPS {
                    for lambda in LAMBDAS {
                        settings.extend(RATES.map(|rate| (update, style, reduction, clamp, lambda, rate)));
                    }
                }
            }
        }
    }
    let of = |&(update, style, reduction, clamp, lambda, rate): &_| -> anyhow::Result<Slope> {
        let (tree, policy) = chain(rate)?;
        let oracle = Oracle::new(&tree, &policy);
        let length = oracle.update_of_credit(&oracle.expect_given_edge(|y| tree.leaf_len(y) as f64));
        let words =
            format!("lambda={lambda} clamp={clamp} reduction={reduction} style={style} update={update}");
        let method = method("grpo_lambda", &words)?;
        let step = implied_mean(method.as_ref(), &Situation::on_policy(&tree, &policy, GROUP))?;
        let slope = dot(&step, &length);
        // What rounding leaves of an update that is 0 has no direction.
        let moves = norm(&step) > 1e-12;
        Ok(Slope {
            lambda,
            rate,
            clamp,
            reduction,
            style,
            update,
            slope: if moves { slope } else { 0.0 },
            multiple: if moves { slope / dot(&length, &length) } else { 0.0 },
            cosine: moves.then(|| cosine(&step, &length)),
        })
    };
    settings.par_iter().map(of).collect()
}
