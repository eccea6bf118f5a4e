//! `paper/protocols/chain_6.toml`, which was written before the runs: what is run.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use grpo_lambda_trials::Study;
use serde::Deserialize;

use super::credit::Credit;
use super::task::Form;

/// The part of the study that only this program reads.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Setup {
    pub(crate) task: Form,
    /// The credit of the methods that a verifier tells more than rewards, by their names.
    pub(crate) credit: BTreeMap<String, Credit>,
    pub(crate) model: Model,
    pub(crate) start: Lesson,
    pub(crate) rl: Rl,
    pub(crate) exam: Exam,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Model {
    pub(crate) hidden: usize,
    pub(crate) layers: usize,
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) intermediate: usize,
    /// Base of the rotary frequencies: small, since rows are short.
    pub(crate) rope_theta: f64,
    /// Standard deviation of new weights.
    pub(crate) deviation: f64,
}

/// Supervised learning up to an accuracy of a step.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Lesson {
    /// The share of a demonstration's values that do not follow from the one before.
    pub(crate) wrong: f64,
    pub(crate) accuracy: f64,
    /// From this accuracy on the rate is `slow_pace` of its own, so that it is not overshot.
    pub(crate) slow_from: f64,
    pub(crate) slow_pace: f64,
    pub(crate) batch: u64,
    pub(crate) lr: f64,
    pub(crate) warmup: u64,
    pub(crate) check_every: u64,
    pub(crate) most_steps: u64,
    /// Held-out prompts of a check.
    pub(crate) check_prompts: u64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rl {
    pub(crate) prompts: u64,
    pub(crate) group: usize,
    pub(crate) warmup: u64,
}

/// Held-out accuracy on so many prompts, whenever so many tokens have been spent.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Exam {
    pub(crate) prompts: u64,
    pub(crate) every: u64,
}

/// The committed study.
pub(crate) static COMMITTED: LazyLock<Study<Setup>> = LazyLock::new(|| {
    let text = include_str!("../../../../../paper/protocols/chain_6.toml");
    Study::read(text).expect("the compiled-in file is read by a test")
});

/// The committed study with a tiny model that learns for a step.
#[cfg(test)]
pub(crate) fn tiny() -> Study<Setup> {
    let mut study = COMMITTED.clone();
    let Setup { model, start, .. } = &mut study.setup;
    (model.hidden, model.intermediate) = (16, 16);
    (start.most_steps, start.batch, start.check_prompts) = (1, 2, 2);
    study
}

#[cfg(test)]
mod tests {
    use super::*;
    use grpo_lambda::methods;

    #[test]
    fn the_committed_study_can_be_run() {
        let study = &*COMMITTED;
        for m in &study.methods {
            methods::parse(&m.method, &m.settings).unwrap_or_else(|e| panic!("{}: {e}", m.name));
        }
        assert!(study.setup.credit.keys().all(|name| study.methods.iter().any(|m| m.name == *name)));
        assert_eq!((study.seeds.selection.len(), study.seeds.evaluation.len()), (6, 24));
        // No version before had one of these seeds.
        let earlier = |seed: u64| (100..=105).contains(&seed) || (200..=223).contains(&seed);
        assert!(!study.seeds.selection.iter().chain(&study.seeds.evaluation).any(|seed| earlier(*seed)));
        assert_eq!((study.methods.len(), study.comparisons.len()), (10, 9));
        assert!((study.budget % study.setup.exam.every as f64).abs() < 1e-9, "an exam at the budget");
    }
}
