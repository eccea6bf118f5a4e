//! A control: a reward that says nothing of the response.

use super::{RewardComponent, RewardConfig, RewardInput};

/// ```text
/// r = 1 with probability 1/2, else 0, independent of prompt and response
/// ```
/// Any change in training on it alone, `reward.accuracy=0 reward.coin=1`, is not learnt from the reward. The toss is a function of the run's
/// seed, the step's problem and the place of the response in its group, and so equal for every method.
pub(super) static COMPONENT: RewardComponent = RewardComponent {
    name: "coin",
    column: "reward_coin",
    about: "a control: 1 for half of all responses, whatever they say, else 0",
    source: "ours",
    reads_row: false,
    score,
};

fn score(_: &RewardConfig, input: &RewardInput<'_>) -> Option<f64> {
    Some(f64::from(u8::from(input.draw < 0.5)))
}
