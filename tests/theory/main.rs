//! The claims, one module each; `cargo test theorem_1` reads as a list of results.

mod bound_in_advantage;
mod kl_estimators;
mod lambda_direction;
mod lemma_1;
mod length_bias;
mod oracle;
