//! `llm-train eval`.

mod benchmarks;
mod work;

use std::path::{Path, PathBuf};

use benchmarks::Questions;
use grpo_lambda_gpu::select::{DTYPES, DevicePreference};
use grpo_lambda_grade::{Extraction, Rules};
use work::EvalJob;

use super::asked::Asked;
use super::engine::EngineArgs;
use super::options::{ModelArgs, PromptArgs, TruncationArgs};
use super::plot::figure_line;
use super::{
    Command, Failure, Loaded, OutputFormat, Result, check_temperature, checkpoint, count, json_text, load,
    print, use_threads, whole,
};
use grpo_lambda_stats::visible;
use grpo_lambda_studies::figures;
use grpo_lambda_trainer::eval::benchmark::Benchmark;
use grpo_lambda_trainer::eval::origin::Origin;
use grpo_lambda_trainer::eval::report::{self, ReportBenchmark};
use grpo_lambda_trainer::eval::score::{BenchmarkScores, scores};
use grpo_lambda_trainer::eval::settings::{Protocol, Settings};
use grpo_lambda_trainer::eval::shots::{Shots, ShotsError};
use grpo_lambda_trainer::eval::store::{BenchmarkHeader, EvalDir, StoreError};
use grpo_lambda_trainer::eval::summary::EvalSummary;
use grpo_lambda_trainer::input::data::{DataOptions, OnBadRow};
use grpo_lambda_trainer::input::prompt::Template;
use grpo_lambda_trainer::run::RunError;
use grpo_lambda_trainer::run::model_directory::run_of_best;
use grpo_lambda_trainer::run::progress::say;

// A paragraph is one line: the terminal's width decides where it breaks.
const AFTER_HELP: &str = include_str!("../help/eval.txt").trim_ascii_end();

/// Arguments of `eval`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct EvalArgs {
    #[command(flatten)]
    pub model: ModelArgs,
    /// Names, files or RUN:held-out, separated by commas; when not given, run:held-out for a run on a data set, else tiny:stories (tiny:addition for a run on
    /// it), and the paper's five with --protocol paper
    #[arg(long, value_name = "NAME|FILE,..", value_delimiter = ',')]
    pub benchmarks: Vec<String>,
    /// Directory of benchmark files
    #[arg(long, value_name = "DIR", default_value = "benchmarks")]
    pub data: PathBuf,
    /// Named settings
    #[arg(long, value_enum, default_value_t)]
    pub protocol: Protocol,
    /// The directory of the evaluation; RUN/eval of a run, runs/eval-NAME of another checkpoint. One found there is continued
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// The first so many problems of each benchmark only
    #[arg(long, value_name = "N", value_parser = count, allow_negative_numbers = true)]
    pub limit: Option<usize>,
    /// Ask the problems too that the model was trained on; they are left out when its run is known
    #[arg(long)]
    pub with_trained: bool,
    /// Leave out rows that cannot be used, instead of refusing their file
    #[arg(long)]
    pub skip_bad_rows: bool,
    #[command(flatten)]
    pub prompt: PromptArgs,
    /// Show so many solved problems before each problem (few-shot); needs --shots-from
    #[arg(long, value_name = "K", value_parser = count, allow_negative_numbers = true, requires = "shots_from")]
    pub shots: Option<usize>,
    /// The data set whose first rows with a worked solution are shown; rows that are asked themselves are passed over
    #[arg(long, value_name = "FILE", requires = "shots")]
    pub shots_from: Option<String>,
    /// Place of the answer in a response; when not given, that of the model's run under its template, else the template's
    #[arg(long, value_parser = super::grade::extraction())]
    pub extract: Option<Extraction>,
    /// The rules by which spellings count as the same, as of `llm-train grade`; lenient when not given, strict for the
    /// protocol paper
    #[arg(long, value_name = "RULES", value_parser = |text: &str| Rules::parse(text))]
    pub rules: Option<Rules>,
    /// Responses to each problem
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = count, allow_negative_numbers = true)]
    pub samples: usize,
    /// pass@k for these k, none above --samples; powers of two and --samples when not given
    #[arg(long, value_name = "K,..", value_delimiter = ',', value_parser = count, allow_negative_numbers = true)]
    pub pass_at: Vec<usize>,
    /// Sampling temperature, 0 for the most probable token; 0 for one sample and 1 for several when not given
    #[arg(long, value_name = "T", allow_negative_numbers = true)]
    pub temperature: Option<f64>,
    #[command(flatten)]
    pub truncation: TruncationArgs,
    /// A response is cut off here, or where the context ends; 3000 when not given
    #[arg(long, value_name = "N", value_parser = count, allow_negative_numbers = true)]
    pub max_new_tokens: Option<usize>,
    /// Most tokens of prompt and response, at most the model's; 4096 when not given
    #[arg(long, value_name = "N", value_parser = count, allow_negative_numbers = true)]
    pub context: Option<usize>,
    /// Seed of the sampler
    #[arg(long, default_value_t = 0, value_parser = whole::<u64>, allow_negative_numbers = true)]
    pub seed: u64,
    /// Responses decoded at a time; when one ends, the next takes its slot. When not given 128, or the most that the memory of the card
    /// is counted to hold. Changes no result on the CPU, and on a card its rounding
    #[arg(long, value_name = "N", value_parser = count, allow_negative_numbers = true)]
    pub batch: Option<usize>,
    /// Form of the printed result; the directory gets every file in any case
    #[arg(long, value_enum, default_value_t)]
    pub output: OutputFormat,
    /// Device of the model: auto is a CUDA card where this program was built for one and finds it, else the CPU
    #[arg(long, value_name = "WHERE", default_value = "auto", value_parser = DevicePreference::NAMES)]
    pub device: String,
    /// Numbers of the model on a card: auto is bf16; on the CPU always f32
    #[arg(long, value_name = "TYPE", default_value = "auto", value_parser = DTYPES)]
    pub dtype: String,
    #[command(flatten)]
    pub engine: EngineArgs,
}

