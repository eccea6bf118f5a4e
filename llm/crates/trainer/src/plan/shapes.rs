//! Shapes of published models, by name: what memory and time depend on, without the weights.
//!
//! They are written down from knowledge of the models' `config.json`, not fetched. The check is independent: the parameters that follow from
//! a shape are those that the model's page states, to the last one (for the distilled 3B, those of Llama-3.2-3B, on which it was trained).

use grpo_lambda::settings::did_you_mean;
use grpo_lambda_decoder::model::config::{Architecture, RopeScaling};
use grpo_lambda_decoder::model::{ModelConfig, ModelShape};

/// A model's shape.
#[derive(Debug)]
struct PublishedShape {
    name: &'static str,
    llama: bool,
    hidden: usize,
    intermediate: usize,
    layers: usize,
    heads: usize,
    key_heads: usize,
    vocabulary: usize,
    tied: bool,
    context: usize,
    theta: f64,
    /// Factor of Llama 3's scaling of frequencies, 1 for none.
    scaling: f64,
}

#[rustfmt::skip]
static ENTRIES: &[PublishedShape] = &[
    PublishedShape { name: "qwen2.5-0.5b", llama: false, hidden: 896, intermediate: 4864, layers: 24, heads: 14, key_heads: 2, vocabulary: 151_936, tied: true, context: 32_768, theta: 1e6, scaling: 1.0 },
    PublishedShape { name: "qwen2.5-1.5b", llama: false, hidden: 1536, intermediate: 8960, layers: 28, heads: 12, key_heads: 2, vocabulary: 151_936, tied: true, context: 131_072, theta: 1e6, scaling: 1.0 },
    PublishedShape { name: "qwen2.5-math-1.5b", llama: false, hidden: 1536, intermediate: 8960, layers: 28, heads: 12, key_heads: 2, vocabulary: 151_936, tied: true, context: 4096, theta: 1e4, scaling: 1.0 },
    PublishedShape { name: "qwen2.5-3b", llama: false, hidden: 2048, intermediate: 11_008, layers: 36, heads: 16, key_heads: 2, vocabulary: 151_936, tied: true, context: 32_768, theta: 1e6, scaling: 1.0 },
    PublishedShape { name: "qwen2.5-7b", llama: false, hidden: 3584, intermediate: 18_944, layers: 28, heads: 28, key_heads: 4, vocabulary: 152_064, tied: false, context: 131_072, theta: 1e6, scaling: 1.0 },
    PublishedShape { name: "qwen2.5-math-7b", llama: false, hidden: 3584, intermediate: 18_944, layers: 28, heads: 28, key_heads: 4, vocabulary: 152_064, tied: false, context: 4096, theta: 1e4, scaling: 1.0 },
    PublishedShape { name: "r1-distill-qwen-1.5b", llama: false, hidden: 1536, intermediate: 8960, layers: 28, heads: 12, key_heads: 2, vocabulary: 151_936, tied: false, context: 131_072, theta: 1e4, scaling: 1.0 },
    PublishedShape { name: "r1-distill-qwen-7b", llama: false, hidden: 3584, intermediate: 18_944, layers: 28, heads: 28, key_heads: 4, vocabulary: 152_064, tied: false, context: 131_072, theta: 1e4, scaling: 1.0 },
    PublishedShape { name: "r1-distill-llama-3b", llama: true, hidden: 3072, intermediate: 8192, layers: 28, heads: 24, key_heads: 8, vocabulary: 128_256, tied: true, context: 131_072, theta: 5e5, scaling: 32.0 },
    PublishedShape { name: "r1-distill-llama-8b", llama: true, hidden: 4096, intermediate: 14_336, layers: 32, heads: 32, key_heads: 8, vocabulary: 128_256, tied: false, context: 131_072, theta: 5e5, scaling: 8.0 },
];

impl PublishedShape {
    fn config(&self) -> ModelConfig {
        let rope_scaling = match self.scaling {
            1.0 => RopeScaling::None,
            factor => RopeScaling::Llama3 {
                factor,
                low_freq_factor: 1.0,
                high_freq_factor: 4.0,
                original_max: 8192.0,
            },
        };
        let architecture = if self.llama { Architecture::Llama } else { Architecture::Qwen2 };
        ModelConfig {
            intermediate_size: self.intermediate,
            rms_norm_eps: if self.llama { 1e-5 } else { 1e-6 },
            rope_theta: self.theta,
            rope_scaling,
            max_position_embeddings: self.context,
            tie_word_embeddings: self.tied,
            dtype: "bfloat16".to_owned(),
            ..architecture.config(ModelShape {
                vocab: self.vocabulary,
                hidden: self.hidden,
                layers: self.layers,
                heads: self.heads,
                kv_heads: self.key_heads,
            })
        }
    }
}

pub fn names() -> impl Iterator<Item = &'static str> {
    ENTRIES.iter().map(|e| e.name)
}

/// The shape of this name, in any case.
pub fn named(name: &str) -> Result<ModelConfig, String> {
    let lower = name.to_lowercase();
    let found = ENTRIES.iter().find(|e| e.name == lower).map(PublishedShape::config);
    found.ok_or_else(|| {
        let known = names().collect::<Vec<_>>().join(", ");
        format!("{name}: no such shape{}; there are {known}", did_you_mean(&lower, names()))
    })
}
