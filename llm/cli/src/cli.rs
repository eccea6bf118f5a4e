//! The command line of `llm-train`.

use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser};
use grpo_lambda::settings::did_you_mean;

use crate::cli_advice;
use crate::commands::{Cli, Command as _, Failure, Result};
use crate::words::words;
use grpo_lambda_trainer::run::progress::{be_quiet, say};

/// Runs `llm-train` with the arguments of the process.
pub fn main() -> ExitCode {
    grpo_lambda_trainer::bounded::large_blocks_return();
    grpo_lambda_trainer::run::stop::outlive_file_limits();
    match parsed() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) if failure.message.is_empty() => ExitCode::from(failure.code),
        Err(failure) => {
            let kind = if failure.signal().is_some() { "" } else { "error: " };
            say(&format!("llm-train: {kind}{}", failure.message));
            ExitCode::from(failure.code)
        }
    }
}

/// Commands of older clones, with what does their work.
const RETIRED: [(&str, &str); 5] = [
    (
        "serve",
        "to sample over HTTP, write the model by llm-train export and start vllm serve DIR; for the log-probabilities of given tokens use llm-train score",
    ),
    ("merge", "use llm-train export with the same options"),
    ("info", "use llm-train train --dry-run for a model's sizes and memory"),
    (
        "explain",
        "use llm-train train --dry-run for the objective of a run, and grpo-sim methods NAME for a method",
    ),
    ("team", "to train in several processes, use TRL or verl (docs/processes.md)"),
];

/// Reads the command line and does what it says.
fn parsed() -> Result<()> {
    let word = command_word(words());
    if let Some((_, instead)) = RETIRED.iter().find(|(name, _)| *name == word) {
        return Err(Failure::refused(format!("{word}: is no command of this version; {instead}")));
    }
    match Cli::try_parse() {
        Ok(cli) => dispatch(cli),
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            // With colours, where it goes to a terminal; a reader that went away is no failure.
            drop(error.print());
            Ok(())
        }
        Err(error) => {
            let text = error.to_string();
            let said = text.lines().take_while(|l| !l.starts_with("Usage") && !l.starts_with("For more"));
            // Clap's advice to write `--` before a value would lead further astray.
            let said = said.map(str::trim).filter(|l| !l.is_empty() && !l.starts_with("tip: to pass"));
            let first = said.collect::<Vec<_>>().join(" ").replace(" tip: ", "; tip: ");
            let advice = advice(&error).map_or(String::new(), |advice| format!(": {advice}"));
            let message = first.trim_start_matches("error: ");
            Err(Failure::refused(format!("{message}{advice}; see llm-train{} --help", subcommand())))
        }
    }
}

/// The first word of the command line that is no option without a value; empty where there is none.
fn command_word(words: impl Iterator<Item = String>) -> String {
    let line = Cli::command();
    let switch = |word: &String| {
        let mut switches = line.get_arguments().filter(|arg| !arg.get_action().takes_values());
        switches.any(|arg| arg.get_long().is_some_and(|long| word.strip_prefix("--") == Some(long)))
    };
    words.skip(1).find(|word| !switch(word)).unwrap_or_default()
}

/// The subcommand that the first word names, with a blank before it; nothing where it names none.
fn subcommand() -> String {
    let first = command_word(words());
    let line = Cli::command();
    line.find_subcommand(&first).map_or(String::new(), |command| format!(" {}", command.get_name()))
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
    let words: Vec<String> = words().collect();
    let (line, settings) = (Cli::command(), |name: &clap::builder::Str| name.contains("key=value"));
    let word = command_word(words.iter().cloned());
    let positionals = line.find_subcommand(&word).into_iter().flat_map(clap::Command::get_positionals);
    let mut names = positionals.filter_map(clap::Arg::get_value_names).flatten();
    let takes_settings = word.is_empty() || word.starts_with('-') || names.any(settings);
    let place = words.iter().position(|word| *word == option || word.starts_with(&format!("{option}=")))?;
    let value = match words[place].split_once('=') {
        Some((_, value)) => Some(value),
        None => words.get(place + 1).map(String::as_str),
    };
    cli_advice::for_option(&option, value).filter(|_| takes_settings)
}

fn dispatch(cli: Cli) -> Result<()> {
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
            if words().len() == 1 {
                say(
                    "no command: the preset tiny is trained, a few minutes on this machine; llm-train --help lists the commands, Ctrl-C stops and keeps what was done",
                );
            }
            cli.train.run()
        }
        Some(command) => command.run(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_fits_a_terminal_of_80_columns() {
        let ragged = crate::help::ragged(&Cli::command());
        assert!(ragged.is_empty(), "{}", ragged.join("\n"));
    }

    #[test]
    fn the_command_is_the_first_word_that_is_no_switch() {
        let word = |line: &str| command_word(line.split_whitespace().map(str::to_owned));
        assert_eq!(word("llm-train plot tiny"), "plot");
        assert_eq!(word("llm-train --quiet plot tiny"), "plot");
        // Here it is the name of a run.
        assert_eq!(word("llm-train --quiet --run plot"), "--run");
        assert_eq!(word("llm-train --quiet"), "");
    }
}
