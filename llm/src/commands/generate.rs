//! `llm-train generate`.

use std::path::PathBuf;

use serde::Serialize;

use super::lines::lines;
use super::{Failure, checkpoint, input, load_model, load_tokens, print, use_threads};
use crate::rng::{Address, Purpose};
use crate::rollout::{self, Sampling};
use crate::task::{Level, Split, Task};
use crate::tokens::{Prompt, TokenError};
use crate::truncation::Truncation;

/// Arguments of `generate`.
#[derive(Clone, Debug, clap::Args)]
pub struct GenerateArgs {
    /// Checkpoint directory, or a run directory for its latest
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
    /// Sample among so many of the most probable tokens; their probabilities are renormalised
    #[arg(long, value_name = "K")]
    pub top_k: Option<usize>,
    /// Sample among the fewest tokens that have this much probability together (after --top-k); renormalised
    #[arg(long, value_name = "P")]
    pub top_p: Option<f64>,
    /// A response is cut off here
    #[arg(long, value_name = "N", default_value_t = 256)]
    pub max_new_tokens: usize,
    /// No end token among the first so many tokens
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub min_new_tokens: usize,
    /// Seed of the sampler
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Worker threads; 0: as many as the machine has
    #[arg(long, default_value_t = 0)]
    pub threads: usize,
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
        let (min, max) = (args.min_new_tokens, args.max_new_tokens);
        let hint = "must be at least 1 and at least --min-new-tokens";
        return Err(Failure::refused(format!("--max-new-tokens {max} with --min-new-tokens {min}: {hint}")));
    }
    let truncation = truncation(args)?;
    use_threads(args.threads)?;
    let directory = checkpoint(&args.model)?;
    let model = load_model(&directory)?;
    let tokens = load_tokens(&directory, &model)?;
    let (vocabulary, limit) = (model.config().vocab_size, model.config().max_position_embeddings);
    let encode = |text: &str| tokens.prompt(text);
    let mut prompts: Vec<Prompt> = Vec::new();
    let mut add = |place: &str, prompt: Result<Prompt, TokenError>| {
        let prompt = prompt.map_err(|e| Failure::refused(format!("{place}: {e}")))?;
        let (count, new) = (prompt.ids().len(), args.max_new_tokens);
        if count == 0 {
            return Err(Failure::refused(format!("{place}: the prompt has no token; give at least one")));
        }
        if count + new > limit {
            return Err(Failure::refused(format!(
                "{place}: the prompt has {count} tokens; with --max-new-tokens {new} it exceeds the model's limit of {limit} \
                 (max_position_embeddings)"
            )));
        }
        prompts.push(prompt);
        Ok(())
    };
    for text in &args.prompt {
        add("--prompt", encode(text))?;
    }
    if let Some(file) = &args.prompts {
        let file = (file.as_os_str() != "-").then_some(file.as_path());
        let (name, text) = input(file)?;
        for line in lines(&name, &text, &["text", "ids"])? {
            let prompt = match (line.text("text")?, line.ids("ids", vocabulary, limit)?) {
                (Some(text), None) => encode(text),
                (None, Some(ids)) => Prompt::from_ids(ids, vocabulary),
                (Some(_), Some(_)) => return Err(line.refused("text and ids: give one of them, not both")),
                (None, None) => return Err(line.refused("text, ids: both are missing; give one of them")),
            };
            add(line.place(), prompt)?;
        }
    }
    let level = |steps| Level { steps, max_operand: 12 };
    let task = Task::Stories(vec![level(1), level(2), level(3)]);
    for i in 0..args.task {
        add("--task", encode(&task.problem(args.seed, Split::Test, i).prompt))?;
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
            rollout::sample_truncated(&model, &ids, 1, tokens.eos(), sampling, truncation, address)
                .map_err(Failure::broke)?;
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

/// `--top-k` and `--top-p`, checked.
fn truncation(args: &GenerateArgs) -> Result<Truncation, Failure> {
    if args.top_k == Some(0) {
        return Err(Failure::refused("--top-k 0: must be a whole number of at least 1"));
    }
    if let Some(p) = args.top_p.filter(|p| !(*p > 0.0 && *p <= 1.0)) {
        return Err(Failure::refused(format!("--top-p {p}: must be a number above 0 and at most 1")));
    }
    let truncation = Truncation { top_k: args.top_k, top_p: args.top_p };
    if args.greedy && !truncation.is_none() {
        return Err(Failure::refused(
            "--greedy takes the most probable token: leave out --top-k and --top-p",
        ));
    }
    Ok(truncation)
}
