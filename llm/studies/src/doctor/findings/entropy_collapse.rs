//! A policy that says one and the same.

use crate::doctor::{Advice, Check, Column, Evidence, Log};

/// Nats per token: ten tokens in a row are the most probable ones nine times of ten.
const SMALL: f64 = 0.01;
/// Share of the first steps' entropy.
const FALLEN: f64 = 0.1;

pub(super) static CHECK: Check = Check {
    id: "entropy-collapse",
    title: "The entropy collapses",
    sign: "the mean entropy over the last tenth of the steps is at most 0.01 nats per token and at most a tenth of that of the first tenth",
    meaning: "The responses of a group are all but equal, so there is nothing left to choose from and learning ends, usually well below what the \
              model could do.",
    advice: Advice {
        ours: "a smaller rl.lr, a wider upper clip bound (method.name=dapo), a larger method.beta, rl.temperature=1; go on from an earlier checkpoint",
        trl: "a smaller learning_rate, epsilon_high=0.28, temperature=1.0, a larger beta",
        verl: "a smaller actor_rollout_ref.actor.optim.lr, actor.clip_ratio_high=0.28, actor.entropy_coeff above 0",
    },
    needs: &[Column::Entropy],
    examine,
};

fn examine(log: &Log) -> Option<Evidence> {
    let ends = log.ends(Column::Entropy)?;
    let (early, recent) = (ends.early.mean(), ends.recent.mean());
    (recent <= SMALL && recent <= FALLEN * early).then(|| Evidence::nats("entropy", &ends))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Framework;

    fn log(early: f64, recent: f64) -> Log {
        Log::new(Framework::Trl, false).with(Column::Entropy, 20, |i| if i < 10 { early } else { recent })
    }

    #[test]
    fn a_small_entropy_that_fell_is_found_and_neither_alone_is() {
        assert_eq!(examine(&log(0.5, 0.011)), None);
        assert_eq!(examine(&log(0.09, 0.01)), None);
        let text = examine(&log(0.5, 0.01)).expect("found").text;
        assert_eq!(text, "the mean entropy is 0.01 nats per token, after 0.5 at first");
    }
}
