//! Chat templates of checkpoints: Jinja, rendered as transformers does.
//!
//! transformers compiles them in jinja2's sandbox with `trim_blocks` and `lstrip_blocks`, with filters and functions of its own: `tojson` that is Python's
//! `json.dumps` and escapes nothing, `raise_exception`, `strftime_now`. The same is set up here for minijinja, with the methods of Python's
//! strings and dictionaries. `{% generation %}` marks the assistant's text for a mask that is not made here; its content is rendered.
//!
//! The clock of `strftime_now` stands still: a prompt that changes daily would make a run irreproducible.

use std::path::Path;
use std::sync::Arc;

use chrono::DateTime;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Serde, Value};
use minijinja::{Environment, Error, ErrorKind};
use serde_json::{Map, Value as Json};

use grpo_lambda::settings::did_you_mean;

use super::PromptError;
use super::python;
use crate::bounded::{self, limits};
use crate::input::tokenizer_config::{self, TokenizerConfig, Unusable};
use grpo_lambda_decoder::disk::read_regular_text;

/// A turn of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Message {
    /// `system`, `user` or `assistant`.
    pub role: String,
    pub content: String,
}

impl Message {
    /// A turn.
    pub fn new(role: &str, content: &str) -> Message {
        Message { role: role.to_owned(), content: content.to_owned() }
    }
}

/// The time that `strftime_now` returns: always noon of 1 January 2025.
fn strftime_now(pattern: &str) -> Result<String, Error> {
    use std::fmt::Write as _;
    const NOON: i64 = 1_735_732_800;
    let (noon, mut out) = (DateTime::from_timestamp(NOON, 0).unwrap_or_default().naive_utc(), String::new());
    // chrono fails where a pattern is none of its own, and to_string would panic.
    match write!(out, "{}", noon.format(pattern)) {
        Ok(()) => Ok(out),
        Err(_) => {
            Err(Error::new(ErrorKind::InvalidOperation, format!("strftime_now cannot read {pattern:?}")))
        }
    }
}

/// A compiled chat template with the special tokens it may write.
#[derive(Clone, Debug)]
pub struct ChatTemplate {
    environment: Arc<Environment<'static>>,
    special: Map<String, Json>,
    /// Arguments besides the conversation.
    args: Map<String, Json>,
    /// True if it reads the clock.
    prints_dates: bool,
    origin: String,
}

/// Names that every rendering gives.
const GIVEN: [&str; 4] = ["messages", "tools", "documents", "add_generation_prompt"];

/// Functions of templates, which are no arguments.
const FUNCTIONS: [&str; 5] = ["raise_exception", "strftime_now", "dict", "namespace", "range"];

/// The arguments of a template.
pub fn arguments(text: &str) -> Result<Map<String, Json>, String> {
    let args = serde_json::from_str(text)
        .map_err(|e| format!("{e}; must be a JSON object, as in {{\"enable_thinking\": false}}"))?;
    crate::input::json::fields(text).map(|_| args)
}

const TEMPLATE: &str = "chat";

impl ChatTemplate {
    /// The chat template of a checkpoint directory: `chat_template.jinja`, or `chat_template` of `tokenizer_config.json` (the one named `default` where there
    /// are several).
    ///
    /// # Errors
    /// [`PromptError`] when there is none, or it is not valid.
    pub fn load(directory: &Path) -> Result<ChatTemplate, PromptError> {
        let config_path = directory.join(tokenizer_config::FILE);
        let config = config(directory)?;
        let special = special_tokens(config.as_ref());
        let file = directory.join("chat_template.jinja");
        if let Some(source) = read(&file)? {
            return ChatTemplate::new(&source, special, &file.display().to_string());
        }
        let invalid =
            |problem: &str| PromptError::Invalid { path: config_path.clone(), problem: problem.to_owned() };
        let Some(config) = config else {
            let problem =
                "no chat template: neither chat_template.jinja nor tokenizer_config.json is there".to_owned();
            return Err(PromptError::Invalid { path: directory.to_owned(), problem });
        };
        let source = match config.fields.get("chat_template") {
            Some(Json::String(source)) => source.clone(),
            Some(Json::Array(several)) => {
                let default =
                    several.iter().find(|t| t["name"] == "default").and_then(|t| t["template"].as_str());
                default
                    .ok_or_else(|| invalid("chat_template: several, and none is named `default`"))?
                    .to_owned()
            }
            None | Some(Json::Null) => {
                return Err(invalid(
                    "no `chat_template`; this checkpoint has none, so choose a template by name or file",
                ));
            }
            Some(_) => return Err(invalid("chat_template: must be a text or a list of named ones")),
        };
        ChatTemplate::new(&source, special, &config_path.display().to_string())
    }

    /// A Jinja file, with the special tokens of the checkpoint `model` where one is given.
    pub fn file(path: &Path, model: Option<&Path>) -> Result<ChatTemplate, PromptError> {
        let missing = || PromptError::Invalid { path: path.to_owned(), problem: "no such file".to_owned() };
        let source = read(path)?.ok_or_else(missing)?;
        let config = model.map(config).transpose()?.flatten();
        let special = special_tokens(config.as_ref());
        ChatTemplate::new(&source, special, &path.display().to_string())
    }

