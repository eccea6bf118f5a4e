//! [`implied`]: the expected update through implied credit, averaging over the other responses exactly.

use std::collections::BTreeMap;

use super::{Evaluated, Expected, ExpectedError, Situation};
use crate::LeafId;
use grpo_lambda::group::{Group, Response};
use grpo_lambda::methods::{Coupling, Credit, Method};

/// Limit on (token weights computed): a few seconds.
const LIMIT: f64 = 2e8;

/// A response as the others see it: index of its reward, its length (0 where lengths do not matter).
type Class = (usize, usize);

/// The others of a group as a response sees them: the number with each reward, and their total length
/// (0 where lengths do not matter).
type Others = (Vec<u16>, usize);

/// The expected update and its exact variance, for methods whose gradient sees the other responses through their rewards
/// and total length only.
///
/// For a response of its own class, the others enter through few numbers whose joint distribution is a
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
    let by_length = looks_at_length(method)?;
    let evaluated = Evaluated::new(situation);
    let classes = Classes::new(&evaluated, by_length);
    let states = States::new(&evaluated, &classes)?;
    let weights = Weights::new(method, &evaluated, &classes, &states);

    let g = evaluated.group_size as f64;
    let summed = weights.summed(&states, g);
    let update = evaluated.pull_back(&summed);
    let own = weights.own_square(&evaluated);
    let cross = weights.cross(&evaluated, &classes, &states);
    let variance = (0..update.len())
        .map(|e| (g * own[e] + g * (g - 1.0) * cross[e] - update[e] * update[e]).max(0.0))
        .collect();
    Ok(Expected { credit: evaluated.per_visit(&summed), update, variance })
}

/// True if a method looks at the total length of the other responses, next to their rewards.
fn looks_at_length(method: &dyn Method) -> Result<bool, ExpectedError> {
    match method.coupling() {
        Coupling::Rewards => Ok(false),
        Coupling::RewardsAndTotalLength => Ok(true),
        Coupling::Everything => Err(ExpectedError::Coupled),
    }
}

/// The expected update alone, without its variance: for trees on which the pairs of responses that the variance needs are too many.
///
/// Agrees with the update of [`implied`] and asks the same of the method; time is that of one response among every state of the others.
///
/// # Errors
/// The errors of [`implied`].
pub fn implied_mean(method: &dyn Method, situation: &Situation) -> Result<Vec<f64>, ExpectedError> {
    let by_length = looks_at_length(method)?;
    let evaluated = Evaluated::new(situation);
    let classes = Classes::new(&evaluated, by_length);
    let most = LIMIT / (evaluated.tree.leaf_count() * evaluated.tree.max_len()) as f64;
    let others = distribution(&classes, evaluated.group_size - 1, most as usize)?;
    let others: Vec<(Others, f64)> = others.into_iter().collect();
    let own_tokens = method.credit_reads_tokens();
    let mut credits: BTreeMap<(usize, usize, usize), Vec<Credit>> = BTreeMap::new();
    let mut summed = vec![0.0; evaluated.tree.edge_count()];
    let mut path = Vec::new();
    for (leaf, reward, probability) in outcomes(&evaluated) {
        let Some(class) = classes.class(reward, evaluated.tree.leaf_len(leaf)) else { continue };
        evaluated.tree.path_into(leaf, &mut path);
        let logps: Vec<f64> = path.iter().map(|&e| evaluated.current.log_probs[e]).collect();
        let response = evaluated.response(leaf, &path, reward);
        let among = || others.iter().map(|(o, _)| credit_among(method, &response, o, &classes)).collect();
        let key = (class.0, path.len(), if own_tokens { leaf } else { 0 });
        for (credit, (_, p)) in credits.entry(key).or_insert_with(among).iter().zip(&others) {
            let loss = method.loss(&response, credit, &logps);
            for (&edge, d) in path.iter().zip(&loss.dlogps) {
                summed[edge] -= evaluated.group_size as f64 * probability * p * d;
            }
        }
    }
    Ok(evaluated.pull_back(&summed))
}

/// The classes of responses, with their probabilities under the policy that samples.
struct Classes {
    by_length: bool,
    /// The rewards of positive probability.
    rewards: Vec<f64>,
    probabilities: BTreeMap<Class, f64>,
}

