//! T3, on every MDP of the zoo whose responses all have the same length.

use grpo_lambda::trace::{Both, Recent, Trace};
use grpo_lambda_mdp::expected::{Situation, implied};
use grpo_lambda_mdp::{Oracle, Tabular};

use crate::experiments::common::mdp::Mdp;
use crate::experiments::common::methods::method;
use crate::experiments::common::vectors::{cosine, gap};

pub(super) const GROUP: usize = 4;
const MDPS: [&str; 6] = ["pivot", "lucky_guess", "needle", "deceptive", "noisy", "parity"];
const TRACES: [(&str, f64); 4] = [("recent", 0.9), ("recent", 0.99), ("both", 0.9), ("both", 0.99)];

/// GRPO-lambda's expected update under one trace.
pub(super) struct FixedLength {
    pub(super) mdp: &'static str,
    pub(super) len: usize,
    pub(super) style: &'static str,
    pub(super) lambda: f64,
    /// With the policy gradient.
    pub(super) cosine: f64,
    /// The largest difference from the policy gradient with each depth rescaled by its column sum.
    pub(super) off: f64,
}

pub(super) fn fixed_length() -> anyhow::Result<Vec<FixedLength>> {
    let mut all = Vec::new();
    for name in MDPS {
        let Mdp { tree, .. } = Mdp::named(name)?;
        let len = tree.max_len();
        anyhow::ensure!(tree.leaves().all(|l| tree.leaf_len(l) == len), "{name} has ragged responses");
        // A random policy: at the uniform one some of these have no gradient.
        let policy = Tabular::random(&tree, 1, 0.7);
        let oracle = Oracle::new(&tree, &policy);
        for (style, lambda) in TRACES {
            all.push(under_trace(name, &oracle, &policy, style, lambda)?);
        }
    }
    Ok(all)
}

fn under_trace(
    mdp: &'static str,
    oracle: &Oracle,
    policy: &Tabular,
    style: &'static str,
    lambda: f64,
) -> anyhow::Result<FixedLength> {
    let tree = oracle.tree;
    let len = tree.max_len();
    let settings = format!("style={style} lambda={lambda} scale=none clamp=none reduction=response_sum");
    let method = method("grpo_lambda", &settings)?;
    let update = implied(method.as_ref(), &Situation::on_policy(tree, policy, GROUP))?.update;
    let weights = match style {
        "recent" => Recent { q: lambda }.column_sums(len),
        _ => Both { q: lambda }.column_sums(len),
    };
    let gradient = oracle.grad_j();
    let share = (GROUP as f64 - 1.0) / GROUP as f64;
    let weight = |edge| weights[tree.depth(tree.edge_node(edge))];
    let rescaled: Vec<f64> = tree.edges().map(|e| share * weight(e) * gradient[e]).collect();
    let (cosine, off) = (cosine(&update, &gradient), gap(&update, &rescaled));
    Ok(FixedLength { mdp, len, style, lambda, cosine, off })
}
