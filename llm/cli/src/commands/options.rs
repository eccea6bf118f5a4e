//! Options that several commands have.

use std::path::PathBuf;

use grpo_lambda_decoder::truncation::Truncation;
use grpo_lambda_stats::table::significant;

use super::{Failure, Result, checkpoint, count, use_threads, whole};

/// The model that a command reads.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ModelArgs {
    /// Checkpoint directory, a run directory for its latest (RUN/best for that of its best evaluation), or owner/name in the Hugging Face cache
    #[arg(long, value_name = "DIR")]
    pub model: PathBuf,
    /// Worker threads; 0: as many as the machine has. Changes no result
    #[arg(long, default_value_t = 0, value_parser = whole::<usize>, allow_negative_numbers = true)]
    pub threads: usize,
}

impl ModelArgs {
    /// The directory of the checkpoint, in a process that uses the threads from now on.
    pub(super) fn open(&self) -> Result<PathBuf> {
        use_threads(self.threads)?;
        checkpoint(&self.model)
    }
}

/// The form of prompts.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct PromptArgs {
    /// The prompt template: a shipped one, chat for the checkpoint's own, a Jinja file, or no for texts as they stand; when not given, that of the
    /// model's run, else in a chat the checkpoint's own where it has one, and elsewhere no. Its stop strings end a response
    #[arg(long, value_name = "NAME")]
    pub template: Option<String>,
    /// The system prompt; when not given, that of the model's run under its template, else the template's own
    #[arg(long, value_name = "TEXT")]
    pub system: Option<String>,
    /// Arguments of a chat template as a JSON object, as in {"enable_thinking": false}; when not given, those of the model's run, else the template's defaults
    #[arg(long, value_name = "JSON")]
    pub template_args: Option<String>,
}

/// The tokens that may be drawn.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct TruncationArgs {
    /// Sample among so many of the most probable tokens; their probabilities are renormalised
    #[arg(long, value_name = "K", value_parser = count, allow_negative_numbers = true)]
    pub top_k: Option<usize>,
    /// Sample among the fewest tokens that have this much probability together (after --top-k); renormalised
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    pub top_p: Option<f64>,
}

impl TruncationArgs {
    /// The truncation, which is none where `greedy` says what takes the most probable token alone.
    pub(super) fn checked(&self, greedy: Option<&str>) -> Result<Truncation> {
        if let Some(p) = self.top_p.filter(|p| !(*p > 0.0 && *p <= 1.0)) {
            return Err(Failure::refused(format!(
                "--top-p {}: must be a number above 0 and at most 1",
                significant(p, 17)
            )));
        }
        let truncation = Truncation { top_k: self.top_k, top_p: self.top_p };
        match greedy.filter(|_| !truncation.is_none()) {
            Some(greedy) => Err(Failure::refused(format!(
                "--top-k and --top-p choose among tokens that are drawn; {greedy} leave them out"
            ))),
            None => Ok(truncation),
        }
    }
}
