//! `prefix_values`: values of prefixes from the other responses of the group, which bias nothing; and what λ is worth
//! with them.
//!
//! ```text
//! RLOO           A_t = r_i - m_i                                       m_i: mean of the other responses
//! prefix only    A_t = r_i - V_i(s_t)                                  V_i: mean of the others that pass s_t, shrunk towards m_i
//! Prefix RLOO    A_t = r_i - Q_i(s_t,a_t), and π(a|s) (Q_i - V_i) to every token that the others took      (exactly handed back)
//! Ridge RLOO     A_t = r_i - V_i(s_t)                                  V_i: ridge regression of the others' rewards on features of their prefixes
//! ```
//! All four have expected update ∇J on-policy, at every group size (`tests/theory/{prefix_values,ridge_values}.rs`). On
//! a transformer the features are hidden states; here, where there are none, which token stands at which position.
//!
//! The best that a baseline of prefixes could do is no method but a ceiling:
//!
//! ```text
//! b*(s) = E[R w | s] / E[w | s],   w = |∇log π(a|s)|²        (Greensmith, Bartlett & Baxter 2004)
//! ```
//! **Proof.** Gradients at different prefixes of a table are orthogonal, so that `E|Σ_t (R - b(s_t)) ∇_t|² = Σ_t E[(R -
//! b(s_t))² w]`, a sum of squares with one b(s) each; its expectation ∇J does not depend on b. ∎ The exact values V(s)
//! are it only where w does not vary.

mod findings;
mod shown;

use crate::experiment::{Context, Experiment, Parts};
use crate::experiments::common::mdp::{Mdp, method, random_mdps, zoo_mdps};
use crate::experiments::common::{average, dot, ratio_of_means, stream};
use findings::findings;
use grpo_lambda::group::{Group, Response};
use grpo_lambda::methods::{self, Method};
use grpo_lambda_mdp::extra_inputs::{Exact, Provider, features};
use grpo_lambda_mdp::zoo::Random;
use grpo_lambda_mdp::{Oracle, Sampler, Tabular, Tree, sample_reward};
use rayon::prelude::*;
use shown::{figures, tables};

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "prefix_values",
    title: "How much of RLOO's variance do unbiased prefix values remove, and does λ help with them?",
    claim: "Values of prefixes from the other responses of the group lower the variance to 0.85 of RLOO's on four \
        tasks of five, without a bias",
    source: "Our question; the goal was set before the measurement",
    run: |context| Parts { measure, findings, tables, figures }.report(context),
};

/// RLOO, whose variance is the unit; two unbiased ones; one with exact values; a biased one; an unbiased one whose
/// values are regressed on features, with its own shrinkage first; and the ceiling.
pub(crate) const METHODS: [(&str, &str, &str); 9] = [
    ("RLOO", "rloo", ""),
    ("Prefix RLOO", "prefix_rloo", ""),
    ("prefix only", "prefix_rloo", "control=state"),
    ("exact values", "ppo", RETURN_MINUS_CRITIC),
    ("TEMPO, no std", "tempo", "scale=none clip=none reduction=response_sum"),
    ("Ridge RLOO", "ridge_rloo", ""),
    ("Ridge RLOO, κ = 1", "ridge_rloo", "shrinkage=1"),
    ("Ridge RLOO, κ = 16", "ridge_rloo", "shrinkage=16"),
    ("optimal baseline b*", "ppo", RETURN_MINUS_CRITIC),
];
/// The return minus the critic's value.
const RETURN_MINUS_CRITIC: &str = "whiten=false lambda=1 clip=none reduction=response_sum";
/// The places of the methods in [`METHODS`].
pub(crate) const PREFIX: usize = 1;
const STATE: usize = 2;
const EXACT_VALUES: usize = 3;
const TEMPO: usize = 4;
const RIDGE: usize = 5;
const OTHER_RIDGES: [usize; 2] = [6, 7];
pub(crate) const OPTIMAL: usize = 8;

