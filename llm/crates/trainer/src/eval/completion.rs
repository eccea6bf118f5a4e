//! The stored form of a response to a problem.

use grpo_lambda_decoder::generate::SampledResponse;
use grpo_lambda_grade::{Extraction, Gold, Prediction, Response, Verdict};
use serde::{Deserialize, Serialize};

use crate::input::stops::Stops;
use crate::input::tokens::TokenError;

/// Outcome of grading a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ResponseOutcome {
    /// The reference answer.
    Right,
    /// Another answer.
    Wrong,
    /// No answer was found; scored 0.
    NoAnswer,
    /// The grader could not compare the answer with the reference; left out of the accuracy.
    Unreadable,
    /// No response, because the prompt fills the context; left out of the accuracy.
    NoRoom,
}

impl ResponseOutcome {
    pub const ALL: [ResponseOutcome; 5] = [
        ResponseOutcome::Right,
        ResponseOutcome::Wrong,
        ResponseOutcome::NoAnswer,
        ResponseOutcome::Unreadable,
        ResponseOutcome::NoRoom,
    ];

    /// 1 or 0; `None` for an outcome that is left out of the accuracy.
    pub fn score(self) -> Option<f64> {
        match self {
            ResponseOutcome::Right => Some(1.0),
            ResponseOutcome::Wrong | ResponseOutcome::NoAnswer => Some(0.0),
            ResponseOutcome::Unreadable | ResponseOutcome::NoRoom => None,
        }
    }

    pub fn words(self) -> &'static str {
        match self {
            ResponseOutcome::Right => "right",
            ResponseOutcome::Wrong => "wrong answer",
            ResponseOutcome::NoAnswer => "no answer",
            ResponseOutcome::Unreadable => "unreadable answer",
            ResponseOutcome::NoRoom => "prompt too long",
        }
    }
}

impl From<&Verdict> for ResponseOutcome {
    fn from(verdict: &Verdict) -> Self {
        match verdict.equal {
            Some(true) => ResponseOutcome::Right,
            Some(false) => ResponseOutcome::Wrong,
            None if verdict.no_answer() => ResponseOutcome::NoAnswer,
            None => ResponseOutcome::Unreadable,
        }
    }
}

/// The end of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordedFinish {
    /// With an end token.
    Eos,
    /// With a stop string of the template.
    Stop,
    /// Cut off at the length limit.
    Length,
    /// Not begun, because the prompt fills the context.
    NoRoom,
}

impl RecordedFinish {
    pub fn new(response: &SampledResponse, eos: &[u32]) -> RecordedFinish {
        match (response.truncated, response.tokens.last()) {
            (true, _) => RecordedFinish::Length,
            (false, Some(last)) if eos.contains(last) => RecordedFinish::Eos,
            (false, _) => RecordedFinish::Stop,
        }
    }
}

/// A line of `completions.jsonl`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CompletionRecord {
    pub problem: String,
    /// Its number among the problem's samples, from 0.
    pub sample: usize,
    pub verdict: ResponseOutcome,
    /// The grader's explanation.
    pub reason: String,
    /// True if only a lenient rule of the grader makes it right.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lenient: bool,
    /// The answer found in the text.
    pub answer: Option<String>,
    pub finish: RecordedFinish,
    /// Its length, the end token included.
    pub tokens: usize,
    /// Its text without special tokens, up to and with the stop string.
    pub text: String,
    /// CRC-32C of the line without this field, which the log adds to what it writes; none in a line that was written again.
    #[serde(default, skip_serializing)]
    pub crc32c: Option<String>,
}

impl CompletionRecord {
    /// The record of a response to the problem named `problem`, which is asked in the text `asked`, graded against `gold`.
    pub fn graded(
        (problem, sample, asked): (&str, usize, &str),
        (gold, extraction): (&Gold, Extraction),
        response: &SampledResponse,
        stops: &Stops,
    ) -> Result<CompletionRecord, TokenError> {
        let text = stops.text(&response.tokens)?;
        let known = Response { text: &text, problem: Some(asked), cut_off: response.truncated };
        let verdict = gold.grade_text(known, extraction);
        Ok(CompletionRecord {
            problem: problem.to_owned(),
            sample,
            verdict: ResponseOutcome::from(&verdict),
            reason: verdict.to_string(),
            lenient: !verdict.lenient_rules().is_empty(),
            answer: Prediction::extract(&text, extraction).answer().map(str::to_owned),
            finish: RecordedFinish::new(response, stops.tokens.eos()),
            tokens: response.tokens.len(),
            text,
            crc32c: None,
        })
    }
}
