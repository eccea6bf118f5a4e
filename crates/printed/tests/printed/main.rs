//! The printed tables: their consistency, and what a damaged file is refused for.
#![allow(clippy::unwrap_used)] // the lint spares test functions but not their helpers

mod consistency;
mod file;
