//! `rl.sampling`: groups of independent responses, of systematic ones, or of the leaves of a tree, which not every method and sampler can take.

use grpo_lambda::group::InputKind;
use grpo_lambda::methods::{spo_chain, spo_tree, tree_rl, tree_rpo};

use super::{Config, ConfigError, RlConfig};
use crate::words::words;

words! {
    /// The ways to sample the responses of a group.
    pub enum Sampling {
        /// Each by itself.
        Independent = "independent",
        /// From evenly spaced codes.
        Systematic = "systematic",
        /// The leaves of a tree that branches at fixed intervals.
        Tree = "tree",
        /// The leaves of a tree that branches at the least probable tokens of its first responses.
        EntropySearch = "entropy_search",
    }
}

words! {
    /// The places where a step of a response starts, besides its first token.
    pub enum StepStart {
        /// After a line break.
        Line = "line",
        /// Every `rl.segment` tokens.
        Interval = "interval",
        /// After every `rl.segment`-th token of which the policy was unsure.
        Unsure = "unsure",
    }
}

/// The methods that compare the branches of a tree.
pub const TREE_METHODS: [&str; 3] = [spo_tree::SPEC.name, tree_rl::SPEC.name, tree_rpo::SPEC.name];

/// The shape of the tree whose leaves are a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Branching {
    /// Every node of level `l` is continued `children[l]` times by a segment of tokens; the last level writes to the end.
    Intervals {
        /// Children of a node, by level; not empty, none 0.
        children: Vec<usize>,
        /// Tokens of a segment, at least 1.
        segment: usize,
    },
    /// TreeRL's search: from each of some responses the `forks` least probable tokens are sampled again, `branches` times each, to the end.
    Search {
        /// Places of a response where the tree forks; fewer in a response that is shorter.
        forks: usize,
        /// Completions from each of them.
        branches: usize,
    },
}

impl Branching {
    /// The leaves of a tree, or of the part that begins with one response.
    fn leaves(&self) -> usize {
        match self {
            Branching::Intervals { children, .. } => children.iter().copied().fold(1, usize::saturating_mul),
            Branching::Search { forks, branches } => 1 + forks * branches,
        }
    }
}

impl RlConfig {
    /// The shape of the tree whose leaves are a group; none where its responses are no tree.
    pub fn branching(&self) -> Option<Branching> {
        let RlConfig { segment, forks, branches, .. } = *self;
        match self.sampling {
            Sampling::Tree => Some(Branching::Intervals { children: self.children.clone(), segment }),
            Sampling::EntropySearch => Some(Branching::Search { forks, branches }),
            Sampling::Independent | Sampling::Systematic => None,
        }
    }
}

impl Config {
    /// The places where a step of a response starts: those that the method's paper has, unless they are given; none where the method reads no steps.
    pub fn step_start(&self) -> Option<StepStart> {
        let unsure = self.method == spo_chain::SPEC.name;
        let own = if unsure { StepStart::Unsure } else { StepStart::Line };
        let reads = self.configured().extra_inputs().contains(&InputKind::Steps);
        reads.then(|| self.rl.step_start.unwrap_or(own))
    }
}

/// Refuses groups that the method cannot learn from without bias, or that nothing can sample.
pub(super) fn check(config: &Config) -> Result<(), ConfigError> {
    let (rl, method) = (&config.rl, &config.method);
    let problem = match rl.branching() {
        _ if rl.sampling == Sampling::Systematic => systematic(config),
        Some(branching) => tree(config, &branching),
        None if TREE_METHODS.contains(&method.as_str()) => {
            return Err(ConfigError::Conflict(format!(
                "method.name = {method}: compares the branches of a tree, and rl.sampling = independent samples none; set rl.sampling=tree, or \
                 choose method.name=tempo, which reads the prefixes that independent responses share"
            )));
        }
        None => return completions(config),
    };
    let conflict =
        |problem| ConfigError::Conflict(format!("rl.sampling = {}: {problem}", rl.sampling.name()));
    problem.map_or(Ok(()), |problem| Err(conflict(problem)))
}

