//! The length law of the conventions: the force on the length under noise rewards, for any reduction, trace and map of
//! rewards to advantages.
//!
//! ```text
//! E[g] = ā U,   U = E[ ρ Σ_k c_k(T) ∇_k ],   ā = E[A]          ρ: the weight that the reduction gives a response's tokens
//! U = ∇E[ρ] without a trace (c = 1), frozen in the other responses:   constant 0,   1/T per response ∇E[1/T],   token mean ∇E[1/ΣT]
//! ```
//! **Proof.** Rewards are independent of the tokens, and ρ and c are functions of lengths, so that the mean of A comes
//! out. Without a trace
//! `E[ρ Σ_k ∇_k] = E[ρ ∇log π(y)] = ∇E[ρ]`. ∎ No offset (ā = 0), no force. Where only stopping is decided, a weight
//! that falls with the length makes `<∇E[ρ], ∇E[T]>` negative: a positive ā shortens there, a negative one lengthens.

use super::identities::{length_gradient, mean_advantage};
use super::{HORIZON, chain};
use crate::experiments::common::mdp::mean_update;
use crate::experiments::common::{dot, gap, norm};
use grpo_lambda::trace::{Recent, Trace};
use grpo_lambda_mdp::zoo::{Family, Random};
use grpo_lambda_mdp::{EdgeId, Oracle, Target, Tree};
use grpo_lambda_tools::length_direction::{CLAMP, GROUP};
use num_rational::Ratio;
use num_traits::Zero;
use serde::Serialize;

/// The success rate of the noise.
const RATE: f64 = 0.5;
/// λ of the rows with a trace.
const LAMBDA: f64 = 0.99;
/// The shift of the baseline below the mean reward.
const SHIFT: f64 = 0.1;

/// A reduction: its setting, and the frameworks that have it.
const REDUCTIONS: [(&str, &str, Weights); 3] = [
    ("response_sum", "Dr. GRPO", Weights::Constant),
    ("response_mean", "GRPO, 1/T", Weights::Response),
    ("token_mean", "DAPO, token mean", Weights::Tokens),
];

/// A convention under noise rewards, on a chain that may end after every token; a row of `length_bonus_law.csv`.
#[derive(Clone, Debug, Serialize)]
pub(super) struct LawRow {
    pub(super) reduction: &'static str,
    pub(super) of: &'static str,
    pub(super) lambda: f64,
    /// The map from rewards to advantages.
    pub(super) advantages: &'static str,
    pub(super) mean_advantage: f64,
    /// `<E[g], ∇E[T]>`: tokens per unit of learning rate, to first order.
    pub(super) slope_of_length: f64,
    /// Largest difference of a registered method's expected update to the law, over that of the law's vector; none
    /// where no method has the map.
    pub(super) off: Option<f64>,
}

/// A map of rewards to advantages: its name, its mean advantage, and the method with the settings that has it, if one
/// does.
type Map = (&'static str, f64, Option<(&'static str, String)>);

/// The maps with their mean advantages, and the method and settings that have them on-policy.
fn maps(trace: bool) -> Vec<Map> {
    let score = |clamp: Option<f64>| {
        let clamp = clamp.map_or("none".to_owned(), |c| c.to_string());
        let name = if trace { "grpo_lambda" } else { "grpo" };
        let lambda = if trace { format!(" lambda={LAMBDA}") } else { String::new() };
        Some((name, format!("clamp={clamp}{lambda}")))
    };
    let signed = |positive: u8, negative: u8| {
        (!trace).then(|| ("w_reinforce", format!("positive_weight={positive} negative_weight={negative}")))
    };
    // The upper clip acts where a ratio is not 1, which none is on-policy.
    let higher = (!trace).then(|| ("grpo", "clamp=none epsilon_high=0.28".to_owned()));
    vec![
        ("z-score", 0.0, score(None)),
        ("z-score, higher upper clip", 0.0, higher),
        ("z-score clamped at -0.1", mean_advantage(Some(CLAMP), GROUP, RATE), score(Some(CLAMP))),
        ("reward minus a baseline 0.1 below its mean (AsymRE)", SHIFT, None),
        ("right responses only", RATE, signed(1, 0)),
        ("wrong responses only", RATE - 1.0, signed(0, 1)),
    ]
}

