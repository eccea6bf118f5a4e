//! The KL terms of registered methods on whole responses, against the gradients of both divergences.

use grpo_lambda_mdp::expected::{Situation, implied};
use grpo_lambda_mdp::{Oracle, Tabular, Tree};
use serde::{Serialize, Serializer};

use super::{ESTIMATORS, K1, divergence, forward, reverse};
use crate::experiments::common::mdp::Mdp;
use crate::experiments::common::methods::method;
use crate::experiments::common::vectors::{EXACT, cosine, difference, gap, norm};

pub(super) const MDPS: [&str; 7] =
    ["pivot", "lucky_guess", "eos_hazard", "eos_hazard_dependent", "chain", "random", "full"];

pub(super) struct Responses {
    pub(super) rows: Vec<Row>,
    /// The largest difference of both gradients from central differences.
    pub(super) gradient_check: f64,
}

/// The expected gradient of one estimator on one MDP.
#[derive(Serialize)]
pub(super) struct Row {
    pub(super) mdp: &'static str,
    pub(super) estimator: &'static str,
    /// Cosine with `∇KL(π||ref)` of the distributions of responses; `None` for k1.
    #[serde(rename = "cosine_reverse_kl")]
    pub(super) reverse: Option<f64>,
    /// Cosine with `∇KL(ref||π)`; `None` for k1.
    #[serde(rename = "cosine_forward_kl")]
    pub(super) forward: Option<f64>,
    /// Norm over that of `∇KL(π||ref)`.
    pub(super) norm_ratio: f64,
    /// The largest difference from the gradients per state, summed over visits.
    #[serde(rename = "difference_per_state_below", serialize_with = "at_least_exact")]
    pub(super) off: f64,
}

/// Serializes rounding errors as their bound.
fn at_least_exact<S: Serializer>(x: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(if *x < EXACT { EXACT } else { *x })
}

/// An MDP with two policies, their oracles and the gradients of both divergences between their responses.
struct Case<'t> {
    oracle: Oracle<'t>,
    frozen: Oracle<'t>,
    reverse: Vec<f64>,
    forward: Vec<f64>,
}

pub(super) fn responses(seed: u64) -> anyhow::Result<Responses> {
    let mut found = Responses { rows: Vec::new(), gradient_check: 0.0 };
    for name in MDPS {
        let Mdp { tree, policy: reference, .. } = Mdp::named(name)?;
        let mut policy = reference.clone();
        policy.step(&Tabular::random(&tree, seed + 1, 1.0).logits, 1.0);
        let case = Case::new(&tree, &policy, &reference);
        found.gradient_check = found.gradient_check.max(case.finite_difference(&policy));
        for (estimator, _) in ESTIMATORS {
            // RLOO on-policy is linear: the KL term's gradient is what beta adds to the (negative) update.
            let update = |beta: f64| -> anyhow::Result<Vec<f64>> {
                let method = method("rloo", &format!("beta={beta} kl={estimator}"))?;
                let situation =
                    Situation { reference: Some(&reference), ..Situation::on_policy(&tree, &policy, 2) };
                Ok(implied(method.as_ref(), &situation)?.update)
            };
            found.rows.push(case.row(name, estimator, &difference(&update(0.0)?, &update(1.0)?)));
        }
    }
    Ok(found)
}

impl<'t> Case<'t> {
    fn new(tree: &'t Tree, policy: &Tabular, reference: &Tabular) -> Case<'t> {
        let (oracle, frozen) = (Oracle::new(tree, policy), Oracle::new(tree, reference));
        // KL between distributions of responses: E_π[Σ_t log π/ref] and its gradient, the whole log-ratio being the credit.
        let log_ratio =
            |leaf| tree.path(leaf).iter().map(|&e| oracle.log_probs[e] - frozen.log_probs[e]).sum::<f64>();
        let credit = oracle.implied_credit(|leaf, _, w| w.fill(log_ratio(leaf)));
        let reverse = oracle.update_of_credit(&credit);
        let forward = per_state(tree, &frozen.visit, &oracle.probs, &frozen.probs, forward);
        Case { oracle, frozen, reverse, forward }
    }

    fn row(&self, mdp: &'static str, estimator: &'static str, gradient: &[f64]) -> Row {
        let tree = self.oracle.tree;
        let by_visits =
            |gradient| per_state(tree, &self.oracle.visit, &self.oracle.probs, &self.frozen.probs, gradient);
        let want = match estimator {
            K1 => vec![0.0; tree.edge_count()],
            "k3" => by_visits(forward),
            _ => by_visits(reverse),
        };
        let directed = estimator != K1;
        Row {
            mdp,
            estimator,
            reverse: directed.then(|| cosine(gradient, &self.reverse)),
            forward: directed.then(|| cosine(gradient, &self.forward)),
            norm_ratio: if directed { norm(gradient) / norm(&self.reverse) } else { 0.0 },
            off: gap(gradient, &want),
        }
    }

    /// The largest difference of both gradients from central differences, over a few logits.
    fn finite_difference(&self, policy: &Tabular) -> f64 {
        let tree = self.oracle.tree;
        let both = |policy: &Tabular| {
            let now = Oracle::new(tree, policy);
            let (p, q) = (now.leaf_probs(), self.frozen.leaf_probs());
            (divergence(&p, &q), divergence(&q, &p))
        };
        let h = 1e-4;
        let mut worst = 0.0f64;
        for edge in tree.edges().take(12) {
            let at = |h: f64| {
                let mut moved = policy.clone();
                moved.logits[edge] += h;
                both(&moved)
            };
            let ((a, c), (b, d)) = (at(h), at(-h));
            worst = worst.max(((a - b) / (2.0 * h) - self.reverse[edge]).abs());
            worst = worst.max(((c - d) / (2.0 * h) - self.forward[edge]).abs());
        }
        worst
    }
}

/// A gradient per state, weighted by `visit`.
fn per_state(
    tree: &Tree,
    visit: &[f64],
    pi: &[f64],
    reference: &[f64],
    gradient: fn(&[f64], &[f64]) -> Vec<f64>,
) -> Vec<f64> {
    let mut out = vec![0.0; tree.edge_count()];
    for node in tree.nodes() {
        let edges = tree.edges_of(node);
        for (o, g) in out[edges.clone()].iter_mut().zip(gradient(&pi[edges.clone()], &reference[edges])) {
            *o = visit[node] * g;
        }
    }
    out
}
