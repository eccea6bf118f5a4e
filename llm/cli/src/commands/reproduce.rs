//! `llm-train reproduce`.

use std::path::{Path, PathBuf};

use clap::{Args, FromArgMatches, ValueEnum};
use grpo_lambda::settings::did_you_mean;
use grpo_lambda_decoder::disk::{Disk, DiskError};
use grpo_lambda_decoder::model::ModelConfig;

use super::eval::EvalArgs;
use super::plot::figure_line;
use super::{Command, Failure, Result, print, use_threads};
use grpo_lambda_studies::figures::save;
use grpo_lambda_studies::reproduce::axes::{PaperModel, benchmarks};
use grpo_lambda_studies::reproduce::cost::{self, Assumptions, PlanLine, trained};
use grpo_lambda_studies::reproduce::figures;
use grpo_lambda_studies::reproduce::grid::{Cell, CellFilter, Tables};
use grpo_lambda_studies::reproduce::readiness;
use grpo_lambda_studies::reproduce::run::{CellScore, Grid, TrainedCell, on_toy_problems};
use grpo_lambda_studies::reproduce::scale::Scale;
use grpo_lambda_studies::reproduce::table::PaperTable;
use grpo_lambda_trainer::config::Config;
use grpo_lambda_trainer::plan::cards::{Card, cards};
use grpo_lambda_trainer::plan::synthetic::SyntheticStepError;
use grpo_lambda_trainer::run::progress::say;

// A paragraph is one line: the terminal's width decides where it breaks.
const AFTER_HELP: &str = include_str!("help/reproduce.txt").trim_ascii_end();

/// On what a grid runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ScaleArg {
    /// The paper's models and benchmarks
    Full,
    /// A small embedded model and word problems in their place
    Tiny,
}

/// Arguments of `reproduce`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct ReproduceArgs {
    /// A table of the paper: 1, 3, 4, 5, 6, or all for 3 to 6
    #[arg(long, value_name = "N")]
    pub table: String,
    /// Show what there is to do and what it takes, and do nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Only these cells, as in dataset=gsm8k,style=both
    #[arg(long, value_name = "key=value,..")]
    pub only: Option<String>,
    /// On what
    #[arg(long, value_enum, default_value = "full")]
    pub scale: ScaleArg,
    /// The directory of the grid; runs/reproduce-SCALE when not given. One found there is continued
    #[arg(long, value_name = "DIR")]
    pub run: Option<PathBuf>,
    /// Directory of the five benchmarks' files, at full scale: aime24.jsonl and so on, as for llm-train eval --data
    #[arg(long, value_name = "DIR", default_value = "benchmarks")]
    pub data: PathBuf,
    /// The accelerator whose hours are estimated: h100, h200, a100, or cpu; h100 when not given, and cpu at the tiny
    /// scale
    #[arg(long, value_name = "NAME")]
    pub gpu: Option<String>,
    /// The share of the accelerator's best that is assumed to be reached, above 0 and up to 1; 0.5 when not given, and
    /// 0.3 on cpu
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    pub utilisation: Option<f64>,
    /// Settings over the presets, common to all cells, as in rl.steps=100
    #[arg(value_name = "key=value")]
    pub overrides: Vec<String>,
}

