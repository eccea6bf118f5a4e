//! Ratios other than 1 where sampler and policy are one.

use grpo_lambda_stats::table::significant;

use crate::doctor::{Advice, Check, Column, Evidence, Log};

/// Distance of the mean ratio from 1 that rounding in bf16 does not reach.
const FAR: f64 = 0.01;

pub(super) static CHECK: Check = Check {
    id: "ratio-off-policy",
    title: "The ratio is not 1 on-policy",
    sign: "with one update per sampled batch, which makes the ratio 1 by definition, its mean over a step differs from 1 by more than 0.01",
    meaning: "The log-probabilities of the sampler are not those of the policy that is trained: stale weights, another temperature, another \
              precision, tokens that were made anew from text. The clip then acts on an error and not on a step of the policy.",
    advice: Advice {
        ours: "dtype=f32, or the CPU; with the same seed elsewhere, report it: in this program it is a bug",
        trl: "vllm_importance_sampling_correction, the same temperature and dtype in sampler and trainer",
        verl: "actor_rollout_ref.rollout.calculate_log_probs=True and rollout correction; the same temperature and dtype",
    },
    needs: &[Column::RatioMean],
    examine,
};

fn examine(log: &Log) -> Option<Evidence> {
    if !log.on_policy {
        return None;
    }
    let off: Vec<_> = log.get(Column::RatioMean).iter().filter(|p| (p.1 - 1.0).abs() > FAR).collect();
    let worst = off.iter().max_by(|a, b| (a.1 - 1.0).abs().total_cmp(&(b.1 - 1.0).abs()))?;
    Some(Evidence {
        text: format!(
            "the mean ratio differs from 1 in {} of {} steps; the furthest is {} at step {}",
            off.len(),
            log.get(Column::RatioMean).len(),
            significant(worst.1, 4),
            worst.0
        ),
        steps: (off.first()?.0, off.last()?.0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Framework;

    fn log(on_policy: bool, ratio: f64) -> Log {
        Log::new(Framework::Ours, on_policy).with(Column::RatioMean, 5, |i| if i == 2 { ratio } else { 1.0 })
    }

    #[test]
    fn a_ratio_that_must_be_one_is_found_and_one_that_need_not_is_not() {
        assert_eq!(examine(&log(true, 1.0099)), None);
        assert_eq!(examine(&log(false, 2.0)), None);
        let found = examine(&log(true, 0.98)).expect("found");
        assert_eq!(
            found.text,
            "the mean ratio differs from 1 in 1 of 5 steps; the furthest is 0.98 at step 3"
        );
        assert_eq!(found.steps, (3.0, 3.0));
    }
}
