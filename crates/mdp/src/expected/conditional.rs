//! [`conditional`]: the expected update with the other responses simulated and the response's own summed exactly.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::{Evaluated, Situation};
use crate::{Sampler, sample_reward};
use grpo_lambda::group::Group;
use grpo_lambda::methods::Method;

/// An expected update whose other responses were simulated.
#[derive(Clone, Debug, PartialEq)]
pub struct Conditional {
    /// `E[g | the others]` per edge, for every draw of the others: independent, each with mean `E[g]`.
    pub draws: Vec<Vec<f64>>,
    /// The mean of `draws`.
    pub update: Vec<f64>,
    /// Implied credit `ω(s,a)` per edge; 0 where no response passes.
    pub credit: Vec<f64>,
}

/// The expected update by conditioning: `G` times that of one response, summed exactly over what it may be, averaged over `draws` simulated sets of
/// `G-1` others.
///
/// For any method to which the order of a group means nothing. Whatever is a baseline to the response, of whatever size, drops out of the exact sum, so that
/// far fewer groups are needed than by [`sampled`](super::sampled). Says nothing of the variance.
///
/// # Panics
/// If `draws < 2`.
pub fn conditional(method: &dyn Method, situation: &Situation, draws: usize, seed: u64) -> Conditional {
    assert!(draws >= 2, "a standard error needs at least two draws");
    let evaluated = Evaluated::new(situation);
    let (tree, g) = (evaluated.tree, evaluated.group_size);
    let sampler = Sampler::new(tree, situation.behaviour);
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let edges = tree.edge_count();
    let (mut total, mut all) = (vec![0.0; edges], Vec::with_capacity(draws));
    let mut path = Vec::new();
    for _ in 0..draws {
        // Again for every draw: extra inputs may be random.
        let atoms = evaluated.atoms();
        let mut responses = vec![atoms[0].response.clone()];
        for _ in 1..g {
            let leaf = sampler.sample_into(&mut rng, &mut path);
            responses.push(evaluated.response(leaf, &path, sample_reward(tree, leaf, &mut rng)));
        }
        let mut group = [Group { responses }];
        let mut weights = vec![0.0; edges];
        for atom in &atoms {
            group[0].responses[0].clone_from(&atom.response);
            let credit = method.credit(&group).swap_remove(0);
            let loss = method.loss(&atom.response, &credit, &atom.logps);
            for (&edge, d) in atom.path.iter().zip(&loss.dlogps) {
                weights[edge] -= g as f64 * atom.probability * d;
            }
        }
        for (sum, w) in total.iter_mut().zip(&weights) {
            *sum += w / draws as f64;
        }
        all.push(evaluated.pull_back(&weights));
    }
    Conditional { draws: all, update: evaluated.pull_back(&total), credit: evaluated.per_visit(&total) }
}