impl Command for EvalArgs {
    /// Evaluates.
    fn run(&self) -> Result<()> {
        use_threads(self.model.threads)?;
        let (summary, text) = evaluate(self)?;
        match self.output {
            OutputFormat::Text => print(&visible(&text)),
            OutputFormat::Json => print(&json_text(&summary.json())?),
        }
    }
}

/// The evaluation, in a process that has its threads: the numbers, and their text.
pub(crate) fn evaluate(args: &EvalArgs) -> Result<(EvalSummary, String)> {
    let temperature = temperature(args)?;
    let truncation = args.truncation.checked((temperature == 0.0).then_some("at temperature 0"))?;
    let pass_at = pass_at(args)?;
    let directory = checkpoint(&args.model.model)?;
    let origin = origin(args)?;
    let Questions { benchmarks, origin, remarks } = benchmarks::questions(args, origin, &directory)?;
    let Asked { template, system, args: template_args, from, extraction } =
        asked(args, &benchmarks, origin.as_ref(), &directory)?;
    let (template, shots) = with_shots(args, template, &benchmarks)?;
    let Loaded { model, shape, tokens, numbers, card } =
        load(&directory, (args.device.as_str(), args.dtype.as_str()), &args.engine)?;
    let (max_new_tokens, context) = args.protocol.lengths();
    let longest = shape.max_position_embeddings;
    if let Some(context) = args.context.filter(|context| *context > longest) {
        return Err(Failure::refused(format!(
            "--context {context}: the model's limit is {longest} (max_position_embeddings)"
        )));
    }
    let settings = Settings {
        model: directory.display().to_string(),
        weights: fingerprint(&directory)?,
        template: template.name().to_owned(),
        system,
        template_args,
        shots,
        template_from: from,
        extract: args.extract.unwrap_or(extraction),
        rules: rules(args)?,
        samples: args.samples,
        temperature,
        truncation,
        max_new_tokens: args.max_new_tokens.unwrap_or(max_new_tokens),
        context: args.context.unwrap_or(context).min(longest),
        seed: args.seed,
        numbers,
    };
    let work = EvalJob {
        model: model.as_ref(),
        tokens: &tokens,
        settings: &settings,
        template: &template,
        card: card.map(|(dtype, free)| (&shape, dtype, free)),
        asked: args.batch,
    };
    generate(&work, (&benchmarks, remarks), &pass_at, args)
}

/// The template with the solved examples that are asked for.
fn with_shots(
    args: &EvalArgs,
    template: Template,
    benchmarks: &[Benchmark],
) -> Result<(Template, Option<Shots>)> {
    let (Some(wanted), Some(from)) = (args.shots, &args.shots_from) else { return Ok((template, None)) };
    let shots =
        Shots::open(wanted, from, on_bad_row(args), (&template, benchmarks)).map_err(|e| match e {
            ShotsError::Data(e) => Failure::refused(e.for_options(DataOptions::Rows)),
            other => Failure::refused(other),
        })?;
    let template = template.with_solved(shots.examples.clone()).map_err(Failure::refused)?;
    Ok((template, Some(shots)))
}

/// The treatment of an unusable row.
fn on_bad_row(args: &EvalArgs) -> OnBadRow {
    if args.skip_bad_rows { OnBadRow::Skip } else { OnBadRow::Refuse }
}