/// Group sizes; the first is the paper's.
const GROUPS: [usize; 3] = [8, 16, 32];
const LAMBDAS: [f64; 8] = [0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 1.0];
/// Responses of the largest task.
const LARGEST: usize = 300;
/// The least share of RLOO's variance that was hoped for.
const GOAL: f64 = 0.85;

/// The two kinds of values with a λ.
const ESTIMATED: &str = "from the group";
const EXACT: &str = "exact";

/// A task at a group size.
#[derive(Clone, Debug)]
struct Row {
    /// True if the task was measured at every group size.
    common: bool,
    group: usize,
    /// `E|g - ∇J|²` over RLOO's, with its standard error, by method.
    ratio: Vec<(f64, f64)>,
    /// The minimal MSE over step size, by method.
    error: Vec<f64>,
}

/// The minimal MSE over step size of a task, by λ.
#[derive(Clone, Debug)]
struct ByLambda {
    /// Values of prefixes from the other responses.
    estimated: Vec<f64>,
    exact: Vec<f64>,
}

impl ByLambda {
    /// The best λ, and by how much its error is below that of λ = 1, relatively.
    fn best(errors: &[f64]) -> (f64, f64) {
        let least = (0..errors.len()).min_by(|&a, &b| errors[a].total_cmp(&errors[b])).unwrap_or(0);
        let at_one = errors[errors.len() - 1];
        // The error is 0 at every λ if every response is known.
        (LAMBDAS[least], if at_one > 0.0 { 1.0 - errors[least] / at_one } else { 0.0 })
    }
}

struct Numbers {
    rows: Vec<Row>,
    by_lambda: Vec<ByLambda>,
    /// Groups simulated per task at the first group size.
    simulated: usize,
}

/// The amount of work.
struct Size {
    trees: usize,
    /// Trees measured at larger groups and by λ, too.
    fewer: usize,
    /// Groups of 8 simulated per task.
    simulated: usize,
}

fn measure(context: &Context) -> anyhow::Result<Numbers> {
    let size = if context.full {
        Size { trees: 300, fewer: 300, simulated: 20_000 }
    } else {
        Size { trees: 300, fewer: 40, simulated: 200 }
    };
    let tasks = tasks(context.seed, size.trees)?;
    let methods: Vec<Box<dyn Method>> =
        METHODS.iter().map(|(_, name, settings)| method(name, settings)).collect::<anyhow::Result<_>>()?;
    let done = context.pieces(0.0..0.95, tasks.len() * (GROUPS.len() + 1));
    let tick = || done("simulated groups");
    let zoo = tasks.iter().filter(|t| t.of_zoo).count();
    let fewer = &tasks[..zoo + size.fewer];
    let mut rows = Vec::new();
    for group in GROUPS {
        // Every group size gets the same number of responses.
        let groups = size.simulated * GROUPS[0] / group;
        let asked = if group == GROUPS[0] { &tasks[..] } else { fewer };
        let measured = |(t, task): (usize, &Task)| {
            let work = || {
                let mdp = (&task.mdp.tree, &task.mdp.policy);
                let draws = simulate(mdp, (&methods, Some(OPTIMAL)), (groups, group), seed(context, t));
                let ratio = |d: &Draws| d.variance_ratio(&draws[0]);
                Ok((draws.iter().map(ratio).collect(), draws.iter().map(Draws::error).collect()))
            };
            let (ratio, error) = context.store.piece(&format!("methods/{group}/{t}"), work)?;
            tick();
            anyhow::Ok(Row { common: t < fewer.len(), group, ratio, error })
        };
        rows.extend(asked.par_iter().enumerate().map(measured).collect::<anyhow::Result<Vec<_>>>()?);
    }
    let by_lambda = by_lambda(context, fewer, size.simulated, &tick)?;
    Ok(Numbers { rows, by_lambda, simulated: size.simulated })
}

