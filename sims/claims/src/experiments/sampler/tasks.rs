//! Variances on trees: exact where a formula has them, else simulated with an estimator whose variance is known.

use super::{
    BEST, GROUPS, HALVES, HALVES_Q, KNOWN, METHODS, POSTERIOR, PREFIX, QUARTERS, STATE, TOKENS, VALUES, VISIT,
};
use crate::experiments::common::mdp::{Mdp, method, random_mdps, zoo_mdps};
use crate::experiments::common::{dot, mean, norm, ratio_of_means, stream};
use grpo_lambda::group::{Group, Response};
use grpo_lambda::methods::{self, Method};
use grpo_lambda::systematic::{Guard, Sets};
use grpo_lambda_mdp::expected::{PrefixMoments, SetMoments};
use grpo_lambda_mdp::zoo::Random;
use grpo_lambda_mdp::{EdgeId, LeafId, Oracle, RewardKind, Sampler, Target, Tree};
use serde::{Deserialize, Serialize};

/// Random trees.
const TREES: usize = 300;
/// Responses of the largest task that is simulated.
const LARGEST: usize = 300;
/// The shrinkage of Prefix RLOO.
const SHRINKAGE: f64 = 4.0;

/// A task at a group size.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Row {
    pub(super) task: String,
    pub(super) of_zoo: bool,
    pub(super) group: usize,
    /// Share of RLOO's variance by method, with its standard error: 0 where it is exact.
    pub(super) ratio: [Option<(f64, f64)>; METHODS.len()],
    /// Bias of one systematic set with its own mean, over the gradient.
    pub(super) bias: f64,
    /// Cosine of that expected update with the gradient.
    pub(super) cosine: f64,
}

pub(super) struct Task {
    mdp: Mdp,
    of_zoo: bool,
    /// Its place among the random trees, or 0.
    place: usize,
}

/// The zoo and random trees.
pub(super) fn tasks(seed: u64) -> anyhow::Result<Vec<Task>> {
    let zoo = zoo_mdps(usize::MAX)?.into_iter().map(|mdp| Task { mdp, of_zoo: true, place: 0 });
    let random = random_mdps(TREES, seed, Random::default())?.into_iter().enumerate();
    Ok(zoo.chain(random.map(|(place, mdp)| Task { mdp, of_zoo: false, place })).collect())
}

impl Task {
    /// True if the task is among those simulated when `trees` random ones are.
    pub(super) fn simulated(&self, trees: usize) -> bool {
        self.place < trees && self.mdp.tree.leaf_count() <= LARGEST
    }

    /// Its rows, with so many simulated groups of 8 and as many responses in larger ones.
    pub(super) fn rows(&self, simulated: usize, seed: u64) -> anyhow::Result<Vec<Row>> {
        let oracle = self.mdp.oracle();
        let prefixes = PrefixMoments::new(&oracle);
        let sets = |h: usize| SetMoments::new(&oracle, h);
        let (single, mut known) = (sets(1), std::collections::BTreeMap::new());
        let mut rows = Vec::new();
        for g in GROUPS {
            for h in [g / 4, g / 2, g] {
                known.entry(h).or_insert_with(|| sets(h));
            }
            let [quarter, half, whole] = [g / 4, g / 2, g].map(|h| &known[&h]);
            let rloo = single.cross_variance(g);
            let mut ratio = [None; METHODS.len()];
            // Rounding in place of 0 would differ between machines.
            let share = |variance: f64| if variance > 1e-12 * rloo { variance / rloo } else { 0.0 };
            let mut exact = |method: usize, variance: f64| ratio[method] = Some((share(variance), 0.0));
            exact(STATE, prefixes.group_values(g, SHRINKAGE).iter().map(|d| d.diagonal + d.pairs).sum());
            exact(HALVES, half.cross_variance(2));
            exact(QUARTERS, quarter.cross_variance(4));
            if self.mdp.tree.reward_kind() == RewardKind::Binary {
                exact(VISIT, after_a_visit(g, whole, half));
            }
            exact(KNOWN, single.credit / g as f64);
            exact(VALUES, prefixes.exact_values() / g as f64);
            exact(BEST, prefixes.best_values() / g as f64);
            exact(TOKENS, prefixes.exact_actions() / g as f64);
            let simulated = self.simulate(&oracle, g, simulated * GROUPS[0] / g, seed)?;
            if let Some(Simulated { prefix, posterior, on_sets, .. }) = simulated {
                ratio[PREFIX] = Some(prefix);
                ratio[POSTERIOR] = posterior;
                ratio[HALVES_Q] = ratio[HALVES].map(|(halves, _)| (halves * on_sets.0, halves * on_sets.1));
            }
            let gradient = norm(&whole.gradient);
            let expected: Vec<f64> =
                whole.gradient.iter().zip(&whole.covariance).map(|(d, c)| d - c).collect();
            rows.push(Row {
                task: self.mdp.name.clone(),
                of_zoo: self.of_zoo,
                group: g,
                ratio,
                bias: norm(&whole.covariance) / gradient,
                cosine: match norm(&expected) {
                    length if length > 1e-12 * gradient => {
                        dot(&expected, &whole.gradient) / (length * gradient)
                    }
                    _ => 0.0,
                },
            });
        }
        Ok(rows)
    }