/// The rules of the grader; the protocol has its own.
fn rules(args: &EvalArgs) -> Result<Rules> {
    match args.rules {
        Some(rules) if args.protocol == Protocol::Paper && rules != Rules::STRICT => Err(Failure::refused(
            format!("--rules {}: the protocol paper compares answers by the strict rules", rules.spelled()),
        )),
        rules => Ok(rules.unwrap_or(args.protocol.rules())),
    }
}

/// Asks every problem that was not asked before, and reports.
fn generate(
    work: &EvalJob<'_>,
    (benchmarks, remarks): (&[Benchmark], Vec<String>),
    pass_at: &[usize],
    args: &EvalArgs,
) -> Result<(EvalSummary, String)> {
    let asked = benchmarks.iter().map(|b| work.prompts(b)).collect::<Result<Vec<_>, _>>()?;
    let slots = work.slots(asked.iter().flat_map(|(_, prompts)| prompts))?;
    let path = args.out.clone().unwrap_or_else(|| default_directory(&args.model.model));
    announce(work.settings, benchmarks, &path);
    let heads: Vec<BenchmarkHeader> = benchmarks
        .iter()
        .zip(&asked)
        .map(|(b, (problems, _))| BenchmarkHeader::new(&b.name, problems))
        .collect();
    let dir = EvalDir::open(&path, work.settings, &heads).map_err(store_failure)?;
    let mut completions = Vec::new();
    for (benchmark, (problems, prompts)) in benchmarks.iter().zip(&asked) {
        completions.push(work.responses(&dir, benchmark, problems, prompts, slots)?);
    }
    let parts: Vec<ReportBenchmark<'_>> = benchmarks
        .iter()
        .zip(&asked)
        .zip(&completions)
        .map(|((b, (problems, _)), completions)| ReportBenchmark { name: &b.name, problems, completions })
        .collect();
    let untrained = |(b, all): (&Benchmark, &Vec<_>)| {
        b.untrained(all).filter(|own| !own.is_empty()).map(|own| scores(&b.name, &own, &[]))
    };
    let untrained = benchmarks.iter().zip(&completions).map(untrained).collect();
    finish(work.settings, (remarks, untrained), (&parts, pass_at), &dir)
}

/// The run that the model is from. One whose configuration cannot be read does not matter where nothing is taken from it.
fn origin(args: &EvalArgs) -> Result<Option<Origin>> {
    let paper = args.protocol == Protocol::Paper;
    match Origin::find(&args.model.model) {
        Ok(origin) => Ok(origin),
        Err(e) if paper || (args.prompt.template.is_some() && !args.benchmarks.is_empty()) => {
            say(&format!(
                "warning: how the model was trained cannot be read: {}",
                Failure::refused(e).message
            ));
            Ok(None)
        }
        Err(e) => Err(Failure::refused(format!(
            "{e}; it says how the model was trained to be asked: --template and --benchmarks together do without it"
        ))),
    }
}

/// The template of the prompts.
fn asked(
    args: &EvalArgs,
    benchmarks: &[Benchmark],
    origin: Option<&Origin>,
    directory: &Path,
) -> Result<Asked> {
    let of_protocol = args.protocol.template().map(|name| (name, "--protocol paper"));
    let is_chosen = args.prompt.template.is_some() || of_protocol.is_some();
    if is_chosen || benchmarks.iter().any(|b| !b.embedded) {
        let origin = origin.filter(|_| benchmarks.iter().any(|b| !b.embedded));
        return Asked::new(&args.prompt, of_protocol, origin, directory);
    }
    let from = "embedded problems are asked as they stand".to_owned();
    Ok(Asked { from, ..Asked::new(&args.prompt, None, None, directory)? })
}

fn temperature(args: &EvalArgs) -> Result<f64> {
    let temperature = args.temperature.unwrap_or(if args.samples == 1 { 0.0 } else { 1.0 });
    if temperature == 0.0 && args.samples > 1 {
        return Err(Failure::refused(format!(
            "--samples {} --temperature 0: the most probable response is the same every time; give a temperature above 0",
            args.samples
        )));
    }
    if temperature != 0.0 {
        check_temperature(temperature, ", or 0 for the most probable token")?;
    }
    Ok(temperature)
}

