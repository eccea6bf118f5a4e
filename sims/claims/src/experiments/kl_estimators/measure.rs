//! The estimators on random pairs of distributions over three actions.

use super::{ESTIMATORS, K1, divergence, forward, moments, reverse, value};
use crate::experiments::common::mdp::{Mdp, method};
use crate::experiments::common::record::bounded;
use crate::experiments::common::{cosine, difference, gap, norm, quantile};
use grpo_lambda::kl::Kl;
use grpo_lambda_mdp::expected::{Situation, implied};
use grpo_lambda_mdp::zoo::full_tree;
use grpo_lambda_mdp::{Oracle, Tabular, Tree};
use serde::Serialize;

pub(super) const SCALES: [f64; 8] = [0.03, 0.1, 0.3, 0.5, 1.0, 1.5, 2.0, 3.0];

/// A distribution and a reference.
struct Pair {
    pi: Vec<f64>,
    reference: Vec<f64>,
}

impl Pair {
    /// `scale` is the standard deviation of the logits' difference.
    fn random(seed: u64, scale: f64) -> anyhow::Result<Pair> {
        let tree = full_tree(3, 1)?;
        let reference = Tabular::random(&tree, seed, 1.0);
        let mut policy = reference.clone();
        policy.step(&Tabular::random(&tree, seed ^ 0xfeed, 1.0).logits, scale);
        Ok(Pair { pi: policy.probs(&tree), reference: reference.probs(&tree) })
    }
}

/// The identities on all pairs, and the gap of the two gradients by distance.
#[derive(Default)]
pub(super) struct States {
    pub(super) pairs: usize,
    pub(super) at_scales: Vec<AtScale>,
    /// The largest difference of each estimator's expected gradient from the one claimed, in the order of
    /// [`ESTIMATORS`].
    pub(super) identities: [f64; 4],
    /// The largest difference of the values of k1, k3 and ratio_k3 from the divergence.
    pub(super) values: f64,
    /// The largest difference of the value of k2.
    pub(super) k2_value: f64,
    /// The lowest cosine of `∇KL(ref||π)` and `∇KL(π||ref)`, with its divergence.
    pub(super) lowest: (f64, f64),
}

/// One estimator over the pairs of one scale: medians, and 10 % and 90 % quantiles.
#[derive(Serialize)]
pub(super) struct AtScale {
    pub(super) scale: f64,
    pub(super) estimator: &'static str,
    pub(super) median_kl: f64,
    /// The cosine of the expected gradient with `∇KL(π||ref)`; `None` if that is 0.
    pub(super) cosine: Option<f64>,
    pub(super) cosine_p10: Option<f64>,
    pub(super) cosine_p90: Option<f64>,
    pub(super) norm_ratio: f64,
    pub(super) norm_ratio_p10: f64,
    pub(super) norm_ratio_p90: f64,
    /// The median variance over that of k2.
    pub(super) variance_ratio: f64,
}

/// One estimator on one pair.
struct Sample {
    cosine: f64,
    norm_ratio: f64,
    variance_ratio: f64,
}

pub(super) fn states(pairs: usize, seed: u64) -> anyhow::Result<States> {
    let mut found = States { pairs: SCALES.len() * pairs, lowest: (1.0, 0.0), ..States::default() };
    for scale in SCALES {
        let mut kls = Vec::new();
        let mut samples: [Vec<Sample>; 4] = Default::default();
        for i in 0..pairs {
            let pair = Pair::random(seed.wrapping_mul(7919).wrapping_add(i as u64), scale)?;
            kls.push(divergence(&pair.pi, &pair.reference));
            let new = found.add(&pair);
            samples.iter_mut().zip(new).for_each(|(all, sample)| all.push(sample));
        }
        for ((estimator, _), samples) in ESTIMATORS.into_iter().zip(&samples) {
            found.at_scales.push(AtScale::new(scale, estimator, quantile(&kls, 0.5), samples));
        }
    }
    Ok(found)
}

