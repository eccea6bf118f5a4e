//! Products of token ratios that make an off-policy update the updated policy's gradient, without a clip.
//!
//! ```text
//! E_mu[ sum_t ∇tau_t c_t ] = ∇J(pi)?        tau_t = exp(sum_k E[t,k] x_k)
//! c_t = R/T    only E = 1 everywhere: tau = pi(y)/mu(y)
//! c_t = A_pi   also E[t,k] = 1{k<=t}:  the ratio of the prefix
//! ```

use grpo_lambda::trace::{Both, Recent, RowNormalised, Sequence, Token, Trace};
use grpo_lambda_mdp::expected::{Product, RatioCredit, under_ratios};
use grpo_lambda_mdp::zoo::{Random, RandomRewards};
use grpo_lambda_mdp::{Oracle, Tabular, Tree, zoo::Family};

use crate::experiments::common::vectors::{difference, extremes, largest, norm};

/// `|E - ∇J| / |∇J|` of the expected update under a trace.
fn error(tree: &Tree, behaviour: &Tabular, current: &Tabular, trace: &dyn Trace, credit: RatioCredit) -> f64 {
    let gradient = Oracle::new(tree, current).grad_j();
    let update = under_ratios(tree, behaviour, current, trace, credit);
    norm(&difference(&update, &gradient)) / norm(&gradient)
}

pub(super) struct Products {
    /// One per credit and trace.
    pub(super) rows: Vec<OfProduct>,
    pub(super) mdps: usize,
}

/// The errors of one product of ratios over random MDPs.
pub(super) struct OfProduct {
    pub(super) name: &'static str,
    pub(super) credit: RatioCredit,
    pub(super) smallest: f64,
    pub(super) largest: f64,
}

/// Errors below this are rounding.
pub(super) const EXACT: f64 = 1e-10;

impl OfProduct {
    pub(super) fn exact(&self) -> bool {
        self.largest < EXACT
    }
}

const TRACES: [(&str, &dyn Trace); 7] = [
    ("product over the response", &Product),
    ("product over the prefix", &Recent { q: 1.0 }),
    ("token (GRPO)", &Token),
    ("recent 0.9 (GRPO-λ)", &Recent { q: 0.9 }),
    ("both 0.9 (GRPO-λ)", &Both { q: 0.9 }),
    ("recent 0.9, rows normalised (P-trace recon.)", &RowNormalised(Recent { q: 0.9 })),
    ("whole response (GSPO)", &Sequence),
];

/// Examines `n` pairs of random policies, each on a random MDP of its own.
pub(super) fn products(seed: u64, n: usize) -> anyhow::Result<Products> {
    let cases = cases(seed, n)?;
    let mut rows = Vec::new();
    for credit in [RatioCredit::Outcome, RatioCredit::Advantage] {
        for (name, trace) in TRACES {
            let errors: Vec<f64> =
                cases.iter().map(|(tree, mu, pi)| error(tree, mu, pi, trace, credit)).collect();
            let (smallest, _) = extremes(errors.iter().copied());
            rows.push(OfProduct { name, credit, smallest, largest: largest(errors) });
        }
    }
    Ok(Products { rows, mdps: cases.len() })
}

/// Random MDPs, each with a sampling policy and one that is updated.
fn cases(seed: u64, n: usize) -> anyhow::Result<Vec<(Tree, Tabular, Tabular)>> {
    let mut cases = Vec::new();
    for i in 0.. {
        let rewards = if i % 2 == 0 { RandomRewards::Probabilities } else { RandomRewards::Bits };
        let family = Random {
            seed: seed.wrapping_add(i),
            symbols: 2,
            horizon: 4,
            eos: 0.5,
            rewards,
            ..Random::default()
        };
        let tree = family.tree()?;
        let (mu, pi) = (Tabular::random(&tree, i, 0.8), Tabular::random(&tree, i + 500, 0.8));
        // One-token MDPs, where all products are the same, and flat ones say nothing.
        if tree.max_len() >= 3 && norm(&Oracle::new(&tree, &pi).grad_j()) > 0.02 {
            cases.push((tree, mu, pi));
        }
        if cases.len() == n {
            break;
        }
    }
    Ok(cases)
}
