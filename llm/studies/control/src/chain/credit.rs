//! The credit of methods that a verifier tells more than rewards.

use std::cmp::Ordering;

use grpo_lambda::group::{Group, Response};
use grpo_lambda_decoder::model::{Decoder, ForwardOptions};
use grpo_lambda_decoder::rng::{Address, Purpose, below};
use grpo_lambda_trainer::step::micro_batch::{self, Batch};
use grpo_lambda_trainer::step::{Rollout, StepSettings};
use serde::Deserialize;

use super::task::{Form, MODULUS};
use crate::Result;

/// The credit of a token; `Q` and `V` as in [`Judged`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Credit {
    /// `Q - V`.
    QMinusV,
    /// `Q - b*`, the baseline of a prefix that leaves the least variance.
    QMinusB,
    /// That of `QMinusB`, in a random order over a response's values.
    Permuted,
}

impl Credit {
    /// Writes values whose one-step differences are the credit into the responses of a rollout.
    pub(super) fn add(
        self,
        model: &Decoder<f32>,
        form: &Form,
        settings: &StepSettings,
        rollout: &mut Rollout,
    ) -> Result<()> {
        let mut judged = judged(model, form, settings, rollout)?.into_iter();
        let draws = Address::new(settings.seed, Purpose::Perturbation).step(rollout.step);
        for (group, prompt) in rollout.groups.iter_mut().zip(&rollout.prompts) {
            for ((i, response), own) in group.responses.iter_mut().enumerate().zip(&mut judged) {
                let mut credit = own.credit(self);
                if self == Credit::Permuted {
                    permute(&mut credit, &own.places, draws.prompt(prompt.number).response(i as u64));
                }
                response.extra_inputs.values = Some(values_of(&credit, response.reward.unwrap_or(0.0)));
            }
        }
        Ok(())
    }

    /// The share of `Q(s, right)` that the baseline takes at a decision that is right with probability `p`.
    ///
    /// ```text
    /// V(s) = p Q(s, right)
    /// b*(s) = E[|s_a|² Q] / E[|s_a|²],      |s_a|² = 1 - 2 π(a) + Σ π²,      every wrong value equally probable
    /// ```
    fn share(self, p: f64) -> f64 {
        if self == Credit::QMinusV {
            return p;
        }
        let others = f64::from(MODULUS - 1);
        let squares = p * p + (1.0 - p).powi(2) / others;
        let right = p * (1.0 - 2.0 * p + squares);
        let errors = (1.0 - p) * (1.0 - 2.0 * (1.0 - p) / others + squares);
        // A policy that is sure has no score, and any baseline does.
        if right + errors > 0.0 { right / (right + errors) } else { 1.0 }
    }
}

/// The verifier's judgement of a response.
///
/// ```text
/// Q(s_k, right) = Π_{j > k} π_j      Q(s_k, wrong) = 0      V(s_k) = π_k Q(s_k, right)      0 after the first wrong
/// token
/// ```
/// for the `k`-th value, `π_j` the policy's probability of the right value. Other tokens are certain unless they are
/// wrong.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Judged {
    /// The places of the values that the response holds.
    pub(super) places: Vec<usize>,
    /// The first wrong token; none in a right response.
    pub(super) wrong: Option<usize>,
    /// The place of each value of the chain, and the probability of the right one after right ones.
    decisions: Vec<(usize, f64)>,
    len: usize,
}

/// Every response of a rollout, in flat order: the policy scores the right continuation of its prefix before the
/// first wrong token.
pub(super) fn judged(
    model: &Decoder<f32>,
    form: &Form,
    settings: &StepSettings,
    rollout: &Rollout,
) -> Result<Vec<Judged>> {
    let prompts: Vec<&[u32]> = rollout.prompts.iter().map(|p| p.tokens.as_slice()).collect();
    let mended = |(group, prompt): (&Group, &&[u32])| {
        let chain = form.read(prompt);
        let whole = |r: &Response| {
            let tokens = form.mended(&chain, &r.tokens);
            Response { old_logps: vec![0.0; tokens.len()], tokens, ..r.clone() }
        };
        Group { responses: group.responses.iter().map(whole).collect() }
    };
    let groups: Vec<Group> = rollout.groups.iter().zip(&prompts).map(mended).collect();
    let batch = Batch::new(&prompts, &groups);
    let mut logps = Vec::new();
    for part in batch.parts(settings.memory.micro_batch_tokens) {
        logps.extend(model.score(&batch.rows(part), ForwardOptions::default())?.logps);
    }
    let one = |((g, response), logps): ((usize, &Response), Vec<f64>)| {
        let decisions: Vec<(usize, f64)> =
            (0..form.steps).map(|k| form.place(k)).map(|place| (place, logps[place].exp())).collect();
        let len = response.tokens.len();
        Judged {
            places: decisions.iter().map(|d| d.0).filter(|place| *place < len).collect(),
            wrong: form.first_wrong(&form.read(prompts[g]), &response.tokens),
            decisions,
            len,
        }
    };
    Ok(micro_batch::flat(&rollout.groups).zip(logps).map(one).collect())
}

