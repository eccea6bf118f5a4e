//! The registry of methods: one file per method, and the functions that find and configure one.
//!
//! ```
//! let rloo = grpo_lambda::methods::parse("rloo", "beta=0.04").unwrap();
//! assert_eq!(rloo.spec.title, "RLOO");
//! ```

mod bnpo;
mod bnpo_beta;
mod cispo;
mod dapo;
mod dppo;
mod dr_grpo;
mod dro;
mod gdpo;
mod gmpo;
mod gpg;
mod grpo;
mod grpo_batch_std;
mod grpo_lambda;
mod grpo_passk;
mod gspo;
mod gspo_token;
mod high_entropy;
mod luspo;
mod oar_g;
mod oar_p;
mod opo;
mod optimal_token_baseline;
mod p_trace;
mod ppo;
mod prefix_rloo;
mod prime;
mod reinforce_pp;
mod reinforce_pp_baseline;
mod remax;
mod ridge_rloo;
mod rloo;
mod rlsd;
mod s_trace;
mod sapo;
mod shared;
mod shear;
mod spo_chain;
mod spo_tree;
mod systematic_prefix_rloo;
mod systematic_rloo;
mod systematic_visit;
mod tempo;
mod tree_rl;
mod tree_rpo;
mod vespo;
mod vine_ppo;
mod w_reinforce;

pub use crate::method::{
    BatchLoss, Configured, Coupling, Credit, Loss, Method, MethodSpec, MissingEvidence, Provenance,
    TokenTerm, batch_metrics, evaluate, evaluate_around, evaluate_groups, evaluate_groups_given,
};

use shared::{Aggregate, Clip, Divisor, Preset};

use crate::settings::{SettingError, Settings, closest, did_you_mean};

/// Every method, in the order of tables. Adding one is its file and its line here.
pub static REGISTRY: &[&MethodSpec] = &[
    &grpo::SPEC,
    &dr_grpo::SPEC,
    &rloo::SPEC,
    &grpo_lambda::SPEC,
    &grpo_batch_std::SPEC,
    &dapo::SPEC,
    &bnpo::SPEC,
    &bnpo_beta::SPEC,
    &gspo::SPEC,
    &gspo_token::SPEC,
    &luspo::SPEC,
    &gmpo::SPEC,
    &cispo::SPEC,
    &sapo::SPEC,
    &vespo::SPEC,
    &dppo::SPEC,
    &dro::SPEC,
    &gpg::SPEC,
    &opo::SPEC,
    &grpo_passk::SPEC,
    &remax::SPEC,
    &gdpo::SPEC,
    &reinforce_pp::SPEC,
    &reinforce_pp_baseline::SPEC,
    &w_reinforce::SPEC,
    &high_entropy::SPEC,
    &optimal_token_baseline::SPEC,
    &prefix_rloo::SPEC,
    &ridge_rloo::SPEC,
    &systematic_rloo::SPEC,
    &systematic_prefix_rloo::SPEC,
    &systematic_visit::SPEC,
    &tempo::SPEC,
    &p_trace::SPEC,
    &s_trace::SPEC,
    &oar_p::SPEC,
    &oar_g::SPEC,
    &ppo::SPEC,
    &vine_ppo::SPEC,
    &spo_chain::SPEC,
    &spo_tree::SPEC,
    &tree_rl::SPEC,
    &tree_rpo::SPEC,
    &rlsd::SPEC,
    &shear::SPEC,
    &prime::SPEC,
];

/// The registry entry of a name.
///
/// # Errors
/// [`SettingError::UnknownMethod`].
pub fn find(name: &str) -> Result<&'static MethodSpec, SettingError> {
    REGISTRY.iter().copied().find(|spec| spec.name == name).ok_or_else(|| SettingError::UnknownMethod {
        name: name.to_owned(),
        hint: did_you_mean(name, REGISTRY.iter().map(|s| s.name)),
        known: REGISTRY.iter().map(|s| s.name).collect::<Vec<_>>().join(", "),
    })
}

/// Builds a method from `key=value` overrides of its defaults.
///
/// # Errors
/// [`SettingError`]: unknown method or key, repeated key, value out of range or at odds with another.
pub fn configure(name: &str, overrides: &[(String, String)]) -> Result<Configured, SettingError> {
    let spec = find(name)?;
    let settings =
        Settings::resolve(spec.name, &(spec.params)(), overrides).map_err(with_hint_of_other_methods)?;
    shared::check_together(&settings)?;
    let method = (spec.build)(&settings);
    Ok(Configured { spec, settings, method })
}

/// Adds the methods that have an unknown key, or one close to it, if none of this method's keys is close.
fn with_hint_of_other_methods(error: SettingError) -> SettingError {
    let SettingError::UnknownKey { method, key, hint, known } = error else { return error };
    if !hint.is_empty() {
        return SettingError::UnknownKey { method, key, hint, known };
    }
    let has = |spec: &MethodSpec, key: &str| (spec.params)().iter().any(|p| p.key == key);
    let all: Vec<&str> = REGISTRY.iter().flat_map(|spec| (spec.params)()).map(|p| p.key).collect();
    let closest = all.iter().copied().find(|k| *k == key).or_else(|| closest(&key, all.iter().copied()));
    let hint = closest.map_or(String::new(), |found| {
        let owners: Vec<_> = REGISTRY.iter().filter(|s| has(s, found)).map(|s| s.name).take(4).collect();
        format!(" (`{found}` is a setting of {})", owners.join(", "))
    });
    SettingError::UnknownKey { method, key, hint, known }
}

/// [`configure`] with the overrides in one string, `"lambda=0.9 style=both"`.
///
/// # Errors
/// The errors of [`configure`]; a word without `=` is refused as an unknown key.
///
/// ```
/// let grpo_lambda = grpo_lambda::methods::parse("grpo_lambda", "lambda=0.9 style=both").unwrap();
/// assert_eq!(grpo_lambda.settings.number("lambda"), 0.9);
/// assert!(grpo_lambda::methods::parse("grpo", "lambda=0.9").is_err()); // GRPO has no lambda
/// ```
pub fn parse(name: &str, overrides: &str) -> Result<Configured, SettingError> {
    let pairs: Vec<_> = overrides
        .split_whitespace()
        .map(|word| word.split_once('=').unwrap_or((word, "")))
        .map(|(k, v)| (k.to_owned(), v.to_owned()))
        .collect();
    configure(name, &pairs)
}
