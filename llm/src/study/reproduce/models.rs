//! The four models of the paper, as facts.

use grpo_lambda_decoder::model::ModelConfig;
use serde_json::Value;

const FACTS: &str = include_str!("models.json");

#[derive(Clone, Debug, PartialEq)]
pub struct PaperModel {
    /// As in Table 1.
    pub name: String,
    /// The table of its runs, 3 to 6.
    pub table: u8,
    /// The column of Table 2: `1.5B`, `3B` or `7B`.
    pub size: String,
    /// The preset of its runs.
    pub preset: String,
    /// `owner/name` on the Hugging Face hub.
    pub id: String,
    /// The prompt template of its evaluation; the paper does not say which.
    pub template: String,
    /// Parameters, as published.
    pub parameters: u64,
    pub shape: ModelConfig,
}

impl PaperModel {
    /// A name for directories.
    pub fn slug(&self) -> String {
        self.name.to_lowercase()
    }
}

/// The four, in the order of Table 1.
///
/// # Panics
/// Never: a test reads what is compiled in.
pub fn all() -> Vec<PaperModel> {
    read(FACTS).expect("what is compiled in was read by a test")
}

/// Reads the text of `models.json`.
fn read(text: &str) -> Option<Vec<PaperModel>> {
    let facts: Value = serde_json::from_str(text).ok()?;
    let word = |model: &Value, key: &str| Some(model[key].as_str()?.to_owned());
    let model = |model: &Value| {
        Some(PaperModel {
            name: word(model, "name")?,
            table: u8::try_from(model["table"].as_u64()?).ok()?,
            size: word(model, "size")?,
            preset: word(model, "preset")?,
            id: word(model, "id")?,
            template: word(model, "template")?,
            parameters: model["parameters"].as_u64()?,
            shape: ModelConfig::parse(&model["config"].to_string(), "models.json").ok()?,
        })
    };
    facts["models"].as_array()?.iter().map(model).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_has_as_many_parameters_as_its_model() {
        let models = all();
        assert_eq!(models.len(), 4);
        for model in models {
            let shapes = model.shape.parameter_shapes();
            let counted: usize = shapes.iter().map(|(_, s)| s.iter().product::<usize>()).sum();
            assert_eq!(counted as u64, model.parameters, "{}", model.name);
        }
    }

    #[test]
    fn every_model_has_a_preset() {
        for model in all() {
            assert!(crate::config::PRESETS.iter().any(|p| p.name == model.preset), "{}", model.preset);
        }
    }
}
