//! The answer on which most samples agree.

use grpo_lambda_grade::Answer;

use super::completion::{CompletionRecord, ResponseOutcome};

/// The majority vote of a problem's samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Vote {
    /// 1 if the answer with the most votes is right, else 0; in a tie the share of right answers, the expectation of drawing one of them.
    pub score: f64,
    /// True if several answers had the most votes.
    pub tie: bool,
}

/// Counts votes. Answers that the grader calls equal vote together; a response without an answer does not vote; an unreadable answer votes for
/// its text.
///
/// An answer joins the first class whose first member equals it. A class is right if its first member is.
pub fn majority(samples: &[CompletionRecord]) -> Vote {
    struct Class<'a> {
        text: &'a str,
        answer: Answer,
        right: bool,
        votes: usize,
    }
    let mut classes: Vec<Class<'_>> = Vec::new();
    for sample in samples {
        let Some(text) = sample.answer.as_deref().map(str::trim).filter(|text| !text.is_empty()) else {
            continue;
        };
        let known = classes.iter().position(|class| class.text == text);
        let answer = if known.is_none() { Some(Answer::read(text)) } else { None };
        let equal =
            |class: &Class<'_>| answer.as_ref().is_some_and(|answer| class.answer.compare(answer).is_equal());
        match known.or_else(|| classes.iter().position(equal)) {
            Some(at) => classes[at].votes += 1,
            None => {
                let answer = answer.unwrap_or_else(|| Answer::read(text));
                classes.push(Class {
                    text,
                    answer,
                    right: sample.verdict == ResponseOutcome::Right,
                    votes: 1,
                });
            }
        }
    }
    let most = classes.iter().map(|class| class.votes).max().unwrap_or(0);
    let first: Vec<&Class<'_>> = classes.iter().filter(|class| class.votes == most).collect();
    let right = first.iter().filter(|class| class.right).count();
    Vote {
        score: if first.is_empty() { 0.0 } else { right as f64 / first.len() as f64 },
        tie: first.len() > 1,
    }
}
