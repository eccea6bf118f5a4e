//! What an evaluation asks, as far as its result depends on it.

use clap::ValueEnum;
use grpo_lambda_decoder::truncation::Truncation;
use grpo_lambda_grade::Extraction;

/// Named settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Protocol {
    /// The most probable token of the plain problem text; what training's held-out accuracy uses
    #[default]
    Plain,
    /// The settings of the GRPO-lambda paper's evaluation code (understand-r1-zero): template qwen_math, the most probable token, at
    /// most 3000 new tokens, 4096 in all
    Paper,
}

impl Protocol {
    /// The template, the most new tokens and the context.
    pub fn defaults(self) -> (&'static str, usize, usize) {
        match self {
            Protocol::Plain => ("no", 3000, 4096),
            Protocol::Paper => ("qwen_math", 3000, 4096),
        }
    }
}

/// The settings of an evaluation.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Where the weights were read; for people, no setting.
    pub model: String,
    /// Checksum of weights, configuration and tokenizer.
    pub weights: String,
    /// The prompt template.
    pub template: String,
    /// Where the answer stands in a response.
    pub extract: Extraction,
    /// Responses to each problem.
    pub samples: usize,
    /// Sampling temperature; 0 takes the most probable token.
    pub temperature: f64,
    /// Which tokens may be drawn.
    pub truncation: Truncation,
    /// Most tokens of a response.
    pub max_new_tokens: usize,
    /// Most tokens of prompt and response together.
    pub context: usize,
    /// Seed of the sampler.
    pub seed: u64,
    /// Numbers the model computes with: `f32` on the CPU, `f32` or `bf16` on a card, where they are also summed in another order.
    pub numbers: String,
}

impl Settings {
    /// Keys and values, as they stand in `eval.toml`; the first is for people, the others are compared.
    pub fn entries(&self) -> Vec<(&'static str, toml::Value)> {
        let whole = |n: usize| toml::Value::Integer(i64::try_from(n).unwrap_or(i64::MAX));
        let extract = self.extract.to_possible_value().map_or(String::new(), |v| v.get_name().to_owned());
        let Truncation { top_k, top_p } = self.truncation;
        vec![
            ("model", self.model.as_str().into()),
            ("weights", self.weights.as_str().into()),
            ("template", self.template.as_str().into()),
            ("extract", extract.into()),
            ("samples", whole(self.samples)),
            ("temperature", self.temperature.into()),
            ("top_k", top_k.map_or("all".into(), whole)),
            ("top_p", top_p.map_or("all".into(), toml::Value::from)),
            ("max_new_tokens", whole(self.max_new_tokens)),
            ("context", whole(self.context)),
            ("seed", toml::Value::Integer(i64::try_from(self.seed).unwrap_or(i64::MAX))),
            ("numbers", self.numbers.as_str().into()),
        ]
    }

    /// How tokens are chosen, in words.
    pub fn decoding(&self) -> String {
        if self.temperature == 0.0 {
            return "the most probable token".to_owned();
        }
        let Truncation { top_k, top_p } = self.truncation;
        let k = top_k.map_or(String::new(), |k| format!(", top-k {k}"));
        let p = top_p.map_or(String::new(), |p| format!(", top-p {p}"));
        format!("sampling at temperature {}{k}{p}", self.temperature)
    }
}

impl Settings {
    /// The prompt template, in words.
    pub fn template_in_words(&self) -> String {
        match self.template.as_str() {
            "no" => "no prompt template".to_owned(),
            name => format!("prompt template {name}"),
        }
    }
}
