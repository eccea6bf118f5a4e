//! Figures 3 to 15 of the paper, drawn from what the runs of a grid keep.
//!
//! ```text
//! variants-MODEL   Figure 3 and Appendix D: the accuracy at the end of training, a bar for each variant
//! training-MODEL   Figures 4 to 11: accuracy and KL against steps, by data set
//! lengths-MODEL    Figures 12 to 15: the length of the answers to the benchmarks, GRPO against GRPO-λ
//! ```

use grpo_lambda_figure::{Axis, Figure, Panel};
use grpo_lambda_printed::{Column, UpdateStyle};
use grpo_lambda_stats::{Interval, mean, t_interval};
use grpo_lambda_trainer::config::Config;
use grpo_lambda_trainer::eval::CONFIDENCE_LEVEL;

use super::axes::benchmarks;
use super::grid::Cell;
use super::run::{CellStatus, Grid};
use super::scale::Scale;
use crate::curves::{Curves, half_window, smooth};
use crate::failure::Failure;
use crate::figures::first_and_last_tenth;

/// Curves and lengths that a cell has kept.
struct Kept<'a> {
    cell: &'a Cell,
    curves: Curves,
    /// The length of its answers to each benchmark, once it is done.
    tokens: Option<Vec<[f64; 3]>>,
    /// The series of its lengths: see [`SERIES`].
    series: &'static str,
}

/// The figures of cells that are done or under way, each with its name.
pub fn figures(grid: &Grid, cells: &[(Cell, CellStatus)]) -> Result<Vec<(String, Figure)>, Failure> {
    let mut all = Vec::new();
    for of_model in cells.chunk_by(|a, b| a.0.model == b.0.model) {
        let model = of_model[0].0.model;
        let preset = grid.preset(model)?;
        let mut kept = Vec::new();
        for (cell, status) in of_model {
            let run = grid.directory.join(cell.slug()).join("run");
            if !run.join("metrics.csv").exists() {
                continue;
            }
            let tokens = match status {
                CellStatus::Done(scores) => scores.scores.iter().map(|score| score.tokens).collect(),
                CellStatus::Partial | CellStatus::Missing => None,
            };
            let series = series(cell, &preset.with(&grid.scale.settings(cell, &preset))?);
            kept.push(Kept { cell, curves: Curves::read(&run)?, tokens, series });
        }
        let toy = if grid.scale == Scale::Tiny { "Toy model in place of " } else { "" };
        let drawn =
            [("variants", variants(&kept)), ("training", training(&kept)), ("lengths", lengths(&kept))];
        for (name, mut figure) in drawn.into_iter().filter(|(_, figure)| !figure.panels.is_empty()) {
            figure.title = format!("{toy}{}: {}", model.name, figure.title);
            all.push((format!("{name}-{}", model.slug()), figure));
        }
    }
    Ok(all)
}

/// The cells of each data set, with a number of each that has it.
fn by_dataset<'a, T>(
    kept: &'a [Kept<'a>],
    part: impl Fn(&'a Kept<'a>) -> Option<T>,
) -> Vec<(&'a str, Vec<(Column, T)>)> {
    let with_part = |kept: &'a Kept<'a>| Some((kept.cell.variant, part(kept)?));
    let of_dataset = |cells: &'a [Kept<'a>]| {
        (cells[0].cell.dataset.name.as_str(), cells.iter().filter_map(with_part).collect::<Vec<_>>())
    };
    let all = kept.chunk_by(|a, b| a.cell.dataset == b.cell.dataset).map(of_dataset);
    all.filter(|(_, cells)| !cells.is_empty()).collect()
}

/// The number of each variant next to GRPO's; nothing without GRPO's.
fn against_grpo<T: Copy>(cells: &[(Column, T)]) -> Vec<(T, T)> {
    let grpo = cells.iter().find(|(variant, _)| *variant == Column::GRPO);
    let others = cells.iter().filter(|(variant, _)| *variant != Column::GRPO);
    others.filter_map(|(_, own)| Some((*own, grpo?.1))).collect()
}

