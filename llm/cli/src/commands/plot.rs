//! `llm-train plot`.

use std::path::{Path, PathBuf};

use grpo_lambda_decoder::disk::Disk;
use grpo_lambda_stats::table::significant;

use super::{Command, Failure, Result, print};
use grpo_lambda_stats::visible;
use grpo_lambda_studies::curves::Points;
use grpo_lambda_studies::figures::{
    self, DrawError, Figure, draw_record, first_and_last_tenth, zero_variance_share,
};
use grpo_lambda_studies::record::RunRecord;
use grpo_lambda_studies::{report, terminal};
use grpo_lambda_trainer::run::RunError;

/// Arguments of `plot`.
#[derive(Clone, Debug, clap::Args)]
pub struct PlotArgs {
    /// A run directory, of a run that is finished or under way; with several, one figure has a line for each
    #[arg(value_name = "RUN", required = true)]
    pub runs: Vec<PathBuf>,
    /// The directory of the figure of several runs
    #[arg(long, value_name = "DIR", default_value = "runs/overlay")]
    pub out: PathBuf,
}

impl Command for PlotArgs {
    /// Draws a run into RUN/figures, writes its report and prints a short table; or draws several into one figure.
    fn run(&self) -> Result<()> {
        let [run] = self.runs.as_slice() else { return self.overlay() };
        let record = RunRecord::read(run).map_err(Failure::refused)?;
        let drawn = draw_record(&record, run).map_err(failure)?;
        let page = report::write(&record, run).map_err(failure)?;
        let figures = figure_lines(&drawn);
        print(&visible(&format!(
            "{}\n{}\n{figures}report       {}\n",
            record.finding(),
            table(&record),
            page.display()
        )))
    }
}

impl PlotArgs {
    fn overlay(&self) -> Result<()> {
        let read = |run: &PathBuf| {
            let record = RunRecord::read(run).map_err(Failure::refused)?;
            Ok((run.display().to_string(), record))
        };
        let runs = self.runs.iter().map(read).collect::<Result<Vec<_>>>()?;
        let disk = Disk::default().inside(&self.out).map_err(Failure::broke)?;
        let drawn = figures::save(&disk, &figures::overlay(&runs), &self.out, "overlay").map_err(failure)?;
        let lines: String =
            runs.iter().map(|(name, record)| format!("{name}: {}\n", record.finding())).collect();
        print(&visible(&format!("{lines}{}", figure_lines(&[drawn]))))
    }
}

/// Broken off if the disk or a figure failed; refused if what is read is not a run's.
fn failure(error: DrawError) -> Failure {
    match &error {
        DrawError::Disk(e) | DrawError::Log(RunError::Io(e)) if !e.is_refusal() => Failure::broke(error),
        DrawError::Figure { .. } => Failure::broke(error),
        _ => Failure::refused(error),
    }
}

/// The lines that name figures.
pub(super) fn figure_lines(drawn: &[PathBuf]) -> String {
    let neighbour = |path: &Path| format!("figure       {} (and .svg)\n", path.display());
    drawn.iter().map(|path| neighbour(path)).collect()
}

/// The line that names a figure, or says why there is none: one that cannot be drawn is no reason to fail what is done.
pub(super) fn figure_line(saved: Result<PathBuf, DrawError>) -> String {
    match saved {
        Ok(path) => figure_lines(&[path]),
        Err(e) => format!("no figure: {}\n", e.to_string().replace('\n', "; ")),
    }
}

/// Writes `NAME.csv`, `NAME.json` and the figure `figures/NAME` into a directory; the lines that name them.
pub(super) fn write_results(
    directory: &Path,
    name: &str,
    (csv, json, figure): (&str, &serde_json::Value, &Figure),
) -> Result<String> {
    let disk = Disk::default().inside(directory).map_err(Failure::broke)?;
    let json = super::json_text(json)?;
    for (end, text) in [("csv", csv), ("json", &json)] {
        disk.replace(&directory.join(format!("{name}.{end}")), text.as_bytes()).map_err(Failure::broke)?;
    }
    let figure = figure_line(figures::save(&disk, figure, &directory.join("figures"), name));
    let dir = directory.display();
    Ok(format!("\nresult       {dir}/{name}.csv\nall numbers  {dir}/{name}.json\n{figure}"))
}

fn table(record: &RunRecord) -> String {
    let mut table = terminal::table(vec!["", "first", "last"]);
    for (at, a) in [("first", record.accuracy.first()), ("last", record.accuracy.last())] {
        let Some(a) = a else { continue };
        let cell = format!("{:.3} ({:.3} to {:.3})", a.value.mid, a.value.low, a.value.high);
        let name = format!("held-out accuracy, step {} (95 %)", a.step);
        let row = if at == "first" { [name, cell, String::new()] } else { [name, String::new(), cell] };
        if at == "first" || record.accuracy.len() > 1 {
            table.add_row(row);
        }
    }
    let mut row = |name: &str, points: Points| {
        if let Some((a, b)) = first_and_last_tenth(&points) {
            table.add_row([format!("{name}, mean of a tenth"), significant(a, 3), significant(b, 3)]);
        }
    };
    row("supervised loss (nats per token)", record.curves.points("sft", "loss"));
    for (name, column) in [
        ("reward", "reward"),
        ("entropy (nats per token)", "entropy"),
        ("KL (nats per token)", "kl"),
        ("gradient norm", "grad_norm"),
        ("length (tokens)", "length"),
        ("share cut off", "truncated"),
    ] {
        // Without a reference model the column of the KL is empty, and there is no row.
        row(name, record.curves.points("rl", column));
    }
    row("share of groups that agree", zero_variance_share(record));
    table.to_string()
}
