//! A running value modulo 23: prompts, demonstrations, and a verifier that knows the first wrong token.
//!
//! ```text
//! prompt     v_0  (operation operand . .)^K
//! response   (f f f v_k)^K  =  v_K  end          f: any of three fillers
//! ```
//! A token is wrong if the grammar or the arithmetic does not allow it there. Multiplication by 1 to 9 is
//! invertible, so that a chain that goes on from a wrong value ends at a wrong one unless it errs again; it counts
//! as wrong in any case.

use grpo_lambda_decoder::generate::SampledResponse;
use grpo_lambda_decoder::rng::{Address, Purpose, below};
use grpo_lambda_trainer::reward::RewardBreakdown;
use grpo_lambda_trainer::step::sft::Example;
use grpo_lambda_trainer::step::{RewardFunction, Rewards, Rollout, TrainingPrompt};
use serde::Deserialize;

/// Values are the tokens `0..MODULUS`.
pub(super) const MODULUS: u32 = 23;
const PLUS: u32 = MODULUS;
const TIMES: u32 = MODULUS + 2;
const PAD: u32 = MODULUS + 3;
const FILLER: u32 = MODULUS + 4;
const KINDS: u32 = 3;
const EQUALS: u32 = FILLER + KINDS;
/// The end token; the one before it, of a line that earlier versions of the protocol had, keeps its place, so that a
/// seed has the weights that it had.
pub(super) const END: u32 = EQUALS + 2;
pub(super) const VOCABULARY: usize = END as usize + 1;

/// The shape of chains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Form {
    /// Operations.
    pub(super) steps: usize,
    /// Fillers before a value.
    pub(super) fillers: usize,
}

/// Held-out prompts share none with training.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Training,
    HeldOut,
}

/// A problem: a start value, and operations with their operands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chain {
    start: u32,
    operations: Vec<(u32, u32)>,
}

impl Chain {
    fn part(&self) -> Part {
        let bytes: Vec<u8> = self.numbers().flat_map(u32::to_le_bytes).collect();
        if crc32c::crc32c(&bytes).is_multiple_of(10) { Part::HeldOut } else { Part::Training }
    }

    fn numbers(&self) -> impl Iterator<Item = u32> {
        std::iter::once(self.start).chain(self.operations.iter().flat_map(|(op, by)| [*op, *by]))
    }

    /// The values after each operation.
    pub(super) fn values(&self) -> Vec<u32> {
        self.values_with(|right| right)
    }

    /// The values after each operation if `written` stands in place of a right one, from which the chain goes on.
    fn values_with(&self, mut written: impl FnMut(u32) -> u32) -> Vec<u32> {
        let step = |value: &mut u32, (op, by): &(u32, u32)| {
            let right = match *op {
                PLUS => *value + by,
                TIMES => *value * by,
                _ => *value + MODULUS - by,
            } % MODULUS;
            *value = written(right);
            Some(*value)
        };
        self.operations.iter().scan(self.start, step).collect()
    }
}

impl Form {
    /// Problem `number` of a part under `seed`.
    pub(super) fn chain(&self, seed: u64, part: Part, number: u64) -> Chain {
        let mut rng = Address::new(seed, Purpose::Problems).prompt(part as u64).response(number).generator(0);
        loop {
            let start = below(&mut rng, MODULUS.into()) as u32;
            let operations = (0..self.steps)
                .map(|_| (PLUS + below(&mut rng, 3) as u32, 1 + below(&mut rng, 9) as u32))
                .collect();
            let chain = Chain { start, operations };
            if chain.part() == part {
                return chain;
            }
        }
    }

    /// The prompt of a problem: every operation takes as many tokens as its step in the response.
    pub(super) fn prompt(&self, chain: &Chain) -> Vec<u32> {
        let pads = vec![PAD; self.fillers - 1];
        let step = |(op, by): &(u32, u32)| [&[*op, *by][..], &pads].concat();
        [vec![chain.start], chain.operations.iter().flat_map(step).collect()].concat()
    }

    /// The problem of a prompt that [`Form::prompt`] wrote.
    pub(super) fn read(&self, prompt: &[u32]) -> Chain {
        let operations = prompt[1..].chunks_exact(self.fillers + 1).map(|step| (step[0], step[1])).collect();
        Chain { start: prompt[0], operations }
    }

    /// The tokens of a right response.
    pub(crate) fn len(&self) -> usize {
        self.steps * (self.fillers + 1) + 3
    }

