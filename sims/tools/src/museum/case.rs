//! A case of the museum: an input, what a right trainer computes of it, and what trainers with known bugs do.

use serde_json::{Value, json};

/// Numbers that someone might give for a case.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The known bugs it shows, as `B24`; empty for a right answer.
    pub bugs: Vec<&'static str>,
    /// The convention of a right answer, or what goes wrong.
    pub what: String,
    pub numbers: Vec<f64>,
}

/// An input with every answer that is known.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    pub name: &'static str,
    /// The quantity to compute.
    pub asks: &'static str,
    pub input: Value,
    pub answers: Vec<Answer>,
}

impl Case {
    pub fn new(name: &'static str, asks: &'static str, input: Value) -> Self {
        Case { name, asks, input, answers: Vec::new() }
    }

    /// The case with one more right answer.
    #[must_use]
    pub fn right(self, convention: &str, numbers: Vec<f64>) -> Self {
        self.with(&[], convention, numbers)
    }

    /// The case with one more wrong answer.
    #[must_use]
    pub fn wrong(self, bugs: &[&'static str], what: &str, numbers: Vec<f64>) -> Self {
        self.with(bugs, what, numbers)
    }

    fn with(mut self, bugs: &[&'static str], what: &str, numbers: Vec<f64>) -> Self {
        self.answers.push(Answer { bugs: bugs.to_vec(), what: what.to_owned(), numbers });
        self
    }

    /// One line of the file of cases.
    pub fn line(&self) -> String {
        let right = |answer: &Answer| json!({"convention": answer.what, "numbers": answer.numbers});
        let wrong =
            |answer: &Answer| json!({"bugs": answer.bugs, "what": answer.what, "numbers": answer.numbers});
        let (wrongs, rights): (Vec<_>, Vec<_>) =
            self.answers.iter().partition(|answer| !answer.bugs.is_empty());
        json!({
            "case": self.name,
            "asks": self.asks,
            "input": self.input,
            "right": rights.into_iter().map(right).collect::<Vec<_>>(),
            "wrong": wrongs.into_iter().map(wrong).collect::<Vec<_>>(),
        })
        .to_string()
    }
}
