//! The curves in a run's `metrics.csv`, and how they are smoothed.

use std::path::{Path, PathBuf};

use grpo_lambda_stats::table::{Cell, Table};
use grpo_lambda_trainer::run::{RunError, read_log};

/// Why a log of a run could not be read.
#[derive(Debug, thiserror::Error)]
pub enum CurvesError {
    #[error("{path}: cannot be read: {source}; a run directory, as llm-train train writes it, has this file")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{path}: {problem}")]
    Content { path: PathBuf, problem: String },
    #[error(transparent)]
    Run(RunError),
}

/// The text of a log in a run directory.
pub(crate) fn log_text(run: &Path, name: &str) -> Result<String, CurvesError> {
    read_log(run, name).map_err(|e| match e {
        RunError::Io(e) => CurvesError::Read { path: e.path, source: e.source },
        e => CurvesError::Run(e),
    })
}

/// Points (steps done, value) of one quantity, in order of steps.
pub type Points = Vec<(f64, f64)>;

/// The rows of `metrics.csv`.
#[derive(Clone, Debug)]
pub struct Curves {
    table: Table,
    step: usize,
    stage: usize,
}

impl Curves {
    /// Reads `metrics.csv` of a run, which may be under way: half a line at its end is left out.
    pub fn read(run: &Path) -> Result<Curves, CurvesError> {
        let path = run.join("metrics.csv");
        let text = log_text(run, "metrics.csv")?;
        Curves::parse(text.as_bytes()).map_err(|problem| CurvesError::Content { path, problem })
    }

    pub(crate) fn parse(bytes: &[u8]) -> Result<Curves, String> {
        let text = std::str::from_utf8(bytes).map_err(|e| format!("not UTF-8 text: {e}"))?;
        let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
        let table = Table::from_csv(whole).map_err(|e| format!("not a table: {e}"))?;
        let column =
            |name| table.column(name).ok_or(format!("no column `{name}`, so not the metrics of a run"));
        let (step, stage) = (column("step")?, column("stage")?);
        for (row, cells) in table.rows.iter().enumerate() {
            for (name, cell) in table.columns.iter().zip(cells) {
                let number = matches!(cell, Cell::Number(_)) || name != "step" && matches!(cell, Cell::Empty);
                // CSV spells NaN and infinities as text.
                let named = matches!(cell, Cell::Text(t) if matches!(t.as_str(), "NaN" | "inf" | "-inf"));
                if name != "stage" && !number && !named {
                    let value = cell.format(6);
                    return Err(format!("row {}: {name} = {value:?}: must be a number", row + 1));
                }
            }
        }
        Ok(Curves { table, step, stage })
    }

    /// A quantity over the steps of a stage (`sft` or `rl`); rows without a value are left out, and so are values that
    /// are not finite.
    ///
    /// The value of a row stands at the number of steps done when its step had ended, so the first is at 1.
    pub fn points(&self, stage: &str, column: &str) -> Points {
        let Some(column) = self.table.column(column) else { return Vec::new() };
        let point = |row: &Vec<Cell>| {
            let here = row[self.stage] == Cell::from(stage);
            here.then(|| Some((row[self.step].number()? + 1.0, row[column].number()?))).flatten()
        };
        self.table.rows.iter().filter_map(point).collect()
    }

    /// Number of recorded steps of a stage.
    pub fn steps(&self, stage: &str) -> usize {
        self.table.rows.iter().filter(|row| row[self.stage] == Cell::from(stage)).count()
    }
}

/// Half the window of the moving average for a curve of `steps` steps. The whole window is a twentieth of the curve, at
/// least 5 and at most 51 steps.
pub fn half_window(steps: usize) -> usize {
    (steps / 20).clamp(5, 51) / 2
}

/// The centred moving average over `2 half + 1` points, or over all points of a shorter curve (an odd number of them).
/// The ends are not extrapolated, so a straight line stays straight.
///
/// ```
/// use grpo_lambda_studies::curves::smooth;
/// assert_eq!(smooth(&[(1.0, 0.0), (2.0, 3.0), (3.0, 0.0), (4.0, 6.0)], 1), [(2.0, 1.0), (3.0, 3.0)]);
/// ```
pub fn smooth(points: &[(f64, f64)], half: usize) -> Points {
    let half = half.min(points.len().saturating_sub(1) / 2);
    let mean = |window: &[(f64, f64)]| window.iter().map(|p| p.1).sum::<f64>() / window.len() as f64;
    points.windows(2 * half + 1).map(|window| (window[half].0, mean(window))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CSV: &str =
        "# llm-train\nstep,stage,loss,reward\n0,sft,2.5,\n1,sft,NaN,\n0,rl,0.1,0.25\n1,rl,0.2,0.5\n2,rl,0.";

    #[test]
    fn a_stage_is_read_by_steps_done_and_half_a_line_is_left_out() {
        let curves = Curves::parse(CSV.as_bytes()).expect("metrics");
        assert_eq!(curves.points("rl", "reward"), [(1.0, 0.25), (2.0, 0.5)]);
        assert_eq!(curves.points("sft", "loss"), [(1.0, 2.5)]);
        assert_eq!(curves.points("sft", "reward"), []);
        assert_eq!(curves.points("rl", "absent"), []);
        assert_eq!((curves.steps("sft"), curves.steps("rl")), (2, 2));
    }

    #[test]
    fn what_is_no_table_of_metrics_is_refused_with_its_place() {
        for (bytes, expected) in [
            (&b"\xff\xfe\n"[..], "not UTF-8 text"),
            (b"hello\nworld\n", "no column `step`"),
            (b"step,stage,loss\n0,rl\n", "not a table"),
            (b"step,stage,loss\n0,rl,1\n1,rl,high\n", "row 2: loss = \"high\": must be a number"),
            (b"step,stage,loss\n,rl,1\n", "row 1: step = \"\": must be a number"),
            (b"", "no column `step`"),
        ] {
            let problem = Curves::parse(bytes).expect_err("refused");
            assert!(problem.contains(expected), "{problem}");
        }
    }

    #[test]
    fn smoothing_keeps_lines_and_averages_noise_away() {
        let line: Points = (0..30).map(|i| (f64::from(i), 2.0 - 0.5 * f64::from(i))).collect();
        assert_eq!(smooth(&line, 4).len(), 30 - 8);
        for (a, b) in smooth(&line, 4).iter().zip(&line[4..]) {
            assert!((a.1 - b.1).abs() < 1e-12 && a.0 == b.0);
        }
        // Alternating ±1: a window of 2 half + 1 leaves 1/(2 half + 1) of it.
        let noise: Points = (0..21).map(|i| (f64::from(i), if i % 2 == 0 { 1.0 } else { -1.0 })).collect();
        assert!((smooth(&noise, 3)[0].1 - 1.0 / 7.0).abs() < 1e-12);
        assert_eq!(smooth(&line[..4], 9), [(1.0, 1.5), (2.0, 1.0)]); // three of four points each
        assert_eq!(smooth(&[], 3), []);
        assert_eq!([10, 100, 400, 5000].map(half_window), [2, 2, 10, 25]);
    }
}