impl Judged {
    /// The credit of every token; that of [`Credit::Permuted`] before it is permuted.
    pub(super) fn credit(&self, credit: Credit) -> Vec<f64> {
        // A response that ends too early had all decisions of the chain before it.
        let wrong = self.wrong.unwrap_or(usize::MAX);
        let later = |t: usize| self.decisions.iter().filter(move |d| d.0 > t).map(|d| d.1).product::<f64>();
        let of_token = |t: usize| {
            let value = later(t);
            let own = self.decisions.iter().find(|d| d.0 == t);
            let baseline = own.map_or(value, |(_, p)| credit.share(*p) * value);
            match t.cmp(&wrong) {
                Ordering::Less => value - baseline,
                Ordering::Equal => -baseline,
                Ordering::Greater => 0.0,
            }
        };
        (0..self.len).map(of_token).collect()
    }
}

/// The credit at `places` in another order, drawn from `draws`.
fn permute(credit: &mut [f64], places: &[usize], draws: Address) {
    let mut rng = draws.generator(0);
    for k in (1..places.len()).rev() {
        credit.swap(places[k], places[below(&mut rng, k as u64 + 1) as usize]);
    }
}

/// The values whose one-step differences, up to the reward, are `credit`.
fn values_of(credit: &[f64], reward: f64) -> Vec<f64> {
    let before = |next: &mut f64, c: &f64| {
        *next -= c;
        Some(*next)
    };
    let mut values: Vec<f64> = credit.iter().rev().scan(reward, before).collect();
    values.reverse();
    values
}

#[cfg(test)]
mod tests {
    use super::super::run::Start;
    use super::super::setup::tiny;
    use super::super::task::{END, Part};
    use super::*;

    fn judged_at(decisions: &[(usize, f64)], wrong: Option<usize>, len: usize) -> Judged {
        let places = decisions.iter().map(|d| d.0).filter(|place| *place < len).collect();
        Judged { places, wrong, decisions: decisions.to_vec(), len }
    }

