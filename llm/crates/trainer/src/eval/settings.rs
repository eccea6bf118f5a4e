//! The settings on which the result of an evaluation depends.

use clap::ValueEnum;
use grpo_lambda_decoder::truncation::Truncation;
use grpo_lambda_grade::{Extraction, Rules};

use super::shots::Shots;
use crate::input::prompt::PromptForm;

/// Named settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Protocol {
    /// The most probable token, and problems asked as the model's run asked them: what training's held-out accuracy uses. A model from no
    /// run is given the plain problem text
    #[default]
    Plain,
    /// The settings of the GRPO-lambda paper's evaluation code (understand-r1-zero): template qwen_math, the most probable token, at
    /// most 3000 new tokens, 4096 in all. Answers are compared by the strict rules; that code accepts what any of three graders accepts
    Paper,
}

impl Protocol {
    /// The template of the protocol, if any.
    pub fn template(self) -> Option<&'static str> {
        match self {
            Protocol::Plain => None,
            Protocol::Paper => Some("qwen_math"),
        }
    }

    /// The rules for comparing answers where none are given: people read evaluations, so that spellings count as the same.
    pub fn rules(self) -> Rules {
        match self {
            Protocol::Plain => Rules::LENIENT,
            Protocol::Paper => Rules::STRICT,
        }
    }

    /// The most new tokens and the context.
    pub fn lengths(self) -> (usize, usize) {
        (3000, 4096)
    }
}

/// The settings of an evaluation.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The path of the weights; for people, no setting.
    pub model: String,
    /// Checksum of weights, configuration and tokenizer.
    pub weights: String,
    pub template: String,
    /// The system prompt, unless it is the template's own.
    pub system: Option<String>,
    /// The arguments of a chat template, unless they are its defaults.
    pub template_args: Option<String>,
    pub shots: Option<Shots>,
    /// The origin of the template: an option, or the model's run; for people, no setting.
    pub template_from: String,
    /// The place of the answer in a response.
    pub extract: Extraction,
    /// The rules for comparing answers.
    pub rules: Rules,
    /// Responses to each problem.
    pub samples: usize,
    /// Sampling temperature; 0 takes the most probable token.
    pub temperature: f64,
    pub truncation: Truncation,
    /// Most tokens of a response.
    pub max_new_tokens: usize,
    /// Most tokens of prompt and response together.
    pub context: usize,
    /// Seed of the sampler.
    pub seed: u64,
    /// The model's number format: `f32` on the CPU, `f32` or `bf16` on a card, where sums have another order.
    pub numbers: String,
}

impl Settings {
    /// Keys of [`Settings::entries`] that are for people; the others decide the result.
    pub const FOR_PEOPLE: [&str; 2] = ["model", "template_from"];

    /// Keys and values, as they stand in `eval.toml`.
    pub fn entries(&self) -> Vec<(&'static str, toml::Value)> {
        let whole = |n: usize| toml::Value::Integer(i64::try_from(n).unwrap_or(i64::MAX));
        let Truncation { top_k, top_p } = self.truncation;
        vec![
            ("model", self.model.as_str().into()),
            ("weights", self.weights.as_str().into()),
            ("template", self.template.as_str().into()),
            ("system", self.system.as_deref().unwrap_or(OWN).into()),
            ("template_args", self.template_args.as_deref().unwrap_or(OWN).into()),
            ("shots", self.shots.as_ref().map_or(NO_SHOTS.to_owned(), Shots::fingerprint).into()),
            ("template_from", self.template_from.as_str().into()),
            ("extract", self.extract.name().into()),
            ("rules", self.rules.spelled().into()),
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

    /// The choice of tokens, in words.
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
        let (system, args) = (self.system.as_deref(), self.template_args.as_deref());
        let template = PromptForm { template: &self.template, system, args };
        match &self.shots {
            Some(shots) => format!(
                "{template}, {} solved examples of {} before each problem",
                shots.examples.len(),
                shots.from
            ),
            None => template.to_string(),
        }
    }
}

/// The word for no solved examples.
const NO_SHOTS: &str = "none";

/// The word for the template's own system prompt, as in `task.system`.
const OWN: &str = "none";
