//! The loop of sampling against a model that says what it was asked to, and the small functions of a request by hand.

use std::sync::Mutex;

use super::*;
use crate::rng::Purpose;

/// End token 2; scores of the next token by how many tokens a response has.
struct Scripted {
    steps: Vec<[f32; 3]>,
    /// The tokens of each response that runs.
    read: Vec<usize>,
    ended: Vec<usize>,
}

impl Scripted {
    fn new(steps: &[[f32; 3]], responses: usize) -> Self {
        Scripted { steps: steps.to_vec(), read: vec![0; responses], ended: Vec::new() }
    }
}

impl DecodeBackend for Scripted {
    fn start(&mut self, _: &[usize]) -> Result<(), RolloutError> {
        Ok(())
    }
    fn scores(&self, response: usize) -> &[f32] {
        &self.steps[self.read[response]]
    }
    fn end(&mut self, response: usize) {
        self.ended.push(response);
    }
    fn read(&mut self, responses: &[usize], _: &[u32]) -> Result<(), RolloutError> {
        responses.iter().for_each(|&r| self.read[r] += 1);
        Ok(())
    }
}

fn address(prompt: usize, response: usize) -> Address {
    Address::new(3, Purpose::Rollout).prompt(prompt as u64).response(response as u64)
}

fn request<'a>(prompts: &'a [&'a [u32]], group: usize, most: usize, temperature: f64) -> SamplingRequest<'a> {
    let sampling = SamplingParams::new(most, temperature);
    SamplingRequest::new(prompts, group, &[2], sampling, &address)
}

const SURE: f32 = 0.0;
const NEVER: f32 = f32::NEG_INFINITY;

#[test]
fn a_response_ends_at_its_end_token_a_completion_or_its_limit() {
    let prompts: [&[u32]; 1] = [&[0]];
    let script = [[SURE, NEVER, NEVER], [NEVER, SURE, NEVER], [NEVER, NEVER, SURE]];
    let reported = Mutex::new(Vec::new());
    let watch = |progress: SamplingProgress| reported.lock().unwrap().push(progress);
    let run = |most: usize, complete: Option<&dyn CompletionTest>| {
        let stopping = StoppingCriteria { complete, ..StoppingCriteria::default() };
        let request = SamplingRequest { stopping, watch: Some(&watch), ..request(&prompts, 1, most, 1.0) };
        let mut model = Scripted::new(&script, 1);
        let found = request.run(&mut model).unwrap().remove(0).remove(0);
        assert_eq!(model.ended, [0]);
        (found.tokens, found.truncated)
    };
    assert_eq!(run(3, None), (vec![0, 1, 2], false));
    assert_eq!(run(2, None), (vec![0, 1], true));
    assert_eq!(run(1, None), (vec![0], true));
    let second = |tokens: &[u32]| tokens == [0, 1];
    assert_eq!(run(3, Some(&second)), (vec![0, 1], false));
    assert_eq!(run(2, Some(&second)), (vec![0, 1], false));
    let reported = reported.into_inner().unwrap();
    let whole = |tokens, ended, most| SamplingProgress { tokens, ended, responses: 1, most };
    assert_eq!(reported[..3], [whole(1, 0, 3), whole(2, 0, 3), whole(3, 1, 3)]);
    assert_eq!(reported[3..5], [whole(1, 0, 2), whole(2, 1, 2)]);
}

#[test]
fn a_response_can_be_cut_afterwards_where_it_would_have_ended() {
    let whole = || SampledResponse {
        tokens: vec![5, 6, 7],
        logps: vec![-1.0, -2.0, -3.0],
        entropies: vec![1.0, 2.0, 3.0],
        truncated: true,
    };
    let mut cut = whole();
    cut.end_where(&|tokens: &[u32]| tokens.len() >= 2);
    let expected = SampledResponse {
        tokens: vec![5, 6],
        logps: vec![-1.0, -2.0],
        entropies: vec![1.0, 2.0],
        truncated: false,
    };
    assert_eq!(cut, expected);
    let mut never = whole();
    never.end_where(&|_: &[u32]| false);
    assert_eq!(never, whole());
}

#[test]
fn at_temperature_0_the_most_probable_token_is_taken_and_above_it_any() {
    let prompts: [&[u32]; 1] = [&[0]];
    let scores = [0.5f32.ln(), 0.25f32.ln(), 0.25f32.ln()];
    let drawn = |temperature: f64| {
        let request = request(&prompts, 200, 1, temperature);
        let found = request.run(&mut Scripted::new(&[scores], 200)).unwrap().remove(0);
        let bits = 1.5 * 2f64.ln();
        assert!(found.iter().all(|r| (r.entropies[0] - bits).abs() < 1e-6), "half, a quarter, a quarter");
        assert!(found.iter().all(|r| r.logps == [f64::from(scores[r.tokens[0] as usize])]));
        [0, 1, 2].map(|token| found.iter().filter(|r| r.tokens == [token]).count())
    };
    assert_eq!(drawn(0.0), [200, 0, 0]);
    // Five standard errors of 200 draws.
    assert!(
        drawn(1.0).iter().zip([100.0, 50.0, 50.0]).all(|(n, expected)| (*n as f64 - expected).abs() < 36.0)
    );
}

#[test]
fn evenly_spaced_codes_give_tokens_in_proportion_whatever_the_shift() {
    // Two tokens of probabilities 1/2, 1/4, 1/4 each, then the end: of 16 codes exactly 16 p q give each pair, unless
    // they lie at the very ends of intervals.
    let scores = [0.5f32.ln(), 0.25f32.ln(), 0.25f32.ln()];
    let prompts: [&[u32]; 1] = [&[0]];
    let sets = grpo_lambda::systematic::Sets::new(1);
    for shift in [0.013, 0.05, 0.49, 0.999] {
        let coded = |prompt: usize, response: usize| {
            address(prompt, response).decoded_from(sets.code(response, 16, shift).number(|| 0.0))
        };
        let request = SamplingRequest { eos: &[], address: &coded, ..request(&prompts, 16, 2, 1.0) };
        let found = request.run(&mut Scripted::new(&[scores, scores], 16)).unwrap().remove(0);
        for (a, b) in (0..3u32).flat_map(|a| (0..3u32).map(move |b| (a, b))) {
            let share = |token: u32| if token == 0 { 2 } else { 1 };
            let n = found.iter().filter(|r| r.tokens == [a, b]).count();
            assert_eq!(n, share(a) * share(b), "{a} {b} at shift {shift}");
        }
        assert!(found.iter().all(|r| r.logps[0] == f64::from(scores[r.tokens[0] as usize])));
    }
}

#[test]
fn a_response_whose_code_is_uniform_has_the_distribution_of_any_other_and_goes_on_beyond_its_bits() {
    // 40 tokens of 1.5 bits on average: more than a code has. Token 0 has probability 1/2 at every position.
    let scores = vec![[0.5f32.ln(), 0.25f32.ln(), 0.25f32.ln()]; 40];
    let prompts: [&[u32]; 1] = [&[0]];
    let coded = |prompt: usize, response: usize| {
        let own = address(prompt, response);
        own.decoded_from(Address::new(8, Purpose::Shift).response(response as u64).unit(0))
    };
    let request = SamplingRequest { eos: &[], address: &coded, ..request(&prompts, 400, 40, 1.0) };
    let found = request.run(&mut Scripted::new(&scores, 400)).unwrap().remove(0);
    for position in 0..40 {
        let n = found.iter().filter(|r| r.tokens[position] == 0).count() as f64;
        assert!((n - 200.0).abs() < 45.0, "{n} of 400 at {position}: 4.5 standard errors");
    }
    let pairs = found.iter().filter(|r| r.tokens[36] == 0 && r.tokens[37] == 0).count() as f64;
    assert!((pairs - 100.0).abs() < 39.0, "{pairs}");
}

#[test]
fn limits_of_a_request_by_hand() {
    let prompts: [&[u32]; 2] = [&[0, 1, 2], &[0]];
    let plain = request(&prompts, 4, 5, 1.0);
    assert!(plain.check(8).is_ok());
    let refused = plain.check(7).unwrap_err().to_string();
    assert_eq!(refused, "prompt 0 has 3 tokens; with 5 new ones it exceeds the model's limit of 7");
    // A lower limit for the first prompt, and one for the second that is none.
    let stopping = StoppingCriteria { max_lengths: &[2, 9], complete: None };
    let limited = SamplingRequest { stopping, slots: Some(3), ..plain };
    assert!(limited.check(6).is_ok() && limited.check(5).is_err());
    assert_eq!(
        limited.untouched(),
        SamplingProgress { tokens: 0, ended: 0, responses: 8, most: 4 * 2 + 4 * 5 }
    );
    assert_eq!((plain.at_a_time(), limited.at_a_time()), (8, 3));
}

#[test]
fn the_share_sampled_is_that_of_limits_or_of_ends() {
    let share = |tokens, ended| SamplingProgress { tokens, ended, responses: 4, most: 100 }.share();
    assert_eq!(
        [share(0, 0), share(10, 0), share(10, 1), share(80, 1), share(80, 4)],
        [0.0, 0.1, 0.25, 0.8, 1.0]
    );
    assert_eq!(SamplingProgress::default().share(), 0.0);
}
