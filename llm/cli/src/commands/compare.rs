//! `llm-train compare`: methods over seeds, the start and the end of a run, or two evaluations.

use std::path::{Path, PathBuf};

use grpo_lambda_stats::visible;

use super::plot::write_results;
use super::{Command, Failure, OutputFormat, Result, json_text, print, use_threads};
use grpo_lambda_studies::compare::{self, Plan};
use grpo_lambda_studies::paired::{self, report as paired_report};
use grpo_lambda_trainer::config::Config;
use grpo_lambda_trainer::run::progress::say;

// A paragraph is one line: the terminal's width decides where it breaks.
const AFTER_HELP: &str = include_str!("help/compare.txt").trim_ascii_end();

/// Arguments of `compare`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct CompareArgs {
    /// Methods, as in grpo,grpo_lambda:style=both,lambda=0.9; the others are compared with the first
    #[arg(long, value_name = "NAME:key=value,..,NAME")]
    pub methods: Option<String>,
    /// Seeds, from the preset's on [default: the fewest with which sign flips can show every difference at 5 %, 6 for two methods, 7 for three]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub seeds: Option<u64>,
    /// A shipped preset, or a TOML file [default: tiny]
    #[arg(long, value_name = "NAME|FILE")]
    pub preset: Option<String>,
    /// The directory of the comparison; one found there is continued [default: runs/compare]
    #[arg(long, value_name = "DIR")]
    pub run: Option<PathBuf>,
    /// For two evaluations: write paired.json, paired.csv and a figure there
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Form of the printed result; files are written in any case
    #[arg(long, value_enum, default_value_t)]
    pub output: OutputFormat,
    /// Settings over the preset's, common to all runs, as in rl.steps=50; or a run; or two evaluations
    #[arg(value_name = "key=value | RUN | A B")]
    pub words: Vec<String>,
}

const BOTH: &str = "give --methods NAME,NAME for methods over seeds, or RUN for the start and end of a run, or A B \
                    for two evaluations";

impl Command for CompareArgs {
    /// Compares.
    fn run(&self) -> Result<()> {
        match &self.methods {
            Some(methods) => of_methods(self, methods),
            None => of_evaluations(self),
        }
    }
}

/// Two evaluations, problem by problem.
fn of_evaluations(args: &CompareArgs) -> Result<()> {
    let given = [
        ("--seeds", args.seeds.is_some()),
        ("--preset", args.preset.is_some()),
        ("--run", args.run.is_some()),
    ];
    if let Some((name, _)) = given.iter().find(|(_, given)| *given) {
        return Err(Failure::refused(format!("{name} belongs to --methods, which is not given; {BOTH}")));
    }
    if let Some(word) = args.words.iter().find(|word| word.contains('=') && !Path::new(word).exists()) {
        return Err(Failure::refused(format!("{word}: a setting belongs to --methods; {BOTH}")));
    }
    let read = |path: &String| paired::StoredEvaluation::read(Path::new(path)).map_err(Failure::refused);
    let (a, b, moments, step) = match args.words.as_slice() {
        [a, b] => (read(a)?, read(b)?, [String::new(), String::new()], None),
        [run] if Path::new(run).join("config.toml").is_file() => {
            let ([a, b], [_, step]) =
                paired::StoredEvaluation::ends_of_run(Path::new(run)).map_err(Failure::refused)?;
            (a, b, [" (before RL)".to_owned(), format!(" (after RL step {step})")], Some(step))
        }
        [one] => {
            return Err(Failure::refused(format!(
                "{one}: no run directory, which has a config.toml; {BOTH}"
            )));
        }
        words => {
            return Err(Failure::refused(format!("{} directories: must be one or two; {BOTH}", words.len())));
        }
    };
    let pair = paired::pair(&a, &b).map_err(Failure::refused)?;
    let (json, command) = (paired_report::json(&pair), crate::words::line());
    let write = |directory: &PathBuf| {
        let csv = paired_report::csv(&pair, &command);
        write_results(directory, "paired", (&csv, &json, &paired_report::figure(&pair)))
    };
    let written = args.out.as_ref().map(write).transpose()?.unwrap_or_default();
    if args.output == OutputFormat::Json {
        return print(&json_text(&json)?);
    }
    let finding =
        step.map_or_else(|| paired_report::finding(&pair), |step| paired_report::of_run(&pair, step));
    let notes: String =
        paired_report::notes(&pair, paired_report::SIDES).iter().map(|note| format!("- {note}\n")).collect();
    print(&visible(&format!(
        "A {}{}\nB {}{}\n{}\n{}\nPercentage points with 95 % intervals (bootstrap over problems); p of the paired \
         permutation test.\n{notes}{written}",
        pair.paths[0].display(),
        moments[0],
        pair.paths[1].display(),
        moments[1],
        finding,
        paired_report::table(&pair)
    )))
}

