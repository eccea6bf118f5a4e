//! The reward of a response: a weighted sum of components, set by the `[reward]` section of a configuration.
//!
//! ```text
//! r = sum_c w_c r_c        over the components c of weight w_c > 0
//! ```
//! A response has no reward, and is left out of its group's statistics, if a component with a weight has no value: accuracy where the grader
//! cannot read the answer or the gold, `command` where the program answers `null`.
//!
//! open-r1 and TRL compose in the same way (`reward_weights`), except that they keep a response without accuracy or without a program's number
//! if another component has a value; here it is left out, because its group would compare responses by different components.
//!
//! Components see the response's text without special tokens and without the prompt: a `<think>` at the end of the prompt is not seen by
//! `format` and `tag_count`.

#[doc(hidden)]
pub mod components;
pub mod program;
mod stuck;

use std::collections::BTreeMap;
use std::time::Duration;

use grpo_lambda::assignment::Overlong;
use grpo_lambda_grade::{Extraction, Gold};
use serde_json::Value;

pub use components::{Pattern, REGISTRY};
pub use stuck::{StuckComponent, StuckDetector};

/// A response as the reward components see it.
#[derive(Clone, Copy, Debug)]
pub struct RewardInput<'a> {
    /// Its text, without special tokens.
    pub text: &'a str,
    /// Its length in tokens, the end token included.
    pub length: usize,
    /// The problem as it is asked, of which no part that is more than a number is an answer; `None` if it is not known.
    pub problem: Option<&'a str>,
    /// True if it was cut off at the limit of length.
    pub cut_off: bool,
    /// The reference answer.
    pub gold: &'a Gold,
    /// The place of the answer in the text.
    pub extraction: Extraction,
    /// The number from the program of the component `command`.
    pub program: Option<f64>,
    /// The step of RL, from 0.
    pub step: u64,
    /// The columns of the problem's row that are not asked, by name.
    pub row: &'a BTreeMap<String, Value>,
    /// A number of its own, uniform in `[0, 1)` and independent of everything else.
    pub draw: f64,
}

/// A part of the reward.
#[derive(Debug)]
pub struct RewardComponent {
    /// Its name: `reward.NAME` is its weight.
    pub name: &'static str,
    /// Its column in the metrics: `reward_NAME`.
    pub column: &'static str,
    /// Its description, with its range.
    pub about: &'static str,
    /// Its origin.
    pub source: &'static str,
    /// True if it reads [`RewardInput::row`], which is empty unless a component of the run does.
    pub reads_row: bool,
    /// The value of a response, if it has one.
    score: fn(&RewardConfig, &RewardInput<'_>) -> Option<f64>,
}

/// The reward of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct RewardConfig {
    /// The weight of each component of [`REGISTRY`], in its order, finite and at least 0; one at least is greater.
    pub weights: Vec<f64>,
    /// The length penalty of the component `overlong`.
    pub overlong: Overlong,
    /// The expression of the component `regex`.
    pub pattern: Option<Pattern>,
    /// The program of the component `command`.
    pub command: Option<ProgramConfig>,
    /// Steps in a row in which a component gave every response the same value before a warning; 0: never.
    pub stuck_steps: u64,
}

/// The program of the component `command`.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgramConfig {
    /// A command line for `sh`.
    pub line: String,
    /// Time limit for the responses to a prompt.
    pub timeout: Duration,
}

/// The reward of a response, with the value of each component.
#[derive(Clone, Debug, PartialEq)]
pub struct RewardBreakdown {
    /// The reward; `None` if the response is left out.
    pub total: Option<f64>,
    /// The value of each component of [`REGISTRY`]; `None` also for those without a weight, except accuracy, which is always computed for
    /// the metrics.
    pub components: Vec<Option<f64>>,
}

impl RewardBreakdown {
    /// 1 for a right answer, 0 for a wrong one; `None` if the grader could not decide.
    pub fn accuracy(&self) -> Option<f64> {
        self.components.first().copied().flatten()
    }
}

impl RewardConfig {
    /// The reward of a response.
    pub fn score(&self, input: &RewardInput<'_>) -> RewardBreakdown {
        let watched = |(i, weight): (usize, &f64)| i == ACCURACY || *weight > 0.0;
        let components: Vec<Option<f64>> = self
            .weights
            .iter()
            .enumerate()
            .zip(REGISTRY)
            .map(|(part, component)| watched(part).then(|| (component.score)(self, input)).flatten())
            .collect();
        RewardBreakdown { total: self.total(&components), components }
    }

    fn total(&self, parts: &[Option<f64>]) -> Option<f64> {
        let weighted = self.weights.iter().zip(parts).filter(|(weight, _)| **weight > 0.0);
        weighted.map(|(weight, part)| Some(weight * (*part)?)).reduce(|sum, x| Some(sum? + x?)).flatten()
    }

    /// True if a component with a weight reads the columns of the rows.
    pub fn reads_rows(&self) -> bool {
        self.active().any(|(_, component)| component.reads_row)
    }

    /// True if the component of this name has a weight.
    pub fn is_active(&self, name: &str) -> bool {
        self.active().any(|(_, component)| component.name == name)
    }

    /// The components with a weight, by index in [`REGISTRY`].
    pub fn active(&self) -> impl Iterator<Item = (usize, &'static RewardComponent)> + '_ {
        let weighted = move |(i, _): &(usize, _)| self.weights[*i] > 0.0;
        REGISTRY.iter().enumerate().filter(weighted)
    }
}

/// The index of accuracy in [`REGISTRY`].
pub const ACCURACY: usize = 0;
