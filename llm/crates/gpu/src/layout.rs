//! Where every parameter is in one flat array, so that clearing, norms and the optimiser are one launch each.
//!
//! Offsets and lengths count numbers, not bytes, so that one layout serves arrays of any dtype: weights, gradients, moments.
//!
//! # The order
//!
//! Matrices first, then vectors: what decays by default comes before what does not. Every segment begins at a multiple of
//! [`ALIGNMENT`]; the numbers between segments are zero and stay zero.
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
//! | biases, where there are | as the rows of their matrices | as their matrices |
//! | final norm | `[h]` | `model.norm.weight` |
//!
//! with `h` the width of the stream, `f` of the MLP, `q` and `k` the heads of queries and keys, `d` the numbers of a head.

use std::collections::BTreeMap;
use std::sync::Arc;

use grpo_lambda_decoder::model::Config;
use grpo_lambda_decoder::model::config::{EMBEDDING, FINAL_NORM, HEAD, parameter};

/// Segments begin at multiples of so many numbers: 128 bytes of bf16, what a card fetches at once.
pub const ALIGNMENT: u64 = 64;

/// Where a parameter is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its first number.
    pub offset: u64,
    /// Its shape; its numbers are contiguous, by rows.
    pub shape: Vec<usize>,
}

impl Place {
    /// How many numbers it has.
    pub fn numbers(&self) -> usize {
        self.shape.iter().product()
    }
}

/// Parameters by name in one array, matrices before vectors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flat {
    places: BTreeMap<String, Place>,
    matrices: u64,
    len: u64,
}

impl Flat {
    /// Numbers of the array.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are no parameters.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The first so many numbers are of matrices; the others, of norms and biases, do not decay by default.
    pub fn matrices(&self) -> u64 {
        self.matrices
    }

    /// Where this parameter is.
    pub fn place(&self, name: &str) -> Option<&Place> {
        self.places.get(name)
    }

    /// All parameters, sorted by name.
    pub fn places(&self) -> impl Iterator<Item = (&str, &Place)> {
        self.places.iter().map(|(name, place)| (name.as_str(), place))
    }
}

/// Puts segments one after the other.
#[derive(Debug, Default)]
pub(super) struct Builder {
    places: BTreeMap<String, Place>,
    next: u64,
    matrices: Option<u64>,
}

impl Builder {
    /// A segment of these parameters, end to end; its offset.
    pub(super) fn segment(&mut self, parameters: impl IntoIterator<Item = (String, Vec<usize>)>) -> u64 {
        let begin = self.next;
        let mut end = begin;
        for (name, shape) in parameters {
            let place = Place { offset: end, shape };
            end += place.numbers() as u64;
            self.places.insert(name, place);
        }
        self.next = end.next_multiple_of(ALIGNMENT);
        begin
    }

    /// What follows are vectors.
    pub(super) fn end_of_matrices(&mut self) {
        self.matrices = Some(self.next);
    }

    pub(super) fn finish(self) -> Flat {
        Flat { places: self.places, matrices: self.matrices.unwrap_or(self.next), len: self.next }
    }
}

/// Offsets of a layer's segments; a bias that the model does not have has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layer {
    /// Queries, keys and values.
    pub qkv: u64,
    /// Attention's output.
    pub output: u64,
    /// Gate and up.
    pub gate_up: u64,
    /// Down.
    pub down: u64,
    /// The norm before attention.
    pub input_norm: u64,
    /// The norm before the MLP.
    pub middle_norm: u64,
    /// Biases of queries, keys and values.
    pub qkv_bias: Option<u64>,
    /// Bias of attention's output.
    pub output_bias: Option<u64>,
    /// Biases of gate and up.
    pub gate_up_bias: Option<u64>,
    /// Bias of down.
    pub down_bias: Option<u64>,
}

/// A decoder's parameters in one array.
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    config: Config,
    flat: Arc<Flat>,
    embedding: u64,
    head: u64,
    final_norm: u64,
    layers: Vec<Layer>,
}

