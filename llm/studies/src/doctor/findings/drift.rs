//! Sampler and trainer that disagree at the same weights.

use grpo_lambda_stats::table::significant;

use crate::doctor::{Advice, Check, Column, Evidence, Log};

/// Factor between the two probabilities of a token, on average. bf16 alone makes about 1.01.
const FAR: f64 = 1.05;

pub(super) static CHECK: Check = Check {
    id: "drift",
    title: "Sampler and trainer disagree",
    sign: "at the same weights their probabilities of a token differ by a factor of 1.05 or more, on average over the last tenth of the steps",
    meaning: "The gradient is that of a policy which did not write the responses. Runs collapse of it after hundreds of steps, long after every \
              other curve looked well. It comes from another precision, other kernels, another attention, or weights that were not sent over.",
    advice: Advice {
        ours: "dtype=f32; rl.max_logp_error stops a run at a bound of yours",
        trl: "vllm_importance_sampling_correction=True with a cap; the same dtype in vLLM and trainer",
        verl: "rollout correction (algorithm.rollout_correction), the same dtype in engine and actor",
    },
    needs: &[Column::Drift],
    examine,
};

fn examine(log: &Log) -> Option<Evidence> {
    let recent = log.recent(Column::Drift)?;
    let mean = recent.mean();
    (mean >= FAR).then(|| Evidence {
        text: format!(
            "their probabilities of a token differ by a factor of {} on average",
            significant(mean, 4)
        ),
        steps: recent.steps,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Framework;

    #[test]
    fn a_twentieth_is_found_and_a_little_less_is_not() {
        let log = |drift: f64| Log::new(Framework::Ours, true).with(Column::Drift, 10, |_| drift);
        assert_eq!(examine(&log(1.049)), None);
        let text = examine(&log(1.05)).expect("found").text;
        assert_eq!(text, "their probabilities of a token differ by a factor of 1.05 on average");
    }
}