impl Classes {
    fn new(evaluated: &Evaluated, by_length: bool) -> Classes {
        let rewards = evaluated.behaviour.reward_distribution().into_iter().map(|(r, _)| r).collect();
        let mut classes = Classes { by_length, rewards, probabilities: BTreeMap::new() };
        for (leaf, reward, probability) in outcomes(evaluated) {
            if let Some(class) = classes.class(reward, evaluated.tree.leaf_len(leaf)) {
                *classes.probabilities.entry(class).or_default() += probability;
            }
        }
        classes
    }

    /// The class of a response; none for a reward of probability 0.
    fn class(&self, reward: f64, len: usize) -> Option<Class> {
        let index = self.rewards.iter().position(|&r| r == reward)?;
        Some((index, if self.by_length { len } else { 0 }))
    }
}

/// Every response with each of its rewards and the probability of both, which is positive.
fn outcomes<'a>(evaluated: &'a Evaluated) -> impl Iterator<Item = (LeafId, f64, f64)> + 'a {
    let of_leaf = |leaf| {
        let p = evaluated.behaviour.leaf_prob(leaf);
        evaluated.tree.outcomes(leaf).map(move |(reward, pr)| (leaf, reward, p * pr))
    };
    evaluated.tree.leaves().flat_map(of_leaf).filter(|(_, _, probability)| *probability > 0.0)
}

/// The others of a group as one response sees them, and as two do.
struct States {
    /// `G - 1` others, with their probabilities.
    one: Vec<(Others, f64)>,
    /// `G - 2` others.
    two: BTreeMap<Others, f64>,
}

impl States {
    fn new(evaluated: &Evaluated, classes: &Classes) -> Result<States, ExpectedError> {
        let tree = evaluated.tree;
        // Every state of the others meets every response: refused before the states of many rewards fill the memory.
        let most = (LIMIT / (tree.leaf_count() * tree.max_len()) as f64) as usize;
        let two = distribution(classes, evaluated.group_size - 2, most)?;
        let one: Vec<(Others, f64)> = extend(&two, &classes.probabilities).into_iter().collect();
        let terms = tree.leaf_count() as f64 * one.len() as f64 * tree.max_len() as f64
            + (classes.probabilities.len().pow(2) * two.len()) as f64 * tree.edge_count() as f64;
        if terms > LIMIT {
            return Err(ExpectedError::TooMany { terms, limit: LIMIT });
        }
        Ok(States { one, two })
    }
}

/// The distribution of what `n` responses look like together, unless it has more than `most` values.
fn distribution(classes: &Classes, n: usize, most: usize) -> Result<BTreeMap<Others, f64>, ExpectedError> {
    let mut states = BTreeMap::from([((vec![0u16; classes.rewards.len()], 0), 1.0)]);
    for _ in 0..n {
        states = extend(&states, &classes.probabilities);
        if states.len() > most {
            let scale = LIMIT / most.max(1) as f64;
            return Err(ExpectedError::TooMany { terms: states.len() as f64 * scale, limit: LIMIT });
        }
    }
    Ok(states)
}

/// One response more.
fn extend(states: &BTreeMap<Others, f64>, classes: &BTreeMap<Class, f64>) -> BTreeMap<Others, f64> {
    let mut next = BTreeMap::new();
    for (state, p) in states {
        for (class, pc) in classes {
            *next.entry(plus(state, class)).or_default() += p * pc;
        }
    }
    next
}

fn plus(state: &Others, class: &Class) -> Others {
    let mut counts = state.0.clone();
    counts[class.0] += 1;
    (counts, state.1 + class.1)
}

/// The weights `w = -d loss / d log pi` of tokens, summed over responses.
struct Weights {
    /// `[class][state][edge]`: the sum of `P(response) w` over the responses of a class among others in a state.
    by_class: Vec<Vec<Vec<f64>>>,
    /// `E[w^2]` per edge, of one response.
    squares: Vec<f64>,
}