    fn is_close(found: &[f64], want: &[f64]) {
        assert!(
            found.len() == want.len() && found.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-12),
            "{found:?}"
        );
    }

    #[test]
    fn credit_by_hand() {
        // Decisions at 1 and 3 of six tokens, right with probability 1/2 and 1/4: Q(right) is 1/4 and then 1, V 1/8
        // and then 1/4.
        let decisions = [(1, 0.5), (3, 0.25)];
        let credit = |wrong, kind| judged_at(&decisions, wrong, 6).credit(kind);
        is_close(&credit(None, Credit::QMinusV), &[0.0, 0.125, 0.0, 0.75, 0.0, 0.0]);
        is_close(&credit(Some(1), Credit::QMinusV), &[0.0, -0.125, 0.0, 0.0, 0.0, 0.0]);
        is_close(&credit(Some(3), Credit::QMinusV), &[0.0, 0.125, 0.0, -0.25, 0.0, 0.0]);
        // A wrong token that decides nothing loses the whole value of its prefix.
        is_close(&credit(Some(2), Credit::QMinusV), &[0.0, 0.125, -0.25, 0.0, 0.0, 0.0]);
        // Credit adds up to the reward minus the value of the prompt, where the response has gone right or wrong.
        for (wrong, reward) in [(None, 1.0), (Some(1), 0.0), (Some(2), 0.0), (Some(3), 0.0), (Some(5), 0.0)] {
            assert!(
                (credit(wrong, Credit::QMinusV).iter().sum::<f64>() - (reward - 0.125)).abs() < 1e-12,
                "{wrong:?}"
            );
        }
        // The other baseline takes a smaller share of the same Q: S = 1/16 + 9/16/22, 1/4 (1/2 + S) over that and
        // 3/4 (1 - 3/2/22 + S).
        let (right, wrong) = (credit(None, Credit::QMinusB)[3], credit(Some(3), Credit::QMinusB)[3]);
        assert!((right - wrong - 1.0).abs() < 1e-12 && (wrong + 0.161215).abs() < 1e-6, "{right} {wrong}");
    }

    /// By enumeration of the 23 values of one decision: `Q - V` has mean 0, and no baseline has less variance than b*.
    #[test]
    fn the_baselines_are_the_mean_and_the_one_of_least_variance() {
        for p in [0.3, 0.75, 0.93] {
            let probs: Vec<f64> = (0..MODULUS).map(|v| if v == 0 { p } else { (1.0 - p) / 22.0 }).collect();
            let score = |a: usize| -> f64 {
                probs.iter().enumerate().map(|(b, q)| (f64::from(u8::from(a == b)) - q).powi(2)).sum()
            };
            let q = |a: usize| if a == 0 { 1.0 } else { 0.0 };
            let mean = |baseline: f64| -> f64 { (0..23).map(|a| probs[a] * (q(a) - baseline)).sum() };
            let second = |baseline: f64| -> f64 {
                (0..23).map(|a| probs[a] * (q(a) - baseline).powi(2) * score(a)).sum()
            };
            let baseline = |kind| -judged_at(&[(0, p)], Some(0), 1).credit(kind)[0];
            assert!(mean(baseline(Credit::QMinusV)).abs() < 1e-12);
            let best = baseline(Credit::QMinusB);
            assert!([best - 0.01, best + 0.01, p].iter().all(|b| second(*b) > second(best)), "{p}");
        }
        for p in [0.0, 1.0] {
            assert!(judged_at(&[(0, p)], Some(0), 1).credit(Credit::QMinusB)[0].is_finite());
        }
    }

    #[test]
    fn values_have_the_credit_as_their_differences_and_permuted_credit_is_the_same_at_other_places() {
        let own = judged_at(&[(1, 0.7), (3, 0.8), (5, 0.6), (7, 0.9)], Some(5), 9);
        let credit = own.credit(Credit::Permuted);
        let values = values_of(&credit, 0.25);
        let after = values.iter().skip(1).copied().chain([0.25]);
        assert!(after.zip(&values).zip(&credit).all(|((next, v), c)| (next - v - c).abs() < 1e-12));
        assert_eq!(credit.iter().filter(|c| **c != 0.0).count(), 3, "two right values and a wrong one");
        let rounded = |credit: &[f64]| credit.iter().map(|c| (c * 1e9).round() as i64).collect::<Vec<_>>();
        let mut seen = std::collections::BTreeSet::new();
        for response in 0..400 {
            let mut moved = credit.clone();
            permute(&mut moved, &own.places, Address::new(2, Purpose::Perturbation).response(response));
            seen.insert(rounded(&moved));
            assert!((0..9).all(|t| own.places.contains(&t) || moved[t] == credit[t]));
            moved.sort_by(f64::total_cmp);
            let mut sorted = credit.clone();
            sorted.sort_by(f64::total_cmp);
            assert_eq!(rounded(&moved), rounded(&sorted));
        }
        assert_eq!(seen.len(), 24, "every order of four different credits");
    }

    /// The probabilities up to the first error are those of the response itself; a response without one is judged by
    /// its own alone.
    #[test]
    fn the_policy_says_how_probable_right_values_are() {
        let study = tiny();
        let start = Start::new(&study, 5).expect("it learns");
        let form = study.setup.task;
        let mut engine = start.engine(None).expect("an engine");
        let mut rollout = start.pool(&mut engine, None, 0, 2).expect("it samples");
        let chain = form.read(&rollout.prompts[0].tokens);
        let draws = |i: usize| Address::new(9, Purpose::Demonstrations).response(i as u64);
        for (i, response) in rollout.groups.iter_mut().flat_map(|g| &mut g.responses).enumerate() {
            response.tokens = form.demonstration(&chain, 0.1, draws(i)).response;
            response.old_logps = vec![-1.0; response.tokens.len()];
        }
        let prompts: Vec<&[u32]> = rollout.prompts.iter().map(|p| p.tokens.as_slice()).collect();
        let batch = Batch::new(&prompts, &rollout.groups);
        let own = engine.model.score(&batch.rows(0..16), ForwardOptions::default()).expect("scored").logps;
        let found = judged(&engine.model, &form, &start.settings, &rollout).expect("scored");
        let mut compared = Vec::new();
        for (judged, own) in found.iter().zip(&own) {
            let before = judged.decisions.iter().filter(|d| d.0 < judged.wrong.unwrap_or(usize::MAX));
            compared.push(before.clone().count());
            assert!(before.clone().all(|(place, p)| (own[*place].exp() - p).abs() < 1e-6 && *p > 0.0));
        }
        assert!(compared.contains(&8) && compared.iter().any(|right| *right < 8), "{compared:?}");
        // A response that is cut short is judged by the decisions that it does not hold as well; an end in the place
        // of a filler is wrong as any token.
        let draws = Address::new(1, Purpose::Demonstrations).response(3);
        let whole = form.demonstration(&chain, 0.0, draws).response;
        let early = [&whole[..4], &[END]].concat();
        let replaced = [&whole[..4], &[END], &whole[5..]].concat();
        for (response, tokens) in rollout.groups[0].responses.iter_mut().zip([early, replaced]) {
            (response.old_logps, response.tokens) = (vec![-0.5; tokens.len()], tokens);
        }
        let both = judged(&engine.model, &form, &start.settings, &rollout).expect("scored");
        let [early, replaced] = [&both[0], &both[1]].map(|own| own.credit(Credit::QMinusV));
        assert_eq!((both[0].wrong, both[0].places.len(), &early[..]), (Some(4), 1, &replaced[..5]));
        let later: f64 = both[0].decisions[1..].iter().map(|d| d.1).product();
        assert!((early[4] + later).abs() < 1e-12 && later > 0.0);
        assert!(form.chain(1, Part::Training, 3).values().len() == 8);
    }
}
