//! `llm-train reproduce`.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use grpo_lambda::settings::did_you_mean;
use grpo_lambda_decoder::disk::{Disk, DiskError};

use super::engine::EngineArgs;
use super::eval::EvalArgs;
use super::plot::figure_lines;
use super::{Command, Failure, OutputFormat, print, use_threads};
use grpo_lambda_studies::compare::Entrant;
use grpo_lambda_studies::figures;
use grpo_lambda_studies::reproduce::axes::{PaperModel, benchmarks};
use grpo_lambda_studies::reproduce::cost::{self, Assumptions, trained};
use grpo_lambda_studies::reproduce::figure::figure;
use grpo_lambda_studies::reproduce::grid::{Cell, CellFilter, TableSelection, expand};
use grpo_lambda_studies::reproduce::paper::Paper;
use grpo_lambda_studies::reproduce::readiness;
use grpo_lambda_studies::reproduce::report::{self, PlanLine, bytes, markdown, plan, tidy};
use grpo_lambda_studies::reproduce::run::{Grid, TrainedCell, on_stand_ins};
use grpo_lambda_studies::reproduce::scale::{Scale, method_overrides};
use grpo_lambda_studies::reproduce::score::CellScore;
use grpo_lambda_studies::reproduce::table::{TableComparison, averages_table, runs_table};
use grpo_lambda_studies::sweep::SweepError;
use grpo_lambda_trainer::config::Config;
use grpo_lambda_trainer::eval::completion::ResponseOutcome;
use grpo_lambda_trainer::eval::settings::Protocol;
use grpo_lambda_trainer::plan::cards::{Card, cards};
use grpo_lambda_trainer::plan::memory;
use grpo_lambda_trainer::plan::synthetic::SyntheticStepError;
use grpo_lambda_trainer::run::progress::say;

// A paragraph is one line: the terminal's width decides where it breaks.
const AFTER_HELP: &str = "\
Tables 3 to 6 hold the runs of one model each (data set x variant x benchmark); Table 1 averages some of them. The presets paper-* are Table 2, \
with every choice the paper leaves out made and commented.

--dry-run shows the cells, what each takes and how far each is; it needs no weights. --scale tiny runs the same grid on a small embedded model, with \
word problems of several levels in place of the benchmarks: minutes, and a table of the same shape, not of comparable numbers.

--only keeps cells: keys model, dataset, style (recent, both, grpo), update (trace, weight, grpo), lambda; a key given twice allows both values, as in \
--only dataset=gsm8k,style=grpo,style=both.

Stopped at any moment, the same command continues. A cell belongs to the directory, not to a table: a run that Table 1 shares with Table 3 is made once.

Examples:
  llm-train reproduce --table all --dry-run
  llm-train reproduce --table 5 --scale tiny
  llm-train reproduce --table 3 --only dataset=gsm8k,style=grpo,style=recent";

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
    /// The accelerator whose hours are estimated: h100, h200, a100, or cpu; h100 when not given, and cpu at the tiny scale
    #[arg(long, value_name = "NAME")]
    pub gpu: Option<String>,
    /// The share of the accelerator's best that is assumed to be reached, above 0 and up to 1; 0.5 when not given, and 0.3 on cpu
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    pub utilisation: Option<f64>,
    /// Settings over the presets, common to all cells, as in rl.steps=100
    #[arg(value_name = "key=value")]
    pub overrides: Vec<String>,
}

impl Command for ReproduceArgs {
    /// Plans, runs or resumes the cells of a table, and prints it.
    fn run(&self) -> Result<(), Failure> {
        let request = Request::new(self)?;
        let Request { grid, kept, .. } = &request;
        grid.identity().check(&grid.directory)?;
        if self.dry_run {
            return print(&dry(&request, &self.data)?);
        }
        let first = grid.preset(kept[0].model).map_err(Failure::refused)?;
        use_threads(first.threads)?;
        let command = crate::words::words().collect::<Vec<_>>().join(" ");
        announce(&request);
        execute(grid, kept, &command, &self.data)?;
        print(&tables(&request, &command)?)
    }
}

/// The resolved arguments.
struct Request {
    selection: TableSelection,
    grid: Grid,
    /// Every cell of the tables, and those that `--only` keeps; at least one.
    all: Vec<Cell>,
    kept: Vec<Cell>,
    assumptions: Assumptions,
}

