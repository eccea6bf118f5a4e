//! The trust region of a trace: on synthetic responses, and between real pairs of policies on a long chain.

use crate::experiments::common::{norm, stream};
use grpo_lambda::trace::{Both, Recent, RowNormalised, Sequence, Token, Trace};
use grpo_lambda_mdp::zoo::{Chain, Family};
use grpo_lambda_mdp::{Oracle, Tabular, Tree};
use rand::RngExt;
use serde::Serialize;

/// `KL(behaviour || current)` over responses, in nats.
pub(super) fn divergence(tree: &Tree, behaviour: &Tabular, current: &Tabular) -> f64 {
    let sampler = Oracle::new(tree, behaviour);
    let updated = current.log_probs(tree);
    tree.edges().map(|e| sampler.edge_visit(e) * (sampler.log_probs[e] - updated[e])).sum::<f64>().max(0.0)
}

/// The rate at which one step along `update` moves `policy` by `kl` nats per response; none where `update` does not move it.
pub(super) fn rate_of(tree: &Tree, policy: &Tabular, update: &[f64], kl: f64) -> Option<f64> {
    let moved = |rate: f64| {
        let mut next = policy.clone();
        next.step(update, rate);
        divergence(tree, policy, &next)
    };
    let norm = norm(update);
    if norm < 1e-12 {
        return None;
    }
    let mut high = 1e-3 / norm;
    for _ in 0..40 {
        if moved(high) >= kl {
            break;
        }
        high *= 2.0;
    }
    if moved(high) < kl {
        return None;
    }
    let mut low = 0.0;
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if moved(middle) < kl { low = middle } else { high = middle }
    }
    Some(high)
}

/// The policy at temperature `tau`: logits divided by it.
pub(super) fn tempered(policy: &Tabular, tau: f64) -> Tabular {
    Tabular { logits: policy.logits.iter().map(|x| x / tau).collect() }
}

/// The policy with normal noise of standard deviation `sigma` on every logit.
pub(super) fn noisy(tree: &Tree, policy: &Tabular, sigma: f64, seed: u64) -> Tabular {
    let noise = Tabular::random(tree, seed, sigma).logits;
    Tabular { logits: policy.logits.iter().zip(noise).map(|(x, n)| x + n).collect() }
}

const EPSILON: f64 = 0.2;
/// Decay of the traces where nothing else is said: the paper's best.
pub(super) const Q: f64 = 0.99;
/// Tokens of the synthetic responses.
const TOKENS: usize = 64;

/// The traces of GRPO-lambda.
pub(super) const RECENT: &str = "recent (GRPO-λ)";
pub(super) const BOTH: &str = "both (GRPO-λ)";

/// A trace under the name it has in tables.
pub(super) struct Named {
    pub(super) name: &'static str,
    pub(super) trace: Box<dyn Trace>,
    /// True if its rows are non-negative and sum to 1.
    pub(super) convex: bool,
}

pub(super) fn traces(q: f64) -> Vec<Named> {
    let named = |name, trace, convex| Named { name, trace, convex };
    vec![
        named("token (GRPO)", Box::new(Token), true),
        named(RECENT, Box::new(Recent { q }), false),
        named(BOTH, Box::new(Both { q }), false),
        named("recent, rows normalised (P-trace recon.)", Box::new(RowNormalised(Recent { q })), true),
        named("both, rows normalised", Box::new(RowNormalised(Both { q })), true),
        named("whole response (GSPO)", Box::new(Sequence), true),
    ]
}

fn outside(x: f64) -> bool {
    // A hair of rounding: a convex combination of equal numbers need not be that number to the last bit.
    !((1.0 - EPSILON).ln() - 1e-12..=(1.0 + EPSILON).ln() + 1e-12).contains(&x)
}

/// The share of one trace's ratios outside the interval, over responses of 64 tokens whose log-ratios are uniform in
/// `[log(1-eps), log(1+eps)]`; a row of `atlas_off_policy_trust_region.csv`.
#[derive(Serialize)]
pub(super) struct Synthetic {
    pub(super) lambda: f64,
    pub(super) trace: &'static str,
    #[serde(skip)]
    pub(super) convex: bool,
    #[serde(rename = "share_outside")]
    pub(super) outside: f64,
    /// Share in the last quarter of the tokens.
    #[serde(rename = "share_outside_in_last_quarter")]
    pub(super) outside_late: f64,
}

