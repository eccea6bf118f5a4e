//! The decoder's logits against candle-transformers, which knows nothing of our code: single sequences without a mask, since with one
//! its Qwen2 loses causality.

use std::collections::HashMap;

use candle_core::{DType, Device, Result, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::{llama, olmo2, qwen2, qwen3};
use grpo_lambda_decoder::model::config::{
    Architecture::{self, Llama, Olmo2, Qwen2, Qwen3},
    RopeScaling,
};
use grpo_lambda_decoder::model::weights::{self, Parameters};
use grpo_lambda_decoder::model::{Decoder, ModelConfig, ModelShape, Rows};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Largest difference of a logit. Both compute in f32, candle its rotary angles too: it was 2e-6 when this was written.
const LOGIT: f64 = 2e-5;
const ROW: usize = 40;

/// A model of candle-transformers: from ids to the logits after the last of them.
type Oracle = Box<dyn FnMut(&Tensor) -> Result<Tensor>>;

fn builder(parameters: &Parameters<f32>) -> VarBuilder<'static> {
    let tensor = |(name, t): (&String, &weights::Tensor<f32>)| {
        (name.clone(), Tensor::from_slice(&t.data, t.shape.as_slice(), &Device::Cpu).unwrap())
    };
    let tensors: HashMap<String, Tensor> = parameters.iter().map(tensor).collect();
    VarBuilder::from_tensors(tensors, DType::F32, &Device::Cpu)
}

/// The configuration that candle-transformers reads from our `config.json`, for rows of at most [`ROW`] tokens.
fn config<C: DeserializeOwned>(c: &ModelConfig) -> C {
    let mut fields: Value = serde_json::from_str(&c.to_json()).unwrap();
    for name in ["max_position_embeddings", "sliding_window", "max_window_layers"] {
        fields[name] = json!(ROW);
    }
    fields["use_sliding_window"] = json!(false);
    fields["attention_bias"] = json!(c.qkv_bias);
    serde_json::from_value(fields).unwrap()
}

/// The oracle of a model whose cache is cleared before every call.
macro_rules! oracle {
    ($family:ident::$model:ident, $config:expr, $parameters:expr) => {{
        let mut model = $family::$model::new(&config($config), builder($parameters)).unwrap();
        Box::new(move |ids: &Tensor| {
            model.clear_kv_cache();
            model.forward(ids, 0)
        })
    }};
}

fn llama_oracle(c: &ModelConfig, parameters: &Parameters<f32>) -> Oracle {
    let config = config::<llama::LlamaConfig>(c).into_config(false);
    let model = llama::Llama::load(builder(parameters), &config).unwrap();
    Box::new(move |ids| {
        let mut cache = llama::Cache::new(false, DType::F32, &config, &Device::Cpu)?;
        model.forward(ids, 0, &mut cache)
    })
}

/// Shapes of each family that candle-transformers can express.
fn configs() -> Vec<ModelConfig> {
    let shape = ModelShape { vocab: 61, hidden: 32, layers: 3, heads: 4, kv_heads: 2 };
    let family = |family: Architecture| ModelConfig { rope_theta: 1e6, ..family.config(shape) };
    let [qwen2, llama, olmo2] = [Qwen2, Llama, Olmo2].map(family);
    let qwen3 = ModelConfig { head_dim: 12, ..family(Qwen3) };
    let scaling =
        RopeScaling::Llama3 { factor: 8.0, low_freq_factor: 1.0, high_freq_factor: 4.0, original_max: 64.0 };
    let untied = |c: &ModelConfig| ModelConfig { tie_word_embeddings: false, ..c.clone() };
    vec![
        untied(&qwen2),
        untied(&ModelConfig { rope_scaling: scaling, ..llama.clone() }),
        untied(&qwen3),
        ModelConfig { qkv_bias: true, output_bias: true, ..qwen3.clone() },
        qwen2,
        llama,
        qwen3,
        untied(&olmo2),
        ModelConfig { qkv_bias: true, output_bias: true, ..olmo2 },
    ]
}

#[test]
fn logits_are_those_of_candle_transformers_after_every_prefix() {
    let ids: Vec<u32> = (0..ROW as u32).map(|t| (t * t * 7 + t * 3 + 5) % 61).collect();
    for c in configs() {
        let mut parameters = weights::initialise(&c, 9, 0.15);
        for (i, x) in parameters.values_mut().flat_map(|t| &mut t.data).enumerate() {
            *x += 0.05 * ((i * 37 % 23) as f32 - 11.0) / 11.0;
        }
        let mut oracle: Oracle = match c.architecture {
            Qwen2 => oracle!(qwen2::ModelForCausalLM, &c, &parameters),
            Qwen3 => oracle!(qwen3::ModelForCausalLM, &c, &parameters),
            Olmo2 => oracle!(olmo2::Model, &c, &parameters),
            Llama => llama_oracle(&c, &parameters),
        };
        let mut rows = Rows::new();
        rows.push(&ids, ROW);
        let ours = Decoder::new(c.clone(), parameters).unwrap().logits(&rows).unwrap();
        let (mut worst, mut largest): (f64, f64) = (0.0, 0.0);
        for (n, ours) in (1..=ROW).zip(ours.chunks_exact(c.vocab_size)) {
            let input = Tensor::new(&ids[..n], &Device::Cpu).unwrap().unsqueeze(0).unwrap();
            let theirs = oracle(&input).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap();
            assert_eq!(theirs.len(), ours.len());
            for (a, b) in ours.iter().zip(&theirs) {
                worst = worst.max(f64::from((a - b).abs()));
                largest = largest.max(f64::from(a.abs()));
            }
        }
        let name = format!("{:?}, tied {}", c.architecture, c.tie_word_embeddings);
        println!("{name}: logits of up to {largest:.1} differ by at most {worst:.1e}");
        assert!(largest > 1.0, "{name}: logits that are all near 0 test little");
        assert!(worst <= LOGIT, "{name}: {worst:e}");
    }
}
