//! Responses that are cut off.

use crate::doctor::{Advice, Check, Column, Evidence, Log};

/// Share of responses.
const MANY: f64 = 0.2;

pub(super) static CHECK: Check = Check {
    id: "truncation",
    title: "Responses are cut off",
    sign: "on average over the last tenth of the steps at least 20 % of the responses end at the length limit",
    meaning: "A response that is cut off has no answer and gets the reward of a wrong one, whatever it was about to say. The policy learns to be \
              short and not to be right, or, where the end is rewarded, to hide it.",
    advice: Advice {
        ours: "a larger rl.max_new_tokens; reward.overlong for a penalty that grows towards the limit instead of a cliff",
        trl: "a larger max_completion_length; mask_truncated_completions=True leaves such responses out of the loss",
        verl: "a larger data.max_response_length; reward_model.overlong_buffer (DAPO) for a penalty that grows",
    },
    needs: &[Column::Truncated],
    examine,
};

fn examine(log: &Log) -> Option<Evidence> {
    let recent = log.recent(Column::Truncated)?;
    (recent.mean() >= MANY).then(|| Evidence::share(&recent, "responses are cut off"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Framework;

    #[test]
    fn more_than_a_fifth_is_found_and_a_little_less_is_not() {
        let log = |share: f64| Log::new(Framework::Verl, false).with(Column::Truncated, 10, |_| share);
        assert_eq!(examine(&log(0.199)), None);
        assert_eq!(examine(&log(0.25)).expect("found").text, "25 % of the responses are cut off");
    }
}
