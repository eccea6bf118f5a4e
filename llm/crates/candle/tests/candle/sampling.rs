//! Sampled responses: those of the CPU's decoder, from the same random numbers, in any number of slots.

use candle_core::{DType, Device};
use grpo_lambda_candle::model::Model;
use grpo_lambda_decoder::generate::{Sampler, SamplingParams, SamplingRequest, StoppingCriteria};
use grpo_lambda_decoder::model::config::Architecture::{Llama, Olmo2, Qwen2, Qwen3};
use grpo_lambda_decoder::model::weights::{self, Parameters};
use grpo_lambda_decoder::model::{Decoder, ModelConfig, ModelShape};
use grpo_lambda_decoder::rng::{Address, Purpose};
use grpo_lambda_decoder::truncation::Truncation;

const EOS: [u32; 1] = [3];
/// Tokens of a code that survive the rounding.
const FIRST: usize = 6;

fn configs() -> [ModelConfig; 4] {
    let shape = ModelShape { vocab: 67, hidden: 16, layers: 2, heads: 4, kv_heads: 2 };
    [Qwen2, Qwen3, Llama, Olmo2].map(|family| family.config(shape))
}

fn model(config: &ModelConfig, parameters: &Parameters<f32>) -> Model {
    Model::new(config, parameters, DType::F32, &Device::Cpu).unwrap()
}

#[test]
fn responses_are_those_of_the_cpu_in_any_number_of_slots() {
    // Longer than a cache grows at a time, and prompts longer than those before them.
    let prompts: Vec<Vec<u32>> =
        [5, 1, 40, 12, 90].iter().map(|&n| (0..n).map(|t| (t * t + n * 7) % 67).collect()).collect();
    let prompts: Vec<&[u32]> = prompts.iter().map(Vec::as_slice).collect();
    for (case, config) in configs().iter().enumerate() {
        let parameters = weights::initialise(config, 4, 0.3);
        let (ours, theirs) = (model(config, &parameters), Decoder::new(config.clone(), parameters).unwrap());
        for (temperature, coded, top_k) in [(1.0, false, None), (0.7, true, Some(9)), (0.0, false, None)] {
            let address = |p: usize, r: usize| {
                let own = Address::new(5, Purpose::Rollout).prompt(p as u64).response(r as u64);
                if coded { own.decoded_from((0.3 + r as f64 / 3.0).fract()) } else { own }
            };
            let sampling = SamplingParams { max_new_tokens: 90, min_new_tokens: case, temperature };
            let limits = [90, 70, 3, 90, 20];
            let request = SamplingRequest {
                truncation: Truncation { top_k, top_p: None },
                stopping: StoppingCriteria { max_lengths: &limits, complete: None },
                ..SamplingRequest::new(&prompts, 3, &EOS, sampling, &address)
            };
            let expected = theirs.generate(&request).unwrap();
            assert!(expected.iter().flatten().any(|r| r.tokens.len() > 64) || temperature == 0.0);
            for slots in [None, Some(1), Some(4)] {
                let found = ours.generate(&SamplingRequest { slots, ..request }).unwrap();
                for (a, b) in found.iter().flatten().zip(expected.iter().flatten()) {
                    // What is left of a code grows by 1/p with every token, and so does its rounding, which differs here.
                    let n = if coded { FIRST.min(b.tokens.len()) } else { b.tokens.len() };
                    assert_eq!(a.tokens[..n], b.tokens[..n]);
                    assert!(coded || (a.tokens.len(), a.truncated) == (n, b.truncated));
                    let near =
                        |a: &[f64], b: &[f64]| a[..n].iter().zip(&b[..n]).all(|(a, b)| (a - b).abs() < 1e-5);
                    assert!(near(&a.logps, &b.logps) && near(&a.entropies, &b.entropies));
                }
            }
        }
    }
}

#[test]
fn a_prompt_that_the_model_cannot_take_is_refused() {
    let config = &configs()[0];
    let ours = model(config, &weights::initialise(config, 4, 0.3));
    let address = |p: usize, _: usize| Address::new(5, Purpose::Rollout).prompt(p as u64);
    let sampling = SamplingParams { max_new_tokens: 7, min_new_tokens: 0, temperature: 1.0 };
    let prompts = [&[1u32][..], &[67]];
    let refused = ours.generate(&SamplingRequest::new(&prompts, 1, &[], sampling, &address)).unwrap_err();
    assert!(refused.to_string().contains("row 1: token 67 at 0"), "{refused}");
}
