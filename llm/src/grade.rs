//! From a response's text to a verdict: the last balanced `\boxed{}`, compared as an exact integer.
//!
//! This is all the embedded task needs. It judges integers only and says so when it meets anything else.

use std::fmt;

/// An integer of any size: an optional sign and decimal digits, kept in canonical spelling.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Integer {
    negative: bool,
    digits: String,
}

impl Integer {
    /// `12`, `-7`, `+3`, `007`, `$12$`, with blanks around; thousands commas only where they belong (`1,234`).
    fn parse(text: &str) -> Option<Integer> {
        let text = text.trim();
        let text = text.strip_prefix('$').and_then(|t| t.strip_suffix('$')).unwrap_or(text).trim();
        let (negative, rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let groups: Vec<&str> = rest.split(',').collect();
        let digits_only = |g: &&str| !g.is_empty() && g.bytes().all(|b| b.is_ascii_digit());
        let commas_fit =
            groups.len() == 1 || (groups[0].len() <= 3 && groups[1..].iter().all(|g| g.len() == 3));
        if !commas_fit || !groups.iter().all(digits_only) {
            return None;
        }
        let digits = groups.concat();
        let digits = match digits.trim_start_matches('0') {
            "" => "0".to_owned(),
            significant => significant.to_owned(),
        };
        Some(Integer { negative: negative && digits != "0", digits })
    }
}

impl fmt::Display for Integer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.negative { "-" } else { "" }, self.digits)
    }
}

/// The right answer. Its type keeps it from being swapped with a [`Prediction`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gold(Integer);

/// A reference answer this grader cannot use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the reference answer `{0}` is not an integer, and this grader compares integers only")]
pub struct GoldError(String);

impl Gold {
    /// A reference answer given as text.
    ///
    /// # Errors
    /// When it is not an integer.
    pub fn parse(text: &str) -> Result<Gold, GoldError> {
        Integer::parse(text).map(Gold).ok_or_else(|| GoldError(text.to_owned()))
    }
}

impl From<i64> for Gold {
    fn from(n: i64) -> Self {
        Gold(Integer { negative: n < 0, digits: n.unsigned_abs().to_string() })
    }
}

impl fmt::Display for Gold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a response answers: the content of its last balanced `\boxed{}`, if there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prediction(Option<String>);

impl Prediction {
    /// Reads a response. A later box that is never closed (a response that was cut off) does not hide an earlier complete one.
    ///
    /// ```
    /// use grpo_lambda_llm::grade::Prediction;
    /// assert_eq!(Prediction::of(r"\boxed{1} so \boxed{\frac{1}{2}}").answer(), Some(r"\frac{1}{2}"));
    /// assert_eq!(Prediction::of(r"\boxed{1} then \boxed{2").answer(), Some("1"));
    /// ```
    pub fn of(response: &str) -> Prediction {
        let mut end = response.len();
        while let Some(start) = response[..end].rfind(BOXED) {
            let inside = &response[start + BOXED.len()..];
            if let Some(length) = balanced(inside) {
                return Prediction(Some(inside[..length].to_owned()));
            }
            end = start;
        }
        Prediction(None)
    }

    /// The text in the box.
    pub fn answer(&self) -> Option<&str> {
        self.0.as_deref()
    }
}

const BOXED: &str = r"\boxed{";

/// The length of `text` up to the brace that closes one opened before it. `\{` and `\}` are letters, not braces.
fn balanced(text: &str) -> Option<usize> {
    let mut depth = 1;
    let mut escaped = false;
    for (i, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(i);
        }
    }
    None
}

/// Why a response could not be compared with the reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It has no complete, non-empty `\boxed{}`.
    NoAnswer,
    /// Its box holds something other than an integer.
    NotAnInteger(String),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::NoAnswer => write!(f, "no complete, non-empty \\boxed{{}}"),
            Reason::NotAnInteger(text) => write!(f, "`{text}` is not an integer"),
        }
    }
}

