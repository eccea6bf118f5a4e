//! [`Parity`]: credit appears only at the last token.

use super::{Family, at_least};
use crate::{Rules, Tree, TreeError};

/// `bits` tokens `0` or `1`, then EOS; rewarded iff the number of ones is even.
///
/// Shows: a dependency over the whole response. Under the uniform policy every prefix has value 1/2, so that
/// no token but the last bit has an advantage; which earlier bits were "good" is only decided by what
/// follows. `J* = 1`; the uniform initial policy has `J = 1/2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parity {
    /// Number of bits, at least 1.
    pub bits: usize,
}

impl Default for Parity {
    fn default() -> Parity {
        Parity { bits: 6 }
    }
}

impl Family for Parity {
    const NAME: &'static str = "parity";
    const ABOUT: &'static str = "rewarded iff the number of ones is even: only the last bit has an advantage";

    fn tree(&self) -> Result<Tree, TreeError> {
        let bits = self.bits;
        at_least(Self::NAME, "bits", bits, 1, "at least 1")?;
        Rules::new(["0", "1", "EOS"], bits + 1).build(
            |prefix| if prefix.len() == bits { vec![2] } else { vec![0, 1] },
            |response, _| f64::from(response.iter().filter(|&&token| token == 1).count() % 2 == 0),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Oracle, Tabular};

    #[test]
    fn only_the_last_bit_has_an_advantage() {
        let tree = Parity::default().tree().unwrap();
        let oracle = Oracle::new(&tree, &Tabular::uniform(&tree));
        for edge in tree.edges() {
            let expected = if tree.depth(tree.edge_node(edge)) == 5 { 0.5 } else { 0.0 };
            assert_eq!(oracle.advantage(edge).abs(), expected);
        }
    }
}
