//! Numbers in the paper's prose, and what text extraction does to them.

/// Numbers as they stand in the extracted text, with the words before them.
///
/// The extraction prints a formula twice, once from its rendering and once from its LaTeX, so `$3$`
/// becomes `33`.
pub const EXTRACTED: [(&str, &str); 8] = [
    ("models from 1.5B to 7B parameters on ", "44"),
    ("improves over GRPO by over ", "33"),
    ("points and a ", "4.54.5"),
    ("Benchmark performance of GRPO-λ\\lambda on ", "55"),
    ("an average increase of ", "33"),
    ("GRPO-λ\\lambda improves over ", "44"),
    ("across the RL finetuning datasets for ", "1000010000"),
    ("limit the training of the 7B model to ", "35003500"),
];

/// Half of a text that is something said twice.
///
/// ```
/// use grpo_lambda_claims::experiments::paper_audit::text::halved;
/// assert_eq!(halved("4.54.5"), Some("4.5"));
/// assert_eq!(halved("4.5"), None);
/// ```
pub fn halved(text: &str) -> Option<&str> {
    let (a, b) = text.split_at_checked(text.len() / 2)?;
    (a == b && !a.is_empty()).then_some(a)
}

/// The training improvement in the abstract and in the contributions, in percent.
pub const IMPROVEMENT_ABSTRACT: (f64, f64) = (30.0, 40.0);
/// The training improvement in Section 4.2, in percent.
pub const IMPROVEMENT_SECTION: (f64, f64) = (20.0, 50.0);
