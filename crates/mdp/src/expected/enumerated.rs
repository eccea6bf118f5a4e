//! [`enumerated`], [`multisets`] and [`systematic`]: the expected update by brute force over groups of responses.

use super::shifts::shifts;
use super::{Atom, Evaluated, Expected, ExpectedError, Situation};
use grpo_lambda::group::Group;
use grpo_lambda::methods::{Method, evaluate};
use grpo_lambda::systematic::Sets;

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
    Ok(all_tuples(method, &evaluated, &atoms, &single(&atoms)))
}

/// The expected update and its variance over groups that are sampled in systematic sets: the integral over all shifts, which is a sum, since
/// a set's responses change at finitely many shifts; rewards are drawn independently.
///
/// See [`grpo_lambda::systematic`] for the sampler. With one response per set it is [`enumerated`].
///
/// # Errors
/// [`ExpectedError::TooMany`] above four million terms.
///
/// # Panics
/// If the sets do not share the group's responses equally.
pub fn systematic(
    method: &dyn Method,
    situation: &Situation,
    sets: usize,
) -> Result<Expected, ExpectedError> {
    let evaluated = Evaluated::new(situation);
    let (atoms, g) = (evaluated.atoms(), evaluated.group_size);
    assert!(sets > 0 && g % sets == 0, "{g} responses do not make {sets} equal sets");
    let units = if sets == g { single(&atoms) } else { drawn(&evaluated, &atoms, g / sets) };
    refuse_above(LIMIT, (units.len() as f64).powi(sets as i32))?;
    Ok(all_tuples(method, &evaluated, &atoms, &units))
}

/// The sum over all tuples of units.
fn all_tuples(method: &dyn Method, evaluated: &Evaluated, atoms: &[Atom], units: &[Unit]) -> Expected {
    // The next tuple, as an odometer.
    let next = |tuple: &mut [usize]| {
        let turn = tuple.iter().rposition(|&i| i + 1 < units.len())?;
        tuple[turn] += 1;
        tuple[turn + 1..].fill(0);
        Some(turn)
    };
    sum(method, evaluated, atoms, units, next, |_| 1.0)
}

/// Responses with rewards that are drawn together, by their places among the atoms.
struct Unit {
    probability: f64,
    members: Vec<usize>,
}

/// Every response by itself.
fn single(atoms: &[Atom]) -> Vec<Unit> {
    let unit = |(i, atom): (usize, &Atom)| Unit { probability: atom.probability, members: vec![i] };
    atoms.iter().enumerate().map(unit).collect()
}

/// Every set of `h` responses at some shift, with every draw of their rewards.
fn drawn(evaluated: &Evaluated, atoms: &[Atom], h: usize) -> Vec<Unit> {
    let mut units = Vec::new();
    for piece in shifts(&evaluated.behaviour, h) {
        // From `k/h` on a shift gives the same responses in another order.
        for turn in 0..h {
            let mut partial = vec![Unit { probability: piece.width / h as f64, members: Vec::new() }];
            for k in 0..h {
                let leaf = piece.leaves[(k + turn) % h];
                let chance = |i: usize| atoms[i].probability / evaluated.behaviour.leaf_prob(leaf);
                let graded = |unit: &Unit| {
                    let rewards = (0..atoms.len()).filter(|&i| atoms[i].leaf == leaf);
                    let longer = |i| Unit {
                        probability: unit.probability * chance(i),
                        members: [&unit.members[..], &[i]].concat(),
                    };
                    rewards.map(longer).collect::<Vec<_>>()
                };
                partial = partial.iter().flat_map(graded).collect();
            }
            units.extend(partial);
        }
    }
    units
}

/// [`enumerated`] with tuples that differ in the order of responses within a set, or of sets, only summed as one: for methods to which nothing else of
/// the order of a group means anything.
///
/// A conformance test holds every registered method to that; its own sets are [`Configured::sets`](grpo_lambda::methods::Configured::sets), and
/// [`Sets::SINGLE`] where it has none. For `n` (response, reward) pairs there are `u = C(n+h-1, h)` sets of `h` responses, and the sum over the
/// groups of `M` sets has `C(u+M-1, M)` terms.
///
/// # Errors
/// [`ExpectedError::TooMany`] above `limit` terms.
///
/// # Panics
/// If the sets do not share the group's responses equally.
pub fn multisets(
    method: &dyn Method,
    situation: &Situation,
    sets: Sets,
    limit: f64,
) -> Result<Expected, ExpectedError> {
    let evaluated = Evaluated::new(situation);
    let atoms = evaluated.atoms();
    let (g, count) = (evaluated.group_size, sets.count(evaluated.group_size));
    assert!(g % count == 0, "{g} responses do not make {count} equal sets");
    let units = combinations(atoms.len() as f64, g / count);
    refuse_above(limit, combinations(units, count))?;
    let units = unordered(&atoms, g / count);
    Ok(sum(method, &evaluated, &atoms, &units, |tuple| ascend(tuple, units.len()), orders))
}

