//! The printed lemma and the corrected statements, on every MDP, prefix and depth.

use crate::experiments::common::mdp::Mdp;
use crate::experiments::common::{EXACT, extremes, largest};
use anyhow::Context as _;
use grpo_lambda_mdp::zoo::{Family, LemmaCounterexample};
use grpo_lambda_mdp::{Oracle, Rules, Tabular};

/// Violations of the printed bound.
#[derive(Default)]
pub(super) struct Hazards {
    /// Path-independent hazard: violating prefixes, and all.
    pub(super) pointwise: usize,
    pub(super) prefixes: usize,
    /// Path-independent hazard: depths that violate on average over the prefixes alive.
    pub(super) on_average: usize,
    /// Path-dependent hazard: depths that violate on average, and all.
    pub(super) uneven: usize,
    pub(super) uneven_depths: usize,
}

/// Counts violations on 200 MDPs with a path-independent hazard, and on `mdps`.
pub(super) fn hazards(mdps: &[Mdp]) -> anyhow::Result<Hazards> {
    let mut found = Hazards::default();
    for seed in 0..200 {
        let Mdp { tree, mut policy, .. } = full_binary(seed)?;
        for node in tree.nodes() {
            // The symbols keep their random odds, EOS gets the probability 0.1.
            for edge in tree.edges_of(node).filter(|&e| tree.token(e) == tree.eos()) {
                let others: f64 =
                    tree.edges_of(node).filter(|&e| e != edge).map(|e| policy.logits[e].exp()).sum();
                policy.logits[edge] = (others * 0.1 / 0.9).ln();
            }
        }
        found.add_even(&Oracle::new(&tree, &policy));
    }
    // A path-dependent hazard: prefixes alive have large path products, so that the printed bound is smaller than
    // P(τ<=t).
    for violates in mdps.iter().flat_map(|m| violations_on_average(&m.oracle())) {
        found.uneven_depths += 1;
        found.uneven += usize::from(violates);
    }
    Ok(found)
}

impl Hazards {
    /// Path-independent: the product is the survival, and the lemma holds on average over the prefixes alive.
    fn add_even(&mut self, oracle: &Oracle) {
        let prefixes = prefixes(oracle);
        self.prefixes += prefixes.len();
        self.pointwise += prefixes.iter().filter(|p| Prefix::violates(p)).count();
        self.on_average += violations_on_average(oracle).into_iter().filter(|violates| *violates).count();
    }
}

/// The largest violations of the corrected statements, each by its own name.
#[derive(Default)]
pub(super) struct Corrected {
    pub(super) identity: f64,
    bound: f64,
    conditional: f64,
    discounted: f64,
    pub(super) survival: f64,
    pub(super) martingale: f64,
    spread: f64,
    noise: f64,
    pub(super) checked: usize,
}

/// Raises `old` to `new` if that is larger.
fn raise(old: &mut f64, new: f64) {
    *old = old.max(new);
}

impl Corrected {
    pub(super) fn add(&mut self, oracle: &Oracle) {
        let tree = oracle.tree;
        let (steps, gamma) = (oracle.process(), tree.gamma());
        let (products, without) = (oracle.path_products(), oracle.visits_without_eos());
        for (t, step) in steps.iter().enumerate() {
            self.checked += 1;
            let discount = gamma.powi(t as i32);
            let ended = 1.0 - step.survival;
            // Directly from the responses, not from the values.
            let received = oracle.expect(|leaf| {
                let len = tree.leaf_len(leaf);
                if len <= t { gamma.powi(len as i32 - 1) * tree.reward(leaf) } else { 0.0 }
            });
            let gap = oracle.j - discount * step.alive_value;
            raise(&mut self.identity, (gap - received).abs());
            raise(&mut self.discounted, gap - ended);
            let mean_product: f64 = tree.nodes_at(t).map(|n| without[n] * products[n]).sum();
            raise(&mut self.survival, (mean_product - step.survival).abs());
            raise(&mut self.martingale, (step.mean - oracle.j).abs());
            if t > 0 {
                raise(&mut self.spread, steps[t - 1].spread - step.spread);
                raise(&mut self.noise, step.remaining - steps[t - 1].remaining);
            }
            if gamma == 1.0 {
                raise(&mut self.bound, oracle.j - step.alive_value - ended);
                self.add_conditional(oracle.j, step.alive_value, step.survival, received);
            }
        }
        if gamma == 1.0 {
            let last = steps[tree.max_len()].spread;
            raise(&mut self.spread, (last - oracle.j * (1.0 - oracle.j)).abs());
        }
    }

    /// The bound given that the response is alive, and its form by the rewards received.
    fn add_conditional(&mut self, j: f64, alive_value: f64, survival: f64, received: f64) {
        let ended = 1.0 - survival;
        if survival > 0.0 {
            let apart = (j - alive_value / survival).abs();
            raise(&mut self.conditional, apart - ended);
            if ended > 0.0 {
                let formula = ended * (received / ended - alive_value / survival).abs();
                raise(&mut self.identity, (apart - formula).abs());
            }
        }
    }

