//! Responses sampled on the device, against the CPU's.

use std::sync::Arc;
use std::sync::Mutex;

use grpo_lambda::systematic;
use grpo_lambda_decoder::generate::{RolloutError, SampledResponse, SamplingParams, StoppingCriteria};
use grpo_lambda_decoder::generate::{Sampler, SamplingProgress, SamplingRequest};
use grpo_lambda_decoder::lora::LoraSettings;
use grpo_lambda_decoder::mismatch::Mismatch;
use grpo_lambda_decoder::model::weights::Parameters;
use grpo_lambda_decoder::model::{
    Architecture::{Qwen2, Qwen3},
    Decoder, ForwardOptions, ModelConfig, ModelShape, Rows, weights,
};
use grpo_lambda_decoder::rng::{Address, Purpose};
use grpo_lambda_decoder::truncation::Truncation;
use grpo_lambda_gpu::cache_bytes;
use grpo_lambda_gpu::dry::Dry;
use grpo_lambda_gpu::generate::{self, GenerateOptions, Times};
use grpo_lambda_gpu::ledger::Ledger;
use grpo_lambda_gpu::{Budget, Device, Dtype};

use crate::decoder::Ready;
use crate::{long, machine};

fn model_on(device: Arc<dyn Device>, parameters: &Parameters<f32>, c: &ModelConfig, dtype: Dtype) -> Ready {
    Ready::with(device, dtype, c, parameters, Budget::default(), None)
}

impl Ready {
    fn device(&self) -> &dyn Device {
        &*self.decoder.kernels().device
    }

    fn sample(
        &self,
        ask: &SamplingRequest<'_>,
        options: GenerateOptions,
    ) -> Result<(Vec<Vec<SampledResponse>>, Times), RolloutError> {
        generate::run(&self.decoder, self.network(), ask, options)
    }

    fn generate(&self, ask: &SamplingRequest<'_>) -> Vec<Vec<SampledResponse>> {
        self.sample(ask, GenerateOptions::default()).unwrap().0
    }

    /// The trainer's log-probabilities of responses, in flat order.
    fn scored(&self, ask: &SamplingRequest<'_>, responses: &[Vec<SampledResponse>]) -> Vec<Vec<f64>> {
        let rows = rows(ask, responses);
        let temperature = if ask.sampling.temperature > 0.0 { ask.sampling.temperature } else { 1.0 };
        self.decoder
            .score(self.network(), &rows, ForwardOptions { temperature, ..ForwardOptions::default() })
            .unwrap()
            .logps
    }
}

fn rows(ask: &SamplingRequest<'_>, responses: &[Vec<SampledResponse>]) -> Rows {
    let mut rows = Rows::new();
    for (prompt, responses) in ask.prompts.iter().zip(responses) {
        for response in responses {
            let row: Vec<u32> = prompt.iter().chain(&response.tokens).copied().collect();
            rows.push(&row, prompt.len());
        }
    }
    rows
}

/// Two layers, four query heads to two of keys, a head of its own, and every bias there is.
fn shape() -> ModelConfig {
    ModelConfig {
        tie_word_embeddings: false,
        output_bias: true,
        mlp_bias: true,
        ..Qwen2.config(ModelShape { vocab: 61, hidden: 32, layers: 2, heads: 4, kv_heads: 2 })
    }
}

/// This shape, and one that norms its heads, which are wider than their share of the hidden state.
fn shapes() -> [ModelConfig; 2] {
    let heads = ModelShape { vocab: 61, hidden: 32, layers: 2, heads: 4, kv_heads: 2 };
    [shape(), ModelConfig { qkv_bias: true, head_dim: 12, ..Qwen3.config(heads) }]
}

/// Weights that give peaked and flat distributions.
fn parameters(c: &ModelConfig) -> Parameters<f32> {
    let mut parameters = weights::initialise(c, 5, 0.25);
    for (name, tensor) in &mut parameters {
        if name.ends_with("bias") || name.ends_with("q_norm.weight") || name.ends_with("k_norm.weight") {
            tensor.data.iter_mut().enumerate().for_each(|(i, x)| *x += 0.1 * ((i * 7 % 11) as f32 - 5.0));
        }
    }
    parameters
}