    /// The place of the value of step `k`.
    pub(super) fn place(&self, k: usize) -> usize {
        k * (self.fillers + 1) + self.fillers
    }

    /// A response with fillers drawn from `draws`. Of its values a share `wrong` are others than the right ones,
    /// equally often each, so that the model is as unsure of every fact.
    pub(super) fn demonstration(&self, chain: &Chain, wrong: f64, draws: Address) -> Example {
        let mut rng = draws.generator(0);
        let mut fillers =
            |n: usize| (0..n).map(|_| FILLER + below(&mut rng, KINDS.into()) as u32).collect::<Vec<_>>();
        let (mut errors, mut step) = (draws.generator(1 << 33), 0);
        let values = chain.values_with(|right| {
            step += 1;
            match draws.unit((1 << 34) + step) < wrong {
                true => (right + 1 + below(&mut errors, u64::from(MODULUS) - 1) as u32) % MODULUS,
                false => right,
            }
        });
        let mut response: Vec<u32> =
            values.iter().flat_map(|value| [fillers(self.fillers), vec![*value]].concat()).collect();
        response.extend([EQUALS, values[values.len() - 1], END]);
        Example { prompt: self.prompt(chain), response }
    }

    /// The right token at a place of a response to a problem; any filler where one belongs.
    fn right(&self, values: &[u32], t: usize) -> Option<u32> {
        let body = values.len() * (self.fillers + 1);
        match t {
            t if t < body && t != self.place(t / (self.fillers + 1)) => Some(FILLER),
            t if t < body => Some(values[t / (self.fillers + 1)]),
            t => [EQUALS, values[values.len() - 1], END].get(t - body).copied(),
        }
    }

    /// The first token of a response that is wrong; its length if it ends too early.
    pub(super) fn first_wrong(&self, chain: &Chain, response: &[u32]) -> Option<usize> {
        let values = chain.values();
        let filler = |token: u32| (FILLER..FILLER + KINDS).contains(&token);
        let is_right = |(t, &token): (usize, &u32)| match self.right(&values, t) {
            Some(FILLER) => filler(token),
            right => right == Some(token),
        };
        let wrong = response.iter().enumerate().position(|at| !is_right(at));
        wrong.or((response.len() < self.len()).then_some(response.len()))
    }

    /// A right response: that of the model up to its first wrong token, and from there on the right tokens.
    pub(super) fn mended(&self, chain: &Chain, response: &[u32]) -> Vec<u32> {
        let kept = self.first_wrong(chain, response).unwrap_or(self.len());
        let values = chain.values();
        let rest = (kept..self.len()).filter_map(|t| self.right(&values, t));
        response[..kept].iter().copied().chain(rest).collect()
    }

    /// Counts the right values before the first wrong token, and the same with that token, if there is one: their
    /// ratio is the accuracy of a step.
    pub(super) fn steps_right(&self, chain: &Chain, response: &[u32]) -> [usize; 2] {
        let wrong = self.first_wrong(chain, response);
        let before = |k: &usize| wrong.is_none_or(|wrong| self.place(*k) < wrong);
        let right = (0..chain.operations.len()).filter(before).count();
        [right, right + usize::from(wrong.is_some())]
    }
}

/// The reward: 1 for a right response, else 0.
#[derive(Debug)]
pub(crate) struct Verifier {
    pub(super) form: Form,
}

impl Verifier {
    fn reward(&self, prompt: &TrainingPrompt, response: &[u32]) -> f64 {
        let chain = self.form.read(&prompt.tokens);
        f64::from(u8::from(self.form.first_wrong(&chain, response).is_none()))
    }

    /// The right values over right values and first errors of a rollout.
    pub(super) fn step_accuracy(&self, rollout: &Rollout) -> f64 {
        let counts = rollout.prompts.iter().zip(&rollout.groups).flat_map(|(prompt, group)| {
            let chain = self.form.read(&prompt.tokens);
            group.responses.iter().map(move |r| self.form.steps_right(&chain, &r.tokens))
        });
        let [right, tried] = counts.fold([0, 0], |sum, one| [sum[0] + one[0], sum[1] + one[1]]);
        right as f64 / tried.max(1) as f64
    }
}

