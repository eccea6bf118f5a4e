//! Limits on the size of an enumerated MDP.

/// The default limit on the number of responses, 20 million.
pub const DEFAULT_MAX_LEAVES: usize = 20_000_000;
/// The limit on the number of (prefix, token) pairs, 100 million.
pub const MAX_EDGES: usize = 100_000_000;
/// The longest horizon, 10,000 tokens. Where one token goes on and one ends, responses are as many as the horizon, and their tokens as its square.
pub const MAX_HORIZON: usize = 10_000;
