//! [`enumerated`]: the expected update by brute force over every tuple of responses.

use super::{Expected, ExpectedError, Setting, Situation};
use crate::group::Group;
use crate::methods::{Method, evaluate};

/// Limit on the number of tuples.
const LIMIT: f64 = 4e6;

/// The expected update and its variance, as a plain sum over all `G`-tuples of (response, reward) with their probabilities.
///
/// Assumes nothing about the method: the independent check of [`implied`](super::implied).
///
/// # Errors
/// [`ExpectedError::TooMany`] above four million tuples.
pub fn enumerated(method: &dyn Method, situation: &Situation) -> Result<Expected, ExpectedError> {
    let setting = Setting::new(situation);
    let (tree, g) = (setting.tree, setting.group_size);
    let mut atoms = Vec::new();
    for leaf in tree.leaves() {
        let path = tree.path(leaf);
        let logps: Vec<f64> = path.iter().map(|&e| setting.current.log_probs[e]).collect();
        for (reward, p) in tree.outcomes(leaf) {
            let probability = p * setting.behaviour.leaf_prob(leaf);
            if probability > 0.0 {
                atoms.push((probability, setting.response(leaf, &path, reward), path.clone(), logps.clone()));
            }
        }
    }
    let terms = (atoms.len() as f64).powi(g as i32);
    if terms > LIMIT {
        return Err(ExpectedError::TooMany { terms, limit: LIMIT });
    }

    let edges = tree.edge_count();
    let (mut weights, mut squares) = (vec![0.0; edges], vec![0.0; edges]);
    let mut tuple = vec![0; g];
    let mut group = Group { responses: vec![atoms[0].1.clone(); g] };
    let mut logps = vec![atoms[0].3.clone(); g];
    loop {
        let probability: f64 = tuple.iter().map(|&i| atoms[i].0).product();
        let batch = evaluate(method, std::slice::from_ref(&group), &logps);
        let mut per_edge = vec![0.0; edges];
        for (&i, dlogps) in tuple.iter().zip(&batch.dlogps) {
            for (&edge, d) in atoms[i].2.iter().zip(dlogps) {
                per_edge[edge] -= d;
            }
        }
        for (edge, step) in setting.pull_back(&per_edge).into_iter().enumerate() {
            weights[edge] += probability * per_edge[edge];
            squares[edge] += probability * step * step;
        }
        // The next tuple, as an odometer.
        let Some(turn) = (0..g).rev().find(|&i| tuple[i] + 1 < atoms.len()) else { break };
        tuple[turn] += 1;
        tuple[turn + 1..].fill(0);
        for i in turn..g {
            group.responses[i].clone_from(&atoms[tuple[i]].1);
            logps[i].clone_from(&atoms[tuple[i]].3);
        }
    }
    let update = setting.pull_back(&weights);
    let variance = squares.iter().zip(&update).map(|(s, u)| (s - u * u).max(0.0)).collect();
    Ok(Expected { credit: setting.per_visit(&weights), update, variance })
}
