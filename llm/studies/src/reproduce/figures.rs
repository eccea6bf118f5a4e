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

use super::axes::{PaperDataset, PaperModel, benchmarks};
use super::grid::Cell;
use super::run::{CellScores, CellStatus, Grid};
use super::scale::Scale;
use crate::curves::{Curves, Points, half_window, smooth};
use crate::figures::first_and_last_tenth;
use crate::sweep::SweepError;

/// What a cell has kept: the curves of its training, and its scores if it is done.
struct Kept<'a> {
    cell: &'a Cell,
    curves: Curves,
    scores: Option<&'a CellScores>,
    force: Force,
}

/// The cells of a model that have begun.
struct OfModel<'a> {
    model: &'static PaperModel,
    scale: Scale,
    cells: Vec<Kept<'a>>,
}

/// The figures of cells that are done or under way, each with its name.
pub fn figures(grid: &Grid, cells: &[(Cell, CellStatus)]) -> Result<Vec<(String, Figure)>, SweepError> {
    let mut all = Vec::new();
    for of_model in cells.chunk_by(|a, b| a.0.model == b.0.model) {
        let (model, scale) = (of_model[0].0.model, grid.scale);
        let preset = grid.preset(model)?;
        let mut kept = OfModel { model, scale, cells: Vec::new() };
        for (cell, status) in of_model {
            let run = grid.directory.join(cell.slug()).join("run");
            if !run.join("metrics.csv").exists() {
                continue;
            }
            let scores = match status {
                CellStatus::Done(scores) => Some(scores),
                CellStatus::Partial | CellStatus::Missing => None,
            };
            let force = Force::of_config(&preset.with(&scale.settings(cell, &preset))?);
            kept.cells.push(Kept { cell, curves: Curves::read(&run)?, scores, force });
        }
        let drawn =
            [("variants", kept.variants()), ("training", kept.training()), ("lengths", kept.lengths())];
        let named =
            |(name, figure): (&str, Option<Figure>)| Some((format!("{name}-{}", model.slug()), figure?));
        all.extend(drawn.into_iter().filter_map(named));
    }
    Ok(all)
}

/// Steps at the end of training over which the paper averages a bar.
const LAST: usize = 20;

