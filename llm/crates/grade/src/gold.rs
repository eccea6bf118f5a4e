//! The reference answer.

use std::fmt;

use super::answer::Answer;
use super::integer::Integer;

/// The right answer. Its type keeps it from being swapped with a [`Prediction`](super::Prediction).
#[derive(Clone, Debug)]
pub struct Gold(pub(super) GoldKind);

#[derive(Clone, Debug)]
pub(super) enum GoldKind {
    /// An integer of the embedded task: only an integer answers it.
    Integer(Integer),
    /// Answers of any kind, each of them right, with their texts.
    Any(Vec<(String, Answer)>),
}

/// A reference answer this grader cannot use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GoldError {
    /// It is not an integer where one is expected.
    #[error("the reference answer `{0}` is not an integer, and this grader compares integers only")]
    NotAnInteger(String),
    /// There is none.
    #[error("the reference answer is empty; must be a text, or a list of texts each of which is right")]
    Empty,
}

impl Gold {
    /// An integer given as text: what the embedded task asks for. Only integers are compared with it.
    ///
    /// # Errors
    /// When it is not an integer.
    pub fn parse(text: &str) -> Result<Gold, GoldError> {
        let integer = Integer::parse(text).map(|n| Gold(GoldKind::Integer(n)));
        integer.ok_or_else(|| GoldError::NotAnInteger(text.to_owned()))
    }

    /// A reference answer of any kind: LaTeX, plain text, or words.
    ///
    /// ```
    /// use grpo_lambda_grade::{Gold, Prediction, Verdict, grade};
    /// let gold = Gold::math(r"\left( 3, \frac{\pi}{2} \right)")?;
    /// assert_eq!(grade(&Prediction::of(r"so \boxed{(3, \pi/2)}"), &gold), Verdict::Equal);
    /// # Ok::<(), grpo_lambda_grade::GoldError>(())
    /// ```
    ///
    /// # Errors
    /// When it is empty.
    pub fn math(text: &str) -> Result<Gold, GoldError> {
        Gold::any_of([text])
    }

    /// Reference answers of any kind, each of them right.
    ///
    /// # Errors
    /// When there are none, or one is empty.
    pub fn any_of<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Gold, GoldError> {
        let golds: Vec<_> = texts.into_iter().map(|t| (t.trim().to_owned(), Answer::read(t))).collect();
        if golds.is_empty() || golds.iter().any(|(text, _)| text.is_empty()) {
            return Err(GoldError::Empty);
        }
        Ok(Gold(GoldKind::Any(golds)))
    }
}

impl From<i64> for Gold {
    fn from(n: i64) -> Self {
        Gold(GoldKind::Integer(n.into()))
    }
}

/// Two references are the same when they are spelled the same.
impl PartialEq for Gold {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (GoldKind::Integer(a), GoldKind::Integer(b)) => a == b,
            (GoldKind::Any(a), GoldKind::Any(b)) => a.iter().map(|g| &g.0).eq(b.iter().map(|g| &g.0)),
            _ => false,
        }
    }
}

impl Eq for Gold {}

impl fmt::Display for Gold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            GoldKind::Integer(n) => n.fmt(f),
            GoldKind::Any(golds) => {
                let texts: Vec<&str> = golds.iter().map(|(text, _)| text.as_str()).collect();
                f.write_str(&texts.join(" or "))
            }
        }
    }
}
