//! `lambda_direction`: the direction in which λ trades bias for variance.
//!
//! The policy-gradient estimator of one response with generalised advantages,
//!
//! ```text
//! g(λ) = Σ_t A_t ∇log π(a_t|s_t),      A_t = Σ_l λ^l δ_{t+l},      δ_t = r_t + V̂(s_{t+1}) - V̂(s_t),   γ = 1
//! ```
//! has its mean and covariance computed by enumerating every response, for critics V̂ from exact to useless.

mod shown;

use crate::experiment::{Context, Experiment, Parts};
use crate::experiments::common::mdp::{Mdp, random_mdps};
use crate::experiments::common::{EXACT, difference, gap, largest, norm};
use crate::sentences::SentenceId;
use grpo_lambda::advantage::gae;
use grpo_lambda_mdp::zoo::Random;
use grpo_lambda_mdp::{Oracle, Tabular, Target};
use shown::{figures, findings, tables};

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "lambda_direction",
    title: "In which direction does λ trade bias for variance?",
    claim: SentenceId::BiasAndVariance.sentence().statement,
    source: "GRPO-λ, appendix A.2, after Eq. 16",
    run: |context| Parts { measure, findings, tables, figures }.report(context),
};

/// λ on a grid of twentieths; every fifth of them is reported.
const STEPS: usize = 20;
const REPORTED: [usize; 5] = [0, 5, 10, 15, 20];
/// The least change of a curve that counts as a rise or a fall.
const VISIBLE: f64 = 1e-9;

struct Numbers {
    random: usize,
    /// MDPs of the zoo, which come after the random ones.
    named: Vec<String>,
    /// `[critic][mdp]`.
    curves: Vec<Vec<Curve>>,
    exact: ExactCritic,
}

impl Numbers {
    fn mdps(&self) -> usize {
        self.random + self.named.len()
    }
}

/// The point `i` of the grid.
fn lambda(i: usize) -> f64 {
    i as f64 / STEPS as f64
}

/// Bias and variance against λ of one critic on one MDP.
#[derive(Clone)]
struct Curve {
    /// `|E[g] - ∇J|`.
    bias: Vec<f64>,
    variance: Vec<f64>,
    /// `|∇J|`.
    gradient: f64,
}

impl Curve {
    fn new(oracle: &Oracle, critic: &[f64]) -> Curve {
        let gradient = oracle.grad_j();
        let at = |i: usize| {
            let m = moments(oracle, critic, lambda(i));
            (norm(&difference(&m.mean, &gradient)), m.variance)
        };
        let (bias, variance) = (0..=STEPS).map(at).unzip();
        Curve { bias, variance, gradient: norm(&gradient) }
    }

    /// The bias for tables and figures: rounding errors are 0, so that the committed numbers do not depend on the
    /// machine.
    fn visible_bias(&self, i: usize) -> f64 {
        without_rounding(self.bias[i])
    }

    /// The bias relative to the gradient, for tables.
    fn relative_bias(&self, i: usize) -> f64 {
        without_rounding(self.bias[i] / self.gradient)
    }
}

fn without_rounding(x: f64) -> f64 {
    if x.abs() < EXACT { 0.0 } else { x }
}

/// The exact critic: largest bias, largest gap to the variance formula, largest fall of a `Var(A_t|s,a)` with λ.
#[derive(Default)]
struct ExactCritic {
    bias: f64,
    formula: f64,
    fall: f64,
}

fn measure(context: &Context) -> anyhow::Result<Numbers> {
    let random = if context.full { 1000 } else { 200 };
    let mut mdps = random_mdps(random, context.seed, Random { horizon: 4, ..Random::default() })?;
    for name in ["lucky_guess", "pivot", "noisy", "chain", "eos_hazard_dependent"] {
        mdps.push(Mdp::named(name)?);
    }
    let mut curves = Vec::new();
    for (i, (name, critic)) in CRITICS.into_iter().enumerate() {
        (context.progress)(i as f64 / CRITICS.len() as f64, name);
        let curve = |(j, mdp): (usize, &Mdp)| {
            let oracle = mdp.oracle();
            Curve::new(&oracle, &critic(&oracle, context.seed.wrapping_add(j as u64)))
        };
        curves.push(mdps.iter().enumerate().map(curve).collect());
    }
    let mut exact = ExactCritic::default();
    mdps.iter().for_each(|mdp| exact.add(&mdp.oracle()));
    let named = mdps[random..].iter().map(|mdp| mdp.name.clone()).collect();
    Ok(Numbers { random, named, curves, exact })
}

