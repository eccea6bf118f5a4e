//! [`implied`]: the expected update through implied credit, averaging over the other responses exactly.

use std::collections::BTreeMap;

use super::{Expected, ExpectedError, Setting, Situation};
use crate::group::{Group, Response};
use crate::method::{Coupling, Credit, Method};

/// Limit on (token weights computed): a few seconds.
const LIMIT: f64 = 2e8;

/// What the others of a group can look like to a response: how many have each reward, and their total length
/// (0 where lengths do not matter).
type Others = (Vec<u16>, usize);

/// What one response looks like to the others: index of its reward, its length (0 where lengths do not matter).
type Kind = (usize, usize);

/// The expected update and its exact variance, for methods whose gradient sees the other responses through their rewards
/// and total length only.
///
/// For a response of its own kind, the others enter through few numbers whose joint distribution is a
/// `G-1`-fold convolution; no tuple is ever enumerated. For binary rewards without lengths it is a binomial. The variance
/// uses that two responses are independent given what they look like to each other:
///
/// ```text
/// Var(g) = G E[g_1^2] + G(G-1) E[g_1 g_2] - E[g]^2
/// ```
///
/// # Errors
/// [`ExpectedError::Coupled`] for methods that look at more, [`ExpectedError::TooMany`] when the sum would take too long.
pub fn implied(method: &dyn Method, situation: &Situation) -> Result<Expected, ExpectedError> {
    let by_length = match method.coupling() {
        Coupling::Rewards => false,
        Coupling::RewardsAndTotalLength => true,
        Coupling::Everything => return Err(ExpectedError::Coupled),
    };
    let setting = Setting::new(situation);
    let (tree, g) = (setting.tree, setting.group_size);
    let rewards: Vec<f64> = setting.behaviour.reward_distribution().into_iter().map(|(r, _)| r).collect();
    let reward_index = |r: f64| rewards.iter().position(|&x| x == r);

    let mut kinds: BTreeMap<Kind, f64> = BTreeMap::new();
    for leaf in tree.leaves() {
        let p = setting.behaviour.leaf_prob(leaf);
        for (r, pr) in tree.outcomes(leaf) {
            if let (Some(index), true) = (reward_index(r), p * pr > 0.0) {
                *kinds.entry((index, if by_length { tree.leaf_len(leaf) } else { 0 })).or_default() += p * pr;
            }
        }
    }
    // Every state of the others meets every response: refused before the states of many rewards fill the memory.
    let most = (LIMIT / (tree.leaf_count() * tree.max_len()) as f64) as usize;
    let fewer = others(&kinds, rewards.len(), g - 2, most)?;
    let all = extend(&fewer, &kinds);
    let states: Vec<(&Others, f64)> = all.iter().map(|(k, p)| (k, *p)).collect();
    let terms = tree.leaf_count() as f64 * states.len() as f64 * tree.max_len() as f64
        + (kinds.len() * kinds.len() * fewer.len()) as f64 * tree.edge_count() as f64;
    if terms > LIMIT {
        return Err(ExpectedError::TooMany { terms, limit: LIMIT });
    }

    // weights[kind][state]: sum of P(response) w_t per edge, for responses of that kind among those others.
    let kind_list: Vec<Kind> = kinds.keys().copied().collect();
    let mut weights = vec![vec![vec![0.0; tree.edge_count()]; states.len()]; kind_list.len()];
    let mut squares = vec![0.0; tree.edge_count()];
    // Credits among every state of the others: one per reward and length where the method looks at no more than that.
    let own_tokens = method.credit_reads_tokens();
    let mut credits: BTreeMap<(usize, usize, usize), Vec<Credit>> = BTreeMap::new();
    let mut path = Vec::new();
    for leaf in tree.leaves() {
        tree.path_into(leaf, &mut path);
        let p = setting.behaviour.leaf_prob(leaf);
        let logps: Vec<f64> = path.iter().map(|&e| setting.current.log_probs[e]).collect();
        for (reward, pr) in tree.outcomes(leaf) {
            let (Some(index), true) = (reward_index(reward), p * pr > 0.0) else { continue };
            let response = setting.response(leaf, &path, reward);
            let own = (index, if by_length { path.len() } else { 0 });
            let kind = kind_list.binary_search(&own).expect("every response has its kind");
            let key = (index, path.len(), if own_tokens { leaf } else { 0 });
            let credits = credits.entry(key).or_insert_with(|| {
                states
                    .iter()
                    .map(|(state, _)| credit_among(method, &response, state, &rewards, by_length))
                    .collect()
            });
            for (state, credit) in credits.iter().enumerate() {
                let loss = method.loss(&response, credit, &logps);
                for (&edge, d) in path.iter().zip(&loss.dlogps) {
                    weights[kind][state][edge] -= p * pr * d;
                    squares[edge] += p * pr * states[state].1 * d * d;
                }
            }
        }
    }

    let mut summed = vec![0.0; tree.edge_count()];
    for by_state in &weights {
        for (w, (_, p)) in by_state.iter().zip(&states) {
            for (sum, w) in summed.iter_mut().zip(w) {
                *sum += g as f64 * p * w;
            }
        }
    }
    let update = setting.pull_back(&summed);
    let pulled: Vec<Vec<Vec<f64>>> =
        weights.iter().map(|by_state| by_state.iter().map(|w| setting.pull_back(w)).collect()).collect();
    let position: BTreeMap<&Others, usize> = states.iter().enumerate().map(|(i, (s, _))| (*s, i)).collect();

    let mut cross = vec![0.0; tree.edge_count()];
    for (m, pm) in &fewer {
        for (a, kind_a) in kind_list.iter().enumerate() {
            for (b, kind_b) in kind_list.iter().enumerate() {
                let seen_by_a = &pulled[a][position[&plus(m, kind_b)]];
                let seen_by_b = &pulled[b][position[&plus(m, kind_a)]];
                for ((c, x), y) in cross.iter_mut().zip(seen_by_a).zip(seen_by_b) {
                    *c += pm * x * y;
                }
            }
        }
    }
    let own = own_square(&setting, &squares);
    let g = g as f64;
    let variance = (0..update.len())
        .map(|e| (g * own[e] + g * (g - 1.0) * cross[e] - update[e] * update[e]).max(0.0))
        .collect();
    Ok(Expected { credit: setting.per_visit(&summed), update, variance })
}

