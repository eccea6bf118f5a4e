//! The search for the convention behind given numbers.
#![allow(clippy::unwrap_used)] // the lint spares test functions but not their helpers

mod diagnose;
