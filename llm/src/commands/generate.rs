//! `llm-train generate`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Failure, input, load_model, load_tokens, print, use_threads};
use crate::rng::{Address, Purpose};
use crate::rollout::{self, Sampling};
use crate::task::{Level, Split, Task};
use crate::tokens::Prompt;

/// Arguments of `generate`.
#[derive(Clone, Debug, clap::Args)]
pub struct GenerateArgs {
    /// Checkpoint directory
    #[arg(long, value_name = "DIR")]
    pub model: PathBuf,
    /// A prompt; may be given several times
    #[arg(long, value_name = "TEXT")]
    pub prompt: Vec<String>,
    /// JSON lines `{"text": "..."}` or `{"ids": [...]}`; `-` for stdin
    #[arg(long, value_name = "FILE")]
    pub prompts: Option<PathBuf>,
    /// So many held-out problems of the embedded task
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub task: u64,
    /// Take the most probable token
    #[arg(long)]
    pub greedy: bool,
    /// Sampling temperature
    #[arg(long, default_value_t = 1.0)]
    pub temperature: f64,
    /// A response is cut off here
    #[arg(long, value_name = "N", default_value_t = 256)]
    pub max_new_tokens: usize,
    /// No end token before so many tokens
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub min_new_tokens: usize,
    /// Seed of the sampler
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Worker threads; 0: as many as the machine has
    #[arg(long, default_value_t = 0)]
    pub threads: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    text: Option<String>,
    ids: Option<Vec<u32>>,
}

#[derive(Serialize)]
struct Generated {
    ids: Vec<u32>,
    text: String,
    finish: &'static str,
}

/// Prompts decoded together.
const BATCH: usize = 64;

/// Generates a response to each prompt, one JSON line each, in order.
///
/// # Errors
/// When a prompt or the model is refused.
pub fn run(args: &GenerateArgs) -> Result<(), Failure> {
    if !(args.temperature > 0.0 && args.temperature.is_finite()) {
        let hint = "must be a positive number; for the most probable token use --greedy";
        return Err(Failure::refused(format!("--temperature {}: {hint}", args.temperature)));
    }
    if args.max_new_tokens == 0 || args.min_new_tokens > args.max_new_tokens {
        return Err(Failure::refused("--max-new-tokens must be at least 1 and at least --min-new-tokens"));
    }
    use_threads(args.threads)?;
    let model = load_model(&args.model)?;
    let tokens = load_tokens(&args.model, &model)?;
    let encode = |text: &str| tokens.prompt(text).map_err(Failure::refused);
    let mut prompts: Vec<Prompt> = args.prompt.iter().map(|text| encode(text)).collect::<Result<_, _>>()?;
    if let Some(file) = &args.prompts {
        let file = (file.as_os_str() != "-").then_some(file.as_path());
        let (name, text) = input(file)?;
        for (i, line) in text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty()) {
            let at = |what: String| Failure::refused(format!("{name}:{}: {what}", i + 1));
            let line: Line = serde_json::from_str(line).map_err(|e| at(e.to_string()))?;
            prompts.push(match (line.text, line.ids) {
                (Some(text), None) => encode(&text).map_err(|f| at(f.message))?,
                (None, Some(ids)) => {
                    Prompt::from_ids(ids, model.config().vocab_size).map_err(|e| at(format!("ids: {e}")))?
                }
                _ => return Err(at("give either text or ids".into())),
            });
        }
    }
    let level = |steps| Level { steps, max_operand: 12 };
    let task = Task::Stories(vec![level(1), level(2), level(3)]);
    for i in 0..args.task {
        prompts.push(encode(&task.problem(args.seed, Split::Test, i).prompt)?);
    }
    if prompts.is_empty() {
        return Err(Failure::refused("no prompt: give --prompt TEXT, --prompts FILE or --task N"));
    }
    let sampling = Sampling {
        max_new_tokens: args.max_new_tokens,
        min_new_tokens: args.min_new_tokens,
        temperature: if args.greedy { 0.0 } else { args.temperature },
    };
    let base = Address::new(args.seed, Purpose::Evaluation);
    let mut out = String::new();
    for (k, batch) in prompts.chunks(BATCH).enumerate() {
        let ids: Vec<&[u32]> = batch.iter().map(Prompt::ids).collect();
        let address = |prompt: usize, _| base.prompt((k * BATCH + prompt) as u64);
        let responses =
            rollout::sample(&model, &ids, 1, tokens.eos(), sampling, address).map_err(Failure::refused)?;
        for response in responses.into_iter().flatten() {
            let text = tokens.text(&response.tokens).map_err(Failure::broke)?;
            let finish = if response.truncated { "length" } else { "eos" };
            out += &serde_json::to_string(&Generated { ids: response.tokens, text, finish })
                .map_err(Failure::broke)?;
            out.push('\n');
        }
    }
    print(&out)
}
