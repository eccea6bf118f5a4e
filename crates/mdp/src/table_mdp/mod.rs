//! [`TableMdp`]: plain data from which a user's own MDP is built and validated.

mod build;
mod count;
mod pattern;
#[cfg(test)]
mod tests;

use super::error::{DEFAULT_MAX_LEAVES, TreeError};
use super::tree::RewardKind;

pub use count::Size;

/// The reward of the responses that match a pattern.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RewardEntry {
    /// Token names of a complete response (its EOS included, unless it is cut at the horizon), or of its
    /// beginning followed by `*`.
    pub pattern: Vec<String>,
    /// `P(R=1)` for binary rewards, the reward for real ones.
    pub reward: f64,
}

/// Tokens at the prefixes that match a pattern.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PrefixTokens {
    /// Token names of a prefix (empty: the prompt), or of its beginning followed by `*`.
    pub prefix: Vec<String>,
    /// Token names.
    pub tokens: Vec<String>,
}

/// The initial policy at the prefixes that match a pattern.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PolicyEntry {
    /// Token names of a prefix (empty: the prompt), or of its beginning followed by `*`.
    pub prefix: Vec<String>,
    /// Every token that is legal at those prefixes with its probability: each positive, sum 1 within `1e-9`.
    pub probabilities: Vec<(String, f64)>,
}

/// A token-MDP as a table, the shape of a user's configuration file.
///
/// **Patterns.** A pattern is a list of token names. Without `*` it matches exactly that sequence. With `*`
/// as its last element it matches every sequence that starts with what stands before `*`, that part alone
/// included; `*` cannot stand elsewhere. Where several patterns of one list match, the *most specific* wins:
/// the one with the longest fixed part, and of two with the same fixed part the one without `*`. The order in
/// the list does not matter. The same pattern twice is refused, and so is a pattern that matches nothing in
/// the resulting MDP.
///
/// **Rewards.** A response gets the reward of its most specific pattern, or `default_reward` if none matches.
///
/// **Legal tokens.** At a prefix every token is legal except those named by *any* matching entry of
/// `illegal`.
///
/// **Initial policy.** Uniform over the legal tokens, unless an entry of `policy` matches: then the most
/// specific one gives the probabilities, and must name exactly the legal tokens.
///
/// ```
/// use grpo_lambda_mdp::{Oracle, PrefixTokens, RewardEntry, TableMdp};
/// let words = |text: &str| text.split_whitespace().map(String::from).collect::<Vec<_>>();
/// let mdp = TableMdp {
///     name: "lemma".into(),
///     tokens: words("A B EOS"),
///     eos: "EOS".into(),
///     horizon: 2,
///     rewards: vec![RewardEntry { pattern: words("A *"), reward: 1.0 }],
///     illegal: vec![
///         PrefixTokens { prefix: vec![], tokens: words("EOS") },
///         PrefixTokens { prefix: words("A *"), tokens: words("A B") },
///         PrefixTokens { prefix: words("B *"), tokens: words("A B") },
///     ],
///     ..TableMdp::default()
/// };
/// let (tree, policy) = mdp.build()?;
/// assert_eq!(tree.leaf_count(), 2);
/// assert_eq!(Oracle::new(&tree, &policy).j, 0.5);
/// # Ok::<(), grpo_lambda_mdp::SpecError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct TableMdp {
    /// A name for tables and figures; not empty.
    pub name: String,
    /// The vocabulary, `eos` included: all different, not empty, none of them `*`.
    pub tokens: Vec<String>,
    /// The end-of-sequence token.
    pub eos: String,
    /// The number of tokens at which a response is cut, at least 1.
    pub horizon: usize,
    /// The discount γ, in `[0,1]`; 1 by default.
    pub gamma: f64,
    /// The meaning of rewards; binary by default.
    pub reward_kind: RewardKind,
    /// The reward of a response that matches no entry of `rewards`; 0 by default.
    pub default_reward: f64,
    /// Rewards by pattern of the response.
    pub rewards: Vec<RewardEntry>,
    /// Illegal tokens by pattern of the prefix.
    pub illegal: Vec<PrefixTokens>,
    /// The initial policy by pattern of the prefix.
    pub policy: Vec<PolicyEntry>,
    /// The number of responses beyond which the MDP is refused; [`DEFAULT_MAX_LEAVES`] by default.
    pub max_leaves: usize,
}

impl Default for TableMdp {
    fn default() -> TableMdp {
        TableMdp {
            name: String::new(),
            tokens: Vec::new(),
            eos: String::new(),
            horizon: 0,
            gamma: 1.0,
            reward_kind: RewardKind::Binary,
            default_reward: 0.0,
            rewards: Vec::new(),
            illegal: Vec::new(),
            policy: Vec::new(),
            max_leaves: DEFAULT_MAX_LEAVES,
        }
    }
}

/// Why a [`TableMdp`] was refused. Each message names the field and the value.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the message shows what each field holds")]
pub enum SpecError {
    /// A value is not acceptable.
    #[error("{field} = {value}: {reason}")]
    Field { field: String, value: String, reason: String },
    /// The MDP as a whole cannot be built.
    #[error(transparent)]
    Tree(#[from] TreeError),
}