impl Layout {
    /// The layout of this shape.
    pub fn new(config: &Config) -> Layout {
        let shapes: BTreeMap<String, Vec<usize>> = config.parameter_shapes().into_iter().collect();
        let mut builder = Builder::default();
        // A segment of those of these names that the model has; `None` if it has none of them.
        let add = |builder: &mut Builder, names: &[String]| {
            let found: Vec<_> =
                names.iter().filter_map(|n| shapes.get(n).map(|s| (n.clone(), s.clone()))).collect();
            (!found.is_empty()).then(|| builder.segment(found))
        };
        let of = |l: usize, names: &[&str], kind: &str| -> Vec<String> {
            names.iter().map(|name| parameter(l, &format!("{name}.{kind}"))).collect()
        };
        const QKV: [&str; 3] = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"];
        const OUTPUT: [&str; 1] = ["self_attn.o_proj"];
        const GATE_UP: [&str; 2] = ["mlp.gate_proj", "mlp.up_proj"];
        const DOWN: [&str; 1] = ["mlp.down_proj"];

        let mut layers = vec![Layer::default(); config.num_hidden_layers];
        let embedding = add(&mut builder, &[EMBEDDING.to_owned()]).unwrap_or_default();
        for (l, layer) in layers.iter_mut().enumerate() {
            let mut matrix = |names: &[&str]| add(&mut builder, &of(l, names, "weight")).unwrap_or_default();
            layer.qkv = matrix(&QKV);
            layer.output = matrix(&OUTPUT);
            layer.gate_up = matrix(&GATE_UP);
            layer.down = matrix(&DOWN);
        }
        let head = add(&mut builder, &[HEAD.to_owned()]).unwrap_or(embedding);
        builder.end_of_matrices();
        for (l, layer) in layers.iter_mut().enumerate() {
            let mut norm = |name: &str| add(&mut builder, &of(l, &[name], "weight")).unwrap_or_default();
            layer.input_norm = norm("input_layernorm");
            layer.middle_norm = norm("post_attention_layernorm");
            layer.qkv_bias = add(&mut builder, &of(l, &QKV, "bias"));
            layer.output_bias = add(&mut builder, &of(l, &OUTPUT, "bias"));
            layer.gate_up_bias = add(&mut builder, &of(l, &GATE_UP, "bias"));
            layer.down_bias = add(&mut builder, &of(l, &DOWN, "bias"));
        }
        let final_norm = add(&mut builder, &[FINAL_NORM.to_owned()]).unwrap_or_default();
        let flat = Arc::new(builder.finish());
        Layout { config: config.clone(), flat, embedding, head, final_norm, layers }
    }

    /// The shape.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Parameters by name.
    pub fn flat(&self) -> &Arc<Flat> {
        &self.flat
    }

    /// Offset of the embedding.
    pub fn embedding(&self) -> u64 {
        self.embedding
    }

    /// Offset of the output matrix: the embedding when tied.
    pub fn head(&self) -> u64 {
        self.head
    }

    /// Offset of the last norm.
    pub fn final_norm(&self) -> u64 {
        self.final_norm
    }

    /// Offsets of layer `l`.
    pub fn layer(&self, l: usize) -> &Layer {
        &self.layers[l]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use grpo_lambda_decoder::model::config::Architecture;

    fn configs() -> Vec<Config> {
        let tied = Config::qwen2(21, 12, 3, 3, 1);
        let untied = Config { tie_word_embeddings: false, ..tied.clone() };
        let llama = Config { architecture: Architecture::Llama, qkv_bias: false, ..untied.clone() };
        let every = Config { output_bias: true, mlp_bias: true, ..untied.clone() };
        vec![tied, untied, llama, every]
    }

    #[test]
    fn every_number_of_every_parameter_has_one_place() {
        for config in configs() {
            let layout = Layout::new(&config);
            let flat = layout.flat();
            let mut used = vec![false; flat.len() as usize];
            for (name, place) in flat.places() {
                let vector = name.ends_with("bias") || name.contains("norm");
                assert_eq!(place.offset >= flat.matrices(), vector, "{name} is on the wrong side");
                for used in &mut used[place.offset as usize..][..place.numbers()] {
                    assert!(!*used, "{name} overlaps another parameter");
                    *used = true;
                }
            }
            let named: Vec<_> = flat.places().map(|(n, p)| (n.to_owned(), p.shape.clone())).collect();
            assert_eq!(named, config.parameter_shapes());
            let numbers: usize = named.iter().map(|(_, s)| s.iter().product::<usize>()).sum();
            assert_eq!(used.iter().filter(|used| **used).count(), numbers);
            // No more is lost to alignment than a segment can lose.
            assert!(used.len() - numbers < ALIGNMENT as usize * (3 + 10 * config.num_hidden_layers));
        }
    }

    #[test]
    fn matrices_that_share_their_input_are_rows_of_one() {
        for config in configs() {
            let layout = Layout::new(&config);
            let offset = |l: usize, name: &str| layout.flat().place(&parameter(l, name)).map(|p| p.offset);
            let (h, d) = (config.hidden_size as u64, config.head_dim as u64);
            let (q, kv) = (config.num_attention_heads as u64 * d, config.num_key_value_heads as u64 * d);
            for l in 0..config.num_hidden_layers {
                let at = layout.layer(l);
                assert_eq!(offset(l, "self_attn.q_proj.weight"), Some(at.qkv));
                assert_eq!(offset(l, "self_attn.k_proj.weight"), Some(at.qkv + q * h));
                assert_eq!(offset(l, "self_attn.v_proj.weight"), Some(at.qkv + (q + kv) * h));
                assert_eq!(offset(l, "mlp.gate_proj.weight"), Some(at.gate_up));
                let up = at.gate_up + config.intermediate_size as u64 * h;
                assert_eq!(offset(l, "mlp.up_proj.weight"), Some(up));
                assert_eq!(offset(l, "self_attn.v_proj.bias"), at.qkv_bias.map(|b| b + q + kv));
                assert_eq!(offset(l, "mlp.down_proj.bias"), at.down_bias);
                let all = [at.qkv, at.output, at.gate_up, at.down, at.input_norm, at.middle_norm];
                assert!(all.iter().all(|offset| offset % ALIGNMENT == 0));
            }
            assert_eq!(layout.head() == layout.embedding(), config.tie_word_embeddings);
        }
    }
}