/// The k of pass@k, in ascending order.
fn pass_at(args: &EvalArgs) -> Result<Vec<usize>> {
    let n = args.samples;
    if let Some(k) = args.pass_at.iter().find(|k| **k > n) {
        return Err(Failure::refused(format!(
            "--pass-at {k} with --samples {n}: {k} attempts cannot be judged by {n}; must be at most {n}"
        )));
    }
    let mut all: Vec<usize> = match (args.pass_at.is_empty(), n) {
        (false, _) => args.pass_at.clone(),
        (true, 1) => Vec::new(),
        (true, n) => (1..).map(|i| 1usize << i).take_while(|k| *k < n).chain([n]).collect(),
    };
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

/// `RUN/eval` for a run directory, `RUN/eval-best` for its best checkpoint, `runs/eval-NAME` for another checkpoint.
fn default_directory(model: &Path) -> PathBuf {
    if model.join("config.toml").is_file() {
        return model.join("eval");
    }
    if let Some(run) = run_of_best(model) {
        return run.join("eval-best");
    }
    let name = std::path::absolute(model).ok();
    let name = name.as_deref().and_then(Path::file_name).map_or("model".into(), |n| n.to_string_lossy());
    Path::new("runs").join(format!("eval-{name}"))
}

/// Checksum of what decides a response: configuration, tokenizer and weights of a checkpoint.
fn fingerprint(directory: &Path) -> Result<String> {
    let read = |path: &Path| {
        let bytes = std::fs::read(path);
        bytes.map_err(|e| Failure::refused(format!("{}: cannot be read: {e}", path.display())))
    };
    let entries = std::fs::read_dir(directory)
        .map_err(|e| Failure::refused(format!("{}: cannot be read: {e}", directory.display())))?;
    let known = |name: &str| {
        name.ends_with(".safetensors")
            || ["config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"]
                .contains(&name)
    };
    let mut files: Vec<String> = entries
        .flatten()
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .filter(|n| known(n))
        .collect();
    files.sort();
    let mut sum = 0;
    for name in files {
        sum = crc32c::crc32c_append(sum, &read(&directory.join(name))?);
    }
    Ok(format!("{sum:08x}"))
}

fn store_failure(error: StoreError) -> Failure {
    match error {
        StoreError::Disk(e) | StoreError::Run(RunError::Io(e)) if !e.is_refusal() => Failure::broke(e),
        error => Failure::refused(error),
    }
}

fn announce(settings: &Settings, benchmarks: &[Benchmark], path: &Path) {
    let names: Vec<String> =
        benchmarks.iter().map(|b| format!("{} ({} problems)", b.name, b.items.len())).collect();
    let samples = match settings.samples {
        1 => "one response each".to_owned(),
        k => format!("{k} responses each"),
    };
    say(&format!(
        "{} on {}: {samples}, {} ({from}), {}, at most {} new tokens and {} in all; results in {} (the same command resumes)",
        settings.model,
        names.join(", "),
        settings.template_in_words(),
        settings.decoding(),
        settings.max_new_tokens,
        settings.context,
        path.display(),
        from = settings.template_from
    ));
}

/// Writes the numbers and the report; with the table as it is printed.
fn finish(
    settings: &Settings,
    (remarks, untrained): (Vec<String>, Vec<Option<BenchmarkScores>>),
    (parts, pass_at): (&[ReportBenchmark<'_>], &[usize]),
    dir: &EvalDir,
) -> Result<(EvalSummary, String)> {
    let benchmarks: Vec<_> = parts.iter().map(|p| (p.name, p.completions)).collect();
    let summary = EvalSummary { remarks, untrained, ..EvalSummary::new(settings, &benchmarks, pass_at) };
    let json = serde_json::to_string_pretty(&summary.json()).map_err(Failure::broke)?;
    dir.write("summary.json", format!("{json}\n").as_bytes()).map_err(Failure::broke)?;
    let command = crate::words::line();
    dir.write("results.csv", summary.csv(&command).as_bytes()).map_err(Failure::broke)?;
    let page = report::page(&summary, parts).map_err(Failure::broke)?;
    let page = dir.write("report.html", page.as_bytes()).map_err(Failure::broke)?;
    let save = |figure| figures::save(dir.disk(), &figure, &dir.path().join("figures"), "accuracy");
    let figures =
        report::figures::accuracy(&summary).map_or(String::new(), |figure| figure_line(save(figure)));
    let notes: String = summary.notes().iter().map(|note| format!("- {note}\n")).collect();
    let text = format!(
        "{}\n{}\n95 % intervals. Not counted: answers the grader cannot read and prompts too long to ask; among all problems they are wrong.\n{notes}\n\
         report       {}\nresponses    {}/*/completions.jsonl\nall numbers  {}/summary.json\n{figures}",
        summary.finding(),
        summary.table(),
        page.display(),
        dir.path().display(),
        dir.path().display()
    );
    Ok((summary, text))
}