impl OfModel<'_> {
    /// The data sets with something to draw, each with its cells.
    fn by_dataset<T>(
        &self,
        part: impl Fn(&Kept<'_>) -> Option<T>,
    ) -> Vec<(&'static PaperDataset, Vec<(Cell, T)>)> {
        let parts = self.cells.iter().filter_map(|kept| Some((*kept.cell, part(kept)?)));
        let mut all: Vec<(&PaperDataset, Vec<(Cell, T)>)> = Vec::new();
        for (cell, part) in parts {
            match all.last_mut().filter(|(dataset, _)| *dataset == cell.dataset) {
                Some((_, cells)) => cells.push((cell, part)),
                None => all.push((cell.dataset, vec![(cell, part)])),
            }
        }
        all
    }

    /// A figure whose title names the model and says whether it is a toy.
    fn figure(&self, finding: &str, caption: String, columns: usize) -> Figure {
        let toy = if self.scale == Scale::Tiny { "Toy model in place of " } else { "" };
        Figure::new(format!("{toy}{}: {finding}", self.model.name)).caption(caption).columns(columns)
    }

    fn variants(&self) -> Option<Figure> {
        let end = |kept: &Kept<'_>| {
            let steps = kept.curves.points("rl", "accuracy");
            let last: Vec<f64> = steps.iter().rev().take(LAST).map(|point| point.1).collect();
            t_interval(&last, CONFIDENCE_LEVEL)
        };
        let found = self.by_dataset(end);
        let pairs: Vec<(Interval, Interval)> =
            found.iter().flat_map(|(_, cells)| against_grpo(cells)).collect();
        let mut figure = self.figure(
            &format!("at the end of training the variants of GRPO-λ are {}", Apart::count(&pairs).in_words("above GRPO", "below it")),
            format!(
                "As the paper's Figure 3 and Appendix D. Bars: share of right responses over the last {LAST} steps of one run; \
                 error bars: 95 % (Student) over these steps, not over seeds."
            ),
            2,
        );
        for (dataset, cells) in &found {
            let names = cells.iter().map(|(cell, _)| cell.variant.name().replace('/', " "));
            let bars = cells.iter().enumerate().map(|(x, (_, i))| (x as f64, i.low.max(0.0), i.mid, i.high));
            let panel = Panel::new(format!("Trained on {}", dataset.name)).x(Axis::new("").categories(names));
            let panel = panel.y("share of right responses").bars_with_intervals("", bars);
            let grpo = cells.iter().find(|(cell, _)| cell.variant == Column::GRPO);
            figure = figure.panel(grpo.into_iter().fold(panel, |panel, (_, i)| panel.hline(i.mid, "GRPO")));
        }
        (!found.is_empty()).then(|| figure.panel_size(560, 320))
    }

    fn training(&self) -> Option<Figure> {
        let is_drawn = |variant: Column| {
            variant == Column::GRPO || variant.update_style == UpdateStyle::Trace && variant.lam == Some(0.99)
        };
        let curves = |column: &'static str| {
            self.by_dataset(move |kept: &Kept<'_>| {
                let points = kept.curves.points("rl", column);
                (is_drawn(kept.cell.variant) && !points.is_empty()).then_some(points)
            })
        };
        let rows = [
            ("Accuracy in training", "share of right responses", curves("accuracy")),
            ("KL to the reference", "nats per token", curves("kl")),
        ];
        let [higher, diverged] = [0, 1].map(|row| {
            let end = |points: &Points| first_and_last_tenth(points).map(|(_, last)| last);
            let ends = rows[row].2.iter().map(|(_, cells)| {
                cells.iter().filter_map(|(cell, points)| Some((*cell, end(points)?))).collect::<Vec<_>>()
            });
            let pairs: Vec<(f64, f64)> = ends.flat_map(|cells| against_grpo(&cells)).collect();
            format!("{} of {}", pairs.iter().filter(|(own, grpo)| own > grpo).count(), pairs.len())
        });
        let columns = rows[0].2.len();
        let mut figure = self.figure(
            &format!("GRPO-λ ends with the higher accuracy in {higher} curves, with the higher KL in {diverged}"),
            "As the paper's Figures 4 to 11, for ε-trace at λ = 0.99. One run each, so no intervals, and a count of curves \
             is no test. Centred mean of about a twentieth of the steps, 5 at least; ends: means of the last tenth."
                .to_owned(),
            columns,
        );
        for (title, unit, found) in rows {
            for (dataset, cells) in found {
                let panel = Panel::new(format!("{title}: {}", dataset.name)).x("RL steps done").y(unit);
                figure = figure.panel(cells.iter().fold(panel, |panel, (cell, points)| {
                    panel.line(cell.variant.name(), smooth(points, half_window(points.len())))
                }));
            }
        }
        (columns > 0).then(|| figure.names(["GRPO"]).panel_size(400, 280))
    }

    fn lengths(&self) -> Option<Figure> {
        let tokens = |kept: &Kept<'_>| {
            let scores = kept.scores?.scores.iter().map(|score| score.tokens);
            Some((kept.series(), scores.collect::<Option<Vec<_>>>()?))
        };
        let found = self.by_dataset(tokens);
        let mut pairs = Vec::new();
        let mut panels = Vec::new();
        for (dataset, cells) in &found {
            let names = benchmarks().iter().map(|benchmark| benchmark.name.as_str());
            let mut panel = Panel::new(format!("Trained on {}", dataset.name))
                .x(Axis::new("benchmark").categories(names))
                .y("tokens per response");
            let mean_of = |series: &str| {
                let of: Vec<_> =
                    cells.iter().filter(|(_, (own, _))| *own == series).map(|(_, (_, t))| t).collect();
                let at = |b: usize, end: usize| mean(&of.iter().map(|t| t[b][end]).collect::<Vec<_>>());
                let one = |b| {
                    Some(Interval {
                        low: at(b, 0)?,
                        mid: at(b, 1)?,
                        high: at(b, 2)?,
                        level: CONFIDENCE_LEVEL,
                    })
                };
                (0..benchmarks().len()).map(one).collect::<Option<Vec<Interval>>>()
            };
            let grpo = mean_of(GRPO);
            for series in SERIES {
                let Some(all) = mean_of(series) else { continue };
                if series == LONGER {
                    pairs.extend(all.iter().copied().zip(grpo.iter().flatten().copied()));
                }
                panel = panel
                    .intervals(series, all.iter().enumerate().map(|(x, i)| (x as f64, i.low, i.mid, i.high)));
            }
            panels.push(panel);
        }
        let figure = self.figure(
            &format!(
                "answers under the variants that the length law predicts to be longer are {}",
                Apart::count(&pairs).in_words("longer than GRPO's", "shorter")
            ),
            "As the paper's Figures 12 to 15: mean length of an answer to a benchmark's problem, over the variants. Error \
             bars: 95 % (Student) over problems; of several variants as wide as one's. The law (sim length_bonus) gives \
             a sign, not a size: a clamp with ε-trace at λ ≥ 0.98 lengthens under the token mean, GRPO has no force, \
             and of other settings it says nothing."
                .to_owned(),
            2,
        );
        let figure = panels.into_iter().fold(figure, Figure::panel);
        (!found.is_empty()).then(|| figure.names(SERIES).panel_size(520, 320))
    }
}

