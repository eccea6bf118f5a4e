//! Rewards by the user's program: see [`super::program`].

use super::{RewardComponent, RewardConfig, RewardInput};

/// The program's number for the response, in any range; nothing if it gives none.
pub(super) static COMPONENT: RewardComponent = RewardComponent {
    name: "command",
    column: "reward_command",
    about: "the number that the program of reward.command answers; nothing where it answers null or NaN",
    source: "the user",
    reads_row: true,
    score,
};

fn score(_: &RewardConfig, input: &RewardInput<'_>) -> Option<f64> {
    input.program
}
