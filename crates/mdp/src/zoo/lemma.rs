//! [`LemmaCounterexample`]: GRPO-lambda's Lemma 1 is false as printed.

use super::Family;
use crate::{Rules, Tree, TreeError};

/// First `A` or `B` (EOS is illegal), then EOS; rewarded iff `A`. It has no knobs.
///
/// Shows: Lemma 1 says `V(s_0) - V(s_t) <= 1 - Π_{k<t} (1 - π(EOS|s_k))` for every prefix. After `B` the left
/// side is `0.5 - 0` and the right side `1 - 1 = 0`. `J* = 1`; the uniform initial policy has `J = 1/2`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LemmaCounterexample;

impl Family for LemmaCounterexample {
    const NAME: &'static str = "lemma_counterexample";
    const ABOUT: &'static str = "two tokens on which Lemma 1 of GRPO-lambda fails";

    fn tree(&self) -> Result<Tree, TreeError> {
        let legal = |prefix: &[u32]| if prefix.is_empty() { vec![0, 1] } else { vec![2] };
        Rules::new(["A", "B", "EOS"], 2).build(legal, |response, _| f64::from(response[0] == 0))
    }
}
