//! The components of the reward, in the order of columns.

use grpo_lambda_grade::Response;
use regex::Regex;

use super::RewardComponent;

fn one_if(holds: bool) -> Option<f64> {
    Some(f64::from(u8::from(holds)))
}

/// Every component.
pub static REGISTRY: &[RewardComponent] = &[
    // Where the gold cannot be parsed, open-r1 gives nothing either (1 before April 2025); where the answer cannot, it
    // gives 0, and this grader nothing unless it can decide.
    RewardComponent {
        name: "accuracy",
        column: "reward_accuracy",
        about: "1 for the right answer by the rules of the grader (task.rules), 0 for a wrong one or none; nothing where it cannot decide",
        source: "GRPO-lambda, Table 2: weight 1; open-r1, accuracy_reward",
        reads_row: false,
        score: |_, input| {
            let response = Response { text: input.text, problem: input.problem, cut_off: input.cut_off };
            input.gold.grade_text(response, input.extraction).reward()
        },
    },
    RewardComponent {
        name: "format",
        column: "reward_format",
        about: "1 for a response in the layout <think>\\n..\\n</think>\\n<answer>\\n..\\n</answer>, else 0",
        source: "GRPO-lambda, Table 2: weight 0; open-r1, format_reward",
        reads_row: false,
        score: |_, input| one_if(has_layout(input.text)),
    },
    // The line breaks are part of what is counted, and occurrences do not overlap, as in open-r1.
    RewardComponent {
        name: "tag_count",
        column: "reward_tag_count",
        about: "0.25 for each of the four tags of the layout, with its line breaks, that occurs exactly once",
        source: "open-r1, tag_count_reward",
        reads_row: false,
        score: |_, input| {
            let tags = ["<think>\n", "\n</think>\n", "\n<answer>\n", "\n</answer>"];
            let once = tags.iter().filter(|tag| input.text.matches(**tag).count() == 1);
            Some(0.25 * once.count() as f64)
        },
    },
    // The method `dapo` has the same penalty among its settings (`method.overlong_limit`), where it enters the objective
    // of that method only; here it is part of any method's reward. Both together are refused.
    RewardComponent {
        name: "overlong",
        column: "reward_overlong",
        about: "0 up to limit - cache tokens, then falling to -1 at the limit",
        source: "DAPO (Yu et al. 2025, arXiv 2503.14476), soft overlong punishment",
        reads_row: false,
        score: |config, input| Some(config.overlong.penalty(input.length)),
    },
    // A dot is not a line break unless the expression begins with `(?s)`.
    RewardComponent {
        name: "regex",
        column: "reward_regex",
        about: "1 for a response in which reward.regex matches, else 0",
        source: "the user",
        reads_row: false,
        score: |config, input| one_if(config.pattern.as_ref()?.0.is_match(input.text)),
    },
    RewardComponent {
        name: "command",
        column: "reward_command",
        about: "the number that the program of reward.command answers; nothing where it answers null or NaN",
        source: "the user",
        reads_row: true,
        score: |_, input| input.program,
    },
    // Any change in training on it alone, `reward.accuracy=0 reward.coin=1`, is not learnt from the reward. The toss is a
    // function of the run's seed, the step's problem and the place of the response in its group, and so equal for every
    // method.
    RewardComponent {
        name: "coin",
        column: "reward_coin",
        about: "a control: 1 for half of all responses, whatever they say, else 0",
        source: "ours",
        reads_row: false,
        score: |_, input| one_if(input.draw < 0.5),
    },
];

/// True if `^<think>\n.*?\n</think>\n<answer>\n.*?\n</answer>$` matches, as Python's `re.match` reads it with
/// `DOTALL | MULTILINE`: from the start of the text, a dot is any character, and `$` is the end of *any* line. So text
/// after the line that ends in `</answer>` is no fault, and neither are further tags inside; both as in open-r1.
///
/// The leftmost middle leaves most room for the end, so no other needs to be tried.
pub fn has_layout(text: &str) -> bool {
    let Some(thoughts) = text.strip_prefix("<think>\n") else { return false };
    let Some((_, answer)) = thoughts.split_once("\n</think>\n<answer>\n") else { return false };
    let mut rest = answer;
    while let Some((_, after)) = rest.split_once("\n</answer>") {
        if after.is_empty() || after.starts_with('\n') {
            return true;
        }
        rest = after;
    }
    false
}

/// A compiled expression; equal to one of the same text.
#[derive(Clone, Debug)]
pub struct Pattern(Regex);

impl PartialEq for Pattern {
    fn eq(&self, other: &Pattern) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl Pattern {
    /// Compiles an expression.
    pub fn new(text: &str) -> Result<Pattern, String> {
        Regex::new(text).map(Pattern).map_err(|e| {
            let text = e.to_string();
            let last = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("not understood");
            last.trim().trim_start_matches("error: ").to_owned()
        })
    }
}