    /// Share of RLOO's variance of estimators without a formula; none where nothing is to be simulated.
    fn simulate(
        &self,
        oracle: &Oracle,
        g: usize,
        groups: usize,
        seed: u64,
    ) -> anyhow::Result<Option<Simulated>> {
        if groups == 0 {
            return Ok(None);
        }
        let rule = |name, settings: &str| Ok::<_, anyhow::Error>(Rule::Method(method(name, settings)?));
        let independent = [rule("rloo", "")?, rule("prefix_rloo", "")?, Rule::Posterior];
        let on_sets = [rule("systematic_rloo", "")?, rule("systematic_prefix_rloo", "")?];
        let free = self.errors(oracle, &independent, Sets::SINGLE, (g, groups), seed);
        let sets = self.errors(oracle, &on_sets, Sets::new(2), (g, groups), seed.wrapping_add(1));
        let posterior = (!self.of_zoo).then(|| paired_ratio(&free[2], &free[0]));
        Ok(Some(Simulated {
            prefix: paired_ratio(&free[1], &free[0]),
            posterior,
            on_sets: paired_ratio(&sets[1], &sets[0]),
        }))
    }

    /// `|g - ∇J|²` of every rule on the same groups.
    fn errors(
        &self,
        oracle: &Oracle,
        rules: &[Rule],
        sets: Sets,
        (g, groups): (usize, usize),
        seed: u64,
    ) -> Vec<Vec<f64>> {
        let (tree, policy) = (&self.mdp.tree, &self.mdp.policy);
        let (sampler, gradient) = (Sampler::from_probs(tree, oracle.probs.clone()), oracle.grad_j());
        let mut rng = stream(seed, g as u64);
        let mut errors = vec![Vec::with_capacity(groups); rules.len()];
        for _ in 0..groups {
            let drawn = sampler.graded_group(sets, g, &mut rng);
            for (errors, rule) in errors.iter_mut().zip(rules) {
                let update = policy.backward(tree, &rule.weights(oracle, &drawn));
                errors.push(update.iter().zip(&gradient).map(|(u, d)| (u - d).powi(2)).sum());
            }
        }
        errors
    }
}

/// Ratios with their standard errors.
#[derive(Clone, Copy)]
struct Simulated {
    prefix: (f64, f64),
    posterior: Option<(f64, f64)>,
    /// Prefix Q on two sets, over the means of two sets.
    on_sets: (f64, f64),
}

/// The ratio of two means over the same groups, with its standard error; 1 where both are 0 up to rounding.
fn paired_ratio(ours: &[f64], base: &[f64]) -> (f64, f64) {
    if mean(base).max(mean(ours)) < 1e-20 {
        return (1.0, 0.0);
    }
    let (ratio, error) = ratio_of_means(ours, base);
    (ratio, if error > 1e-12 { error } else { 0.0 })
}

/// The variance with the success rate of `g` independent responses at an earlier visit: one set inside the guard, two
/// outside.
fn after_a_visit(g: usize, whole: &SetMoments, half: &SetMoments) -> f64 {
    let (p, mut share) = (whole.mean, (1.0 - whole.mean).powi(g as i32));
    let mut variance = 0.0;
    for k in 0..=g {
        let rate = k as f64 / g as f64;
        let one_set = Guard::USUAL.open(rate);
        variance += share * if one_set { whole.variance_around(rate) } else { half.cross_variance(2) };
        share *= (g - k) as f64 / (k + 1) as f64 * p / (1.0 - p);
    }
    variance
}

enum Rule {
    Method(Box<dyn Method>),
    /// Rewards minus posterior means of the value, given the other responses of the group, of trees whose rewards are
    /// fair bits.
    Posterior,
}

impl Rule {
    /// Weights of tokens, summed per edge.
    fn weights(&self, oracle: &Oracle, drawn: &[(LeafId, Vec<EdgeId>, f64)]) -> Vec<f64> {
        let tree = oracle.tree;
        let mut per_edge = vec![0.0; tree.edge_count()];
        match self {
            Rule::Method(method) => {
                let logps = |path: &[EdgeId]| path.iter().map(|&e| oracle.log_probs[e]).collect::<Vec<_>>();
                let response = |(_, path, reward): &(LeafId, Vec<EdgeId>, f64)| Response {
                    tokens: path.iter().map(|&e| tree.token(e)).collect(),
                    ..Response::graded(logps(path), *reward)
                };
                let rows: Vec<_> = drawn.iter().map(|(_, path, _)| logps(path)).collect();
                let group = Group { responses: drawn.iter().map(response).collect() };
                let loss = methods::evaluate(method.as_ref(), &[group], &rows);
                for ((_, path, _), dlogps) in drawn.iter().zip(&loss.dlogps) {
                    path.iter().zip(dlogps).for_each(|(&e, d)| per_edge[e] -= d);
                }
            }
            Rule::Posterior => {
                for (i, (_, path, reward)) in drawn.iter().enumerate() {
                    let others = drawn.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, d)| d);
                    let values = posterior(oracle, others);
                    for &e in path {
                        per_edge[e] += (reward - values[tree.edge_node(e)]) / drawn.len() as f64;
                    }
                }
            }
        }
        per_edge
    }
}

/// `E[V(s)]` per node given graded responses: a leaf that was seen has its reward, any other one half.
fn posterior<'a>(oracle: &Oracle, seen: impl Iterator<Item = &'a (LeafId, Vec<EdgeId>, f64)>) -> Vec<f64> {
    let tree: &Tree = oracle.tree;
    let mut rewards = vec![0.5; tree.leaf_count()];
    seen.for_each(|(leaf, _, reward)| rewards[*leaf] = *reward);
    let mut values = vec![0.0; tree.node_count()];
    for node in tree.nodes().rev() {
        for edge in tree.edges_of(node) {
            let after = match tree.target(edge) {
                Target::Leaf(leaf) => rewards[leaf],
                Target::Node(child) => values[child],
            };
            values[node] += oracle.probs[edge] * after;
        }
    }
    values
}
