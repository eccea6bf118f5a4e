//! The shape of a decoder: Qwen2 or Llama, and what follows from it, the parameters and the rotary frequencies.

mod json;

use std::f64::consts::PI;

use super::ops::attention::Heads;

/// Families of decoder; they differ in which projections have a bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// `Qwen2ForCausalLM`: biases on queries, keys and values.
    Qwen2,
    /// `LlamaForCausalLM`: no biases unless `attention_bias` or `mlp_bias` say so.
    Llama,
}

/// How rotary frequencies depart from `theta^(-2i/d)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RopeScaling {
    /// Not at all.
    None,
    /// Every frequency divided by `factor`.
    Linear {
        /// The divisor.
        factor: f64,
    },
    /// Llama 3: long wavelengths divided by `factor`, short ones kept, those between interpolated.
    Llama3 {
        /// The divisor of long wavelengths.
        factor: f64,
        /// Wavelengths above `original_max / low_freq_factor` are long.
        low_freq_factor: f64,
        /// Wavelengths below `original_max / high_freq_factor` are short.
        high_freq_factor: f64,
        /// Positions the model was first trained on.
        original_max: f64,
    },
}

/// A decoder's shape and constants.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
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
    /// Added under the root of RMSNorm.
    pub rms_norm_eps: f64,
    /// Base of the rotary frequencies.
    pub rope_theta: f64,
    /// Their scaling.
    pub rope_scaling: RopeScaling,
    /// Longest row.
    pub max_position_embeddings: usize,
    /// Whether the output matrix is the embedding.
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
    /// Token that fills up rows elsewhere; never used here.
    pub pad_token_id: Option<u32>,
    /// Dtype that the checkpoint says it has: `float32`, `bfloat16` or `float16`.
    pub dtype: String,
}

impl Config {
    /// A small Qwen2 with tied embeddings, from which to train anew.
    pub fn qwen2(
        vocab_size: usize,
        hidden_size: usize,
        layers: usize,
        heads: usize,
        key_heads: usize,
    ) -> Self {
        Self {
            architecture: Architecture::Qwen2,
            vocab_size,
            hidden_size,
            intermediate_size: (hidden_size * 8).div_ceil(3).next_multiple_of(8),
            num_hidden_layers: layers,
            num_attention_heads: heads,
            num_key_value_heads: key_heads,
            head_dim: hidden_size / heads,
            rms_norm_eps: 1e-6,
            rope_theta: 10_000.0,
            rope_scaling: RopeScaling::None,
            max_position_embeddings: 32_768,
            tie_word_embeddings: true,
            qkv_bias: true,
            output_bias: false,
            mlp_bias: false,
            eos_token_ids: Vec::new(),
            bos_token_id: None,
            pad_token_id: None,
            dtype: "float32".into(),
        }
    }

    /// The heads of a layer.
    pub fn heads(&self) -> Heads {
        Heads { query: self.num_attention_heads, key: self.num_key_value_heads, dim: self.head_dim }
    }

    /// Rotary frequencies, radians per position, one per pair of a head.
    pub fn frequencies(&self) -> Vec<f64> {
        let d = self.head_dim as f64;
        (0..self.head_dim / 2)
            .map(|i| self.rope_theta.powf(-2.0 * i as f64 / d))
            .map(|f| match self.rope_scaling {
                RopeScaling::None => f,
                RopeScaling::Linear { factor } => f / factor,
                RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_max } => {
                    let wavelength = 2.0 * PI / f;
                    if wavelength < original_max / high_freq_factor {
                        f
                    } else if wavelength > original_max / low_freq_factor {
                        f / factor
                    } else {
                        let smooth = (original_max / wavelength - low_freq_factor)
                            / (high_freq_factor - low_freq_factor);
                        (1.0 - smooth) * f / factor + smooth * f
                    }
                }
            })
            .collect()
    }

    /// Name and shape of every parameter, sorted by name.
    pub fn parameter_shapes(&self) -> Vec<(String, Vec<usize>)> {
        let (h, f, d) = (self.hidden_size, self.intermediate_size, self.head_dim);
        let (q, kv) = (self.num_attention_heads * d, self.num_key_value_heads * d);
        let mut shapes =
            vec![(EMBEDDING.to_string(), vec![self.vocab_size, h]), (FINAL_NORM.to_string(), vec![h])];
        if !self.tie_word_embeddings {
            shapes.push((HEAD.to_string(), vec![self.vocab_size, h]));
        }
        for layer in 0..self.num_hidden_layers {
            let mut add = |name: &str, shape: &[usize]| shapes.push((parameter(layer, name), shape.to_vec()));
            add("input_layernorm.weight", &[h]);
            add("post_attention_layernorm.weight", &[h]);
            for (name, rows) in [("q_proj", q), ("k_proj", kv), ("v_proj", kv)] {
                add(&format!("self_attn.{name}.weight"), &[rows, h]);
                if self.qkv_bias {
                    add(&format!("self_attn.{name}.bias"), &[rows]);
                }
            }
            add("self_attn.o_proj.weight", &[h, q]);
            if self.output_bias {
                add("self_attn.o_proj.bias", &[h]);
            }
            for (name, rows, columns) in [("gate_proj", f, h), ("up_proj", f, h), ("down_proj", h, f)] {
                add(&format!("mlp.{name}.weight"), &[rows, columns]);
                if self.mlp_bias {
                    add(&format!("mlp.{name}.bias"), &[rows]);
                }
            }
        }
        shapes.sort();
        shapes
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
