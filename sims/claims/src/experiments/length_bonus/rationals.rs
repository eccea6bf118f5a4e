//! The theorem and the length law in exact rationals: every group of two or three responses to small random trees, enumerated.

use grpo_lambda_mdp::zoo::{Family, Random};
use grpo_lambda_mdp::{EdgeId, Target, Tree};
use num_rational::Ratio;
use num_traits::Zero;

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
type Map = fn(Rational, Rational) -> Rational;

/// No clamp, the paper's, a baseline a tenth below the mean, right responses only, wrong ones only.
const MAPS: [Map; 5] = [
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

/// Rewards right with probability 1/3, every map and reduction: the expected update against `ā ∇E[T]` with the trace, `ā ∇E[ρ]` without.
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
    fn add(&mut self, task: &Task, group: usize, map: Map, weights: Weights) {
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
