//! The claims, one module each; `cargo test theorem_1` reads as a list of results.

mod conformance;
mod gae_parity;
mod identities;
mod oracle;
mod strategies;
mod tolerance;
mod traces;
mod trl_parity;
