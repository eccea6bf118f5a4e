//! [`Full`]: every token legal everywhere.

use super::{Family, at_least};
use crate::{Rules, Tree, TreeError};

/// Every token is legal at every prefix; a pseudo-random half of the responses is rewarded.
///
/// Shows: size. With `v` tokens, EOS among them, and horizon `H` there are
/// `1 + (v-1) + .. + (v-1)^(H-1) + (v-1)^H` responses, the last `(v-1)^H` of them cut. `J* = 1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full {
    /// Size of the vocabulary, EOS included, at least 2.
    pub vocab: usize,
    /// Horizon, at least 1.
    pub horizon: usize,
}

impl Default for Full {
    fn default() -> Full {
        Full { vocab: 4, horizon: 5 }
    }
}

impl Family for Full {
    const NAME: &'static str = "full";
    const ABOUT: &'static str = "every token legal everywhere, half of the responses rewarded";

    fn tree(&self) -> Result<Tree, TreeError> {
        let Full { vocab, horizon } = *self;
        at_least(Self::NAME, "vocab", vocab, 2, "at least 2")?;
        at_least(Self::NAME, "horizon", horizon, 1, "at least 1")?;
        let names = (0..vocab - 1).map(|i| format!("s{i}")).chain(["EOS".into()]);
        Rules::new(names, horizon)
            .build(|_| (0..vocab as u32).collect(), |response, _| f64::from(hash(response) & 1 == 1))
    }
}

/// [`Full`] by its knobs, for benchmarks: `full_tree(11, 6)` has 1,111,111 responses.
///
/// # Errors
/// The errors of [`Family::tree`].
pub fn full_tree(vocab: usize, horizon: usize) -> Result<Tree, TreeError> {
    Full { vocab, horizon }.tree()
}

/// The finaliser of SplitMix64 over the tokens.
fn hash(tokens: &[u32]) -> u64 {
    tokens.iter().fold(0x9e37_79b9_7f4a_7c15, |state: u64, &token| {
        let mut x = state.wrapping_add(u64::from(token) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn the_number_of_responses_is_the_geometric_sum() {
        assert_eq!(full_tree(4, 5).unwrap().leaf_count(), 1 + 3 + 9 + 27 + 81 + 243);
        assert_eq!(full_tree(2, 7).unwrap().leaf_count(), 8);
    }

    #[test]
    fn about_half_of_the_responses_are_rewarded() {
        let tree = full_tree(5, 6).unwrap();
        let share = tree.leaves().map(|l| tree.reward(l)).sum::<f64>() / tree.leaf_count() as f64;
        assert!((share - 0.5).abs() < 0.02, "{share}");
    }
}