/// The reason why systematic groups cannot be had.
///
/// A baseline must not look at responses of the same set: `sets` of the method are those of the sampler. One set would need a baseline from outside
/// the group, after a guard, and no extra input of a training run is one.
fn systematic(config: &Config) -> Option<String> {
    let (rl, method) = (&config.rl, &config.method);
    let (sets, group) = (rl.sets, rl.group_size);
    let own = config.configured().settings.entries().find(|(key, _)| *key == "sets").map(|(_, own)| own);
    match own {
        _ if sets == 1 => Some(
            "rl.sets = 1 needs a guarded baseline from outside the group, which no training run has; give at least 2 sets"
                .to_owned(),
        ),
        None => Some(format!(
            "method.name = {method} compares responses of one set, which biases the update; choose systematic_rloo or systematic_prefix_rloo"
        )),
        Some(own) if own != sets.to_string() => Some(format!(
            "rl.sets = {sets} and method.sets = {own} must be the same; give both the same number"
        )),
        Some(_) if sets > group => Some(format!(
            "rl.sets = {sets} exceeds rl.group_size = {group}; give at most as many sets as responses"
        )),
        Some(_) => elsewhere(config, "draws its own numbers and cannot be steered"),
    }
}

/// The reason why trees of this shape cannot be had.
fn tree(config: &Config, branching: &Branching) -> Option<String> {
    let (rl, method, leaves) = (&config.rl, &config.method, branching.leaves());
    let group = rl.group_size;
    let upper = |children: &[usize], segment: usize| segment.saturating_mul(children.len() - 1);
    let numbers = |numbers: &[usize]| numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
    match branching {
        _ if !TREE_METHODS.contains(&method.as_str()) => Some(format!(
            "method.name = {method} takes the responses of a group for independent ones; choose {}, or set rl.sampling=independent",
            TREE_METHODS.join(", ")
        )),
        Branching::Intervals { children, .. } if leaves != group => Some(format!(
            "rl.children = {} makes {leaves} leaves and rl.group_size = {group}; give a product of {group}, or set rl.group_size={leaves}",
            numbers(children)
        )),
        Branching::Intervals { children, .. } if children.contains(&1) => Some(format!(
            "rl.children = {} has a level with one child, which has no sibling to be compared with; leave out every 1",
            numbers(children)
        )),
        Branching::Intervals { children, segment } if upper(children, *segment) >= rl.max_new_tokens => {
            Some(format!(
                "rl.segment = {segment} and rl.children = {} write {} tokens above the last level, and rl.max_new_tokens = {} leaves none \
                 for it; lower rl.segment, or raise rl.max_new_tokens",
                numbers(children),
                upper(children, *segment),
                rl.max_new_tokens
            ))
        }
        Branching::Search { forks, branches } if !group.is_multiple_of(leaves) => Some(format!(
            "rl.forks = {forks} and rl.branches = {branches} make {leaves} leaves of every first response, and rl.group_size = {group} is no \
             multiple of it; set rl.group_size={}",
            leaves * group.div_ceil(leaves)
        )),
        Branching::Intervals { .. } | Branching::Search { .. } => {
            elsewhere(config, "samples whole responses")
        }
    }
}

/// Refuses completions of prefixes by a server.
fn completions(config: &Config) -> Result<(), ConfigError> {
    let problem = config.step_start().and_then(|_| elsewhere(config, "samples whole responses"));
    let conflict = |problem| ConfigError::Conflict(format!("method.name = {}: {problem}", config.method));
    problem.map_or(Ok(()), |problem| Err(conflict(problem)))
}

/// The reason why a server that samples cannot do what is asked; none where this program samples.
fn elsewhere(config: &Config, why: &str) -> Option<String> {
    let engine = &config.values["rollout.engine"];
    config.rollout.as_ref().map(|_| format!("rollout.engine = {engine} {why}; use rollout.engine=local"))
}
