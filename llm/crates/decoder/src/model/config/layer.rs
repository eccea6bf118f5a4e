//! A decoder layer as a program: a list of operations with their names in a checkpoint and their sizes.
//!
//! ```text
//! Llama   norm  linear  rotate  attend  linear  add   norm  linear  gate  linear  add
//! OLMo 2  linear  norm  rotate  attend  linear  norm  add   linear  gate  linear  norm  add
//! ```
//! [`ModelConfig`] decides which operations a layer has. The forward and backward passes interpret them, and so may other engines; names,
//! shapes and initial values of the parameters, the memory of the tape and the targets of adapters are read from them.

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

/// The place of a layer's two norms of the stream's width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormPlacement {
    /// Before attention and before the MLP.
    Pre,
    /// After attention and after the MLP, before the residual sums.
    Post,
}

/// Norms of queries and keys, before they are rotated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QkNorm {
    /// None.
    None,
    /// RMSNorm of every head over its own numbers, one weight for all query heads and one for all key heads.
    PerHead,
    /// RMSNorm over the queries of all heads, and over the keys of all heads.
    Whole,
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
    /// True with `b`.
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

/// The kind of a parameter.
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
    /// Its kind.
    pub kind: Kind,
}

/// RMSNorm of the first of a token's numbers in groups, each by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Norm {
    /// Numbers of a token.
    pub width: usize,
    /// Its weights, in the order of the numbers that they norm.
    pub parts: Vec<NormPart>,
}

/// A norm's weight with the groups that share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NormPart {
    /// Its name in a layer, as in `input_layernorm`.
    pub name: &'static str,
    /// Groups of a token.
    pub groups: usize,
    /// Numbers of a group, and of the weight.
    pub size: usize,
}

impl NormPart {
    /// Name of the weight in a layer.
    pub fn weight(&self) -> String {
        format!("{}.weight", self.name)
    }
}

/// An operation on the value of every token: the layer's input at first, then the result of the operation before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// RMSNorm.
    Norm(Norm),
    /// Projections.
    Linear(Linear),
    /// Rotary embedding of the query and key heads.
    Rotate,
    /// Causal attention: from queries, keys and values to the outputs of the heads.
    Attend,
    /// The product of the activated gate and up, from both side by side.
    Gate {
        /// The function of the gate.
        activation: Activation,
        /// Numbers of the gate.
        width: usize,
    },
    /// The residual sum: adds the layer's input, or the sum before.
    Add,
}

/// A layer of a decoder; all its layers are equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// The heads of attention.
    pub heads: Heads,
    /// Its operations, in their order.
    pub program: Vec<Op>,
}

impl Layer {
    /// The layer of this configuration.
    pub fn new(config: &ModelConfig) -> Self {
        let (h, f, d) = (config.hidden_size, config.intermediate_size, config.head_dim);
        let heads = config.heads();
        let (query, key) = (heads.query * d, heads.key * d);
        let [before, after] = match config.norm_placement {
            NormPlacement::Pre => [Some(["input_layernorm", "post_attention_layernorm"]), None],
            NormPlacement::Post => [None, Some(["post_attention_layernorm", "post_feedforward_layernorm"])],
        };
        let part = |name, (groups, size)| NormPart { name, groups, size };
        let stream = |names: Option<[&'static str; 2]>, block: usize| {
            Some(Op::Norm(Norm { width: h, parts: vec![part(names?[block], (1, h))] }))
        };
        let groups = match config.qk_norm {
            QkNorm::None => None,
            QkNorm::PerHead => Some([(heads.query, d), (heads.key, d)]),
            QkNorm::Whole => Some([(1, query), (1, key)]),
        };
        let head_norm = groups.map(|[queries, keys]| {
            let parts = vec![part("self_attn.q_norm", queries), part("self_attn.k_norm", keys)];
            Op::Norm(Norm { width: heads.stride(), parts })
        });
        let linear = |inputs, bias, outputs: &[_]| Some(Op::Linear(Linear::new(inputs, bias, outputs)));
        let program = [
            stream(before, 0),
            linear(h, config.qkv_bias, &[(QUERY, query), (KEY, key), (VALUE, key)]),
            head_norm,
            Some(Op::Rotate),
            Some(Op::Attend),
            linear(heads.width(), config.output_bias, &[(OUTPUT, h)]),
            stream(after, 0),
            Some(Op::Add),
            stream(before, 1),
            linear(h, config.mlp_bias, &[(GATE, f), (UP, f)]),
            Some(Op::Gate { activation: config.activation, width: f }),
            linear(f, config.mlp_bias, &[(DOWN, h)]),
            stream(after, 1),
            Some(Op::Add),
        ];
        let program = program.into_iter().flatten().collect();
        Self { heads, program }
    }

    /// Its products, in the order in which they are computed.
    pub fn linears(&self) -> impl Iterator<Item = &Linear> {
        self.program.iter().filter_map(|op| match op {
            Op::Linear(linear) => Some(linear),
            _ => None,
        })
    }

    /// Its projections.
    pub fn projections(&self) -> impl Iterator<Item = &Projection> {
        self.linears().flat_map(|linear| &linear.projections)
    }

    /// Its parameters, by their names within the layer.
    pub fn parameters(&self) -> Vec<Parameter> {
        self.program.iter().flat_map(Op::parameters).collect()
    }

    /// True if the forward pass keeps the input of operation `i` for the backward pass. The results of norms and gates are recomputed,
    /// rotated or not; rotations, which work in place, and sums have backward passes that read no input.
    pub fn keeps(&self, i: usize) -> bool {
        let cheap = |op: &Op| matches!(op, Op::Norm(_) | Op::Gate { .. });
        match (&self.program[i], &self.program[..i]) {
            (Op::Rotate | Op::Add, _) => false,
            (Op::Linear(_) | Op::Attend, [.., before, Op::Rotate] | [.., before]) => !cheap(before),
            _ => true,
        }
    }

    /// Numbers that the tape keeps of a token, no layer recomputed.
    pub fn tape_numbers(&self) -> usize {
        let kept = |(i, op): (usize, &Op)| {
            let (input, statistics) = match op {
                Op::Norm(norm) => (norm.width, norm.parts.iter().map(|part| part.groups).sum()),
                Op::Linear(linear) => (linear.inputs(), 0),
                Op::Attend => (self.heads.stride(), self.heads.query),
                Op::Gate { width, .. } => (2 * width, 0),
                Op::Rotate | Op::Add => (0, 0),
            };
            if self.keeps(i) { input + statistics } else { statistics }
        };
        self.program.iter().enumerate().map(kept).sum()
    }
}

impl Op {
    /// Its parameters, by their names within the layer.
    pub fn parameters(&self) -> Vec<Parameter> {
        let parameter = |name, shape, kind| Parameter { name, shape, kind };
        match self {
            Op::Norm(norm) => {
                norm.parts.iter().map(|part| parameter(part.weight(), vec![part.size], Kind::Norm)).collect()
            }
            Op::Linear(linear) => {
                let matrix = |p: &Projection| parameter(p.weight(), vec![p.outputs, p.inputs], Kind::Matrix);
                let bias = |p: &Projection| p.bias.then(|| parameter(p.bias(), vec![p.outputs], Kind::Bias));
                linear.projections.iter().flat_map(|p| [Some(matrix(p)), bias(p)]).flatten().collect()
            }
            Op::Rotate | Op::Attend | Op::Gate { .. } | Op::Add => Vec::new(),
        }
    }
}
