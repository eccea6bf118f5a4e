//! [`enumerated`] and [`multisets`]: the expected update by brute force over groups of responses.

use super::{Atom, Evaluated, Expected, ExpectedError, Situation};
use grpo_lambda::group::Group;
use grpo_lambda::method::{Method, evaluate};

/// Limit on the number of tuples.
const LIMIT: f64 = 4e6;

/// The expected update and its variance, as a plain sum over all `G`-tuples of (response, reward) with their probabilities.
///
/// Assumes nothing about the method: the independent check of [`implied`](super::implied).
///
/// # Errors
/// [`ExpectedError::TooMany`] above four million tuples.
pub fn enumerated(method: &dyn Method, situation: &Situation) -> Result<Expected, ExpectedError> {
    let evaluated = Evaluated::new(situation);
    let atoms = evaluated.atoms();
    refuse_above(LIMIT, (atoms.len() as f64).powi(evaluated.group_size as i32))?;
    // The next tuple, as an odometer.
    let next = |tuple: &mut [usize]| {
        let turn = tuple.iter().rposition(|&i| i + 1 < atoms.len())?;
        tuple[turn] += 1;
        tuple[turn + 1..].fill(0);
        Some(turn)
    };
    Ok(sum(method, &evaluated, &atoms, next, |_| 1.0))
}

/// [`enumerated`] with tuples that differ in their order only summed as one, for methods to which the order of a group means nothing.
///
/// A conformance test holds every registered method to that. `C(n+G-1, G)` terms for `n` (response, reward) pairs.
///
/// # Errors
/// [`ExpectedError::TooMany`] above `limit` terms.
pub fn multisets(method: &dyn Method, situation: &Situation, limit: f64) -> Result<Expected, ExpectedError> {
    let evaluated = Evaluated::new(situation);
    let atoms = evaluated.atoms();
    let (n, g) = (atoms.len(), evaluated.group_size);
    refuse_above(limit, (0..g).map(|i| (n + i) as f64 / (i + 1) as f64).product())?;
    // The next tuple that does not descend.
    let next = |tuple: &mut [usize]| {
        let turn = tuple.iter().rposition(|&i| i + 1 < n)?;
        let value = tuple[turn] + 1;
        tuple[turn..].fill(value);
        Some(turn)
    };
    // G! over the factorials of how often each occurs.
    let orders = |tuple: &[usize]| {
        let (mut orders, mut run) = (1.0, 0.0);
        for (i, k) in tuple.iter().enumerate() {
            run = if i > 0 && tuple[i - 1] == *k { run + 1.0 } else { 1.0 };
            orders *= (i + 1) as f64 / run;
        }
        orders
    };
    Ok(sum(method, &evaluated, &atoms, next, orders))
}

fn refuse_above(limit: f64, terms: f64) -> Result<(), ExpectedError> {
    if terms > limit { Err(ExpectedError::TooMany { terms, limit }) } else { Ok(()) }
}

/// The sum over the tuples that `next` goes through from all zeros on; it returns the first place that changed. Each counts `orders` times.
fn sum(
    method: &dyn Method,
    evaluated: &Evaluated,
    atoms: &[Atom],
    next: impl Fn(&mut [usize]) -> Option<usize>,
    orders: impl Fn(&[usize]) -> f64,
) -> Expected {
    let (tree, g) = (evaluated.tree, evaluated.group_size);
    let edges = tree.edge_count();
    let (mut weights, mut squares) = (vec![0.0; edges], vec![0.0; edges]);
    let mut tuple = vec![0; g];
    let mut group = Group { responses: vec![atoms[0].response.clone(); g] };
    let mut logps = vec![atoms[0].logps.clone(); g];
    loop {
        let probability = orders(&tuple) * tuple.iter().map(|&i| atoms[i].probability).product::<f64>();
        let batch = evaluate(method, std::slice::from_ref(&group), &logps);
        let mut per_edge = vec![0.0; edges];
        for (&i, dlogps) in tuple.iter().zip(&batch.dlogps) {
            for (&edge, d) in atoms[i].path.iter().zip(dlogps) {
                per_edge[edge] -= d;
            }
        }
        for (edge, step) in evaluated.pull_back(&per_edge).into_iter().enumerate() {
            weights[edge] += probability * per_edge[edge];
            squares[edge] += probability * step * step;
        }
        let Some(turn) = next(&mut tuple) else { break };
        for i in turn..g {
            group.responses[i].clone_from(&atoms[tuple[i]].response);
            logps[i].clone_from(&atoms[tuple[i]].logps);
        }
    }
    let update = evaluated.pull_back(&weights);
    let variance = squares.iter().zip(&update).map(|(s, u)| (s - u * u).max(0.0)).collect();
    Expected { credit: evaluated.per_visit(&weights), update, variance }
}
