//! Rewards a response in which a regular expression finds something.

use regex::Regex;

use super::{RewardComponent, RewardConfig, RewardInput};

/// 1 where `reward.regex` matches anywhere in the response, else 0. A dot is not a line break unless the expression begins with `(?s)`.
pub(super) static COMPONENT: RewardComponent = RewardComponent {
    name: "regex",
    column: "reward_regex",
    about: "1 for a response in which reward.regex matches, else 0",
    source: "the user",
    reads_row: false,
    score,
};

fn score(config: &RewardConfig, input: &RewardInput<'_>) -> Option<f64> {
    let pattern = config.pattern.as_ref()?;
    Some(f64::from(u8::from(pattern.0.is_match(input.text))))
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
