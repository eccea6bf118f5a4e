//! The theorem in exact rationals: every group of two or three responses to small random trees, enumerated.

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

/// Rewards right with probability 1/3, advantages `max(r - mean, clamp)`, λ = 1, mean over responses of the sum over tokens.
pub(super) fn in_rationals() -> anyhow::Result<Rationals> {
    let mut found = Rationals::default();
    for seed in 0..TREES {
        let tree = Random { seed, symbols: 2, horizon: 3, eos: 1.0, ..Random::default() }.tree()?;
        if tree.leaf_count() > RESPONSES || tree.leaf_count() < 2 {
            continue;
        }
        for (group, clamp) in [(2, None), (2, Some(tenth())), (3, Some(tenth()))] {
            found.add(&Task::new(&tree), group, clamp);
        }
    }
    Ok(found)
}

/// The paper's clamp.
fn tenth() -> Rational {
    Rational::new(-1, 10)
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

    /// `∂E[T]/∂θ` per edge: `d(s) π(a|s) (E[T|s,a] - E[T|s])`.
    fn length_gradient(&self) -> Vec<Rational> {
        let tree = self.tree;
        let mut of_node = vec![Rational::zero(); tree.node_count()];
        let mut of_edge = vec![Rational::zero(); tree.edge_count()];
        for node in tree.nodes().rev() {
            for edge in tree.edges_of(node) {
                of_edge[edge] = match tree.target(edge) {
                    Target::Leaf(leaf) => Rational::from_integer(tree.leaf_len(leaf) as i128),
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

    /// `Σ_k (T-k) ∇_k` of a response, per edge.
    fn traced(&self, path: &[EdgeId]) -> Vec<Rational> {
        let mut traced = vec![Rational::zero(); self.tree.edge_count()];
        for (k, &taken) in path.iter().enumerate() {
            let weight = Rational::from_integer((path.len() - k) as i128);
            for edge in self.tree.edges_of(self.tree.edge_node(taken)) {
                let indicator = Rational::from_integer(i128::from(edge == taken));
                traced[edge] += weight * (indicator - self.probability[edge]);
            }
        }
        traced
    }
}

impl Rationals {
    fn add(&mut self, task: &Task, group: usize, clamp: Option<Rational>) {
        let third = Rational::new(1, 3);
        let traced: Vec<Vec<Rational>> = task.responses.iter().map(|(path, _)| task.traced(path)).collect();
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
            for &m in &members {
                let advantage = reward(m) - mean;
                let advantage = clamp.map_or(advantage, |c| advantage.max(c));
                let share = probability * advantage / group as i128;
                mean_advantage += share;
                update.iter_mut().zip(&traced[m / 2]).for_each(|(u, t)| *u += share * t);
            }
        }
        for (u, length) in update.iter().zip(task.length_gradient()) {
            self.compared += 1;
            self.different += usize::from(*u != mean_advantage * length);
            self.not_zero += usize::from(!u.is_zero());
        }
    }
}
