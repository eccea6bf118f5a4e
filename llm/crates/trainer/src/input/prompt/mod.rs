//! Prompts: the texts that a model gets for problems.
//!
//! A [`Template`] is a shipped one ([`NAMED_TEMPLATES`]), a checkpoint's own chat template, or a Jinja file. It also knows the form of responses:
//! the place of the answer ([`Template::extraction`]), the texts that end a response ([`Template::stop`]), and the target for a worked solution
//! ([`Template::target`]).
//!
//! ```
//! use grpo_lambda_trainer::input::prompt::Template;
//! let template = Template::load("r1", None)?;
//! let prompt = template.prompt("What is 2 + 3?")?;
//! assert!(prompt.text.ends_with("User: What is 2 + 3?\nAssistant: <think>"));
//! assert_eq!(template.stop(), ["</answer>"]);
//! assert_eq!(template.target("2 + 3 = 5", "5"), " 2 + 3 = 5 </think> <answer> 5 </answer>");
//! # Ok::<(), grpo_lambda_trainer::input::prompt::PromptError>(())
//! ```

mod chat;
mod form;
mod named;
mod python;
#[doc(hidden)]
pub mod target;

use std::path::{Path, PathBuf};

pub use chat::{ChatTemplate, Message, arguments};
pub use form::PromptForm;
use named::BLANK_LINES;
pub use named::{NAMED_TEMPLATES, NamedTemplate, SolvedExample};

use grpo_lambda::settings::did_you_mean;
use grpo_lambda_grade::Extraction;
use target::TargetStyle;

/// The reason why there is no prompt.
#[derive(Debug, thiserror::Error)]
pub enum PromptError {
    #[error(
        "template `{name}`: neither a shipped template nor a file or directory{hint}; shipped: {}, chat",
        named::listed()
    )]
    Unknown { name: String, hint: String },
    /// The chat template of a checkpoint, without a checkpoint.
    #[error(
        "template `{0}`: takes the chat template of a checkpoint, and there is none; give one, or another template"
    )]
    NoCheckpoint(String),
    #[error("{path}: cannot be read: {source}")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{path}: {problem}")]
    Invalid { path: PathBuf, problem: String },
    /// A template that is not valid, or that refused the conversation.
    #[error("{origin}: {problem}")]
    Template { origin: String, problem: String },
    /// Arguments that cannot be given to a template.
    #[error("template arguments {args}: {problem}")]
    Arguments { args: String, problem: String },
    /// A row's turns for a template that takes one problem.
    #[error(
        "template `{name}`: takes one problem, and the row has {turns} turns; choose a chat template (chat, open_r1, or a Jinja file)"
    )]
    OneProblem { name: String, turns: usize },
    /// A turn of a row that is not in its prompt.
    #[error(
        "template `{name}`: leaves out the turn of the {role} that a row has; give that turn a role that the template writes, or choose another template"
    )]
    LostTurn { name: String, role: String },
    /// A problem that is not in its prompt.
    #[error(
        "template `{0}`: leaves out the problem; write the `content` of the last of `messages`, the list that a chat template reads"
    )]
    NoProblem(String),
    /// Solved examples that are not in the prompt.
    #[error("template `{0}`: leaves out the solved examples; write all `messages`, or ask without --shots")]
    NoSolved(String),
    /// Two system prompts.
    #[error(
        "template `{0}`: has a system prompt, and the row another; leave out task.system (--system), or the row's"
    )]
    TwoSystems(String),
    /// A system prompt for a template that has no place for one.
    #[error("template `{0}`: has no place for a system prompt; leave it out, or use a chat template")]
    NoSystem(String),
}

/// A prompt as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderedPrompt {
    pub text: String,
    /// True if the tokenizer adds its own special tokens. A chat template has already written them, and a second BOS costs accuracy.
    pub special_tokens: bool,
}

