//! `sim museum`: the bugs that trainers have shipped, as inputs with right and wrong numbers, and the bug behind someone's numbers.

mod advantages;
pub mod against;
pub mod case;
mod losses;
mod scores;
mod traces;

use crate::failure::Failure;
use crate::terminal;
use case::Case;
use std::path::PathBuf;

/// The command's arguments.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct MuseumArgs {
    /// Your trainer's numbers for the inputs of the cases: say of each whether it is right, and which bug it shows
    #[arg(long, value_name = "THEIRS.jsonl")]
    against: Option<PathBuf>,
}

const AFTER_HELP: &str = r#"Output: one case per line, as a JSON object
  {"case": NAME, "asks": TEXT, "input": {..},
   "right": [{"convention": TEXT, "numbers": [..]}..],
   "wrong": [{"bugs": ["B24"..], "what": TEXT, "numbers": [..]}..]}

THEIRS.jsonl has one object per line, for any of the cases; lists in lists are read in their order:

  {"case": NAME, "numbers": [..]}

Exit code with --against: 0 when every case given is right, 1 when one is not, 2 when the file was refused.

Examples:
  sim museum > museum.jsonl
  sim museum --against theirs.jsonl"#;

/// Every case, in the order of the file.
pub fn cases() -> Vec<Case> {
    [scores::cases(), advantages::cases(), losses::cases(), traces::cases()].concat()
}

/// The file of cases, as `examples/museum.jsonl` holds it.
pub fn file() -> String {
    cases().iter().map(|case| case.line() + "\n").collect()
}

/// Prints the cases, or what someone's numbers are.
///
/// # Errors
/// [`Failure::Refused`] for a file that cannot be used, [`Failure::Failed`] when a case is not right.
pub fn run(args: &MuseumArgs) -> Result<(), Failure> {
    let Some(path) = &args.against else { return terminal::print(&file()) };
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|e| Failure::Refused(format!("{shown}: {e}; --against must name a readable text file")))?;
    let (said, right) = against::report(&text, &cases())
        .map_err(|(line, what)| Failure::Refused(format!("{shown}, line {line}: {what}")))?;
    terminal::print(&said)?;
    match right {
        true => Ok(()),
        false => Err(Failure::Failed("not every case is right".to_owned())),
    }
}
