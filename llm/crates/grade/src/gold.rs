//! The reference answer.

use std::fmt;

use super::answer::Answer;
use super::extract::{Extraction, FoundBy, Prediction};
use super::integer;
use super::response::{Response, squeezed, stands_in};
use super::rules::{Rule, Rules};
use super::verdict::{Reason, Verdict};

/// Longest response, in bytes, that may be an answer as it stands.
const SHORT: usize = 80;

/// The right answer. Its type keeps it from being swapped with a [`Prediction`].
#[derive(Clone, Debug)]
pub struct Gold {
    /// The integer, in canonical spelling, if only an integer answers it.
    integer: Option<String>,
    /// Answers of any kind, each of them right, with their texts.
    golds: Vec<(String, Answer)>,
    rules: Rules,
}

/// A reference answer this grader cannot use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GoldError {
    /// The text is not an integer.
    #[error("the reference answer `{0}` is not an integer; must be decimal digits with an optional sign")]
    NotAnInteger(String),
    /// The text, or the list of texts, is empty.
    #[error("the reference answer is empty; must be a text, or a list of texts each of which is right")]
    Empty,
}

impl Gold {
    /// An integer of any size. Only integers are compared with it: another answer gets no verdict.
    ///
    /// # Errors
    /// Errors if `text` is not an integer.
    pub fn integer(text: &str) -> Result<Gold, GoldError> {
        integer::canonical(text).map(Gold::of_integer).ok_or_else(|| GoldError::NotAnInteger(text.to_owned()))
    }

    fn of_integer(n: String) -> Gold {
        Gold { integer: Some(n), golds: Vec::new(), rules: Rules::NONE }
    }

    /// A reference answer of any kind: LaTeX, plain text, or words.
    ///
    /// ```
    /// use grpo_lambda_grade::{Gold, Prediction};
    /// let gold = Gold::math(r"\left( 3, \frac{\pi}{2} \right)")?;
    /// assert!(gold.grade(&Prediction::boxed(r"so \boxed{(3, \pi/2)}")).is_equal());
    /// # Ok::<(), grpo_lambda_grade::GoldError>(())
    /// ```
    ///
    /// # Errors
    /// Errors if `text` is empty.
    pub fn math(text: &str) -> Result<Gold, GoldError> {
        Gold::any_of([text])
    }

    /// Reference answers of any kind, each of them right, compared by the strict rules.
    ///
    /// # Errors
    /// Errors if there are none, or one is empty.
    pub fn any_of<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Gold, GoldError> {
        Gold::read(texts, Rules::STRICT)
    }

    pub(super) fn read(texts: impl IntoIterator<Item: AsRef<str>>, rules: Rules) -> Result<Gold, GoldError> {
        let read = |text: &str| (text.trim().to_owned(), Answer::read_by(text, rules));
        let golds: Vec<_> = texts.into_iter().map(|text| read(text.as_ref())).collect();
        if golds.is_empty() || golds.iter().any(|(text, _)| text.is_empty()) {
            return Err(GoldError::Empty);
        }
        Ok(Gold { integer: None, golds, rules })
    }

    /// This reference under other rules, and the answer it marks if `extraction` looks into references.
    pub(super) fn read_as(&self, extraction: Extraction, rules: Rules) -> Gold {
        if self.integer.is_some() {
            return self.clone();
        }
        Gold::read(self.golds.iter().map(|(text, _)| extraction.reference(text)), rules)
            .unwrap_or_else(|_| self.read_as(Extraction::Auto, rules))
    }

    /// The lenient rules that read this reference otherwise than the strict rules do.
    ///
    /// ```
    /// use grpo_lambda_grade::{Gold, Rule, Rules};
    /// assert_eq!(Gold::math("3,5")?.leniencies(), Rules::NONE.with(Rule::DecimalComma));
    /// assert!(Gold::math("3.5")?.leniencies().is_empty());
    /// # Ok::<(), grpo_lambda_grade::GoldError>(())
    /// ```
    pub fn leniencies(&self) -> Rules {
        let lenient = |(text, _): &(String, Answer)| Answer::read_by(text, Rules::LENIENT).leniencies();
        self.golds.iter().map(lenient).fold(Rules::NONE, Rules::and)
    }

    /// Compares an answer with this reference.
    ///
    /// ```
    /// use grpo_lambda_grade::{Gold, Prediction};
    /// assert!(Gold::from(12).grade(&Prediction::boxed(r"3*4=12 \boxed{ 012 }")).is_equal());
    /// assert_eq!(Gold::from(12).grade(&Prediction::boxed("12")).reward(), Some(0.0)); // not in a box
    /// ```
    pub fn grade(&self, prediction: &Prediction) -> Verdict {
        let text = prediction.answer().map(str::trim).filter(|text| !text.is_empty());
        let found = prediction.found();
        // An equation of a statement states its value; only a reference or a bare answer asks to be solved.
        let stated = found.is_some_and(|f| f.value.is_some() || f.rule == FoundBy::Statement);
        let solved = if stated { Rules::NONE.with(Rule::Solutions) } else { Rules::NONE };
        let mut verdict = text.map_or(Verdict::open(Reason::NoAnswer), |text| self.compare(text, solved));
        if let (false, Some(value)) = (verdict.is_equal(), found.and_then(|f| f.value.as_deref())) {
            // A value that an equation states is no answer to another equation.
            let mut plain = self.clone();
            plain.golds.retain(|(text, _)| !text.contains('='));
            let by_value = plain.compare(value, solved);
            if by_value.is_equal() {
                verdict = Verdict { rules: by_value.rules.with(Rule::NamedValue), ..by_value };
            }
        }
        verdict.extracted = text.map(str::to_owned);
        verdict
    }

