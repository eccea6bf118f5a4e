//! A whole step on the device, and what a dry run counted of it before.

use grpo_lambda_decoder::model::{
    self,
    Architecture::{Olmo2, Qwen2, Qwen3},
    ModelShape,
};
use grpo_lambda_gpu::Dtype;
use grpo_lambda_trainer::config::Config;
use grpo_lambda_trainer::plan::synthetic::{predict, step, synthetic_engine};
use grpo_lambda_trainer::problems::MaxLengths;
use grpo_lambda_trainer::step::engine::SyntheticWeights;

use crate::machine;

const SHAPE: ModelShape = ModelShape { vocab: 61, hidden: 32, layers: 2, heads: 4, kv_heads: 2 };

#[test]
fn a_family_without_kernels_is_refused_by_the_part_it_needs() {
    let config = Config::resolve("tiny", &[] as &[&str]).unwrap();
    let refused = predict(&Olmo2.config(SHAPE), &config, Dtype::Bf16, MaxLengths { prompt: 6, example: 0 });
    let line = refused.expect_err("no kernels").to_string();
    let expected = "Olmo2 is only supported on the CPU: the GPU has no norms after attention and the MLP; run it on the CPU";
    assert_eq!(line, expected);
}

#[test]
fn a_step_takes_the_memory_that_was_predicted() {
    let own_head = model::ModelConfig { tie_word_embeddings: false, ..Qwen2.config(SHAPE) };
    let normed = model::ModelConfig { head_dim: 12, ..Qwen3.config(SHAPE) };
    let base =
        ["rl.prompts_per_step=2", "rl.group_size=2", "rl.max_new_tokens=3", "method.beta=0.04", "eval.n=1"];
    for (shape, dtype, more) in [
        (&own_head, Dtype::F32, &["memory.micro_batch_tokens=20"][..]),
        (&own_head, Dtype::Bf16, &["memory.recompute_layers=true"]),
        (&own_head, Dtype::Bf16, &["lora.rank=3"]),
        (&normed, Dtype::F32, &["memory.micro_batch_tokens=20"]),
        (&normed, Dtype::Bf16, &["lora.rank=3", "memory.recompute_layers=true"]),
    ] {
        let config = Config::resolve("tiny", &[&base[..], more].concat()).unwrap();
        let device = machine::start();
        let mut engine = synthetic_engine(&device, shape, &config, dtype, SyntheticWeights::Random).unwrap();
        let (phases, _) = step(&mut engine, &config, Some(&device), 6, 0).unwrap();
        assert!(phases.wall.reference > 0.0 && phases.wall.optimiser > 0.0);
        let prediction = predict(shape, &config, dtype, MaxLengths { prompt: 6, example: 0 }).unwrap();
        assert_eq!(machine::peak(&*device), *prediction.peak(), "{more:?}");
        drop(engine);
        assert_eq!(machine::held(&*device), 0);
    }
}

/// The whole of a run's step on made-up weights: what is sampled, scored and moved are numbers.
#[test]
fn made_up_weights_are_those_of_the_reference_and_rounded_master_weights() {
    let shape = Qwen2.config(SHAPE);
    let config = Config::resolve("tiny", &["method.beta=0.04"]).unwrap();
    let device = machine::start();
    let engine = synthetic_engine(&device, &shape, &config, Dtype::Bf16, SyntheticWeights::Random).unwrap();
    use grpo_lambda_trainer::step::engine::Engine;
    let (master, reference) = (engine.parameters().unwrap(), engine.frozen_weights().unwrap().unwrap());
    let mut spread = 0.0;
    for (name, tensor) in master.iter() {
        for (a, b) in tensor.data.iter().zip(&reference[name].data) {
            assert_eq!(half::bf16::from_f32(*a).to_f32(), *b, "{name}");
        }
        if name.ends_with("o_proj.weight") {
            let n = tensor.data.len() as f32;
            spread = (tensor.data.iter().map(|x| x * x).sum::<f32>() / n).sqrt();
        }
    }
    assert!((spread - 0.02).abs() < 0.001, "{spread}");
}
