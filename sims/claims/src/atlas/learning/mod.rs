//! `atlas_learning`: who learns faster, against responses and against tokens.
//!
//! Every entry of the atlas trains a table with exact `J`, one group of eight responses per update, each at the learning rate that
//! is best for it on selection runs. Values that a method needs come by exact enumeration at no charge (an upper bound that
//! says so in its name) and once more from fresh completions that are charged in full.

mod competitors;
mod figures;
mod findings;
mod learner;
mod measure;
mod ranking;
mod results;
mod tables;
mod words;

use crate::experiment::{Experiment, Parts};
use figures::figures;
use findings::findings;
use measure::{Ranking, Size, measure};
use tables::tables;

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "atlas_learning",
    title: "Which methods learn faster from equally many responses, and from equally many tokens?",
    claim: "\"GRPO-λ learns faster\" than GRPO, and where it stands among every other method",
    source: "Our question, on arXiv 2510.00194v1, section 1",
    run: |context| PARTS.report(context),
};

const PARTS: Parts<Ranking> =
    Parts { measure: |context| measure(context, &Size::new(context.full)), findings, tables, figures };

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Store;
    use crate::training::Grid;
    use results::Effort;

    const TINY: Size = Size {
        effort: Effort {
            runs: 3,
            updates: 2,
            pieces: 4,
            grid: Grid { low: 2, high: 3, per_octave: 1, widen: 0, seeds: 2 },
        },
        ranked: 4,
        resamples: 20,
        all_tasks: false,
    };

    #[test]
    fn the_number_of_threads_changes_nothing() {
        let [a, b] = [1, 3].map(|n| PARTS.tiny(|context| measure(context, &TINY), n, &Store::none()));
        let [one, three] = [&a, &b].map(|report| crate::run::tables("atlas_learning", report));
        assert_eq!(one, three);
        assert_eq!(a.figures, b.figures);
        assert!(one.iter().all(|(name, table)| !table.rows.is_empty() || panic!("{name} is empty")));
    }
}
