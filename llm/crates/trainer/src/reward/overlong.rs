//! Penalises responses near the length limit.

use super::{RewardComponent, RewardConfig, RewardInput};

/// DAPO's soft overlong punishment, [`Overlong`](grpo_lambda::assignment::Overlong): 0 up to `limit - cache` tokens, falling to -1 at `limit`.
///
/// The method `dapo` has the same penalty among its settings (`method.overlong_limit`), where it enters the objective of that method only; here it
/// is part of any method's reward. Both together are refused.
pub(super) static COMPONENT: RewardComponent = RewardComponent {
    name: "overlong",
    column: "reward_overlong",
    about: "0 up to limit - cache tokens, then falling to -1 at the limit",
    source: "DAPO (Yu et al. 2025, arXiv 2503.14476), soft overlong punishment",
    reads_row: false,
    score,
};

fn score(config: &RewardConfig, input: &RewardInput<'_>) -> Option<f64> {
    Some(config.overlong.penalty(input.length))
}
