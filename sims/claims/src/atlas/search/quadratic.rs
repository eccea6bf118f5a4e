//! The mean squared error of a weighted policy gradient, as a ratio of quadratics in its weights.
//!
//! RLOO with token weights that are linear in features, in groups of `G`:
//!
//! ```text
//! g(α) = 1/G Σ_i A_i Σ_t w_{i,t} ∇log π(a_{i,t}|s_{i,t}),     w_{i,t} = Σ_j α_j φ_j(i,t),     A_i = r_i - mean_{j≠i} r_j
//! E<g, ∇J> = b·α,     E|g|² = αᵀMα
//! min_c E|c g - ∇J|² / |∇J|² = 1 - η(α),      η = (b·α)² / (αᵀMα |∇J|²)  in [0, 1]
//! ```
//! `η` is the *efficiency*: the share of `|∇J|²` that one group yields at the best step size. On one MDP it is greatest at `α = M⁻¹b` (the
//! eigenproblem has rank one). `b` and `M` need no sampling: with `ρ = r - J`, `h = 1/(G-1)`, `s_j = Σ_t φ_j ∇log π` of one response,
//!
//! ```text
//! b_j  = <E[ρ s_j], ∇J>
//! M_jk = 1/G E[(ρ² + h σ²) <s_j, s_k>]
//!      + (G-1)/G { (1+h²) <a_j, a_k> - h (<q_j, e_k> + <e_j, q_k>) + h² (G-2) σ² <e_j, e_k> }
//! a = E[ρ s],  q = E[ρ² s],  e = E[s]  (0 where φ depends on the prefix only),  σ² = Var r
//! ```

use grpo_lambda_mdp::{Oracle, Tabular, Tree};

use crate::experiments::common::vectors::dot;

/// A token's features that a weight may read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Token {
    /// Its position, from 0.
    pub(super) t: usize,
    /// Length of its response.
    pub(super) len: usize,
    /// Entropy of its distribution, in nats.
    pub(super) entropy: f64,
    /// Its probability.
    pub(super) probability: f64,
    /// The longest response of the MDP.
    pub(super) longest: usize,
    /// `E[0.99^(T-t) | s_t]`, known to the oracle only.
    pub(super) decay: f64,
}

/// Features of a token.
pub(super) type Features = fn(&Token) -> Vec<f64>;

/// `b`, `M` and `|∇J|²` of one policy.
#[derive(Clone, Debug)]
pub(super) struct Quadratic {
    /// `b`.
    pub(super) b: Vec<f64>,
    /// `M`, symmetric.
    pub(super) m: Vec<Vec<f64>>,
    /// `|∇J|²`.
    pub(super) gradient: f64,
    /// The greatest `η` of any weight per prefix.
    pub(super) ceiling: f64,
}

/// The token a response has at `edge`, position `t`.
pub(super) fn tokens(oracle: &Oracle, path: &[usize], entropies: &[f64], decay: &[f64]) -> Vec<Token> {
    let token = |(t, &edge): (usize, &usize)| {
        let node = oracle.tree.edge_node(edge);
        Token {
            t,
            len: path.len(),
            entropy: entropies[node],
            probability: oracle.probs[edge],
            longest: oracle.tree.max_len(),
            decay: decay[node],
        }
    };
    path.iter().enumerate().map(token).collect()
}

/// `E[0.99^(T-t) | s_t]` per node, `t` its depth.
pub(super) fn decays(oracle: &Oracle) -> Vec<f64> {
    let tree = oracle.tree;
    let given = oracle.expect_given_edge(|leaf| 0.99f64.powi(tree.leaf_len(leaf) as i32));
    let at = |node| {
        let mean: f64 = tree.edges_of(node).map(|e| oracle.probs[e] * given[e]).sum();
        mean / 0.99f64.powi(tree.depth(node) as i32)
    };
    tree.nodes().map(at).collect()
}

impl Quadratic {
    /// The moments of `policy` on `tree`, in groups of `size`.
    ///
    /// # Panics
    /// If `size < 2`.
    pub(super) fn new(tree: &Tree, policy: &Tabular, features: Features, size: usize) -> Quadratic {
        assert!(size >= 2, "a group has at least two responses");
        let oracle = Oracle::new(tree, policy);
        let group = Group { size: size as f64, variance: oracle.variances()[0] };
        let sums = Sums::over_responses(&oracle, features, group);
        let cotangents = |per_feature: Vec<Vec<f64>>| -> Vec<Vec<f64>> {
            per_feature.iter().map(|c| policy.backward(tree, c)).collect()
        };
        let Sums { own, rho, rho_squared, one, noise } = sums;
        let means = Means { a: cotangents(rho), q: cotangents(rho_squared), e: cotangents(one) };
        let gradient = oracle.grad_j();
        let mut m = own;
        for (j, row) in m.iter_mut().enumerate() {
            for (k, x) in row.iter_mut().enumerate() {
                *x = *x / group.size + (group.size - 1.0) / group.size * group.cross(&means, j, k);
            }
        }
        Quadratic {
            b: means.a.iter().map(|a| dot(a, &gradient)).collect(),
            m,
            gradient: dot(&gradient, &gradient),
            ceiling: group.ceiling(&oracle, &gradient, &noise),
        }
    }