/// What the grader found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The same integer.
    Equal,
    /// Another integer.
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
            Verdict::Ungradable(Reason::NotAnInteger(_)) => None,
        }
    }

    /// The word used in files: `equal`, `different`, `no_answer`, `unreadable`.
    pub fn name(&self) -> &'static str {
        match self {
            Verdict::Equal => "equal",
            Verdict::Different => "different",
            Verdict::Ungradable(Reason::NoAnswer) => "no_answer",
            Verdict::Ungradable(Reason::NotAnInteger(_)) => "unreadable",
        }
    }
}

/// Compares an answer with the reference.
///
/// ```
/// use grpo_lambda_llm::grade::{Gold, Prediction, Verdict, grade};
/// assert_eq!(grade(&Prediction::of(r"3*4=12 \boxed{ 012 }"), &Gold::from(12)), Verdict::Equal);
/// assert_eq!(grade(&Prediction::of("12"), &Gold::from(12)).reward(), Some(0.0)); // not in a box
/// ```
pub fn grade(prediction: &Prediction, gold: &Gold) -> Verdict {
    match prediction.answer().map(str::trim) {
        None | Some("") => Verdict::Ungradable(Reason::NoAnswer),
        Some(text) => match Integer::parse(text) {
            None => Verdict::Ungradable(Reason::NotAnInteger(text.to_owned())),
            Some(answer) if answer == gold.0 => Verdict::Equal,
            Some(_) => Verdict::Different,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(response: &str, gold: &str) -> Verdict {
        grade(&Prediction::of(response), &Gold::parse(gold).expect("an integer"))
    }

    #[test]
    fn the_last_balanced_box_is_the_answer() {
        assert_eq!(verdict(r"\boxed{3} no, \boxed{4}", "4"), Verdict::Equal);
        assert_eq!(verdict(r"\boxed{3} no, \boxed{4}", "3"), Verdict::Different);
        assert_eq!(verdict(r"\boxed{5} and \boxed{4", "5"), Verdict::Equal);
        assert_eq!(verdict(r"\boxed{5", "5"), Verdict::Ungradable(Reason::NoAnswer));
        assert_eq!(Prediction::of(r"\boxed{\{a\}}").answer(), Some(r"\{a\}"));
        assert_eq!(Prediction::of(r"\boxed{a{b}c}d}").answer(), Some("a{b}c"));
        assert_eq!(Prediction::of(r"\boxed{\boxed{2}}").answer(), Some("2"));
    }

    #[test]
    fn integers_compare_by_value_whatever_their_size_or_spelling() {
        for spelling in ["12", " 12 ", "+12", "0012", "$12$"] {
            assert_eq!(verdict(&format!(r"\boxed{{{spelling}}}"), "12"), Verdict::Equal, "{spelling}");
        }
        assert_eq!(verdict(r"\boxed{-0}", "0"), Verdict::Equal);
        assert_eq!(verdict(r"\boxed{-12}", "12"), Verdict::Different);
        assert_eq!(verdict(r"\boxed{1,234,567}", "1234567"), Verdict::Equal);
        let big = "9".repeat(60);
        assert_eq!(verdict(&format!(r"\boxed{{{big}}}"), &big), Verdict::Equal);
        assert_eq!(verdict(&format!(r"\boxed{{{big}1}}"), &big), Verdict::Different);
        assert_eq!(Gold::from(i64::MIN).to_string(), i64::MIN.to_string());
    }

    #[test]
    fn what_is_not_an_integer_is_neither_right_nor_wrong() {
        for text in ["1.0", "1/2", "x", "1 2", "--1", "1,23", ",1", "１２", "1e3", "-"] {
            let verdict = verdict(&format!(r"\boxed{{{text}}}"), "1");
            assert_eq!(verdict, Verdict::Ungradable(Reason::NotAnInteger(text.to_owned())));
            assert_eq!(verdict.reward(), None);
        }
        assert_eq!(verdict(r"\boxed{ }", "1").reward(), Some(0.0));
        assert!(Gold::parse("1.5").is_err());
    }
}
