//! The shape of a decoder, and what follows from it: its layer, its parameters, its rotary frequencies.

mod architecture;
mod fields;
mod json;
pub mod known;
pub mod layer;
mod rope;

pub use architecture::Architecture;
pub use layer::{Activation, Layer, NormPlacement, QkNorm};
pub use rope::RopeScaling;

use architecture::Bias;
use layer::{Kind, Parameter};

use super::ops::attention::Heads;

/// A decoder's shape and constants.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelConfig {
    /// The family.
    pub architecture: Architecture,
    /// Tokens of the vocabulary, rows of the embedding.
    pub vocab_size: usize,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Width of the MLP.
    pub intermediate_size: usize,
    /// Layers.
    pub num_hidden_layers: usize,
    /// Query heads.
    pub num_attention_heads: usize,
    /// Key and value heads.
    pub num_key_value_heads: usize,
    /// Numbers per head.
    pub head_dim: usize,
    /// Places of the norms of the stream's width.
    pub norm_placement: NormPlacement,
    /// Added under the root of RMSNorm.
    pub rms_norm_eps: f64,
    /// Norms of queries and keys.
    pub qk_norm: QkNorm,
    /// The function of the MLP's gate.
    pub activation: Activation,
    /// Base of the rotary frequencies.
    pub rope_theta: f64,
    /// Their scaling.
    pub rope_scaling: RopeScaling,
    /// Longest row.
    pub max_position_embeddings: usize,
    /// True if the output matrix is the embedding.
    pub tie_word_embeddings: bool,
    /// Biases on queries, keys and values.
    pub qkv_bias: bool,
    /// Bias on the attention output.
    pub output_bias: bool,
    /// Biases in the MLP.
    pub mlp_bias: bool,
    /// Tokens that end a response, none to several.
    pub eos_token_ids: Vec<u32>,
    /// Token that begins a text.
    pub bos_token_id: Option<u32>,
    /// Padding token; not used here.
    pub pad_token_id: Option<u32>,
    /// Dtype of the checkpoint: `float32`, `bfloat16` or `float16`.
    pub dtype: String,
}

/// Sizes of a small model, from which [`Architecture::config`] derives the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelShape {
    /// Tokens of the vocabulary.
    pub vocab: usize,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Layers.
    pub layers: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
}

impl Architecture {
    /// A configuration to train from scratch: tied embeddings, an MLP of 8/3 the width, `hidden / heads` numbers per head, biases only where
    /// the family always has them.
    pub fn config(self, shape: ModelShape) -> ModelConfig {
        let ModelShape { vocab, hidden, layers, heads, kv_heads } = shape;
        let family = self.family();
        ModelConfig {
            architecture: self,
            vocab_size: vocab,
            hidden_size: hidden,
            intermediate_size: (hidden * 8).div_ceil(3).next_multiple_of(8),
            num_hidden_layers: layers,
            num_attention_heads: heads,
            num_key_value_heads: kv_heads,
            head_dim: hidden / heads,
            norm_placement: family.norm_placement,
            rms_norm_eps: 1e-6,
            qk_norm: family.qk_norm,
            activation: Activation::Silu,
            rope_theta: 10_000.0,
            rope_scaling: RopeScaling::None,
            max_position_embeddings: 32_768,
            tie_word_embeddings: true,
            qkv_bias: family.qkv_bias == Bias::Always,
            output_bias: family.output_bias == Bias::Always,
            mlp_bias: family.mlp_bias == Bias::Always,
            eos_token_ids: Vec::new(),
            bos_token_id: None,
            pad_token_id: None,
            dtype: "float32".into(),
        }
    }
}

impl ModelConfig {
    /// The parts of a layer; all layers are equal.
    pub fn layer(&self) -> Layer {
        Layer::new(self)
    }

    /// The heads of a layer.
    pub fn heads(&self) -> Heads {
        Heads { query: self.num_attention_heads, key: self.num_key_value_heads, dim: self.head_dim }
    }

    /// Every parameter, sorted by name.
    pub fn parameters(&self) -> Vec<Parameter> {
        let table = vec![self.vocab_size, self.hidden_size];
        let new = |name: &str, shape, kind| Parameter { name: name.to_string(), shape, kind };
        let mut parameters = vec![
            new(EMBEDDING, table.clone(), Kind::Matrix),
            new(FINAL_NORM, vec![self.hidden_size], Kind::Norm),
        ];
        if !self.tie_word_embeddings {
            parameters.push(new(HEAD, table, Kind::Matrix));
        }
        let of_layer = self.layer().parameters();
        for l in 0..self.num_hidden_layers {
            let full = |p: &Parameter| Parameter { name: parameter(l, &p.name), ..p.clone() };
            parameters.extend(of_layer.iter().map(full));
        }
        parameters.sort_by(|a, b| a.name.cmp(&b.name));
        parameters
    }

    /// Size of all parameters, without a list of them.
    pub fn parameter_count(&self) -> u128 {
        let size = |shape: &[usize]| shape.iter().map(|side| *side as u128).product::<u128>();
        let layer: u128 = self.layer().parameters().iter().map(|p| size(&p.shape)).sum();
        let table = size(&[self.vocab_size, self.hidden_size]);
        let tables = if self.tie_word_embeddings { table } else { 2 * table };
        tables + self.hidden_size as u128 + layer * self.num_hidden_layers as u128
    }

    /// Name and shape of every parameter, sorted by name.
    pub fn parameter_shapes(&self) -> Vec<(String, Vec<usize>)> {
        self.parameters().into_iter().map(|p| (p.name, p.shape)).collect()
    }
}

/// Name of the embedding.
pub const EMBEDDING: &str = "model.embed_tokens.weight";
/// Name of the last norm.
pub const FINAL_NORM: &str = "model.norm.weight";
/// Name of the output matrix, when it is not the embedding.
pub const HEAD: &str = "lm_head.weight";

/// Full name of a parameter of a layer.
pub fn parameter(layer: usize, name: &str) -> String {
    format!("model.layers.{layer}.{name}")
}

#[cfg(test)]
mod tests {
    use super::Architecture::{Qwen2, Qwen3};
    use super::*;

    #[test]
    fn parameters_are_counted_as_they_are_listed() {
        let untied = ModelConfig {
            tie_word_embeddings: false,
            head_dim: 16,
            ..Qwen3.config(ModelShape { vocab: 100, hidden: 48, layers: 3, heads: 4, kv_heads: 2 })
        };
        for config in
            [Qwen2.config(ModelShape { vocab: 64, hidden: 32, layers: 2, heads: 2, kv_heads: 1 }), untied]
        {
            let listed: usize =
                config.parameter_shapes().iter().map(|(_, s)| s.iter().product::<usize>()).sum();
            assert_eq!(config.parameter_count(), listed as u128);
        }
    }
}
