//! [`Rules`]: from a description of what is legal and what is rewarded to a [`Tree`].

use super::error::{DEFAULT_MAX_LEAVES, MAX_EDGES, MAX_HORIZON, REAL_REWARD, TreeError, is_real_reward};
use super::tree::{LEAF, RewardKind, Tree, text};

/// A token-MDP apart from its legal tokens and rewards.
///
/// ```
/// use grpo_lambda_mdp::Rules;
/// // Up to three coin flips, EOS legal everywhere; rewarded iff the response is `H EOS`.
/// let tree = Rules::new(["H", "T", "EOS"], 3)
///     .build(|_prefix| vec![0, 1, 2], |response, _truncated| f64::from(response == [0, 2]))?;
/// assert_eq!(tree.leaf_count(), 1 + 2 + 4 + 8);
/// # Ok::<(), grpo_lambda_mdp::TreeError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// Names of the vocabulary, EOS included; all different.
    pub tokens: Vec<String>,
    /// The end-of-sequence token, an index into `tokens`.
    pub eos: u32,
    /// The number of tokens at which a response is cut, from 1 to [`MAX_HORIZON`].
    pub horizon: usize,
    /// The discount γ, in `[0,1]`.
    pub gamma: f64,
    /// The meaning of the number at a leaf.
    pub reward_kind: RewardKind,
    /// The number of responses beyond which the MDP is refused.
    pub max_leaves: usize,
}

impl Rules {
    /// Binary rewards, γ = 1, [`DEFAULT_MAX_LEAVES`]; the last token of the vocabulary is EOS.
    pub fn new<S: Into<String>>(tokens: impl IntoIterator<Item = S>, horizon: usize) -> Rules {
        let tokens: Vec<String> = tokens.into_iter().map(Into::into).collect();
        let eos = tokens.len().saturating_sub(1) as u32;
        let (gamma, reward_kind) = (1.0, RewardKind::Binary);
        Rules { tokens, eos, horizon, gamma, reward_kind, max_leaves: DEFAULT_MAX_LEAVES }
    }

    /// Replaces the kind of the rewards.
    pub fn rewards(mut self, kind: RewardKind) -> Rules {
        self.reward_kind = kind;
        self
    }

    /// Enumerates the tree.
    ///
    /// `legal(prefix)` gives the legal next tokens of a non-terminal prefix (fewer than `horizon` tokens, no
    /// EOS), in the order in which its edges shall lie. `reward(response, truncated)` gives the number at a
    /// leaf, to be read as [`Rules::reward_kind`] says. Both are called once per prefix and per response,
    /// breadth first, so that a seeded generator inside them is reproducible.
    ///
    /// # Errors
    /// [`TreeError`]: an impossible vocabulary, horizon or discount; a prefix without a legal token; a reward
    /// out of range; more responses than `max_leaves`. The last is found before memory is spent on them:
    /// every pending prefix ends in at least one response of its own.
    pub fn build(
        self,
        mut legal: impl FnMut(&[u32]) -> Vec<u32>,
        mut reward: impl FnMut(&[u32], bool) -> f64,
    ) -> Result<Tree, TreeError> {
        self.check()?;
        let max_leaves = self.max_leaves;
        let mut tree = self.prompt_alone();
        let mut prefix = Vec::new();
        let mut node = 0;
        while node < tree.parent_edge.len() {
            if tree.depth[node] as usize == tree.first_node.len() {
                tree.first_node.push(node as u32);
            }
            tree.prefix_into(node, &mut prefix);
            let tokens = legal(&prefix);
            check_legal(&tree.tokens, &prefix, &tokens)?;
            for token in tokens {
                add_edge(&mut tree, node, token, &mut prefix, &mut reward)?;
            }
            tree.first_edge.push(tree.edge_token.len() as u32);
            node += 1;
            if tree.leaf_edge.len() + (tree.parent_edge.len() - node) > max_leaves {
                return Err(TreeError::TooManyLeaves(max_leaves));
            }
            if tree.edge_token.len() > MAX_EDGES {
                return Err(TreeError::TooManyEdges);
            }
        }
        tree.first_node.push(node as u32);
        Ok(tree)
    }

    /// The tree before its first edge.
    fn prompt_alone(self) -> Tree {
        Tree {
            tokens: self.tokens,
            eos: self.eos,
            horizon: self.horizon,
            gamma: self.gamma,
            kind: self.reward_kind,
            first_edge: vec![0],
            parent_edge: vec![u32::MAX],
            first_node: vec![0],
            depth: vec![0],
            edge_node: Vec::new(),
            edge_token: Vec::new(),
            edge_target: Vec::new(),
            leaf_edge: Vec::new(),
            leaf_reward: Vec::new(),
        }
    }

    /// Refuses an impossible vocabulary, horizon or discount.
    pub(super) fn check(&self) -> Result<(), TreeError> {
        let mut sorted: Vec<&String> = self.tokens.iter().collect();
        sorted.sort();
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(TreeError::DuplicateToken(pair[0].clone()));
        }
        if self.eos as usize >= self.tokens.len() {
            return Err(TreeError::Eos { eos: self.eos, tokens: self.tokens.len() });
        }
        if !(1..=MAX_HORIZON).contains(&self.horizon) {
            return Err(TreeError::Horizon(self.horizon));
        }
        if !(0.0..=1.0).contains(&self.gamma) {
            return Err(TreeError::Gamma(self.gamma));
        }
        Ok(())
    }
}

