//! [`AnswerForm`]: where the answer stands in its column.

use grpo_lambda_grade::{Extraction, Prediction};

/// The form of the answer in its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerForm {
    /// The whole column, or each element of its list.
    Whole,
    /// After the last `####`, up to the end of the line (GSM8K).
    Hashes,
    /// In the last `\boxed{}` (MATH).
    Boxed,
}

/// The form of the answer in a text.
pub(super) fn form_of(text: &str) -> AnswerForm {
    if text.contains("####") {
        AnswerForm::Hashes
    } else if Prediction::extract(text, Extraction::Boxed).answer().is_some() {
        AnswerForm::Boxed
    } else {
        AnswerForm::Whole
    }
}
