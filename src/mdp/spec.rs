//! [`TableMdp`]: plain data from which a user's own MDP is built and validated.

use super::build::{DEFAULT_MAX_LEAVES, Rules, TreeError};
use super::pattern::{ANY, Pattern, best};
use super::policy::Tabular;
use super::tree::{RewardKind, Target, Tree, text};

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
/// use grpo_lambda::mdp::{Oracle, PrefixTokens, RewardEntry, TableMdp};
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
/// # Ok::<(), grpo_lambda::mdp::SpecError>(())
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
    /// How rewards are to be read; binary by default.
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
pub enum SpecError {
    /// A value is not acceptable.
    #[error("{field} = {value}: {reason}")]
    Field {
        /// The field, with its index in a list: `rewards[2].pattern`.
        field: String,
        /// The value given.
        value: String,
        /// What it must be.
        reason: String,
    },
    /// The MDP as a whole cannot be built.
    #[error(transparent)]
    Tree(#[from] TreeError),
}

/// How far the probabilities of a policy entry may sum from 1.
const SUM_TOLERANCE: f64 = 1e-9;

impl TableMdp {
    /// Builds the MDP and its initial policy.
    ///
    /// # Errors
    /// [`SpecError`], naming the field and the value: an unknown or repeated token, a misplaced `*`, a
    /// pattern given twice or one that matches nothing, a reward out of range, probabilities that are not
    /// positive or do not sum to 1 or do not name exactly the legal tokens, a prefix without a legal token,
    /// too many responses.
    pub fn build(&self) -> Result<(Tree, Tabular), SpecError> {
        self.check_vocabulary()?;
        let rewards = self.patterns("rewards", "pattern", self.rewards.iter().map(|e| &e.pattern))?;
        let illegal = self.patterns("illegal", "prefix", self.illegal.iter().map(|e| &e.prefix))?;
        let policy = self.patterns("policy", "prefix", self.policy.iter().map(|e| &e.prefix))?;
        let forbidden = self.forbidden()?;
        let wanted = self.probabilities()?;
        self.check_rewards()?;

        let mut used = vec![false; illegal.len()];
        let legal = |prefix: &[u32]| {
            let matching: Vec<usize> = (0..illegal.len()).filter(|&i| illegal[i].matches(prefix)).collect();
            matching.iter().for_each(|&i| used[i] = true);
            let is_legal = |token: &u32| !matching.iter().any(|&i| forbidden[i].contains(token));
            (0..self.tokens.len() as u32).filter(is_legal).collect()
        };
        let reward = |response: &[u32], _| {
            best(&rewards, response).map_or(self.default_reward, |i| self.rewards[i].reward)
        };
        let tree = self.rules()?.build(legal, reward)?;

        let unused = (0..used.len()).find(|&i| !used[i]);
        if let Some(i) = unused {
            return Err(nothing("illegal", "prefix", i, &self.illegal[i].prefix, "prefix"));
        }
        for (i, pattern) in rewards.iter().enumerate() {
            let matches = match tree.find(&pattern.fixed) {
                Some(Target::Leaf(_)) => true,
                Some(Target::Node(_)) => pattern.open,
                None => false,
            };
            if !matches {
                return Err(nothing("rewards", "pattern", i, &self.rewards[i].pattern, "response"));
            }
        }
        for (i, pattern) in policy.iter().enumerate() {
            if !matches!(tree.find(&pattern.fixed), Some(Target::Node(_))) {
                return Err(nothing("policy", "prefix", i, &self.policy[i].prefix, "non-terminal prefix"));
            }
        }
        let weights = self.weights(&tree, &policy, &wanted)?;
        let policy = Tabular::from_weights(&tree, |_, edge| weights[edge]);
        Ok((tree, policy))
    }

    fn check_vocabulary(&self) -> Result<(), SpecError> {
        if self.name.trim().is_empty() {
            return Err(field("name", format!("{:?}", self.name), "must not be empty"));
        }
        for (i, token) in self.tokens.iter().enumerate() {
            let at = || format!("tokens[{i}]");
            if token.trim().is_empty() || token.as_str() == ANY {
                return Err(field(at(), format!("{token:?}"), "must be neither empty nor `*`"));
            }
            if self.tokens[..i].contains(token) {
                return Err(field(at(), format!("{token:?}"), "occurs more than once"));
            }
        }
        Ok(())
    }

