//! A decoder layer, described once, as data: its parts, their names in a checkpoint, and their sizes.
//!
//! ```text
//! middle = input  + output(attention(rotate(norm_heads(qkv(norm(input))))))
//! exit   = middle + down(silu(gate) up),    gate, up = gate_up(norm(middle))
//! ```
//! Names, shapes and initial values of the parameters, the forward and backward passes, the candle reference, the memory that is
//! counted and the projections that an adapter can take are all read from a [`Layer`]. What [`ModelConfig`] says of a layer, and
//! nothing else, decides what is in it.

use super::ModelConfig;
use crate::model::ops::attention::Heads;
use crate::model::ops::matmul::packed_len;

const QUERY: &str = "self_attn.q_proj";
const KEY: &str = "self_attn.k_proj";
const VALUE: &str = "self_attn.v_proj";
const OUTPUT: &str = "self_attn.o_proj";
const GATE: &str = "mlp.gate_proj";
const UP: &str = "mlp.up_proj";
const DOWN: &str = "mlp.down_proj";

/// The projections of every layer.
pub const PROJECTIONS: [&str; 7] = [QUERY, KEY, VALUE, OUTPUT, GATE, UP, DOWN];

/// Where a layer norms its stream. A new place fails to compile wherever the order of a layer is spelled out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormPlacement {
    /// Before attention and before the MLP; what they add to the stream is not normed.
    Pre,
}

/// Norms of queries and keys, before they are rotated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QkNorm {
    /// There are none.
    None,
    /// RMSNorm of every head over its own numbers, one weight for all query heads and one for all key heads.
    PerHead,
}

/// The function of the MLP's gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// `x / (1 + e^-x)`.
    Silu,
}

impl Activation {
    /// Its name in `config.json`.
    pub fn name(self) -> &'static str {
        match self {
            Activation::Silu => "silu",
        }
    }
}

/// `y = x W^T + b`, or without `b`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Projection {
    /// Its name in a layer, as in `self_attn.q_proj`.
    pub name: &'static str,
    /// Numbers of `x`.
    pub inputs: usize,
    /// Numbers of `y`.
    pub outputs: usize,
    /// Whether there is `b`.
    pub bias: bool,
}

impl Projection {
    /// Name of `W` in a layer.
    pub fn weight(&self) -> String {
        format!("{}.weight", self.name)
    }

    /// Name of `b` in a layer.
    pub fn bias(&self) -> String {
        format!("{}.bias", self.name)
    }
}

/// Projections of the same input, computed as one product: their outputs lie side by side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Linear {
    /// The projections, in the order of their outputs; at least one.
    pub projections: Vec<Projection>,
}

impl Linear {
    fn new(inputs: usize, bias: bool, projections: &[(&'static str, usize)]) -> Self {
        let projection = |&(name, outputs)| Projection { name, inputs, outputs, bias };
        Self { projections: projections.iter().map(projection).collect() }
    }

    /// Numbers of the input.
    pub fn inputs(&self) -> usize {
        self.projections[0].inputs
    }

    /// Numbers of all outputs.
    pub fn outputs(&self) -> usize {
        self.projections.iter().map(|p| p.outputs).sum()
    }

    /// Numbers of its matrices, packed for products.
    pub fn packed(&self) -> usize {
        packed_len(self.inputs(), self.outputs())
    }
}

/// RMSNorm with a weight per number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Norm {
    /// Its name in a layer, as in `input_layernorm`.
    pub name: &'static str,
    /// Numbers that are normed together.
    pub width: usize,
}

impl Norm {
    /// Name of its weight in a layer.
    pub fn weight(&self) -> String {
        format!("{}.weight", self.name)
    }
}

/// The norms of query heads and key heads, before they are rotated: each head over its own numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadNorms {
    /// Of every query head.
    pub query: Norm,
    /// Of every key head.
    pub key: Norm,
}

/// What a parameter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A matrix `[outputs, inputs]`; the embedding is one.
    Matrix,
    /// The weight of a norm.
    Norm,
    /// A bias.
    Bias,
}

/// A parameter by its name: within a layer, or with the layer's prefix within a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Its shape.
    pub shape: Vec<usize>,
    /// What it is.
    pub kind: Kind,
}

/// The parts of a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// Where the stream is normed.
    pub norm_placement: NormPlacement,
    /// The norm of attention.
    pub attention_norm: Norm,
    /// Queries, keys and values.
    pub qkv: Linear,
    /// The norms of queries and keys, where there are any.
    pub head_norms: Option<HeadNorms>,
    /// The heads of attention.
    pub heads: Heads,
    /// From the heads back to the stream.
    pub output: Linear,
    /// The norm of the MLP.
    pub mlp_norm: Norm,
    /// Gate and up.
    pub gate_up: Linear,
    /// The function of the gate.
    pub activation: Activation,
    /// From the MLP back to the stream.
    pub down: Linear,
}

impl Layer {
    /// The layer of a decoder; all its layers are alike.
    pub fn new(config: &ModelConfig) -> Self {
        let (h, f, d) = (config.hidden_size, config.intermediate_size, config.head_dim);
        let heads = config.heads();
        let (query, key) = (heads.query * d, heads.key * d);
        let norm = |name, width| Norm { name, width };
        let NormPlacement::Pre = config.norm_placement;
        Self {
            norm_placement: config.norm_placement,
            attention_norm: norm("input_layernorm", h),
            qkv: Linear::new(h, config.qkv_bias, &[(QUERY, query), (KEY, key), (VALUE, key)]),
            head_norms: match config.qk_norm {
                QkNorm::None => None,
                QkNorm::PerHead => {
                    Some(HeadNorms { query: norm("self_attn.q_norm", d), key: norm("self_attn.k_norm", d) })
                }
            },
            heads,
            output: Linear::new(heads.width(), config.output_bias, &[(OUTPUT, h)]),
            mlp_norm: norm("post_attention_layernorm", h),
            gate_up: Linear::new(h, config.mlp_bias, &[(GATE, f), (UP, f)]),
            activation: config.activation,
            down: Linear::new(f, config.mlp_bias, &[(DOWN, h)]),
        }
    }

    /// Its products, in the order in which they are computed.
    pub fn linears(&self) -> [&Linear; 4] {
        [&self.qkv, &self.output, &self.gate_up, &self.down]
    }

    /// Its projections.
    pub fn projections(&self) -> impl Iterator<Item = &Projection> {
        self.linears().into_iter().flat_map(|linear| &linear.projections)
    }

    /// Its norms.
    pub fn norms(&self) -> impl Iterator<Item = Norm> {
        let heads = self.head_norms.map(|norms| [norms.query, norms.key]);
        [self.attention_norm, self.mlp_norm].into_iter().chain(heads.into_iter().flatten())
    }

    /// Its parameters, by their names within the layer.
    pub fn parameters(&self) -> Vec<Parameter> {
        let norm = |norm: Norm| Parameter { name: norm.weight(), shape: vec![norm.width], kind: Kind::Norm };
        let mut parameters: Vec<Parameter> = self.norms().map(norm).collect();
        for p in self.projections() {
            let shape = vec![p.outputs, p.inputs];
            parameters.push(Parameter { name: p.weight(), shape, kind: Kind::Matrix });
            if p.bias {
                parameters.push(Parameter { name: p.bias(), shape: vec![p.outputs], kind: Kind::Bias });
            }
        }
        parameters
    }
}