/// `E[g_1(s,a)^2]` from `E[w^2]` per edge. A response visits a prefix once, so squares do not mix.
fn own_square(setting: &Setting, squares: &[f64]) -> Vec<f64> {
    let mut out = vec![0.0; squares.len()];
    for node in setting.tree.nodes() {
        let total: f64 = squares[setting.tree.edges_of(node)].iter().sum();
        for e in setting.tree.edges_of(node) {
            let pi = setting.current.probs[e];
            out[e] = squares[e] * (1.0 - pi).powi(2) + (total - squares[e]) * pi * pi;
        }
    }
    out
}

/// The distribution of what `n` responses look like together, unless it has more than `most` values.
fn others(
    kinds: &BTreeMap<Kind, f64>,
    rewards: usize,
    n: usize,
    most: usize,
) -> Result<BTreeMap<Others, f64>, ExpectedError> {
    let mut states = BTreeMap::from([((vec![0u16; rewards], 0), 1.0)]);
    for _ in 0..n {
        states = extend(&states, kinds);
        if states.len() > most {
            let scale = LIMIT / most.max(1) as f64;
            return Err(ExpectedError::TooMany { terms: states.len() as f64 * scale, limit: LIMIT });
        }
    }
    Ok(states)
}

/// One response more.
fn extend(states: &BTreeMap<Others, f64>, kinds: &BTreeMap<Kind, f64>) -> BTreeMap<Others, f64> {
    let mut next = BTreeMap::new();
    for (state, p) in states {
        for (kind, pk) in kinds {
            *next.entry(plus(state, kind)).or_default() += p * pk;
        }
    }
    next
}

fn plus(state: &Others, kind: &Kind) -> Others {
    let mut counts = state.0.clone();
    counts[kind.0] += 1;
    (counts, state.1 + kind.1)
}

/// The credit of `response` among stand-ins with these rewards and this total length.
fn credit_among(
    method: &dyn Method,
    response: &Response,
    others: &Others,
    rewards: &[f64],
    by_length: bool,
) -> Credit {
    let count: usize = others.0.iter().map(|&c| usize::from(c)).sum();
    // Any lengths with the right sum will do: the method only sees the sum.
    let total = if by_length { others.1 } else { count };
    let mut responses = vec![response.clone()];
    for (&n, &reward) in others.0.iter().zip(rewards) {
        for _ in 0..n {
            let i = responses.len() - 1;
            let len = total / count + usize::from(i < total % count);
            responses.push(Response {
                ref_logps: response.ref_logps.as_ref().map(|_| vec![0.0; len]),
                evidence: response.evidence.zeros(len),
                ..Response::graded(vec![0.0; len], reward)
            });
        }
    }
    method.credit(&[Group { responses }]).swap_remove(0)
}
