//! What the grader says.

use std::fmt;

/// Why a response could not be compared with the reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It has no complete, non-empty answer where one was looked for.
    NoAnswer,
    /// Its box holds something other than an integer, where the reference is an integer of the embedded task.
    NotAnInteger(String),
    /// It does not read as mathematics or as a short text.
    Unreadable(String),
    /// Deciding would take more work than one case may take.
    TooLarge(String),
    /// It has no value, such as `1/0`, or none where it was tried.
    Undefined(String),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::NoAnswer => write!(f, "no complete, non-empty \\boxed{{}}"),
            Reason::NotAnInteger(text) => write!(f, "`{text}` is not an integer"),
            Reason::Unreadable(what) => write!(f, "unreadable: {what}"),
            Reason::TooLarge(what) => write!(f, "too large: {what}"),
            Reason::Undefined(what) => write!(f, "undefined: {what}"),
        }
    }
}

/// What the grader found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The same value.
    Equal,
    /// Another value.
    Different,
    /// No comparison was possible.
    Ungradable(Reason),
}

impl Verdict {
    /// The reward: 1 for the right answer, 0 for a wrong one and for giving none, nothing for an answer this grader cannot read.
    ///
    /// The last must be counted and left out of the group's statistics (a response without a reward), not scored 0: the grader,
    /// not the response, may be at fault.
    pub fn reward(&self) -> Option<f64> {
        match self {
            Verdict::Equal => Some(1.0),
            Verdict::Different | Verdict::Ungradable(Reason::NoAnswer) => Some(0.0),
            Verdict::Ungradable(_) => None,
        }
    }

    /// The word used in files: `equal`, `different`, `no_answer`, `unreadable`.
    pub fn name(&self) -> &'static str {
        match self {
            Verdict::Equal => "equal",
            Verdict::Different => "different",
            Verdict::Ungradable(Reason::NoAnswer) => "no_answer",
            Verdict::Ungradable(_) => "unreadable",
        }
    }

    /// Whether the answers are equal; nothing where that could not be found out.
    pub fn equal(&self) -> Option<bool> {
        match self {
            Verdict::Equal => Some(true),
            Verdict::Different => Some(false),
            Verdict::Ungradable(_) => None,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Ungradable(reason) => reason.fmt(f),
            decided => f.write_str(decided.name()),
        }
    }
}