/// Every convention.
pub(super) fn law() -> anyhow::Result<Vec<LawRow>> {
    let (tree, policy) = chain(RATE)?;
    let oracle = Oracle::new(&tree, &policy);
    let length = length_gradient(&oracle);
    let lengths = oracle.length_distribution();
    let others = (1..GROUP).fold(vec![1.0], |sum, _| convolved(&sum, &lengths));
    let mut rows = Vec::new();
    for lambda in [0.0, LAMBDA] {
        for (reduction, of, weights) in REDUCTIONS {
            // By the length of the response: its weight in the mean over responses, given the others where they matter.
            let weight = |t: usize| match weights {
                _ if t == 0 => 0.0,
                Weights::Constant | Weights::Trace => 1.0,
                Weights::Response => 1.0 / t as f64,
                Weights::Tokens => {
                    others.iter().enumerate().map(|(s, p)| p * GROUP as f64 / (s + t) as f64).sum()
                }
            };
            let weights: Vec<f64> = (0..=HORIZON).map(weight).collect();
            let credit = oracle.implied_credit(|y, _, w| {
                let t = tree.leaf_len(y);
                let columns = Recent { q: lambda }.column_sums(t);
                w.iter_mut().zip(columns).for_each(|(w, c)| *w = weights[t] * c);
            });
            let unit = oracle.update_of_credit(&credit);
            for (advantages, mean_advantage, registered) in maps(lambda > 0.0) {
                let off = |(name, settings): (&str, String)| -> anyhow::Result<f64> {
                    let settings = format!("{settings} reduction={reduction}");
                    let update = mean_update((name, &settings), (&tree, &policy), GROUP)?;
                    let want: Vec<f64> = unit.iter().map(|u| mean_advantage * u).collect();
                    Ok(gap(&update, &want) / norm(&length))
                };
                let slope = mean_advantage * dot(&unit, &length);
                rows.push(LawRow {
                    reduction,
                    of,
                    lambda,
                    advantages,
                    mean_advantage,
                    // Under a constant reduction the vector is 0 but for rounding.
                    slope_of_length: if slope.abs() < 1e-12 { 0.0 } else { slope },
                    off: registered.map(off).transpose()?,
                });
            }
        }
    }
    Ok(rows)
}

/// The chances of a sum of two independent numbers.
fn convolved(a: &[f64], b: &[f64]) -> Vec<f64> {
    let mut sum = vec![0.0; a.len() + b.len() - 1];
    for (i, p) in a.iter().enumerate() {
        b.iter().enumerate().for_each(|(j, q)| sum[i + j] += p * q);
    }
    sum
}

#[cfg(test)]
impl LawRow {
    /// A row with these numbers.
    pub(super) fn made_up(
        reduction: &'static str,
        lambda: f64,
        mean_advantage: f64,
        slope: f64,
        off: f64,
    ) -> LawRow {
        let (of, advantages) = ("made up", "made up");
        LawRow { reduction, of, lambda, advantages, mean_advantage, slope_of_length: slope, off: Some(off) }
    }
}

type Rational = Ratio<i128>;

/// The largest tree, in responses.
const RESPONSES: usize = 6;
/// Trees examined.
const TREES: u64 = 40;

/// Components of expected updates: compared, and different.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rationals {
    pub(super) compared: usize,
    pub(super) different: usize,
    /// Compared components that are not 0.
    pub(super) not_zero: usize,
}

/// A map from the reward of a response and the mean of its group to an advantage.
type RewardMap = fn(Rational, Rational) -> Rational;

/// No clamp, the paper's, a baseline a tenth below the mean, right responses only, wrong ones only.
const MAPS: [RewardMap; 5] = [
    |r, mean| r - mean,
    |r, mean| (r - mean).max(-tenth()),
    |r, mean| r - mean + tenth(),
    |r, _| r,
    |r, _| r - 1,
];

/// The weights of a response's tokens.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Weights {
    /// `T - k` under a constant reduction: the trace at λ = 1.
    Trace,
    /// 1, without a trace.
    Constant,
    /// `1/T`.
    Response,
    /// `G/ΣT`.
    Tokens,
}

/// Rewards right with probability 1/3, every map and reduction: the expected update against `ā ∇E[T]` with the trace,
/// `ā ∇E[ρ]` without.
pub(super) fn in_rationals() -> anyhow::Result<Rationals> {
    let mut found = Rationals::default();
    for seed in 0..TREES {
        let tree = Random { seed, symbols: 2, horizon: 3, eos: 1.0, ..Random::default() }.tree()?;
        if tree.leaf_count() > RESPONSES || tree.leaf_count() < 2 {
            continue;
        }
        let task = Task::new(&tree);
        for group in [2, 3] {
            for weights in [Weights::Trace, Weights::Constant, Weights::Response, Weights::Tokens] {
                MAPS.iter().for_each(|map| found.add(&task, group, *map, weights));
            }
        }
    }
    Ok(found)
}

/// The paper's clamp, without its sign.
fn tenth() -> Rational {
    Rational::new(1, 10)
}

struct Task<'t> {
    tree: &'t Tree,
    /// `π(a|s)` per edge.
    probability: Vec<Rational>,
    /// `(path, probability)` of every response.
    responses: Vec<(Vec<EdgeId>, Rational)>,
}

