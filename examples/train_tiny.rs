//! A small transformer learns from rewards alone, on a CPU: GRPO until its responses are made of one token.

use grpo_lambda::group::{Group, Response};
use grpo_lambda::methods;
use grpo_lambda_decoder::generate::{Sampler, SamplingParams, SamplingRequest};
use grpo_lambda_decoder::model::{
    Architecture::Qwen2, Decoder, ForwardOptions, Gradients, ModelShape, Rows, weights,
};
use grpo_lambda_decoder::optim::{AdamW, AdamWSettings};
use grpo_lambda_decoder::rng::{Address, Purpose};

const WANTED: u32 = 7;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let config = Qwen2.config(ModelShape { vocab: 16, hidden: 32, layers: 2, heads: 4, kv_heads: 2 });
    let mut model = Decoder::new(config.clone(), weights::initialise(&config, 1, 0.02))?;
    let mut optimiser = AdamW::for_model(&model, AdamWSettings::default());
    let method = methods::parse("grpo", "")?.method;
    let sampling = SamplingParams { max_new_tokens: 6, min_new_tokens: 0, temperature: 1.0 };
    let (prompt, end, mut mean) = ([3, 5], [0], 0.0);
    for step in 0..40 {
        let address = |_: usize, response: usize| {
            Address::new(1, Purpose::Rollout).step(step).response(response as u64)
        };
        let sampled =
            model.generate(&SamplingRequest::new(&[&prompt], 16, &end, sampling, &address))?.remove(0);
        let reward =
            |tokens: &[u32]| tokens.iter().filter(|t| **t == WANTED).count() as f64 / tokens.len() as f64;
        let graded = sampled.iter().map(|s| Response::graded(s.logps.clone(), reward(&s.tokens)));
        let group = Group { responses: graded.collect() };
        mean = group.rewards().into_iter().flatten().sum::<f64>() / 16.0;

        let mut rows = Rows::new();
        sampled.iter().for_each(|s| rows.push(&[&prompt[..], &s.tokens].concat(), prompt.len()));
        let (scores, tape) = model.forward(&rows, ForwardOptions::default())?;
        let loss = methods::evaluate(method.as_ref(), &[group], &scores.logps);
        let mut gradients = Gradients::new(&config, |_| true);
        model.backward(tape, &loss.dlogps, &mut gradients);
        optimiser.step_in(&mut model, 1e-2, &gradients.by_name())?;
        println!("step {step}: mean reward {mean:.3}");
    }
    assert!(mean > 0.9, "{mean}");
    Ok(())
}

#[test]
fn runs() -> Result<(), Box<dyn std::error::Error>> {
    main()
}