const PROMPTS: [&[u32]; 4] = [&[3, 1, 4, 1, 5, 9, 2, 6], &[27], &[18, 28], &[60; 19]];
const EOS: [u32; 6] = [7, 41, 13, 2, 50, 33];
const NEW: usize = 8;

fn sampling(temperature: f64) -> SamplingParams {
    SamplingParams { max_new_tokens: NEW, min_new_tokens: 0, temperature }
}

fn address(prompt: usize, response: usize) -> Address {
    Address::new(11, Purpose::Rollout).prompt(prompt as u64).response(response as u64)
}

fn ask<'a>(prompts: &'a [&'a [u32]], group: usize, temperature: f64) -> SamplingRequest<'a> {
    SamplingRequest::new(prompts, group, &EOS, sampling(temperature), &address)
}

fn cpu(c: &ModelConfig) -> Decoder<f32> {
    Decoder::new(c.clone(), parameters(c)).unwrap()
}

fn model_of(c: &ModelConfig, dtype: Dtype) -> Ready {
    model_on(machine::start(), &parameters(c), c, dtype)
}

fn model(dtype: Dtype) -> Ready {
    model_of(&shape(), dtype)
}

/// Tokens, lengths and truncation are equal, log-probabilities and entropies to within `error`.
fn agree(found: &[Vec<SampledResponse>], expected: &[Vec<SampledResponse>], error: f64) {
    assert_eq!(found.len(), expected.len());
    for (i, (found, expected)) in found.iter().flatten().zip(expected.iter().flatten()).enumerate() {
        assert_eq!(found.tokens, expected.tokens, "response {i}");
        assert_eq!(found.truncated, expected.truncated, "response {i}");
        for (name, found, expected) in [
            ("log-probability", &found.logps, &expected.logps),
            ("entropy", &found.entropies, &expected.entropies),
        ] {
            assert_eq!(found.len(), expected.len());
            for (a, b) in found.iter().zip(expected) {
                assert!((a - b).abs() < error, "{name} in response {i}: {a}, on the CPU {b}");
            }
        }
    }
}

#[test]
fn responses_are_the_cpus_token_by_token() {
    for c in shapes() {
        let model = model_of(&c, Dtype::F32);
        let cpu = cpu(&c);
        let (mut ended, mut cut, mut tokens) = (0, 0, 0);
        for temperature in long::of(vec![1.0, 0.0], vec![1.0, 0.6, 1.4, 0.0]) {
            let ask = ask(&PROMPTS, 3, temperature);
            let expected = cpu.generate(&ask).unwrap();
            agree(&model.generate(&ask), &expected, 1e-5);
            let all: Vec<&SampledResponse> = expected.iter().flatten().collect();
            cut += all.iter().filter(|s| s.truncated).count();
            ended += all.iter().filter(|s| !s.truncated).count();
            tokens += all.iter().map(|s| s.tokens.len()).sum::<usize>();
        }
        assert!(
            ended.min(cut) > long::of(3, 10),
            "{ended} ended and {cut} cut off, of {tokens} tokens: no test of both"
        );
    }
}

/// Tokens are compared while their prefix is not rare: the rest of a code carries rounding on, divided by the probability of each token.
#[test]
fn responses_decoded_from_codes_begin_as_the_cpus_in_any_slots() {
    let (model, cpu, group) = (model(Dtype::F32), cpu(&shape()), 6);
    let coded = |prompt: usize, response| {
        let shift = 0.37 + 0.1 * prompt as f64;
        address(prompt, response).decoded_from(systematic::code(response, group, shift))
    };
    let ask = SamplingRequest::new(&PROMPTS, group, &EOS, sampling(0.6), &coded);
    let expected = cpu.generate(&ask).unwrap();
    let found = model.generate(&ask);
    let (mut compared, mut beyond_the_first) = (0, 0);
    for (found, expected) in found.iter().flatten().zip(expected.iter().flatten()) {
        let mut prefix = 0.0;
        for (t, (token, logp)) in expected.tokens.iter().zip(&expected.logps).enumerate() {
            if prefix < f64::ln(1e-3) {
                break;
            }
            assert_eq!(found.tokens[t], *token, "token {t}");
            (compared, beyond_the_first) = (compared + 1, beyond_the_first + usize::from(t > 0));
            prefix += logp;
        }
    }
    assert!(beyond_the_first > 40, "{beyond_the_first} of {compared}");
    let independent = model.generate(&self::ask(&PROMPTS, group, 0.6));
    assert_ne!(found, independent);
    assert_eq!(model.generate(&SamplingRequest { slots: Some(5), ..ask }), found);
}

/// Every activation is rounded to 8 bits, in another order by sampler and trainer. The limit at which a run stops is
/// [`Mismatch::LIMIT`]; here it is far from it, and the mean is printed.
#[test]
fn in_bf16_sampler_and_trainer_differ_by_less_than_a_run_allows() {
    for c in shapes() {
        let model = model_of(&c, Dtype::Bf16);
        let ask = ask(&PROMPTS, 4, 1.0);
        let responses = model.generate(&ask);
        let mut mismatch = Mismatch::default();
        let trained = model.scored(&ask, &responses);
        responses.iter().flatten().zip(&trained).for_each(|(s, trained)| mismatch.add(&s.logps, trained));
        println!("bf16: mean {}, max {}", mismatch.mean(), mismatch.max());
        assert!(mismatch.mean() > 1.0, "nothing was rounded: {}", mismatch.mean());
        assert!(mismatch.mean() < 1.0 + 0.5 * (Mismatch::LIMIT - 1.0), "mean {}", mismatch.mean());
    }
}

#[test]
fn replayed_steps_have_the_bits_of_launched_ones_and_asking_seldom_changes_nothing() {
    for c in shapes() {
        let direct = GenerateOptions { capture: false, ..GenerateOptions::default() };
        let others = [
            GenerateOptions { poll_every: 1, ..GenerateOptions::default() },
            GenerateOptions { prefill_tokens: 1, ..GenerateOptions::default() },
            GenerateOptions { prefill_tokens: 10, ..GenerateOptions::default() },
        ];
        for (dtype, variants) in
            [(Dtype::F32, [&[direct][..], &others].concat()), (Dtype::Bf16, vec![direct])]
        {
            let model = model_of(&c, dtype);
            let ask = ask(&PROMPTS, 1, 1.0);
            let (expected, times) = model.sample(&ask, GenerateOptions::default()).unwrap();
            assert_eq!(times.steps, NEW - 1);
            for options in variants {
                assert_eq!(model.sample(&ask, options).unwrap().0, expected, "{options:?}");
            }
        }
    }
}

#[test]
fn decoding_stops_when_the_host_has_seen_that_no_row_is_live() {
    let model = model(Dtype::F32);
    let all: Vec<u32> = (0..61).collect();
    let ask = SamplingRequest { eos: &all, ..ask(&PROMPTS[..2], 1, 1.0) };
    for (poll_every, steps) in [(1, 1), (3, 3), (100, NEW - 1)] {
        let (found, times) =
            model.sample(&ask, GenerateOptions { poll_every, ..GenerateOptions::default() }).unwrap();
        assert!(found.iter().flatten().all(|s| s.tokens.len() == 1 && !s.truncated));
        assert_eq!(times.steps, steps);
    }
}

/// Prompts of one token to more than two pages, groups that start in parts, and limits and endings of every kind.
#[test]
fn refilled_slots_give_the_cpus_responses_whatever_starts_next_to_them() {
    for dtype in [Dtype::F32, Dtype::Bf16] {
        let model = model(dtype);
        let cpu = cpu(&shape());
        let prompts: [&[u32]; 4] = [&[3; 40], &[27], &[18; 64], &[60; 70]];
        let complete = |tokens: &[u32]| tokens.iter().filter(|t| **t % 3 == 0).count() == 2;
        let base = ask(&prompts, 3, 1.0);
        let own = StoppingCriteria { max_lengths: &[5, 1, 30, 2], complete: Some(&complete) };
        let asks = [base, SamplingRequest { eos: &[], ..base }, SamplingRequest { stopping: own, ..base }];
        for ask in asks.into_iter().skip(long::of(2, 0)) {
            let whole = if dtype == Dtype::F32 { cpu.generate(&ask).unwrap() } else { model.generate(&ask) };
            for (slots, poll_every, capture) in [(1, 1, true), (2, 3, true), (5, 2, false), (7, 100, true)] {
                let options = GenerateOptions { poll_every, capture, prefill_tokens: 60 };
                let found = model.sample(&SamplingRequest { slots: Some(slots), ..ask }, options).unwrap().0;
                agree(&found, &whole, 1e-5);
            }
        }
        // The cache of one slot is that of the longest row alone.
        model.device().ledger().forget_peak();
        model.generate(&SamplingRequest { slots: Some(1), ..base });
        let cache = cache_bytes(&shape(), dtype, 4);
        let held = model.device().ledger().peak().1["keys and values"];
        assert_eq!(held, 2 * Ledger::rounded(cache / 2));
    }
}

/// A watch in any number of slots, on both devices; if nothing ends a response early there is less to ask, and all is reported at the end.
#[test]
fn a_watch_sees_every_token_and_every_end() {
    let model = model(Dtype::F32);
    let cpu = cpu(&shape());
    for slots in [None, Some(2)] {
        for eos in [&EOS[..], &[]] {
            let reported = Mutex::new(Vec::new());
            let watch = |progress: SamplingProgress| reported.lock().unwrap().push(progress);
            let ask = SamplingRequest { slots, eos, watch: Some(&watch), ..ask(&PROMPTS, 2, 1.0) };
            for on_cpu in [true, false] {
                let responses = if on_cpu { cpu.generate(&ask).unwrap() } else { model.generate(&ask) };
                let reported = std::mem::take(&mut *reported.lock().unwrap());
                let tokens: usize = responses.iter().flatten().map(|r| r.tokens.len()).sum();
                let n = 2 * PROMPTS.len();
                let whole = SamplingProgress { tokens, ended: n, responses: n, most: n * NEW };
                assert_eq!(reported.last(), Some(&whole));
                assert_eq!(whole.share(), 1.0);
                let grows = |pair: &[SamplingProgress]| {
                    pair[0].tokens <= pair[1].tokens && pair[0].ended <= pair[1].ended
                };
                assert!(reported.windows(2).all(grows));
            }
        }
    }
}

/// Every request, and the tokens of each of its responses where the request fixes them.
#[test]
fn limits_endings_and_truncated_distributions_are_the_cpus() {
    let model = model(Dtype::F32);
    let cpu = cpu(&shape());
    let complete = |tokens: &[u32]| tokens.iter().filter(|t| **t % 2 == 0).count() == 3;
    let base = ask(&PROMPTS, 2, 1.0);
    let limits = StoppingCriteria { max_lengths: &[1, 4, 30, 2], complete: None };
    let completed = StoppingCriteria { max_lengths: &[], complete: Some(&complete) };
    let both = StoppingCriteria { max_lengths: &[5, 20, 3, 20], ..completed };
    let one = SamplingParams { max_new_tokens: 1, ..base.sampling };
    for (ask, each) in [
        (SamplingRequest { sampling: one, ..base }, Some(1)),
        (SamplingRequest { eos: &[], ..base }, Some(NEW)),
        (SamplingRequest { stopping: limits, ..base }, None),
        (SamplingRequest { truncation: Truncation { top_k: Some(3), top_p: None }, ..base }, None),
        (SamplingRequest { truncation: Truncation { top_k: None, top_p: Some(0.7) }, ..base }, None),
        (SamplingRequest { sampling: SamplingParams { min_new_tokens: 5, ..base.sampling }, ..base }, None),
        (SamplingRequest { eos: &[], stopping: completed, ..base }, None),
        (SamplingRequest { stopping: both, ..base }, None),
    ] {
        let expected = cpu.generate(&ask).unwrap();
        let tokens = |n: usize| expected.iter().flatten().all(|s| s.tokens.len() == n);
        assert!(each.is_none_or(tokens), "{expected:?}");
        // However late the host asks whether a response is complete.
        for poll_every in long::of(vec![3], vec![1, 3, 100]) {
            let options = GenerateOptions { poll_every, ..GenerateOptions::default() };
            agree(&model.sample(&ask, options).unwrap().0, &expected, 1e-5);
        }
    }
}

#[test]
fn an_adapter_is_sampled_with() {
    for c in shapes() {
        let targets = ["q_proj", "v_proj", "o_proj", "up_proj", "down_proj"].map(str::to_owned).to_vec();
        let settings = LoraSettings { rank: 3, alpha: 12.0, targets };
        let mut tensors = settings.initialise(&c, 9).unwrap();
        for tensor in tensors.values_mut() {
            tensor.data.iter_mut().enumerate().for_each(|(i, x)| *x += 0.05 * ((i % 5) as f32 - 2.0));
        }
        let adapter = Some((&settings, &tensors));
        let model =
            Ready::with(machine::start(), Dtype::F32, &c, &parameters(&c), Budget::default(), adapter);
        let ask = ask(&PROMPTS, 2, 1.0);
        let found = model.generate(&ask);
        let base = generate::run(&model.decoder, (&model.weights).into(), &ask, GenerateOptions::default());
        assert_ne!(found, base.unwrap().0);
        let mut merged = cpu(&c);
        let lora = grpo_lambda_decoder::lora::Lora::new(settings, &merged).unwrap();
        lora.merge(&mut merged, &|name| tensors.get(name).map(|t| t.data.as_slice()));
        agree(&found, &merged.generate(&ask).unwrap(), 1e-5);
    }
}

#[test]
fn what_cannot_be_sampled_is_refused_as_on_the_cpu() {
    let c = ModelConfig { max_position_embeddings: 24, ..shape() };
    let device = machine::start();
    let model = model_on(device.clone(), &parameters(&c), &c, Dtype::F32);
    let cpu = cpu(&c);
    let empty: [&[u32]; 2] = [&[1], &[]];
    let outside: [&[u32]; 1] = [&[61]];
    for prompts in [&PROMPTS[..], &empty, &outside] {
        let ask = ask(prompts, 2, 1.0);
        let [found, expected] =
            [model.sample(&ask, GenerateOptions::default()).map(|r| r.0), cpu.generate(&ask)]
                .map(|r| r.unwrap_err());
        assert_eq!(found.to_string(), expected.to_string());
    }
    let mut broken = parameters(&c);
    broken.get_mut("model.norm.weight").unwrap().data[3] = f32::NAN;
    let model = model_on(device, &broken, &c, Dtype::F32);
    for greedy in [0.0, 1.0] {
        let found =
            model.sample(&ask(&PROMPTS[..2], 2, greedy), GenerateOptions::default()).unwrap_err().to_string();
        assert!(found.contains("prompt 0, response 0, token 0") && found.contains("NaN"), "{found}");
    }
    assert_eq!(model.generate(&ask(&[], 2, 1.0)), Vec::<Vec<SampledResponse>>::new());
}

/// Memory counted by a dry run against that of sampling, whatever is sampled; the caches are as large as their formula.
#[test]
fn a_dry_run_counts_the_memory_of_a_rollout() {
    for c in shapes() {
        for dtype in [Dtype::F32, Dtype::Bf16] {
            for (group, prefill_tokens) in [(1, 8192), (2, 10)] {
                let card = machine::start();
                let options = GenerateOptions { prefill_tokens, ..GenerateOptions::default() };
                let peak = |device: Arc<dyn Device>| {
                    let model = model_on(device.clone(), &parameters(&c), &c, dtype);
                    let held = device.ledger().total();
                    model.sample(&ask(&PROMPTS, group, 1.0), options).unwrap();
                    let left = device.ledger().total() - held;
                    // The table of rotations stays with the decoder.
                    assert_eq!(left, 256 * 4 * c.head_dim as u64, "left over");
                    machine::peak(model.device())
                };
                let (found, dry) = (peak(card), peak(Arc::new(Dry::default())));
                assert_eq!(found, dry);
                // Every row fits a page.
                let cache = cache_bytes(&c, dtype, PROMPTS.len() * group);
                // The peak is where the caches are, an array for every layer.
                let layers = c.num_hidden_layers;
                assert_eq!(found.1["keys and values"], layers as u64 * Ledger::rounded(cache / layers));
            }
        }
    }
}
