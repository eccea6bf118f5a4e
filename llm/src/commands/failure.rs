//! The end of a command that did not do its work.

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
    let lines: Vec<String> = text.lines().map(str::trim).filter(|l| !l.is_empty()).map(visible).collect();
    lines.join("; ").replace(":; ", ": ")
}

/// A text of a file for a terminal, which takes some control characters for commands: all but tabs and ends of lines are spelt out.
pub(super) fn visible(text: &str) -> String {
    let spelt = |c: char| match c {
        '\n' | '\t' => c.to_string(),
        c if c.is_control() => c.escape_default().to_string(),
        // They change the order in which what stands beside them is shown.
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => c.escape_default().to_string(),
        c => c.to_string(),
    };
    text.chars().map(spelt).collect()
}
