//! The families of decoders, as data: what `config.json` calls each of them, and what it says of their layers.

use super::layer::QkNorm;

/// A family of decoders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// `Qwen2ForCausalLM`.
    Qwen2,
    /// `LlamaForCausalLM`.
    Llama,
    /// `Qwen3ForCausalLM`: the dense models.
    Qwen3,
}

/// What decides whether projections have a bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bias {
    /// They have none.
    Never,
    /// They always have one.
    Always,
    /// This field of `config.json`, absent for none.
    Field(&'static str),
}

impl Bias {
    pub(super) fn field(self) -> Option<&'static str> {
        match self {
            Bias::Field(field) => Some(field),
            Bias::Never | Bias::Always => None,
        }
    }
}

/// How a family differs from the others.
#[derive(Debug)]
pub(super) struct Family {
    pub(super) architecture: Architecture,
    /// Its class in transformers, the entry of `architectures`.
    pub(super) class: &'static str,
    /// Its `model_type`.
    pub(super) model_type: &'static str,
    /// On queries, keys and values.
    pub(super) qkv_bias: Bias,
    /// On the output of attention.
    pub(super) output_bias: Bias,
    /// In the MLP.
    pub(super) mlp_bias: Bias,
    pub(super) qk_norm: QkNorm,
    /// Numbers of a head where `head_dim` is absent; `None` for `hidden_size / num_attention_heads`.
    pub(super) head_dim: Option<usize>,
    /// Whether `head_dim` is written although it is `hidden_size / num_attention_heads`.
    pub(super) writes_head_dim: bool,
    /// Whether a sliding window is used only where `use_sliding_window` says so, and only from layer `max_window_layers` on.
    pub(super) window_switch: bool,
}

static QWEN2: Family = Family {
    architecture: Architecture::Qwen2,
    class: "Qwen2ForCausalLM",
    model_type: "qwen2",
    qkv_bias: Bias::Always,
    output_bias: Bias::Never,
    mlp_bias: Bias::Never,
    qk_norm: QkNorm::None,
    head_dim: None,
    writes_head_dim: false,
    window_switch: true,
};
static LLAMA: Family = Family {
    architecture: Architecture::Llama,
    class: "LlamaForCausalLM",
    model_type: "llama",
    qkv_bias: Bias::Field("attention_bias"),
    output_bias: Bias::Field("attention_bias"),
    mlp_bias: Bias::Field("mlp_bias"),
    qk_norm: QkNorm::None,
    head_dim: None,
    writes_head_dim: true,
    window_switch: false,
};
static QWEN3: Family = Family {
    architecture: Architecture::Qwen3,
    class: "Qwen3ForCausalLM",
    model_type: "qwen3",
    qkv_bias: Bias::Field("attention_bias"),
    output_bias: Bias::Field("attention_bias"),
    mlp_bias: Bias::Never,
    qk_norm: QkNorm::PerHead,
    head_dim: Some(128),
    writes_head_dim: true,
    window_switch: true,
};

/// Every family.
pub(super) static FAMILIES: [&Family; 3] = [&QWEN2, &LLAMA, &QWEN3];

impl Architecture {
    pub(super) fn family(self) -> &'static Family {
        match self {
            Architecture::Qwen2 => &QWEN2,
            Architecture::Llama => &LLAMA,
            Architecture::Qwen3 => &QWEN3,
        }
    }
}
