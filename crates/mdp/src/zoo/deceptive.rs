//! [`Deceptive`]: good on average, worse at best.

use super::{Family, at_least, knob, numbered, probability};
use crate::{Rules, Tree, TreeError};

/// First token `bait` or `plain`, then `depth` symbols, EOS. After `bait` every continuation succeeds with
/// probability `bait`; after `plain` only one does, the one that is `s0` throughout, with probability
/// `treasure`.
///
/// Shows: under the initial policy the prefix `bait` has the higher value, so that the gradient first leads
/// away from the best response. `J* = treasure`; the uniform initial policy has
/// `J = (bait + treasure / symbols^depth) / 2`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Deceptive {
    /// `P(R=1)` after `bait`, in `[0,1]`.
    pub bait: f64,
    /// `P(R=1)` of the one good continuation of `plain`, in `[0,1]`, greater than `bait`.
    pub treasure: f64,
    /// Number of symbols, at least 2.
    pub symbols: usize,
    /// Symbols after the first token, at least 1.
    pub depth: usize,
}

impl Default for Deceptive {
    fn default() -> Deceptive {
        Deceptive { bait: 0.6, treasure: 1.0, symbols: 3, depth: 2 }
    }
}

impl Family for Deceptive {
    const NAME: &'static str = "deceptive";
    const ABOUT: &'static str = "the prefix that is better on average has the worse best continuation";

    fn tree(&self) -> Result<Tree, TreeError> {
        let Deceptive { bait, treasure, symbols, depth } = *self;
        probability(Self::NAME, "bait", bait)?;
        probability(Self::NAME, "treasure", treasure)?;
        knob(treasure > bait, Self::NAME, "treasure", treasure, "greater than bait")?;
        at_least(Self::NAME, "symbols", symbols, 2, "at least 2")?;
        at_least(Self::NAME, "depth", depth, 1, "at least 1")?;
        let eos = 2 + symbols as u32;
        let names = ["bait".into(), "plain".into()].into_iter().chain(numbered("s", symbols));
        Rules::new(names.chain(["EOS".into()]), depth + 2).build(
            |prefix| match prefix.len() {
                0 => vec![0, 1],
                t if t <= depth => (2..eos).collect(),
                _ => vec![eos],
            },
            |response, _| match response[0] {
                0 => bait,
                _ if response[1..=depth].iter().all(|&token| token == 2) => treasure,
                _ => 0.0,
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Optimal, Oracle, Tabular};

    #[test]
    fn the_gradient_first_leads_away_from_the_optimum() {
        let tree = Deceptive::default().tree().unwrap();
        let oracle = Oracle::new(&tree, &Tabular::uniform(&tree));
        let best = Optimal::new(&tree);
        assert_eq!(tree.token_name(best.choice[0]), "plain");
        assert!(oracle.grad_j()[best.choice[0]] < 0.0);
    }
}
