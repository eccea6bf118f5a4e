//! Does the ratio a method clips stay in the clip interval when every token's ratio does?
//!
//! ```text
//! tau_t = exp(sum_k E[t,k] x_k),     x_k in [log(1-eps), log(1+eps)] for all k
//! rows of E sum to 1, entries >= 0:  log tau_t is a convex combination of the x_k and lies in the interval, for every x
//! row sums above 1:                  it may leave it: at x_k = log(1+eps) for all k it does
//! ```

use grpo_lambda::mdp::zoo::{Chain, Family};
use grpo_lambda::mdp::{Oracle, Tabular, Tree};
use grpo_lambda::table::Table;
use grpo_lambda::trace::{Both, Recent, RowNormalised, Sequence, Token, Trace};
use rand::RngExt;

use super::pairs::{divergence, noisy, rate_of};
use crate::experiments::common::random::stream;

/// Half-width of the interval.
pub const EPSILON: f64 = 0.2;
/// Decay of the traces where nothing else is said: the paper's best.
const Q: f64 = 0.99;
/// Tokens of the synthetic responses.
const TOKENS: usize = 64;

/// A trace under the name it has in tables.
pub struct Named {
    /// The name.
    pub name: &'static str,
    /// The trace.
    pub trace: Box<dyn Trace>,
    /// Whether its rows are non-negative and sum to 1.
    pub convex: bool,
}

/// The traces of the methods, at decay `q`.
pub fn traces(q: f64) -> Vec<Named> {
    let named = |name, trace, convex| Named { name, trace, convex };
    vec![
        named("token (GRPO)", Box::new(Token), true),
        named("recent (GRPO-λ)", Box::new(Recent { q }), false),
        named("both (GRPO-λ)", Box::new(Both { q }), false),
        named("recent, rows normalised (P-trace recon.)", Box::new(RowNormalised(Recent { q })), true),
        named("both, rows normalised", Box::new(RowNormalised(Both { q })), true),
        named("whole response (GSPO)", Box::new(Sequence), true),
    ]
}

fn outside(x: f64) -> bool {
    // A hair of rounding: a convex combination of equal numbers need not be that number to the last bit.
    !((1.0 - EPSILON).ln() - 1e-12..=(1.0 + EPSILON).ln() + 1e-12).contains(&x)
}

/// Shares of trace ratios outside the interval, over responses of 64 tokens whose log-ratios are uniform in
/// `[log(1-eps), log(1+eps)]`.
pub struct Synthetic {
    /// One row per decay and trace.
    pub table: Table,
    /// The greatest share of the traces with convex rows.
    pub convex: f64,
    /// The share of `recent` and `both` at the paper's decay.
    pub paper: [f64; 2],
}

/// Draws `responses` of them.
pub fn synthetic(seed: u64, responses: usize) -> Synthetic {
    let mut table = Table::new(&["lambda", "trace", "share_outside", "share_outside_in_last_quarter"]);
    let (mut convex, mut paper) = (0.0f64, [0.0; 2]);
    for (i, q) in [0.0, 0.5, 0.9, 0.95, 0.98, Q, 1.0].into_iter().enumerate() {
        let traces = traces(q);
        let mut out = vec![[0usize; 2]; traces.len()];
        let mut rng = stream(seed, 1000 + i as u64);
        let (low, high) = ((1.0 - EPSILON).ln(), (1.0 + EPSILON).ln());
        for _ in 0..responses {
            let x: Vec<f64> = (0..TOKENS).map(|_| rng.random_range(low..high)).collect();
            for (named, out) in traces.iter().zip(&mut out) {
                for (t, z) in named.trace.apply(&x).into_iter().enumerate() {
                    out[0] += usize::from(outside(z));
                    out[1] += usize::from(outside(z) && 4 * t >= 3 * TOKENS);
                }
            }
        }
        for (j, (named, out)) in traces.iter().zip(&out).enumerate() {
            let all = (responses * TOKENS) as f64;
            let shares = [out[0] as f64 / all, out[1] as f64 / (all / 4.0)];
            table.push(vec![q.into(), named.name.into(), shares[0].into(), shares[1].into()]);
            if named.convex {
                convex = convex.max(shares[0]);
            }
            if q == Q && (j == 1 || j == 2) {
                paper[j - 1] = shares[0];
            }
        }
    }
    Synthetic { table, convex, paper }
}

/// What happens to one pair of policies.
pub struct Pair {
    /// How the two policies differ.
    pub name: String,
    /// `KL(sampler || updated)` per response.
    pub kl: f64,
    /// Expected share of tokens whose own ratio is outside.
    pub tokens: f64,
    /// Expected share of trace ratios outside, per trace.
    pub outside: Vec<f64>,
    /// The same over tokens up to which every token ratio of the response is inside.
    pub outside_though_inside: Vec<f64>,
}

