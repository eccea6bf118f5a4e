//! `llm-train records`.

use std::path::PathBuf;

use clap::ValueEnum;
use grpo_lambda_decoder::disk::Disk;

use super::export::empty_directory;
use super::{Command, Failure, Result, print};
use grpo_lambda_studies::export;

/// For whom records are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RecordFormat {
    /// A table of a run's metrics for trackio, Weights & Biases, MLflow or pandas: CSV and JSON lines
    Metrics,
    /// A run's sampled responses as TRL writes them, a Parquet file per step
    #[cfg(feature = "parquet")]
    Trl,
    /// A run's model card and trainer_state.json for the Hugging Face hub
    Hf,
    /// An evaluation as a log of Inspect, one for each benchmark
    Inspect,
}

/// Arguments of `records`.
#[derive(Clone, Debug, clap::Args)]
pub struct RecordsArgs {
    /// A run directory; for inspect that of an evaluation, as RUN/eval
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Format
    #[arg(long, value_enum)]
    pub format: RecordFormat,
    /// Directory for it; empty, or not there yet
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
}

impl Command for RecordsArgs {
    /// Writes records in the format of another tool.
    fn run(&self) -> Result<()> {
        empty_directory(&self.out)?;
        let directory = &self.directory;
        let files = match self.format {
            RecordFormat::Metrics => export::metrics(directory),
            #[cfg(feature = "parquet")]
            RecordFormat::Trl => export::completions(directory),
            RecordFormat::Hf => export::hub(directory),
            RecordFormat::Inspect => export::inspect(directory),
        };
        let files = files.map_err(Failure::refused)?;
        if files.is_empty() {
            return Err(Failure::refused(format!("{}: nothing is recorded there yet", directory.display())));
        }
        let mut said = String::new();
        Disk::default().fill(&self.out, Failure::broke, |disk| {
            for (name, contents) in files {
                let path = self.out.join(name);
                if let Some(parent) = path.parent() {
                    disk.create_directories(parent).map_err(Failure::broke)?;
                }
                disk.replace(&path, &contents).map_err(Failure::broke)?;
                said += &format!("{}\n", path.display());
            }
            Ok(())
        })?;
        print(&said)
    }
}
