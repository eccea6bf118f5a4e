//! The end of a command that did not do its work.

use grpo_lambda_stats::visible_line;
use grpo_lambda_studies::sweep::SweepError;

/// Why a command stops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// One line.
    pub message: String,
    /// 2 when the input was refused and nothing was done, 1 when the work broke off.
    pub code: u8,
}

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

    /// The signal that asked for it, so that it is no error.
    pub fn signal(&self) -> Option<u8> {
        self.code.checked_sub(SIGNALLED).filter(|signal| *signal > 0)
    }
}

impl From<SweepError> for Failure {
    fn from(error: SweepError) -> Failure {
        match error {
            SweepError::Refused(message) => Failure::refused(message),
            SweepError::Broke(message) => Failure::broke(message),
            SweepError::Stopped { message, signal } => Failure::stopped(message, signal),
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