/// Counts of the intervals above GRPO's and below it, in words.
fn apart(pairs: &[(Interval, Interval)], [above, below]: [&str; 2]) -> String {
    let higher = pairs.iter().filter(|(own, grpo)| own.low > grpo.high).count();
    let lower = pairs.iter().filter(|(own, grpo)| own.high < grpo.low).count();
    match pairs.len() {
        0 => "not compared, as GRPO or they are not there yet".to_owned(),
        all => {
            format!("{above} in {higher} of {all} comparisons and {below} in {lower} (95 % intervals apart)")
        }
    }
}

/// Steps at the end of training over which the paper averages a bar.
const LAST: usize = 20;

fn variants(kept: &[Kept<'_>]) -> Figure {
    let found = by_dataset(kept, |kept| {
        let steps = kept.curves.points("rl", "accuracy");
        let last: Vec<f64> = steps.iter().rev().take(LAST).map(|point| point.1).collect();
        t_interval(&last, CONFIDENCE_LEVEL)
    });
    let pairs: Vec<_> = found.iter().flat_map(|(_, cells)| against_grpo(cells)).collect();
    let words = apart(&pairs, ["above GRPO", "below it"]);
    let figure = Figure::new(format!("at the end of training the variants of GRPO-λ are {words}"));
    let figure = figure.columns(2).panel_size(640, 320).caption(format!(
        "As the paper's Figure 3 and Appendix D. Bars: share of right responses over the last {LAST} steps of one run; \
         error bars: 95 % (Student) over these steps, not over seeds."
    ));
    found.iter().fold(figure, |figure, (dataset, cells)| {
        let names = cells.iter().map(|(variant, _)| variant.name().replace('/', " "));
        let bars = cells.iter().enumerate().map(|(x, (_, i))| (x as f64, i.low.max(0.0), i.mid, i.high));
        let panel = Panel::new(format!("Trained on {dataset}")).x(Axis::new("").categories(names));
        let panel = panel.y("share of right responses").bars_with_intervals("", bars);
        let grpo = cells.iter().filter(|(variant, _)| *variant == Column::GRPO);
        figure.panel(grpo.fold(panel, |panel, (_, i)| panel.hline(i.mid, GRPO)))
    })
}

fn training(kept: &[Kept<'_>]) -> Figure {
    let curves = |column| {
        by_dataset(kept, move |kept| {
            let variant = kept.cell.variant;
            let is_drawn = variant == Column::GRPO
                || variant.update_style == UpdateStyle::Trace && variant.lam == Some(0.99);
            let points = kept.curves.points("rl", column);
            let (_, end) = first_and_last_tenth(&points)?;
            is_drawn.then_some((points, end))
        })
    };
    let [accuracy, kl] = ["accuracy", "kl"].map(curves);
    let [higher, farther] = [&accuracy, &kl].map(|found| {
        let ends = |(_, cells): &(&str, Vec<(Column, (_, f64))>)| {
            against_grpo(&cells.iter().map(|(variant, (_, end))| (*variant, *end)).collect::<Vec<_>>())
        };
        let pairs: Vec<(f64, f64)> = found.iter().flat_map(ends).collect();
        format!("{} of {}", pairs.iter().filter(|(own, grpo)| own > grpo).count(), pairs.len())
    });
    let mut figure = Figure::new(format!(
        "GRPO-λ ends with the higher accuracy in {higher} curves, with the higher KL in {farther}"
    ));
    figure = figure.columns(accuracy.len()).panel_size(400, 280).names([GRPO]).caption(
        "As the paper's Figures 4 to 11, for ε-trace at λ = 0.99. One run each, so no intervals, and a count of curves is \
         no test. Centred mean of about a twentieth of the steps, 5 at least; ends: means of the last tenth.",
    );
    for (title, unit, found) in [
        ("Accuracy in training", "share of right responses", accuracy),
        ("KL to the reference", "nats per token", kl),
    ] {
        for (dataset, cells) in found {
            let panel = Panel::new(format!("{title}: {dataset}")).x("RL steps done").y(unit);
            figure = figure.panel(cells.iter().fold(panel, |panel, (variant, (points, _))| {
                panel.line(variant.name(), smooth(points, half_window(points.len())))
            }));
        }
    }
    figure
}

const GRPO: &str = "GRPO";
const LONGER: &str = "GRPO-λ, predicted longer";
/// The series of a figure of lengths, which say what the length law of `sim length_bonus` predicts.
const SERIES: [&str; 4] = [GRPO, LONGER, "GRPO-λ, predicted equal", "GRPO-λ, no prediction"];

/// The series of a cell with this configuration.
fn series(cell: &Cell, config: &Config) -> &'static str {
    let (settings, group) = (&config.configured().settings, config.rl.group_size as f64);
    // At the least z-score of a group and below it nothing is clamped, so that the mean advantage is 0: no force.
    let least = -(group - 1.0) / group.sqrt();
    let is_clamped = settings.optional("clamp").is_some_and(|clamp| clamp > least);
    if cell.variant == Column::GRPO {
        return GRPO;
    }
    let lengthens = settings.word("update") == "trace"
        && settings.number("lambda") >= 0.98
        && settings.word("reduction") == "token_mean";
    match (is_clamped, lengthens) {
        (true, true) => LONGER,
        (false, _) => SERIES[2],
        (true, false) => SERIES[3],
    }
}

fn lengths(kept: &[Kept<'_>]) -> Figure {
    let (mut pairs, mut panels) = (Vec::new(), Vec::new());
    for (dataset, cells) in by_dataset(kept, |kept| Some((kept.series, kept.tokens.as_ref()?))) {
        // The mean over the variants of a series, end by end.
        let of_series = |series: &str| {
            let own: Vec<_> =
                cells.iter().filter(|(_, (name, _))| *name == series).map(|(_, (_, t))| t).collect();
            let end = |b: usize, i: usize| mean(&own.iter().map(|tokens| tokens[b][i]).collect::<Vec<_>>());
            let one = |b| {
                Some(Interval { low: end(b, 0)?, mid: end(b, 1)?, high: end(b, 2)?, level: CONFIDENCE_LEVEL })
            };
            (0..benchmarks().len()).map_while(one).collect::<Vec<Interval>>()
        };
        pairs.extend(of_series(LONGER).into_iter().zip(of_series(GRPO)));
        let names = benchmarks().iter().map(|benchmark| benchmark.name.as_str());
        let panel = Panel::new(format!("Trained on {dataset}")).x(Axis::new("benchmark").categories(names));
        let drawn =
            SERIES.iter().map(|series| (series, of_series(series))).filter(|(_, all)| !all.is_empty());
        panels.push(drawn.fold(panel.y("tokens per response"), |panel, (series, all)| {
            panel.intervals(*series, all.iter().enumerate().map(|(x, i)| (x as f64, i.low, i.mid, i.high)))
        }));
    }
    let words = apart(&pairs, ["longer than GRPO's", "shorter"]);
    let figure = Figure::new(format!("the answers that the length law predicts to be longer are {words}"));
    let figure = figure.columns(2).panel_size(520, 320).names(SERIES).caption(
        "As the paper's Figures 12 to 15: mean length of an answer to a benchmark's problem, over the variants. Error bars: \
         95 % (Student) over problems; of several variants as wide as one's. The law (sim length_bonus) gives a sign, not \
         a size: a clamp with ε-trace at λ ≥ 0.98 lengthens under the token mean, GRPO has no force, and of other settings \
         it says nothing.",
    );
    panels.into_iter().fold(figure, Figure::panel)
}
