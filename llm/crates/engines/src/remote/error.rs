//! Failures of a server that samples.

use std::fmt;

/// A request that failed, or an answer that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineError {
    message: String,
    passing: bool,
}

impl EngineError {
    /// The server is away or broke off: the same request may succeed later.
    pub fn passing(message: impl Into<String>) -> Self {
        EngineError { message: message.into(), passing: true }
    }

    /// The answer is wrong for training, and would be again.
    pub fn refused(message: impl Into<String>) -> Self {
        EngineError { message: message.into(), passing: false }
    }

    /// True if the same request may succeed later.
    pub fn is_passing(&self) -> bool {
        self.passing
    }

    /// Puts the place before the message.
    pub fn at(self, place: &str) -> Self {
        EngineError { message: format!("{place}: {}", self.message), ..self }
    }
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for EngineError {}
