//! `llm-train completions` and `llm-train man`: what a shell and `man` know of this program.

use std::path::PathBuf;

use clap_complete::Shell;
use grpo_lambda_decoder::disk::Disk;

use super::{Failure, print};

/// Arguments of `completions`.
#[derive(Clone, Debug, clap::Args)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub shell: Shell,
}

/// Arguments of `man`.
#[derive(Clone, Debug, clap::Args)]
pub struct ManArgs {
    /// Where the pages go, a file for each command
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
}

const NAME: &str = "llm-train";

/// Prints the completions of `command` for a shell.
///
/// # Errors
/// When standard output is refused.
pub fn completions(args: &CompletionsArgs, mut command: clap::Command) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut command, NAME, &mut text);
    print(&String::from_utf8_lossy(&text))
}

/// Writes the manual pages of `command` and of its subcommands.
///
/// # Errors
/// When the directory cannot be written.
pub fn man(args: &ManArgs, command: clap::Command) -> Result<(), Failure> {
    Disk::default().create_directories(&args.out).map_err(Failure::refused)?;
    clap_mangen::generate_to(command, &args.out)
        .map_err(|e| Failure::broke(format!("{}: {e}", args.out.display())))?;
    print(&format!("manual pages in {out}; man {out}/{NAME}.1 shows the first\n", out = args.out.display()))
}
