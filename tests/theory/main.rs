//! The claims, one module each, and the architecture; `cargo test theorem_1` reads as a list of results.

mod architecture;
mod atlas_learning;
mod atlas_lucky_guess;
mod atlas_off_policy;
mod atlas_updates;
mod bound_in_advantage;
mod clamp;
mod clamp_gain;
mod clip_form;
mod conformance;
mod contracts;
mod conventions;
mod credit_profile;
mod equation;
mod equation_15;
mod figure_2;
mod formulas;
mod gae_parity;
mod ground_truth;
mod identities;
mod kl_estimators;
mod laboratory;
mod lambda_direction;
mod lambda_zero;
mod learning;
mod lemma_1;
mod length_bias;
mod length_bonus;
#[path = "../long/mod.rs"]
mod long;
mod oracle;
mod prefix_values;
mod ridge_values;
mod sampler;
mod strategies;
mod theorem_1;
mod tolerance;
mod traces;
mod trl_parity;
mod verl_parity;

/// The folder of the workspace.
fn root() -> &'static std::path::Path {
    let mut folders = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    folders.nth(2).expect("the tests lie two folders below the workspace")
}

/// A committed fixture, unpacked and read.
fn unpacked<T: serde::de::DeserializeOwned>(gzip: &[u8]) -> T {
    let text = std::io::BufReader::new(flate2::read::GzDecoder::new(gzip));
    serde_json::from_reader(text).expect("the committed fixture")
}
