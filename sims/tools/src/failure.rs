//! Failures of a command: one line on stderr and an exit code.

use crate::program::call;

/// Why a command stops. The message is shown on one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The input was refused and nothing was done: exit code 2.
    Refused(String),
    /// The work was begun and part of it failed: exit code 1.
    Failed(String),
}

impl Failure {
    /// The exit code.
    pub fn code(&self) -> u8 {
        match self {
            Failure::Refused(_) => 2,
            Failure::Failed(_) => 1,
        }
    }

    /// The message as one line: what the input contributed (names, keys, paths) may hold line breaks or escape codes.
    pub fn line(&self) -> String {
        let (Failure::Refused(message) | Failure::Failed(message)) = self;
        one_line(message)
    }

    /// The failure with the command in front, as in `sim estimate: error: ..`; the program alone for an empty `command`.
    pub fn within(self, command: &str) -> Self {
        match self {
            Failure::Refused(message) => Failure::Refused(format!("{}: error: {message}", call(command))),
            Failure::Failed(message) => Failure::Failed(format!("{}: error: {message}", call(command))),
        }
    }
}

/// `text` on one line, with control characters spelt out.
pub fn one_line(text: &str) -> String {
    grpo_lambda_stats::visible_line(text.trim())
}

/// `text` in quotes, cut after 60 characters, for messages that repeat what they were given.
pub fn quoted(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((cut, _)) => format!("`{}..`", &text[..cut]),
        None => format!("`{text}`"),
    }
}
