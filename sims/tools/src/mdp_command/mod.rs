//! `sim mdp`: what a method's update is on a user's MDP, exactly where that is feasible.

#[doc(hidden)]
pub mod analysis;

use super::{DEFAULT_SEED, PNG_SCALE, terminal};
use crate::failure::Failure;
use crate::method_args::{DEFAULTS, MethodArgs, settings_that_differ, warn_of_idle_settings};
use crate::program::program;
use crate::write::Output;
pub use analysis::{Analysis, How, analyse, expectation, resolved};
use analysis::{CREDIT, SHOWN};
use grpo_lambda::methods::Configured;
use grpo_lambda_stats::table::Table;
use grpo_lambda_stats::visible;
use std::path::PathBuf;

/// Runs the command: analyses, writes CSV and figure, prints.
///
/// # Errors
/// When the input is refused or the results cannot be written.
pub fn run(args: &MdpArgs) -> Result<(), Failure> {
    let refused = |e: anyhow::Error| Failure::Refused(format!("{e:#}"));
    let method = args.method.configure()?;
    if let Some(out) = &args.out {
        Output::check(out)
            .map_err(|e| Failure::Refused(format!("--out: {e:#}; give a folder this user can write to")))?;
    }
    let analysis = analyse(args, &method).map_err(refused)?;
    let own = || PathBuf::from("runs/mdp").join(&analysis.name).join(folder(&method, args.group));
    let out = args.out.clone().unwrap_or_else(own);
    let output = Output::open(&out)
        .map_err(|e| Failure::Refused(format!("--out: {e:#}; give a folder this user can write to")))?;
    let command = command(args);
    let write = || -> anyhow::Result<PathBuf> {
        output.write("data/methods.csv", analysis.methods.to_csv(&command).as_bytes())?;
        output.write("data/credit.csv", analysis.credit.to_csv(&command).as_bytes())?;
        output.write("figures/credit.svg", analysis.figure.to_svg()?.as_bytes())?;
        output.write("figures/credit.png", &analysis.figure.to_png(PNG_SCALE)?)
    };
    let figure = write().map_err(|e| Failure::Failed(format!("{e:#}")))?;
    warn_of_idle_settings(&method, "mdp");
    let data = out.join("data");
    let places = format!("\nFigure: {} (and .svg); data: {}\n", figure.display(), data.display());
    terminal::print(&visible(&(analysis.text(method.spec.title) + &places)))
}

/// The folder of a method's results within that of its MDP, so that the figures of one method stay when another is tried.
fn folder(method: &Configured, group: u8) -> String {
    let mut name = method.spec.name.to_owned();
    let differing = settings_that_differ(method);
    if differing != DEFAULTS {
        name += &format!("-{}", differing.replace(' ', "-"));
    }
    if group != DEFAULT_GROUP {
        name += &format!("-group={group}");
    }
    name
}

/// The command that repeats the analysis, for the first line of its CSVs.
fn command(args: &MdpArgs) -> String {
    let file = args.file.display().to_string();
    let (group, seed) = (args.group.to_string(), args.seed.to_string());
    let words = [program(), "mdp", &file, "--method", &args.method.method];
    let settings = args.method.settings.iter().map(String::as_str);
    let options = ["--group", &group, "--seed", &seed];
    words.into_iter().chain(settings).chain(options).collect::<Vec<_>>().join(" ")
}

impl Analysis {
    /// The credit of each token, the direction of every method, and what is left out.
    fn text(&self, title: &str) -> String {
        let credit = shown(&self.credit, CREDIT, SHOWN);
        let methods = shown(&self.methods, self.methods.columns.len(), usize::MAX);
        format!(
            "{}: the true advantage of each token and the credit that {title} gives it, most visited prefixes first\n{credit}\n\n{}\n\n\
             Direction of the expected update of {title}, then of the other methods at their defaults\n{methods}\n{}",
            self.title,
            self.facts.join("\n"),
            self.left_out,
        )
    }
}

/// A table for the terminal: its first columns and rows.
fn shown(table: &Table, columns: usize, rows: usize) -> String {
    let names: Vec<&str> = table.columns[..columns].iter().map(String::as_str).collect();
    let mut view = terminal::table(&names);
    for row in table.rows.iter().take(rows) {
        view.add_row(row[..columns].iter().map(|cell| cell.format(4)).collect::<Vec<_>>());
    }
    let cut = table.rows.len().saturating_sub(rows);
    let note = if cut > 0 { format!("\n{cut} more rows in the CSV") } else { String::new() };
    format!("{view}{note}")
}

/// Responses per group, where nothing is said.
const DEFAULT_GROUP: u8 = 8;

/// Arguments of `sim mdp`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct MdpArgs {
    /// The MDP: a TOML file, or the name of a task of the library
    #[arg(value_name = "FILE.toml|TASK")]
    pub file: PathBuf,
    #[command(flatten)]
    pub(super) method: MethodArgs,
    /// Responses per group
    #[arg(long, value_name = "G", default_value_t = DEFAULT_GROUP, value_parser = clap::value_parser!(u8).range(2..=64))]
    pub group: u8,
    /// Seed, used only where nothing exact is feasible
    #[arg(long, value_name = "N", default_value_t = DEFAULT_SEED)]
    pub seed: u64,
    /// Folder for results; runs/mdp/NAME/METHOD-SETTINGS when not given, so that each method keeps its figures
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

pub const HELP: &str = "\
The tasks:
  pivot, lucky_guess, eos_hazard, eos_hazard_dependent, fork, needle,
  deceptive, chain, chain_partial, noisy, lemma_counterexample, parity,
  random, full, carry_add, copy, delayed_format, distractor_length,
  forking_chain

The file:
  name = \"two roads\"       # optional: the file's name
  tokens = [\"left\", \"right\", \"EOS\"]
  eos = \"EOS\"
  horizon = 3              # a response without EOS is cut here
  gamma = 1.0              # optional
  reward_kind = \"binary\"   # optional: the probability of 1; or \"real\"
  default_reward = 0.0     # optional: where no pattern matches

  [[rewards]]              # the most specific pattern wins; * matches any end
  pattern = \"left *\"
  reward = 1.0

  [[illegal]]              # optional: tokens that cannot follow a prefix
  prefix = \"\"              # the prompt
  tokens = \"EOS\"

  [[policy]]               # optional: the initial policy, else uniform
  prefix = \"\"
  probabilities = { left = 0.25, right = 0.75 }

The initial policy is also the reference of a KL term, so that beta changes nothing here.

What the columns say:
  advantage       the true one, Q - V, at the initial policy
  credit          the credit that the expected update implies, centred at each
                  prefix and divided by the magnitude of the scale; where its
                  sign is not the advantage's, the update does the opposite of
                  the policy gradient
  cosine          between the expected update and the policy gradient;
                  1 is unbiased up to scale
  bias            the part of the update that is no multiple of the gradient,
                  over the part that is: sqrt(1/cosine^2 - 1)
  bias noise      the bias that sampling alone gives; 0 where exact
  scale           that multiple: a factor on the learning rate; below 0 the
                  update opposes the gradient
  sign agreement  share of visits at which the implied credit has the sign of
                  the true advantage
  signal/noise    squared length of the expected update over its variance,
                  for one group
  how             exact where feasible, else sampled";
