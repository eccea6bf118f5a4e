//! Gradients that jump, or are no numbers.

use grpo_lambda_stats::table::significant;

use crate::doctor::log::LEAST;
use crate::doctor::{Advice, Check, Column, Evidence, Log};

/// Times the median norm.
const SPIKE: f64 = 20.0;

pub(super) static CHECK: Check = Check {
    id: "gradient-norm",
    title: "The gradient jumps or is no number",
    sign: "a norm is not finite, an update was skipped for such a gradient, or a norm is at least 20 times the median of all steps (10 or more)",
    meaning: "One step with such a gradient can undo many. It comes from a token with a probability near 0, from a group whose tiny standard deviation \
              divides its advantages, or from 16-bit numbers that overflow.",
    advice: Advice {
        ours: "rl.grad_clip=1 or less, a smaller rl.lr; the row of the step in metrics.csv shows what else jumped",
        trl: "max_grad_norm=1.0 or less, scale_rewards=False, bf16 and not fp16",
        verl: "actor_rollout_ref.actor.grad_clip=1.0 or less, algorithm.norm_adv_by_std_in_grpo=False",
    },
    needs: &[Column::GradNorm],
    examine,
};

fn examine(log: &Log) -> Option<Evidence> {
    let points = log.get(Column::GradNorm);
    let skipped = log.get(Column::Skipped).iter().filter(|p| p.1 > 0.0).map(|p| p.0);
    let broken = points.iter().filter(|p| !p.1.is_finite()).map(|p| p.0);
    let mut steps: Vec<f64> = skipped.chain(broken).collect();
    steps.sort_by(f64::total_cmp);
    steps.dedup();
    if let (Some(first), Some(last)) = (steps.first(), steps.last()) {
        let text = format!("in {} of {} steps the gradient is not finite", steps.len(), log.steps);
        return Some(Evidence { text, steps: (*first, *last) });
    }
    let mut norms: Vec<f64> = points.iter().map(|p| p.1).collect();
    norms.sort_by(f64::total_cmp);
    let median = *norms.get(norms.len() / 2).filter(|median| norms.len() >= LEAST && **median > 0.0)?;
    let spikes: Vec<_> = points.iter().filter(|p| p.1 >= SPIKE * median).collect();
    let largest = spikes.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(Evidence {
        text: format!(
            "{} of {} norms are at least {SPIKE} times the median of {}; the largest is {} at step {}",
            spikes.len(),
            points.len(),
            significant(median, 3),
            significant(largest.1, 3),
            largest.0
        ),
        steps: (spikes.first()?.0, spikes.last()?.0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Framework;

    fn log(n: usize, at_six: f64) -> Log {
        Log::new(Framework::Verl, false).with(Column::GradNorm, n, |i| if i == 5 { at_six } else { 0.5 })
    }

    #[test]
    fn a_jump_is_found_and_a_smaller_one_or_one_in_a_short_log_is_not() {
        assert_eq!(examine(&log(10, 9.99)), None);
        assert_eq!(examine(&log(9, 100.0)), None);
        let found = examine(&log(10, 10.0)).expect("found");
        assert_eq!(
            found.text,
            "1 of 10 norms are at least 20 times the median of 0.5; the largest is 10 at step 6"
        );
    }

    #[test]
    fn numbers_that_are_none_and_skipped_updates_are_found_in_any_log() {
        assert_eq!(
            examine(&log(6, f64::NAN)).expect("found").text,
            "in 1 of 6 steps the gradient is not finite"
        );
        let skipped = log(4, 0.5).with(Column::Skipped, 4, |i| f64::from(u8::from(i >= 2)));
        let found = examine(&skipped).expect("found");
        assert_eq!(
            (found.text.as_str(), found.steps),
            ("in 2 of 4 steps the gradient is not finite", (3.0, 4.0))
        );
    }
}
