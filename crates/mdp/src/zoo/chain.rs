//! [`Chain`]: every step must be right.

use super::{Family, Named, at_least, numbered};
use crate::{RewardKind, Rules, Tree, TreeError};

/// `steps` choices between `right` and wrong tokens; the first error ends the response (EOS is then the only
/// legal token), and so does the last step.
///
/// Shows: a long horizon at little cost (`steps * (options - 1) + 1` responses), lengths that go with
/// success, and, with `partial`, real rewards: the fraction of steps that were right. Without it the reward
/// is 1 iff all were. `J* = 1`; with `p = 1/options` the uniform initial policy has `J = p^steps`, or
/// `(p + p² + .. + p^steps) / steps` with partial credit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    /// Number of steps, at least 1.
    pub steps: usize,
    /// Tokens to choose from at each step, one of them right; at least 2.
    pub options: usize,
    /// True if the reward is the fraction of right steps ([`RewardKind::Real`]).
    pub partial: bool,
}

impl Default for Chain {
    fn default() -> Chain {
        Chain { steps: 6, options: 2, partial: false }
    }
}

impl Chain {
    const PARTIAL: Chain = Chain { steps: 6, options: 2, partial: true };

    /// The default chain with partial credit, as an entry of the registry.
    pub(super) fn partial_credit() -> Named {
        Named {
            name: "chain_partial",
            about: "a chain of steps, rewarded by the fraction that is right",
            build: || Chain::PARTIAL.tree().expect("the knobs are in range"),
            initial: |tree| Chain::PARTIAL.initial(tree),
        }
    }
}

impl Family for Chain {
    const NAME: &'static str = "chain";
    const ABOUT: &'static str = "every step must be right, the first error ends the response";

    fn tree(&self) -> Result<Tree, TreeError> {
        let Chain { steps, options, partial } = *self;
        at_least(Self::NAME, "steps", steps, 1, "at least 1")?;
        at_least(Self::NAME, "options", options, 2, "at least 2")?;
        let eos = options as u32;
        let names =
            ["right".to_string()].into_iter().chain(numbered("wrong", options - 1)).chain(["EOS".into()]);
        let kind = if partial { RewardKind::Real } else { RewardKind::Binary };
        Rules::new(names, steps + 1).rewards(kind).build(
            |prefix| {
                let over = prefix.len() == steps || prefix.last().is_some_and(|&token| token != 0);
                if over { vec![eos] } else { (0..eos).collect() }
            },
            |response, _| {
                let right = response.iter().filter(|&&token| token == 0).count();
                if partial { right as f64 / steps as f64 } else { f64::from(right == steps) }
            },
        )
    }
}
