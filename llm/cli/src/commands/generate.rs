//! `llm-train generate`.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use grpo_lambda_decoder::generate::{Sampler, SamplingParams, SamplingRequest, StoppingCriteria};
use grpo_lambda_decoder::model::Decoder;
use grpo_lambda_decoder::rng::{Address, Purpose};
use grpo_lambda_decoder::truncation::Truncation;
use grpo_lambda_stats::visible;
use serde::Serialize;

use super::asked::Asked;
use super::engine::{EngineArgs, remote};
use super::lines::lines;
use super::options::{ModelArgs, PromptArgs, TruncationArgs};
use super::{
    Command, Failure, OutputFormat, Result, check_temperature, count, input, load_model, load_tokens, print,
    whole,
};
use grpo_lambda_trainer::config::Config;
use grpo_lambda_trainer::eval::completion::RecordedFinish;
use grpo_lambda_trainer::eval::origin::Origin;
use grpo_lambda_trainer::input::around::surroundings;
use grpo_lambda_trainer::input::stops::Stops;
use grpo_lambda_trainer::input::task::{Split, TaskSource};
use grpo_lambda_trainer::input::tokens::{ModelTokenizer, TextTokens, TokenError};
use grpo_lambda_trainer::run::progress::say;

/// Arguments of `generate`.
#[derive(Clone, Debug, clap::Args)]
pub struct GenerateArgs {
    #[command(flatten)]
    pub model: ModelArgs,
    /// A problem or other text, which the template makes a prompt; may be given several times
    #[arg(long, value_name = "TEXT")]
    pub prompt: Vec<String>,
    /// JSON lines `{"text": "..."}`, likewise, or `{"ids": [...]}`, as they stand; `-` for stdin
    #[arg(long, value_name = "FILE")]
    pub prompts: Option<PathBuf>,
    /// So many held-out problems, with their answers on stderr: those of the run that the model is from, or of the preset tiny
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = whole::<usize>, allow_negative_numbers = true)]
    pub task: usize,
    #[command(flatten)]
    pub form: PromptArgs,
    /// Take the most probable token
    #[arg(long)]
    pub greedy: bool,
    /// Sampling temperature
    #[arg(long, default_value_t = 1.0, allow_negative_numbers = true, conflicts_with = "greedy")]
    pub temperature: f64,
    #[command(flatten)]
    pub truncation: TruncationArgs,
    /// A response is cut off here
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = whole::<usize>, allow_negative_numbers = true)]
    pub max_new_tokens: usize,
    /// No end token among the first so many tokens
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = whole::<usize>, allow_negative_numbers = true)]
    pub min_new_tokens: usize,
    /// Responses decoded at a time; when one ends, the next takes its slot. Changes no result
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = count, allow_negative_numbers = true)]
    pub batch: usize,
    /// Seed of the sampler
    #[arg(long, default_value_t = 0, value_parser = whole::<u64>, allow_negative_numbers = true)]
    pub seed: u64,
    /// Form of a response: text for a person, or a JSON line with its token ids; when not given, text on a terminal and JSON elsewhere
    #[arg(long, value_enum)]
    pub output: Option<OutputFormat>,
    #[command(flatten)]
    pub engine: EngineArgs,
}

#[derive(Serialize)]
struct Generated {
    ids: Vec<u32>,
    text: String,
    finish: RecordedFinish,
}

impl Command for GenerateArgs {
    /// Generates a response to each prompt, in order.
    fn run(&self) -> Result<()> {
        check_temperature(self.temperature, "; for the most probable token use --greedy")?;
        if self.max_new_tokens == 0 || self.min_new_tokens > self.max_new_tokens {
            let (min, max) = (self.min_new_tokens, self.max_new_tokens);
            let hint = "must be at least 1 and at least --min-new-tokens";
            return Err(Failure::refused(format!(
                "--max-new-tokens {max} with --min-new-tokens {min}: {hint}"
            )));
        }
        let truncation = self.truncation.checked(self.greedy.then_some("with --greedy"))?;
        let directory = self.model.open()?;
        let origin = origin(self)?;
        let asked = Asked::new(&self.form, None, origin.as_ref(), &directory)?;
        let model = load_model(&directory)?;
        let tokens = load_tokens(&directory, &model)?;
        let mut prompts =
            Prompts { args: self, model: &model, tokens: &tokens, asked: &asked, all: Vec::new() };
        surroundings(&asked.template, &tokens).iter().for_each(|line| say(line));
        prompts.given()?;
        if self.task > 0 {
            prompts.held_out(origin, &directory)?;
        }
        if prompts.all.is_empty() {
            return Err(Failure::refused("no prompt: give --prompt TEXT, --prompts FILE or --task N"));
        }
        match self.engine.server(model.config().vocab_size)? {
            Some((server, _)) => generate(&prompts, &remote(server, &model), truncation),
            None => generate(&prompts, &model, truncation),
        }
    }
}

/// The run that the model is from. One whose configuration cannot be read does not matter where nothing is taken from it.
fn origin(args: &GenerateArgs) -> Result<Option<Origin>> {
    match Origin::find(&args.model.model) {
        Err(_) if args.form.template.is_some() && args.task == 0 => Ok(None),
        Err(e) => Err(Failure::refused(format!(
            "{e}; it says how the model was trained to be asked: --template does without it"
        ))),
        origin => origin.map_err(Failure::refused),
    }
}

/// The prompts in order.
struct Prompts<'a> {
    args: &'a GenerateArgs,
    model: &'a Decoder<f32>,
    tokens: &'a ModelTokenizer,
    asked: &'a Asked,
    all: Vec<TextTokens>,
}

