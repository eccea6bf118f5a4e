//! The objective a method optimises, as an equation with its numbers.
//!
//! Here stands the vocabulary. Each part of a method has its `equation` next to its formula, so that the text shows the numbers that are
//! computed with.
//!
//! ```
//! use grpo_lambda::{equation::BatchSize, methods};
//! let method = methods::parse("grpo_lambda", "lambda=0.9 clamp=none beta=0.04").unwrap().method;
//! let size = BatchSize { groups: 16, group_size: 8, max_len: 64 };
//! let text = method.equation(&size).unwrap().to_string();
//! assert!(text.contains("E[t,k] = 0.9^(t-k) for k <= t"));
//! assert!(text.contains("l_t + 0.04 kl_t"));
//! ```

use std::fmt;

/// The size of a training batch, on which normalisers depend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchSize {
    /// Number of prompts, each with a group of responses.
    pub groups: usize,
    /// Number of responses per prompt.
    pub group_size: usize,
    /// Length limit of a response, in tokens.
    pub max_len: usize,
}

impl BatchSize {
    /// Responses of the batch.
    pub(crate) fn responses(self) -> usize {
        self.groups * self.group_size
    }
}

/// A part of an equation: the name of what it defines, and its definition.
pub type Part = (&'static str, String);

/// An objective as a list of definitions.
///
/// In all of them `i` is a response of `T_i` tokens, `t` and `k` are tokens from 0, and `L` is minimised.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Equation {
    /// The definitions, outermost first.
    pub parts: Vec<Part>,
}

impl fmt::Display for Equation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.parts.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, text) in &self.parts {
            writeln!(f, "{name:width$}  {text}")?;
        }
        Ok(())
    }
}

/// A number without the noise of its last digits: `1 - 0.9` is 0.1.
pub(crate) fn number(x: f64) -> String {
    let rounded: f64 = format!("{x:.11e}").parse().unwrap_or(x);
    match rounded.abs() {
        0.0 => "0".to_owned(),
        size if size.is_finite() && !(1e-4..1e15).contains(&size) => format!("{rounded:e}"),
        _ => format!("{rounded}"),
    }
}

/// The name of a token's advantage before another assignment changes it: one prime more.
///
/// ```
/// assert_eq!(grpo_lambda::equation::inner("delta_t"), "delta'_t");
/// ```
pub fn inner(token: &str) -> String {
    token.replacen('_', "'_", 1)
}