impl Request {
    fn new(args: &ReproduceArgs) -> Result<Request, Failure> {
        let selection = TableSelection::parse(&args.table).map_err(Failure::refused)?;
        let scale = match args.scale {
            ScaleArg::Full => Scale::Full,
            ScaleArg::Tiny => Scale::Tiny,
        };
        // A model that two cores train in seconds says nothing on a card.
        let usual = if scale == Scale::Full { "h100" } else { "cpu" };
        let card = card(args.gpu.as_deref().unwrap_or(usual))?;
        let utilisation = args.utilisation.unwrap_or(card.utilisation);
        if !(utilisation > 0.0 && utilisation <= 1.0) {
            return Err(Failure::refused(format!(
                "--utilisation {utilisation}: must be a number above 0 and up to 1"
            )));
        }
        refuse_fixed(&args.overrides)?;
        let all = expand(selection);
        let only = args.only.as_deref().map(|text| CellFilter::parse(text, &all)).transpose();
        let only = only.map_err(Failure::refused)?.unwrap_or_default();
        let kept: Vec<Cell> = all.iter().filter(|cell| only.keeps(cell)).copied().collect();
        if kept.is_empty() {
            let text = args.only.as_deref().unwrap_or_default();
            return Err(Failure::refused(format!("--only {text}: {selection} has no cell with all of that")));
        }
        let directory =
            args.run.clone().unwrap_or_else(|| PathBuf::from(format!("runs/reproduce-{}", scale.name())));
        let grid = Grid { scale, directory, overrides: args.overrides.clone() };
        let assumptions = Assumptions::new(card, utilisation);
        Ok(Request { selection, grid, all, kept, assumptions })
    }
}

fn announce(Request { selection, grid, kept, .. }: &Request) {
    if let Some(line) = grid.scale.legend().first() {
        say(line);
    }
    let (cells, directory) = (cells_in_words(kept.len()), grid.directory.display());
    say(&format!("{selection}: {cells}, in {directory} (the same command resumes)"));
}

