//! [`Pivot`]: one early token decides.

use super::{Family, at_least, knob, numbered};
use crate::{Rules, Tree, TreeError};

/// Filler tokens, one decision between `right` and `wrong` at a fixed position, more filler, EOS: rewarded
/// iff `right`.
///
/// Shows: under a policy that decides in the same way after every filler, with probability `P` for `right`, the
/// advantage is `1 - P` of `right`, `-P` of `wrong` and exactly 0 of every other token, so that credit
/// anywhere else is noise. All responses have the same length. `J* = 1`; the uniform initial policy has
/// `J = 1/2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pivot {
    /// Position of the decision, `0 <= position < length - 1`.
    pub position: usize,
    /// Number of different filler tokens, at least 1; with 1 there is no choice but the decision.
    pub fillers: usize,
    /// Tokens per response, EOS included, at least 2.
    pub length: usize,
}

impl Default for Pivot {
    fn default() -> Pivot {
        Pivot { position: 1, fillers: 2, length: 6 }
    }
}

impl Family for Pivot {
    const NAME: &'static str = "pivot";
    const ABOUT: &'static str = "one early token decides, all others are filler";

    fn tree(&self) -> Result<Tree, TreeError> {
        let Pivot { position, fillers, length } = *self;
        at_least(Self::NAME, "length", length, 2, "at least 2")?;
        at_least(Self::NAME, "fillers", fillers, 1, "at least 1")?;
        knob(position < length - 1, Self::NAME, "position", position, "below length - 1")?;
        let (right, wrong, eos) = (fillers as u32, fillers as u32 + 1, fillers as u32 + 2);
        let names = numbered("x", fillers).chain(["right".into(), "wrong".into(), "EOS".into()]);
        Rules::new(names, length).build(
            |prefix| match prefix.len() {
                t if t == position => vec![right, wrong],
                t if t == length - 1 => vec![eos],
                _ => (0..right).collect(),
            },
            |response, _| f64::from(response[position] == right),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Oracle, Tabular};

    #[test]
    fn only_the_decision_has_an_advantage() {
        let tree = Pivot { position: 2, fillers: 3, length: 5 }.tree().unwrap();
        let oracle = Oracle::new(&tree, &Tabular::uniform(&tree));
        for edge in tree.edges() {
            let expected = match tree.token_name(edge) {
                "right" => 0.5,
                "wrong" => -0.5,
                _ => 0.0,
            };
            assert_eq!(oracle.advantage(edge), expected);
        }
    }
}