/// A chain of 48 steps, each right with probability 0.97: long responses that can all be listed.
///
/// # Errors
/// When a knob is out of range, which a test excludes.
pub fn long_chain() -> anyhow::Result<(Tree, Tabular)> {
    let tree = Chain { steps: 48, options: 2, partial: true }.tree()?;
    let policy = Tabular::from_weights(&tree, |_, e| if tree.token_name(e) == "right" { 0.97 } else { 0.03 });
    Ok((tree, policy))
}

/// Real pairs on the long chain: steps of the policy gradient, of GRPO-like and noisy kinds.
///
/// # Errors
/// As [`long_chain`].
pub fn pairs(seed: u64) -> anyhow::Result<Vec<Pair>> {
    let (tree, policy) = long_chain()?;
    let gradient = Oracle::new(&tree, &policy).grad_j();
    let mut all = Vec::new();
    for kl in [0.001, 0.01, 0.1] {
        if let Some(rate) = rate_of(&tree, &policy, &gradient, kl) {
            let mut moved = policy.clone();
            moved.step(&gradient, rate);
            all.push(measure(format!("step along ∇J, KL {kl}"), &tree, &policy, &moved));
        }
    }
    for sigma in [0.01, 0.03, 0.1] {
        let moved = noisy(&tree, &policy, sigma, seed);
        all.push(measure(format!("noise {sigma} on every logit"), &tree, &policy, &moved));
    }
    for tau in [0.95, 0.9, 0.8] {
        let moved = super::pairs::tempered(&policy, tau);
        all.push(measure(format!("temperature {tau}"), &tree, &policy, &moved));
    }
    Ok(all)
}

fn measure(name: String, tree: &Tree, sampler: &Tabular, updated: &Tabular) -> Pair {
    let (behaviour, new) = (Oracle::new(tree, sampler), updated.log_probs(tree));
    let traces = traces(Q);
    let (mut all, mut inside, mut tokens) = (0.0, 0.0, 0.0);
    let (mut out, mut though) = (vec![0.0; traces.len()], vec![0.0; traces.len()]);
    for leaf in tree.leaves() {
        let p = behaviour.leaf_prob(leaf);
        let x: Vec<f64> = tree.path(leaf).iter().map(|&e| new[e] - behaviour.log_probs[e]).collect();
        let all_inside = !x.iter().any(|&x| outside(x));
        all += p * x.len() as f64;
        tokens += p * x.iter().filter(|x| outside(**x)).count() as f64;
        inside += if all_inside { p * x.len() as f64 } else { 0.0 };
        for (i, named) in traces.iter().enumerate() {
            let n = named.trace.apply(&x).into_iter().filter(|z| outside(*z)).count() as f64;
            out[i] += p * n;
            though[i] += if all_inside { p * n } else { 0.0 };
        }
    }
    Pair {
        name,
        kl: divergence(tree, sampler, updated),
        tokens: tokens / all,
        outside: out.iter().map(|x| x / all).collect(),
        outside_though_inside: though.iter().map(|x| if inside > 0.0 { x / inside } else { 0.0 }).collect(),
    }
}

/// One row per pair and trace.
pub fn table(pairs: &[Pair]) -> Table {
    let columns = [
        "pair",
        "kl",
        "tokens_outside",
        "trace",
        "trace_ratios_outside",
        "trace_ratios_outside_where_all_tokens_are_inside",
    ];
    let mut table = Table::new(&columns);
    for pair in pairs {
        for (i, named) in traces(Q).iter().enumerate() {
            table.push(vec![
                pair.name.as_str().into(),
                pair.kl.into(),
                pair.tokens.into(),
                named.name.into(),
                pair.outside[i].into(),
                pair.outside_though_inside[i].into(),
            ]);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_called_convex_are() {
        for q in [0.0, 0.5, Q, 1.0] {
            for named in traces(q) {
                let sums = (0..7).map(|t| (0..7).map(|k| named.trace.weight(t, k, 7)).sum::<f64>());
                let convex = sums.map(|s| (s - 1.0).abs()).fold(0.0, f64::max) < 1e-12;
                assert!(convex == named.convex || q == 0.0, "{} {q}", named.name);
            }
        }
    }

    #[test]
    fn real_pairs_keep_convex_traces_inside_wherever_tokens_are() {
        let pairs = pairs(1).unwrap();
        for pair in &pairs {
            for (named, share) in traces(Q).iter().zip(&pair.outside_though_inside) {
                assert!(!named.convex || *share == 0.0, "{}: {}", pair.name, named.name);
            }
        }
        assert!(pairs.iter().any(|p| p.outside_though_inside[1] > 0.05));
    }
}
