//! From the data of a [`TableMdp`] to its tree and its initial policy, or the first thing that is wrong with it.

use super::count::{Size, counted};
use super::pattern::{ANY, Pattern, best};
use super::{PrefixTokens, SpecError, TableMdp};
use crate::build::Rules;
use crate::error::{REAL_REWARD, TreeError, is_real_reward};
use crate::policy::Tabular;
use crate::tree::{RewardKind, Target, Tree, text};

/// Largest distance from 1 of the sum of a policy entry's probabilities.
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
        if self.size()?.responses > self.max_leaves as f64 {
            return Err(TreeError::TooManyLeaves(self.max_leaves).into());
        }
        let rules = self.rules()?;

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
        let tree = rules.build(legal, reward)?;

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

    /// The size that the MDP will have, if it has at most `max_leaves` responses; else that of its shorter responses.
    ///
    /// # Errors
    /// [`SpecError`], naming the field and the value, for what decides the size: the vocabulary, the horizon and the illegal tokens.
    pub fn size(&self) -> Result<Size, SpecError> {
        self.check_vocabulary()?;
        let illegal = self.patterns("illegal", "prefix", self.illegal.iter().map(|e| &e.prefix))?;
        let rules = self.rules()?;
        rules.check()?;
        let vocabulary = (self.tokens.len() as u32, rules.eos);
        Ok(counted(self.max_leaves, vocabulary, self.horizon, &illegal, &self.forbidden()?))
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
            RewardKind::Real if !is_real_reward(reward) => {
                Err(field(at, format!("{reward:?}"), format!("must be {REAL_REWARD}")))
            }
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
