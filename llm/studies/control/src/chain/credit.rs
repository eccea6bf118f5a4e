//! The evidence of arms that know more than rewards: exact values, the same credit at the wrong places, paid completions, a learned value head.

use std::cmp::Ordering;

use grpo_lambda::group::{Response, StepValue};
use grpo_lambda_decoder::generate::{Sampler, SamplingRequest};
use grpo_lambda_decoder::model::{Decoder, Rows};
use grpo_lambda_decoder::rng::{Address, Purpose, below};
use grpo_lambda_trainer::step::engine::CpuEngine;
use grpo_lambda_trainer::step::{Rollout, StepSettings};
use serde::Deserialize;

use super::task::{Chain, Form, MODULUS, Verifier};
use crate::LabError;

/// Completions of every prefix.
const COMPLETIONS: usize = 2;

/// The evidence that an arm's method reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Source {
    #[default]
    None,
    /// The verifier: see [`exact`].
    Verifier,
    /// Exact credit in a random order over a response's steps.
    Shuffled,
    /// Monte-Carlo values of the prefixes that end a step.
    Completions,
    /// A [`ValueHead`].
    Critic,
}

/// The source of a run's evidence.
#[derive(Debug)]
pub(super) struct Evidence<'a> {
    pub(super) source: Source,
    pub(super) settings: &'a StepSettings,
    pub(super) verifier: &'a Verifier,
    head: ValueHead,
}

impl<'a> Evidence<'a> {
    pub(super) fn new(source: Source, settings: &'a StepSettings, verifier: &'a Verifier) -> Self {
        Evidence { source, settings, verifier, head: ValueHead::default() }
    }

    /// Writes the evidence into a rollout; the number of tokens that were sampled for it.
    pub(super) fn add(&mut self, engine: &CpuEngine, rollout: &mut Rollout) -> Result<usize, LabError> {
        match self.source {
            Source::None => {}
            Source::Verifier | Source::Shuffled => self.add_exact(rollout),
            Source::Completions => return self.add_completions(engine, rollout),
            Source::Critic => self.head.add(&engine.model, rollout)?,
        }
        Ok(0)
    }

    fn chains(&self, rollout: &Rollout) -> Vec<Chain> {
        rollout.prompts.iter().map(|prompt| self.verifier.form.read(&prompt.tokens)).collect()
    }

    fn add_exact(&self, rollout: &mut Rollout) {
        let p = self.verifier.step_accuracy(rollout);
        let chains = self.chains(rollout);
        for (g, (chain, group)) in chains.iter().zip(&mut rollout.groups).enumerate() {
            for (i, response) in group.responses.iter_mut().enumerate() {
                let Exact { places, mut credit, .. } = Exact::new(&self.verifier.form, chain, response, p);
                if self.source == Source::Shuffled {
                    let draws = Address::new(self.settings.seed, Purpose::Perturbation).step(rollout.step);
                    shuffle(&mut credit, &places, draws.prompt(rollout.prompts[g].number).response(i as u64));
                }
                let values = values_of(&credit, response.reward.unwrap_or(0.0));
                response.evidence.values = Some(values);
            }
        }
    }

