#![doc = include_str!("README.md")]
//!
//! # Modules, from the ground up
//!
//! A module imports from its own row or from rows above it, and no modules import each other in a circle; a test holds that.
//!
//! | modules | what they hold |
//! | --- | --- |
//! | [`group`], [`metrics`], [`settings`], [`equation`], [`padded`] | data and vocabulary |
//! | [`systematic`] | sampling of a group from evenly spaced codes |
//! | [`trace`], [`advantage`], [`surrogate`], [`kl`], [`reduction`], [`soft_clamp`], [`check`] | single formulas, and the check of a batch |
//! //! | [`assignment`], [`ratio`] | the parts in which methods differ |
//! | [`objective`] | the clipped loss put together from those parts |
//! | [`methods`] | what a method is, its evaluation on a batch, and the registry: one module per method |
//! | [`token_weights`] | the weight of each token in a method's gradient, on-policy |
//! | [`learner`] | the training step over any policy |
//!
//! # Symbols
//!
//! | symbol | name here | meaning |
//! | --- | --- | --- |
//! | `g`, `G` | group size | responses per prompt |
//! | `T` | `len` | tokens of a response, EOS included |
//! | `x_t` | log-ratio | `log pi(a_t\|s_t) - log pi_old(a_t\|s_t)` |
//! | `q` | `q` | `gamma lambda` |
//! | `E`, `M` | [`trace::Trace`] | the trace operator |
//! | `delta_t` | [`advantage::Delta`] | what multiplies the trace at `t` |
//! | `A_NAE` | [`advantage::OutcomeAdvantage`] | the z-scored group reward |
//! | `beta` | `beta` | KL coefficient |
//!
//! # From the paper's equations to items
//!
//! | GRPO-lambda | item |
//! | --- | --- |
//! | Eq. 1, 13-15 (trace, *recent*) | [`trace::Recent`] |
//! | Eq. 2 (*both*) | [`trace::Both`] |
//! | Eq. 17, 18 (printed matrices) | [`trace::AsPrinted`], [`trace::RowIndex`] |
//! | Theorem 1 | [`trace::Trace::apply`] and [`trace::Trace::adjoint`] are adjoint |
//! | GAE, TD errors | [`advantage::gae`], [`advantage::td_errors`] |
//! | `A_NAE`, clamp at -0.1 | [`advantage::OutcomeAdvantage`] |
//! | clipped objective, Algorithms 1 and 2 | [`surrogate::Surrogate`], [`objective::Objective`], [`ratio::PolicyRatio`] |
//! | `1 + sigma(log pi - 1)` | [`soft_clamp::SoftClamp`] |
//! | `l_KL` | [`kl::Kl`] |
//! | Lemma 1, `V`, `Q`, grad J | `grpo_lambda_mdp::Oracle` |
//! | Tables 1-6, as printed | `grpo_lambda_printed::Paper` |
//!
//! The paper's errors, and what checks each of them, are listed in `paper/README.md`.

pub mod advantage;
pub mod assignment;
pub mod check;
pub mod equation;
pub mod group;
pub mod kl;
pub mod learner;
mod method;
pub mod methods;
pub mod metrics;
pub mod objective;
pub mod padded;
pub mod ratio;
pub mod reduction;
pub mod settings;
pub mod soft_clamp;
pub mod surrogate;
pub mod systematic;
pub mod token_weights;
pub mod trace;