impl Weights {
    fn new(method: &dyn Method, evaluated: &Evaluated, classes: &Classes, states: &States) -> Weights {
        let edges = evaluated.tree.edge_count();
        let position: BTreeMap<&Class, usize> =
            classes.probabilities.keys().enumerate().map(|(i, class)| (class, i)).collect();
        let mut weights = Weights {
            by_class: vec![vec![vec![0.0; edges]; states.one.len()]; position.len()],
            squares: vec![0.0; edges],
        };
        // Credits among every state of the others: one per reward and length where the method looks at no more than that.
        let own_tokens = method.credit_reads_tokens();
        let mut credits: BTreeMap<(usize, usize, usize), Vec<Credit>> = BTreeMap::new();
        let mut path = Vec::new();
        for (leaf, reward, probability) in outcomes(evaluated) {
            let Some(class) = classes.class(reward, evaluated.tree.leaf_len(leaf)) else { continue };
            evaluated.tree.path_into(leaf, &mut path);
            let logps: Vec<f64> = path.iter().map(|&e| evaluated.current.log_probs[e]).collect();
            let response = evaluated.response(leaf, &path, reward);
            let key = (class.0, path.len(), if own_tokens { leaf } else { 0 });
            let credits = credits.entry(key).or_insert_with(|| {
                states
                    .one
                    .iter()
                    .map(|(others, _)| credit_among(method, &response, others, classes))
                    .collect()
            });
            let by_state = weights.by_class[position[&class]].iter_mut().zip(credits).zip(&states.one);
            for ((sums, credit), (_, p_state)) in by_state {
                let loss = method.loss(&response, credit, &logps);
                for (&edge, d) in path.iter().zip(&loss.dlogps) {
                    sums[edge] -= probability * d;
                    weights.squares[edge] += probability * p_state * d * d;
                }
            }
        }
        weights
    }

    /// `G E[w]` per edge, for groups of `g` responses.
    fn summed(&self, states: &States, g: f64) -> Vec<f64> {
        let mut summed = vec![0.0; self.squares.len()];
        for by_state in &self.by_class {
            for (sums, (_, p)) in by_state.iter().zip(&states.one) {
                for (sum, w) in summed.iter_mut().zip(sums) {
                    *sum += g * p * w;
                }
            }
        }
        summed
    }

    /// `E[g_1(s,a)^2]` per edge. A response visits a prefix once, so squares do not mix.
    fn own_square(&self, evaluated: &Evaluated) -> Vec<f64> {
        let mut own = vec![0.0; self.squares.len()];
        for node in evaluated.tree.nodes() {
            let edges = evaluated.tree.edges_of(node);
            let total: f64 = self.squares[edges.clone()].iter().sum();
            for e in edges {
                let pi = evaluated.current.probs[e];
                own[e] = self.squares[e] * (1.0 - pi).powi(2) + (total - self.squares[e]) * pi * pi;
            }
        }
        own
    }

    /// `E[g_1(s,a) g_2(s,a)]` per edge, of two responses that see each other among the same others.
    fn cross(&self, evaluated: &Evaluated, classes: &Classes, states: &States) -> Vec<f64> {
        let pull_back = |by_state: &Vec<Vec<f64>>| by_state.iter().map(|w| evaluated.pull_back(w)).collect();
        let pulled: Vec<Vec<Vec<f64>>> = self.by_class.iter().map(pull_back).collect();
        let position: BTreeMap<&Others, usize> =
            states.one.iter().enumerate().map(|(i, (others, _))| (others, i)).collect();
        let mut cross = vec![0.0; self.squares.len()];
        for (rest, p) in &states.two {
            for (class_a, of_a) in classes.probabilities.keys().zip(&pulled) {
                for (class_b, of_b) in classes.probabilities.keys().zip(&pulled) {
                    let seen_by_a = &of_a[position[&plus(rest, class_b)]];
                    let seen_by_b = &of_b[position[&plus(rest, class_a)]];
                    for ((c, x), y) in cross.iter_mut().zip(seen_by_a).zip(seen_by_b) {
                        *c += p * x * y;
                    }
                }
            }
        }
        cross
    }
}

/// The credit of `response` among placeholders with these rewards and this total length.
fn credit_among(method: &dyn Method, response: &Response, others: &Others, classes: &Classes) -> Credit {
    let count: usize = others.0.iter().map(|&c| usize::from(c)).sum();
    // Any lengths with the right sum will do: the method only sees the sum.
    let total = if classes.by_length { others.1 } else { count };
    let mut responses = vec![response.clone()];
    for (&n, &reward) in others.0.iter().zip(&classes.rewards) {
        for _ in 0..n {
            let i = responses.len() - 1;
            let len = total / count + usize::from(i < total % count);
            responses.push(Response {
                ref_logps: response.ref_logps.as_ref().map(|_| vec![0.0; len]),
                extra_inputs: response.extra_inputs.filled(len, 0.0),
                ..Response::graded(vec![0.0; len], reward)
            });
        }
    }
    method.credit(&[Group { responses }]).swap_remove(0)
}