    fn rules(&self) -> Result<Rules, SpecError> {
        Ok(Rules {
            tokens: self.tokens.clone(),
            eos: self.token("eos", &self.eos)?,
            horizon: self.horizon,
            gamma: self.gamma,
            reward_kind: self.reward_kind,
            max_leaves: self.max_leaves,
        })
    }

    fn token(&self, at: &str, name: &str) -> Result<u32, SpecError> {
        let known = || format!("is not in tokens = [{}]", self.tokens.join(", "));
        let id = self.tokens.iter().position(|token| token == name);
        id.map(|id| id as u32).ok_or_else(|| field(at, format!("{name:?}"), known()))
    }

    /// The patterns of one list, distinct.
    fn patterns<'a>(
        &self,
        list: &str,
        name: &str,
        entries: impl Iterator<Item = &'a Vec<String>>,
    ) -> Result<Vec<Pattern>, SpecError> {
        let mut patterns = Vec::new();
        for (i, words) in entries.enumerate() {
            let at = format!("{list}[{i}].{name}");
            let (fixed, open) = match words.split_last() {
                Some((last, rest)) if last.as_str() == ANY => (rest, true),
                _ => (&words[..], false),
            };
            if fixed.iter().any(|word| word.as_str() == ANY) {
                return Err(field(at, show(words), "`*` may only stand at the end"));
            }
            let fixed = fixed.iter().map(|word| self.token(&at, word)).collect::<Result<_, _>>()?;
            let pattern = Pattern { fixed, open };
            if let Some(first) = patterns.iter().position(|other| *other == pattern) {
                return Err(field(at, show(words), format!("is already given by {list}[{first}]")));
            }
            patterns.push(pattern);
        }
        Ok(patterns)
    }

    fn forbidden(&self) -> Result<Vec<Vec<u32>>, SpecError> {
        let ids = |(i, entry): (usize, &PrefixTokens)| {
            let at = format!("illegal[{i}].tokens");
            entry.tokens.iter().map(|name| self.token(&at, name)).collect()
        };
        self.illegal.iter().enumerate().map(ids).collect()
    }

    /// The probabilities of each policy entry by token id, sorted.
    fn probabilities(&self) -> Result<Vec<Vec<(u32, f64)>>, SpecError> {
        let mut out = Vec::new();
        for (i, entry) in self.policy.iter().enumerate() {
            let at = format!("policy[{i}].probabilities");
            let mut row = Vec::new();
            for (name, p) in &entry.probabilities {
                let token = self.token(&at, name)?;
                if !(*p > 0.0 && *p <= 1.0) {
                    return Err(field(format!("{at}.{name}"), p.to_string(), "must be in (0, 1]"));
                }
                if row.iter().any(|&(other, _)| other == token) {
                    return Err(field(at, format!("{name:?}"), "occurs more than once"));
                }
                row.push((token, *p));
            }
            let sum: f64 = row.iter().map(|&(_, p)| p).sum();
            if (sum - 1.0).abs() > SUM_TOLERANCE {
                return Err(field(at, format!("a sum of {sum}"), "must sum to 1"));
            }
            row.sort_by_key(|&(token, _)| token);
            out.push(row);
        }
        Ok(out)
    }

    fn check_rewards(&self) -> Result<(), SpecError> {
        let check = |at: String, reward: f64| match self.reward_kind {
            RewardKind::Binary if !(0.0..=1.0).contains(&reward) => {
                Err(field(at, reward.to_string(), "must be a probability in [0, 1] (reward_kind = binary)"))
            }
            RewardKind::Real if !reward.is_finite() => Err(field(at, reward.to_string(), "must be finite")),
            _ => Ok(()),
        };
        check("default_reward".into(), self.default_reward)?;
        self.rewards.iter().enumerate().try_for_each(|(i, e)| check(format!("rewards[{i}].reward"), e.reward))
    }

