#![doc = include_str!("../README.md")]
//!
//! # The MDP
//!
//! A *state* is a prefix of a response, an *action* is its next token, transitions are
//! deterministic (append the token), and an episode is one response: a token sequence that ends
//! with EOS or is cut at the horizon `H`. The reward comes with the last token. Such an MDP is a
//! tree, so that every quantity of the theory is a finite sum:
//!
//! ```text
//! Q(s,a)  = E[R | y]              if s,a completes the response y
//!         = γ V(s')               otherwise, s' = s followed by a
//! V(s)    = Σ_a π(a|s) Q(s,a)     = E[γ^(T-1-t) R | s_t = s]
//! J       = V(s_0)                s_0 = the prompt
//! ∂J/∂θ(s,a) = γ^t d(s) π(a|s) (Q(s,a) - V(s))      t = depth of s, d(s) = P(the response passes s)
//! ```
//!
//! | item | what it is |
//! | --- | --- |
//! | [`Tree`], [`Rules`] | the MDP in flat arrays, and its builder |
//! | [`Tabular`] | one logit per edge (prefix, token) |
//! | [`Sampler`] | seeded responses from a policy |
//! | [`Oracle`] | `V`, `Q`, `A`, `d`, `J`, `∇J`, leaf probabilities, expectations; survival and the value process |
//! | [`Optimal`] | the best deterministic policy, `J*` |
//! | [`TableMdp`] | plain data from which a user's own MDP is built and validated |
//! | [`expected`] | the exact expected update of any registered method, in several ways that agree |
//! | [`extra_inputs`] | what methods ask for beyond rewards, exactly |
//! | [`Maskable`] | a small parametric policy whose inputs can be masked and differentiated: the scores of OAR |
//! | [`PromptPolicy`] | one-token answers to many prompts, with parameters that prompts share: what an update for one does to another |
//! | [`TabularLearner`] | a tabular policy under the training step of [`grpo_lambda::learner`] |
//! | [`zoo`] | named MDPs, each of which shows one thing |

mod build;
mod draw;
mod error;
pub mod expected;
pub mod extra_inputs;
mod maskable;
mod optimal;
mod oracle;
mod policy;
mod process;
mod prompts;
mod sample;
mod table_mdp;
#[cfg(test)]
mod testing;
mod tilt;
mod train;
mod tree;
pub mod zoo;

pub use build::Rules;
pub use error::{DEFAULT_MAX_LEAVES, MAX_EDGES, MAX_HORIZON, MAX_REWARD, TreeError};
pub use maskable::{Maskable, MaskableInputs};
pub use optimal::Optimal;
pub use oracle::Oracle;
pub use policy::Tabular;
pub use process::ProcessStep;
pub use prompts::PromptPolicy;
pub use sample::{Sampler, sample_reward};
pub use table_mdp::{PolicyEntry, PrefixTokens, RewardEntry, Size, SpecError, TableMdp};
pub use tilt::has_success_rate;
pub use train::TabularLearner;
pub use tree::{EdgeId, LeafId, NodeId, RewardKind, Target, Tree};
