//! `llm-train train` and `sft`.

mod directory;
mod dry_run;
mod memory;
mod objective;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use directory::default_directory;

use super::plot::figure_lines;
use super::{Command, Failure, Result, print, use_threads};
use grpo_lambda::methods;
use grpo_lambda_engines::WithServer;
use grpo_lambda_stats::hanging;
use grpo_lambda_studies::figures::{DrawError, draw_record};
use grpo_lambda_studies::record::RunRecord;
use grpo_lambda_studies::{report, terminal};
use grpo_lambda_trainer::config::{Config, ConfigError, ModelSource, fields, idle_settings};
use grpo_lambda_trainer::input::task::TaskSource;
use grpo_lambda_trainer::run::progress::say;
use grpo_lambda_trainer::train::{Engines, RunSummary, train, unusual_rates};

/// Arguments of a training run.
#[derive(Clone, Debug, clap::Args)]
pub struct TrainArgs {
    /// A shipped preset, or a TOML file; finetune and finetune-lora are for a checkpoint and data of one's own
    #[arg(long, value_name = "NAME|FILE", default_value = "tiny")]
    pub preset: String,
    /// The run directory; runs/NAME of model and data, or of the preset, when not given. A run found there is continued
    #[arg(long, value_name = "DIR")]
    pub run: Option<PathBuf>,
    /// Say what the run would be (settings, rows, lengths, hours, objective, memory), and do nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Print the resolved settings as a preset, and do nothing
    #[arg(long, conflicts_with = "dry_run")]
    pub print_config: bool,
    /// Give the run found there more steps: rl.steps, or sft.steps of a run without RL, may be larger than they were
    #[arg(long)]
    pub extend: bool,
    /// Settings over the preset's, as in rl.steps=50 method.lambda=0.9
    #[arg(value_name = "key=value")]
    pub overrides: Vec<String>,
}

/// Arguments of supervised learning alone.
#[derive(Clone, Debug, clap::Args)]
pub struct SftArgs {
    #[command(flatten)]
    train: TrainArgs,
}

impl Command for TrainArgs {
    fn run(&self) -> Result<()> {
        trained(self, false)
    }
}

impl Command for SftArgs {
    fn run(&self) -> Result<()> {
        trained(&self.train, true)
    }
}

/// The indentation of a setting's meaning, and the width of a terminal that everyone has.
const INDENT: &str = "          ";
const WIDTH: usize = 80;

/// Every setting with its meaning, and the value that it has under the preset on the command line.
pub(super) fn settings_help() -> String {
    let words: Vec<String> = crate::words::words().collect();
    let after = |(i, word): (usize, &String)| match word.strip_prefix("--preset") {
        Some("") => words.get(i + 1).cloned(),
        Some(rest) => rest.strip_prefix('=').map(str::to_owned),
        None => None,
    };
    let named = words.iter().enumerate().find_map(after);
    let none: [&str; 0] = [];
    let resolved = |preset: &str| Config::resolve_part(preset, &none).ok();
    // A preset that is refused is refused when it is used.
    let preset = named.filter(|name| resolved(name).is_some()).unwrap_or_else(|| "tiny".to_owned());
    let values: BTreeMap<String, String> = resolved(&preset)
        .iter()
        .flat_map(Config::entries)
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    let mut text = format!("Settings, with the values they have under --preset {preset}:\n");
    for field in fields() {
        let value = values.get(field.key).map_or(field.default, String::as_str);
        text += &format!(
            "  {}={value}\n{}\n",
            field.key,
            hanging(INDENT, &format!("{}: {}", field.about, field.kind), WIDTH)
        );
    }
    let methods: Vec<&str> = methods::REGISTRY.iter().map(|m| m.name).collect();
    let method = values.get("method.name").map_or("", String::as_str);
    let methods = format!("the method: {}", methods.join(", "));
    text += &format!("  method.name={method}\n{}\n", hanging(INDENT, &methods, WIDTH));
    text + "  method.KEY=VALUE\n          its settings; --dry-run shows them with their values"
}

fn trained(args: &TrainArgs, supervised_only: bool) -> Result<()> {
    let overrides = overrides(args, supervised_only)?;
    let config = match Config::resolve(&args.preset, &overrides) {
        Err(missing @ ConfigError::Needed { .. }) if args.dry_run || args.print_config => {
            return Err(without_model_or_data(args, &overrides, &missing));
        }
        config => config.map_err(Failure::refused)?,
    };
    let default = || default_directory(&args.preset, &config, &args.overrides, supervised_only);
    let directory = args.run.clone().unwrap_or_else(default);
    if args.print_config {
        return print(&config.to_toml());
    }
    warn(&config, &args.overrides);
    #[cfg(feature = "candle")]
    let engines: &dyn Engines = &grpo_lambda_candle::WithCandle(&WithServer);
    #[cfg(not(feature = "candle"))]
    let engines: &dyn Engines = &WithServer;
    if args.dry_run {
        return print(&dry_run::plan(engines, &config, &args.preset, (&directory, args.extend))?);
    }
    use_threads(config.threads)?;
    explain_choices(&config, &directory, args);
    let command = crate::words::line();
    let place = (&*directory, args.extend);
    let summary = train(engines, &config, place, &command)?;
    // A figure that cannot be drawn is no reason to fail a run that is done.
    let figures = match drawn(&directory) {
        Ok(lines) => lines,
        Err(e) => format!("no figures: {}\n", e.to_string().replace('\n', "; ")),
    };
    print(&(outcome(&summary, &directory, args) + &figures))
}

