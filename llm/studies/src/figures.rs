//! The figures of one run, drawn from what its directory holds.

use std::path::{Path, PathBuf};

use grpo_lambda_decoder::disk::{Disk, DiskError};
pub use grpo_lambda_figure::Figure;
use grpo_lambda_figure::{Axis, Panel};
use grpo_lambda_stats::mean;
use grpo_lambda_stats::table::significant;
use grpo_lambda_trainer::eval::store::StoreError;
use grpo_lambda_trainer::run::RunError;

use crate::curves::{Points, half_window, smooth};
use crate::record::{RecordError, RunRecord};

/// Why the figures of a run could not be drawn.
#[derive(Debug, thiserror::Error)]
pub enum DrawError {
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A run's record of its held-out answers.
    #[error(transparent)]
    Answers(#[from] StoreError),
    /// A log.
    #[error(transparent)]
    Log(#[from] RunError),
    #[error(transparent)]
    Disk(#[from] DiskError),
    #[error("figure {name}: {problem}")]
    Figure { name: String, problem: String },
}

/// Pixels of a PNG per logical pixel.
const PNG_SCALE: f64 = 2.0;

/// Writes `DIR/name.svg` and `DIR/name.png`, each whole or not at all, and returns the path of the PNG.
pub fn save(disk: &Disk, figure: &Figure, directory: &Path, name: &str) -> Result<PathBuf, DrawError> {
    let failed = |e: anyhow::Error| DrawError::Figure { name: name.to_owned(), problem: format!("{e:#}") };
    let (svg, png) = (figure.to_svg().map_err(failed)?, figure.to_png(PNG_SCALE).map_err(failed)?);
    disk.create_directories(directory)?;
    disk.replace(&directory.join(format!("{name}.svg")), svg.as_bytes())?;
    let path = directory.join(format!("{name}.png"));
    disk.replace(&path, &png)?;
    Ok(path)
}

/// The figures of a run, with their names.
pub fn of_record(record: &RunRecord) -> Vec<(&'static str, Figure)> {
    match record.curves.steps("rl") {
        0 => vec![("learning", supervised(record))],
        _ => vec![("learning", learning(record)), ("evidence", evidence(record))],
    }
}

/// Draws a run into its `figures/`; the paths of the PNGs, each with an SVG next to it.
pub fn draw_record(record: &RunRecord, run: &Path) -> Result<Vec<PathBuf>, DrawError> {
    let disk = Disk::default().inside(run)?;
    of_record(record).iter().map(|(name, figure)| save(&disk, figure, &run.join("figures"), name)).collect()
}

const STEPS: &str = "RL steps done";

/// The settings that every caption of a run states.
fn setting(record: &RunRecord) -> String {
    let (rl, sft) = (&record.config.rl, &record.config.sft);
    let before = match sft.steps {
        0 => "RL".to_owned(),
        steps => format!("{steps} supervised steps, then RL"),
    };
    format!(
        "{before} with {} problems × {} responses a step, learning rate {}; seed {}.",
        rl.prompts_per_step,
        rl.group_size,
        significant(rl.lr, 3),
        record.config.seed
    )
}

/// A panel for one metric of the supervised stage.
fn loss_panel(record: &RunRecord, column: &str, title: &str, unit: &str) -> Panel {
    let points = record.curves.points("sft", column);
    let panel = Panel::new(title).x(Axis::new("supervised steps done")).y(unit);
    raw_and_smoothed(panel, ("a step", "smoothed"), &points, half_window(points.len()))
}

/// A run without an RL step: supervised loss and gradient norm.
pub fn supervised(record: &RunRecord) -> Figure {
    let sft = &record.config.sft;
    Figure::new(record.finding())
        .caption(format!(
            "{} examples a step, peak learning rate {}; seed {}. Smoothed: centred mean of {} steps.",
            sft.batch,
            significant(sft.lr, 3),
            record.config.seed,
            2 * half_window(record.curves.steps("sft")) + 1
        ))
        .names(["held-out accuracy", "smoothed", "a step"])
        .panel(loss_panel(record, "loss", "Supervised loss", "nats per token"))
        .panel(loss_panel(record, "grad_norm", "Gradient norm before clipping", "norm"))
}

/// A curve of at most this many steps is drawn with dots; more dots would hide the line.
const DOTS: usize = 80;

/// Draws the raw curve with the smoothed one on top.
fn raw_and_smoothed(panel: Panel, (raw, smoothed): (&str, &str), points: &Points, half: usize) -> Panel {
    let panel = if points.len() > DOTS {
        panel.line(raw, points.iter().copied())
    } else {
        panel.points(raw, points.iter().copied())
    };
    panel.line(smoothed, smooth(points, half))
}

/// Held-out accuracy with its band, and reward, against RL steps.
pub fn learning(record: &RunRecord) -> Figure {
    let reward = record.curves.points("rl", "reward");
    let half = half_window(reward.len());
    let [held_out, raw, smoothed] = ["held-out accuracy", "reward of a step", "reward, smoothed"];
    let accuracy = || record.accuracy.iter().map(|a| (a.step as f64, a.value));
    let axis = || Axis::new(STEPS).range(0.0, done(record));
    let decoding = if record.config.eval.temperature == 0.0 {
        "the most probable tokens".to_owned()
    } else {
        format!("sampling at temperature {}", record.config.eval.temperature)
    };
    let caption = format!(
        "{} Accuracy: {} held-out problems, answered by {decoding}; with their 95 % interval (Wilson). Reward: mean of the sampled responses; \
         smoothed: centred mean of {} steps.",
        setting(record),
        record.n,
        2 * half + 1
    );
    let panel = Panel::new("Held-out accuracy").x(axis()).y("share of problems solved");
    let panel = match record.accuracy.len() {
        1 => panel.intervals(held_out, accuracy().map(|(x, v)| (x, v.low, v.mid, v.high))),
        _ => panel
            .band(held_out, accuracy().map(|(x, v)| (x, v.low, v.high)))
            .line(held_out, accuracy().map(|(x, v)| (x, v.mid)))
            .points(held_out, accuracy().map(|(x, v)| (x, v.mid))),
    };
    let earned = Panel::new("Reward in training").x(axis()).y("mean reward of a batch");
    // Around one value an axis has no scale of its own.
    let earned = match constant(&reward) {
        Some(value) if (0.0..=1.0).contains(&value) => with_y_range(earned, 0.0, 1.0),
        _ => earned,
    };
    Figure::new(record.finding())
        .caption(caption)
        .names([held_out, smoothed, raw])
        .panel(panel)
        .panel(raw_and_smoothed(earned, (raw, smoothed), &reward, half))
}

/// The steps on the axis: those that are done.
fn done(record: &RunRecord) -> f64 {
    record.curves.steps("rl").max(1) as f64
}

/// The one value of a curve that has one.
fn constant(points: &Points) -> Option<f64> {
    let first = points.first()?.1;
    points.iter().all(|p| p.1 == first).then_some(first)
}

/// Mean over the first and over the last tenth of a curve; `None` for no points.
pub fn first_and_last_tenth(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let tenth = (points.len() / 10).max(1);
    let mean_value = |points: &[(f64, f64)]| mean(&points.iter().map(|p| p.1).collect::<Vec<_>>());
    Some((mean_value(points.get(..tenth)?)?, mean_value(&points[points.len() - tenth..])?))
}

/// The share of groups whose rewards all agree, step by step.
pub fn zero_variance_share(record: &RunRecord) -> Points {
    let groups = record.curves.points("rl", "groups");
    let dull = record.curves.points("rl", "zero_variance_groups");
    dull.iter().zip(&groups).filter(|(_, g)| g.1 > 0.0).map(|(d, g)| (d.0, d.1 / g.1)).collect()
}

/// Training diagnostics, a panel for each that varies; the caption names the others.
pub fn evidence(record: &RunRecord) -> Figure {
    let rl = |column| record.curves.points("rl", column);
    let axis = || Axis::new(STEPS).range(0.0, done(record));
    let half = half_window(record.curves.steps("rl"));
    let names = ("a step", "smoothed");
    let (low, high) = (rl("clip_fraction_low"), rl("clip_fraction_high"));
    let quantities = [
        ("Entropy of the policy", "nats per token", rl("entropy")),
        ("KL to the reference", "nats per token", rl("kl")),
        ("Gradient norm before clipping", "norm", rl("grad_norm")),
        ("Groups that agree", SHARE_OF_GROUPS, zero_variance_share(record)),
        ("Length of a response", "tokens", rl("length")),
        ("Responses cut off", SHARE_OF_RESPONSES, rl("truncated")),
        ("Largest ratio of a token", "π / π_old, or its inverse", rl("ratio_max")),
    ];
    let mut figure = Figure::new(evidence_finding(record)).columns(3).panel_size(360, 250).names([
        "held-out accuracy",
        "smoothed",
        "a step",
        "clipped below",
        "clipped above",
    ]);
    let mut flat = Vec::new();
    let of_critic = [
        ("Loss of the critic", "half the squared error of a value", rl("value_loss")),
        ("Explained by the critic", "share of the variance of returns", rl("explained_variance")),
    ];
    let of_critic = of_critic.into_iter().filter(|_| record.config.has_critic());
    for (title, unit, points) in quantities.into_iter().chain(of_critic) {
        match (points.is_empty(), constant(&points)) {
            (true, _) => flat.push(format!("{title}: not computed")),
            (false, Some(value)) if points.len() > 1 => {
                flat.push(format!("{title}: {}", significant(value, 3)))
            }
            _ => {
                let panel = Panel::new(title).x(axis()).y(unit);
                let is_share = [SHARE_OF_GROUPS, SHARE_OF_RESPONSES].contains(&unit);
                let panel = if is_share { with_y_range(panel, -0.02, 1.02) } else { panel };
                figure = figure.panel(raw_and_smoothed(panel, names, &points, half));
            }
        }
    }
    if low.iter().chain(&high).any(|p| p.1 > 0.0) {
        let clipped = Panel::new("Clipped tokens").x(axis()).y("share of tokens");
        let clipped = clipped.line("clipped below", smooth(&low, half));
        figure = figure.panel(clipped.line("clipped above", smooth(&high, half)));
    } else {
        flat.push("Clipped tokens: none".to_owned());
    }
    if record.curves.steps("sft") > 0 {
        figure = figure.panel(loss_panel(record, "loss", "Supervised loss", "nats per token"));
    }
    let flat = if flat.is_empty() { String::new() } else { format!(" At every step: {}.", flat.join("; ")) };
    figure.caption(format!(
        "{} Smoothed: centred mean of about a twentieth of a stage's steps, 5 at least. A group agrees where its rewards are equal: under a \
         baseline of the group its advantages are then 0.{flat}",
        setting(record)
    ))
}

const SHARE_OF_GROUPS: &str = "share of groups";
const SHARE_OF_RESPONSES: &str = "share of responses";

/// Several runs, a line for each.
pub fn overlay(runs: &[(String, RunRecord)]) -> Figure {
    let last = runs.iter().map(|(_, record)| done(record)).fold(1.0, f64::max);
    let panel = |title: &str, unit: &str| Panel::new(title).x(Axis::new(STEPS).range(0.0, last)).y(unit);
    let mut accuracy = panel("Held-out accuracy", "share of problems solved");
    for (name, record) in runs {
        let points = || record.accuracy.iter().map(|a| (a.step as f64, a.value));
        accuracy = accuracy
            .band(name, points().map(|(x, v)| (x, v.low, v.high)))
            .line(name, points().map(|(x, v)| (x, v.mid)))
            .points(name, points().map(|(x, v)| (x, v.mid)));
    }
    let quantities = [
        ("Reward in training", "mean reward of a batch", "reward"),
        ("Entropy of the policy", "nats per token", "entropy"),
        ("Length of a response", "tokens", "length"),
        ("Gradient norm before clipping", "norm", "grad_norm"),
        ("KL to the reference", "nats per token", "kl"),
    ];
    let mut figure = Figure::new(overlay_finding(runs)).columns(3).panel_size(360, 250).panel(accuracy);
    for (title, unit, column) in quantities {
        let curves: Vec<_> =
            runs.iter().map(|(name, record)| (name, record.curves.points("rl", column))).collect();
        if curves.iter().all(|(_, points)| constant(points).is_some() || points.is_empty()) {
            continue;
        }
        let drawn = curves.iter().fold(panel(title, unit), |panel, (name, points)| {
            let half = half_window(points.len());
            // Few steps are drawn as they are.
            let half = if points.len() > 4 * half { half } else { 0 };
            panel.line(name.as_str(), smooth(points, half))
        });
        figure = figure.panel(drawn);
    }
    figure.names(runs.iter().map(|(name, _)| name.as_str())).caption(
        "Bands: 95 % intervals (Wilson) over held-out problems. Other curves: centred mean of about a twentieth of \
         the steps, 5 at least.",
    )
}

/// Why the ends of these runs are no comparison: they are not all there, or not of the same problems.
fn incomparable(runs: &[(String, RunRecord)]) -> Option<String> {
    // The seed decides which problems are held out; how often they are asked changes no answer.
    let decides = |key: &str| {
        key == "seed" || key.starts_with("task.") || key.starts_with("eval.") && key != "eval.every"
    };
    let (_, first) = runs.first()?;
    runs.iter().find_map(|(name, record)| {
        if !record.finished {
            return Some(format!("{name} is under way"));
        }
        if record.accuracy.is_empty() {
            return Some(format!("{name} has no held-out accuracy"));
        }
        let differences = first.config.differences(&record.config);
        let found = differences.into_iter().find(|d| d.affects_result && decides(&d.key))?;
        Some(format!("they differ in {}", found.key))
    })
}

/// The run that ended highest, as far as the intervals tell; of runs that are no comparison their number.
fn overlay_finding(runs: &[(String, RunRecord)]) -> String {
    if let Some(reason) = incomparable(runs) {
        return format!("{} runs, not compared: {reason}", runs.len());
    }
    let last = |(name, record): &(String, RunRecord)| Some((name.clone(), record.accuracy.last()?.value));
    let mut ends: Vec<(String, grpo_lambda_stats::Interval)> = runs.iter().filter_map(last).collect();
    ends.sort_by(|a, b| b.1.mid.total_cmp(&a.1.mid));
    match ends.as_slice() {
        [best, second, ..] if best.1.low > second.1.high => {
            format!(
                "{} ends highest: held-out accuracy {:.3}, the next {:.3}",
                best.0, best.1.mid, second.1.mid
            )
        }
        [best, .., worst] => format!(
            "{} runs: none ends above the others\u{2019} intervals (held-out accuracy {:.3} to {:.3})",
            runs.len(),
            worst.1.mid,
            best.1.mid
        ),
        _ => format!("{} runs", runs.len()),
    }
}

fn with_y_range(mut panel: Panel, low: f64, high: f64) -> Panel {
    panel.y = panel.y.range(low, high);
    panel
}

fn evidence_finding(record: &RunRecord) -> String {
    let change = |name: &str, column: &str, unit: &str| {
        let (a, b) = first_and_last_tenth(&record.curves.points("rl", column))?;
        Some(format!("{name} {} → {}{unit}", significant(a, 3), significant(b, 3)))
    };
    let parts: Vec<String> = [
        change("entropy", "entropy", " nats"),
        change("length", "length", " tokens"),
        first_and_last_tenth(&zero_variance_share(record))
            .map(|(a, b)| format!("groups that agree {:.0} → {:.0} %", 100.0 * a, 100.0 * b)),
    ]
    .into_iter()
    .flatten()
    .collect();
    format!("{}: {}", record.title, parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curves::Curves;
    use crate::record::Accuracy;
    use crate::significance::Significance;
    use grpo_lambda_stats::Interval;
    use grpo_lambda_trainer::config::Config;

    #[test]
    fn runs_are_ranked_only_by_answers_to_the_same_problems() {
        let run = |accuracy: f64, settings: &[&str]| {
            let value = Interval { low: accuracy - 0.1, mid: accuracy, high: accuracy + 0.1, level: 0.95 };
            let record = RunRecord {
                config: Config::resolve("tiny", settings).expect("valid"),
                title: "GRPO",
                curves: Curves::parse(b"step,stage\n0,rl\n").expect("metrics"),
                accuracy: vec![Accuracy { step: 1, value }],
                n: 100,
                change: Significance::NotShown,
                finished: true,
            };
            (settings.join(" "), record)
        };
        let neighbour = |(name, record)| overlay_finding(&[run(0.2, &["rl.lr=1e-3"]), (name, record)]);
        assert_eq!(
            neighbour(run(0.8, &["rl.lr=1e-4", "eval.every=7"])),
            "rl.lr=1e-4 eval.every=7 ends highest: held-out accuracy 0.800, the next 0.200"
        );
        for (settings, key) in
            [("seed=1", "seed"), ("task.kind=addition", "task.kind"), ("eval.n=50", "eval.n")]
        {
            assert_eq!(
                neighbour(run(0.8, &[settings])),
                format!("2 runs, not compared: they differ in {key}")
            );
        }
        let (name, record) = run(0.8, &[]);
        let under_way = RunRecord { finished: false, ..record.clone() };
        assert_eq!(neighbour((name.clone(), under_way)), "2 runs, not compared:  is under way");
        let ungraded = RunRecord { accuracy: Vec::new(), ..record };
        assert_eq!(neighbour((name, ungraded)), "2 runs, not compared:  has no held-out accuracy");
    }

    #[test]
    fn the_ends_of_a_curve_are_tenths_of_it() {
        let line: Points = (0..40).map(|i| (f64::from(i), f64::from(i))).collect();
        assert_eq!(first_and_last_tenth(&line), Some((1.5, 37.5)));
        assert_eq!(first_and_last_tenth(&line[..3]), Some((0.0, 2.0)));
        assert_eq!(first_and_last_tenth(&[]), None);
    }
}
