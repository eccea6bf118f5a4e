//! A run that has lost what it could do.

use grpo_lambda_stats::table::significant;

use crate::doctor::{Advice, Check, Column, Evidence, Log};

/// Standard errors by which the reward fell.
const ERRORS: f64 = 4.0;
/// Share of the best tenth's reward that is left.
const LEFT: f64 = 0.5;
/// Times the entropy of the first steps.
const NOISE: f64 = 1.5;

pub(super) static CHECK: Check = Check {
    id: "divergence",
    title: "The run diverges",
    sign: "the loss is not finite, or the mean reward of the last tenth of the steps is at most half that of the first and lies 4 standard errors \
           below it, or such a fall is half as large while the entropy rose to 1.5 times its first value",
    meaning: "The policy is worse than the one that it began with, and turns into noise. Steps are too large for what their gradients are worth.",
    advice: Advice {
        ours: "a smaller rl.lr (usual are 1e-7 to 1e-2), rl.grad_clip=1, a larger rl.group_size; go on from an earlier checkpoint",
        trl: "a smaller learning_rate, max_grad_norm=1.0 or less, a larger num_generations",
        verl: "a smaller actor_rollout_ref.actor.optim.lr, actor.grad_clip=1.0, a larger rollout.n",
    },
    needs: &[Column::Reward, Column::Loss],
    examine,
};

fn examine(log: &Log) -> Option<Evidence> {
    let broken: Vec<f64> = log.get(Column::Loss).iter().filter(|p| !p.1.is_finite()).map(|p| p.0).collect();
    if let (Some(first), Some(last)) = (broken.first(), broken.last()) {
        let text = format!("in {} of {} steps the loss is not finite", broken.len(), log.steps);
        return Some(Evidence { text, steps: (*first, *last) });
    }
    let reward = log.ends(Column::Reward)?;
    let (early, recent) = (reward.early.mean(), reward.recent.mean());
    let noise = log.ends(Column::Entropy).filter(|e| e.recent.mean() >= NOISE * e.early.mean());
    let left = if noise.is_some() { (1.0 + LEFT) / 2.0 } else { LEFT };
    // Only a reward that began above 0 has halves.
    let fell = early > 0.0 && recent <= left * early && reward.errors() <= -ERRORS;
    fell.then(|| {
        let entropy = noise.map_or(String::new(), |e| {
            let [a, b] = [&e.early, &e.recent].map(|window| significant(window.mean(), 3));
            format!(", while the entropy rose from {a} to {b} nats per token")
        });
        let (a, b) = (significant(early, 3), significant(recent, 3));
        Evidence {
            text: format!("the mean reward fell from {a} to {b}{entropy}"),
            steps: reward.recent.steps,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Framework;

    /// Rewards of 0.8 ± 0.05 that end at `reward`, and entropies of 1 that end at `entropy`.
    fn log(reward: f64, entropy: f64) -> Log {
        let wave = |i: usize| if i.is_multiple_of(2) { 0.05 } else { -0.05 };
        Log::new(Framework::Ours, true)
            .with(Column::Reward, 20, |i| wave(i) + if i < 10 { 0.8 } else { reward })
            .with(Column::Entropy, 20, |i| if i < 10 { 1.0 } else { entropy })
            .with(Column::Loss, 20, |_| 0.1)
    }

    #[test]
    fn a_reward_that_halves_is_found_and_one_that_falls_less_only_with_noise() {
        assert_eq!(examine(&log(0.45, 1.0)), None);
        assert_eq!(examine(&log(0.375, 1.0)).expect("found").text, "the mean reward fell from 0.8 to 0.375");
        assert_eq!(examine(&log(0.45, 1.49)), None);
        assert_eq!(
            examine(&log(0.45, 1.5)).expect("found").text,
            "the mean reward fell from 0.8 to 0.45, while the entropy rose from 1 to 1.5 nats per token"
        );
        assert_eq!(examine(&log(0.7, 3.0)), None);
    }

    #[test]
    fn a_loss_that_is_no_number_is_found_in_any_log() {
        let log = Log::new(Framework::Trl, false).with(Column::Loss, 3, |i| [0.1, f64::INFINITY, 0.1][i]);
        let found = examine(&log).expect("found");
        assert_eq!(
            (found.text.as_str(), found.steps),
            ("in 1 of 3 steps the loss is not finite", (2.0, 2.0))
        );
    }
}
