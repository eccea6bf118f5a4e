//! The end of a command, or of a sweep of runs, that did not do its work.

use grpo_lambda_decoder::disk::DiskError;
use grpo_lambda_decoder::model;
use grpo_lambda_stats::visible_line;
use grpo_lambda_trainer::config::ConfigError;
use grpo_lambda_trainer::input::tokens::TokenError;
use grpo_lambda_trainer::run::RunError;
use grpo_lambda_trainer::train::TrainError;

use crate::curves::CurvesError;
use crate::record::RecordError;

/// Why a command stops.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// One line.
    pub message: String,
    /// 2 when the input was refused and nothing was done, 1 when the work broke off.
    pub code: u8,
}

/// The result of a step of a command.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

impl Failure {
    /// The input was refused.
    pub fn refused(message: impl ToString) -> Self {
        Failure { message: one_line(&message.to_string()), code: 2 }
    }

    /// The work broke off.
    pub fn broke(message: impl ToString) -> Self {
        Failure { message: one_line(&message.to_string()), code: 1 }
    }

    /// A signal asked for the end; what was done is kept.
    pub fn stopped(message: impl ToString, signal: u8) -> Self {
        Failure { message: one_line(&message.to_string()), code: SIGNALLED + signal }
    }

    /// The result is printed and says what there is to say; only the exit code differs.
    pub fn silent() -> Self {
        Failure { message: String::new(), code: 1 }
    }

    /// This end, of a part that is named.
    pub fn within(self, name: impl std::fmt::Display) -> Self {
        Failure { message: format!("{name}: {}", self.message), ..self }
    }

    /// The signal that asked for it, so that it is no error.
    pub fn signal(&self) -> Option<u8> {
        self.code.checked_sub(SIGNALLED).filter(|signal| *signal > 0)
    }
}

macro_rules! end_of {
    ($($error:ty => $end:ident),*) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Failure {
                Failure::$end(error)
            }
        })*
    };
}
end_of!(ConfigError => refused, RecordError => refused, RunError => refused);
end_of!(CurvesError => broke, DiskError => broke, model::Error => broke, TokenError => broke);

impl From<TrainError> for Failure {
    fn from(error: TrainError) -> Failure {
        match error.signal() {
            Some(signal) => Failure::stopped(error, signal),
            None if error.refused() => Failure::refused(error),
            None => Failure::broke(error),
        }
    }
}

/// A shell's exit code for a program that a signal ended is this plus its number.
const SIGNALLED: u8 = 128;

fn one_line(text: &str) -> String {
    let lines: Vec<String> =
        text.lines().map(str::trim).filter(|l| !l.is_empty()).map(visible_line).collect();
    lines.join("; ").replace(":; ", ": ")
}