impl Command for ReproduceArgs {
    /// Plans, runs or resumes the cells of a table, and prints it.
    fn run(&self) -> Result<()> {
        let request = Request::new(self)?;
        let Request { tables, grid, kept, .. } = &request;
        grid.identity().check(&grid.directory)?;
        if self.dry_run {
            return print(&plan(&request, &self.data)?);
        }
        let first = grid.preset(kept[0].model).map_err(Failure::refused)?;
        use_threads(first.threads)?;
        if let Some(line) = grid.scale.legend().first() {
            say(line);
        }
        let (cells, directory) = (cells_in_words(kept.len()), grid.directory.display());
        say(&format!("{tables}: {cells}, in {directory} (the same command resumes)"));
        let command = crate::words::line();
        match grid.scale {
            Scale::Tiny => grid.run(kept, &command, &on_toy_problems)?,
            Scale::Full => {
                readiness::check(grid, kept, &self.data)?;
                grid.run(kept, &command, &|trained: TrainedCell<'_>| on_benchmarks(trained, &self.data))?;
            }
        }
        print(&filled(&request, &command)?)
    }
}

/// The resolved arguments.
struct Request {
    tables: Tables,
    grid: Grid,
    /// Every cell of the tables, and those that `--only` keeps; at least one.
    all: Vec<Cell>,
    kept: Vec<Cell>,
    assumptions: Assumptions,
}

impl Request {
    fn new(args: &ReproduceArgs) -> Result<Request> {
        let tables = Tables::parse(&args.table).map_err(Failure::refused)?;
        // A model that two cores train in seconds says nothing on a card.
        let (scale, usual) = match args.scale {
            ScaleArg::Full => (Scale::Full, "h100"),
            ScaleArg::Tiny => (Scale::Tiny, "cpu"),
        };
        let card = card(args.gpu.as_deref().unwrap_or(usual))?;
        let utilisation = args.utilisation.unwrap_or(card.utilisation);
        if !(utilisation > 0.0 && utilisation <= 1.0) {
            return Err(Failure::refused(format!(
                "--utilisation {utilisation}: must be a number above 0 and up to 1"
            )));
        }
        refuse_fixed(&args.overrides)?;
        let all = tables.cells();
        let text = args.only.as_deref();
        let only = text.map(|text| CellFilter::parse(text, &all)).transpose();
        let only = only.map_err(Failure::refused)?.unwrap_or_default();
        let kept: Vec<Cell> = all.iter().filter(|cell| only.keeps(cell)).copied().collect();
        if kept.is_empty() {
            let text = text.unwrap_or_default();
            return Err(Failure::refused(format!("--only {text}: {tables} has no cell with all of that")));
        }
        let directory =
            args.run.clone().unwrap_or_else(|| PathBuf::from(format!("runs/reproduce-{}", scale.name())));
        let grid = Grid { scale, directory, overrides: args.overrides.clone() };
        Ok(Request { tables, grid, all, kept, assumptions: Assumptions::new(card, utilisation) })
    }
}

/// The tables with what is done of them and the figures, also written next to the runs.
fn filled(Request { tables, grid, all, .. }: &Request, command: &str) -> Result<String> {
    let done = grid.statuses(all)?;
    let mut text: String = grid.scale.legend().iter().map(|line| format!("{line}\n")).collect();
    for table in tables.numbers().iter().filter_map(|number| PaperTable::new(*number, &done)) {
        let lines = write(&table, grid, command).map_err(Failure::broke)?;
        text += &format!("\n{}\n{lines}", table.text());
    }
    let (disk, directory) =
        (Disk::default().inside(&grid.directory).map_err(Failure::broke)?, grid.directory.join("figures"));
    for (name, figure) in figures::figures(grid, &done)? {
        text += &figure_line(save(&disk, &figure, &directory, &name));
    }
    Ok(text)
}

/// Writes a table next to the runs; the lines that say where.
fn write(table: &PaperTable, grid: &Grid, command: &str) -> Result<String, DiskError> {
    let directory = grid.directory.join("tables");
    let disk = Disk::default().inside(&grid.directory)?;
    disk.create_directories(&directory)?;
    let [page, numbers] = ["md", "csv"].map(|end| directory.join(format!("table{}.{end}", table.number)));
    disk.replace(&numbers, table.csv(grid.scale.name(), command).as_bytes())?;
    disk.replace(&page, table.markdown(&grid.scale.legend(), command).as_bytes())?;
    Ok(format!("\ntable        {}\nnumbers      {}\n", page.display(), numbers.display()))
}

/// Evaluates a trained cell on the paper's five benchmarks, as `llm-train eval --protocol paper` does; its responses
/// and report are kept in the cell's directory.
fn on_benchmarks(trained: TrainedCell<'_>, data: &Path) -> Result<(String, Vec<CellScore>)> {
    let TrainedCell { cell, checkpoint, directory, .. } = trained;
    let keys: Vec<&str> = benchmarks().iter().map(|b| b.key.as_str()).collect();
    let (keys, out) = (keys.join(","), directory.join("eval"));
    // The paper's code asks every problem, those of the cell's training too.
    let words = ["eval", "--protocol", "paper", "--with-trained", "--template", &cell.model.template];
    let words = [&words[..], &["--benchmarks", &keys]].concat();
    let words = words.into_iter().map(Into::into).chain(["--model".into(), checkpoint.into()]);
    let words = words.chain(["--data".into(), data.into(), "--out".into(), out.into_os_string()]);
    let args = EvalArgs::augment_args(clap::Command::new("eval"))
        .try_get_matches_from(words)
        .and_then(|found| EvalArgs::from_arg_matches(&found))
        .map_err(|e| Failure::broke(format!("{cell}: evaluation: {e}")))?;
    let (summary, _) = super::eval::evaluate(&args).map_err(|e| e.within(format!("{cell}: evaluation")))?;
    let scores = summary.scores.iter().zip(&summary.untrained).zip(benchmarks());
    let scores = scores.map(|((all, untrained), b)| CellScore::new(&b.name, all, untrained.as_ref()));
    let settings = &summary.settings;
    let how = format!(
        "{}, {}, at most {} new tokens and {} in all",
        settings.template_in_words(),
        settings.decoding(),
        settings.max_new_tokens,
        settings.context
    );
    Ok((how, scores.collect()))
}

/// Settings that a cell or the grid decides.
fn refuse_fixed(overrides: &[String]) -> Result<()> {
    const CELLS: [&str; 4] = ["method.name", "method.style", "method.update", "method.lambda"];
    for word in overrides {
        let key = word.split('=').next().unwrap_or_default();
        if CELLS.contains(&key) || key.starts_with("task.") {
            return Err(Failure::refused(format!(
                "{word}: every cell of the grid has its own; --only chooses among cells"
            )));
        }
    }
    Ok(())
}

fn cells_in_words(n: usize) -> String {
    if n == 1 { "1 cell".to_owned() } else { format!("{n} cells") }
}

fn card(name: &str) -> Result<Card> {
    let names = cards().map(|card| card.name);
    cards().into_iter().find(|card| card.name == name).ok_or_else(|| {
        let hint = did_you_mean(name, names);
        Failure::refused(format!("--gpu {name}: not known{hint}; must be one of {}", names.join(", ")))
    })
}

/// The plan of the cells: what is needed, and what each takes.
fn plan(request: &Request, data: &Path) -> Result<String> {
    let Request { tables, grid, kept: cells, assumptions: full, .. } = request;
    let (mut lines, mut facts) = (Vec::new(), Vec::new());
    let uncounted = |e: SyntheticStepError| Failure::broke(e.to_string());
    for of_model in cells.chunk_by(|a, b| a.model == b.model) {
        let model = of_model[0].model;
        let config = grid.preset(model)?;
        let shape = match grid.scale {
            Scale::Full => model.shape(),
            Scale::Tiny => tiny_shape(&config)?,
        };
        let a = grid.scale.assumptions(full.clone(), &config);
        let found = cost::run(&shape, &config, &a).map_err(uncounted)?;
        let mut add = |data: &str, variant: String, work: cost::WorkEstimate, status| {
            let names = [model.name.clone(), data.to_owned(), variant];
            lines.push(PlanLine { names, work, hours: work.hours(&a), status });
        };
        add("(all)", "supervised".to_owned(), found.supervised, grid.supervised(model)?);
        let work = found.reinforced + cost::evaluated(&shape, &a).map_err(uncounted)?;
        for cell in of_model {
            add(&cell.dataset.name, cell.variant.name(), work, grid.status(cell)?.name());
        }
        facts.extend(if facts.is_empty() { a.lines() } else { Vec::new() });
        facts.push(fact(model, &config, &shape, grid.scale));
    }
    let on = match grid.scale {
        Scale::Full => "the paper's models",
        Scale::Tiny => "toy models",
    };
    let legend: String = grid.scale.legend().iter().map(|line| format!("{line}\n")).collect();
    let needed = readiness::text(&readiness::needs(grid, cells, data)?);
    let (number, directory) = (cells_in_words(cells.len()), grid.directory.display());
    Ok(format!(
        "{legend}{needed}{tables}, {number} on {on} in {directory}; nothing is run\n{}{}\n",
        cost::plan(&lines, full.card.memory),
        facts.join("\n")
    ))
}

/// The shape of the embedded model.
fn tiny_shape(config: &Config) -> Result<ModelConfig> {
    let tokens = grpo_lambda_trainer::train::tokens(config)?;
    let model = grpo_lambda_trainer::train::initial_model(config, &tokens)
        .map_err(|e| Failure::broke(format!("paper-tiny: {e}")))?;
    Ok(model.config().clone())
}

/// A model in a line: its parameters, and what is trained of them.
fn fact(model: &PaperModel, config: &Config, shape: &ModelConfig, scale: Scale) -> String {
    let lora = config.lora.as_ref();
    let name = match scale {
        Scale::Full => model.id.as_str(),
        Scale::Tiny => "the embedded model",
    };
    let how = lora.map_or("all trained".to_owned(), |l| {
        let (trained, targets) = (trained(shape, lora), l.targets.join(", "));
        format!("{trained:.3e} trained by LoRA (rank {}, alpha {}, {targets})", l.rank, l.alpha)
    });
    let (model, all) = (&model.name, trained(shape, None));
    format!("{model}: {name}, {all:.3e} parameters, {how} (llm-train train --dry-run itemises the memory)")
}
