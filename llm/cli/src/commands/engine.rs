//! Options of commands whose responses a server may sample.

use std::borrow::Borrow;
use std::time::Duration;

use grpo_lambda_decoder::model::Decoder;

use super::{Failure, Result};
use grpo_lambda_engines::remote::{RemoteSampler, Server};
use grpo_lambda_trainer::config::{ENGINES, RolloutConfig, rollout_url};

/// The mean factor between two engines' probabilities that rounding explains, as `rl.max_logp_error` has it by default.
const ROUNDING: f64 = 1.05;

/// The program that samples.
#[derive(Clone, Debug, clap::Args)]
pub struct EngineArgs {
    /// Samples the responses: local is this program, vllm is a server with the checkpoint of --model, which is compared (docs/engines.md)
    #[arg(long, value_name = "ENGINE", default_value = "local", value_parser = ENGINES)]
    pub engine: String,
    /// Address of that server, as in http://127.0.0.1:8000
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    /// The name under which it serves the model, where it has several
    #[arg(long, value_name = "NAME")]
    pub served_model: Option<String>,
}

impl Default for EngineArgs {
    fn default() -> Self {
        EngineArgs { engine: "local".to_owned(), url: None, served_model: None }
    }
}

impl EngineArgs {
    /// The server that samples, if one does, with what an evaluation records of it.
    pub(super) fn server(&self, vocabulary: usize) -> Result<Option<(Server, String)>> {
        if self.engine == "local" {
            let idle = [("--url", &self.url), ("--served-model", &self.served_model)];
            return match idle.iter().find_map(|(option, value)| Some((option, value.as_ref()?))) {
                Some((option, value)) => Err(Failure::refused(format!(
                    "{option} {value}: this program samples; add --engine vllm"
                ))),
                None => Ok(None),
            };
        }
        let url = rollout_url(&self.engine, self.url.as_deref().unwrap_or("none"));
        let settings = RolloutConfig {
            url: url.map_err(|e| Failure::refused(in_options(&e.to_string())))?,
            model: self.served_model.clone(),
            weights: None,
            timeout: Duration::from_secs(600),
            retries: 3,
            concurrency: 64,
        };
        let server = Server::connect(&settings, vocabulary);
        let server = server.map_err(|e| Failure::refused(in_options(&e.to_string())))?;
        let recorded = format!("{} serving {}", self.engine, server.vllm.model);
        Ok(Some((server, recorded)))
    }
}

/// A message about the settings of `train` in the words of these options.
fn in_options(message: &str) -> String {
    [
        ("rollout.engine = ", "--engine "),
        ("rollout.url=", "--url "),
        ("rollout.url = ", "--url "),
        ("rollout.url", "--url"),
        ("rollout.model = ", "--served-model "),
        ("rollout.model=", "--served-model "),
    ]
    .iter()
    .fold(message.to_owned(), |text, (setting, option)| text.replace(setting, option))
}

/// A server as the sampler of a model that is here as well.
pub(super) fn remote<D: Borrow<Decoder<f32>>>(server: Server, own: D) -> RemoteSampler<D> {
    RemoteSampler::new(server, own, ROUNDING)
}
