//! A reward that is the same at every step.

use grpo_lambda_stats::table::significant;

use crate::doctor::log::LEAST;
use crate::doctor::{Advice, Check, Column, Evidence, Log};

pub(super) static CHECK: Check = Check {
    id: "constant-reward",
    title: "The reward is constant",
    sign: "the mean reward was one and the same number in each of the last 10 steps or more",
    meaning: "Nothing is learned from a reward that does not vary. The grader may not find the answers (another layout, another language), the \
              problems may be far too hard or far too easy, or responses may be cut off before their answer.",
    advice: Advice {
        ours: "look at samples.jsonl; task.template for the layout, task.data for other problems, rl.max_new_tokens for room",
        trl: "print completions with their rewards (log_completions=True); check reward_funcs and max_completion_length",
        verl: "print responses with their scores (trainer.log_val_generations); check custom_reward_function and data.max_response_length",
    },
    needs: &[Column::Reward],
    examine,
};

fn examine(log: &Log) -> Option<Evidence> {
    let points = log.get(Column::Reward);
    let last = points.last()?;
    let same = points.iter().rev().take_while(|p| p.1 == last.1).count();
    let first = points.get(points.len() - same)?;
    (same >= LEAST).then(|| Evidence {
        text: format!("the mean reward is {} in each of the last {same} steps", significant(last.1, 3)),
        steps: (first.0, last.0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Framework;

    fn log(constant: usize) -> Log {
        Log::new(Framework::Ours, true).with(
            Column::Reward,
            30,
            |i| if i < 30 - constant { 0.1 } else { 0.2 },
        )
    }

    #[test]
    fn ten_equal_steps_at_the_end_are_found_and_nine_are_not() {
        assert_eq!(examine(&log(9)), None);
        let found = examine(&log(10)).expect("found");
        assert_eq!(found.steps, (21.0, 30.0));
        assert_eq!(found.text, "the mean reward is 0.2 in each of the last 10 steps");
    }
}
