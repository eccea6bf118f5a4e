//! Studies that compare methods over seeds, each at a rate that other seeds chose: what the program that runs one
//! and the claim that judges it share.
//!
//! | part | holds |
//! | --- | --- |
//! | [`Study`] | a protocol of `paper/protocols`: methods, seeds, rates, budget, comparisons, gate |
//! | [`Trial`] | a run as a row of a CSV file, with its [`Curve`] of accuracy over tokens |
//! | [`chosen`], [`Rows`] | the rate of a method, and its runs by seed |
//! | [`Difference`], [`correct`], [`Verdict`] | a comparison paired by seed, and its verdict after correction over a family |
//!
//! Nothing here knows how a run is made.
#![allow(missing_docs)] // internal to the workspace: names and comments say what is not obvious

mod compare;
mod curve;
mod study;
mod trial;

pub use compare::{Compared, Difference, Verdict, correct};
pub use curve::{Curve, CurveError, Point, Shares};
pub use study::{Comparison, Gate, Method, Seeds, Study, StudyError};
pub use trial::{End, Rows, Stage, Trial, chosen};
