//! The families of decoders, as data: their names in `config.json` and the parts of their layers.

use super::layer::{NormPlacement, QkNorm};

/// A family of decoders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// `Qwen2ForCausalLM`.
    Qwen2,
    /// `LlamaForCausalLM`.
    Llama,
    /// `Qwen3ForCausalLM`: the dense models.
    Qwen3,
    /// `Olmo2ForCausalLM`.
    Olmo2,
}

/// The rule by which projections have a bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bias {
    /// Without one.
    Never,
    /// With one.
    Always,
    /// This field of `config.json` decides; absent for none.
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

/// A family's names in `config.json`, and how its layers differ from others.
#[derive(Debug)]
pub(super) struct Family {
    pub(super) architecture: Architecture,
    /// Class in transformers, the entry of `architectures`.
    pub(super) class: &'static str,
    /// `model_type`.
    pub(super) model_type: &'static str,
    pub(super) norm_placement: NormPlacement,
    pub(super) qk_norm: QkNorm,
    /// On queries, keys and values.
    pub(super) qkv_bias: Bias,
    /// On the output of attention.
    pub(super) output_bias: Bias,
    /// In the MLP.
    pub(super) mlp_bias: Bias,
    /// `max_position_embeddings` if absent.
    pub(super) positions: usize,
    /// `rms_norm_eps` if absent.
    pub(super) rms_norm_eps: f64,
    /// Numbers of a head if `head_dim` is absent; `None` for `hidden_size / num_attention_heads`.
    pub(super) head_dim: Option<usize>,
    /// True if `head_dim` is written although it is `hidden_size / num_attention_heads`.
    pub(super) writes_head_dim: bool,
    /// True if a sliding window is used only if `use_sliding_window` says so, and only from layer `max_window_layers` on.
    pub(super) window_switch: bool,
}

const LLAMA: Family = Family {
    architecture: Architecture::Llama,
    class: "LlamaForCausalLM",
    model_type: "llama",
    norm_placement: NormPlacement::Pre,
    qk_norm: QkNorm::None,
    qkv_bias: Bias::Field("attention_bias"),
    output_bias: Bias::Field("attention_bias"),
    mlp_bias: Bias::Field("mlp_bias"),
    positions: 2048,
    rms_norm_eps: 1e-6,
    head_dim: None,
    writes_head_dim: true,
    window_switch: false,
};

/// Every family, in the order of [`Architecture`].
pub(super) static FAMILIES: [Family; 4] = [
    Family {
        architecture: Architecture::Qwen2,
        class: "Qwen2ForCausalLM",
        model_type: "qwen2",
        qkv_bias: Bias::Always,
        output_bias: Bias::Never,
        mlp_bias: Bias::Never,
        positions: 32_768,
        writes_head_dim: false,
        window_switch: true,
        ..LLAMA
    },
    LLAMA,
    Family {
        architecture: Architecture::Qwen3,
        class: "Qwen3ForCausalLM",
        model_type: "qwen3",
        qk_norm: QkNorm::PerHead,
        mlp_bias: Bias::Never,
        positions: 32_768,
        head_dim: Some(128),
        window_switch: true,
        ..LLAMA
    },
    Family {
        architecture: Architecture::Olmo2,
        class: "Olmo2ForCausalLM",
        model_type: "olmo2",
        norm_placement: NormPlacement::Post,
        qk_norm: QkNorm::Whole,
        mlp_bias: Bias::Never,
        rms_norm_eps: 1e-5,
        writes_head_dim: false,
        ..LLAMA
    },
];

impl Architecture {
    pub(super) fn family(self) -> &'static Family {
        &FAMILIES[self as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_stand_in_the_order_of_architectures() {
        for (i, family) in FAMILIES.iter().enumerate() {
            assert_eq!(family.architecture as usize, i, "{}", family.class);
        }
    }
}