    /// Completes every prefix that ends a step, and the prompt, [`COMPLETIONS`] times.
    fn add_completions(&self, engine: &CpuEngine, rollout: &mut Rollout) -> Result<usize, LabError> {
        let form = &self.verifier.form;
        let starts = |r: &Response| (0..r.len()).step_by(form.fillers + 1);
        let (mut prefixes, mut limits, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        for (g, group) in rollout.groups.iter().enumerate() {
            for (i, r) in group.responses.iter().enumerate() {
                let steps = self.verifier.form.read(&rollout.prompts[g].tokens).values().len();
                for start in starts(r).take(steps + 1) {
                    prefixes.push([&rollout.prompts[g].tokens[..], &r.tokens[..start]].concat());
                    limits.push(self.settings.sampling.max_new_tokens - start);
                    ends.push((g, i, start));
                }
            }
        }
        let prompts: Vec<&[u32]> = prefixes.iter().map(Vec::as_slice).collect();
        let base = Address::new(self.settings.seed, Purpose::Perturbation).step(rollout.step);
        let group = rollout.groups.iter().map(|g| g.responses.len()).max().unwrap_or(0);
        let address = |prefix: usize, completion: usize| {
            let (g, i, start) = ends[prefix];
            let place = (start * group + i) * COMPLETIONS + completion;
            base.prompt(rollout.prompts[g].number).response(place as u64)
        };
        let mut request =
            SamplingRequest::new(&prompts, COMPLETIONS, &self.settings.eos, self.settings.sampling, &address);
        request.stopping.max_lengths = &limits;
        let completed = engine.generate(&request)?;
        let mut tokens = 0;
        for ((g, i, start), completions) in ends.into_iter().zip(completed) {
            let prompt = &rollout.prompts[g];
            let response = &mut rollout.groups[g].responses[i];
            tokens += completions.iter().map(|c| c.tokens.len()).sum::<usize>();
            let reward = |c: &grpo_lambda_decoder::generate::SampledResponse| {
                self.verifier.reward(prompt, i, &[&response.tokens[..start], &c.tokens].concat())
            };
            let value = completions.iter().map(reward).sum::<f64>() / COMPLETIONS as f64;
            response.evidence.steps.get_or_insert_default().push(StepValue { start, value });
        }
        Ok(tokens)
    }
}

/// The exact credit of a response's tokens.
pub(super) struct Exact {
    /// The places of the values that it holds.
    pub(super) places: Vec<usize>,
    /// The first wrong token; none in a right response.
    pub(super) wrong: Option<usize>,
    pub(super) credit: Vec<f64>,
}

impl Exact {
    /// The credit of a response to a problem if each value is right with probability `p`.
    pub(super) fn new(form: &Form, chain: &Chain, response: &Response, p: f64) -> Exact {
        let mut places: Vec<usize> = (0..chain.values().len()).map(|k| form.place(k)).collect();
        let wrong = form.first_wrong(chain, &response.tokens);
        // A response that ends too early had all decisions of the chain before it.
        let credit = exact(&places, wrong.unwrap_or(usize::MAX), response.len(), p);
        places.retain(|place| *place < response.len());
        Exact { places, wrong, credit }
    }
}

/// The credit of a response's tokens whose first wrong one is `wrong`, where each of the chain's decisions, at `places`, is right with probability `p` and every wrong
/// value equally likely: the exact value of the token less the baseline of its prefix that leaves the least variance.
///
/// ```text
/// Q(s, right) = p^(decisions after t)      Q(s, wrong) = 0      credit = 0 after the first wrong token and at tokens that decide nothing
/// b*(s) = E[|s_a|² Q] / E[|s_a|²] = share Q(s, right),      |s_a|² = 1 - 2 π(a) + Σ π²
/// ```
/// With `V(s) = p Q(s, right)` in the place of `b*` the rare wrong values, whose scores are long, would have most of the credit.
fn exact(places: &[usize], wrong: usize, len: usize, p: f64) -> Vec<f64> {
    let others = f64::from(MODULUS - 1);
    let squares = p * p + (1.0 - p).powi(2) / others;
    let right = p * (1.0 - 2.0 * p + squares);
    let errors = (1.0 - p) * (1.0 - 2.0 * (1.0 - p) / others + squares);
    // A policy that is sure has no score, and any baseline does.
    let share = if right + errors > 0.0 { right / (right + errors) } else { 1.0 };
    let later = |t: usize| places.iter().filter(|place| **place > t).count() as i32;
    let credit = |t: usize| {
        let value = p.powi(later(t));
        let baseline = if places.contains(&t) { share * value } else { value };
        match t.cmp(&wrong) {
            Ordering::Less => value - baseline,
            Ordering::Equal => -baseline,
            Ordering::Greater => 0.0,
        }
    };
    (0..len).map(credit).collect()
}

/// The credit at `places` in another order, drawn from `draws`.
fn shuffle(credit: &mut [f64], places: &[usize], draws: Address) {
    let mut rng = draws.generator(0);
    for k in (1..places.len()).rev() {
        credit.swap(places[k], places[below(&mut rng, k as u64 + 1) as usize]);
    }
}

/// The values whose one-step differences, up to the reward, are `credit`.
fn values_of(credit: &[f64], reward: f64) -> Vec<f64> {
    let mut values: Vec<f64> = credit
        .iter()
        .rev()
        .scan(reward, |next, c| {
            *next -= c;
            Some(*next)
        })
        .collect();
    values.reverse();
    values
}

/// A linear value of the policy's last hidden states, fitted to the rewards of past rollouts by ridge regression. It moves no weight of the policy.
///
/// ```text
/// w = (Σ γ^age x xᵀ + I)⁻¹ Σ γ^age x r,      x = (state, 1), γ = 0.9 per rollout
/// ```
#[derive(Clone, Debug, Default)]
struct ValueHead {
    squares: Vec<Vec<f64>>,
    products: Vec<f64>,
}

/// Weight of a rollout over that of the next.
const FORGETTING: f64 = 0.9;

impl ValueHead {
    /// Writes the values of the head fitted to all earlier rollouts, then fits it to this one as well.
    fn add(&mut self, model: &Decoder<f32>, rollout: &mut Rollout) -> Result<(), LabError> {
        let width = model.config().hidden_size + 1;
        if self.products.is_empty() {
            (self.squares, self.products) = (vec![vec![0.0; width]; width], vec![0.0; width]);
        }
        let weights = solve(self.squares.clone(), self.products.clone());
        self.squares.iter_mut().flatten().chain(&mut self.products).for_each(|x| *x *= FORGETTING);
        for (prompt, group) in rollout.prompts.iter().zip(&mut rollout.groups) {
            let mut rows = Rows::new();
            for r in &group.responses {
                let row = [&prompt.tokens[..], &r.tokens[..r.len() - 1]].concat();
                rows.push(&row, row.len());
            }
            let states = model.states(&rows)?;
            let offsets = rows.offsets();
            for (r, start) in group.responses.iter_mut().zip(offsets) {
                let own = &states[(start + prompt.tokens.len() - 1) * (width - 1)..][..r.len() * (width - 1)];
                let state = |s: &[f32]| s.iter().map(|x| f64::from(*x)).chain([1.0]).collect::<Vec<f64>>();
                let states: Vec<Vec<f64>> = own.chunks_exact(width - 1).map(state).collect();
                r.evidence.values = Some(states.iter().map(|s| dot(s, &weights)).collect());
                for x in &states {
                    self.learn(x, r.reward.unwrap_or(0.0));
                }
            }
        }
        Ok(())
    }