/// Prints what a preset says before it has a model and data; the refusal of what is missing.
fn without_model_or_data(args: &TrainArgs, overrides: &[String], missing: &ConfigError) -> Failure {
    let shown = |config: Config| match args.print_config {
        true => print(&config.to_toml()),
        false => print(&objective::objective(&config)),
    };
    let part = Config::resolve_part(&args.preset, overrides).map_err(Failure::refused);
    part.and_then(shown).err().unwrap_or_else(|| Failure::refused(missing))
}

/// Draws the run and writes its report; the lines that name them.
fn drawn(directory: &Path) -> Result<String, DrawError> {
    let record = RunRecord::read(directory)?;
    let figures = figure_lines(&draw_record(&record, directory)?);
    Ok(format!("{figures}report       {}\n", report::write(&record, directory)?.display()))
}

/// The settings of the command line; `sft` has no RL.
fn overrides(args: &TrainArgs, supervised_only: bool) -> Result<Vec<String>> {
    let mut overrides = args.overrides.clone();
    if supervised_only {
        if let Some(word) = overrides.iter().find(|word| word.starts_with("rl.steps=")) {
            return Err(Failure::refused(format!(
                "{word}: llm-train sft has no RL steps; leave it out, or use llm-train train"
            )));
        }
        overrides.push("rl.steps=0".into());
    }
    Ok(overrides)
}

/// Settings that have no effect, and rates that no run survives.
fn warn(config: &Config, overrides: &[String]) {
    for idle in config.idle() {
        say(&format!("warning: {}: {idle}", config.method));
    }
    for idle in idle_settings(config, overrides) {
        say(&format!("warning: {idle}"));
    }
    for warning in unusual_rates(config) {
        say(&warning);
    }
}

/// Prints what will be run, and why, before anything long starts.
fn explain_choices(config: &Config, directory: &Path, args: &TrainArgs) {
    let model = match &config.model {
        ModelSource::Checkpoint(path) => format!("the checkpoint {}", path.display()),
        ModelSource::Random(s) => format!("a new model of {} layers and width {}", s.layers, s.hidden),
    };
    let (sft, rl) = (config.sft.steps, config.rl.steps);
    let stages = match (sft, rl) {
        (_, 0) => format!("{sft} supervised steps, no RL"),
        (0, _) => format!("no supervised steps, {rl} RL steps with {}", config.method),
        _ => format!("{sft} supervised steps, then {rl} RL steps with {}", config.method),
    };
    say(&format!(
        "preset {}: {model}; {stages}; seed {}; results in {} (the same command resumes an interrupted run)",
        args.preset,
        config.seed,
        directory.display()
    ));
    if matches!(&config.task, TaskSource::Embedded(task) if !task.holds_out()) {
        say(
            "task.kind=addition has a hundred problems and holds none out: accuracy is on problems that training meets too",
        );
    }
}

fn outcome(s: &RunSummary, directory: &Path, args: &TrainArgs) -> String {
    let mut table = terminal::table(vec!["held-out accuracy", "value", "95 % interval", "n"]);
    let mut row = |name: &str, value: f64, [low, high]: [f64; 2], n: u64| {
        table.add_row([
            name.to_owned(),
            format!("{value:.3}"),
            format!("{low:.3} to {high:.3}"),
            n.to_string(),
        ]);
    };
    let start = if s.steps[0] > 0 { "after supervised learning" } else { "before RL" };
    row(start, s.accuracy_before, s.accuracy_before_interval, s.n_before);
    if s.steps[1] > 0 {
        row(&format!("after {}", s.method), s.accuracy_after, s.accuracy_after_interval, s.n);
    }
    let checkpoint = s.checkpoint.display();
    let compare = if s.steps[1] > 0 { "             llm-train compare RUN\n" } else { "" };
    let diverged = s.diverged.as_ref().map_or(String::new(), |said| format!("warning: {said}\n"));
    format!(
        "{table}\n{diverged}{:.0} s, {} parameters, seed {}\n\nsummary      {dir}/summary.json\nmetrics      {dir}/metrics.csv\n\
         checkpoint   {checkpoint}\n{}{}look further llm-train generate --model {dir} --task {shown}\n             \
         llm-train eval --model {dir}\n{compare}             llm-train export --model {dir} --out MODEL\n             tensorboard --logdir {dir}\n",
        s.seconds,
        s.parameters,
        s.seed,
        best_line(s),
        rl_line(s, directory, args),
        dir = directory.display(),
        shown = s.n.clamp(1, 3),
        compare = compare.replace("RUN", &directory.display().to_string())
    )
}

/// The best checkpoint, where it is another than the last.
fn best_line(s: &RunSummary) -> String {
    s.best.filter(|best| best.accuracy > s.accuracy_after).map_or(String::new(), |best| {
        let path = s.checkpoint.with_file_name(format!("step-{:08}", best.step));
        let accuracy = best.accuracy;
        format!("best         {} (held-out accuracy {accuracy:.3}, too high by chance as the largest of several)\n", path.display())
    })
}

/// The command that begins RL from a run without it.
fn rl_line(s: &RunSummary, directory: &Path, args: &TrainArgs) -> String {
    if s.steps[1] > 0 {
        return String::new();
    }
    let of_start =
        |word: &&String| ["sft.", "model.", "rl.steps="].iter().any(|start| word.starts_with(start));
    let same: String =
        args.overrides.iter().filter(|word| !of_start(word)).map(|word| format!(" {word}")).collect();
    format!(
        "RL from here llm-train train --preset {} --run {}-rl model.checkpoint={} sft.steps=0{same}\n",
        args.preset,
        directory.display(),
        s.checkpoint.display()
    )
}
