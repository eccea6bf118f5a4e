//! A token-MDP from a TOML file.
//!
//! ```toml
//! name = "two roads"       # optional: the file's
//! tokens = ["left", "right", "EOS"]
//! eos = "EOS"
//! horizon = 3              # a response without EOS is cut here
//! gamma = 1.0              # optional
//! reward_kind = "binary"   # or "real"; a binary reward is the probability of 1
//! default_reward = 0.0     # of a response no pattern matches
//!
//! [[rewards]]              # the most specific pattern wins; `*` at the end matches any continuation
//! pattern = "left *"       # or a list: ["left", "*"]
//! reward = 1.0
//!
//! [[illegal]]              # tokens that cannot follow a prefix; "" is the prompt
//! prefix = ""
//! tokens = "EOS"
//!
//! [[policy]]               # the initial policy; uniform where nothing is said
//! prefix = ""
//! probabilities = { left = 0.25, right = 0.75 }
//! ```

use crate::failure::quoted;
use crate::input::{self, MOST_MEMORY};
use grpo_lambda::settings::did_you_mean;
use grpo_lambda_mdp::{
    DEFAULT_MAX_LEAVES, PolicyEntry, PrefixTokens, RewardEntry, RewardKind, SpecError, TableMdp, Tabular,
    Tree, TreeError, zoo,
};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use toml::de::{DeTable, DeValue};

const GIB: f64 = (1u64 << 30) as f64;
/// Memory of an analysis for each (prefix, token) pair, besides the text of its prefix, which is there as a table and as CSV.
const BYTES_PER_EDGE: f64 = 2048.0;

/// A fault of an MDP file: one line naming file, line, field, value and what would be right.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct MdpFileError(String);

/// A user's MDP.
pub struct MdpFile {
    /// Its name.
    pub name: String,
    /// The tree.
    pub tree: Tree,
    /// The initial policy.
    pub policy: Tabular,
}

/// A sequence of tokens: a list, or one string split at blanks.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected tokens: a string of names separated by blanks, or a list of names")]
enum Words {
    Text(String),
    List(Vec<String>),
}

