//! The figure of a comparison.

use grpo_lambda_figure::{Axis, Figure, Panel};
use grpo_lambda_stats::table::significant;
use grpo_lambda_trainer::input::task::TaskSource;

use super::report::{finding, plural, too_few_seeds};
use super::run::{ComparisonResult, MethodScores};
use super::statistics::{IqmEstimate, bands};
use crate::curves::{Points, half_window, smooth};

fn draw(panel: Panel, name: &str, bands: &[(f64, IqmEstimate)]) -> Panel {
    let edges = bands.iter().filter_map(|(x, s)| s.ends.map(|[low, high]| (*x, low, high)));
    panel.band(name, edges).line(name, bands.iter().map(|(x, s)| (*x, s.mid)))
}

/// Held-out accuracy and reward against RL steps, a line and a band for each method.
pub fn figure(outcome: &ComparisonResult) -> Figure {
    let steps = outcome.plan.base.rl.steps as f64;
    let axis = || Axis::new("RL steps done").range(0.0, steps);
    let longest = outcome.scores.iter().flat_map(|s| &s.reward).map(Vec::len).max().unwrap_or(0);
    let half = half_window(longest);
    let decoding = match outcome.plan.base.eval.temperature {
        0.0 => "most probable tokens".to_owned(),
        temperature => format!("sampled at temperature {temperature}"),
    };
    let mut accuracy =
        Panel::new(format!("Held-out accuracy, {decoding}")).x(axis()).y("share of problems solved");
    let mut reward =
        Panel::new("Reward in training, sampled").x(axis()).y("mean reward of a batch, smoothed");
    for (score, name) in outcome.scores.iter().zip(names(outcome)) {
        accuracy = draw(accuracy, &name, &bands(&score.accuracy));
        let smoothed: Vec<Points> = score.reward.iter().map(|c| smooth(c, half)).collect();
        reward = draw(reward, &name, &bands(&smoothed));
    }
    let seeds = outcome.plan.seeds;
    let generated = matches!(outcome.plan.base.task, TaskSource::Embedded(_));
    let few = match (too_few_seeds(outcome), outcome.scores.len() > 2) {
        (false, _) => "",
        (true, false) => " So few seeds cannot give p < 0.05 by sign flips.",
        (true, true) => " So few seeds cannot give p < 0.05 by sign flips and Holm's correction.",
    };
    let spread = match seeds {
        1 => "One seed, so no intervals".to_owned(),
        _ => format!(
            "Lines: interquartile mean of {}; bands: 95 % bootstrap over seeds, somewhat too narrow with few",
            plural(seeds)
        ),
    };
    Figure::new(finding(outcome))
        .caption(format!(
            "{}A model of {} parameters on {}; accuracy on {}. {spread}. All methods of a seed start from the same \
             supervised checkpoint and meet the same problems. Reward: centred mean of {} steps.{few}",
            if generated { "A scaled-down version of the paper's Figures 3 and 4. " } else { "" },
            outcome.parameters,
            if generated { "generated problems" } else { "the problems of a data set" },
            outcome.problems_in_words(),
            2 * half + 1
        ))
        .names(names(outcome))
        .panel_size(480, 350)
        .panel(accuracy)
        .panel(reward)
}

/// Names of the methods: those for a reader if no two are equal, else their spellings.
fn names(outcome: &ComparisonResult) -> Vec<String> {
    let named = |name: &dyn Fn(&MethodScores) -> String| -> Vec<String> {
        let rate = |score: &MethodScores| significant(score.rate, 3);
        outcome.scores.iter().map(|score| format!("{}, rate {}", name(score), rate(score))).collect()
    };
    let readable = named(&|score| score.entry.reader_name());
    let distinct: std::collections::BTreeSet<&String> = readable.iter().collect();
    if distinct.len() == readable.len() { readable } else { named(&|score| score.entry.label.clone()) }
}
