//! The decoder's logits against candle-transformers, which knows nothing of our code: single sequences without a mask, since with one
//! its Qwen2 loses causality.

use std::collections::HashMap;

use candle_core::{DType, Device, Result, Tensor};
use candle_nn::{Activation, VarBuilder};
use candle_transformers::models::{llama, olmo2, qwen2, qwen3};
use grpo_lambda_decoder::model::config::{
    Architecture::{self, Llama, Olmo2, Qwen2, Qwen3},
    RopeScaling,
};
use grpo_lambda_decoder::model::weights::{self, Parameters};
use grpo_lambda_decoder::model::{Decoder, ModelConfig, ModelShape, Rows};

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

fn qwen2_oracle(c: &ModelConfig, parameters: &Parameters<f32>) -> Oracle {
    let config = qwen2::Config {
        vocab_size: c.vocab_size,
        hidden_size: c.hidden_size,
        intermediate_size: c.intermediate_size,
        num_hidden_layers: c.num_hidden_layers,
        num_attention_heads: c.num_attention_heads,
        num_key_value_heads: c.num_key_value_heads,
        max_position_embeddings: ROW,
        sliding_window: ROW,
        max_window_layers: 0,
        tie_word_embeddings: c.tie_word_embeddings,
        rope_theta: c.rope_theta,
        rms_norm_eps: c.rms_norm_eps,
        use_sliding_window: false,
        hidden_act: Activation::Silu,
    };
    let mut model = qwen2::ModelForCausalLM::new(&config, builder(parameters)).unwrap();
    Box::new(move |ids| {
        model.clear_kv_cache();
        model.forward(ids, 0)
    })
}

fn qwen3_oracle(c: &ModelConfig, parameters: &Parameters<f32>) -> Oracle {
    let config = qwen3::Config {
        vocab_size: c.vocab_size,
        hidden_size: c.hidden_size,
        intermediate_size: c.intermediate_size,
        num_hidden_layers: c.num_hidden_layers,
        num_attention_heads: c.num_attention_heads,
        head_dim: c.head_dim,
        attention_bias: c.qkv_bias,
        num_key_value_heads: c.num_key_value_heads,
        max_position_embeddings: ROW,
        sliding_window: None,
        max_window_layers: 0,
        tie_word_embeddings: c.tie_word_embeddings,
        rope_theta: c.rope_theta,
        rms_norm_eps: c.rms_norm_eps,
        use_sliding_window: false,
        hidden_act: Activation::Silu,
    };
    let mut model = qwen3::ModelForCausalLM::new(&config, builder(parameters)).unwrap();
    Box::new(move |ids| {
        model.clear_kv_cache();
        model.forward(ids, 0)
    })
}

fn olmo2_oracle(c: &ModelConfig, parameters: &Parameters<f32>) -> Oracle {
    let config = olmo2::Config {
        vocab_size: c.vocab_size,
        hidden_size: c.hidden_size,
        intermediate_size: c.intermediate_size,
        attention_bias: c.qkv_bias,
        num_hidden_layers: c.num_hidden_layers,
        num_attention_heads: c.num_attention_heads,
        num_key_value_heads: c.num_key_value_heads,
        rms_norm_eps: c.rms_norm_eps,
        hidden_act: Activation::Silu,
        max_position_embeddings: ROW,
        rope_theta: c.rope_theta,
        tie_word_embeddings: c.tie_word_embeddings,
        clip_qkv: None,
    };
    let mut model = olmo2::Model::new(&config, builder(parameters)).unwrap();
    Box::new(move |ids| {
        model.clear_kv_cache();
        model.forward(ids, 0)
    })
}

fn llama_oracle(c: &ModelConfig, parameters: &Parameters<f32>) -> Oracle {
    let rope_scaling = match c.rope_scaling {
        RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_max } => {
            Some(llama::Llama3RopeConfig {
                factor: factor as f32,
                low_freq_factor: low_freq_factor as f32,
                high_freq_factor: high_freq_factor as f32,
                original_max_position_embeddings: original_max as usize,
                rope_type: llama::Llama3RopeType::Llama3,
            })
        }
        RopeScaling::None => None,
        other => panic!("candle has no {other:?}"),
    };
    let config = llama::Config {
        hidden_size: c.hidden_size,
        intermediate_size: c.intermediate_size,
        vocab_size: c.vocab_size,
        num_hidden_layers: c.num_hidden_layers,
        num_attention_heads: c.num_attention_heads,
        num_key_value_heads: c.num_key_value_heads,
        use_flash_attn: false,
        rms_norm_eps: c.rms_norm_eps,
        rope_theta: c.rope_theta as f32,
        bos_token_id: None,
        eos_token_id: None,
        rope_scaling,
        max_position_embeddings: ROW,
        tie_word_embeddings: c.tie_word_embeddings,
    };
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
        let mut oracle = match c.architecture {
            Qwen2 => qwen2_oracle(&c, &parameters),
            Llama => llama_oracle(&c, &parameters),
            Qwen3 => qwen3_oracle(&c, &parameters),
            Olmo2 => olmo2_oracle(&c, &parameters),
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