    /// The initial probability of each edge.
    fn weights(
        &self,
        tree: &Tree,
        patterns: &[Pattern],
        wanted: &[Vec<(u32, f64)>],
    ) -> Result<Vec<f64>, SpecError> {
        let mut weights = vec![1.0; tree.edge_count()];
        if patterns.is_empty() {
            return Ok(weights);
        }
        for node in tree.nodes() {
            let prefix = tree.prefix(node);
            let Some(i) = best(patterns, &prefix) else { continue };
            let edges = tree.edges_of(node);
            // Legal tokens are in ascending order, as the rows of `wanted` are.
            let same = edges.clone().map(|e| tree.token(e)).eq(wanted[i].iter().map(|&(token, _)| token));
            if !same {
                let legal: Vec<u32> = edges.map(|e| tree.token(e)).collect();
                let named: Vec<u32> = wanted[i].iter().map(|&(token, _)| token).collect();
                let (named, legal) = (list(&self.tokens, &named), list(&self.tokens, &legal));
                let reason = format!(
                    "must name exactly the legal tokens [{legal}] of prefix `{}`",
                    text(&self.tokens, &prefix)
                );
                return Err(field(format!("policy[{i}].probabilities"), format!("[{named}]"), reason));
            }
            for (edge, &(_, p)) in edges.zip(&wanted[i]) {
                weights[edge] = p;
            }
        }
        Ok(weights)
    }
}

fn field(field: impl Into<String>, value: impl Into<String>, reason: impl Into<String>) -> SpecError {
    SpecError::Field { field: field.into(), value: value.into(), reason: reason.into() }
}

fn nothing(list: &str, name: &str, i: usize, words: &[String], what: &str) -> SpecError {
    field(format!("{list}[{i}].{name}"), show(words), format!("matches no {what} of this MDP"))
}

fn show(words: &[String]) -> String {
    format!("[{}]", words.join(" "))
}