#[derive(Clone, Debug)]
enum TemplateKind {
    Named(&'static NamedTemplate),
    Chat(ChatTemplate),
}

/// The form of prompts and responses.
#[derive(Clone, Debug)]
pub struct Template {
    name: String,
    kind: TemplateKind,
    system: Option<String>,
    solved: Vec<SolvedExample>,
    stop: Vec<String>,
    extraction: Extraction,
    style: TargetStyle,
}

/// The word for the checkpoint's own chat template.
pub const CHAT: &str = "chat";

impl Template {
    /// A template by its name ([`NAMED_TEMPLATES`], or `chat` for the chat template of the checkpoint `model`), or a Jinja file, or a directory with a
    /// `chat_template.jinja` or `tokenizer_config.json`. It is tried on a problem, so that one that fails is refused here.
    pub fn load(name: &str, model: Option<&Path>) -> Result<Template, PromptError> {
        let checkpoint = || -> Result<ChatTemplate, PromptError> {
            ChatTemplate::load(model.ok_or_else(|| PromptError::NoCheckpoint(name.to_owned()))?)
        };
        let template = match NAMED_TEMPLATES.iter().find(|n| n.name == name) {
            Some(named) => Template {
                name: name.to_owned(),
                kind: if named.is_chat {
                    TemplateKind::Chat(checkpoint()?)
                } else {
                    TemplateKind::Named(named)
                },
                system: named.system.map(str::to_owned),
                solved: Vec::new(),
                stop: named.stop.iter().map(|s| (*s).to_owned()).collect(),
                extraction: named.extraction,
                style: named.style,
            },
            None => {
                let path = Path::new(name);
                let chat = match path {
                    _ if name == CHAT => checkpoint()?,
                    path if path.is_dir() => ChatTemplate::load(path)?,
                    path if path.is_file() => ChatTemplate::file(path, model)?,
                    _ => {
                        let known = NAMED_TEMPLATES.iter().map(|n| n.name).chain([CHAT]);
                        return Err(PromptError::Unknown {
                            name: name.to_owned(),
                            hint: did_you_mean(name, known),
                        });
                    }
                };
                Template {
                    name: name.to_owned(),
                    kind: TemplateKind::Chat(chat),
                    system: None,
                    solved: Vec::new(),
                    stop: Vec::new(),
                    extraction: Extraction::Boxed,
                    style: TargetStyle::BOXED,
                }
            }
        };
        template.prompt("What is $1+1$?")?;
        Ok(template)
    }

    /// A template with its system prompt and arguments.
    ///
    /// # Errors
    /// The errors of [`Template::load`], [`Template::with_system`] and [`Template::with_args`]; [`PromptError::NoProblem`] if two problems have one
    /// prompt.
    pub fn of_form(form: PromptForm<'_>, model: Option<&Path>) -> Result<Template, PromptError> {
        let PromptForm { template, system, args } = form;
        let mut template = Template::load(template, model)?;
        if let Some(args) = args {
            template = template.with_args(args)?;
        }
        if let Some(system) = system {
            template = template.with_system(system)?;
        }
        let [one, other] = ["What is $1+1$?", "What is $1+2$?"].map(|problem| template.prompt(problem));
        match one?.text == other?.text {
            true => Err(PromptError::NoProblem(template.name)),
            false => Ok(template),
        }
    }

    /// This template with arguments, a JSON object.
    ///
    /// # Errors
    /// If it is no chat template, or does not read one of them, or refuses them.
    pub fn with_args(self, args: &str) -> Result<Template, PromptError> {
        let refused = |problem: String| PromptError::Arguments { args: args.to_owned(), problem };
        let TemplateKind::Chat(chat) = self.kind else {
            return Err(refused(format!("template `{}` takes none; choose a chat template", self.name)));
        };
        let chat = arguments(args).and_then(|args| chat.with_args(args)).map_err(refused)?;
        let template = Template { kind: TemplateKind::Chat(chat), ..self };
        template.prompt("What is $1+1$?")?;
        Ok(template)
    }

    /// True if it prints a date.
    pub fn prints_dates(&self) -> bool {
        matches!(&self.kind, TemplateKind::Chat(chat) if chat.prints_dates())
    }

    /// This template with another system prompt.
    pub fn with_system(self, system: &str) -> Result<Template, PromptError> {
        if matches!(self.kind, TemplateKind::Named(named) if named.system.is_none()) {
            return Err(PromptError::NoSystem(self.name));
        }
        let template = Template { system: Some(system.to_owned()), ..self };
        template.prompt("What is $1+1$?")?;
        Ok(template)
    }