    fn learn(&mut self, x: &[f64], reward: f64) {
        for (row, a) in self.squares.iter_mut().zip(x) {
            row.iter_mut().zip(x).for_each(|(sum, b)| *sum += a * b);
        }
        self.products.iter_mut().zip(x).for_each(|(sum, a)| *sum += a * reward);
    }
}

pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// `(A + I)⁻¹ b` of a positive semidefinite matrix, by elimination without pivots, which it needs none of.
fn solve(mut a: Vec<Vec<f64>>, mut b: Vec<f64>) -> Vec<f64> {
    let n = b.len();
    (0..n).for_each(|i| a[i][i] += 1.0);
    for i in 0..n {
        for j in i + 1..n {
            let factor = a[j][i] / a[i][i];
            let (above, below) = a.split_at_mut(j);
            above[i][i..].iter().zip(&mut below[0][i..]).for_each(|(x, y)| *y -= factor * x);
            b[j] -= factor * b[i];
        }
    }
    for i in (0..n).rev() {
        b[i] = (b[i] - dot(&a[i][i + 1..], &b[i + 1..])) / a[i][i];
    }
    b
}

#[cfg(test)]
mod tests {
    use super::super::protocol::Protocol;
    use super::super::task::{END, Part};
    use super::*;

    #[test]
    fn exact_credit_by_hand() {
        // Decisions at 1 and 3 of six tokens, right with probability 1/2: Q(right) is 1/2 and then 1.
        let right = exact(&[1, 3], usize::MAX, 6, 0.5);
        let share = 1.0 - right[3];
        assert!(
            right[0] == 0.0
                && right[2] == 0.0
                && right[5] == 0.0
                && (right[1] - right[3] / 2.0).abs() < 1e-12
        );
        let wrong = exact(&[1, 3], 1, 6, 0.5);
        assert!((wrong[1] + share / 2.0).abs() < 1e-12 && wrong[2..] == [0.0; 4]);
        // A wrong token that decides nothing loses the whole value.
        assert_eq!(exact(&[1, 3], 2, 6, 0.5)[2..], [-0.5, 0.0, 0.0, 0.0]);
    }

