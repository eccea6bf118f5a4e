//! Methods: from a sampled and graded batch to the loss of each response and its gradient; the registry of all of them, one module
//! each, whose page has its equation; and the functions that find and configure one.
//!
//! A method is a pure function in two steps. [`Method::credit`] looks at rewards, lengths and extra inputs of a whole
//! batch once and fixes, for every response, its per-token advantages and its weight in the loss. [`Method::loss`] then
//! maps one response's current log-probabilities to its share of the loss and the gradient. The shares add up, so
//! splitting a batch into micro-batches cannot change the result. [`evaluate`] runs both steps on a whole batch.
//!
//! ```
//! let rloo = grpo_lambda::methods::parse("rloo", "beta=0.04").unwrap();
//! assert_eq!(rloo.spec.title, "RLOO");
//! ```
//!
#![doc = include_str!("README.md")]

pub mod bnpo;
pub mod bnpo_beta;
pub mod cispo;
pub mod dapo;
pub mod distillation;
pub mod dppo;
pub mod dr_grpo;
pub mod dro;
pub mod fipo;
pub mod gdpo;
pub mod gmpo;
pub mod gpg;
pub mod grpo;
pub mod grpo_batch_std;
pub mod grpo_lambda;
pub mod grpo_lead;
pub mod grpo_passk;
pub mod gspo;
pub mod gspo_token;
pub mod high_entropy;
pub mod luspo;
pub mod maxrl;
pub mod oar_g;
pub mod oar_p;
pub mod opo;
pub mod optimal_token_baseline;
pub mod p_trace;
pub mod ppo;
pub mod prefix_rloo;
pub mod prime;
pub mod reinforce_pp;
pub mod reinforce_pp_baseline;
pub mod remax;
pub mod ridge_rloo;
pub mod rloo;
pub mod rlsd;
pub mod s_trace;
pub mod sapo;
pub mod shear;
pub mod spo_chain;
pub mod spo_tree;
pub mod systematic_prefix_rloo;
pub mod systematic_rloo;
pub mod systematic_visit;
pub mod tempo;
pub mod topr;
pub mod tree_rl;
pub mod tree_rpo;
pub mod vespo;
pub mod vine_ppo;
pub mod w_reinforce;

mod sampler;
mod shared;

pub use crate::method::{
    BatchLoss, Configured, Coupling, Credit, Loss, Method, MethodSpec, MissingInput, Provenance, TokenTerm,
    batch_metrics, credited_metrics, evaluate, evaluate_groups, evaluate_groups_given,
};

use shared::{Aggregate, Clip, Divisor, Preset};

use crate::settings::{SettingError, Settings, Value, closest, did_you_mean};

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
    &topr::SPEC,
    &fipo::SPEC,
    &gpg::SPEC,
    &opo::SPEC,
    &maxrl::SPEC,
    &grpo_lead::SPEC,
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
    &distillation::SPEC,
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

/// A method whose settings are being chosen: [`MethodSpec::with`] begins one.
#[must_use = "`build` makes the method"]
pub struct Builder {
    spec: &'static MethodSpec,
    overrides: Vec<(String, String)>,
}

impl MethodSpec {
    /// The method with one setting chosen by a value of its type: a number, a flag, an enum of the setting's words, `None` for `none`.
    pub fn with(&'static self, key: &str, value: impl Value) -> Builder {
        Builder { spec: self, overrides: Vec::new() }.with(key, value)
    }
}

impl Builder {
    /// Chooses one more setting.
    pub fn with(mut self, key: &str, value: impl Value) -> Builder {
        self.overrides.push((key.to_owned(), value.spelt()));
        self
    }

    /// The method under these settings.
    ///
    /// # Errors
    /// The errors of [`configure`].
    pub fn build(self) -> Result<Configured, SettingError> {
        configure(self.spec.name, &self.overrides)
    }
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
