//! [`Random`]: a seeded random tree.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::{Family, at_least, knob, numbered, probability};
use crate::draw::{below, normal, unit};
use crate::{RewardKind, Rules, Tabular, Tree, TreeError};

/// The rewards of a [`Random`] tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RandomRewards {
    /// 0 or 1, equally likely.
    #[default]
    Bits,
    /// `P(R=1)` uniform in `[0,1)`: a noisy grader.
    Probabilities,
    /// Standard normal, [`RewardKind::Real`].
    Real,
}

/// At each prefix a random number (1 to `symbols`) of symbols is legal, and EOS with probability `eos`; a
/// random reward per response; a random initial policy.
///
/// Shows: nothing in particular. Identities that hold on a few hundred of them hold. Trees differ in size,
/// with at most `(symbols + 1)^horizon` responses. Seeds mean the same tree on every machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Random {
    /// Seed of the tree, the rewards and the initial policy, which have streams of their own.
    pub seed: u64,
    /// Number of symbols, at least 1.
    pub symbols: usize,
    /// Horizon, at least 1; a response without EOS is cut there.
    pub horizon: usize,
    /// Probability that EOS is legal at a prefix, in `[0,1]`.
    pub eos: f64,
    /// The rewards.
    pub rewards: RandomRewards,
    /// Standard deviation of the initial logits, not negative.
    pub scale: f64,
}

impl Default for Random {
    fn default() -> Random {
        Random { seed: 0, symbols: 3, horizon: 5, eos: 0.6, rewards: RandomRewards::Bits, scale: 1.0 }
    }
}

impl Family for Random {
    const NAME: &'static str = "random";
    const ABOUT: &'static str = "a seeded random tree with random rewards";

    fn tree(&self) -> Result<Tree, TreeError> {
        let Random { seed, symbols, horizon, eos, rewards, scale } = *self;
        at_least(Self::NAME, "symbols", symbols, 1, "at least 1")?;
        at_least(Self::NAME, "horizon", horizon, 1, "at least 1")?;
        probability(Self::NAME, "eos", eos)?;
        knob(scale >= 0.0 && scale.is_finite(), Self::NAME, "scale", scale, "at least 0")?;
        let kind = if rewards == RandomRewards::Real { RewardKind::Real } else { RewardKind::Binary };
        let (mut shape, mut grades) = (stream(seed, 1), stream(seed, 2));
        let names = numbered("s", symbols).chain(["EOS".into()]);
        Rules::new(names, horizon).rewards(kind).build(
            |_| {
                let mut legal: Vec<u32> = (0..symbols as u32).collect();
                for _ in 0..below(symbols, &mut shape) {
                    legal.remove(below(legal.len(), &mut shape));
                }
                if unit(&mut shape) < eos {
                    legal.push(symbols as u32);
                }
                legal
            },
            |_, _| match rewards {
                RandomRewards::Bits => f64::from(unit(&mut grades) < 0.5),
                RandomRewards::Probabilities => unit(&mut grades),
                RandomRewards::Real => normal(&mut grades),
            },
        )
    }

    fn initial(&self, tree: &Tree) -> Tabular {
        Tabular::random(tree, self.seed, self.scale)
    }
}

fn stream(seed: u64, stream: u64) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(stream);
    rng
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Oracle;

    #[test]
    fn a_seed_means_the_same_mdp_for_ever() {
        let family = Random { seed: 7, rewards: RandomRewards::Real, ..Random::default() };
        let tree = family.tree().unwrap();
        let oracle = Oracle::new(&tree, &family.initial(&tree));
        assert_eq!((tree.node_count(), tree.leaf_count()), (20, 31));
        assert!((oracle.j + 0.4199649322586542).abs() < 1e-12, "{}", oracle.j);
    }

    #[test]
    fn seeds_differ() {
        let tree = |seed| Random { seed, ..Random::default() }.tree().unwrap();
        let rewards = |tree: &Tree| tree.leaves().map(|l| tree.reward(l)).collect::<Vec<_>>();
        assert_ne!(rewards(&tree(1)), rewards(&tree(2)));
    }
}
