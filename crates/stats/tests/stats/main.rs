//! Intervals, tests and tables against numbers by hand, enumeration and published values.
#![allow(clippy::unwrap_used)] // the lint spares test functions but not their helpers

mod benchmark;
mod rank;
mod statistics;
mod table;
