//! Responses that grow without being better.

use grpo_lambda_stats::table::significant;

use crate::doctor::{Advice, Check, Column, Evidence, Log};

/// Times the length of the first steps.
const GROWN: f64 = 1.5;
/// Standard errors within which a reward has not risen.
const ERRORS: f64 = 2.0;

pub(super) static CHECK: Check = Check {
    id: "length-bonus",
    title: "Length grows without reward",
    sign: "responses are at least 1.5 times as long in the last tenth of the steps as in the first, while the mean reward rose by less than 2 standard errors",
    meaning: "A loss that divides by the length of each response, as GRPO's does, punishes long wrong responses less than short ones: they grow \
              although nothing is gained. Lengths that grow with the reward are another matter.",
    advice: Advice {
        ours: "a method that does not divide by each response's length: method.name=dr_grpo, or method.name=dapo with token means",
        trl: "loss_type=\"dr_grpo\" or \"dapo\"",
        verl: "actor_rollout_ref.actor.loss_agg_mode=seq-mean-token-sum-norm or token-mean",
    },
    needs: &[Column::Length, Column::Reward],
    examine,
};

fn examine(log: &Log) -> Option<Evidence> {
    let (length, reward) = (log.ends(Column::Length)?, log.ends(Column::Reward)?);
    let (early, recent) = (length.early.mean(), length.recent.mean());
    // A reward without any spread has errors of 0: it has risen by infinitely many when it is larger at all.
    let risen = reward.rise() > 0.0 && reward.errors() >= ERRORS;
    (recent >= GROWN * early && !risen).then(|| Evidence {
        text: format!(
            "responses have {} tokens on average, after {} at first, while the mean reward went from {} to {}",
            significant(recent, 3),
            significant(early, 3),
            significant(reward.early.mean(), 3),
            significant(reward.recent.mean(), 3)
        ),
        steps: length.recent.steps,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Framework;

    /// Lengths that grow by this factor; rewards of 0.5 ± 0.1 that rise by this much.
    fn log(factor: f64, rise: f64) -> Log {
        let log = Log::new(Framework::Ours, true);
        let log = log.with(Column::Length, 20, |i| if i < 10 { 100.0 } else { 100.0 * factor });
        let wave = |i: usize| if i.is_multiple_of(2) { 0.4 } else { 0.6 };
        log.with(Column::Reward, 20, |i| wave(i) + if i < 10 { 0.0 } else { rise })
    }

    #[test]
    fn growth_without_reward_is_found_and_growth_with_it_is_not() {
        // The error of a mean of ten is 0.1 sqrt(10/9/10) = 0.0333, that of the difference 0.0471.
        assert_eq!(examine(&log(1.49, 0.0)), None);
        assert_eq!(examine(&log(2.0, 0.095)), None);
        assert!(examine(&log(2.0, 0.094)).is_some());
        assert_eq!(
            examine(&log(1.5, 0.0)).expect("found").text,
            "responses have 150 tokens on average, after 100 at first, while the mean reward went from 0.5 to 0.5"
        );
        let risen = Log::new(Framework::Ours, true)
            .with(Column::Length, 20, |i| if i < 10 { 1.0 } else { 2.0 })
            .with(Column::Reward, 20, |i| if i < 10 { 0.0 } else { 1.0 });
        assert_eq!(examine(&risen), None, "a rise without spread is one");
    }
}
