//! The claims, one module each; `cargo test theorem_1` reads as a list of results.

mod atlas_lucky_guess;
mod atlas_off_policy;
mod atlas_search;
mod atlas_updates;
mod bound_in_advantage;
mod clamp;
mod clip_form;
mod conformance;
mod credit_profile;
mod equation_15;
mod figure_2;
mod gae_parity;
mod ground_truth;
mod identities;
mod kl_estimators;
mod lambda_direction;
mod lambda_zero;
mod learning;
mod lemma_1;
mod length_bias;
mod oracle;
mod strategies;
mod theorem_1;
mod tolerance;
mod traces;
mod trl_parity;
