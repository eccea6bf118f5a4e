//! Rewards the layout of thought and answer, each between its tags.

use super::{RewardComponent, RewardConfig, RewardInput};

/// ```text
/// r = 1 if the text matches ^<think>\n.*?\n</think>\n<answer>\n.*?\n</answer>$, else 0
/// ```
/// as Python's `re.match` reads it with `DOTALL | MULTILINE`: from the start of the text, a dot is any character, and `$` is the end of *any*
/// line. So text after the line that ends in `</answer>` is no fault, and neither are further tags inside; both as in open-r1.
pub(super) static COMPONENT: RewardComponent = RewardComponent {
    name: "format",
    column: "reward_format",
    about: "1 for a response in the layout <think>\\n..\\n</think>\\n<answer>\\n..\\n</answer>, else 0",
    source: "GRPO-lambda, Table 2: weight 0; open-r1, format_reward",
    reads_row: false,
    score,
};

fn score(_: &RewardConfig, input: &RewardInput<'_>) -> Option<f64> {
    Some(f64::from(u8::from(matches(input.text))))
}

/// True if the expression above matches.
///
/// The leftmost middle leaves most room for the end, so no other needs to be tried.
pub fn matches(text: &str) -> bool {
    let Some(thoughts) = text.strip_prefix("<think>\n") else { return false };
    let Some((_, answer)) = thoughts.split_once("\n</think>\n<answer>\n") else { return false };
    let mut rest = answer;
    while let Some((_, after)) = rest.split_once("\n</answer>") {
        if after.is_empty() || after.starts_with('\n') {
            return true;
        }
        rest = after;
    }
    false
}
