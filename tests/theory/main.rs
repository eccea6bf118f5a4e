//! The claims, one module each; `cargo test theorem_1` reads as a list of results.

mod bound_in_advantage;
mod conformance;
mod gae_parity;
mod identities;
mod kl_estimators;
mod lambda_direction;
mod learning;
mod lemma_1;
mod length_bias;
mod oracle;
mod strategies;
mod tolerance;
mod traces;
mod trl_parity;
