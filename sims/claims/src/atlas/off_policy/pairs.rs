//! The policies that sample and the policies that are updated.

use crate::experiments::common::{dot, norm};
use crate::training::Task;
use grpo_lambda_mdp::expected::cosine;
use grpo_lambda_mdp::zoo::{Chain, Family, Fork, LuckyGuess, Random};
use grpo_lambda_mdp::{Oracle, Tabular, Tree};
use serde::{Deserialize, Serialize};

/// The MDPs: at most seven responses and rewards each. Only the lucky guess has responses of one length.
pub(super) fn tasks() -> anyhow::Result<Vec<Task>> {
    let lucky = LuckyGuess { answers: 2, work: 1, fillers: 1, ..LuckyGuess::default() };
    let random = Random { seed: 4, symbols: 2, horizon: 3, eos: 0.7, ..Random::default() };
    let chain = Chain::default().tree()?;
    let right_threefold =
        Tabular::from_weights(&chain, |_, edge| if chain.token_name(edge) == "right" { 3.0 } else { 1.0 });
    Ok(vec![
        Task::new("fork", "", &Fork::default())?,
        Task::with_start("chain", "", chain, right_threefold),
        Task::new("lucky_guess", "", &lucky)?,
        Task::new("random", "", &random)?,
    ])
}

/// `KL(behaviour || current)` over responses, in nats.
pub(super) fn divergence(tree: &Tree, behaviour: &Tabular, current: &Tabular) -> f64 {
    let sampler = Oracle::new(tree, behaviour);
    let updated = current.log_probs(tree);
    tree.edges().map(|e| sampler.edge_visit(e) * (sampler.log_probs[e] - updated[e])).sum::<f64>().max(0.0)
}

/// The rate at which one step along `update` moves `policy` by `kl` nats per response; none where `update` does not move it.
pub(super) fn rate_of(tree: &Tree, policy: &Tabular, update: &[f64], kl: f64) -> Option<f64> {
    let moved = |rate: f64| {
        let mut next = policy.clone();
        next.step(update, rate);
        divergence(tree, policy, &next)
    };
    let norm = norm(update);
    if norm < 1e-12 {
        return None;
    }
    let mut high = 1e-3 / norm;
    for _ in 0..40 {
        if moved(high) >= kl {
            break;
        }
        high *= 2.0;
    }
    if moved(high) < kl {
        return None;
    }
    let mut low = 0.0;
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if moved(middle) < kl { low = middle } else { high = middle }
    }
    Some(high)
}

/// The policies after `0..=steps` steps along the exact gradient of `J`, the first of which moves by `kl` nats.
pub(super) fn ascent(task: &Task, steps: usize, kl: f64) -> Option<Vec<Tabular>> {
    let gradient = |policy: &Tabular| Oracle::new(&task.tree, policy).grad_j();
    let rate = rate_of(&task.tree, &task.start, &gradient(&task.start), kl)?;
    let mut path = vec![task.start.clone()];
    for k in 0..steps {
        let mut next = path[k].clone();
        next.step(&gradient(&path[k]), rate);
        path.push(next);
    }
    Some(path)
}

/// The policy at temperature `tau`: logits divided by it.
pub(super) fn tempered(policy: &Tabular, tau: f64) -> Tabular {
    Tabular { logits: policy.logits.iter().map(|x| x / tau).collect() }
}

/// The policy with normal noise of standard deviation `sigma` on every logit.
pub(super) fn noisy(tree: &Tree, policy: &Tabular, sigma: f64, seed: u64) -> Tabular {
    let noise = Tabular::random(tree, seed, sigma).logits;
    Tabular { logits: policy.logits.iter().zip(noise).map(|(x, n)| x + n).collect() }
}

/// An expected update against the gradient of `J` at the updated policy.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Fit {
    pub(super) cosine: f64,
    /// The multiple `κ` of `∇J` that fits best.
    pub(super) scale: f64,
    /// `|E[g] - κ ∇J| / |κ ∇J|`.
    pub(super) bias: f64,
}

impl Fit {
    /// The comparison; none where the update is silent: below `floor`.
    pub(super) fn new(update: &[f64], gradient: &[f64], floor: f64) -> Option<Fit> {
        if norm(update) <= floor || norm(gradient) == 0.0 {
            return None;
        }
        let scale = dot(update, gradient) / norm(gradient).powi(2);
        let rest: Vec<f64> = update.iter().zip(gradient).map(|(u, g)| u - scale * g).collect();
        let bias = norm(&rest) / (scale.abs() * norm(gradient));
        Some(Fit { cosine: cosine(update, gradient), scale, bias })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::atlas::entrants::Source;
    use crate::atlas::multisets::{Groups, Ratios};

    #[test]
    fn every_task_is_small_enough_for_groups_of_eight_and_has_something_to_learn() {
        for task in tasks().unwrap() {
            let groups =
                Groups::new(&task.tree, &task.start, &task.start, Ratios::Sampler, 8, Source::Table).unwrap();
            assert!(groups.atoms().len() <= 7, "{}: {}", task.name, groups.atoms().len());
            let gradient = Oracle::new(&task.tree, &task.start).grad_j();
            assert!(norm(&gradient) > 0.01, "{}", task.name);
        }
    }

    #[test]
    fn a_step_at_the_rate_found_has_the_divergence_asked_for() {
        for task in tasks().unwrap() {
            let path = ascent(&task, 2, 0.02).unwrap();
            let kl = divergence(&task.tree, &path[0], &path[1]);
            assert!((kl - 0.02).abs() < 1e-9, "{}: {kl}", task.name);
            assert!(divergence(&task.tree, &path[0], &path[2]) > kl);
        }
        let task = &tasks().unwrap()[0];
        assert_eq!(rate_of(&task.tree, &task.start, &vec![0.0; task.tree.edge_count()], 0.02), None);
    }

    #[test]
    fn a_multiple_of_the_gradient_fits_perfectly_and_nothing_does_not() {
        let gradient = [1.0, -2.0, 0.5];
        let fit = Fit::new(&gradient.map(|g| 3.0 * g), &gradient, 0.0).unwrap();
        assert!((fit.cosine - 1.0).abs() < 1e-15 && (fit.scale - 3.0).abs() < 1e-15 && fit.bias < 1e-15);
        assert_eq!(Fit::new(&[0.0; 3], &gradient, 0.0), None);
    }
}
