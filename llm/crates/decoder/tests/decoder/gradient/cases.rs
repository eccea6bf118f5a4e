//! Shapes, parameters and rows of the tests of gradients; those of other crates read them as well.

use grpo_lambda_decoder::model::config::{
    Architecture::{self, Llama, Olmo2, Qwen2, Qwen3},
    RopeScaling,
};
use grpo_lambda_decoder::model::{ForwardOptions, ModelConfig, ModelShape, Rows, weights};

/// Very small decoders that between them have every kind of parameter.
pub(crate) fn configs() -> Vec<ModelConfig> {
    let shape = ModelShape { vocab: 11, hidden: 8, layers: 2, heads: 4, kv_heads: 2 };
    let small = |family: Architecture| ModelConfig { intermediate_size: 10, ..family.config(shape) };
    let qwen = small(Qwen2);
    let llama = ModelConfig {
        tie_word_embeddings: false,
        head_dim: 6,
        rope_scaling: RopeScaling::Llama3 {
            factor: 8.0,
            low_freq_factor: 1.0,
            high_freq_factor: 4.0,
            original_max: 64.0,
        },
        ..small(Llama)
    };
    let biased = ModelConfig {
        qkv_bias: true,
        output_bias: true,
        mlp_bias: true,
        tie_word_embeddings: true,
        ..llama.clone()
    };
    let qwen3 = ModelConfig { head_dim: 6, ..small(Qwen3) };
    let qwen3_biased =
        ModelConfig { qkv_bias: true, output_bias: true, tie_word_embeddings: false, ..qwen3.clone() };
    let untied = ModelConfig { tie_word_embeddings: false, ..qwen.clone() };
    let olmo2 = ModelConfig { tie_word_embeddings: false, head_dim: 6, ..small(Olmo2) };
    let olmo2_biased = ModelConfig { qkv_bias: true, output_bias: true, ..small(Olmo2) };
    vec![qwen, untied, llama, biased, qwen3, qwen3_biased, olmo2, olmo2_biased]
}

/// Parameters at which nothing is flat: norms off 1, biases off 0.
pub(crate) fn parameters(config: &ModelConfig) -> weights::Parameters<f64> {
    let mut parameters = weights::cast(&weights::initialise(config, 5, 0.4));
    for (name, tensor) in &mut parameters {
        if name.ends_with("bias") || name.contains("norm") {
            let shift = |i: usize| ((i * 7 + name.len()) % 5) as f64 / 8.0 - 0.2;
            tensor.data.iter_mut().enumerate().for_each(|(i, x)| *x += shift(i));
        }
    }
    parameters
}

/// Rows of several lengths, one that scores nothing.
pub(crate) fn rows() -> Rows {
    let mut rows = Rows::new();
    rows.push(&[3, 1, 4, 1, 5, 9, 2], 3);
    rows.push(&[6, 5], 1);
    rows.push(&[8, 9, 7, 10, 0], 1);
    rows.push(&[2, 7, 1], 3); // scores nothing
    rows
}

/// The options of every pass.
pub(crate) const TEMPERATURE: ForwardOptions =
    ForwardOptions { temperature: 0.8, entropy: false, recompute: false };

/// Slopes of log-probabilities, positive and negative.
pub(crate) fn slopes(logps: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let slope = |i: usize, t: usize| ((i * 3 + t * 2) % 7) as f64 / 3.0 - 0.8;
    logps.iter().enumerate().map(|(i, l)| (0..l.len()).map(|t| slope(i, t)).collect()).collect()
}