/// Trains and evaluates what is left of the cells.
fn execute(grid: &Grid, kept: &[Cell], command: &str, data: &Path) -> Result<(), Failure> {
    match grid.scale {
        Scale::Tiny => grid.run(kept, command, &on_stand_ins)?,
        Scale::Full => {
            readiness::check(grid, kept, data)?;
            grid.run(kept, command, &|trained: TrainedCell<'_>| on_benchmarks(trained, data))?;
        }
    }
    Ok(())
}

/// The tables with what is done of them, also written beside the runs.
fn tables(request: &Request, command: &str) -> Result<String, Failure> {
    let Request { selection, grid, all, .. } = request;
    let status = |cell: &Cell| Ok((*cell, grid.status(cell)?));
    let cells: Vec<_> = all.iter().map(status).collect::<Result<_, SweepError>>()?;
    let mut text: String = grid.scale.legend().iter().map(|line| format!("{line}\n")).collect();
    let paper = Paper::load();
    for number in selection.tables() {
        let layout = match number {
            1 => Some(averages_table(&paper, &cells)),
            n => runs_table(&paper, n, &cells),
        };
        let Some(layout) = layout else { continue };
        text += &format!("\n{}\n", report::text(&layout));
        text += &write(&layout, grid, command).map_err(Failure::broke)?;
    }
    Ok(text)
}

/// Evaluates a trained cell on the paper's five benchmarks, as `llm-train eval --protocol paper` does; its responses and report are kept
/// in the cell's directory.
fn on_benchmarks(trained: TrainedCell<'_>, data: &Path) -> Result<(String, Vec<CellScore>), SweepError> {
    let TrainedCell { cell, checkpoint, directory, .. } = trained;
    let args = EvalArgs {
        model: checkpoint.to_owned(),
        benchmarks: benchmarks().iter().map(|b| b.key.to_owned()).collect(),
        data: data.to_owned(),
        protocol: Protocol::Paper,
        out: Some(directory.join("eval")),
        limit: None,
        with_trained: false,
        skip_bad_rows: false,
        template: Some(cell.model.template.clone()),
        system: None,
        template_args: None,
        shots: None,
        shots_from: None,
        extract: None,
        rules: None,
        samples: 1,
        pass_at: Vec::new(),
        temperature: None,
        top_k: None,
        top_p: None,
        max_new_tokens: None,
        context: None,
        seed: 0,
        batch: None,
        output: OutputFormat::Text,
        threads: 0,
        device: "auto".to_owned(),
        dtype: "auto".to_owned(),
        engine: EngineArgs::default(),
    };
    let failed = |e: Failure| {
        let message = format!("{cell}: evaluation: {}", e.message);
        match e.signal() {
            Some(signal) => SweepError::Stopped { message, signal },
            None if e.code == 2 => SweepError::Refused(message),
            None => SweepError::Broke(message),
        }
    };
    let (summary, _) = super::eval::evaluate(&args).map_err(failed)?;
    let scores = benchmarks().iter().zip(&summary.scores).map(|(b, s)| {
        let [right, wrong, none] =
            [ResponseOutcome::Right, ResponseOutcome::Wrong, ResponseOutcome::NoAnswer]
                .map(|o| s.count(o) as u64);
        let n = right + wrong + none;
        let ungradable = (s.problems as u64).saturating_sub(n);
        CellScore { benchmark: b.name.to_owned(), correct: right, n, ungradable }
    });
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
fn refuse_fixed(overrides: &[String]) -> Result<(), Failure> {
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

fn card(name: &str) -> Result<Card, Failure> {
    let names = cards().map(|card| card.name);
    cards().into_iter().find(|card| card.name == name).ok_or_else(|| {
        let hint = did_you_mean(name, names);
        Failure::refused(format!("--gpu {name}: not known{hint}; must be one of {}", names.join(", ")))
    })
}

/// The plan of the cells, as text: what is needed, what each takes, what its columns are called in `compare`.
fn dry(request: &Request, data: &Path) -> Result<String, SweepError> {
    let Request { selection, grid, kept: cells, assumptions: full, .. } = request;
    let mut lines = Vec::new();
    let mut facts = Vec::new();
    let uncounted = |e: SyntheticStepError| SweepError::Broke(e.to_string());
    for of_model in cells.chunk_by(|a, b| a.model == b.model) {
        let model = of_model[0].model;
        let config = grid.preset(model)?;
        let shape = match grid.scale {
            Scale::Full => model.shape(),
            Scale::Tiny => tiny_shape(&config)?,
        };
        let a = grid.scale.assumptions(full.clone(), &config);
        let found = cost::run(&shape, &config, &a).map_err(uncounted)?;
        let names = [model.name.clone(), "(all)".to_owned(), "supervised".to_owned()];
        let status = grid.supervised(model)?.to_owned();
        lines.push((PlanLine { names, work: found.supervised, status }, a.clone()));
        facts.push(fact(model, &config, &shape, &a, grid.scale));
        let work = found.reinforced + cost::evaluated(&shape, &a).map_err(uncounted)?;
        for cell in of_model {
            let names = [model.name.clone(), cell.dataset.name.clone(), cell.variant.to_string()];
            let status = grid.status(cell)?.name().to_owned();
            lines.push((PlanLine { names, work, status }, a.clone()));
        }
    }
    let what = format!(
        "{selection}, {} on {} in {}; nothing is run",
        cells_in_words(cells.len()),
        if grid.scale == Scale::Full { "the paper's models" } else { "stand-ins" },
        grid.directory.display()
    );
    let legend = grid.scale.legend().join("\n");
    let legend = if legend.is_empty() { legend } else { format!("{legend}\n\n") };
    let needed = readiness::table(&readiness::needs(grid, cells, data)?);
    Ok(format!("{legend}{needed}{}{}\n{}", plan(&lines, &what), facts.join("\n"), names(grid, cells)?))
}

/// The spelling of these cells' columns in `llm-train compare --methods`: one method, one name.
fn names(grid: &Grid, cells: &[Cell]) -> Result<String, SweepError> {
    let mut lines: Vec<String> = Vec::new();
    for cell in cells {
        let preset = grid.preset(cell.model)?;
        let config = preset.with(&method_overrides(cell, &preset))?;
        let line = format!("{} is {} of llm-train compare\n", cell.variant, Entrant::spelling(&config));
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    Ok(lines.concat())
}

/// The shape of the embedded model.
fn tiny_shape(config: &Config) -> Result<grpo_lambda_decoder::model::ModelConfig, SweepError> {
    let tokens = grpo_lambda_trainer::train::tokens(config)?;
    let model = grpo_lambda_trainer::train::initial_model(config, &tokens)
        .map_err(|e| SweepError::Broke(format!("paper-tiny: {e}")))?;
    Ok(model.config().clone())
}

/// A model in a line: parameters, what is trained of them, the memory this trainer takes.
fn fact(
    model: &PaperModel,
    config: &Config,
    shape: &grpo_lambda_decoder::model::ModelConfig,
    a: &Assumptions,
    scale: Scale,
) -> String {
    let step = memory::StepShape::new(config, a.prompt_tokens);
    let lora = config.lora.as_ref();
    let all = trained(shape, None);
    let name = if scale == Scale::Full { model.id.as_str() } else { "the embedded model" };
    let how = match lora {
        None => "all trained".to_owned(),
        Some(l) => format!(
            "{:.3e} trained by LoRA (rank {}, alpha {}, {})",
            trained(shape, lora),
            l.rank,
            l.alpha,
            l.targets.join(", ")
        ),
    };
    let peak = memory::estimate(shape, &step, lora).peak(config.memory.recompute_layers) as f64;
    format!(
        "{}: {name}, {all:.3e} parameters, {how}; this trainer holds {} in f32 (llm-train train --dry-run itemises them)",
        model.name,
        bytes(peak)
    )
}

/// Writes a table beside the runs; the lines that say where.
fn write(layout: &TableComparison, grid: &Grid, command: &str) -> Result<String, DiskError> {
    let directory = grid.directory.join("tables");
    let disk = Disk::default().inside(&grid.directory)?;
    disk.create_directories(&directory)?;
    let name = format!("table{}", layout.number);
    let path = |end: &str| directory.join(format!("{name}.{end}"));
    disk.replace(&path("csv"), tidy(layout, grid.scale.name()).to_csv(command).as_bytes())?;
    disk.replace(&path("md"), markdown(layout, &grid.scale.legend(), command).as_bytes())?;
    let drawn = match figures::save(&disk, &figure(layout, grid.scale), Path::new(&directory), &name) {
        Ok(png) => figure_lines(&[png]),
        Err(e) => format!("no figure: {}\n", e.to_string().replace('\n', "; ")),
    };
    Ok(format!("\ntable        {}\nnumbers      {}\n{drawn}", path("md").display(), path("csv").display()))
}