/// Methods over seeds.
fn of_methods(args: &CompareArgs, methods: &str) -> Result<()> {
    if let Some(word) = args.words.iter().find(|word| Path::new(word).is_dir()) {
        return Err(Failure::refused(format!("{word} is a directory and --methods is given; {BOTH}")));
    }
    if args.out.is_some() {
        return Err(Failure::refused(
            "--out is for two evaluations (A B); the directory of --methods is --run",
        ));
    }
    let preset = args.preset.as_deref().unwrap_or("tiny");
    let run = args.run.as_deref().unwrap_or(Path::new("runs/compare"));
    let entries = compare::parse_methods(methods).map_err(Failure::refused)?;
    let seeds = args.seeds.unwrap_or_else(|| compare::fewest_seeds(entries.len()));
    if let Some(name) = args.words.iter().find_map(|word| word.strip_prefix("method.name=")) {
        return Err(Failure::refused(format!(
            "method.name={name}: --methods names the methods; add it there, as in --methods {methods},{name}"
        )));
    }
    if let Some(word) = args.words.iter().find(|word| word.starts_with("method.")) {
        return Err(Failure::refused(format!(
            "{word}: in a comparison a setting belongs to one method, as in --methods grpo:{}",
            word.trim_start_matches("method.")
        )));
    }
    let base = Config::resolve(preset, &args.words).map_err(Failure::refused)?;
    let plan = Plan::new(entries, seeds, base)?;
    for entry in &plan.entries {
        let config = plan.base.with(&entry.overrides()).map_err(Failure::refused)?;
        for idle in config.idle() {
            say(&format!("warning: {}: {idle}", entry.label));
        }
    }
    use_threads(plan.base.threads)?;
    announce(&plan, run);
    let command = crate::words::line();
    let outcome = compare::run(&plan, run, &command)?;
    let (csv, json) = (compare::csv(&outcome, &command), compare::json(&outcome));
    let written = write_results(run, "compare", (&csv, &json, &compare::figure(&outcome)))?;
    if args.output == OutputFormat::Json {
        return print(&json_text(&json)?);
    }
    print(&visible(&format!("{}\n{written}", compare::table(&outcome))))
}

fn announce(plan: &Plan, directory: &Path) {
    let names: Vec<&str> = plan.entries.iter().map(|e| e.label.as_str()).collect();
    say(&format!(
        "{} over {} seeds: {} supervised stages of {} steps, then {} RL runs of {} steps; results in {} (the same \
         command resumes)",
        names.join(" against "),
        plan.seeds,
        plan.seeds,
        plan.base.sft.steps,
        plan.seeds * names.len() as u64,
        plan.base.rl.steps,
        directory.display()
    ));
    let unlike = compare::differing(plan);
    if !unlike.is_empty() {
        say(&format!("{}\n{}", compare::DIFFERING, compare::in_words(&unlike, plan)));
    }
}
