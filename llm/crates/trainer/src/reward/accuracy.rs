//! Rewards the right answer.

use grpo_lambda_grade::Response;

use super::{RewardComponent, RewardConfig, RewardInput};

/// ```text
/// r = 1 for the right answer, 0 for a wrong one or none, nothing where the grader cannot decide
/// ```
/// open-r1 has the same values from Math-Verify. For an unparsable gold it gives nothing, as here (1 before April 2025); for an unparsable answer
/// it gives 0, while this grader gives nothing unless it can decide.
pub(super) static COMPONENT: RewardComponent = RewardComponent {
    name: "accuracy",
    column: "reward_accuracy",
    about: "1 for the right answer by the rules of the grader (task.rules), 0 for a wrong one or none; nothing where it cannot decide",
    source: "GRPO-lambda, Table 2: weight 1; open-r1, accuracy_reward",
    reads_row: false,
    score,
};

fn score(_: &RewardConfig, input: &RewardInput<'_>) -> Option<f64> {
    let RewardInput { text, problem, cut_off, .. } = *input;
    input.gold.grade_text(Response { text, problem, cut_off }, input.extraction).reward()
}
