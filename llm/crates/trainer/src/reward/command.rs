//! Rewards what a program of the user's says: see [`super::program`].

use super::{RewardComponent, RewardConfig, RewardInput};

/// The program's number for the response, whatever its range; nothing where it says none.
pub(super) static COMPONENT: RewardComponent = RewardComponent {
    name: "command",
    column: "reward_command",
    about: "the number that the program of reward.command answers; nothing where it answers null or NaN",
    source: "the user",
    score,
};

fn score(_: &RewardConfig, input: &RewardInput<'_>) -> Option<f64> {
    input.program
}
