//! The printed lemma, prefix by prefix and averaged over the prefixes of one depth.

use grpo_lambda_mdp::{Oracle, Rules, Tabular};

use crate::experiments::common::mdp::Mdp;
use crate::experiments::common::vectors::{EXACT, extremes};

/// An excess that counts as a violation.
pub(super) const VISIBLE: f64 = 1e-9;
const SYMBOLS: u32 = 2;
pub(super) const HORIZON: usize = 4;

/// Two symbols and EOS everywhere, horizon 4: 14 prefixes to test per MDP. Rewards are random bits, logits standard normal.
pub(super) fn full_binary(seed: u64) -> anyhow::Result<Mdp> {
    let tree = Rules::new(["a", "b", "EOS"], HORIZON).build(|_| (0..=SYMBOLS).collect(), |_, _| 0.0)?;
    // One normal number per response; its sign is the reward.
    let signs = Tabular::random(&tree, seed ^ 0xb175, 1.0).logits;
    let mut leaf = 0;
    let tree = Rules::new(["a", "b", "EOS"], HORIZON).build(
        |_| (0..=SYMBOLS).collect(),
        |_, _| {
            leaf += 1;
            f64::from(signs[leaf - 1] > 0.0)
        },
    )?;
    let policy = Tabular::random(&tree, seed, 1.0);
    Ok(Mdp { name: format!("binary {seed}"), tree, policy })
}

/// One prefix put to the printed lemma.
pub(super) struct Prefix {
    pub(super) t: usize,
    /// `V(s_0) - V(s_t)`.
    pub(super) gap: f64,
    pub(super) bound: f64,
    /// Sufficient: the path product is at most the survival, and the value at least its mean among responses alive.
    pub(super) condition: bool,
    pub(super) path_minus_survival: f64,
}

impl Prefix {
    pub(super) fn excess(&self) -> f64 {
        self.gap - self.bound
    }

    pub(super) fn violates(&self) -> bool {
        self.excess() > VISIBLE
    }
}

/// Every prefix of an MDP but the prompt.
pub(super) fn prefixes(oracle: &Oracle) -> Vec<Prefix> {
    let tree = oracle.tree;
    let products = oracle.path_products();
    let process = oracle.process();
    let of = |node| {
        let t = tree.depth(node);
        let alive = process[t].alive_value / process[t].survival;
        Prefix {
            t,
            gap: oracle.j - oracle.v[node],
            bound: 1.0 - products[node],
            condition: products[node] <= process[t].survival + EXACT && oracle.v[node] >= alive - EXACT,
            path_minus_survival: products[node] - process[t].survival,
        }
    };
    tree.nodes().skip(1).map(of).collect()
}

/// Per depth of one MDP: what Lemma 1 is about, its corrected bound, and the printed bound averaged over prefixes alive.
pub(super) struct Depth {
    pub(super) t: usize,
    /// `|V(s_0) - E[V(S_t)|τ>t]|`.
    pub(super) distance: f64,
    /// `P(τ<=t)`.
    pub(super) corrected: f64,
    pub(super) printed: f64,
    /// The largest excess of a prefix over its printed bound.
    pub(super) worst_excess: f64,
    /// [`Depth::distance`] with its sign.
    pub(super) signed: f64,
}

impl Depth {
    /// Whether the printed bound fails even on average over the prefixes alive.
    pub(super) fn violates_on_average(&self) -> bool {
        self.signed > self.printed + VISIBLE
    }
}

pub(super) fn depths(oracle: &Oracle) -> Vec<Depth> {
    let tree = oracle.tree;
    let (steps, products) = (oracle.process(), oracle.path_products());
    let at = |t: usize| {
        let survival = steps[t].survival;
        let product: f64 = tree.nodes_at(t).map(|n| oracle.visit[n] * products[n]).sum::<f64>() / survival;
        let signed = oracle.j - steps[t].alive_value / survival;
        let excess = |n| oracle.j - oracle.v[n] - (1.0 - products[n]);
        Depth {
            t,
            distance: signed.abs(),
            corrected: 1.0 - survival,
            printed: 1.0 - product,
            worst_excess: extremes(tree.nodes_at(t).map(excess)).1,
            signed,
        }
    };
    (0..=tree.max_len()).filter(|&t| steps[t].survival > 0.0).map(at).collect()
}
