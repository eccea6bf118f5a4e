//! `llm-train train --dry-run`: what a run would be, before anything of it is done.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use grpo_lambda_decoder::model::{Architecture::Qwen2, ModelConfig as Shape, ModelShape, weights};
use grpo_lambda_gpu::select::ComputeDevice;

use super::memory as itemised;
use super::objective::objective;
use crate::commands::{Failure, Result, gib, quantile};
use grpo_lambda_studies::reproduce::axes::{PaperModel, models};
use grpo_lambda_studies::reproduce::cost::{self, Assumptions};
use grpo_lambda_studies::reproduce::readiness::{self, Need};
use grpo_lambda_trainer::config::{Config, ModelSource};
use grpo_lambda_trainer::eval::power;
use grpo_lambda_trainer::input::task::{Split, TaskSource};
use grpo_lambda_trainer::input::tokens::ModelTokenizer;
use grpo_lambda_trainer::plan::cards::cards;
use grpo_lambda_trainer::plan::memory::{self, StepShape};
use grpo_lambda_trainer::problems::{Problems, Stage};
use grpo_lambda_trainer::run::progress::say;
use grpo_lambda_trainer::run::{Claim, RunDir};
use grpo_lambda_trainer::step::extra_inputs::provided;
use grpo_lambda_trainer::train::{self, Engines, TrainError};

/// The share of discordant problems of two independent models that are right half the time: the largest there is.
const EVEN: f64 = 0.5;

/// Problems whose lengths are looked at.
const LOOKED_AT: u64 = 2000;

/// The plan of a run from a preset, as text.
pub(super) fn plan(
    engines: &dyn Engines,
    config: &Config,
    preset: &str,
    (directory, extends): (&Path, bool),
) -> Result<String> {
    let given = changed(config, preset)?;
    let place = place(config, directory, extends)?;
    config
        .configured()
        .require(&provided(config.configured()))
        .map_err(|e| Failure::refused(TrainError::from(e)))?;
    let head = format!("Nothing was run. {place}\n\n{given}{}", device_line(engines, config));
    let config = &match (train::with_located_model(config), paper_model(config, preset)) {
        (Ok(located), _) => located,
        (Err(_), Some((model, weights))) => return without_weights(config, model, &weights, head),
        (Err(missing), None) => return Err(Failure::refused(missing)),
    };
    let tokens = train::tokens(config).map_err(Failure::refused)?;
    let (shape, files) = shape(config, &tokens)?;
    tokens.check(shape.vocab_size).map_err(Failure::refused)?;
    let problems =
        Problems::open(config, &tokens, shape.max_position_embeddings, &mut say).map_err(Failure::refused)?;
    let held_out = train::check_fit(config, (&problems, &tokens, &shape)).map_err(Failure::refused)?;
    let lengths = Lengths::measure(config, &problems, &tokens)?;
    let mut text = head + &splits(config, &problems)?;
    text += &lengths.lines(config);
    let prompt_tokens = lengths.longest_prompt().max(held_out.longest);
    let decided = &memory::decided(config, &shape, prompt_tokens);
    let step = StepShape { evaluated: held_out.n, ..StepShape::new(decided, prompt_tokens) };
    let mean = |lengths: &[usize]| lengths.iter().sum::<usize>() / lengths.len().max(1);
    let (prompt, solution) = (mean(&lengths.prompts), mean(&lengths.solutions));
    text += &memory_line(decided, &shape, &step);
    text += &hours(config, &shape, [prompt.max(1), (prompt + solution).max(1)])?;
    Ok(format!("{text}\n{}\n{}", objective(config), itemised::section(decided, (&shape, &files), &step)))
}

/// The paper's model that a preset names, with the place of its weights, where nothing is there.
fn paper_model(config: &Config, preset: &str) -> Option<(&'static PaperModel, PathBuf)> {
    let none: [&str; 0] = [];
    let model = models().iter().find(|model| model.preset == preset)?;
    match (Config::resolve(preset, &none).ok()?.model, &config.model) {
        (ModelSource::Checkpoint(own), ModelSource::Checkpoint(path)) if own == *path && !path.exists() => {
            Some((model, own))
        }
        _ => None,
    }
}

/// The plan of a run from a model of the paper whose weights are not here: its published shape, with assumed lengths.
fn without_weights(config: &Config, model: &PaperModel, weights: &Path, mut text: String) -> Result<String> {
    let data = match &config.task {
        TaskSource::Dataset(task) => Some(readiness::of_data(task.data.clone())),
        TaskSource::Embedded(_) => None,
    };
    let needs: Vec<Need> = [readiness::of_weights(model, weights)].into_iter().chain(data).collect();
    let Assumptions { prompt_tokens, demonstration_tokens, .. } = Assumptions::new(cards()[0], 1.0);
    let shape = model.shape();
    let decided = &memory::decided(config, &shape, prompt_tokens);
    let step = StepShape { evaluated: config.eval.n, ..StepShape::new(decided, prompt_tokens) };
    let _ = write!(
        text,
        "\n{}{}lengths      assumed: prompts of {prompt_tokens} tokens, demonstrations of {demonstration_tokens} with theirs\n",
        readiness::text(&needs),
        stages(config, "", config.eval.n)
    );
    text += &memory_line(decided, &shape, &step);
    text += &hours(config, &shape, [prompt_tokens, demonstration_tokens])?;
    let files = format!("not here; the shape is the published one of {}", model.id);
    Ok(format!("{text}\n{}\n{}", objective(config), itemised::section(decided, (&shape, &files), &step)))
}

