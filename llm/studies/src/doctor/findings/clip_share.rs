//! A clip that binds for many tokens.

use grpo_lambda_stats::table::significant;

use crate::doctor::{Advice, Check, Column, Evidence, Log};

/// Share of tokens.
const MANY: f64 = 0.2;

pub(super) static CHECK: Check = Check {
    id: "clip-share",
    title: "Many tokens are clipped",
    sign: "on average over the last tenth of the steps the loss of at least 20 % of the tokens sits on a clip bound",
    meaning: "A clipped token has no gradient. Where so many are clipped the policy moves much further within one batch than the surrogate is good \
              for; healthy runs clip less than a few per cent.",
    advice: Advice {
        ours: "a smaller rl.lr or fewer rl.inner_updates; wider clip bounds only once the ratio is small",
        trl: "a smaller learning_rate, fewer num_iterations or steps_per_generation",
        verl: "a smaller actor_rollout_ref.actor.optim.lr, fewer actor.ppo_epochs, a larger ppo_mini_batch_size",
    },
    needs: &[Column::ClipLow, Column::ClipHigh],
    examine,
};

fn examine(log: &Log) -> Option<Evidence> {
    let (low, high) = (log.recent(Column::ClipLow)?, log.recent(Column::ClipHigh)?);
    let share = low.mean() + high.mean();
    (share >= MANY).then(|| Evidence {
        text: format!(
            "{} % of the tokens are clipped ({} % below, {} % above)",
            significant(100.0 * share, 3),
            significant(100.0 * low.mean(), 3),
            significant(100.0 * high.mean(), 3)
        ),
        steps: high.steps,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Framework;

    #[test]
    fn both_sides_count_together() {
        let log = |low: f64, high: f64| {
            let log = Log::new(Framework::Trl, false).with(Column::ClipLow, 12, |_| low);
            log.with(Column::ClipHigh, 12, |_| high)
        };
        assert_eq!(examine(&log(0.1, 0.0625)), None);
        let text = examine(&log(0.125, 0.125)).expect("found").text;
        assert_eq!(text, "25 % of the tokens are clipped (12.5 % below, 12.5 % above)");
    }
}