    /// An end in the place of a filler loses what a wrong filler loses: the value of its prefix.
    #[test]
    fn a_response_that_ends_too_early_has_the_credit_of_one_that_is_wrong_there() {
        let form = Protocol::committed().form(&Protocol::committed().cells[0]);
        let chain = form.chain(1, Part::Training, 3);
        let draws = Address::new(1, Purpose::Demonstrations).response(3);
        let whole = form.demonstration(&chain, 0.0, draws).response;
        let exact_of = |tokens: Vec<u32>| {
            let response =
                Response { tokens: tokens.clone(), ..Response::graded(vec![-0.5; tokens.len()], 0.0) };
            Exact::new(&form, &chain, &response, 0.8)
        };
        for at in [4, 5, 13] {
            let replaced = [&whole[..at], &[END], &whole[at + 1..]].concat();
            let (early, wrong) = (exact_of([&whole[..at], &[END]].concat()), exact_of(replaced));
            assert_eq!((early.wrong, &early.credit[..]), (Some(at), &wrong.credit[..=at]), "{at}");
            assert!(early.places.iter().all(|place| *place <= at));
        }
        // Seven values follow the first, each right with probability 0.8.
        assert!((exact_of([&whole[..4], &[END]].concat()).credit[4] + 0.8f64.powi(7)).abs() < 1e-12);
    }

    /// By enumeration of the 23 values of one decision: no other baseline has less variance, and that of the value has more.
    #[test]
    fn the_baseline_leaves_the_least_variance() {
        for p in [0.3, 0.75, 0.93] {
            let [right, wrong] = [usize::MAX, 0].map(|wrong| exact(&[0], wrong, 1, p)[0]);
            let probs: Vec<f64> = (0..MODULUS).map(|v| if v == 0 { p } else { (1.0 - p) / 22.0 }).collect();
            let score = |a: usize| -> f64 {
                probs.iter().enumerate().map(|(b, q)| (f64::from(u8::from(a == b)) - q).powi(2)).sum()
            };
            let second = |baseline: f64| -> f64 {
                let q = |a: usize| if a == 0 { 1.0 } else { 0.0 };
                (0..23).map(|a| probs[a] * (q(a) - baseline).powi(2) * score(a)).sum()
            };
            let best = -wrong;
            assert!((right - (1.0 - best)).abs() < 1e-12);
            assert!([best - 0.01, best + 0.01, p].iter().all(|b| second(*b) > second(best)), "{p}");
        }
        assert!(exact(&[0], 0, 1, 1.0)[0].is_finite() && exact(&[0], 0, 1, 0.0)[0].is_finite());
    }

    #[test]
    fn values_have_the_credit_as_their_differences_and_shuffled_credit_is_the_same_at_other_places() {
        let places = [1, 3, 5, 7];
        let own = exact(&places, 5, 9, 0.7);
        let values = values_of(&own, 0.25);
        let after = values.iter().skip(1).copied().chain([0.25]);
        assert!(after.zip(&values).zip(&own).all(|((next, v), c)| (next - v - c).abs() < 1e-12));
        assert_eq!(own.iter().filter(|c| **c != 0.0).count(), 3, "two right values and a wrong one");
        let rounded = |credit: &[f64]| credit.iter().map(|c| (c * 1e9).round() as i64).collect::<Vec<_>>();
        let mut seen = std::collections::BTreeSet::new();
        for response in 0..400 {
            let mut moved = own.clone();
            shuffle(&mut moved, &places, Address::new(2, Purpose::Perturbation).response(response));
            seen.insert(rounded(&moved));
            assert!((0..9).all(|t| places.contains(&t) || moved[t] == own[t]));
            moved.sort_by(f64::total_cmp);
            let mut sorted = own.clone();
            sorted.sort_by(f64::total_cmp);
            assert_eq!(rounded(&moved), rounded(&sorted));
        }
        assert_eq!(seen.len(), 24, "every order of four different credits");
    }

    #[test]
    fn the_value_head_solves_its_normal_equations() {
        // (A + I) w = b with w = (1, -2): A = [[2, 1], [1, 3]].
        let w = solve(vec![vec![2.0, 1.0], vec![1.0, 3.0]], vec![1.0, -7.0]);
        assert!((w[0] - 1.0).abs() < 1e-12 && (w[1] + 2.0).abs() < 1e-12, "{w:?}");
        let mut head = ValueHead { squares: vec![vec![0.0; 2]; 2], products: vec![0.0; 2] };
        for x in [0.0, 1.0, 2.0, 3.0].repeat(500) {
            head.learn(&[x, 1.0], 0.1 + 0.2 * x);
        }
        let w = solve(head.squares, head.products);
        assert!((w[0] - 0.2).abs() < 1e-3 && (w[1] - 0.1).abs() < 1e-3, "{w:?}");
    }
}
