//! The columns in which a problem and its answer are looked for.

use super::row_text::BARE;

pub(super) const PROBLEMS: [&str; 9] =
    ["problem", "question", "prompt", "query", "input", "instruction", "messages", "conversations", BARE];
pub(super) const ANSWERS: [&str; 9] = [
    "answers",
    "answer",
    "final_answer",
    "ground_truth",
    "expected_answer",
    "reward_model.ground_truth",
    "gold",
    "golds",
    "target",
];
/// The answer in files of OpenRLHF and slime, where nothing else holds one: elsewhere a text may be of the row's topic, and what is no text marks
/// the row as good or bad (TRL).
pub(super) const LABEL: &str = "label";