/// Says where the run would be, or which run it would continue. Refuses a directory that the run would refuse.
fn place(config: &Config, directory: &Path, extends: bool) -> Result<String> {
    let shown = directory.display();
    Ok(match RunDir::claim(directory, config, extends).map_err(Failure::refused)? {
        Claim::Fresh => format!("The run would be in {shown}."),
        Claim::Resumed | Claim::Extended(_) => format!("The run in {shown} would be continued."),
    })
}

/// The settings that differ from the preset's, a line each.
fn changed(config: &Config, preset: &str) -> Result<String> {
    let none: [&str; 0] = [];
    let shipped = Config::resolve_part(preset, &none).map_err(Failure::refused)?;
    let lines: String = shipped
        .differences(config)
        .into_iter()
        // A checkpoint takes the place of all of them.
        .filter(|d| d.new.is_some() || !d.key.starts_with("model."))
        .map(|d| {
            let value = |value: Option<String>| value.unwrap_or_else(|| "none".to_owned());
            format!("             {} = {} (preset: {})\n", d.key, value(d.new), value(d.old))
        })
        .collect();
    if lines.is_empty() {
        return Ok(format!("settings     the preset {preset}, unchanged (--print-config prints it)\n"));
    }
    Ok(format!("settings     those of the preset {preset} (--print-config prints them), but for\n{lines}"))
}

/// A device that this program or machine does not have, for which the run would be refused here.
fn device_line(engines: &dyn Engines, config: &Config) -> String {
    let usable =
        |device: ComputeDevice| engines.check(config, &device).map(|()| device).map_err(TrainError::Config);
    match train::device(config).and_then(usable) {
        Ok(device) => format!("device       {}\n", device.describe()),
        Err(e) => format!(
            "device       {e}; here the run would be refused, and what follows is of the settings alone\n"
        ),
    }
}

/// The shape of the model, and a line on its files, whose weights stay unread.
fn shape(config: &Config, tokens: &ModelTokenizer) -> Result<(Shape, String)> {
    match &config.model {
        ModelSource::Checkpoint(directory) => {
            let shape = Shape::load(directory).map_err(Failure::refused)?;
            let found = weights::inspect(directory, &shape).map_err(Failure::refused)?;
            let dtypes: Vec<&str> = found.dtypes.iter().map(String::as_str).collect();
            let files = format!("{} with {} bytes of {}", found.files, found.bytes, dtypes.join(", "));
            Ok((shape, files))
        }
        ModelSource::Random(s) => {
            let qwen2 = Qwen2.config(ModelShape {
                vocab: tokens.len(),
                hidden: s.hidden,
                layers: s.layers,
                heads: s.heads,
                kv_heads: s.kv_heads,
            });
            Ok((Shape { intermediate_size: s.intermediate, ..qwen2 }, "none: random weights".to_owned()))
        }
    }
}

/// The number of problems in each split.
fn splits(config: &Config, problems: &Problems) -> Result<String> {
    let measured = problems.distinct(Split::Test, config.eval.n).map_err(Failure::refused)?.len();
    let mut text = match problems.sizes() {
        Some([train, validation, test]) => format!(
            "\nrows         {train} for training, {test} held out{}\n",
            if validation > 0 { format!(", {validation} for validation") } else { String::new() }
        ),
        None => "\nproblems     made by the program, as many as there are steps for\n".to_owned(),
    };
    let asked = config.rl.steps * config.rl.prompts_per_step as u64;
    let epochs = problems
        .sizes()
        .filter(|[train, ..]| *train > 0 && asked > 0)
        .map_or(String::new(), |[train, ..]| format!(", {:.2} epochs", asked as f64 / train as f64));
    text += &stages(config, &epochs, measured);
    Ok(text)
}

/// The steps of RL, the evaluations on so many problems, and the template.
fn stages(config: &Config, epochs: &str, measured: usize) -> String {
    let rl = &config.rl;
    let mut text = format!(
        "RL           {} steps of {} problems x {} responses{epochs}\n",
        rl.steps, rl.prompts_per_step, rl.group_size
    );
    let when = match config.eval.every {
        0 => "before and after".to_owned(),
        every => format!("before, after and every {every} steps"),
    };
    let _ = writeln!(
        text,
        "evaluation   {measured} held-out problems, {when}; {}",
        power::of_single(measured as u64, EVEN)
            .sentence("as of two independent models that are right half the time")
    );
    if let TaskSource::Dataset(task) = &config.task {
        let _ = writeln!(text, "template     {}", task.template);
    }
    text
}

/// Lengths of prompts and of solutions as they are imitated, in tokens, sorted.
struct Lengths {
    prompts: Vec<usize>,
    solutions: Vec<usize>,
}