impl Prompts<'_> {
    /// Adds the prompts of `--prompt` and `--prompts`.
    fn given(&mut self) -> Result<()> {
        let (vocabulary, limit) = self.bounds();
        let mut has_text = !self.args.prompt.is_empty();
        for text in &self.args.prompt {
            self.text("--prompt", text)?;
        }
        if let Some(file) = &self.args.prompts {
            let (name, text) = input(Some(file))?;
            for line in lines(&name, &text, &["text", "ids"])? {
                match (line.text("text")?, line.ids("ids", vocabulary, limit)?) {
                    (Some(text), None) => {
                        has_text = true;
                        self.text(line.place(), text)?;
                    }
                    (None, Some(ids)) => self.add(line.place(), TextTokens::from_ids(ids, vocabulary))?,
                    (Some(_), Some(_)) => {
                        return Err(line.refused("text and ids: give one of them, not both"));
                    }
                    (None, None) => return Err(line.refused("text, ids: both are missing; give one of them")),
                }
            }
        }
        let Asked { template, from, .. } = self.asked;
        if has_text && template.name() != "no" {
            let form = self.asked.form();
            say(&format!("texts are asked with {form}, from {from}; --template no gives them as they stand"));
        }
        Ok(())
    }

    /// The first held-out problems of the run that the model is from; of the preset `tiny` for a model from elsewhere.
    fn held_out(&mut self, origin: Option<Origin>, directory: &Path) -> Result<()> {
        let wanted = self.args.task;
        let config = || Config::resolve("tiny", &[""; 0]).map_err(Failure::refused);
        let mut origin = match origin {
            Some(origin) => origin,
            None => Origin { run: directory.to_owned(), config: config()? },
        };
        if let TaskSource::Dataset(task) = &mut origin.config.task {
            let Asked { template, system, args, .. } = self.asked;
            (task.template, task.system) = (template.name().to_owned(), system.clone());
            task.template_args.clone_from(args);
        }
        let (_, limit) = self.bounds();
        let problems = origin.problems((directory, directory), (self.tokens, limit), &mut |_| ());
        let problems = problems.map_err(Failure::refused)?;
        let problems = problems.distinct(Split::Test, wanted).map_err(Failure::refused)?;
        if problems.len() < wanted {
            let n = problems.len();
            return Err(Failure::refused(format!("--task {wanted}: the task has {n} different problems")));
        }
        for problem in problems {
            say(&format!("{}answer: {}", problem.prompt, problem.answer_only()));
            self.add("--task", problem.encode(self.tokens))?;
        }
        Ok(())
    }

    /// Entries of the vocabulary, and positions.
    fn bounds(&self) -> (usize, usize) {
        (self.model.config().vocab_size, self.model.config().max_position_embeddings)
    }

    fn text(&mut self, place: &str, text: &str) -> Result<()> {
        let rendered = self.asked.template.prompt(text);
        let rendered = rendered.map_err(|e| Failure::refused(format!("{place}: {e}")))?;
        self.add(place, self.tokens.rendered(&rendered))
    }

    fn add(&mut self, place: &str, prompt: Result<TextTokens, TokenError>) -> Result<()> {
        let prompt = prompt.map_err(|e| Failure::refused(format!("{place}: {e}")))?;
        let (count, new, (_, limit)) = (prompt.ids().len(), self.args.max_new_tokens, self.bounds());
        if count == 0 {
            return Err(Failure::refused(format!("{place}: the prompt has no token; give at least one")));
        }
        if count.saturating_add(new) > limit {
            return Err(Failure::refused(format!(
                "{place}: the prompt has {count} tokens; with --max-new-tokens {new} it exceeds the model's limit of {limit} \
                 (max_position_embeddings)"
            )));
        }
        self.all.push(prompt);
        Ok(())
    }
}

/// A response to each, as text or as JSON lines.
fn generate(prompts: &Prompts<'_>, sampler: &dyn Sampler, truncation: Truncation) -> Result<()> {
    let Prompts { args, tokens, asked, all, .. } = prompts;
    let sampling = SamplingParams {
        max_new_tokens: args.max_new_tokens,
        min_new_tokens: args.min_new_tokens,
        temperature: if args.greedy { 0.0 } else { args.temperature },
    };
    let stops = Stops { passed_over: args.min_new_tokens, ..Stops::new(tokens, asked.template.stop()) };
    let stopping = StoppingCriteria { max_lengths: &[], complete: stops.test() };
    let base = Address::new(args.seed, Purpose::Evaluation);
    let ids: Vec<&[u32]> = all.iter().map(TextTokens::ids).collect();
    let address = |prompt: usize, _| base.prompt(prompt as u64);
    let request = SamplingRequest {
        truncation,
        stopping,
        slots: Some(args.batch),
        ..SamplingRequest::new(&ids, 1, tokens.eos(), sampling, &address)
    };
    let responses = sampler.generate(&request).map_err(Failure::broke)?;
    let mut out = String::new();
    let default = if std::io::stdout().is_terminal() { OutputFormat::Text } else { OutputFormat::Json };
    let output = args.output.unwrap_or(default);
    for (number, response) in responses.into_iter().flatten().enumerate() {
        let text = stops.text(&response.tokens).map_err(Failure::broke)?;
        let finish = RecordedFinish::new(&response, tokens.eos());
        if output == OutputFormat::Text {
            out += if number > 0 { "\n" } else { "" };
            out += &format!("{}\n", visible(&text));
            continue;
        }
        out += &serde_json::to_string(&Generated { ids: response.tokens, text, finish })
            .map_err(Failure::broke)?;
        out.push('\n');
    }
    print(&out)
}