    /// Finds the answer of a response and compares it with this reference.
    ///
    /// ```
    /// use grpo_lambda_grade::{Extraction, Gold};
    /// assert!(Gold::math("0.5")?.grade_text("It is 1/2, so the answer is 1/2.", Extraction::Any).is_equal());
    /// # Ok::<(), grpo_lambda_grade::GoldError>(())
    /// ```
    pub fn grade_text<'a>(&self, response: impl Into<Response<'a>>, extraction: Extraction) -> Verdict {
        let response: Response<'_> = response.into();
        let verdict = self.grade(&Prediction::read(response, extraction));
        match response.problem {
            Some(problem) if verdict.is_equal() => self.unless_restated(verdict, problem),
            _ => self.or_spelled(verdict, response, extraction),
        }
    }

    /// A compound answer that stands in the problem is none, unless the reference or its last side is spelled so.
    fn unless_restated(&self, verdict: Verdict, problem: &str) -> Verdict {
        let (None, Some(answer)) = (&self.integer, &verdict.extracted) else { return verdict };
        let sides = |text: &str| [squeezed(text), squeezed(last_side(text))];
        let (said, spelled) = (last_side(answer), sides(answer));
        let is_spelled =
            self.golds.iter().any(|(gold, _)| sides(gold).iter().any(|side| spelled.contains(side)));
        if is_spelled || !stands_in(said, problem) || !Answer::read(said).is_compound() {
            return verdict;
        }
        let why = Some(Reason::Restated(said.trim().to_owned()));
        Verdict { equal: Some(false), rules: Rules::NONE, why, ..verdict }
    }

    fn or_spelled(&self, verdict: Verdict, response: Response<'_>, extraction: Extraction) -> Verdict {
        let (response, ended) = (response.text, !response.cut_off);
        // The reference may be a short text in which something else reads as an answer.
        let short = extraction == Extraction::Free && response.len() <= SHORT && ended;
        // Nothing but the text of a reference, as `July 4` is.
        let spelled = || self.golds.iter().any(|(_, gold)| gold.is_spelled(response));
        if short && !verdict.is_equal() && spelled() {
            let extracted = Some(response.trim().to_owned());
            return Verdict { extracted, ..Verdict::decided(true, Rules::NONE.with(Rule::Words)) };
        }
        verdict
    }

    /// Compares an answer without these rules.
    fn compare(&self, text: &str, without: Rules) -> Verdict {
        if let Some(gold) = &self.integer {
            // Boxes side by side are a list, which is no integer for sure.
            let listed =
                || text.contains(" , ") && text.split(" , ").all(|n| integer::canonical(n).is_some());
            return match integer::canonical(text) {
                Some(answer) => Verdict::decided(answer == *gold, Rules::NONE),
                None if listed() => Verdict::decided(false, Rules::NONE),
                None => Verdict::open(Reason::NotAnInteger(text.to_owned())),
            };
        }
        let rules = self.rules.minus(without);
        let answer = Answer::read_by(text, rules);
        let mut best = None;
        for (_, gold) in &self.golds {
            match gold.compare_by(&answer, rules) {
                equal if equal.is_equal() => return equal,
                open if open.equal.is_none() => best = Some(open),
                different => _ = best.get_or_insert(different),
            }
        }
        best.unwrap_or(Verdict::decided(false, Rules::NONE))
    }
}

/// The part of a text after its last equals sign; all of it without one.
fn last_side(text: &str) -> &str {
    text.rsplit('=').next().unwrap_or(text)
}

impl From<i64> for Gold {
    fn from(n: i64) -> Self {
        Gold::of_integer(n.to_string())
    }
}

/// Equal if texts and rules are.
impl PartialEq for Gold {
    fn eq(&self, other: &Self) -> bool {
        let same_texts = self.golds.iter().map(|gold| &gold.0).eq(other.golds.iter().map(|gold| &gold.0));
        self.integer == other.integer && self.rules == other.rules && same_texts
    }
}

impl Eq for Gold {}

impl fmt::Display for Gold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(n) = &self.integer {
            return f.write_str(n);
        }
        let texts: Vec<&str> = self.golds.iter().map(|(text, _)| text.as_str()).collect();
        f.write_str(&texts.join(" or "))
    }
}