    /// This template with solved examples before every problem. In a template without turns two blank lines separate them, and end a response.
    pub fn with_solved(self, solved: Vec<SolvedExample>) -> Result<Template, PromptError> {
        let mut template = Template { solved, ..self };
        if matches!(template.kind, TemplateKind::Named(named) if named.turn_end == BLANK_LINES) {
            template.solved = template.solved.into_iter().map(SolvedExample::without_blank_lines).collect();
            template.stop.push(BLANK_LINES.to_owned());
        }
        let unsolved = Template { solved: Vec::new(), ..template.clone() };
        let [with, without] = [&template, &unsolved].map(|of| of.prompt("What is $1+1$?"));
        match with?.text == without?.text && !template.solved.is_empty() {
            true => Err(PromptError::NoSolved(template.name)),
            false => Ok(template),
        }
    }

    /// The prompt of a problem after the turns of its conversation.
    ///
    /// # Errors
    /// If the template refuses them, or takes one problem.
    pub fn asked(&self, before: &[Message], problem: &str) -> Result<RenderedPrompt, PromptError> {
        let (TemplateKind::Chat(_), [first, ..]) = (&self.kind, before) else {
            return match before {
                [] => self.prompt(problem),
                turns => Err(PromptError::OneProblem { name: self.name.clone(), turns: turns.len() + 1 }),
            };
        };
        let systems = usize::from(first.role == "system");
        if systems == 1 && self.system.is_some() {
            return Err(PromptError::TwoSystems(self.name.clone()));
        }
        let (system, rest) = before.split_at(systems);
        let turns = system.iter().cloned().chain(self.solved_turns()).chain(rest.iter().cloned());
        let prompt = self.conversation(&turns.chain([Message::new("user", problem)]).collect::<Vec<_>>())?;
        // Of what the assistant said a template may leave the thoughts out.
        let is_lost =
            |turn: &&Message| turn.role != "assistant" && !prompt.text.contains(turn.content.trim());
        match before.iter().find(is_lost) {
            Some(turn) => Err(PromptError::LostTurn { name: self.name.clone(), role: turn.role.clone() }),
            None => Ok(prompt),
        }
    }

    /// The solved examples as turns.
    fn solved_turns(&self) -> impl Iterator<Item = Message> + '_ {
        let turns =
            |e: &SolvedExample| [Message::new("user", &e.problem), Message::new("assistant", &e.response)];
        self.solved.iter().flat_map(turns)
    }

    /// The prompt of a problem.
    pub fn prompt(&self, problem: &str) -> Result<RenderedPrompt, PromptError> {
        match &self.kind {
            TemplateKind::Named(named) => Ok(RenderedPrompt {
                text: named.render(self.system.as_deref(), &self.solved, problem),
                special_tokens: true,
            }),
            TemplateKind::Chat(_) => {
                let turns = self.solved_turns().chain([Message::new("user", problem)]);
                self.conversation(&turns.collect::<Vec<_>>())
            }
        }
    }

    /// True if it has turns and so can render conversations.
    pub fn is_chat(&self) -> bool {
        matches!(self.kind, TemplateKind::Chat(_))
    }

    /// The prompt of a conversation that ends with the user's turn; a template without turns takes that turn alone.
    pub fn conversation(&self, turns: &[Message]) -> Result<RenderedPrompt, PromptError> {
        match &self.kind {
            TemplateKind::Named(_) => self.prompt(turns.last().map_or("", |turn| turn.content.as_str())),
            TemplateKind::Chat(chat) => {
                let system = self.system.as_deref().map(|text| Message::new("system", text));
                let messages: Vec<Message> = system.into_iter().chain(turns.iter().cloned()).collect();
                let text = chat.render(&messages, true)?;
                match self.system.as_deref().is_none_or(|system| text.contains(system.trim())) {
                    true => Ok(RenderedPrompt { text, special_tokens: false }),
                    false => Err(PromptError::NoSystem(self.name.clone())),
                }
            }
        }
    }

    /// Its name, or the path it was read from.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Texts that end a response, besides the tokenizer's end tokens; such a text belongs to the response: see [`super::stops`].
    pub fn stop(&self) -> &[String] {
        &self.stop
    }

    /// The place of the answer in a response.
    pub fn extraction(&self) -> Extraction {
        self.extraction
    }

    /// A worked solution as a target response, from which [`Template::extraction`] reads `answer`. Annotations of GSM8K (`<<2+3=5>>`) and
    /// its last line (`#### 5`) are left out.
    pub fn target(&self, solution: &str, answer: &str) -> String {
        self.style.worked(solution, answer)
    }

    /// The answer alone as a target response.
    pub fn answer_only(&self, answer: &str) -> String {
        self.style.answer_only(answer)
    }
}
