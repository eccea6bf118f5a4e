//! `llm-train serve`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use super::{Command, Failure, checkpoint, count, load_model, load_tokens, print, use_threads, whole};
use grpo_lambda_engines::remote::TOKEN;
use grpo_lambda_engines::serve::{Listening, ServeSettings};
use grpo_lambda_trainer::run::stop;

/// Arguments of `serve`.
#[derive(Clone, Debug, clap::Args)]
pub struct ServeArgs {
    /// Checkpoint directory, or a run directory for its latest
    #[arg(long, value_name = "DIR")]
    pub model: PathBuf,
    /// Address to listen on; another than this machine's own wants a token in the environment variable LLM_TRAIN_TOKEN
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    pub host: IpAddr,
    /// Port to listen on; 0: one that is free
    #[arg(long, default_value_t = 8000)]
    pub port: u16,
    /// The name under which the model is served; that of its directory when not given
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Let clients replace the weights by those of a checkpoint under this directory, as llm-train train with rollout.url does
    #[arg(long, value_name = "DIR")]
    pub reload_from: Option<PathBuf>,
    /// Requests that may wait or compute; further ones are refused with status 429
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = count, allow_negative_numbers = true)]
    pub queue: usize,
    /// The longest body of a request, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 2 << 20, value_parser = count, allow_negative_numbers = true)]
    pub max_body: usize,
    /// The most tokens of a request: prompts times responses times their longest length
    #[arg(long, value_name = "N", default_value_t = 1 << 20, value_parser = count, allow_negative_numbers = true)]
    pub max_tokens: usize,
    /// Worker threads; 0: as many as the machine has
    #[arg(long, default_value_t = 0, value_parser = whole::<usize>, allow_negative_numbers = true)]
    pub threads: usize,
}

/// More requests than this would wait too long for one model.
const MAX_QUEUE: usize = 1024;

impl Command for ServeArgs {
    /// Serves a model until a signal asks for the end.
    fn run(&self) -> Result<(), Failure> {
        stop::listen();
        if self.queue > MAX_QUEUE {
            return Err(Failure::refused(format!(
                "--queue {}: must be a whole number from 1 to {MAX_QUEUE}",
                self.queue
            )));
        }
        let token = std::env::var(TOKEN).ok().filter(|token| !token.is_empty());
        if !self.host.is_loopback() && token.is_none() {
            return Err(Failure::refused(format!(
                "--host {}: whoever reaches this address could use the model; set {TOKEN} to a token that requests must carry, or stay on 127.0.0.1",
                self.host
            )));
        }
        use_threads(self.threads)?;
        let directory = checkpoint(&self.model)?;
        let model = load_model(&directory)?;
        let tokens = load_tokens(&directory, &model)?;
        let settings = ServeSettings {
            address: SocketAddr::new(self.host, self.port),
            name: self.name.clone().unwrap_or_else(|| name_of(&self.model)),
            queue: self.queue,
            body: self.max_body,
            tokens: self.max_tokens,
            token,
            reload_from: self.reload_from.as_deref().map(real).transpose()?,
        };
        let name = settings.name.clone();
        let listening = Listening::open(settings, model, tokens).map_err(Failure::refused)?;
        print(&format!("serving {name} on http://{}\n", listening.address()))?;
        listening.run();
        Ok(())
    }
}

/// The last part of a path, or all of it.
fn name_of(model: &Path) -> String {
    let last = model.file_name().map(|name| name.to_string_lossy().into_owned());
    last.unwrap_or_else(|| model.display().to_string())
}

/// A directory as the system spells it, so that no link leads out of it.
fn real(directory: &Path) -> Result<PathBuf, Failure> {
    let refused = |why: String| Failure::refused(format!("--reload-from {}: {why}", directory.display()));
    let real = directory.canonicalize().map_err(|e| refused(e.to_string()))?;
    if real.is_dir() { Ok(real) } else { Err(refused("is no directory".to_owned())) }
}
