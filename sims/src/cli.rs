//! The command line of `sim`.

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use grpo_lambda::settings::did_you_mean;
use grpo_lambda_claims::atlas;
use grpo_lambda_claims::experiment::Experiment;
use grpo_lambda_claims::experiments::REGISTRY;
use grpo_lambda_claims::report;
use grpo_lambda_claims::run::{self, Options};
use grpo_lambda_tools::DEFAULT_SEED;
use grpo_lambda_tools::estimate::{self, EstimateArgs};
use grpo_lambda_tools::failure::{Failure, quoted};
use grpo_lambda_tools::mdp_command::{self, MdpArgs};
use grpo_lambda_tools::methods_list::{self, MethodsArgs};
use grpo_lambda_tools::museum::{self, MuseumArgs};
use grpo_lambda_tools::new_method::{self, NewMethodArgs};
use grpo_lambda_tools::program::{call, named, program, renamed};
use grpo_lambda_tools::terminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The laboratory of grpo-lambda: every claim of the paper, put to the test
///
/// Without arguments every experiment runs in its quick version: a verdict for each claim, computed from numbers, and the
/// data and figures behind it.
#[derive(Debug, Parser)]
#[command(name = "sim", version, args_conflicts_with_subcommands = true, after_help = AFTER_HELP)]
struct Cli {
    /// Run only these experiments; --list shows the ids. `atlas` stands for all of the atlas
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// List the experiments and stop
    #[arg(long)]
    list: bool,
    /// Folder for results: DIR/data/*.csv, DIR/figures/*.svg and *.png
    #[arg(long, value_name = "DIR", default_value = "runs/sim")]
    out: PathBuf,
    /// Write into paper/, the committed results, and bring the tables of its pages and of README.md up to date
    #[arg(long, conflicts_with = "out")]
    regenerate: bool,
    /// Seed of every random stream; the same seed gives the same numbers on any number of threads
    #[arg(long, value_name = "N", default_value_t = DEFAULT_SEED)]
    seed: u64,
    /// The long versions: more seeds, larger problems
    #[arg(long)]
    full: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

const AFTER_HELP: &str = "\
Examples:
  sim
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
  sim methods grpo_lambda
      the settings of a method
  sim new-method my_method
      the files of a method of your own, with its tests
  sim mdp pivot --method grpo_lambda lambda=0.9
      bias and credit on a small task; a TOML file describes one of your own
  sim estimate --method grpo < groups.jsonl
      check a trainer's advantages, loss and gradient

Exit code: 0 when the work was done, whatever the verdicts (a refuted claim is a result); 1 when an experiment broke down; 2 when the input was refused, with one line on stderr and nothing written.";

/// The tools beside the experiments. One more is a variant here and an arm in [`dispatch`].
#[derive(Debug, Subcommand)]
enum Command {
    /// Compute advantages, loss and gradient of your own groups (JSON lines), to compare a trainer with
    Estimate(EstimateArgs),
    /// Analyse a method on a token-MDP, yours (TOML) or a named one: its bias (exact where feasible), angle to the policy gradient and implied credit
    Mdp(MdpArgs),
    /// List the methods with their settings
    Methods(MethodsArgs),
    /// List known bugs of trainers as inputs with right and wrong numbers, or name the bug behind your trainer's
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
    let work = || {
        let experiments = select(&cli.ids, REGISTRY, atlas::REGISTRY).map_err(Failure::Refused)?;
        if cli.list {
            let all = if cli.ids.is_empty() { [REGISTRY, atlas::REGISTRY].concat() } else { experiments };
            return terminal::print(&list(&all));
        }
        let out = if cli.regenerate { PathBuf::from("paper") } else { cli.out.clone() };
        let options = Options { out, seed: cli.seed, full: cli.full };
        let summary = run::run(&experiments, &options)?;
        terminal::print(&summary.text)?;
        terminal::print(&refresh(&options.out)?)?;
        match summary.failed.len() {
            0 => Ok(()),
            n => {
                let (total, ids) = (experiments.len(), summary.failed.join(", "));
                Err(Failure::Failed(format!("{n} of {total} experiments failed: {ids}")))
            }
        }
    };
    work().map_err(|f| f.within(""))
}

/// Brings the generated blocks of the pages in and next to `out` up to date, once every experiment of a page has its verdicts there.
fn refresh(out: &Path) -> Result<String, Failure> {
    let beside = |page: &str| out.parent().map(|folder| folder.join(page));
    let beside_it = ["README.md", "docs/conventions.md", "llm/results/README.md"].map(beside);
    let claims = [Some(out.join("README.md"))].into_iter().chain(beside_it);
    let claims: Vec<PathBuf> = claims.flatten().collect();
    let mut said = String::new();
    for (registry, pages) in [(REGISTRY, claims), (atlas::REGISTRY, vec![out.join(atlas::PAGE)])] {
        let missing = |e: &&Experiment| !out.join(format!("data/{}_verdicts.csv", e.id)).exists();
        if !pages[0].exists() || registry.iter().any(missing) {
            continue;
        }
        report::refresh(registry, out, &pages).map_err(|e| Failure::Failed(format!("report: {e:#}")))?;
        said += &format!("The tables of {} are up to date with these results.\n", pages[0].display());
    }
    Ok(said)
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
    let unknown = if first.starts_with('-') || first.is_empty() {
        Ok(Vec::new())
    } else {
        select(&[first], REGISTRY, atlas::REGISTRY)
    };
    let message = unknown.err().unwrap_or_else(|| usage(error, ""));
    Err(Failure::Refused(message).within(""))
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

/// The word that stands for every experiment of the atlas.
const ATLAS: &str = "atlas";

/// The experiments with these ids, in the order given, each once; all claims for none.
fn select(
    ids: &[String],
    claims: &'static [&'static Experiment],
    atlas: &'static [&'static Experiment],
) -> Result<Vec<&'static Experiment>, String> {
    if ids.is_empty() {
        return Ok(claims.to_vec());
    }
    let known = || claims.iter().chain(atlas).copied();
    let mut selected: Vec<&'static Experiment> = Vec::new();
    for id in ids {
        let found: Vec<_> =
            if id == ATLAS { atlas.to_vec() } else { known().filter(|e| e.id == id).collect() };
        if found.is_empty() {
            let commands = commands();
            if commands.contains(id) {
                return Err(format!(
                    "{id} is a command, not an experiment; it comes first, as in {} {id} --help",
                    program()
                ));
            }
            let words = known().map(|e| e.id).chain([ATLAS]).chain(commands.iter().map(String::as_str));
            let hint = did_you_mean(id, words);
            return Err(format!(
                "unknown experiment {}{hint}; {} --list shows the ids",
                quoted(id),
                program()
            ));
        }
        for experiment in found {
            if !selected.iter().any(|e| e.id == experiment.id) {
                selected.push(experiment);
            }
        }
    }
    Ok(selected)
}