    pub(super) fn worst(&self) -> f64 {
        largest([
            self.identity,
            self.bound,
            self.conditional,
            self.discounted,
            self.survival,
            self.martingale,
            self.spread,
            self.noise,
        ])
    }
}

/// An excess that counts as a violation.
pub(super) const VISIBLE: f64 = 1e-9;
const SYMBOLS: u32 = 2;
const HORIZON: usize = 4;

/// Two symbols and EOS everywhere, horizon 4: 14 prefixes to test per MDP. Rewards are random bits, logits standard
/// normal.
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
#[derive(Default)]
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
    let prefix = |node| {
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
    tree.nodes().skip(1).map(prefix).collect()
}

/// The counterexample of the zoo, a choice of two prefixes that end at once, and what is smaller.
#[derive(Default)]
pub(super) struct Smallest {
    pub(super) prefixes: usize,
    pub(super) responses: usize,
    /// The prefix that breaks the printed bound most.
    pub(super) worst: Prefix,
    /// The largest excess of MDPs with two prefixes.
    pub(super) excess_of_two_prefixes: f64,
}

pub(super) fn smallest() -> anyhow::Result<Smallest> {
    let tree = LemmaCounterexample.tree()?;
    let policy = Tabular::uniform(&tree);
    let all = prefixes(&Oracle::new(&tree, &policy)).into_iter();
    Ok(Smallest {
        prefixes: tree.node_count(),
        responses: tree.leaf_count(),
        worst: all.max_by(|a, b| a.excess().total_cmp(&b.excess())).context("a prefix besides the prompt")?,
        excess_of_two_prefixes: largest_excess_with_two_prefixes(),
    })
}

/// The largest excess of the printed lemma over MDPs with a prompt and one longer prefix, on a grid: EOS at the prompt
/// with probability `p` and reward `r`, else a prefix of value `v`.
fn largest_excess_with_two_prefixes() -> f64 {
    fn grid() -> impl Iterator<Item = f64> {
        (0..=20).map(|i| f64::from(i) / 20.0)
    }
    let cases = grid().flat_map(|p| grid().flat_map(move |r| grid().map(move |v| (p, r, v))));
    extremes(cases.map(|(p, r, v)| p * r + (1.0 - p) * v - v - p)).1
}

/// The depths of an MDP, each with true if the printed bound fails there even on average over the prefixes alive.
fn violations_on_average(oracle: &Oracle) -> Vec<bool> {
    let tree = oracle.tree;
    let (steps, products) = (oracle.process(), oracle.path_products());
    let violates = |t: usize| {
        let survival = steps[t].survival;
        let product: f64 = tree.nodes_at(t).map(|n| oracle.visit[n] * products[n]).sum::<f64>() / survival;
        oracle.j - steps[t].alive_value / survival > 1.0 - product + VISIBLE
    };
    (0..=tree.max_len()).filter(|&t| steps[t].survival > 0.0).map(violates).collect()
}

/// The step `E[Σ γ^k r_k] <= P(τ<=t)` of the proof.
#[derive(Default)]
pub(super) struct Success {
    /// MDPs whose rewards are all 1, as the proof assumes.
    pub(super) all_rewarded: usize,
    /// The largest excess of the step's left side.
    pub(super) worst: f64,
}

pub(super) fn success(mdps: &[Mdp]) -> Success {
    let steps = mdps.iter().flat_map(|mdp| mdp.oracle().process());
    let is_rewarded = |mdp: &&Mdp| mdp.tree.leaves().all(|l| mdp.tree.reward(l) == 1.0);
    Success {
        all_rewarded: mdps.iter().filter(is_rewarded).count(),
        worst: extremes(steps.map(|step| step.finished_reward - (1.0 - step.survival))).1,
    }
}

/// Changes of values and variances along a response.
#[derive(Default)]
pub(super) struct Values {
    /// The largest `|V(s_t) - V(s_0)|`.
    pub(super) moved: f64,
    /// Prefixes whose `Var(R|s_t)` exceeds their parent's, and all.
    pub(super) noisier: usize,
    pub(super) prefixes: usize,
    /// The largest rise of `E[Var(R|S_t)]` with t.
    pub(super) mean_rise: f64,
}

pub(super) fn values(mdps: &[Mdp]) -> Values {
    let mut found = Values::default();
    for mdp in mdps {
        let oracle = mdp.oracle();
        let variances = oracle.variances();
        for node in mdp.tree.nodes().skip(1) {
            found.moved = found.moved.max((oracle.v[node] - oracle.j).abs());
            let parent = mdp.tree.parent_edge(node).map_or(0, |e| mdp.tree.edge_node(e));
            found.noisier += usize::from(variances[node] > variances[parent] + VISIBLE);
            found.prefixes += 1;
        }
        for pair in oracle.process().windows(2) {
            found.mean_rise = found.mean_rise.max(pair[1].remaining - pair[0].remaining);
        }
    }
    found
}