/// The number of multisets of `k` out of `n`.
fn combinations(n: f64, k: usize) -> f64 {
    (0..k).map(|i| (n + i as f64) / (i + 1) as f64).product()
}

/// Every multiset of `h` independent responses.
fn unordered(atoms: &[Atom], h: usize) -> Vec<Unit> {
    let (mut units, mut members) = (Vec::new(), vec![0; h]);
    loop {
        let probability = orders(&members) * members.iter().map(|&i| atoms[i].probability).product::<f64>();
        units.push(Unit { probability, members: members.clone() });
        if ascend(&mut members, atoms.len()).is_none() {
            return units;
        }
    }
}

/// Goes on to the next tuple of numbers below `n` that does not descend, and returns the first place that changed.
fn ascend(tuple: &mut [usize], n: usize) -> Option<usize> {
    let turn = tuple.iter().rposition(|&i| i + 1 < n)?;
    let value = tuple[turn] + 1;
    tuple[turn..].fill(value);
    Some(turn)
}

/// The number of orders of a tuple that does not descend: `G!` over the factorials of how often each number occurs.
fn orders(tuple: &[usize]) -> f64 {
    let (mut orders, mut run) = (1.0, 0.0);
    for (i, k) in tuple.iter().enumerate() {
        run = if i > 0 && tuple[i - 1] == *k { run + 1.0 } else { 1.0 };
        orders *= (i + 1) as f64 / run;
    }
    orders
}

fn refuse_above(limit: f64, terms: f64) -> Result<(), ExpectedError> {
    if terms > limit { Err(ExpectedError::TooMany { terms, limit }) } else { Ok(()) }
}

/// The sum over the tuples of units that `next` goes through from all zeros on; it returns the first place that changed. Each counts `orders` times.
fn sum(
    method: &dyn Method,
    evaluated: &Evaluated,
    atoms: &[Atom],
    units: &[Unit],
    next: impl Fn(&mut [usize]) -> Option<usize>,
    orders: impl Fn(&[usize]) -> f64,
) -> Expected {
    let (tree, g) = (evaluated.tree, evaluated.group_size);
    let edges = tree.edge_count();
    let (mut weights, mut squares) = (vec![0.0; edges], vec![0.0; edges]);
    let size = units[0].members.len();
    let mut tuple = vec![0; g / size];
    let place = |tuple: &[usize], i: usize| &atoms[units[tuple[i / size]].members[i % size]];
    let first = |i| place(&tuple, i);
    let mut group = Group { responses: (0..g).map(|i| first(i).response.clone()).collect() };
    let mut logps: Vec<_> = (0..g).map(|i| first(i).logps.clone()).collect();
    loop {
        let probability = orders(&tuple) * tuple.iter().map(|&u| units[u].probability).product::<f64>();
        let batch = evaluate(method, std::slice::from_ref(&group), &logps);
        let mut per_edge = vec![0.0; edges];
        for (i, dlogps) in batch.dlogps.iter().enumerate() {
            for (&edge, d) in place(&tuple, i).path.iter().zip(dlogps) {
                per_edge[edge] -= d;
            }
        }
        for (edge, step) in evaluated.pull_back(&per_edge).into_iter().enumerate() {
            weights[edge] += probability * per_edge[edge];
            squares[edge] += probability * step * step;
        }
        let Some(turn) = next(&mut tuple) else { break };
        for i in turn * size..g {
            group.responses[i].clone_from(&place(&tuple, i).response);
            logps[i].clone_from(&place(&tuple, i).logps);
        }
    }
    let update = evaluated.pull_back(&weights);
    let variance = squares.iter().zip(&update).map(|(s, u)| (s - u * u).max(0.0)).collect();
    Expected { credit: evaluated.per_visit(&weights), update, variance }
}
