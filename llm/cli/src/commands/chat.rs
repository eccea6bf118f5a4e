//! `llm-train chat`: a conversation with a model in the terminal.

use std::io::{BufRead, IsTerminal, Write};
use std::path::Path;

use grpo_lambda_decoder::generate::{Sampler, SamplingParams, SamplingRequest, StoppingCriteria};
use grpo_lambda_decoder::model::Decoder;
use grpo_lambda_decoder::rng::{Address, Purpose};
use grpo_lambda_stats::visible;

use super::asked::Asked;
use super::options::{ModelArgs, PromptArgs};
use super::{Command, Failure, Result, check_temperature, count, load_model, load_tokens, print, whole};
use grpo_lambda_trainer::eval::origin::Origin;
use grpo_lambda_trainer::input::prompt::{CHAT, Message};
use grpo_lambda_trainer::input::stops::Stops;
use grpo_lambda_trainer::input::tokens::ModelTokenizer;
use grpo_lambda_trainer::run::progress::say;

/// Arguments of `chat`.
#[derive(Clone, Debug, clap::Args)]
pub struct ChatArgs {
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    pub prompt: PromptArgs,
    /// Sampling temperature; 0 for the most probable token
    #[arg(long, default_value_t = 0.7, allow_negative_numbers = true)]
    pub temperature: f64,
    /// A response is cut off here
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = count, allow_negative_numbers = true)]
    pub max_new_tokens: usize,
    /// Seed of the sampler
    #[arg(long, default_value_t = 0, value_parser = whole::<u64>, allow_negative_numbers = true)]
    pub seed: u64,
}

impl Command for ChatArgs {
    /// Answers each line of standard input until it ends, or `/quit`; `/help` lists the commands, `/reset` forgets what was said. Control characters of an answer are spelt
    /// out, wherever it goes.
    fn run(&self) -> Result<()> {
        if self.temperature != 0.0 {
            check_temperature(self.temperature, ", or 0 for the most probable token")?;
        }
        let directory = self.model.open()?;
        let asked = asked(self, &directory)?;
        let model = load_model(&directory)?;
        let tokens = load_tokens(&directory, &model)?;
        let remembers = if asked.template.is_chat() { "" } else { "; every line is asked by itself" };
        say(&format!(
            "{} is asked with {}{remembers}; /help lists the commands",
            directory.display(),
            asked.form()
        ));
        let mut chat =
            Chat { args: self, model: &model, tokens: &tokens, asked: &asked, said: Vec::new(), turn: 0 };
        chat.converse()
    }
}

/// The template that is meant: the one given, the run's, or the checkpoint's own.
fn asked(args: &ChatArgs, directory: &Path) -> Result<Asked> {
    let origin = match Origin::find(&args.model.model) {
        Err(_) if args.prompt.template.is_some() => None,
        origin => origin.map_err(Failure::refused)?,
    };
    let own = ["chat_template.jinja", "tokenizer_config.json"].into_iter().any(|name| {
        std::fs::read_to_string(directory.join(name))
            .is_ok_and(|text| name.ends_with(".jinja") || text.contains("\"chat_template\""))
    });
    let own = (origin.is_none() && own).then_some((CHAT, "the checkpoint"));
    Asked::new(&args.prompt, own, origin.as_ref(), directory)
}

/// A conversation under way.
struct Chat<'a> {
    args: &'a ChatArgs,
    model: &'a Decoder<f32>,
    tokens: &'a ModelTokenizer,
    asked: &'a Asked,
    said: Vec<Message>,
    turn: u64,
}

impl Chat<'_> {
    fn converse(&mut self) -> Result<()> {
        let terminal = std::io::stdin().is_terminal();
        for line in self.lines(terminal) {
            let line =
                line.map_err(|e| Failure::refused(format!("stdin: cannot be read as UTF-8 text: {e}")))?;
            match line.trim() {
                "" => {}
                "/quit" | "/exit" => return Ok(()),
                "/reset" => self.said.clear(),
                "/help" => say(
                    "/reset forgets what was said, /quit or the end of the input ends; any other line is said to the model",
                ),
                text => {
                    if let Some(answer) = self.answer(text)? {
                        print(&format!("{}\n", visible(&answer)))?;
                    }
                }
            }
            prompt(terminal);
        }
        Ok(())
    }

    fn lines(&self, terminal: bool) -> impl Iterator<Item = std::io::Result<String>> + use<> {
        prompt(terminal);
        std::io::stdin().lock().lines()
    }

    /// The model's answer to the user's turn; the conversation keeps both. `None`, and a word, where the context has no room for the turn, which is
    /// then forgotten.
    fn answer(&mut self, text: &str) -> Result<Option<String>> {
        let (args, tokens, template) = (self.args, self.tokens, &self.asked.template);
        self.said.push(Message::new("user", text));
        let rendered = template.conversation(&self.said).map_err(Failure::refused)?;
        let prompt = tokens.rendered(&rendered).map_err(Failure::refused)?;
        let limit = self.model.config().max_position_embeddings;
        let room = limit.saturating_sub(prompt.ids().len());
        if room == 0 || prompt.ids().is_empty() {
            self.said.pop();
            say(&format!(
                "the conversation has {} tokens, and the model's limit is {limit} (max_position_embeddings): this line is not asked; /reset begins again",
                prompt.ids().len()
            ));
            return Ok(None);
        }
        let sampling = SamplingParams::new(args.max_new_tokens.min(room), args.temperature);
        let stops = Stops::new(tokens, template.stop());
        let base = Address::new(args.seed, Purpose::Evaluation).prompt(self.turn);
        let address = |_, _| base;
        let ids = [prompt.ids()];
        let request = SamplingRequest {
            stopping: StoppingCriteria { max_lengths: &[], complete: stops.test() },
            ..SamplingRequest::new(&ids, 1, tokens.eos(), sampling, &address)
        };
        let responses = self.model.generate(&request).map_err(Failure::broke)?;
        self.turn += 1;
        let ids = responses.into_iter().flatten().next().map_or(Vec::new(), |response| response.tokens);
        let answer = stops.text(&ids).map_err(Failure::broke)?;
        self.said.push(Message::new("assistant", &answer));
        Ok(Some(answer))
    }
}

/// Shows that a line is waited for.
fn prompt(terminal: bool) {
    if terminal {
        drop(write!(std::io::stderr(), "> "));
    }
}