impl Lengths {
    fn measure(config: &Config, problems: &Problems, tokens: &ModelTokenizer) -> Result<Lengths> {
        let rows = problems.sizes().map_or(LOOKED_AT, |[train, ..]| (train as u64).min(LOOKED_AT));
        let mut lengths = Lengths { prompts: Vec::new(), solutions: Vec::new() };
        let stage = if config.rl.steps > 0 { Stage::Rl } else { Stage::Sft };
        for index in 0..rows {
            let problem = problems.problem(stage, index).map_err(Failure::refused)?;
            lengths.prompts.push(problem.encode(tokens).map_err(Failure::refused)?.ids().len());
            let solution = tokens.target(&problem.solution).map_err(Failure::refused)?;
            lengths.solutions.push(solution.ids().len());
        }
        lengths.prompts.sort_unstable();
        lengths.solutions.sort_unstable();
        Ok(lengths)
    }

    fn longest_prompt(&self) -> usize {
        self.prompts.last().copied().unwrap_or(1)
    }

    fn lines(&self, config: &Config) -> String {
        let limit = config.rl.max_new_tokens;
        let shown = |sorted: &[usize]| {
            let [median, most, longest] = [0.5, 0.95, 1.0].map(|q| quantile(sorted, q));
            format!("median {median}, 95 % up to {most}, longest {longest}")
        };
        if self.prompts.is_empty() {
            return String::new();
        }
        let cut = self.solutions.iter().filter(|n| **n > limit).count();
        let verdict = match cut {
            0 => format!("all within rl.max_new_tokens = {limit}"),
            n => format!(
                "warning: {n} of {} exceed rl.max_new_tokens = {limit}, so such a response would be cut off before its answer",
                self.solutions.len()
            ),
        };
        format!(
            "prompts      {} tokens (of {} looked at)\nsolutions    {} tokens; {verdict}\n",
            shown(&self.prompts),
            self.prompts.len(),
            shown(&self.solutions)
        )
    }
}

/// The memory of a step on the CPU, in a line.
fn memory_line(config: &Config, shape: &Shape, step: &StepShape) -> String {
    let estimate = memory::estimate(shape, step, config.lora.as_ref());
    let peak = estimate.peak(config.memory.recompute_layers);
    let there = memory::total_mib().map_or(String::new(), |mib| {
        let verdict = if peak as f64 / f64::from(1 << 20) > mib { "does not fit" } else { "fits" };
        format!("; this machine has {}, so it {verdict}", gib((mib * f64::from(1 << 20)) as u64))
    });
    format!(
        "memory       {} on the CPU in f32 at its peak{there}; the items, and a card's, are below\n",
        gib(peak as u64)
    )
}

/// Hours by a counted step, on two devices: no bound, because the share of a device's best that is reached is assumed.
fn hours(config: &Config, shape: &Shape, lengths: [usize; 2]) -> Result<String> {
    let [prompt_tokens, demonstration_tokens] = lengths;
    let mut found = Vec::new();
    let mut extra_inputs = "";
    for card in cards().into_iter().rev().filter(|card| ["cpu", "h100"].contains(&card.name)) {
        let assumed =
            Assumptions { prompt_tokens, demonstration_tokens, ..Assumptions::new(card, card.utilisation) };
        let run = cost::run(shape, config, &assumed).map_err(Failure::refused)?;
        let hours = (run.supervised + run.reinforced).hours(&assumed);
        found.push(format!(
            "{} on {} at {:.0} % of its best",
            in_words(hours),
            card.about,
            100.0 * card.utilisation
        ));
        extra_inputs = if run.whole { "" } else { " or the method's own extra inputs" };
    }
    Ok(format!(
        "time         about {} (a step counted with every response at its limit; the share of a device's best speed is assumed; without evaluations{extra_inputs})\n",
        found.join("; or ")
    ))
}

/// `3 h`, `12 min`, `40 s`.
fn in_words(hours: f64) -> String {
    let shown = |x: f64, unit: &str| format!("{} {unit}", grpo_lambda_stats::table::significant(x, 2));
    match hours {
        h if h >= 1.0 => shown(h, "h"),
        h if h >= 1.0 / 60.0 => shown(60.0 * h, "min"),
        h if h >= 1.0 / 3600.0 => shown(3600.0 * h, "s"),
        _ => "less than a second".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_said_in_a_unit_that_fits_it() {
        assert_eq!([7.0, 0.2, 0.002, 1e-6].map(in_words), ["7 h", "12 min", "7.2 s", "less than a second"]);
    }

    #[test]
    fn solutions_over_the_completion_limit_are_warned_of() {
        let config = Config::resolve("tiny", &["rl.max_new_tokens=20"]).expect("valid");
        let lengths = Lengths { prompts: vec![5, 9], solutions: vec![10, 21] };
        let text = lengths.lines(&config);
        assert!(text.contains("1 of 2 exceed rl.max_new_tokens = 20"), "{text}");
        assert!(text.contains("median 5, 95 % up to 9, longest 9 tokens (of 2 looked at)"), "{text}");
    }
}