    /// A template given as text, with the special tokens that it may write (`bos_token` and so on); `origin` names it in errors.
    pub fn new(source: &str, special: Map<String, Json>, origin: &str) -> Result<ChatTemplate, PromptError> {
        let invalid = |problem: String| PromptError::Template { origin: origin.to_owned(), problem };
        let longest = limits::LONGEST_TEMPLATE;
        if source.len() > longest {
            return Err(invalid(format!("{} bytes long; a chat template may have {longest}", source.len())));
        }
        let prints_dates = source.contains("strftime_now");
        // jinja2 makes every line break of a template a line feed.
        let source = source.replace("\r\n", "\n").replace('\r', "\n");
        let compiled = bounded::run(limits::TEMPLATE, move || {
            let mut environment = environment();
            let added = environment.add_template_owned(TEMPLATE, without_generation(&source));
            added.map(|()| environment).map_err(|e| words(&e))
        });
        let environment = compiled.map_err(|e| invalid(e.to_string()))?.map_err(invalid)?;
        let (environment, args, origin) = (Arc::new(environment), Map::new(), origin.to_owned());
        Ok(ChatTemplate { environment, special, args, prints_dates, origin })
    }

    /// This template with arguments.
    pub fn with_args(&self, args: Map<String, Json>) -> Result<ChatTemplate, String> {
        let template = self.environment.get_template(TEMPLATE).map_err(|e| words(&e))?;
        let mut read: Vec<String> = template.undeclared_variables(false).into_iter().collect();
        read.retain(|name| !GIVEN.contains(&name.as_str()) && !FUNCTIONS.contains(&name.as_str()));
        read.sort();
        match args.keys().find(|name| !read.contains(name)) {
            Some(name) => {
                let hint = did_you_mean(name, read.iter().map(String::as_str));
                let all = if read.is_empty() { "no arguments".to_owned() } else { read.join(", ") };
                Err(format!("the template does not read `{name}`{hint}; it reads {all}"))
            }
            None => Ok(ChatTemplate { args, ..self.clone() }),
        }
    }

    /// True if it reads the clock.
    pub fn prints_dates(&self) -> bool {
        self.prints_dates
    }

    /// The text of a conversation; with `add_generation_prompt` up to where the assistant begins to speak.
    pub fn render(&self, messages: &[Message], add_generation_prompt: bool) -> Result<String, PromptError> {
        let mut context = self.special.clone();
        context.extend(self.args.clone());
        let messages = serde_json::to_value(messages).unwrap_or_default();
        let given = [
            ("messages", messages),
            // transformers passes these as None, so that `is defined` holds.
            ("tools", Json::Null),
            ("documents", Json::Null),
            ("add_generation_prompt", Json::Bool(add_generation_prompt)),
        ];
        context.extend(given.map(|(name, value)| (name.to_owned(), value)));
        let environment = self.environment.clone();
        let rendered = bounded::run(limits::TEMPLATE, move || {
            let render = || environment.get_template(TEMPLATE)?.render(Serde(context));
            let (rendered, kept) = bounded::kept(|| render().map_err(|e| words(&e)));
            let text = rendered?;
            match usize::try_from(kept).is_ok_and(|kept| kept > text.capacity() + limits::LEFT_OVER) {
                true => Err(format!("it leaves {kept} bytes after: one of its values contains itself")),
                false => Ok(text),
            }
        });
        let refused = |problem| PromptError::Template { origin: self.origin.clone(), problem };
        rendered.map_err(|e| refused(e.to_string()))?.map_err(refused)
    }
}

fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    if let Ok(syntax) = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build() {
        environment.set_syntax(syntax);
    }
    environment.set_fuel(Some(limits::TEMPLATE_STEPS));
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.set_formatter(|out, _, value| {
        write!(out, "{}", python::text(value))?;
        Ok(())
    });
    environment.add_filter("tojson", python::tojson);
    environment.add_filter("string", |value: &Value| python::text(value));
    environment.add_function("raise_exception", |message: String| -> Result<Value, Error> {
        Err(Error::new(
            ErrorKind::InvalidOperation,
            format!("the template refuses the conversation: {message}"),
        ))
    });
    environment.add_function("dict", |kwargs: Kwargs| -> Result<Value, Error> {
        let pairs = kwargs.args().map(|name| Ok((name.to_owned(), kwargs.get::<Value>(name)?)));
        pairs.collect::<Result<Vec<_>, Error>>().map(|pairs| pairs.into_iter().collect::<Value>())
    });
    environment.add_function("strftime_now", strftime_now);
    environment
}

/// Removes the marks `{% generation %}`, an extension by transformers; their content stays.
fn without_generation(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find("{%") {
        let (before, tag) = rest.split_at(at);
        out.push_str(before);
        let Some(end) = tag.find("%}") else {
            rest = tag;
            break;
        };
        let (tag, after) = tag.split_at(end + 2);
        let inside = tag[2..tag.len() - 2].trim_matches(['-', '+']).trim();
        match inside {
            "generation" => out.push_str(&tag.replace("generation", "if true")),
            "endgeneration" => out.push_str(&tag.replace("endgeneration", "endif")),
            _ => out.push_str(tag),
        }
        rest = after;
    }
    out + rest
}

/// The message of an error and its place in the template.
fn words(error: &Error) -> String {
    let what = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
    let line = error.line().map_or(String::new(), |line| format!("line {line} of the template: "));
    let what = if error.kind() == ErrorKind::OutOfFuel { "it takes too many steps".to_owned() } else { what };
    format!("{line}{what}")
}

fn read(path: &Path) -> Result<Option<String>, PromptError> {
    match read_regular_text(path, limits::LARGEST_FILE) {
        Ok(text) => Ok(Some(text)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(PromptError::Read { path: path.to_owned(), source }),
    }
}

fn config(directory: &Path) -> Result<Option<TokenizerConfig>, PromptError> {
    TokenizerConfig::read(directory)
        .map_err(|Unusable { path, problem }| PromptError::Invalid { path, problem })
}

/// The special tokens that a template may write, by name.
fn special_tokens(config: Option<&TokenizerConfig>) -> Map<String, Json> {
    let named = config.map(TokenizerConfig::named).unwrap_or_default();
    named.into_iter().map(|(name, token)| (name, token.into())).collect()
}
