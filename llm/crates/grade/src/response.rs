//! A response as its caller knows it: its text, the problem that it answers, and whether it came to its end.

/// A response. A text alone is one whose problem is not known and that ended by itself.
///
/// ```
/// use grpo_lambda_grade::{Grader, Response};
/// let (grader, problem) = (Grader::free(), "What is 18 + 3?");
/// let response = Response { problem: Some(problem), ..Response::from("18 + 3 is a sum of two numbers.") };
/// assert_eq!(grader.grade_text("21", response).equal, Some(false));
/// let response = Response { problem: Some(problem), ..Response::from("18 + 3 = 21") };
/// assert_eq!(grader.grade_text("21", response).equal, Some(true));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Response<'a> {
    /// Its text.
    pub text: &'a str,
    /// The text of the problem: what stands in it and is more than a number is no answer, unless it is spelled as the
    /// reference is.
    pub problem: Option<&'a str>,
    /// True if it was cut off at a limit: [`Extraction::Free`](super::Extraction::Free) then reads only marked answers.
    pub cut_off: bool,
}

impl<'a> From<&'a str> for Response<'a> {
    fn from(text: &'a str) -> Self {
        Response { text, problem: None, cut_off: false }
    }
}

impl<'a> From<&'a String> for Response<'a> {
    fn from(text: &'a String) -> Self {
        Response::from(text.as_str())
    }
}

/// Signs that join what stands on both sides of them.
const OPERATORS: &str = "+-*/^_";

/// True if an expression stands in a text by itself: `2x+3` neither in `12x+34` nor in `x^2+2x+3`.
pub(super) fn stands_in(expression: &str, text: &str) -> bool {
    let expression = squeezed(expression);
    // The text without blanks, and whether a blank stood before each byte.
    let (mut dense, mut blanks, mut blank) = (String::new(), Vec::new(), true);
    for c in spaced(text).chars() {
        if c != ' ' {
            dense.push(c);
            blanks.resize(dense.len(), blank);
        }
        blank = c == ' ';
    }
    let touches = |at: usize| blanks.get(at) == Some(&false);
    let ends_number = |at: usize| touches(at) && dense[at..].starts_with(|c: char| c.is_ascii_digit());
    let is_alone = |(at, part): (usize, &str)| {
        let end = at + part.len();
        let goes_on = match (dense[..at].chars().next_back(), dense[end..].chars().next()) {
            (Some(c), _) if OPERATORS.contains(c) => true,
            (_, Some(c)) if OPERATORS.contains(c) => true,
            (Some(c), _) if touches(at) && (c.is_alphanumeric() || matches!(c, ')' | '.')) => true,
            (_, Some('.' | ',')) => ends_number(end + 1),
            (_, Some(c)) => touches(end) && (c.is_alphanumeric() || c == '('),
            _ => false,
        };
        !goes_on
    };
    !expression.is_empty() && dense.match_indices(&expression).any(is_alone)
}

/// The text without blanks and layout, and with one spelling of each sign.
pub(super) fn squeezed(text: &str) -> String {
    spaced(text).replace(' ', "")
}

/// The text with one spelling of each blank and each sign.
fn spaced(text: &str) -> String {
    let blank = |c: char| c.is_whitespace() || matches!(c, '$' | '~');
    let mut out: String = text.chars().map(|c| if blank(c) { ' ' } else { c }).collect();
    for (sign, spellings) in [
        ("", r"\left|\right|\!"),
        (" ", r"\,|\;|\quad|\(|\)|\[|\]"),
        ("\\frac", r"\dfrac|\tfrac"),
        ("*", r"\times|\cdot|×|·"),
        ("-", "−"),
        ("/", r"\div|÷"),
    ] {
        out = spellings.split('|').fold(out, |out, spelling| out.replace(spelling, sign));
    }
    out
}
