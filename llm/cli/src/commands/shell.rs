//! `llm-train completions` and `llm-train man`, for a shell and for `man`.

use std::path::PathBuf;

use clap_complete::Shell;
use grpo_lambda_decoder::disk::Disk;

use clap::CommandFactory;

use super::{Cli, Command, Failure, Result, print};

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
    /// Directory for the pages, a file for each command
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
}

const NAME: &str = "llm-train";

impl Command for CompletionsArgs {
    fn run(&self) -> Result<()> {
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), NAME, &mut text);
        print(&String::from_utf8_lossy(&text))
    }
}

impl Command for ManArgs {
    fn run(&self) -> Result<()> {
        let out = self.out.display();
        Disk::default().create_directories(&self.out).map_err(Failure::refused)?;
        clap_mangen::generate_to(Cli::command(), &self.out)
            .map_err(|e| Failure::broke(format!("{out}: {e}")))?;
        print(&format!("manual pages in {out}; man {out}/{NAME}.1 shows the first\n"))
    }
}
