//! The offset of every parameter of a decoder in one flat array.
//!
//! # The order
//!
//! Matrices first, then vectors: what decays by default comes before what does not. Every segment begins at a multiple of
//! [`ALIGNMENT`](super::flat::ALIGNMENT); the elements between segments are zero and stay zero.
//!
//! | segment | shape | parameters, one after the other |
//! | --- | --- | --- |
//! | embedding | `[vocabulary, h]` | `model.embed_tokens.weight` |
//! | of every layer: qkv | `[(q + 2k) d, h]` | `q_proj`, `k_proj`, `v_proj` |
//! | output | `[h, q d]` | `o_proj` |
//! | gate_up | `[2 f, h]` | `gate_proj`, `up_proj` |
//! | down | `[h, f]` | `down_proj` |
//! | head, unless tied | `[vocabulary, h]` | `lm_head.weight` |
//! | of every layer: norms | `[h]` each | `input_layernorm`, `post_attention_layernorm` |
//! | norms of heads, where there are | `[2, d]` | `q_norm`, `k_norm` |
//! | biases, where there are | as the rows of their matrices | as their matrices |
//! | final norm | `[h]` | `model.norm.weight` |
//!
//! with `h` the width of the hidden state, `f` of the MLP, `q` and `k` the heads of queries and keys, `d` the width of a head.

use std::collections::BTreeMap;
use std::sync::Arc;

use grpo_lambda_decoder::model::ModelConfig;
use grpo_lambda_decoder::model::config::{EMBEDDING, FINAL_NORM, HEAD, QkNorm, parameter};

use super::flat::{Builder, Flat, FlatLayout};

/// A matrix of a layer: those projections that read the same input, one below the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packed {
    /// Queries, keys and values.
    Qkv,
    /// Attention's output.
    Output,
    /// Gate and up.
    GateUp,
    /// Down.
    Down,
}

impl Packed {
    /// The matrices of a layer.
    pub(crate) const ALL: [Packed; 4] = [Packed::Qkv, Packed::Output, Packed::GateUp, Packed::Down];

    /// Its projections, by their names in a layer, and the columns each has in the output.
    pub(crate) fn projections(self, config: &ModelConfig) -> Vec<(&'static str, usize)> {
        let (d, h, f) = (config.head_dim, config.hidden_size, config.intermediate_size);
        let (q, kv) = (config.num_attention_heads * d, config.num_key_value_heads * d);
        match self {
            Packed::Qkv => vec![("self_attn.q_proj", q), ("self_attn.k_proj", kv), ("self_attn.v_proj", kv)],
            Packed::Output => vec![("self_attn.o_proj", h)],
            Packed::GateUp => vec![("mlp.gate_proj", f), ("mlp.up_proj", f)],
            Packed::Down => vec![("mlp.down_proj", h)],
        }
    }

    /// `(out, in)`.
    pub(crate) fn shape(self, config: &ModelConfig) -> (usize, usize) {
        let out = self.projections(config).iter().map(|(_, out)| out).sum();
        let inner = match self {
            Packed::Qkv | Packed::GateUp => config.hidden_size,
            Packed::Output => config.num_attention_heads * config.head_dim,
            Packed::Down => config.intermediate_size,
        };
        (out, inner)
    }
}

/// Offsets of a layer's segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layer {
    matrices: [u64; Packed::ALL.len()],
    biases: [Option<u64>; Packed::ALL.len()],
    /// The norm before attention.
    pub(crate) attention_norm: u64,
    /// The norms of query and key heads, if the model has them.
    pub(crate) head_norms: Option<u64>,
    /// The norm before the MLP.
    pub(crate) mlp_norm: u64,
}

impl Layer {
    /// A matrix.
    pub(crate) fn matrix(&self, packed: Packed) -> u64 {
        self.matrices[packed as usize]
    }

    /// The biases of its rows, if the model has any.
    pub(crate) fn bias(&self, packed: Packed) -> Option<u64> {
        self.biases[packed as usize]
    }
}

/// A decoder's parameters in one array.
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    config: ModelConfig,
    flat: Arc<FlatLayout>,
    embedding: u64,
    head: u64,
    final_norm: u64,
    layers: Vec<Layer>,
}

/// A segment of the named parameters that the model has; `None` if it has none of them.
fn segment(
    builder: &mut Builder,
    shapes: &BTreeMap<String, Vec<usize>>,
    names: impl IntoIterator<Item = String>,
) -> Option<u64> {
    let known = |name: String| shapes.get(&name).cloned().map(|shape| (name, shape));
    let found: Vec<_> = names.into_iter().filter_map(known).collect();
    (!found.is_empty()).then(|| builder.segment(found))
}

impl Layout {
    /// The layout of this shape.
    pub fn new(config: &ModelConfig) -> Layout {
        let shapes: BTreeMap<String, Vec<usize>> = config.parameter_shapes().into_iter().collect();
        let mut builder = Builder::default();
        let mut add = |names: Vec<String>| segment(&mut builder, &shapes, names);
        let names = |l: usize, packed: Packed, kind: &str| -> Vec<String> {
            packed
                .projections(config)
                .iter()
                .map(|(name, _)| parameter(l, &format!("{name}.{kind}")))
                .collect()
        };

        let mut layers = vec![Layer::default(); config.num_hidden_layers];
        let embedding = add(vec![EMBEDDING.to_owned()]).unwrap_or_default();
        for (l, layer) in layers.iter_mut().enumerate() {
            layer.matrices = Packed::ALL.map(|packed| add(names(l, packed, "weight")).unwrap_or_default());
        }
        let head = add(vec![HEAD.to_owned()]).unwrap_or(embedding);
        builder.end_of_matrices();
        let mut add = |names: Vec<String>| segment(&mut builder, &shapes, names);
        for (l, layer) in layers.iter_mut().enumerate() {
            let mut norms = |names: &[&str]| {
                add(names.iter().map(|name| parameter(l, &format!("{name}.weight"))).collect())
            };
            layer.attention_norm = norms(&["input_layernorm"]).unwrap_or_default();
            layer.mlp_norm = norms(&["post_attention_layernorm"]).unwrap_or_default();
            layer.head_norms = match config.qk_norm {
                QkNorm::None => None,
                QkNorm::PerHead | QkNorm::Whole => norms(&["self_attn.q_norm", "self_attn.k_norm"]),
            };
            layer.biases = Packed::ALL.map(|packed| add(names(l, packed, "bias")));
        }
        let final_norm = add(vec![FINAL_NORM.to_owned()]).unwrap_or_default();
        let flat = Arc::new(builder.finish());
        Layout { config: config.clone(), flat, embedding, head, final_norm, layers }
    }