impl States {
    fn add(&mut self, Pair { pi, reference }: &Pair) -> [Sample; 4] {
        let (want, other) = (reverse(pi, reference), forward(pi, reference));
        let kl = divergence(pi, reference);
        let zero = vec![0.0; pi.len()];
        let expected = [&zero, &want, &other, &want];
        let k2 = moments(Kl::K2, pi, pi, reference).1;
        let between = cosine(&other, &want);
        if between < self.lowest.0 {
            self.lowest = (between, kl);
        }
        std::array::from_fn(|k| {
            let estimator = ESTIMATORS[k].1;
            let (mean, variance) = moments(estimator, pi, pi, reference);
            self.identities[k] = self.identities[k].max(gap(&mean, expected[k]));
            let off = (value(estimator, pi, reference) - kl).abs();
            let worst = if estimator == Kl::K2 { &mut self.k2_value } else { &mut self.values };
            *worst = worst.max(off);
            Sample {
                cosine: cosine(&mean, &want),
                norm_ratio: norm(&mean) / norm(&want),
                variance_ratio: variance / k2,
            }
        })
    }
}

impl AtScale {
    fn new(scale: f64, estimator: &'static str, median_kl: f64, samples: &[Sample]) -> AtScale {
        let values = |f: fn(&Sample) -> f64| samples.iter().map(f).collect::<Vec<_>>();
        let quantiles = |values: Vec<f64>| [0.1, 0.5, 0.9].map(|p| quantile(&values, p));
        let directed = estimator != K1;
        let [cosine_p10, cosine, cosine_p90] = quantiles(values(|s| s.cosine)).map(|c| directed.then_some(c));
        let [norm_ratio_p10, norm_ratio, norm_ratio_p90] =
            quantiles(values(|s| s.norm_ratio)).map(|ratio| if directed { ratio } else { 0.0 });
        AtScale {
            scale,
            estimator,
            median_kl,
            cosine,
            cosine_p10,
            cosine_p90,
            norm_ratio,
            norm_ratio_p10,
            norm_ratio_p90,
            variance_ratio: quantile(&values(|s| s.variance_ratio), 0.5),
        }
    }
}

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
    #[serde(rename = "difference_per_state_below", serialize_with = "bounded")]
    pub(super) off: f64,
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
        policy.step(&Tabular::random(&tree, seed.wrapping_add(1), 1.0).logits, 1.0);
        let case = Case::new(&tree, &policy, &reference);
        found.gradient_check = found.gradient_check.max(case.finite_difference(&policy));
        for (estimator, kl) in ESTIMATORS {
            // RLOO on-policy is linear: the KL term's gradient is what beta adds to the (negative) update.
            let update = |beta: f64| -> anyhow::Result<Vec<f64>> {
                let method = method("rloo", &format!("beta={beta} kl={estimator}"))?;
                let situation =
                    Situation { reference: Some(&reference), ..Situation::on_policy(&tree, &policy, 2) };
                Ok(implied(method.as_ref(), &situation)?.update)
            };
            found.rows.push(case.row(name, (estimator, kl), &difference(&update(0.0)?, &update(1.0)?)));
        }
    }
    Ok(found)
}

impl<'t> Case<'t> {
    fn new(tree: &'t Tree, policy: &Tabular, reference: &Tabular) -> Case<'t> {
        let (oracle, frozen) = (Oracle::new(tree, policy), Oracle::new(tree, reference));
        // KL between distributions of responses: E_π[Σ_t log π/ref] and its gradient, the whole log-ratio being the
        // credit.
        let log_ratio =
            |leaf| tree.path(leaf).iter().map(|&e| oracle.log_probs[e] - frozen.log_probs[e]).sum::<f64>();
        let credit = oracle.implied_credit(|leaf, _, w| w.fill(log_ratio(leaf)));
        let reverse = oracle.update_of_credit(&credit);
        let forward = per_state(tree, &frozen.visit, &oracle.probs, &frozen.probs, forward);
        Case { oracle, frozen, reverse, forward }
    }

    fn row(&self, mdp: &'static str, (estimator, kl): (&'static str, Kl), gradient: &[f64]) -> Row {
        let tree = self.oracle.tree;
        let by_visits =
            |gradient| per_state(tree, &self.oracle.visit, &self.oracle.probs, &self.frozen.probs, gradient);
        let want = match kl {
            Kl::K1 => vec![0.0; tree.edge_count()],
            Kl::K3 => by_visits(forward),
            _ => by_visits(reverse),
        };
        let directed = kl != Kl::K1;
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
