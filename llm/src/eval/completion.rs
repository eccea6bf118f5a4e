//! One response to one problem, as it is kept.

use grpo_lambda_decoder::rollout::Sampled;
use grpo_lambda_grade::{Reason, Verdict};
use serde::{Deserialize, Serialize};

/// What became of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The reference answer.
    Right,
    /// Another answer.
    Wrong,
    /// No answer where one was looked for: wrong.
    NoAnswer,
    /// An answer that the grader could not compare with the reference: counts neither way.
    Unreadable,
    /// No response, because the prompt leaves no room for one: counts neither way.
    NoRoom,
}

impl Outcome {
    /// All of them, in the order of reports.
    pub const ALL: [Outcome; 5] =
        [Outcome::Right, Outcome::Wrong, Outcome::NoAnswer, Outcome::Unreadable, Outcome::NoRoom];

    /// 1, 0, or nothing where it counts neither way.
    pub fn score(self) -> Option<f64> {
        match self {
            Outcome::Right => Some(1.0),
            Outcome::Wrong | Outcome::NoAnswer => Some(0.0),
            Outcome::Unreadable | Outcome::NoRoom => None,
        }
    }

    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Outcome::Right => "right",
            Outcome::Wrong => "wrong answer",
            Outcome::NoAnswer => "no answer",
            Outcome::Unreadable => "unreadable answer",
            Outcome::NoRoom => "prompt too long",
        }
    }
}

impl From<&Verdict> for Outcome {
    fn from(verdict: &Verdict) -> Self {
        match verdict {
            Verdict::Equal => Outcome::Right,
            Verdict::Different => Outcome::Wrong,
            Verdict::Ungradable(Reason::NoAnswer) => Outcome::NoAnswer,
            Verdict::Ungradable(_) => Outcome::Unreadable,
        }
    }
}

/// How a response ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// With an end token.
    Eos,
    /// With a stop string of the template.
    Stop,
    /// Cut off at the length limit.
    Length,
    /// Not begun: the prompt fills the context.
    NoRoom,
}

impl Finish {
    /// How a response that was begun ended.
    pub fn of(response: &Sampled, eos: &[u32]) -> Finish {
        match (response.truncated, response.tokens.last()) {
            (true, _) => Finish::Length,
            (false, Some(last)) if eos.contains(last) => Finish::Eos,
            (false, _) => Finish::Stop,
        }
    }
}

/// A line of `completions.jsonl`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Completion {
    /// The problem's id.
    pub problem: String,
    /// Which of the problem's samples it is, from 0.
    pub sample: usize,
    /// What became of it.
    pub verdict: Outcome,
    /// The grader's words.
    pub reason: String,
    /// The answer found in the text.
    pub answer: Option<String>,
    /// How it ended.
    pub finish: Finish,
    /// Its length, the end token included.
    pub tokens: usize,
    /// Its text, without special tokens; up to the stop string and with it.
    pub text: String,
}