    /// The shape.
    pub(crate) fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Offset of the embedding.
    pub(crate) fn embedding(&self) -> u64 {
        self.embedding
    }

    /// Offset of the output matrix: the embedding when tied.
    pub(crate) fn head(&self) -> u64 {
        self.head
    }

    /// Offset of the last norm.
    pub(crate) fn final_norm(&self) -> u64 {
        self.final_norm
    }

    /// Offsets of layer `l`.
    pub(crate) fn layer(&self, l: usize) -> &Layer {
        &self.layers[l]
    }
}

impl Flat for Layout {
    fn flat(&self) -> &Arc<FlatLayout> {
        &self.flat
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flat::ALIGNMENT;
    use grpo_lambda_decoder::model::{
        Architecture::{self, Qwen2, Qwen3},
        ModelShape,
    };

    fn configs() -> Vec<ModelConfig> {
        let tied = Qwen2.config(ModelShape { vocab: 21, hidden: 12, layers: 3, heads: 3, kv_heads: 1 });
        let untied = ModelConfig { tie_word_embeddings: false, ..tied.clone() };
        let llama = ModelConfig { architecture: Architecture::Llama, qkv_bias: false, ..untied.clone() };
        let every = ModelConfig { output_bias: true, mlp_bias: true, ..untied.clone() };
        let qwen3 = ModelConfig {
            qkv_bias: true,
            head_dim: 10,
            ..Qwen3.config(ModelShape { vocab: 21, hidden: 12, layers: 3, heads: 4, kv_heads: 2 })
        };
        vec![tied, untied, llama, every, qwen3]
    }

    #[test]
    fn every_number_of_every_parameter_has_one_place() {
        for config in configs() {
            let layout = Layout::new(&config);
            let flat = layout.flat();
            let mut used = vec![false; flat.len() as usize];
            for (name, tensor) in flat.tensors() {
                let vector = name.ends_with("bias") || name.contains("norm");
                assert_eq!(tensor.offset >= flat.matrices(), vector, "{name} is on the wrong side");
                for used in &mut used[tensor.offset as usize..][..tensor.elements()] {
                    assert!(!*used, "{name} overlaps another parameter");
                    *used = true;
                }
            }
            let named: Vec<_> = flat.tensors().map(|(n, t)| (n.to_owned(), t.shape.clone())).collect();
            assert_eq!(named, config.parameter_shapes());
            let numbers: usize = named.iter().map(|(_, s)| s.iter().product::<usize>()).sum();
            assert_eq!(used.iter().filter(|used| **used).count(), numbers);
            // No more is lost to alignment than a segment can lose.
            assert!(used.len() - numbers < ALIGNMENT as usize * (3 + 11 * config.num_hidden_layers));
        }
    }

    #[test]
    fn matrices_that_share_their_input_are_rows_of_one() {
        for config in configs() {
            let layout = Layout::new(&config);
            let offset = |l: usize, name: &str| layout.flat().tensor(&parameter(l, name)).map(|t| t.offset);
            let (h, d) = (config.hidden_size as u64, config.head_dim as u64);
            let (q, kv) = (config.num_attention_heads as u64 * d, config.num_key_value_heads as u64 * d);
            for l in 0..config.num_hidden_layers {
                let layer = layout.layer(l);
                let [qkv, output, gate_up, down] = Packed::ALL.map(|packed| layer.matrix(packed));
                assert_eq!(offset(l, "self_attn.q_proj.weight"), Some(qkv));
                assert_eq!(offset(l, "self_attn.k_proj.weight"), Some(qkv + q * h));
                assert_eq!(offset(l, "self_attn.v_proj.weight"), Some(qkv + (q + kv) * h));
                assert_eq!(offset(l, "mlp.gate_proj.weight"), Some(gate_up));
                let up = gate_up + config.intermediate_size as u64 * h;
                assert_eq!(offset(l, "mlp.up_proj.weight"), Some(up));
                let norm = |name: &str| offset(l, &format!("self_attn.{name}.weight"));
                assert_eq!(norm("q_norm"), layer.head_norms);
                assert_eq!(norm("k_norm"), layer.head_norms.map(|norms| norms + d));
                assert_eq!(layer.head_norms.is_some(), config.qk_norm == QkNorm::PerHead);
                let v_bias = layer.bias(Packed::Qkv).map(|b| b + q + kv);
                assert_eq!(offset(l, "self_attn.v_proj.bias"), v_bias);
                assert_eq!(offset(l, "mlp.down_proj.bias"), layer.bias(Packed::Down));
                let all = [qkv, output, gate_up, down, layer.attention_norm, layer.mlp_norm];
                assert!(all.iter().all(|offset| offset % ALIGNMENT == 0));
            }
            assert_eq!(layout.head() == layout.embedding(), config.tie_word_embeddings);
        }
    }
}