impl RewardFunction for Verifier {
    fn rewards(&self, _: u64, prompt: &TrainingPrompt, responses: &[SampledResponse]) -> Rewards {
        let rewarded = |response: &SampledResponse| RewardBreakdown {
            total: Some(self.reward(prompt, &response.tokens)),
            components: Vec::new(),
        };
        Ok(responses.iter().map(rewarded).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORM: Form = Form { steps: 2, fillers: 3 };

    /// 7 + 5 = 12, 12 * 3 = 36 = 13 modulo 23.
    fn by_hand() -> Chain {
        Chain { start: 7, operations: vec![(PLUS, 5), (TIMES, 3)] }
    }

    #[test]
    fn values_and_prompts_by_hand() {
        let form = FORM;
        assert_eq!(by_hand().values(), [12, 13]);
        let minus = Chain { start: 2, operations: vec![(PLUS + 1, 9)] };
        assert_eq!(minus.values(), [16]);
        let prompt = form.prompt(&by_hand());
        assert_eq!(prompt, [7, PLUS, 5, PAD, PAD, TIMES, 3, PAD, PAD]);
        assert_eq!(form.read(&prompt), by_hand());
    }

    #[test]
    fn the_first_wrong_token_by_hand() {
        let f = FILLER;
        let right = [f, f + 1, f + 2, 12, f, f, f, 13, EQUALS, 13, END];
        let changed = |at: usize, token: u32| {
            let mut response = right.to_vec();
            response[at] = token;
            response
        };
        // A response, its first wrong token, and its right values of those that count.
        type Case = (Vec<u32>, Option<usize>, [usize; 2]);
        let cases: [Case; 7] = [
            (right.to_vec(), None, [2, 2]),
            (changed(3, 11), Some(3), [0, 1]),
            (changed(7, 14), Some(7), [1, 2]),
            (changed(1, 12), Some(1), [0, 1]),
            (changed(9, 12), Some(9), [2, 3]),
            (right[..9].to_vec(), Some(9), [2, 3]),
            ([&right[..], &[END]].concat(), Some(11), [2, 3]),
        ];
        for (response, wrong, counts) in cases {
            assert_eq!(FORM.first_wrong(&by_hand(), &response), wrong, "{response:?}");
            assert_eq!(FORM.steps_right(&by_hand(), &response), counts, "{response:?}");
            let mended = FORM.mended(&by_hand(), &response);
            assert_eq!(FORM.first_wrong(&by_hand(), &mended), None, "{response:?}");
            let kept = wrong.unwrap_or(11);
            assert_eq!(mended[..kept], response[..kept]);
            let prompt = TrainingPrompt::new(FORM.prompt(&by_hand()), 0.into(), 9);
            let reward = Verifier { form: FORM }.reward(&prompt, &response);
            assert_eq!(reward, if wrong.is_none() { 1.0 } else { 0.0 }, "{response:?}");
        }
    }

    #[test]
    fn demonstrations_are_right_fit_and_split_by_prompt() {
        let (form, draws) = (Form { steps: 8, fillers: 3 }, Address::new(1, Purpose::Demonstrations));
        for (number, part) in (0..300).flat_map(|n| [(n, Part::Training), (n, Part::HeldOut)]) {
            let chain = form.chain(5, part, number);
            assert_eq!((chain.part(), form.chain(5, part, number)), (part, chain.clone()));
            let Example { prompt, response } = form.demonstration(&chain, 0.0, draws.response(number));
            assert_eq!((form.read(&prompt), form.first_wrong(&chain, &response)), (chain, None));
            assert!(response.len() == form.len() && response.iter().all(|t| (*t as usize) < VOCABULARY));
        }
    }

    #[test]
    fn a_share_of_the_values_of_a_demonstration_is_wrong_and_the_chain_goes_on_from_it() {
        let (form, draws) = (FORM, Address::new(1, Purpose::Demonstrations));
        let mut counts = [0; 4];
        for number in 0..2000 {
            let response = form.demonstration(&by_hand(), 0.25, draws.response(number)).response;
            let (first, second) = (response[form.place(0)], response[form.place(1)]);
            assert_eq!(response[response.len() - 2], second, "the answer is the value that was written");
            let follows = second == first * 3 % MODULUS;
            counts[usize::from(first == 12) + 2 * usize::from(follows)] += 1;
        }
        // Both right 9/16, one 3/16 each, none 1/16 of 2,000, with five standard deviations.
        for (count, expected) in counts.into_iter().zip([125.0f64, 375.0, 375.0, 1125.0]) {
            assert!((f64::from(count) - expected).abs() < 5.0 * expected.sqrt(), "{counts:?}");
        }
    }
}