impl<'t> Task<'t> {
    fn new(tree: &'t Tree) -> Task<'t> {
        // Weights 1, 2, 3, 1, .. over the edges of a prefix.
        let weight = |e: EdgeId| 1 + (e % 3) as i128;
        let probability = |e: EdgeId| {
            let total: i128 = tree.edges_of(tree.edge_node(e)).map(weight).sum();
            Rational::new(weight(e), total)
        };
        let probability: Vec<Rational> = tree.edges().map(probability).collect();
        let response = |leaf| {
            let path = tree.path(leaf);
            let p = path.iter().fold(Rational::from_integer(1), |p, &e| p * probability[e]);
            (path, p)
        };
        let responses = tree.leaves().map(response).collect();
        Task { tree, probability, responses }
    }

    /// `∂E[f(T)]/∂θ` per edge: `d(s) π(a|s) (E[f|s,a] - E[f|s])`.
    fn gradient_of(&self, f: impl Fn(usize) -> Rational) -> Vec<Rational> {
        let tree = self.tree;
        let mut of_node = vec![Rational::zero(); tree.node_count()];
        let mut of_edge = vec![Rational::zero(); tree.edge_count()];
        for node in tree.nodes().rev() {
            for edge in tree.edges_of(node) {
                of_edge[edge] = match tree.target(edge) {
                    Target::Leaf(leaf) => f(tree.leaf_len(leaf)),
                    Target::Node(child) => of_node[child],
                };
                of_node[node] += self.probability[edge] * of_edge[edge];
            }
        }
        let mut visit = vec![Rational::from_integer(1); tree.node_count()];
        for node in tree.nodes() {
            if let Some(edge) = tree.parent_edge(node) {
                visit[node] = visit[tree.edge_node(edge)] * self.probability[edge];
            }
        }
        let component = |e: EdgeId| {
            let node = tree.edge_node(e);
            visit[node] * self.probability[e] * (of_edge[e] - of_node[node])
        };
        tree.edges().map(component).collect()
    }

    /// The law's vector: `∇E[T]` with the trace, else `∇E[ρ]` with the other `group - 1` responses held.
    fn law(&self, group: usize, weights: Weights) -> Vec<Rational> {
        let whole = |n: usize| Rational::from_integer(n as i128);
        match weights {
            Weights::Trace => self.gradient_of(whole),
            Weights::Constant => self.gradient_of(|_| whole(1)),
            Weights::Response => self.gradient_of(|t| whole(t).recip()),
            Weights::Tokens => {
                let lengths = || self.responses.iter().map(|(path, p)| (path.len(), *p));
                let mut others = vec![(0, whole(1))];
                for _ in 1..group {
                    others = others
                        .iter()
                        .flat_map(|&(s, p)| lengths().map(move |(t, q)| (s + t, p * q)))
                        .collect();
                }
                self.gradient_of(|t| others.iter().map(|(s, p)| p * whole(group) / whole(s + t)).sum())
            }
        }
    }

    /// `Σ_k (T-k) ∇_k` of a response, per edge, or with weights of 1.
    fn score(&self, path: &[EdgeId], traced: bool) -> Vec<Rational> {
        let mut score = vec![Rational::zero(); self.tree.edge_count()];
        for (k, &taken) in path.iter().enumerate() {
            let weight = Rational::from_integer(if traced { (path.len() - k) as i128 } else { 1 });
            for edge in self.tree.edges_of(self.tree.edge_node(taken)) {
                let indicator = Rational::from_integer(i128::from(edge == taken));
                score[edge] += weight * (indicator - self.probability[edge]);
            }
        }
        score
    }
}

impl Rationals {
    fn add(&mut self, task: &Task, group: usize, map: RewardMap, weights: Weights) {
        let third = Rational::new(1, 3);
        let traced = weights == Weights::Trace;
        let scores: Vec<Vec<Rational>> =
            task.responses.iter().map(|(path, _)| task.score(path, traced)).collect();
        let atoms = 2 * task.responses.len();
        let mut update = vec![Rational::zero(); task.tree.edge_count()];
        let mut mean_advantage = Rational::zero();
        for tuple in 0..atoms.pow(group as u32) {
            let members: Vec<usize> = (0..group).map(|i| tuple / atoms.pow(i as u32) % atoms).collect();
            let reward = |m: usize| Rational::from_integer((m % 2) as i128);
            let mean = members.iter().map(|&m| reward(m)).sum::<Rational>() / group as i128;
            let chance = |p: Rational, &m: &usize| {
                let of_reward = if m % 2 == 1 { third } else { Rational::from_integer(1) - third };
                p * task.responses[m / 2].1 * of_reward
            };
            let probability = members.iter().fold(Rational::from_integer(1), chance);
            let length = |m: usize| task.responses[m / 2].0.len() as i128;
            let total: i128 = members.iter().map(|&m| length(m)).sum();
            for &m in &members {
                let share = probability * map(reward(m), mean) / group as i128;
                mean_advantage += share;
                let share = match weights {
                    Weights::Trace | Weights::Constant => share,
                    Weights::Response => share / length(m),
                    Weights::Tokens => share * group as i128 / total,
                };
                update.iter_mut().zip(&scores[m / 2]).for_each(|(u, t)| *u += share * t);
            }
        }
        for (u, law) in update.iter().zip(task.law(group, weights)) {
            self.compared += 1;
            self.different += usize::from(*u != mean_advantage * law);
            self.not_zero += usize::from(!u.is_zero());
        }
    }
}