fn list(experiments: &[&Experiment]) -> String {
    let mut table = terminal::table(&["id", "experiment", "source"]);
    for e in experiments {
        table.add_row([e.id, e.title, e.source]);
    }
    let more =
        "\n\nsim ID... runs some of them, sim alone all claims of the paper, sim atlas the whole atlas.\n";
    table.to_string() + &named(more, program())
}

#[cfg(test)]
mod tests {
    use super::*;
    use grpo_lambda_claims::experiment::Report;

    const fn named(id: &'static str) -> Experiment {
        Experiment { id, title: "", claim: "", source: "", run: |_| Ok(Report::default()) }
    }
    static LEMMA: Experiment = named("lemma_1");
    static THEOREM: Experiment = named("theorem_1");
    static BOTH: &[&Experiment] = &[&THEOREM, &LEMMA];
    static MAP: Experiment = named("atlas_updates");
    static MAPS: &[&Experiment] = &[&MAP];

    fn ids(words: &[&str]) -> Result<Vec<&'static str>, String> {
        let words: Vec<_> = words.iter().map(|w| (*w).to_owned()).collect();
        Ok(select(&words, BOTH, MAPS)?.iter().map(|e| e.id).collect())
    }

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

    #[test]
    fn experiments_run_in_the_order_asked_for_and_once() {
        assert_eq!(ids(&["lemma_1", "theorem_1", "lemma_1"]).unwrap(), ["lemma_1", "theorem_1"]);
        assert_eq!(ids(&[]).unwrap(), ["theorem_1", "lemma_1"]);
        assert_eq!(ids(&["atlas", "lemma_1", "atlas_updates"]).unwrap(), ["atlas_updates", "lemma_1"]);
    }

    #[test]
    fn an_unknown_id_is_named_with_the_nearest_known_one() {
        let error = ids(&["theorm_1"]).unwrap_err();
        assert!(error.starts_with("unknown experiment `theorm_1` (did you mean `theorem_1`?)"), "{error}");
        assert!(ids(&["estimat"]).unwrap_err().contains("(did you mean `estimate`?)"));
        assert!(ids(&["lemma_1", "methods"]).unwrap_err().starts_with("methods is a command"));
        assert!(!ids(&["zzz"]).unwrap_err().contains("did you mean"));
    }
}
