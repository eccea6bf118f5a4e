//! [`Stems`]: the prefixes that branches and completions continue, as memory is counted.

use crate::config::{Branching, Config};

/// The prefixes of a prompt's responses that branches or completions continue, each a longer prompt whose keys and values are its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stems {
    /// Prefixes of a prompt; of completions there may be more, which wait until as many responses have ended.
    pub prefixes: usize,
    /// Responses that continue each.
    pub each: usize,
    /// Tokens of a prefix at least.
    pub tokens: usize,
}

impl Stems {
    /// The prefixes of a configuration.
    pub(super) fn new(config: &Config) -> Option<Stems> {
        let (group, completions) = (config.rl.group_size, config.rl.completions);
        match config.rl.branching() {
            Some(Branching::Intervals { children, segment }) => {
                let each = *children.last()?;
                Some(Stems { prefixes: group / each, each, tokens: (children.len() - 1) * segment })
            }
            Some(Branching::Search { forks, branches }) => {
                let chains = group / (1 + forks * branches);
                Some(Stems { prefixes: chains * forks, each: branches, tokens: 0 })
            }
            None => config.step_start().map(|_| Stems { prefixes: group, each: completions, tokens: 0 }),
        }
    }
}
