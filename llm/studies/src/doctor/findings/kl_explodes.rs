//! A policy that has left its reference.

use crate::doctor::{Advice, Check, Column, Evidence, Log};

/// Nats per token. Published runs stay below 0.1; half a nat is a policy that writes another language.
const LARGE: f64 = 0.5;
/// Times the KL of the first steps.
const GROWN: f64 = 5.0;

pub(super) static CHECK: Check = Check {
    id: "kl-explodes",
    title: "The KL divergence explodes",
    sign: "the mean KL over the last tenth of the steps is at least 0.5 nats per token and at least 5 times that of the first tenth",
    meaning: "The policy has gone far from the model that it began with, much further than a task needs; what it knew beside the task is usually lost \
              by then, and the KL estimate is dominated by single tokens.",
    advice: Advice {
        ours: "a smaller rl.lr, a larger method.beta, rl.grad_clip=1; go on from an earlier checkpoint",
        trl: "a smaller learning_rate, a larger beta, max_grad_norm=1.0 or less",
        verl: "a smaller actor_rollout_ref.actor.optim.lr, a larger actor.kl_loss_coef, actor.grad_clip=1.0",
    },
    needs: &[Column::Kl],
    examine,
};

fn examine(log: &Log) -> Option<Evidence> {
    let ends = log.ends(Column::Kl)?;
    let (early, recent) = (ends.early.mean(), ends.recent.mean());
    (recent >= LARGE && recent >= GROWN * early).then(|| Evidence::nats("KL", &ends))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Framework;

    fn log(early: f64, recent: f64) -> Log {
        Log::new(Framework::Verl, false).with(Column::Kl, 20, |i| if i < 10 { early } else { recent })
    }

    #[test]
    fn a_large_kl_that_grew_is_found_and_neither_alone_is() {
        assert_eq!(examine(&log(0.01, 0.49)), None);
        assert_eq!(examine(&log(0.2, 0.99)), None);
        let found = examine(&log(0.1, 0.5)).expect("found");
        assert_eq!(found.text, "the mean KL is 0.5 nats per token, after 0.1 at first");
        assert_eq!(found.steps, (11.0, 20.0));
    }
}