/// The numbers of each variant next to GRPO's on the same data set; nothing without GRPO's.
fn against_grpo<T: Copy>(cells: &[(Cell, T)]) -> Vec<(T, T)> {
    let grpo = cells.iter().find(|(cell, _)| cell.variant == Column::GRPO).map(|(_, own)| *own);
    let others = cells.iter().filter(|(cell, _)| cell.variant != Column::GRPO);
    grpo.map_or(Vec::new(), |grpo| others.map(|(_, own)| (*own, grpo)).collect())
}

/// How often an interval lies above another, and below it.
struct Apart {
    above: usize,
    below: usize,
    all: usize,
}

impl Apart {
    fn count(pairs: &[(Interval, Interval)]) -> Apart {
        let count = |is: fn(&(Interval, Interval)) -> bool| pairs.iter().filter(|pair| is(pair)).count();
        Apart {
            above: count(|(a, b)| a.low > b.high),
            below: count(|(a, b)| a.high < b.low),
            all: pairs.len(),
        }
    }

    fn in_words(&self, above: &str, below: &str) -> String {
        let Apart { above: more, below: less, all } = self;
        match all {
            0 => "not compared, as GRPO or they are not there yet".to_owned(),
            _ => {
                format!("{above} in {more} of {all} comparisons and {below} in {less} (95 % intervals apart)")
            }
        }
    }
}

const GRPO: &str = "GRPO";
const LONGER: &str = "GRPO-λ, predicted longer";
/// The series of a figure of lengths.
const SERIES: [&str; 4] = [GRPO, LONGER, "GRPO-λ, predicted equal", "GRPO-λ, no prediction"];

/// The force on the length of responses, by the length law of `sim length_bonus`.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Force {
    None,
    Longer,
    Undecided,
}

impl Force {
    fn of_config(config: &Config) -> Force {
        let (settings, group) = (&config.configured().settings, config.rl.group_size as f64);
        // At the least z-score of a group and below it nothing is clamped, so that the mean advantage is 0.
        let least = -(group - 1.0) / group.sqrt();
        if settings.optional("clamp").is_none_or(|clamp| clamp <= least) {
            return Force::None;
        }
        let lengthens = config.method == "grpo_lambda"
            && settings.word("update") == "trace"
            && settings.number("lambda") >= 0.98
            && settings.word("reduction") == "token_mean";
        if lengthens { Force::Longer } else { Force::Undecided }
    }
}

impl Kept<'_> {
    fn series(&self) -> &'static str {
        match (self.cell.variant == Column::GRPO, self.force) {
            (true, _) => GRPO,
            (false, Force::Longer) => LONGER,
            (false, Force::None) => SERIES[2],
            (false, Force::Undecided) => SERIES[3],
        }
    }
}
