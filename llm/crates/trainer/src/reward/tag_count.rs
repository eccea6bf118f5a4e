//! Rewards each tag of the layout that occurs exactly once.

use super::{RewardComponent, RewardConfig, RewardInput};

/// ```text
/// r = 0.25 for each of <think>\n, \n</think>\n, \n<answer>\n and \n</answer> that occurs exactly once
/// ```
/// The line breaks are part of what is counted, and occurrences do not overlap, as in open-r1.
pub(super) static COMPONENT: RewardComponent = RewardComponent {
    name: "tag_count",
    column: "reward_tag_count",
    about: "0.25 for each of the four tags of the layout, with its line breaks, that occurs exactly once",
    source: "open-r1, tag_count_reward",
    reads_row: false,
    score,
};

const TAGS: [&str; 4] = ["<think>\n", "\n</think>\n", "\n<answer>\n", "\n</answer>"];

fn score(_: &RewardConfig, input: &RewardInput<'_>) -> Option<f64> {
    let once = TAGS.iter().filter(|tag| input.text.matches(**tag).count() == 1);
    Some(0.25 * once.count() as f64)
}
