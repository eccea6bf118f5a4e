mod direction;
mod trust;

use super::measure::Numbers;
use crate::experiment::Finding;

pub(super) fn findings(n: &Numbers) -> Vec<Finding> {
    vec![
        trust::token_ratios(n),
        trust::weighted_means(n),
        direction::stale(n),
        trust::bound(n),
        direction::mismatch(n),
        trust::reuse(n),
    ]
}

#[cfg(test)]
mod tests;
