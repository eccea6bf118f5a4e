//! `atlas_learning`: who learns faster, against responses and against tokens, and why GRPO-lambda wins or loses.
//!
//! Every entrant of the atlas trains a table with exact `J`, one group of eight responses per update, each at the learning rate that
//! is best for it on selection runs. Values that a method needs come from the exact oracle at no charge (an upper bound that
//! says so in its name) and once more from fresh completions that are charged in full.

mod competitors;
mod exact;
mod figures;
mod findings;
mod learner;
mod measure;
mod ranking;
mod results;
mod run;
mod tables;
mod tasks;
mod why;
mod words;

use crate::experiment::{Experiment, Parts};
use figures::figures;
use findings::findings;
use measure::{Ranking, Size, measure};
use tables::tables;

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "atlas_learning",
    title: "which method learns faster, from the same responses and from the same tokens, and why GRPO-λ wins or loses",
    claim: "\"GRPO-λ learns faster\" than GRPO, and where it stands among every other method",
    source: "ours; the words in quotation marks: arXiv 2510.00194v1, section 1",
    run: |context| PARTS.report(context),
};

const PARTS: Parts<Ranking> =
    Parts { measure: |context| measure(context, &Size::new(context.full)), findings, tables, figures };

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Context, Report};
    use crate::store::Store;
    use crate::training::rates::Grid;
    use grpo_lambda_stats::table::Table;
    use results::Effort;
    use std::path::Path;

    const TINY: Size = Size {
        effort: Effort {
            runs: 3,
            updates: 2,
            pieces: 4,
            grid: Grid { low: 2, high: 3, per_octave: 1, widen: 0, seeds: 2 },
        },
        ranked: 4,
        random: 2,
        resamples: 20,
        all_tasks: false,
    };

    fn run_with(store: &Store, threads: usize) -> (Vec<(String, Table)>, Report) {
        let parts = Parts { measure: |context| measure(context, &TINY), ..PARTS };
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
        let ctx = Context { seed: 5, full: false, progress: &|_, _| {}, store };
        let report = pool.install(|| parts.report(&ctx)).expect("it runs");
        (crate::run::tables("atlas_learning", &report), report)
    }

    #[test]
    fn the_number_of_threads_changes_nothing() {
        let ((one, a), (three, b)) = (run_with(&Store::none(), 1), run_with(&Store::none(), 3));
        assert_eq!(one, three);
        assert_eq!(a.figures, b.figures);
        assert!(one.iter().all(|(name, table)| !table.rows.is_empty() || panic!("{name} is empty")));
    }

    #[test]
    fn a_run_that_was_stopped_goes_on_to_the_same_result() {
        let folder = tempfile::tempdir().unwrap();
        let path: &Path = &folder.path().join("rows.jsonl");
        let whole = run_with(&Store::open(path, "sim atlas_learning --full").unwrap(), 2).0;
        // Stopped: only the first third of the pieces had been done, the next was being written.
        let text = std::fs::read_to_string(path).unwrap();
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let kept = lines.len() / 3;
        let cut = format!("{}{}", lines[..kept].concat(), &lines[kept][..lines[kept].len() / 2]);
        std::fs::write(path, cut).unwrap();
        let store = Store::open(path, "sim atlas_learning --full").unwrap();
        assert_eq!(store.len(), kept - 1);
        assert_eq!(run_with(&store, 1).0, whole);
        // And all pieces are there again, each once.
        drop(store);
        let again = Store::open(path, "sim atlas_learning --full").unwrap();
        assert_eq!(again.len(), lines.len() - 1);
        assert_eq!(std::fs::read_to_string(path).unwrap().lines().count(), lines.len());
    }
}
