//! The grader: the place of an answer and the rules of comparison.

use rayon::prelude::*;

use super::extract::Extraction;
use super::gold::{Gold, GoldError};
use super::response::Response;
use super::rules::Rules;
use super::verdict::{Reason, Verdict};

/// A way to find and compare answers; by default that of training, [`Extraction::Auto`] and [`Rules::STRICT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grader {
    /// The place of the answer in a response; [`Extraction::Free`] looks in references, too.
    pub extraction: Extraction,
    /// The rules by which spellings count as the same.
    pub rules: Rules,
}

impl Default for Grader {
    fn default() -> Self {
        Grader { extraction: Extraction::Auto, rules: Rules::STRICT }
    }
}

impl Grader {
    /// The free mode, for answers as people and models write them: [`Extraction::Free`] and [`Rules::LENIENT`].
    pub fn free() -> Grader {
        Grader { extraction: Extraction::Free, rules: Rules::LENIENT }
    }

    /// Reads a reference, once for any number of answers: texts of which each is right.
    ///
    /// # Errors
    /// Errors if there is none, or one is empty.
    pub fn gold<'a>(&self, texts: impl IntoIterator<Item = &'a str>) -> Result<Gold, GoldError> {
        Gold::read(texts.into_iter().map(|text| self.extraction.reference(text)), self.rules)
    }

    /// Reads a reference again, by the rules of this grader.
    #[must_use]
    pub fn reference(&self, gold: &Gold) -> Gold {
        gold.read_as(self.extraction, self.rules)
    }

    /// Finds the answer of a response and compares it with a reference that this grader has read.
    pub fn grade<'a>(&self, gold: &Gold, response: impl Into<Response<'a>>) -> Verdict {
        gold.grade_text(response, self.extraction)
    }

    /// Reads the reference and grades one response. Without a reference the verdict is open.
    ///
    /// ```
    /// use grpo_lambda_grade::Grader;
    /// let verdict = Grader::free().grade_text(r"$x = \frac{3}{4}$", "Somit lautet die Antwort 0,75.");
    /// assert_eq!((verdict.is_equal(), verdict.extracted.as_deref()), (true, Some("0,75")));
    /// ```
    pub fn grade_text<'a>(&self, gold: &str, response: impl Into<Response<'a>>) -> Verdict {
        match self.gold([gold]) {
            Ok(gold) => self.grade(&gold, response),
            Err(_) => Verdict::open(Reason::NoReference),
        }
    }

    /// Grades pairs of reference and response on all cores, in order.
    pub fn grade_all<G: AsRef<str> + Sync, R: AsRef<str> + Sync>(&self, pairs: &[(G, R)]) -> Vec<Verdict> {
        pairs.par_iter().map(|(gold, response)| self.grade_text(gold.as_ref(), response.as_ref())).collect()
    }
}

/// Compares a response with a reference in the strict mode: the last `\boxed{}`, or else the text itself.
pub fn grade(gold: &str, response: &str) -> Verdict {
    Grader::default().grade_text(gold, response)
}
