#![doc = include_str!("../README.md")]
//!
//! # The path to a verdict
//!
//! ```text
//! response -> extraction (the final answer) -> tokens -> tree -> comparison with the reference
//!          -> equal, different, ungradable
//! ```
//! Arithmetic needs no rule. Every other convention is a named [`Rule`] that can be switched off and stands in the
//! verdict that rests on it. Training uses [`Rules::STRICT`]; [`Rules::LENIENT`] adds conventions that people accept.
//!
//! - A decimal is the exact number it spells. With at least 6 significant digits it also equals every value that rounds
//!   to it: 0.333333 is 1/3 and 0.33 is not.
//! - Rational functions are compared by their exact values at seeded whole numbers of 31 bits (chance of a false
//!   "equal" below 2^-80, see `scalar.rs`); a "different" from there is proved. Constants with radicals, pi, e,
//!   logarithms or trigonometric functions are evaluated with an error bound to 256 and then 640 bits: apart by more
//!   than the bound is proved different, closer than 2^-128 is called equal. Other expressions with symbols are
//!   evaluated at seeded points, their symbols being positive numbers (with either sign next to an absolute value,
//!   whole numbers next to floors and factorials).
//! - Two known units of different dimension make the answers differ; so do two of one dimension where conversion is
//!   off.
//! - A list without brackets has no order, a tuple has one; `(1,2)` is not `[1,2]`. `\log` is to base 10.
//! - The lenient rules are tried only if the strict ones do not find the answers equal, so that they never take an
//!   `equal` away.
//! - An answer that cannot be read, has no value, or takes too many steps gets a reason in place of a verdict. Steps
//!   are counted, not seconds: the verdict depends only on the two texts and the rules.

mod answer;
mod ball;
mod budget;
mod compare;
mod exact;
mod extract;
mod fold;
mod gold;
mod grader;
mod inequality;
mod integer;
mod interval;
mod kind;
mod lex;
mod matrix;
mod named;
mod node;
mod normal;
mod numeric;
mod parse;
mod parts;
mod response;
mod rules;
mod scalar;
#[cfg(test)]
mod tests;
mod units;
mod verdict;
mod words;

/// The revision of the grader: a change of any verdict raises it, and no run is continued under another one.
pub const REVISION: u32 = 6;

pub use answer::Answer;
pub use extract::{BOXED, Extraction, Found, FoundBy, Prediction, answer_place};
pub use gold::{Gold, GoldError};
pub use grader::{Grader, grade};
pub use kind::Kind;
pub use response::Response;
pub use rules::{Rule, Rules, RulesError};
pub use verdict::{Reason, Verdict};