impl From<Words> for Vec<String> {
    fn from(words: Words) -> Self {
        match words {
            Words::Text(text) => text.split_whitespace().map(str::to_owned).collect(),
            Words::List(list) => list,
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Binary,
    Real,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reward {
    pattern: Words,
    reward: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Illegal {
    prefix: Words,
    tokens: Words,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Policy {
    prefix: Words,
    probabilities: BTreeMap<String, f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: Option<String>,
    tokens: Words,
    eos: String,
    horizon: usize,
    #[serde(default = "one")]
    gamma: f64,
    #[serde(default = "binary")]
    reward_kind: Kind,
    #[serde(default)]
    default_reward: f64,
    #[serde(default)]
    rewards: Vec<Reward>,
    #[serde(default)]
    illegal: Vec<Illegal>,
    #[serde(default)]
    policy: Vec<Policy>,
    #[serde(default = "most_leaves")]
    max_leaves: usize,
}

fn one() -> f64 {
    1.0
}

fn binary() -> Kind {
    Kind::Binary
}

fn most_leaves() -> usize {
    DEFAULT_MAX_LEAVES
}

/// Builds the named task of the zoo, or reads that of a file. A word without a dot and a slash that no file has for its name is a task's.
///
/// # Errors
/// When there is no task of this name. When the file cannot be read, is not TOML, has an unknown or missing field, or describes no MDP.
pub fn read(path: &Path) -> Result<MdpFile, MdpFileError> {
    let shown = path.display();
    let word = path.to_str().filter(|word| !word.contains(['/', '\\', '.']));
    if let Some(task) = word.and_then(zoo::find) {
        let tree = (task.build)();
        let policy = (task.initial)(&tree);
        return Ok(MdpFile { name: task.name.to_owned(), tree, policy });
    }
    if !path.exists() {
        let names: Vec<&str> = zoo::all().iter().map(|task| task.name).collect();
        let no_task = word
            .map(|word| format!("no task of this name{}, and ", did_you_mean(word, names.iter().copied())));
        return Err(MdpFileError(format!(
            "{}: {}no such file; give a TOML file or one of {}",
            quoted(&shown.to_string()),
            no_task.unwrap_or_default(),
            names.join(", ")
        )));
    }
    if path.is_dir() {
        return Err(MdpFileError(format!("{shown}: a directory; give a TOML file or the name of a task")));
    }
    let bytes = input::file(path, input::MOST_MDP);
    let bytes = bytes.map_err(|e| MdpFileError(format!("{shown}: cannot be read: {e}")))?;
    let text = String::from_utf8(bytes).map_err(|e| {
        let line = 1 + e.as_bytes()[..e.utf8_error().valid_up_to()].iter().filter(|b| **b == b'\n').count();
        MdpFileError(format!("{shown}:{line}: not UTF-8 text"))
    })?;
    read_text(&shown.to_string(), &text, None)
}

/// Reads the text itself, which messages call `source`; with another horizon than the text's if one is given.
///
/// # Errors
/// When the text is not TOML, has an unknown or missing field, or describes no MDP.
pub fn read_text(source: &str, text: &str, horizon: Option<usize>) -> Result<MdpFile, MdpFileError> {
    let name = Path::new(source).file_stem().unwrap_or_default().to_string_lossy();
    parse(&name, text, horizon).map_err(|(line, what)| MdpFileError(format!("{source}:{line}: {what}")))
}

/// Reads the text, which need not say its name. An error comes with its line.
pub fn parse(name: &str, text: &str, horizon: Option<usize>) -> Result<MdpFile, (usize, String)> {
    let line_at = |offset: usize| 1 + text[..offset.min(text.len())].matches('\n').count();
    let file: File = toml::from_str(text).map_err(|e| {
        let line = e.span().map_or(1, |span| line_at(span.start));
        (line, bare_word(text, line).unwrap_or_else(|| said(&e)))
    })?;
    let mdp = TableMdp {
        name: file.name.unwrap_or_else(|| name.to_owned()),
        tokens: file.tokens.into(),
        eos: file.eos,
        horizon: horizon.unwrap_or(file.horizon),
        gamma: file.gamma,
        reward_kind: match file.reward_kind {
            Kind::Binary => RewardKind::Binary,
            Kind::Real => RewardKind::Real,
        },
        default_reward: file.default_reward,
        rewards: file
            .rewards
            .into_iter()
            .map(|r| RewardEntry { pattern: r.pattern.into(), reward: r.reward })
            .collect(),
        illegal: file
            .illegal
            .into_iter()
            .map(|i| PrefixTokens { prefix: i.prefix.into(), tokens: i.tokens.into() })
            .collect(),
        policy: file
            .policy
            .into_iter()
            .map(|p| PolicyEntry {
                prefix: p.prefix.into(),
                probabilities: p.probabilities.into_iter().collect(),
            })
            .collect(),
        max_leaves: file.max_leaves,
    };
    match fits(&mdp).and_then(|()| mdp.build()) {
        Ok((tree, policy)) => Ok(MdpFile { name: mdp.name, tree, policy }),
        Err(error) => {
            let field = match &error {
                SpecError::Field { field, .. } => field.as_str(),
                SpecError::Tree(TreeError::DeadEnd(_)) => "illegal",
                SpecError::Tree(TreeError::Gamma(_)) => "gamma",
                _ => "horizon",
            };
            let offset = span_of(text, field).map_or(0, |span| span.start);
            Err((line_at(offset), error.to_string()))
        }
    }
}

/// Refuses what would take more than [`MOST_MEMORY`] to analyse, or more responses than any file may have.
fn fits(mdp: &TableMdp) -> Result<(), SpecError> {
    let refused = |field: &str, value: usize, reason: String| {
        Err(SpecError::Field { field: field.to_owned(), value: value.to_string(), reason })
    };
    if mdp.max_leaves > DEFAULT_MAX_LEAVES {
        return refused("max_leaves", mdp.max_leaves, format!("must be at most {DEFAULT_MAX_LEAVES}"));
    }
    let size = mdp.size()?;
    let longest = mdp.tokens.iter().map(String::len).max().unwrap_or(0);
    let bytes = size.edges * BYTES_PER_EDGE + size.prefix_tokens * 2.0 * (longest + 1) as f64;
    if size.responses > mdp.max_leaves as f64 || bytes <= MOST_MEMORY {
        return Ok(());
    }
    let (need, most) = (bytes / GIB, MOST_MEMORY / GIB);
    let reason = format!(
        "{:.3e} (prefix, token) pairs take {need:.1} GiB of memory, and {most} are the most; lower it, or the number of legal tokens",
        size.edges
    );
    refused("horizon", mdp.horizon, reason)
}

/// The parser's message on one line.
fn said(error: &toml::de::Error) -> String {
    let message = error.message().replace('\n', "; ");
    message.replace("expected usize", "expected a whole number of at least 0")
}

/// The fault of a line `name = two`: the parser takes the `t` for the beginning of `true`.
fn bare_word(text: &str, line: usize) -> Option<String> {
    let (key, value) = text.lines().nth(line - 1)?.split_once('=')?;
    let (key, value) = (key.trim(), value.split('#').next()?.trim());
    let letters = |c: char| c.is_alphabetic() || c == '_';
    let bare = value.starts_with(letters) && value.chars().all(|c| c.is_alphanumeric() || "_- *".contains(c));
    let word = !["true", "false", "inf", "nan"].contains(&value);
    (bare && word).then(|| format!("{key} = {value}: a text needs quotes, as in {key} = \"{value}\""))
}

/// The place of a field such as `rewards[2].pattern` in the text, or of its deepest part that is written there.
fn span_of(text: &str, field: &str) -> Option<Range<usize>> {
    let document = DeTable::parse(text).ok()?;
    let mut table = document.get_ref();
    let mut span = None;
    for part in field.split('.') {
        let (name, index) = match part.split_once('[') {
            Some((name, rest)) => (name, rest.trim_end_matches(']').parse::<usize>().ok()),
            None => (part, None),
        };
        let Some(mut value) = table.get(name) else { break };
        span = Some(value.span());
        if let (Some(index), DeValue::Array(items)) = (index, value.get_ref()) {
            value = items.get(index)?;
            span = Some(value.span());
        }
        match value.get_ref() {
            DeValue::Table(next) => table = next,
            _ => break,
        }
    }
    span
}
