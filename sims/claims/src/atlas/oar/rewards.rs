//! Rewards of a response.

use grpo_lambda_mdp::{Rules, Tree};

/// Symbols of the alphabet, and tokens of every response, the last of which is the answer.
pub(super) const SYMBOLS: u32 = 3;
pub(super) const LEN: usize = 6;

/// A rule that rewards responses.
pub(super) struct Reward {
    pub(super) name: &'static str,
    /// True if the reward is a function of the answer alone.
    pub(super) by_answer: bool,
    rule: fn(&[u32]) -> bool,
}

/// The first is the one in which the answer decides.
pub(super) const REWARDS: [Reward; 4] = [
    Reward { name: "answer is right", by_answer: true, rule: |y| y[LEN - 1] == 0 },
    Reward { name: "answer repeats the first token", by_answer: false, rule: |y| y[LEN - 1] == y[0] },
    Reward {
        name: "sum of all tokens",
        by_answer: false,
        rule: |y| y.iter().sum::<u32>().is_multiple_of(SYMBOLS),
    },
    Reward { name: "first token alone", by_answer: false, rule: |y| y[0] == 0 },
];

impl Reward {
    /// All responses with their rewards.
    pub(super) fn tree(&self) -> anyhow::Result<Tree> {
        let names = (0..SYMBOLS).map(|s| format!("t{s}")).chain(["EOS".to_owned()]);
        Ok(Rules::new(names, LEN).build(|_| (0..SYMBOLS).collect(), |y, _| f64::from((self.rule)(y)))?)
    }
}
