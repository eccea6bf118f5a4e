//! `sim mdp`: what a method's update is on a user's MDP, exactly.

mod analysis;
mod credit;

pub use analysis::{Analysis, analyse};

use std::path::PathBuf;

use grpo_lambda::table::Table;

use crate::failure::Failure;
use crate::method_args::{MethodArgs, warn_of_idle_settings};
use crate::run::{DEFAULT_SEED, PNG_SCALE};
use crate::terminal;
use crate::write::Output;

/// Rows of the credit table in the terminal and of the heat-map.
const SHOWN: usize = 24;

/// Arguments of `sim mdp`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct MdpArgs {
    /// The MDP, a TOML file
    #[arg(value_name = "FILE.toml")]
    pub file: PathBuf,
    #[command(flatten)]
    method: MethodArgs,
    /// Responses per group
    #[arg(long, value_name = "G", default_value_t = 8, value_parser = clap::value_parser!(u8).range(2..=64))]
    pub group: u8,
    /// Seed, used only where nothing exact is feasible
    #[arg(long, value_name = "N", default_value_t = DEFAULT_SEED)]
    pub seed: u64,
    /// Folder for results; runs/mdp/NAME when not given
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

const HELP: &str = "\
The file:
  name = \"two roads\"
  tokens = [\"left\", \"right\", \"EOS\"]
  eos = \"EOS\"
  horizon = 3              # a response without EOS is cut here
  gamma = 1.0              # optional
  reward_kind = \"binary\"   # optional; or \"real\". A binary reward is the probability of 1
  default_reward = 0.0     # optional; of a response that no pattern matches

  [[rewards]]              # the most specific pattern wins; * at the end matches any continuation
  pattern = \"left *\"
  reward = 1.0

  [[illegal]]              # optional: tokens that cannot follow a prefix; \"\" is the prompt
  prefix = \"\"
  tokens = \"EOS\"

  [[policy]]               # optional: the initial policy, uniform where nothing is said
  prefix = \"\"
  probabilities = { left = 0.25, right = 0.75 }

The initial policy is also the reference of a KL term, so that beta changes nothing here.

What the columns say:
  cosine          between the expected update and the policy gradient; 1 is unbiased up to scale
  bias            the part of the update that is no multiple of the gradient, relative
  scale           that multiple: a factor on the learning rate
  sign agreement  share of visits at which the implied credit has the sign of the true advantage
  signal/noise    squared length of the expected update over its variance, for one group";

/// Runs the command: analyses, writes CSV and figure, prints.
///
/// # Errors
/// When the input is refused or the results cannot be written.
pub fn run(args: &MdpArgs) -> Result<(), Failure> {
    let refused = |e: anyhow::Error| Failure::Refused(format!("{e:#}"));
    let method = args.method.configure()?;
    let analysis = analyse(args, &method).map_err(refused)?;
    let out = args.out.clone().unwrap_or_else(|| PathBuf::from("runs/mdp").join(&analysis.name));
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
    warn_of_idle_settings(&method, "sim mdp");
    let mut text = analysis.facts.join("\n") + "\n\n";
    text += &format!("{}\n\n", shown(&analysis.methods, usize::MAX));
    text += "Credit, most visited prefixes first: `credit` is the implied credit over `scale`, to be compared with the advantage\n";
    text += &format!("{}\n", shown(&analysis.credit, SHOWN));
    text += &format!("\nFigure: {} (and .svg); data: {}\n", figure.display(), out.join("data").display());
    terminal::print(&text)
}

/// The command that repeats the analysis, for the first line of its CSVs.
fn command(args: &MdpArgs) -> String {
    let file = args.file.display().to_string();
    let (group, seed) = (args.group.to_string(), args.seed.to_string());
    let words = ["sim", "mdp", &file, "--method", &args.method.method];
    let settings = args.method.settings.iter().map(String::as_str);
    let options = ["--group", &group, "--seed", &seed];
    words.into_iter().chain(settings).chain(options).collect::<Vec<_>>().join(" ")
}

/// A table for the terminal, its first rows.
fn shown(table: &Table, rows: usize) -> String {
    let columns: Vec<&str> = table.columns.iter().map(String::as_str).collect();
    let mut view = terminal::table(&columns);
    for row in table.rows.iter().take(rows) {
        view.add_row(row.iter().map(|cell| cell.format(4)).collect::<Vec<_>>());
    }
    let cut = table.rows.len().saturating_sub(rows);
    let note = if cut > 0 { format!("\n{cut} more rows in the CSV") } else { String::new() };
    format!("{view}{note}")
}