    /// `η(α)`.
    pub(super) fn efficiency(&self, alpha: &[f64]) -> f64 {
        dot(&self.b, alpha).powi(2) / (self.spread(alpha) * self.gradient)
    }

    /// `αᵀMα`.
    pub(super) fn spread(&self, alpha: &[f64]) -> f64 {
        self.m.iter().zip(alpha).map(|(row, x)| x * dot(row, alpha)).sum()
    }

    /// `α = M⁻¹ b`, the best on this MDP alone.
    #[cfg(test)]
    pub(super) fn best(&self) -> Vec<f64> {
        solve(self.m.clone(), self.b.clone())
    }
}

/// A group of responses: its size `G`, and the variance of rewards.
#[derive(Clone, Copy)]
struct Group {
    size: f64,
    variance: f64,
}

/// `a`, `q` and `e` per feature.
struct Means {
    a: Vec<Vec<f64>>,
    q: Vec<Vec<f64>>,
    e: Vec<Vec<f64>>,
}

impl Group {
    /// `h = 1/(G-1)`.
    fn h(self) -> f64 {
        1.0 / (self.size - 1.0)
    }

    /// The part of `M_jk` that pairs of responses contribute.
    fn cross(self, Means { a, q, e }: &Means, j: usize, k: usize) -> f64 {
        let h = self.h();
        (1.0 + h * h) * dot(&a[j], &a[k]) - h * (dot(&q[j], &e[k]) + dot(&e[j], &q[k]))
            + h * h * (self.size - 2.0) * self.variance * dot(&e[j], &e[k])
    }

    /// The greatest `η` of any weight per prefix. Prefixes do not mix: every one has its own least squares.
    fn ceiling(self, oracle: &Oracle, gradient: &[f64], noise: &[f64]) -> f64 {
        let (g, h) = (self.size, self.h());
        let best = |node: usize| {
            let s: f64 = oracle.tree.edges_of(node).map(|e| gradient[e].powi(2)).sum();
            let second = noise[node] / g + (g - 1.0) / g * (1.0 + h * h) * s;
            if s > 0.0 { s * s / second } else { 0.0 }
        };
        oracle.tree.nodes().map(best).sum::<f64>() / dot(gradient, gradient)
    }
}

/// Sums over responses, each weighted by its probability; `ρ = r - J`.
#[derive(Default)]
struct Sums {
    /// `(ρ² + h σ²) <s_j, s_k>`.
    own: Vec<Vec<f64>>,
    /// `ρ φ_j`, `ρ² φ_j` and `φ_j` per feature and edge.
    rho: Vec<Vec<f64>>,
    rho_squared: Vec<Vec<f64>>,
    one: Vec<Vec<f64>>,
    /// `(ρ² + h σ²) |∇log π|²` per node.
    noise: Vec<f64>,
}

impl Sums {
    fn over_responses(oracle: &Oracle, features: Features, group: Group) -> Sums {
        let tree = oracle.tree;
        let (entropies, decay) = (oracle.entropies(), decays(oracle));
        let squares = squared_gradients(oracle);
        let mut sums = Sums { noise: vec![0.0; tree.node_count()], ..Sums::default() };
        for leaf in tree.leaves() {
            let path = tree.path(leaf);
            let phi: Vec<Vec<f64>> = tokens(oracle, &path, &entropies, &decay).iter().map(features).collect();
            for (reward, chance) in tree.outcomes(leaf) {
                let (p, rho) = (chance * oracle.leaf_prob(leaf), reward - oracle.j);
                for (&edge, phi) in path.iter().zip(&phi) {
                    let spread = p * (rho * rho + group.h() * group.variance) * squares[edge];
                    sums.noise[tree.edge_node(edge)] += spread;
                    sums.add(edge, tree.edge_count(), phi, p, rho, spread);
                }
            }
        }
        sums
    }

    /// Adds a token with features `phi`.
    fn add(&mut self, edge: usize, edges: usize, phi: &[f64], p: f64, rho: f64, spread: f64) {
        let n = phi.len();
        if self.own.is_empty() {
            self.own = vec![vec![0.0; n]; n];
            for sum in [&mut self.rho, &mut self.rho_squared, &mut self.one] {
                *sum = vec![vec![0.0; edges]; n];
            }
        }
        for j in 0..n {
            self.rho[j][edge] += p * rho * phi[j];
            self.rho_squared[j][edge] += p * (rho * rho) * phi[j];
            self.one[j][edge] += p * phi[j];
            for k in 0..n {
                self.own[j][k] += spread * phi[j] * phi[k];
            }
        }
    }
}

