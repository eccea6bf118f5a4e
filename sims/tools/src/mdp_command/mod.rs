//! `sim mdp`: what a method's update is on a user's MDP, exactly.

mod analysis;
mod args;
mod credit;

pub use analysis::{Analysis, analyse, expectation, resolved};
pub use args::MdpArgs;

use std::path::PathBuf;

use grpo_lambda::methods::Configured;
use grpo_lambda_stats::table::Table;
use grpo_lambda_stats::visible;

use crate::PNG_SCALE;
use crate::failure::Failure;
use crate::method_args::{DEFAULTS, settings_that_differ, warn_of_idle_settings};
use crate::terminal;
use crate::write::Output;
use credit::SHOWN;

/// Runs the command: analyses, writes CSV and figure, prints.
///
/// # Errors
/// When the input is refused or the results cannot be written.
pub fn run(args: &MdpArgs) -> Result<(), Failure> {
    let refused = |e: anyhow::Error| Failure::Refused(format!("{e:#}"));
    let method = args.method.configure()?;
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
    warn_of_idle_settings(&method, "sim mdp");
    let mut text = analysis.facts.join("\n") + "\n\n";
    text +=
        &format!("Expected update of {}, then of the other methods at their defaults\n", method.spec.title);
    text += &format!("{}\n\n", shown(&analysis.methods, usize::MAX));
    text += "Credit, most visited prefixes first: `credit` is the implied credit over `scale`, to be compared with the advantage\n";
    text += &format!("{}\n", shown(&analysis.credit, SHOWN));
    text += &format!("\nFigure: {} (and .svg); data: {}\n", figure.display(), out.join("data").display());
    terminal::print(&visible(&text))
}

/// The folder of a method's results within that of its MDP, so that the figures of one method stay when another is tried.
fn folder(method: &Configured, group: u8) -> String {
    let mut name = method.spec.name.to_owned();
    let differing = settings_that_differ(method);
    if differing != DEFAULTS {
        name += &format!("-{}", differing.replace(' ', "-"));
    }
    if group != args::DEFAULT_GROUP {
        name += &format!("-group={group}");
    }
    name
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
