//! The command line of `llm-train`.

use std::collections::BTreeMap;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser};
use grpo_lambda::methods;
use grpo_lambda::settings::did_you_mean;

use crate::cli_advice;
use crate::commands::{self, Command as _, Failure, Subcommand};
use grpo_lambda_trainer::config::{Config, FIELDS};
use grpo_lambda_trainer::run::progress::{be_quiet, say};

/// Train a language model with verified critic-free methods
///
/// Without arguments: the preset `tiny` learns arithmetic word problems from nothing, by imitation and then by
/// GRPO-lambda, on this machine's processor, in a few minutes.
#[derive(Debug, Parser)]
#[command(name = "llm-train", version = VERSION, after_help = AFTER_HELP, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Subcommand>,
    #[command(flatten)]
    train: commands::train::TrainArgs,
    /// Say nothing but warnings, errors and the result
    #[arg(long, global = true)]
    quiet: bool,
}

/// Number, commit and features.
const VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (commit: ",
    env!("LLM_TRAIN_COMMIT"),
    "; features: ",
    env!("LLM_TRAIN_FEATURES"),
    ")"
);

const AFTER_HELP: &str = "\
Examples:
  llm-train                                          the preset tiny, into runs/tiny
  llm-train rl.steps=50 method.lambda=0.9            with other settings; llm-train train --help lists them all
  llm-train train --preset my.toml --run runs/mine   a preset of your own; the same command again resumes it
  llm-train plot runs/tiny                           its curves, also while it runs
  llm-train doctor runs/tiny                         what is wrong with it, with the numbers and the setting to change
  llm-train compare --methods grpo,grpo_lambda:style=both --seeds 5
  llm-train reproduce --table 3 --dry-run            the runs of a table of the paper, and what they take
  llm-train eval --model runs/tiny                   accuracy on problems it never met, with a report
  llm-train explain tiny method.beta=0.04            the objective, as an equation with its numbers
  llm-train train --preset finetune model.checkpoint=DIR task.data=FILE --dry-run
                                                     a checkpoint and data of one's own: what the run would be
  llm-train chat --model DIR                         a conversation; llm-train export writes a plain checkpoint
  llm-train generate --model runs/tiny --prompt 'Tom has 3 apples ...'
  llm-train score --model DIR < ids.jsonl            log-probabilities of token sequences
  llm-train data gsm8k.jsonl --template r1           what a data set holds, and what the model would see of it
  llm-train grade < cases.jsonl                      answers against references, as mathematics
  llm-train merge --model BASE --adapter DIR --out DIR
                                                     base and adapter as one plain checkpoint
  llm-train info --model DIR                         parameters and memory

Exit code: 0 when the work was done, 1 when it broke off (or the doctor found something), 2 when the input was refused.";

/// Every setting with its meaning, and the value that it has under the preset on the command line.
pub(crate) fn settings_help() -> String {
    let words: Vec<String> = std::env::args().collect();
    let after = |(i, word): (usize, &String)| match word.strip_prefix("--preset") {
        Some("") => words.get(i + 1).cloned(),
        Some(rest) => rest.strip_prefix('=').map(str::to_owned),
        None => None,
    };
    let named = words.iter().enumerate().find_map(after);
    let none: [&str; 0] = [];
    let resolved = |preset: &str| Config::resolve_part(preset, &none).ok();
    // A preset that is refused is refused when it is used.
    let preset = named.filter(|name| resolved(name).is_some()).unwrap_or_else(|| "tiny".to_owned());
    let values: BTreeMap<String, String> = resolved(&preset)
        .iter()
        .flat_map(Config::entries)
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    let mut text = format!("Settings, with the values they have under --preset {preset}:\n");
    for field in FIELDS {
        let value = values.get(field.key).map_or(field.default, String::as_str);
        text += &format!("  {}={value}\n          {}: {}\n", field.key, field.about, field.kind);
    }
    let methods: Vec<&str> = methods::REGISTRY.iter().map(|m| m.name).collect();
    let method = values.get("method.name").map_or("", String::as_str);
    text += &format!("  method.name={method}\n          the method: {}\n", methods.join(", "));
    text + "  method.KEY=VALUE\n          its settings; llm-train explain shows them with their values"
}

/// Runs `llm-train` with the arguments of the process.
pub fn main() -> ExitCode {
    let done = match Cli::try_parse() {
        Ok(cli) => dispatch(cli),
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            commands::print(&error.to_string())
        }
        Err(error) => {
            let text = error.to_string();
            let said = text.lines().take_while(|l| !l.starts_with("Usage") && !l.starts_with("For more"));
            let first = said.map(str::trim).filter(|l| !l.is_empty()).collect::<Vec<_>>().join(" ");
            let message = first.trim().trim_start_matches("error: ").to_owned();
            let message = match advice(&error) {
                // Clap's own advice, to write `--` before a value, would lead further astray.
                Some(advice) => format!("{}: {advice}", message.split(" tip: ").next().unwrap_or(&message)),
                None => message,
            };
            Err(Failure::refused(format!("{message}; see llm-train --help")))
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) if failure.message.is_empty() => ExitCode::from(failure.code),
        Err(failure) => {
            let kind = if failure.signal().is_some() { "" } else { "error: " };
            say(&format!("llm-train: {kind}{}", failure.message));
            ExitCode::from(failure.code)
        }
    }
}

/// The setting that an unknown option may have meant, for a command that takes settings.
fn advice(error: &clap::Error) -> Option<String> {
    let option = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(option)) if error.kind() == ErrorKind::UnknownArgument => option.clone(),
        _ => return None,
    };
    // What clap finds among the command's own options is nearer.
    if error.get(ContextKind::SuggestedArg).is_some() {
        return None;
    }
    let words: Vec<String> = std::env::args().collect();
    let (line, settings) = (command_line(), |name: &clap::builder::Str| name.contains("key=value"));
    let takes_settings = words.get(1).is_none_or(|word| {
        let positionals = line.find_subcommand(word).into_iter().flat_map(clap::Command::get_positionals);
        let mut names = positionals.filter_map(clap::Arg::get_value_names).flatten();
        word.starts_with('-') || names.any(settings)
    });
    let place = words.iter().position(|word| *word == option || word.starts_with(&format!("{option}=")))?;
    let value = match words[place].split_once('=') {
        Some((_, value)) => Some(value),
        None => words.get(place + 1).map(String::as_str),
    };
    cli_advice::for_option(&option, value).filter(|_| takes_settings)
}

/// The whole command line, as shells, manual pages and advice need it.
pub(crate) fn command_line() -> clap::Command {
    Cli::command()
}

fn dispatch(cli: Cli) -> Result<(), Failure> {
    if cli.quiet {
        be_quiet();
    }
    match cli.command {
        None => {
            if let Some(word) = cli.train.overrides.iter().find(|word| !word.contains('=')) {
                let command = Cli::command();
                let hint = did_you_mean(word, command.get_subcommands().map(clap::Command::get_name));
                return Err(Failure::refused(format!(
                    "unrecognized subcommand '{word}'{hint}; a setting is key=value; see llm-train --help"
                )));
            }
            if std::env::args().len() == 1 {
                say(
                    "no command: the preset tiny is trained, a few minutes on this machine; llm-train --help lists the commands, Ctrl-C stops and keeps what was done",
                );
            }
            cli.train.run()
        }
        Some(command) => command.run(),
    }
}
