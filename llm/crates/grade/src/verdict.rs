//! Verdicts, and the reasons why there is none.

use std::fmt;

use super::kind::Kind;
use super::rules::Rules;

/// The reason why a response could not be compared with the reference.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// The response has no complete, non-empty answer at the place looked at.
    #[error("no complete, non-empty answer at the place that is read")]
    NoAnswer,
    /// The reference is missing.
    #[error("no reference")]
    NoReference,
    /// The answer is not an integer, and the reference was given as one.
    #[error("`{0}` is not an integer")]
    NotAnInteger(String),
    /// The answer does not read as mathematics or as a short text.
    #[error("unreadable: {0}")]
    Unreadable(String),
    /// The comparison takes more steps than one case may take.
    #[error("too large: {0}")]
    TooLarge(String),
    /// An expression has no value, such as `1/0`, or none at the points tried.
    #[error("undefined: {0}")]
    Undefined(String),
    /// The answer stands in the problem and is more than a number.
    #[error("`{0}` stands in the problem")]
    Restated(String),
    /// The meaning depends on a convention that is off or that nobody has fixed.
    #[error("undecided: {0}")]
    Undecided(String),
}

pub(super) fn unreadable<T>(what: impl Into<String>) -> Result<T, Reason> {
    Err(Reason::Unreadable(what.into()))
}

pub(super) fn undefined<T>(what: &str) -> Result<T, Reason> {
    Err(Reason::Undefined(what.to_owned()))
}

/// The finding of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// True if the answer is the reference. `None` if that could not be found out.
    pub equal: Option<bool>,
    /// The rules on which an `equal` rests; none if the two are the same by arithmetic alone.
    pub rules: Rules,
    /// The reason if it could not be found out.
    pub why: Option<Reason>,
    /// The answer that was found in the response.
    pub extracted: Option<String>,
    /// The kinds of reference and answer, as far as both were read.
    pub kinds: Option<(Kind, Kind)>,
}

impl Verdict {
    /// A verdict; only an `equal` rests on rules.
    pub(super) fn decided(equal: bool, rules: Rules) -> Verdict {
        let rules = if equal { rules } else { Rules::NONE };
        Verdict { equal: Some(equal), rules, why: None, extracted: None, kinds: None }
    }

    /// No verdict.
    pub(super) fn open(reason: Reason) -> Verdict {
        Verdict { equal: None, rules: Rules::NONE, why: Some(reason), extracted: None, kinds: None }
    }

    /// True if the answer is right.
    pub fn is_equal(&self) -> bool {
        self.equal == Some(true)
    }

    /// True if an answer was looked for and not found.
    pub fn no_answer(&self) -> bool {
        self.why == Some(Reason::NoAnswer)
    }

    /// The rules of the verdict that the strict mode lacks.
    pub fn lenient_rules(&self) -> Rules {
        self.rules.minus(Rules::STRICT)
    }

    /// The reward: 1 for the right answer, 0 for a wrong one or none. `None` if this grader cannot read the answer.
    ///
    /// A caller must count such a response and leave it out of its group's statistics, not score it 0: the grader may
    /// be at fault.
    pub fn reward(&self) -> Option<f64> {
        match self.equal {
            Some(equal) => Some(f64::from(u8::from(equal))),
            None => self.no_answer().then_some(0.0),
        }
    }

    /// The word for files: `equal`, `different`, `no_answer`, `unreadable`.
    pub fn name(&self) -> &'static str {
        match self.equal {
            Some(true) => "equal",
            Some(false) => "different",
            None if self.no_answer() => "no_answer",
            None => "unreadable",
        }
    }
}

/// `equal`, `equal by RULE, RULE`, `different`, or the reason.
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.why {
            Some(reason) => reason.fmt(f),
            None if self.is_equal() && !self.rules.is_empty() => write!(f, "equal by {}", self.rules),
            None => f.write_str(self.name()),
        }
    }
}
