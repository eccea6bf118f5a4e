//! The command line of `sim`.

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use grpo_lambda_tools::estimate::{self, EstimateArgs};
use grpo_lambda_tools::failure::Failure;
use grpo_lambda_tools::mdp_command::{self, MdpArgs};
use grpo_lambda_tools::methods_list::{self, MethodsArgs};
use grpo_lambda_tools::museum::{self, MuseumArgs};
use grpo_lambda_tools::new_method::{self, NewMethodArgs};
use grpo_lambda_tools::program::{call, program, renamed};
#[cfg(not(feature = "claims"))]
use grpo_lambda_tools::terminal;
use std::process::ExitCode;

#[cfg(feature = "claims")]
use crate::laboratory::{self, Experiments};

/// Name the loss that a trainer computes, show the credit that a method gives each token, test the paper's claims
///
/// Without a command every experiment runs in its quick version: a verdict for each claim, computed from numbers, and the
/// data and figures that show it.
#[derive(Debug, Parser)]
#[command(name = "sim", version, args_conflicts_with_subcommands = true, after_help = AFTER_HELP)]
#[cfg_attr(not(feature = "claims"), command(about = "The tools of grpo-lambda, without its experiments", long_about = None))]
struct Cli {
    #[cfg(feature = "claims")]
    #[command(flatten)]
    experiments: Experiments,
    #[command(subcommand)]
    command: Option<Command>,
}

macro_rules! help {
    ($experiments:literal) => {
        concat!(
            "Examples:
  sim estimate --method grpo < groups.jsonl
      check a trainer's advantages, loss and gradient
  sim mdp pivot --method grpo_lambda lambda=0.9
      bias and credit on a small task; a TOML file describes one of your own
  sim methods grpo_lambda
      the settings of a method
  sim new-method my_method
      the files of a method of your own, with its tests
",
            $experiments,
            "
Exit code: 0 when the work was done, whatever the verdicts (a refuted claim is a result); 1 when an experiment broke down; 2 when the input was refused, with one line on stderr and nothing written."
        )
    };
}
#[cfg(feature = "claims")]
const AFTER_HELP: &str = help!(
    "  sim
      every experiment, quick, into runs/sim
  sim --list
      what there is
  sim theorem_1 lemma_1 --out /tmp/look
      two experiments, elsewhere
  sim learning --full --seed 7
      one, long, another seed
  sim atlas
      every method on every task against exact ground truth
  sim atlas --full
      the long version; the same command goes on after a stop
  sim --regenerate
      every experiment into paper/, with the tables of the pages there
"
);
#[cfg(not(feature = "claims"))]
const AFTER_HELP: &str = help!("");

/// The tools. One more is a variant here and an arm in [`dispatch`].
#[derive(Debug, Subcommand)]
enum Command {
    /// Compute advantages, loss and gradient of your own groups (JSON lines), to compare a trainer with
    Estimate(EstimateArgs),
    /// Show the credit that a method gives each token of a small task, named or yours (TOML), and the bias of its update (exact where feasible)
    Mdp(MdpArgs),
    /// List the methods with their settings
    Methods(MethodsArgs),
    /// List known bugs of trainers as inputs with right and wrong numbers, or name the bug that gives your trainer's
    Museum(MuseumArgs),
    /// Write the files of a method of your own into a clone of the repository, with tests that pass
    NewMethod(NewMethodArgs),
}

fn dispatch(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Estimate(args) => estimate::run(args).map_err(|f| f.within("estimate")),
        Command::Mdp(args) => mdp_command::run(args).map_err(|f| f.within("mdp")),
        Command::Methods(args) => methods_list::run(args).map_err(|f| f.within("methods")),
        Command::Museum(args) => museum::run(args).map_err(|f| f.within("museum")),
        Command::NewMethod(args) => new_method::run(args).map_err(|f| f.within("new-method")),
    }
}

/// Runs `sim` with the arguments of the process.
pub(crate) fn main() -> ExitCode {
    let mut command = renamed(Cli::command(), program());
    let parsed = command.try_get_matches_from_mut(std::env::args_os());
    let done = match parsed.and_then(|found| Cli::from_arg_matches(&found)) {
        Ok(cli) => execute(&cli),
        Err(error) => refuse(&error),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{}", failure.line());
            ExitCode::from(failure.code())
        }
    }
}

fn execute(cli: &Cli) -> Result<(), Failure> {
    if let Some(command) = &cli.command {
        return dispatch(command);
    }
    #[cfg(feature = "claims")]
    return cli.experiments.run(&commands()).map_err(|f| f.within(""));
    #[cfg(not(feature = "claims"))]
    terminal::print(&renamed(Cli::command(), program()).render_long_help().to_string())
}

/// Ends a run that the parser refused: prints help and version, makes one line of everything else.
fn refuse(error: &clap::Error) -> Result<(), Failure> {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        // With colours, where it goes to a terminal; a reader that went away is no failure.
        drop(error.print());
        return Ok(());
    }
    let first = std::env::args_os().nth(1).and_then(|word| word.into_string().ok()).unwrap_or_default();
    if commands().contains(&first) {
        let mut message = usage(error, &first);
        if error.kind() == ErrorKind::UnknownArgument && takes_settings(&first) {
            message += "; a method's settings are written key=value, as in lambda=0.9";
        }
        return Err(Failure::Refused(message).within(&first));
    }
    // `sim estimat --method grpo` is first of all a misspelt command, not a strange flag.
    #[cfg(feature = "claims")]
    if !first.starts_with('-') && !first.is_empty() {
        laboratory::known(&first, &commands()).map_err(|why| Failure::Refused(why).within(""))?;
    }
    Err(Failure::Refused(usage(error, "")).within(""))
}

/// The parser's message on one line, without its usage block.
fn usage(error: &clap::Error, command: &str) -> String {
    let text = error.render().to_string();
    let lines: Vec<_> = text
        .lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more information"))
        .filter(|line| !line.is_empty() && !line.starts_with("tip: to pass"))
        .collect();
    format!(
        "{}; see {} --help",
        lines.join("; ").trim_start_matches("error: ").replace(":;", ":"),
        call(command)
    )
}

fn commands() -> Vec<String> {
    Cli::command().get_subcommands().map(|c| c.get_name().to_owned()).collect()
}

fn takes_settings(command: &str) -> bool {
    Cli::command()
        .find_subcommand(command)
        .is_some_and(|c| c.get_arguments().any(|a| a.get_id() == "settings"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_help_fits_a_terminal_of_80_columns() {
        for name in ["sim", "grpo-sim"] {
            let ragged = crate::help::ragged(&renamed(Cli::command(), name));
            assert!(ragged.is_empty(), "{}", ragged.join("\n"));
        }
    }
}