impl ExactCritic {
    fn add(&mut self, oracle: &Oracle) {
        let gradient = oracle.grad_j();
        let mut before: Option<Vec<f64>> = None;
        for i in REPORTED {
            let m = moments(oracle, &oracle.v, lambda(i));
            let bias = gap(&m.mean, &gradient).max(gap(&m.credit, &oracle.advantages()));
            self.bias = self.bias.max(bias);
            self.formula = self.formula.max(gap(&m.spread, &spread_formula(oracle, lambda(i))));
            if let Some(before) = &before {
                self.fall = self.fall.max(largest(before.iter().zip(&m.spread).map(|(b, s)| b - s)));
            }
            before = Some(m.spread);
        }
    }
}

/// The value of every prefix as a critic gives it; a seed is for those that are random.
type Critic = fn(&Oracle, u64) -> Vec<f64>;

/// The critics, from exact to useless.
const CRITICS: [(&str, Critic); 5] = [
    ("exact", |oracle, _| oracle.v.clone()),
    ("perturbed", |oracle, seed| {
        // One standard normal number per prefix: that of its first edge.
        let noise = Tabular::random(oracle.tree, seed ^ 0x5eed, 1.0).logits;
        oracle.tree.nodes().map(|n| oracle.v[n] + 0.3 * noise[oracle.tree.edges_of(n).start]).collect()
    }),
    ("stale", |oracle, seed| Oracle::new(oracle.tree, &Tabular::random(oracle.tree, seed ^ 0x01d, 1.0)).v),
    ("constant", |oracle, _| vec![oracle.j; oracle.tree.node_count()]),
    ("zero", |oracle, _| vec![0.0; oracle.tree.node_count()]),
];

struct Moments {
    mean: Vec<f64>,
    /// The trace of the covariance.
    variance: f64,
    /// `E[A_t|s,a]` per edge.
    credit: Vec<f64>,
    /// `Var(A_t|s,a)` per edge.
    spread: Vec<f64>,
}

fn moments(oracle: &Oracle, critic: &[f64], lambda: f64) -> Moments {
    let tree = oracle.tree;
    let (mut credit, mut square) = weighted_sums(oracle, critic, lambda);
    let mut second = 0.0;
    for node in tree.nodes() {
        let collision: f64 = tree.edges_of(node).map(|e| oracle.probs[e] * oracle.probs[e]).sum();
        for e in tree.edges_of(node) {
            // |∇log π(a|s)|² with respect to the logits of s.
            second += square[e] * (1.0 - 2.0 * oracle.probs[e] + collision);
            let visit = oracle.edge_visit(e);
            credit[e] /= visit;
            square[e] = square[e] / visit - credit[e] * credit[e];
        }
    }
    let mean = oracle.update_of_credit(&credit);
    let variance = second - mean.iter().map(|m| m * m).sum::<f64>();
    Moments { mean, variance, credit, spread: square }
}

/// Sums of `A_t` and of its square over responses, each weighted by its probability, per edge.
fn weighted_sums(oracle: &Oracle, critic: &[f64], lambda: f64) -> (Vec<f64>, Vec<f64>) {
    let tree = oracle.tree;
    let (mut sum, mut square) = (vec![0.0; tree.edge_count()], vec![0.0; tree.edge_count()]);
    let mut path = Vec::new();
    for leaf in tree.leaves() {
        tree.path_into(leaf, &mut path);
        let values: Vec<f64> = path.iter().map(|&e| critic[tree.edge_node(e)]).collect();
        for (reward, p) in tree.outcomes(leaf) {
            let mut rewards = vec![0.0; path.len()];
            rewards[path.len() - 1] = reward;
            let weight = p * oracle.leaf_prob(leaf);
            for (&edge, a) in path.iter().zip(gae(&rewards, &values, 1.0, lambda)) {
                sum[edge] += weight * a;
                square[edge] += weight * a * a;
            }
        }
    }
    (sum, square)
}

/// The claimed `Var(A_t|s,a) = Var(R|y at t) + Σ_{l>=1} λ^{2l} E[δ²_{t+l}|s,a]` per edge, exact critic, by dynamic
/// programming; the first term is the grader's noise where `s,a` completes the response.
fn spread_formula(oracle: &Oracle, lambda: f64) -> Vec<f64> {
    let tree = oracle.tree;
    let mut total = vec![0.0; tree.edge_count()]; // Σ_{l>=0} λ^{2l} E[δ²_{t+l}|s,a]
    for node in tree.nodes().rev() {
        for edge in tree.edges_of(node) {
            let own = oracle.advantage(edge).powi(2);
            total[edge] = own
                + match tree.target(edge) {
                    Target::Leaf(leaf) => tree.reward_squared(leaf) - tree.reward(leaf).powi(2),
                    Target::Node(child) => {
                        let later: f64 = tree.edges_of(child).map(|e| oracle.probs[e] * total[e]).sum();
                        lambda * lambda * later
                    }
                };
        }
    }
    tree.edges().map(|e| total[e] - oracle.advantage(e).powi(2)).collect()
}