fn list(names: &[String], tokens: &[u32]) -> String {
    tokens.iter().map(|&token| names[token as usize].as_str()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::{Optimal, Oracle};
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(String::from).collect()
    }

    fn reward(pattern: &str, reward: f64) -> RewardEntry {
        RewardEntry { pattern: words(pattern), reward }
    }

    fn illegal(prefix: &str, tokens: &str) -> PrefixTokens {
        PrefixTokens { prefix: words(prefix), tokens: words(tokens) }
    }

    fn policy(prefix: &str, probabilities: &[(&str, f64)]) -> PolicyEntry {
        let probabilities = probabilities.iter().map(|&(name, p)| (name.to_string(), p)).collect();
        PolicyEntry { prefix: words(prefix), probabilities }
    }

    /// Tokens a, b, E; horizon 3; everything legal.
    fn base() -> TableMdp {
        TableMdp {
            name: "t".into(),
            tokens: words("a b E"),
            eos: "E".into(),
            horizon: 3,
            ..TableMdp::default()
        }
    }

    fn message(mdp: TableMdp) -> String {
        mdp.build().unwrap_err().to_string()
    }

    #[test]
    fn rewards_follow_the_most_specific_pattern() {
        let mdp = TableMdp {
            default_reward: 0.125,
            rewards: vec![reward("a *", 0.25), reward("a b *", 0.5), reward("a b E", 1.0)],
            ..base()
        };
        let (tree, _) = mdp.build().unwrap();
        for leaf in tree.leaves() {
            let expected = match tree.text(&tree.response(leaf)).as_str() {
                "a b E" => 1.0,
                "a b a" | "a b b" => 0.5,
                text if text.starts_with('a') => 0.25,
                _ => 0.125,
            };
            assert_eq!(tree.reward(leaf), expected);
        }
        assert_eq!(Optimal::new(&tree).j, 1.0);
    }

    #[test]
    fn the_policy_is_uniform_except_where_an_entry_matches() {
        let mdp = TableMdp {
            illegal: vec![illegal("", "E")],
            policy: vec![
                policy("", &[("b", 0.75), ("a", 0.25)]),
                policy("*", &[("a", 0.5), ("b", 0.3), ("E", 0.2)]),
            ],
            ..base()
        };
        let (tree, policy) = mdp.build().unwrap();
        let probs = policy.probs(&tree);
        let row = |node| probs[tree.edges_of(node)].to_vec();
        for (got, want) in [(row(0), vec![0.25, 0.75]), (row(1), vec![0.5, 0.3, 0.2])] {
            assert!(got.len() == want.len() && got.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-15));
        }
        let (tree, policy) = base().build().unwrap();
        assert_eq!(policy, Tabular::uniform(&tree));
        assert!((Oracle::new(&tree, &policy).survival(2) - 4.0 / 9.0).abs() < 1e-15);
    }

    #[test]
    fn every_refusal_names_the_field_and_the_value() {
        let cases = [
            (TableMdp { name: " ".into(), ..base() }, "name = \" \": must not be empty"),
            (TableMdp { tokens: words("a a E"), ..base() }, "tokens[1] = \"a\": occurs more than once"),
            (
                TableMdp { tokens: words("a * E"), ..base() },
                "tokens[1] = \"*\": must be neither empty nor `*`",
            ),
            (TableMdp { eos: "x".into(), ..base() }, "eos = \"x\": is not in tokens = [a, b, E]"),
            (TableMdp { horizon: 0, ..base() }, "horizon = 0 must be at least 1"),
            (TableMdp { gamma: 2.0, ..base() }, "gamma = 2 must be in [0, 1]"),
            (
                TableMdp { default_reward: -1.0, ..base() },
                "default_reward = -1: must be a probability in [0, 1] (reward_kind = binary)",
            ),
            (
                TableMdp { reward_kind: RewardKind::Real, rewards: vec![reward("*", f64::NAN)], ..base() },
                "rewards[0].reward = NaN: must be finite",
            ),
            (
                TableMdp { rewards: vec![reward("a x", 1.0)], ..base() },
                "rewards[0].pattern = \"x\": is not in tokens = [a, b, E]",
            ),
            (
                TableMdp { rewards: vec![reward("a * b", 1.0)], ..base() },
                "rewards[0].pattern = [a * b]: `*` may only stand at the end",
            ),
            (
                TableMdp {
                    rewards: vec![reward("a *", 1.0), reward("b *", 1.0), reward("a *", 0.0)],
                    ..base()
                },
                "rewards[2].pattern = [a *]: is already given by rewards[0]",
            ),
            (
                TableMdp { rewards: vec![reward("a b", 1.0)], ..base() },
                "rewards[0].pattern = [a b]: matches no response of this MDP",
            ),
            (
                TableMdp { rewards: vec![reward("E a *", 1.0)], ..base() },
                "rewards[0].pattern = [E a *]: matches no response of this MDP",
            ),
            (
                TableMdp { illegal: vec![illegal("a b a", "E")], ..base() },
                "illegal[0].prefix = [a b a]: matches no prefix of this MDP",
            ),
            (
                TableMdp { illegal: vec![illegal("a", "a b E")], ..base() },
                "legal: no token is legal at prefix `a`",
            ),
            (
                TableMdp { illegal: vec![illegal("a", "q")], ..base() },
                "illegal[0].tokens = \"q\": is not in tokens = [a, b, E]",
            ),
            (
                TableMdp { policy: vec![policy("a E", &[("a", 1.0)])], ..base() },
                "policy[0].prefix = [a E]: matches no non-terminal prefix of this MDP",
            ),
            (
                TableMdp { policy: vec![policy("a", &[("a", 0.5), ("b", 0.5)])], ..base() },
                "policy[0].probabilities = [a, b]: must name exactly the legal tokens [a, b, E] of prefix `a`",
            ),
            (
                TableMdp { policy: vec![policy("a", &[("a", 0.5), ("b", 0.0), ("E", 0.5)])], ..base() },
                "policy[0].probabilities.b = 0: must be in (0, 1]",
            ),
            (
                TableMdp { policy: vec![policy("a", &[("a", 0.5), ("b", 0.25), ("E", 0.5)])], ..base() },
                "policy[0].probabilities = a sum of 1.25: must sum to 1",
            ),
            (
                TableMdp { policy: vec![policy("a", &[("a", 0.5), ("a", 0.5)])], ..base() },
                "policy[0].probabilities = \"a\": occurs more than once",
            ),
            (
                TableMdp { max_leaves: 3, ..base() },
                "more than max_leaves = 3 responses: lower the horizon or the number of legal tokens",
            ),
        ];
        for (mdp, expected) in cases {
            assert_eq!(message(mdp), expected);
        }
    }
}
