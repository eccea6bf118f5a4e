//! The claims, one module each; `cargo test theorem_1` reads as a list of results.

mod learning;
mod oracle;
