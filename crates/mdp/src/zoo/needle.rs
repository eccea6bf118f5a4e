//! [`Needle`]: exactly one response is rewarded.

use super::{Family, at_least, numbered};
use crate::{Rules, Tree, TreeError};

/// `length` symbols, then EOS; rewarded iff the symbols are `s0, s1, s2, ..` (the index modulo `symbols`).
///
/// Shows: sparse reward. A group of `g` samples from the uniform policy contains the rewarded response with
/// probability `1 - (1 - symbols^-length)^g`; without it there is nothing to compare. `J* = 1`; the uniform
/// initial policy has `J = symbols^-length`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needle {
    /// Number of symbols, at least 1.
    pub symbols: usize,
    /// Symbols per response before EOS, at least 1.
    pub length: usize,
}

impl Default for Needle {
    fn default() -> Needle {
        Needle { symbols: 3, length: 5 }
    }
}

impl Family for Needle {
    const NAME: &'static str = "needle";
    const ABOUT: &'static str = "exactly one rewarded response";

    fn tree(&self) -> Result<Tree, TreeError> {
        let Needle { symbols, length } = *self;
        at_least(Self::NAME, "symbols", symbols, 1, "at least 1")?;
        at_least(Self::NAME, "length", length, 1, "at least 1")?;
        let eos = symbols as u32;
        let names = numbered("s", symbols).chain(["EOS".into()]);
        Rules::new(names, length + 1).build(
            |prefix| if prefix.len() == length { vec![eos] } else { (0..eos).collect() },
            |response, _| f64::from((0..length).all(|t| response[t] as usize == t % symbols)),
        )
    }
}