/// Every trace at every decay, over `responses` responses drawn for each decay.
pub(super) fn synthetic(seed: u64, responses: usize) -> Vec<Synthetic> {
    let mut all = Vec::new();
    for (i, q) in [0.0, 0.5, 0.9, 0.95, 0.98, Q, 1.0].into_iter().enumerate() {
        let traces = traces(q);
        let mut counts = vec![[0usize; 2]; traces.len()];
        let mut rng = stream(seed, 1000 + i as u64);
        let (low, high) = ((1.0 - EPSILON).ln(), (1.0 + EPSILON).ln());
        for _ in 0..responses {
            let x: Vec<f64> = (0..TOKENS).map(|_| rng.random_range(low..high)).collect();
            for (named, count) in traces.iter().zip(&mut counts) {
                for (t, z) in named.trace.apply(&x).into_iter().enumerate() {
                    count[0] += usize::from(outside(z));
                    count[1] += usize::from(outside(z) && 4 * t >= 3 * TOKENS);
                }
            }
        }
        let tokens = (responses * TOKENS) as f64;
        all.extend(traces.iter().zip(&counts).map(|(named, count)| Synthetic {
            lambda: q,
            trace: named.name,
            convex: named.convex,
            outside: count[0] as f64 / tokens,
            outside_late: count[1] as f64 / (tokens / 4.0),
        }));
    }
    all
}

/// Shares outside the trust region for one pair of policies and a trace; a row of `atlas_off_policy_trust_region_pairs.csv`.
#[derive(Serialize)]
pub(super) struct Pair {
    pub(super) pair: String,
    /// `KL(sampler || updated)` per response.
    kl: f64,
    /// Expected share of tokens whose own ratio is outside.
    tokens_outside: f64,
    pub(super) trace: &'static str,
    #[serde(skip)]
    pub(super) convex: bool,
    /// Expected share of trace ratios outside.
    #[serde(rename = "trace_ratios_outside")]
    outside: f64,
    /// Share over the tokens of responses whose token ratios are all inside.
    #[serde(rename = "trace_ratios_outside_where_all_tokens_are_inside")]
    pub(super) outside_though_inside: f64,
}

/// A chain of 48 steps, each right with probability 0.97: long responses that can all be listed.
fn long_chain() -> anyhow::Result<(Tree, Tabular)> {
    let tree = Chain { steps: 48, options: 2, partial: true }.tree()?;
    let policy = Tabular::from_weights(&tree, |_, e| if tree.token_name(e) == "right" { 0.97 } else { 0.03 });
    Ok((tree, policy))
}

/// Real pairs on the long chain: steps of the policy gradient, of GRPO-like and noisy kinds.
pub(super) fn pairs(seed: u64) -> anyhow::Result<Vec<Pair>> {
    let (tree, policy) = long_chain()?;
    let gradient = Oracle::new(&tree, &policy).grad_j();
    let mut all = Vec::new();
    for kl in [0.001, 0.01, 0.1] {
        if let Some(rate) = rate_of(&tree, &policy, &gradient, kl) {
            let mut moved = policy.clone();
            moved.step(&gradient, rate);
            all.extend(measure(format!("step along ∇J, KL {kl}"), &tree, &policy, &moved));
        }
    }
    for sigma in [0.01, 0.03, 0.1] {
        let moved = noisy(&tree, &policy, sigma, seed);
        all.extend(measure(format!("noise {sigma} on every logit"), &tree, &policy, &moved));
    }
    for tau in [0.95, 0.9, 0.8] {
        let moved = tempered(&policy, tau);
        all.extend(measure(format!("temperature {tau}"), &tree, &policy, &moved));
    }
    Ok(all)
}

/// The rows of a pair, one for every trace.
fn measure(pair: String, tree: &Tree, sampler: &Tabular, updated: &Tabular) -> Vec<Pair> {
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
    let kl = divergence(tree, sampler, updated);
    let row = |(named, (out, though)): (&Named, (f64, f64))| Pair {
        pair: pair.clone(),
        kl,
        tokens_outside: tokens / all,
        trace: named.name,
        convex: named.convex,
        outside: out / all,
        outside_though_inside: if inside > 0.0 { though / inside } else { 0.0 },
    };
    traces.iter().zip(out.into_iter().zip(though)).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_at_the_rate_found_has_the_divergence_asked_for() {
        let (tree, policy) = long_chain().unwrap();
        let gradient = Oracle::new(&tree, &policy).grad_j();
        let mut moved = policy.clone();
        moved.step(&gradient, rate_of(&tree, &policy, &gradient, 0.02).unwrap());
        let kl = divergence(&tree, &policy, &moved);
        assert!((kl - 0.02).abs() < 1e-9, "{kl}");
        assert_eq!(rate_of(&tree, &policy, &vec![0.0; tree.edge_count()], 0.02), None);
    }

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
        for p in &pairs {
            assert!(!p.convex || p.outside_though_inside == 0.0, "{}: {}", p.pair, p.trace);
        }
        assert!(pairs.iter().any(|p| p.trace == RECENT && p.outside_though_inside > 0.05));
    }
}
