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
    /// The text of the problem: what stands in it and is more than a number is no answer, unless it is spelled as the reference is.
    pub problem: Option<&'a str>,
    /// True if it was cut off at a limit of length: [`Extraction::Free`](super::Extraction::Free) then reads marked answers only.
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

/// The text without blanks and layout, and with one spelling of each sign.
pub(super) fn squeezed(text: &str) -> String {
    let mut out: String = text.chars().filter(|c| !c.is_whitespace() && !matches!(c, '$' | '~')).collect();
    for layout in ["\\left", "\\right", "\\,", "\\;", "\\!", "\\quad", "\\(", "\\)", "\\[", "\\]"] {
        out = out.replace(layout, "");
    }
    for (spelling, sign) in [
        ("\\dfrac", "\\frac"),
        ("\\tfrac", "\\frac"),
        ("\\times", "*"),
        ("\\cdot", "*"),
        ("×", "*"),
        ("·", "*"),
        ("−", "-"),
        ("\\div", "/"),
        ("÷", "/"),
    ] {
        out = out.replace(spelling, sign);
    }
    out
}
