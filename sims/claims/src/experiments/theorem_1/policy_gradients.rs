//! Both sides of the theorem on the policy gradients of the zoo's MDPs.

use grpo_lambda::advantage::{Delta, gae, td_errors};
use grpo_lambda::trace::{Recent, Trace};
use grpo_lambda_mdp::{EdgeId, Oracle, Tree, zoo};
use rand_chacha::ChaCha8Rng;

use crate::experiments::common::random::{noise, stream};
use crate::experiments::common::vectors::{gap, norm};

/// Responses taken from each MDP.
const RESPONSES: usize = 12;
/// The values of `γλ` examined.
const QS: [f64; 5] = [0.0, 0.5, 0.9, 0.99, 1.0];

/// What stands for the TD errors.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Deltas {
    ExactCritic,
    RandomCritic,
    /// `A_NAE` at every token.
    Nae,
    /// Numbers that are the TD errors of nothing.
    Random,
}

impl Deltas {
    const ALL: [Deltas; 4] = [Deltas::ExactCritic, Deltas::RandomCritic, Deltas::Nae, Deltas::Random];

    /// The words in tables.
    pub(super) fn name(self) -> &'static str {
        match self {
            Deltas::ExactCritic => "exact critic",
            Deltas::RandomCritic => "random critic",
            Deltas::Nae => "A_NAE at every token",
            Deltas::Random => "random numbers",
        }
    }

    /// The rewards whose TD errors under `values` are the deltas.
    fn rewards(self, response: &Response, values: &[f64], rng: &mut ChaCha8Rng) -> Vec<f64> {
        let len = values.len();
        let wanted = match self {
            Deltas::ExactCritic | Deltas::RandomCritic => {
                return Delta::Terminal.spread(response.reward, len);
            }
            Deltas::Nae => Delta::Constant.spread(response.reward - response.j, len),
            Deltas::Random => noise(rng, len),
        };
        let without = td_errors(&vec![0.0; len], values, 1.0);
        wanted.iter().zip(&without).map(|(d, w)| d - w).collect()
    }
}

/// What was found on one MDP with one kind of deltas.
pub(super) struct OnMdp {
    pub(super) mdp: &'static str,
    pub(super) deltas: Deltas,
    pub(super) identities: usize,
    /// Largest relative difference of both sides.
    pub(super) worst: f64,
    /// The same with GAE cut after two terms, as the text prints it.
    pub(super) truncated: f64,
    /// Largest `|Σ δ_t - (r - V(s_0))|` of the TD errors of a critic.
    pub(super) telescoped: f64,
    /// Largest `Σ δ_t / (T (r - V(s_0)))` of `δ_t = r - V(s_0)`.
    pub(super) counted: f64,
}

/// A response with its gradients `∇log π(a_t|s_t)`.
struct Response {
    nabla: Vec<Vec<f64>>,
    reward: f64,
    /// `J` of the policy.
    j: f64,
}

/// Every MDP of the zoo, with every kind of deltas.
pub(super) fn on_zoo(seed: u64) -> Vec<[OnMdp; 4]> {
    let on_mdp = |(index, entry): (usize, zoo::Named)| {
        let tree = (entry.build)();
        let oracle = Oracle::new(&tree, &(entry.initial)(&tree));
        let mut rng = stream(seed, index as u64);
        Deltas::ALL.map(|deltas| on_mdp(entry.name, &oracle, deltas, &mut rng))
    };
    zoo::all().into_iter().enumerate().map(on_mdp).collect()
}

fn on_mdp(mdp: &'static str, oracle: &Oracle, deltas: Deltas, rng: &mut ChaCha8Rng) -> OnMdp {
    let tree = oracle.tree;
    let mut found =
        OnMdp { mdp, deltas, identities: 0, worst: 0.0, truncated: 0.0, telescoped: 0.0, counted: 0.0 };
    for leaf in tree.leaves().step_by(tree.leaf_count().div_ceil(RESPONSES)) {
        let path = tree.path(leaf);
        let nabla = gradients(tree, &oracle.probs, &path);
        let response = Response { nabla, reward: tree.reward(leaf), j: oracle.j };
        let values: Vec<f64> = match deltas {
            Deltas::ExactCritic => path.iter().map(|&e| oracle.v[tree.edge_node(e)]).collect(),
            _ => noise(rng, path.len()),
        };
        for q in QS {
            let rewards = deltas.rewards(&response, &values, rng);
            found.add(&response, &rewards, &values, q);
        }
    }
    found
}

impl OnMdp {
    fn add(&mut self, response: &Response, rewards: &[f64], values: &[f64], q: f64) {
        let (nabla, len) = (&response.nabla, values.len());
        let delta = td_errors(rewards, values, 1.0);
        let forward = combine(&gae(rewards, values, 1.0, q), nabla);
        let backward = combine(&delta, &eligibility(&Recent { q }, nabla));
        let scale = norm(&forward).max(1.0);
        self.worst = self.worst.max(gap(&forward, &backward) / scale);
        self.identities += 1;
        let next = |t: usize| delta.get(t + 1).copied().unwrap_or(0.0);
        let two_terms: Vec<f64> = (0..len).map(|t| delta[t] + q * next(t)).collect();
        self.truncated = self.truncated.max(gap(&combine(&two_terms, nabla), &backward) / scale);
        let sum: f64 = delta.iter().sum();
        match self.deltas {
            // Σ δ_t = r - V(s_0), whatever the critic says in between.
            Deltas::ExactCritic | Deltas::RandomCritic => {
                self.telescoped = self.telescoped.max((sum - (response.reward - values[0])).abs());
            }
            Deltas::Nae if response.reward != response.j => {
                let times = sum / (response.reward - response.j);
                self.counted = self.counted.max(times / len as f64);
            }
            _ => {}
        }
    }
}

/// `∇log π(a_t|s_t)` of a tabular softmax policy, one vector over all logits per token of a response.
fn gradients(tree: &Tree, probs: &[f64], path: &[EdgeId]) -> Vec<Vec<f64>> {
    let of_token = |&taken: &EdgeId| {
        let mut gradient = vec![0.0; tree.edge_count()];
        for edge in tree.edges_of(tree.edge_node(taken)) {
            gradient[edge] = f64::from(edge == taken) - probs[edge];
        }
        gradient
    };
    path.iter().map(of_token).collect()
}

/// `Σ_t x_t v_t`.
fn combine(x: &[f64], vectors: &[Vec<f64>]) -> Vec<f64> {
    let mut sum = vec![0.0; vectors[0].len()];
    for (x, v) in x.iter().zip(vectors) {
        sum.iter_mut().zip(v).for_each(|(s, v)| *s += x * v);
    }
    sum
}

/// The trace applied to every component of a sequence of gradients: `ε_t = Σ_k E[t,k] ∇_k`.
fn eligibility(trace: &dyn Trace, gradients: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let mut traces = gradients.to_vec();
    for i in 0..gradients[0].len() {
        let component: Vec<f64> = gradients.iter().map(|g| g[i]).collect();
        for (t, z) in trace.apply(&component).into_iter().enumerate() {
            traces[t][i] = z;
        }
    }
    traces
}
