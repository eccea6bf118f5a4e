//! Problems of training that are solved where held-out ones are not.

use grpo_lambda_stats::table::significant;

use crate::doctor::{Advice, Check, Column, Evidence, Log};

/// Standard errors of the mean over steps that the training accuracy stays above the bound.
const ERRORS: f64 = 2.0;

pub(super) static CHECK: Check = Check {
    id: "memorised",
    title: "Problems of training are solved, held-out ones are not",
    sign: "the share of right responses in training, over the last tenth of the steps (10 or more), lies more than 2 standard errors above the \
           upper end of the 95 % interval of a held-out accuracy measured in those steps",
    meaning: "The answers of the training problems are learned rather than the way to them, so accuracy on the training file says nothing about \
              other problems. Few rows and many epochs do this.",
    advice: Advice {
        ours: "more problems (task.data), fewer steps (rl.steps; checkpoint.best=true keeps the best evaluation); report llm-train compare RUN",
        trl: "more rows in train_dataset, fewer epochs; measure on an eval_dataset that shares no problem with it",
        verl: "more rows in data.train_files, fewer trainer.total_epochs; measure on data.val_files that share no problem with them",
    },
    needs: &[Column::Accuracy, Column::HeldOutHigh],
    examine,
};

fn examine(log: &Log) -> Option<Evidence> {
    let recent = log.recent(Column::Accuracy)?;
    let (step, bound) = *log.get(Column::HeldOutHigh).last()?;
    let above = recent.mean() - ERRORS * recent.error() > bound;
    (above && step >= recent.steps.0).then(|| Evidence {
        text: format!(
            "{} % of the responses in training are right, and the held-out accuracy is at most {} % (95 % interval)",
            significant(100.0 * recent.mean(), 3),
            significant(100.0 * bound, 3)
        ),
        steps: recent.steps,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Framework;

    fn log(accuracy: f64, bound: f64, measured: usize) -> Log {
        let log = Log::new(Framework::Ours, true);
        // 0.02 up and down: the error of a mean of 10 is 0.0067.
        let log = log.with(Column::Accuracy, 40, |i| accuracy + if i % 2 == 0 { 0.02 } else { -0.02 });
        log.with(Column::HeldOutHigh, measured, |_| bound)
    }

    #[test]
    fn an_accuracy_above_the_interval_is_found_only_if_noise_and_time_allow() {
        let found = examine(&log(0.98, 0.45, 40)).expect("found");
        assert_eq!(found.steps, (31.0, 40.0));
        assert!(found.text.starts_with("98 % of the responses in training are right"), "{}", found.text);
        assert_eq!(examine(&log(0.45, 0.45, 40)), None);
        assert_eq!(examine(&log(0.462, 0.45, 40)), None, "within two standard errors");
        examine(&log(0.466, 0.45, 40)).expect("beyond two standard errors");
        assert_eq!(examine(&log(0.98, 0.45, 30)), None, "measured before those steps only");
    }
}
