//! The tokenizer and the model that a run starts from.

use grpo_lambda_decoder::model::weights::{self, Parameters};
use grpo_lambda_decoder::model::{self, Architecture::Qwen2, Decoder, ModelShape};

use super::error::Result;
use crate::config::{Config, ConfigError, ModelSource};
use crate::input::tokens::{ModelTokenizer, TokenError};
use crate::run::{hold_directory, model_directory};

/// The configuration with the directory of its model, where that is a name of the Hugging Face hub; what is written of it keeps the name.
pub fn with_located_model(config: &Config) -> Result<Config, ConfigError> {
    let mut config = config.clone();
    if let ModelSource::Checkpoint(given) = &mut config.model {
        let refused = |problem: String| ConfigError::Conflict(format!("model.checkpoint = {problem}"));
        let directory = model_directory::locate(given).map_err(refused)?;
        // A run directory is refused with the name of its checkpoint.
        if directory.join("config.json").exists() || !directory.join("checkpoints").is_dir() {
            model_directory::check(&directory, true).map_err(refused)?;
        }
        hold_directory(&directory).map_err(|e| refused(e.to_string()))?;
        *given = directory;
    }
    Ok(config)
}

/// The tokenizer of a configuration.
pub fn tokens(config: &Config) -> Result<ModelTokenizer, TokenError> {
    match &config.model {
        ModelSource::Checkpoint(directory) => ModelTokenizer::load(directory),
        ModelSource::Random(_) => Ok(ModelTokenizer::tiny()),
    }
}

/// The model a run starts from.
pub fn initial_model(config: &Config, tokens: &ModelTokenizer) -> Result<Decoder<f32>> {
    let (shape, parameters) = initial_weights(config, tokens)?;
    Ok(Decoder::new(shape, parameters)?)
}

/// The shape and the weights a run starts from.
pub(super) fn initial_weights(
    config: &Config,
    tokens: &ModelTokenizer,
) -> Result<(model::ModelConfig, Parameters<f32>)> {
    let (shape, parameters) = match &config.model {
        ModelSource::Checkpoint(directory) => {
            let shape = model::ModelConfig::load(directory)?;
            let parameters = weights::load(directory, &shape)?;
            (shape, parameters)
        }
        ModelSource::Random(s) => {
            let mut shape = Qwen2.config(ModelShape {
                vocab: tokens.len(),
                hidden: s.hidden,
                layers: s.layers,
                heads: s.heads,
                kv_heads: s.kv_heads,
            });
            shape.intermediate_size = s.intermediate;
            check_memory(&shape)?;
            let parameters = weights::initialise(&shape, config.seed, 0.02);
            (shape, parameters)
        }
    };
    tokens.check(shape.vocab_size)?;
    weights::check(&shape, &parameters)?;
    Ok((shape, parameters))
}

/// Refuses a new model whose training this machine cannot hold, before the system kills it.
fn check_memory(shape: &model::ModelConfig) -> Result<()> {
    // Weights, gradients and three numbers of the optimiser; what they are packed into and activations come on top.
    let numbers: usize = shape.parameter_shapes().iter().map(|(_, s)| s.iter().product::<usize>()).sum();
    let needed = 5.0 * 4.0 * numbers as f64 / f64::from(1 << 20);
    match crate::plan::memory::total_mib() {
        Some(there) if needed > there => Err(ConfigError::Conflict(format!(
            "model.hidden = {}, model.layers = {}, model.intermediate = {}: training {numbers} parameters takes more than {needed:.0} MiB; \
             this machine has {there:.0}, so choose a smaller model",
            shape.hidden_size, shape.num_hidden_layers, shape.intermediate_size
        ))
        .into()),
        _ => Ok(()),
    }
}