/// Appends the edge of `token` at `node`, whose tokens are `prefix`, with the leaf or the node it leads to.
fn add_edge(
    tree: &mut Tree,
    node: usize,
    token: u32,
    prefix: &mut Vec<u32>,
    reward: &mut impl FnMut(&[u32], bool) -> f64,
) -> Result<(), TreeError> {
    let (edge, depth) = (tree.edge_token.len() as u32, tree.depth[node] + 1);
    tree.edge_node.push(node as u32);
    tree.edge_token.push(token);
    if token == tree.eos || depth as usize == tree.horizon {
        prefix.push(token);
        let number = reward(prefix, token != tree.eos);
        check_reward(tree.kind, &tree.tokens, prefix, number)?;
        prefix.pop();
        tree.edge_target.push(tree.leaf_edge.len() as u32 | LEAF);
        tree.leaf_edge.push(edge);
        tree.leaf_reward.push(number);
    } else {
        tree.edge_target.push(tree.parent_edge.len() as u32);
        tree.parent_edge.push(edge);
        tree.depth.push(depth);
    }
    Ok(())
}

fn check_legal(names: &[String], prefix: &[u32], legal: &[u32]) -> Result<(), TreeError> {
    if legal.is_empty() {
        return Err(TreeError::DeadEnd(text(names, prefix)));
    }
    if let Some(&token) = legal.iter().find(|&&token| token as usize >= names.len()) {
        return Err(TreeError::UnknownToken { prefix: text(names, prefix), token, tokens: names.len() });
    }
    if let Some(at) = (1..legal.len()).find(|&i| legal[..i].contains(&legal[i])) {
        let token = names[legal[at] as usize].clone();
        return Err(TreeError::RepeatedToken { prefix: text(names, prefix), token });
    }
    Ok(())
}

fn check_reward(kind: RewardKind, names: &[String], response: &[u32], reward: f64) -> Result<(), TreeError> {
    let bound = match kind {
        RewardKind::Binary if !(0.0..=1.0).contains(&reward) => "a probability in [0, 1] (binary rewards)",
        RewardKind::Real if !is_real_reward(reward) => REAL_REWARD,
        _ => return Ok(()),
    };
    Err(TreeError::Reward { response: text(names, response), reward, bound })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(rules: Rules, legal: &[u32], reward: f64) -> String {
        rules.build(|_| legal.to_vec(), |_, _| reward).unwrap_err().to_string()
    }

    #[test]
    fn errors_name_the_field_the_value_and_the_bound() {
        let rules = || Rules::new(["a", "E"], 2);
        assert_eq!(message(Rules::new(["a", "a"], 2), &[0], 0.0), "tokens: `a` occurs more than once");
        assert_eq!(
            message(Rules { eos: 7, ..rules() }, &[0], 0.0),
            "eos = 7 must be below the 2 tokens of the vocabulary"
        );
        for horizon in [0, 10_001] {
            let said = message(Rules::new(["a", "E"], horizon), &[0], 0.0);
            assert_eq!(said, format!("horizon = {horizon} must be from 1 to 10000"));
        }
        assert_eq!(message(Rules { gamma: 1.5, ..rules() }, &[0], 0.0), "gamma = 1.5 must be in [0, 1]");
        assert_eq!(message(Rules { gamma: f64::NAN, ..rules() }, &[0], 0.0), "gamma = NaN must be in [0, 1]");
        assert_eq!(message(rules(), &[], 0.0), "legal: no token is legal at prefix `(prompt)`");
        assert!(
            message(rules(), &[0, 5], 0.0).starts_with("legal: token 5 at prefix `(prompt)` must be below")
        );
        assert_eq!(
            message(rules(), &[0, 1, 0], 0.0),
            "legal: token `a` occurs more than once at prefix `(prompt)`"
        );
        assert_eq!(
            message(rules(), &[0, 1], 1.5),
            "reward = 1.5 of response `E` must be a probability in [0, 1] (binary rewards)"
        );
        assert_eq!(
            message(rules().rewards(RewardKind::Real), &[0], f64::INFINITY),
            "reward = inf of response `a a` must be from -1e30 to 1e30"
        );
    }

    #[test]
    fn a_tree_that_is_too_large_is_refused_long_before_it_is_enumerated() {
        let mut calls = 0;
        let all: Vec<u32> = (0..100).collect();
        let rules = Rules { max_leaves: 1000, ..Rules::new((0..101).map(|i| i.to_string()), 50) };
        let error = rules.build(
            |_| {
                calls += 1;
                all.clone()
            },
            |_, _| 0.0,
        );
        assert_eq!(error.unwrap_err(), TreeError::TooManyLeaves(1000));
        assert!(calls < 20, "{calls}");
    }

    #[test]
    fn the_limit_on_leaves_is_exact() {
        let build = |max_leaves| {
            let rules = Rules { max_leaves, ..Rules::new(["a", "b", "E"], 3) };
            rules.build(|_| vec![0, 1, 2], |_, _| 0.0).map(|tree| tree.leaf_count())
        };
        assert_eq!(build(15), Ok(15));
        assert_eq!(build(14), Err(TreeError::TooManyLeaves(14)));
    }
}