/// The errors of every λ on these tasks; `tick` is called for each that is done.
fn by_lambda(
    context: &Context,
    tasks: &[Task],
    simulated: usize,
    tick: &(dyn Fn() + Sync),
) -> anyhow::Result<Vec<ByLambda>> {
    let lambdas = |name: &str, settings: &str| -> anyhow::Result<Vec<Box<dyn Method>>> {
        LAMBDAS.iter().map(|l| method(name, &format!("{settings} lambda={l}"))).collect()
    };
    let estimated = lambdas("prefix_rloo", "control=state")?;
    let exact = lambdas("ppo", "whiten=false clip=none reduction=response_sum")?;
    let both: Vec<Box<dyn Method>> = estimated.into_iter().chain(exact).collect();
    let errors = |(t, task): (usize, &Task)| {
        let work = || {
            let mdp = (&task.mdp.tree, &task.mdp.policy);
            let draws = simulate(mdp, (&both, None), (simulated, GROUPS[0]), seed(context, 10_000 + t));
            Ok(draws.iter().map(Draws::error).collect())
        };
        let errors: Vec<f64> = context.store.piece(&format!("lambda/{t}"), work)?;
        tick();
        let (estimated, exact) = (errors[..LAMBDAS.len()].to_vec(), errors[LAMBDAS.len()..].to_vec());
        Ok(ByLambda { estimated, exact })
    };
    tasks.par_iter().enumerate().map(errors).collect()
}

struct Task {
    mdp: Mdp,
    of_zoo: bool,
}

/// The zoo but its largest trees, and random trees.
fn tasks(seed: u64, random: usize) -> anyhow::Result<Vec<Task>> {
    let zoo = zoo_mdps(LARGEST)?.into_iter().map(|mdp| Task { mdp, of_zoo: true });
    let random = random_mdps(random, seed, Random::default())?;
    Ok(zoo.chain(random.into_iter().map(|mdp| Task { mdp, of_zoo: false })).collect())
}

fn seed(context: &Context, task: usize) -> u64 {
    context.seed.wrapping_add((task as u64) << 20)
}

/// One method's update on one simulated group.
#[derive(Clone, Copy, Debug)]
struct Draw {
    /// `|g - ∇J|²`.
    error: f64,
    /// `|g|²`.
    square: f64,
    /// `<g, ∇J>`.
    along: f64,
}

#[derive(Clone, Debug)]
struct Draws {
    draws: Vec<Draw>,
    /// `|∇J|²`.
    gradient: f64,
}

impl Draws {
    fn mean(&self, of: impl Fn(&Draw) -> f64) -> f64 {
        average(self.draws.iter().map(of))
    }

    /// `E|g - ∇J|²` over that of another method on the same groups, with its standard error. For unbiased updates:
    /// variances.
    fn variance_ratio(&self, other: &Draws) -> (f64, f64) {
        let errors = |draws: &Draws| draws.draws.iter().map(|d| d.error).collect::<Vec<_>>();
        ratio_of_means(&errors(self), &errors(other))
    }

    /// `min_c E|c g - ∇J|² / |∇J|²`: the error of one update at the best step size.
    fn error(&self) -> f64 {
        1.0 - self.mean(|d| d.along).powi(2) / (self.gradient * self.mean(|d| d.square))
    }
}

/// `b*(s)` of every prefix.
fn optimal_baseline(oracle: &Oracle) -> Vec<f64> {
    let tree = oracle.tree;
    let at = |node: usize| {
        let squares: f64 = tree.edges_of(node).map(|e| oracle.probs[e].powi(2)).sum();
        let weight = |e: usize| oracle.probs[e] * (1.0 - 2.0 * oracle.probs[e] + squares);
        let weights: f64 = tree.edges_of(node).map(weight).sum();
        let weighted: f64 = tree.edges_of(node).map(|e| weight(e) * oracle.q[e]).sum();
        // Where one token is certain every baseline does the same.
        if weights > 0.0 { weighted / weights } else { oracle.v[node] }
    };
    tree.nodes().map(at).collect()
}