/// `|∇log π(a|s)|²` of each edge.
fn squared_gradients(oracle: &Oracle) -> Vec<f64> {
    let tree = oracle.tree;
    let mut all = vec![0.0; tree.edge_count()];
    for node in tree.nodes() {
        let squares: f64 = tree.edges_of(node).map(|e| oracle.probs[e].powi(2)).sum();
        for e in tree.edges_of(node) {
            all[e] = 1.0 - 2.0 * oracle.probs[e] + squares;
        }
    }
    all
}

/// The solution of `m x = b` for a positive semidefinite `m`, with a ridge of 1e-10 of its trace where features coincide.
pub(super) fn solve(mut m: Vec<Vec<f64>>, mut b: Vec<f64>) -> Vec<f64> {
    let n = b.len();
    let ridge = 1e-10 * (0..n).map(|i| m[i][i]).sum::<f64>();
    (0..n).for_each(|i| m[i][i] += ridge);
    for i in 0..n {
        let pivot = (i..n).max_by(|&x, &y| m[x][i].abs().total_cmp(&m[y][i].abs())).unwrap_or(i);
        m.swap(i, pivot);
        b.swap(i, pivot);
        for row in i + 1..n {
            let factor = m[row][i] / m[i][i];
            for column in i..n {
                m[row][column] -= factor * m[i][column];
            }
            b[row] -= factor * b[i];
        }
    }
    for i in (0..n).rev() {
        let known: f64 = (i + 1..n).map(|k| m[i][k] * b[k]).sum();
        b[i] = (b[i] - known) / m[i][i];
    }
    b
}

#[cfg(test)]
mod tests {
    use super::*;
    use grpo_lambda::methods;
    use grpo_lambda::trace::{Recent, Trace};
    use grpo_lambda_mdp::expected::{Situation, implied};
    use grpo_lambda_mdp::zoo::{Family, Random, RandomRewards};

    fn mdp(seed: u64) -> (Tree, Tabular) {
        let family = Random {
            seed,
            symbols: 2,
            horizon: 4,
            rewards: RandomRewards::Probabilities,
            ..Random::default()
        };
        let tree = family.tree().unwrap();
        let policy = family.initial(&tree);
        (tree, policy)
    }

    #[test]
    fn moments_are_those_of_the_exact_oracle_for_rloo_and_for_weights_that_depend_on_the_length() {
        // Feature 0: RLOO. Feature 1: GRPO-lambda's column sums on RLOO's advantages, up to G/(G-1).
        let features: Features = |token| vec![1.0, Recent { q: 0.9 }.column_sums(token.len)[token.t]];
        for seed in [1, 2, 5] {
            let (tree, policy) = mdp(seed);
            for size in [2, 5] {
                let q = Quadratic::new(&tree, &policy, features, size);
                let share = (size as f64 - 1.0) / size as f64;
                for (alpha, name, settings, scale) in [
                    ([1.0, 0.0], "rloo", "", 1.0),
                    (
                        [0.0, 1.0],
                        "grpo_lambda",
                        "lambda=0.9 clamp=none scale=none reduction=response_sum",
                        share,
                    ),
                ] {
                    let method = methods::parse(name, settings).unwrap().method;
                    let e = implied(method.as_ref(), &Situation::on_policy(&tree, &policy, size)).unwrap();
                    let second = dot(&e.update, &e.update) + e.total_variance();
                    let first = dot(&e.update, &Oracle::new(&tree, &policy).grad_j());
                    assert!((dot(&q.b, &alpha) * scale - first).abs() < 1e-12, "{name} {seed}");
                    assert!((q.spread(&alpha) * scale * scale - second).abs() < 1e-12, "{name} {seed}");
                }
            }
        }
    }

    #[test]
    fn the_closed_form_is_the_best_of_its_span_and_the_ceiling_bounds_weights_of_prefixes() {
        let features: Features = |token| vec![1.0, 0.5f64.powi(token.t as i32), token.entropy];
        let (tree, policy) = mdp(2);
        let q = Quadratic::new(&tree, &policy, features, 8);
        let best = q.best();
        let top = q.efficiency(&best);
        for i in 0..3 {
            for step in [-0.05, 0.05] {
                let mut moved = best.clone();
                moved[i] += step * best[0].abs();
                assert!(q.efficiency(&moved) <= top + 1e-12);
            }
        }
        assert!(q.efficiency(&[1.0, 0.0, 0.0]) < top && top < q.ceiling && q.ceiling < 1.0);
    }

    #[test]
    fn a_system_by_hand() {
        let x = solve(vec![vec![2.0, 1.0], vec![1.0, 3.0]], vec![5.0, 10.0]);
        assert!((x[0] - 1.0).abs() < 1e-8 && (x[1] - 3.0).abs() < 1e-8);
    }
}
