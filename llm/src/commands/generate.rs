//! `llm-train generate`.

use std::path::PathBuf;

use grpo_lambda_decoder::rng::{Address, Purpose};
use grpo_lambda_decoder::rollout::{Ask, Sampler, Sampling};
use grpo_lambda_decoder::truncation::Truncation;
use serde::Serialize;

use super::lines::lines;
use super::{
    Failure, check_temperature, checkpoint, input, load_model, load_tokens, print, use_threads, whole,
};
use crate::config::Config;
use crate::input::task::{Problem, Split};
use crate::input::tokens::{Prompt, TokenError, Tokens};
use crate::run::progress::say;
use crate::train::problems::Problems;

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
    /// So many held-out problems, with their answers on stderr: those of the run that the model is from, or of the preset tiny
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = whole::<usize>, allow_negative_numbers = true)]
    pub task: usize,
    /// Take the most probable token
    #[arg(long)]
    pub greedy: bool,
    /// Sampling temperature
    #[arg(long, default_value_t = 1.0, allow_negative_numbers = true)]
    pub temperature: f64,
    /// Sample among so many of the most probable tokens; their probabilities are renormalised
    #[arg(long, value_name = "K", value_parser = whole::<usize>, allow_negative_numbers = true)]
    pub top_k: Option<usize>,
    /// Sample among the fewest tokens that have this much probability together (after --top-k); renormalised
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    pub top_p: Option<f64>,
    /// A response is cut off here
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = whole::<usize>, allow_negative_numbers = true)]
    pub max_new_tokens: usize,
    /// No end token among the first so many tokens
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = whole::<usize>, allow_negative_numbers = true)]
    pub min_new_tokens: usize,
    /// Seed of the sampler
    #[arg(long, default_value_t = 0, value_parser = whole::<u64>, allow_negative_numbers = true)]
    pub seed: u64,
    /// Worker threads; 0: as many as the machine has
    #[arg(long, default_value_t = 0, value_parser = whole::<usize>, allow_negative_numbers = true)]
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
    check_temperature(args.temperature, "; for the most probable token use --greedy")?;
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
        if count.saturating_add(new) > limit {
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
        let (name, text) = input(Some(file))?;
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
    for problem in problems(args, &tokens, limit)? {
        say(&format!("{}answer: {}", problem.prompt, problem.direct()));
        add("--task", problem.encode(&tokens))?;
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
        let ask = Ask { truncation, ..Ask::new(&ids, 1, tokens.eos(), sampling, &address) };
        let responses = model.respond(&ask).map_err(Failure::broke)?;
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

/// The first held-out problems of the run that the model is from; of the preset `tiny` for a model from elsewhere.
fn problems(args: &GenerateArgs, tokens: &Tokens, limit: usize) -> Result<Vec<Problem>, Failure> {
    // RUN itself, or RUN/checkpoints/step-N.
    let above = std::path::absolute(&args.model).ok();
    let run = above.iter().flat_map(|path| path.ancestors().step_by(2).take(2));
    let config = match run.map(|run| run.join("config.toml")).find(|file| file.is_file()) {
        Some(file) => Config::read(&file),
        None => Config::resolve("tiny", &[""; 0]),
    };
    let config = config.map_err(Failure::refused)?;
    if args.task == 0 {
        return Ok(Vec::new());
    }
    let problems = Problems::open(&config, tokens, limit, &mut |_| ()).map_err(Failure::refused)?;
    let problems = problems.distinct(Split::Test, args.task).map_err(Failure::refused)?;
    if problems.len() < args.task {
        let n = problems.len();
        return Err(Failure::refused(format!("--task {}: the task has {n} different problems", args.task)));
    }
    Ok(problems)
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
