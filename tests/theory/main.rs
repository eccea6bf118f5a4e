//! The claims, one module each; `cargo test theorem_1` reads as a list of results.

mod clamp;
mod clip_form;
mod credit_profile;
mod equation_15;
mod figure_2;
mod lambda_zero;
mod oracle;
mod theorem_1;