/// Every method on the same `groups` groups of `size` responses; the one at the place `optimal`, if any, has b* for a
/// critic.
fn simulate(
    (tree, policy): (&Tree, &Tabular),
    (methods, optimal): (&[Box<dyn Method>], Option<usize>),
    (groups, size): (usize, usize),
    seed: u64,
) -> Vec<Draws> {
    let oracle = Oracle::new(tree, policy);
    let exact = Exact::new(&oracle).with_states(features::tokens_by_position(tree));
    let best = exact.clone().with_critic(optimal_baseline(&oracle));
    let (sampler, gradient) = (Sampler::new(tree, policy), oracle.grad_j());
    let square = dot(&gradient, &gradient);
    let mut all = vec![Draws { draws: Vec::with_capacity(groups), gradient: square }; methods.len()];
    let mut rng = stream(seed, size as u64);
    for _ in 0..groups {
        let (mut paths, mut logps, mut responses) = (Vec::new(), Vec::new(), Vec::new());
        let mut leaves = Vec::new();
        for _ in 0..size {
            let mut path = Vec::new();
            let leaf = sampler.sample_into(&mut rng, &mut path);
            let reward = sample_reward(tree, leaf, &mut rng);
            let own: Vec<f64> = path.iter().map(|&e| oracle.log_probs[e]).collect();
            responses.push(Response {
                tokens: path.iter().map(|&e| tree.token(e)).collect(),
                truncated: tree.truncated(leaf),
                extra_inputs: exact.extra_inputs(leaf, &path),
                ..Response::graded(own.clone(), reward)
            });
            logps.push(own);
            paths.push(path);
            leaves.push(leaf);
        }
        let batch = [Group { responses }];
        let mut with_best = optimal.map(|_| batch.clone());
        for (response, (leaf, path)) in
            with_best.iter_mut().flatten().flat_map(|g| &mut g.responses).zip(leaves.iter().zip(&paths))
        {
            response.extra_inputs = best.extra_inputs(*leaf, path);
        }
        for (m, (draws, method)) in all.iter_mut().zip(methods).enumerate() {
            let batch = with_best.as_ref().filter(|_| optimal == Some(m)).unwrap_or(&batch);
            let loss = methods::evaluate(method.as_ref(), batch, &logps);
            let mut per_edge = vec![0.0; tree.edge_count()];
            for (path, dlogps) in paths.iter().zip(&loss.dlogps) {
                path.iter().zip(dlogps).for_each(|(&e, d)| per_edge[e] -= d);
            }
            let g = policy.backward(tree, &per_edge);
            let along = dot(&g, &gradient);
            let own = dot(&g, &g);
            draws.draws.push(Draw { error: own - 2.0 * along + square, square: own, along });
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `E|Σ_t (R - b(s_t)) ∇_t|²` of one response, over all responses and rewards.
    fn square(oracle: &Oracle, policy: &Tabular, b: &[f64]) -> f64 {
        let tree = oracle.tree;
        tree.leaves()
            .map(|leaf| {
                let path = tree.path(leaf);
                let of_reward = |reward: f64| {
                    let mut per_edge = vec![0.0; tree.edge_count()];
                    path.iter().for_each(|&e| per_edge[e] = reward - b[tree.edge_node(e)]);
                    let g = policy.backward(tree, &per_edge);
                    dot(&g, &g)
                };
                let right = tree.reward(leaf);
                oracle.leaf_prob(leaf) * (right * of_reward(1.0) + (1.0 - right) * of_reward(0.0))
            })
            .sum()
    }

    /// By enumeration: no baseline of prefixes beats b*, exact values do worse, and b* is not V.
    #[test]
    fn the_optimal_baseline_has_the_least_variance_of_all() {
        for mdp in random_mdps(5, 3, Random::default()).unwrap() {
            let oracle = mdp.oracle();
            let best = optimal_baseline(&oracle);
            let least = square(&oracle, &mdp.policy, &best);
            assert!(least < square(&oracle, &mdp.policy, &oracle.v) * (1.0 - 1e-6), "{}", mdp.name);
            let choices = |node: &usize| mdp.tree.edges_of(*node).len() > 1;
            for node in mdp.tree.nodes().filter(choices).take(6) {
                for step in [-0.05, 0.05] {
                    let mut other = best.clone();
                    other[node] += step;
                    assert!(square(&oracle, &mdp.policy, &other) > least, "{} {node}", mdp.name);
                }
            }
        }
    }
}
