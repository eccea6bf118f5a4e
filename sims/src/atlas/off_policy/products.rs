//! Which products of token ratios make an off-policy update the policy gradient of the policy that is updated, without a clip.
//!
//! ```text
//! E_mu[ sum_t ∇tau_t c_t ] = ∇J(pi)?        tau_t = exp(sum_k E[t,k] x_k)
//! c_t = R/T    only E = 1 everywhere: tau = pi(y)/mu(y)
//! c_t = A_pi   also E[t,k] = 1{k<=t}:  the ratio of the prefix
//! ```

use grpo_lambda::mdp::expected::{Product, RatioCredit, under_ratios};
use grpo_lambda::mdp::zoo::{Random, RandomRewards};
use grpo_lambda::mdp::{Oracle, Tabular, Tree, zoo::Family};
use grpo_lambda::table::Table;
use grpo_lambda::trace::{Both, Recent, RowNormalised, Sequence, Token, Trace};

use super::pairs::norm;

/// `|E - ∇J| / |∇J|` of the expected update under a trace.
pub fn error(
    tree: &Tree,
    behaviour: &Tabular,
    current: &Tabular,
    trace: &dyn Trace,
    credit: RatioCredit,
) -> f64 {
    let gradient = Oracle::new(tree, current).grad_j();
    let update = under_ratios(tree, behaviour, current, trace, credit);
    let rest: Vec<f64> = update.iter().zip(&gradient).map(|(u, g)| u - g).collect();
    norm(&rest) / norm(&gradient)
}

/// The smallest and largest error of each trace over random MDPs.
pub struct Products {
    /// One row per trace and credit.
    pub table: Table,
    /// Names of the exact ones: with the outcome, with the true advantage.
    pub exact: [Vec<&'static str>; 2],
    /// The smallest among the largest errors of the others.
    pub least: f64,
    /// MDPs examined.
    pub mdps: usize,
}

/// Errors below this are rounding.
const EXACT: f64 = 1e-10;

/// Examines `n` pairs of random policies, each on a random MDP of its own.
///
/// # Errors
/// When a knob is out of range, which a test excludes.
pub fn products(seed: u64, n: usize) -> anyhow::Result<Products> {
    let traces: [(&'static str, &dyn Trace); 7] = [
        ("product over the response", &Product),
        ("product over the prefix", &Recent { q: 1.0 }),
        ("token (GRPO)", &Token),
        ("recent 0.9 (GRPO-λ)", &Recent { q: 0.9 }),
        ("both 0.9 (GRPO-λ)", &Both { q: 0.9 }),
        ("recent 0.9, rows normalised (P-trace recon.)", &RowNormalised(Recent { q: 0.9 })),
        ("whole response (GSPO)", &Sequence),
    ];
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
    let mut table = Table::new(&["ratio", "credit", "smallest_error", "largest_error", "exact"]);
    let (mut exact, mut least) = ([Vec::new(), Vec::new()], f64::INFINITY);
    for (c, (credit, word)) in
        [(RatioCredit::Outcome, "R/T"), (RatioCredit::Advantage, "true advantage")].into_iter().enumerate()
    {
        for (name, trace) in traces {
            let errors: Vec<f64> =
                cases.iter().map(|(tree, mu, pi)| error(tree, mu, pi, trace, credit)).collect();
            let low = errors.iter().copied().fold(f64::INFINITY, f64::min);
            let high = errors.iter().copied().fold(0.0, f64::max);
            if high < EXACT {
                exact[c].push(name);
            } else {
                least = least.min(high);
            }
            let shown = |x: f64| if x < EXACT { EXACT } else { x };
            table.push(vec![
                name.into(),
                word.into(),
                shown(low).into(),
                shown(high).into(),
                if high < EXACT { "yes" } else { "no" }.into(),
            ]);
        }
    }
    Ok(Products { table, exact, least, mdps: cases.len() })
}
