#![doc = include_str!("../README.md")]
//!
//! # How a verdict is found
//!
//! ```text
//! response -> extraction (the final answer) -> tokens -> tree -> comparison with the reference -> equal, different, ungradable
//! ```
//! Rules that a user should know:
//!
//! - A decimal is the exact number it spells. One of at least 6 significant digits also equals every value that rounds to it at
//!   its last digit: 0.333333 is 1/3 and 0.33 is not.
//! - Rational functions are compared at seeded points of two prime fields (chance of a false "equal" below 2^-100, see `field.rs`);
//!   a "different" from there is proved. Constants with radicals, pi, e, logarithms or trigonometric functions are
//!   evaluated with an error bound to 256 and then 640 bits: apart by more than the bound is proved different, closer than
//!   2^-128 of their size is called equal. Other expressions with symbols are evaluated at seeded points, their symbols
//!   being positive numbers (with either sign beside an absolute value, whole numbers beside floors and factorials).
//! - Units, currency and degree signs are left out, but two known units that differ make the answers differ. `8 %` is 8 or 0.08.
//! - `x = 5` answers 5; a list without brackets has no order; a tuple has one; `(1,2)` is not `[1,2]`.
//! - `52_8` equals numerals with a base and the same value only. `\log` is to base 10.
//! - What cannot be read, has no value, or takes too many steps is ungradable and says why. Steps are counted, not seconds:
//!   the verdict depends on nothing but the two texts.

mod answer;
mod ball;
mod budget;
mod compare;
mod exact;
mod extract;
mod field;
mod fold;
mod gold;
mod grader;
mod inequality;
mod integer;
mod interval;
mod lex;
mod matrix;
mod node;
mod numeric;
mod parse;
mod rules;
mod scalar;
#[cfg(test)]
mod tests;
mod units;
mod verdict;
mod words;

pub use answer::Answer;
pub use extract::{BOXED, Extraction, Prediction, answer_place};
pub use gold::{Gold, GoldError};
pub use grader::{Grader, grade};
pub use rules::{Rule, Rules, RulesError};
pub use verdict::{Reason, Verdict};
