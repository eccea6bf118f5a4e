//! [`TreeError`]: why an MDP was refused, and the limits on its size.

/// The default limit on the number of responses, 20 million.
pub const DEFAULT_MAX_LEAVES: usize = 20_000_000;
/// The limit on the number of (prefix, token) pairs, 100 million.
pub const MAX_EDGES: usize = 100_000_000;
/// The longest horizon, 10,000 tokens. Where one token goes on and one ends, responses are as many as the horizon, and their tokens as its square.
pub const MAX_HORIZON: usize = 10_000;

/// The range of real rewards: the statistics of groups raise them to the fourth power and sum over every response, and no result overflows.
pub const MAX_REWARD: f64 = 1e30;
/// That range in words.
pub(crate) const REAL_REWARD: &str = "from -1e30 to 1e30";

/// True within that range.
pub(crate) fn is_real_reward(reward: f64) -> bool {
    reward.abs() <= MAX_REWARD
}

/// Why an MDP could not be built. Each message names the field, the value and the bound.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the message shows what each field holds")]
pub enum TreeError {
    /// A name occurs twice in the vocabulary.
    #[error("tokens: `{0}` occurs more than once")]
    DuplicateToken(String),
    /// EOS is not an index into the vocabulary.
    #[error("eos = {eos} must be below the {tokens} tokens of the vocabulary")]
    Eos { eos: u32, tokens: usize },
    /// No response can have a token, or the longest could have more than [`MAX_HORIZON`].
    #[error("horizon = {0} must be from 1 to {MAX_HORIZON}")]
    Horizon(usize),
    /// The discount is not in `[0,1]`.
    #[error("gamma = {0} must be in [0, 1]")]
    Gamma(f64),
    /// A non-terminal prefix has no legal token.
    #[error("legal: no token is legal at prefix `{0}`")]
    DeadEnd(String),
    /// A legal token is not in the vocabulary.
    #[error("legal: token {token} at prefix `{prefix}` must be below the {tokens} tokens of the vocabulary")]
    UnknownToken { prefix: String, token: u32, tokens: usize },
    /// A token is declared legal twice at one prefix.
    #[error("legal: token `{token}` occurs more than once at prefix `{prefix}`")]
    RepeatedToken { prefix: String, token: String },
    /// A reward is out of range: beyond [`MAX_REWARD`], or no probability where the reward is binary.
    #[error("reward = {reward} of response `{response}` must be {bound}")]
    Reward { response: String, reward: f64, bound: &'static str },
    /// The MDP has more responses than allowed. Found before they are enumerated.
    #[error("more than max_leaves = {0} responses: lower the horizon or the number of legal tokens")]
    TooManyLeaves(usize),
    /// The MDP has more (prefix, token) pairs than [`MAX_EDGES`].
    #[error("more than {MAX_EDGES} (prefix, token) pairs: lower the horizon or the number of legal tokens")]
    TooManyEdges,
    /// A knob of a family of the [`zoo`](super::zoo) is out of range.
    #[error("{family}: {knob} = {value} must be {bound}")]
    Knob { family: &'static str, knob: &'static str, value: String, bound: &'static str },
}
