//! `learning`: does GRPO-lambda learn faster, and because of its credit assignment?
//!
//! Exact `J(θ)` against responses sampled, every method trained by [`grpo_lambda::learner::iterate`] on a tabular
//! policy. A trace multiplies the gradient as well as reshaping it, so a comparison at one learning rate mixes two things;
//! `Regime` separates them. Learning rates are chosen on selection runs whose streams are never reported.

mod figures;
mod findings;
mod measure;
pub(crate) mod scores;
mod tables;
pub(crate) mod variant;

use crate::experiment::{Experiment, Parts};
use figures::figures;
use findings::findings;
use measure::{Comparison, Size, measure};
use tables::tables;

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "learning",
    title: "Does GRPO-λ learn faster than GRPO on small exact tasks, and is the reason better credit or longer steps?",
    claim: "Where everything is exact and small: does GRPO-λ learn faster than GRPO, at which learning rates, and why?",
    source: "Our question; the paper says of language models that \"GRPO-λ learns faster and improves 30-40% better \
        than GRPO\" (section 1)",
    run: |context| PARTS.report(context),
};

const PARTS: Parts<Comparison> =
    Parts { measure: |context| measure(context, &Size::new(context.full)), findings, tables, figures };

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Store;
    use crate::training::Grid;
    use scores::Plan;

    /// A comparison of seconds.
    const TINY: Size = Size {
        runs: 3,
        plan: Plan { updates: 4, every: 2 },
        grid: Grid { low: 3, high: 4, per_octave: 1, widen: 1, seeds: 2 },
        resamples: 20,
        full: false,
    };

    #[test]
    fn the_number_of_threads_changes_nothing() {
        let [one, three] = [1, 3].map(|n| PARTS.tiny(|context| measure(context, &TINY), n, &Store::none()));
        for ((name, a), (_, b)) in one.tables.iter().zip(&three.tables) {
            assert!(!a.rows.is_empty(), "{name}");
            assert_eq!(a, b, "{name}");
        }
        assert_eq!(one.figures, three.figures);
        assert!(one.tables.iter().map(|(_, t)| t.rows.len()).sum::<usize>() < 3000);
    }
}
