//! A protocol of methods that branch, complete prefixes or learn a critic, against methods that do not, on addition and
//! on CHAIN: `paper/protocols/branch.toml`.
//!
//! A method has the settings of `llm-train` on both tasks, and what cannot be sampled is refused before any run. What
//! the protocol leaves open is as in the runs of the protocols that it names: on addition the model, the starts, the
//! optimiser and the half cosine over the budget, on CHAIN an optimiser that does not clip and the straight line. The
//! critic's rate does not fall.

mod noise;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use grpo_lambda::group::InputKind;
use grpo_lambda_gpu::select::ComputeDevice;
use grpo_lambda_trainer::config::given::plain;
use grpo_lambda_trainer::config::schedule::ScheduleShape;
use grpo_lambda_trainer::config::{ConfigError, StepStart};
use grpo_lambda_trainer::step::StepSettings;
use grpo_lambda_trainer::train::{Local, Session};
use grpo_lambda_trials::{Method, Study, StudyError, Trial};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::chain::run::{Start, configured};
use super::chain::setup::Setup as Chain;
use super::course::Course;
use super::lab::{Lab, LabError, ProtocolError, Result};
use super::trials::complete;
pub use noise::noise;

/// The part of the protocol that only this program reads.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Setup {
    /// The sampler of the methods that do not take independent responses, in settings of `llm-train`.
    sampling: BTreeMap<String, String>,
    /// Settings `critic.*` of `llm-train`.
    critic: toml::Table,
    chain: OnTask,
    addition: OnTask,
    #[serde(rename = "noise_per_token")]
    _noise_per_token: Vec<toml::Table>,
}

/// The settings of a task.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OnTask {
    /// The protocol next to this one, and its version: on CHAIN it has everything else, on addition the same model and
    /// starts, and settings of the rollout (`rl.*`) alone, which are not taken.
    protocol: PathBuf,
    version: u32,
    /// Tokens of a level of a tree, and of a step that completions value.
    segment: usize,
    step: usize,
    /// The budget and the distance of exams, where they are not those of the other protocol.
    budget: Option<f64>,
    every: Option<u64>,
}

/// The extra inputs that runs here have.
const SAMPLED: [InputKind; 5] =
    [InputKind::Tokens, InputKind::Entropies, InputKind::SamplerLogps, InputKind::Steps, InputKind::Values];

/// A task of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    Addition,
    Chain,
}

impl Task {
    const ALL: [Task; 2] = [Task::Addition, Task::Chain];

    /// Its name in the protocol.
    pub fn name(self) -> &'static str {
        match self {
            Task::Addition => "addition",
            Task::Chain => "chain",
        }
    }

    /// The task of this name.
    pub fn named(name: &str) -> Option<Task> {
        Task::ALL.into_iter().find(|task| task.name() == name)
    }
}

/// The protocol, and what it takes from the others.
struct Branch {
    study: Study<Setup>,
    /// CHAIN's, with the methods, seeds, rates and budget of this one.
    chain: Study<Chain>,
    /// Settings of `llm-train` after those of the protocol.
    overrides: Vec<String>,
}

fn read_study<S: DeserializeOwned>(path: &Path, like: &'static str) -> Result<Study<S>, ProtocolError> {
    let text = ProtocolError::read(path, like)?;
    Study::read(&text).map_err(|source| match source {
        StudyError::Toml(e) => ProtocolError::fields(path, &text, like, &e),
        source @ StudyError::Field { .. } => ProtocolError::Study { path: path.to_owned(), source },
    })
}

/// The parts of a protocol on addition that this one takes. Its program is in the history of the repository.
#[derive(Deserialize)]
struct Addition {
    version: u32,
    settings: Vec<String>,
}

impl Addition {
    fn read(path: &Path) -> Result<Addition, ProtocolError> {
        const LIKE: &str = "systematic.toml";
        let text = ProtocolError::read(path, LIKE)?;
        toml::from_str(&text).map_err(|e| ProtocolError::fields(path, &text, LIKE, &e))
    }
}

/// The error in what a field of the protocol names.
fn within(path: &Path, field: String, source: LabError) -> ProtocolError {
    ProtocolError::Field { path: path.to_owned(), field, source: Box::new(source) }
}

/// Reads the protocols that this one names; CHAIN's.
fn read_others(path: &Path, study: &Study<Setup>) -> Result<Study<Chain>, ProtocolError> {
    let Setup { chain: on_chain, addition: on_addition, sampling, .. } = &study.setup;
    let refused = |field: &str, value: String, why: String| {
        let (path, field) = (path.to_owned(), format!("setup.{field}"));
        Err(ProtocolError::Value { path, field, value, why })
    };
    let named = |own: &OnTask| path.with_file_name(&own.protocol);
    let failed = |task: &str| {
        let field = format!("setup.{task}.protocol");
        move |source: ProtocolError| within(path, field, source.into())
    };
    let chain: Study<Chain> = read_study(&named(on_chain), "chain_6.toml").map_err(failed("chain"))?;
    let addition = Addition::read(&named(on_addition)).map_err(failed("addition"))?;
    for (task, own, found) in
        [("chain", on_chain, chain.version), ("addition", on_addition, addition.version)]
    {
        if own.version != found {
            let why = format!("{} has version {found}; name a file of this version", own.protocol.display());
            return refused(&format!("{task}.version"), own.version.to_string(), why);
        }
    }
    if let Some(word) = addition.settings.iter().find(|word| !word.starts_with("rl.")) {
        let why = format!("has {word}, which no run here takes; name a file whose settings are all rl.*");
        return refused("addition.protocol", on_addition.protocol.display().to_string(), why);
    }
    let names: Vec<&str> = study.methods.iter().map(|method| method.name.as_str()).collect();
    if let Some((name, words)) = sampling.iter().find(|(name, _)| !names.contains(&name.as_str())) {
        let why = format!("no method has this name; use one of {}", names.join(", "));
        return refused(&format!("sampling.{name}"), words.clone(), why);
    }
    Ok(chain)
}

/// Reads the protocol and opens every method on both tasks.
fn read(path: &Path) -> Result<Branch> {
    let study: Study<Setup> = read_study(path, "branch.toml")?;
    let mut chain = read_others(path, &study)?;
    (chain.methods, chain.seeds) = (study.methods.clone(), study.seeds.clone());
    (chain.rates, chain.budget) = (study.rates.clone(), study.budget);
    let branch = Branch { study, chain, overrides: Vec::new() };
    for (task, method) in Task::ALL.into_iter().flat_map(|t| branch.study.methods.iter().map(move |m| (t, m)))
    {
        let refused = |source| within(path, format!("methods: {}", method.name), source);
        branch.session(task, method, 0).map_err(refused)?;
    }
    Ok(branch)
}

/// Runs what is missing of a protocol on a task.
///
/// # Errors
/// [`LabError`] for a protocol that cannot be followed, a file of other results, or a run that fails.
pub fn run(protocol: &Path, task: Task, file: &Path) -> Result<()> {
    let branch = read(protocol)?;
    let words = named("branch", protocol, task, "FILE", branch.study.version);
    branch.go_on(task, (&words, file)).map(drop)
}

/// The command that a file of results names.
fn named(command: &str, protocol: &Path, task: Task, rest: &str, version: u32) -> String {
    let name = protocol.file_name().unwrap_or_default().to_string_lossy();
    format!("{command} paper/protocols/{name} {} {rest} (version {version})", task.name())
}

impl Branch {
    fn go_on(&self, task: Task, to: (&str, &Path)) -> Result<Vec<Trial>> {
        match task {
            Task::Addition => {
                let mut study = self.study.clone();
                study.budget = study.setup.addition.budget.unwrap_or(study.budget);
                let lab = |seed| Lab::of_seed(seed, &self.overrides);
                complete(&study, to, lab, |lab, method, rate| self.add(lab, (method, study.budget), rate))
            }
            Task::Chain => {
                let run = |start: &Start<'_>, method: &Method, rate| {
                    start.run(method, &self.on_chain(start, method)?, rate, |_, _| ())
                };
                complete(&self.chain, to, |seed| Start::new(&self.chain, seed), run)
            }
        }
    }

    /// A run on addition.
    fn add(&self, lab: &Lab, (method, budget): (&Method, f64), rate: f64) -> Result<Trial> {
        let seed = lab.session.config.seed;
        let session = self.session(Task::Addition, method, seed)?;
        let (rl, own) = (&session.config.rl, &self.study.setup.addition);
        let prompts = rl.prompts_per_step as u64;
        let course = Course {
            context: session.context(),
            group: rl.group_size,
            budget,
            every: own.every.unwrap_or(budget as u64),
            shape: rl.schedule,
            warmup: rl.warmup,
            prompts: &|step| Ok(session.prompts(step * prompts..(step + 1) * prompts)?),
            credit: &|_, _| Ok(()),
            exam: &|engine, _| lab.accuracy(engine),
        };
        let (name, start_steps) = (method.name.clone(), session.config.sft.steps);
        let trial = Trial { method: name, rate, seed, start_steps, ..Trial::default() };
        let critic = session.settings.critic.is_some();
        course.run(&mut lab.engine(critic)?, trial, |_, _| ())
    }

    /// The settings of a method's steps on CHAIN: those of the start, with the sampler and the critic of the method.
    fn on_chain(&self, start: &Start<'_>, method: &Method) -> Result<StepSettings> {
        let StepSettings { branching, completions, critic, .. } =
            self.session(Task::Chain, method, start.settings.seed)?.settings;
        Ok(StepSettings { branching, completions, critic, ..start.settings_of(&configured(method)) })
    }

    /// The session of a method in `llm-train`; of CHAIN's, only the sampler and the critic are used.
    fn session(&self, task: Task, method: &Method, seed: u64) -> Result<Session<'static>> {
        let config = Lab::config(seed, [&self.settings(task, method), &self.overrides])?;
        let refused = |why: String| Err(ConfigError::Conflict(why).into());
        if let Some(kind) =
            config.configured().extra_inputs().into_iter().find(|kind| !SAMPLED.contains(kind))
        {
            let (name, input) = (&method.method, kind.name());
            return refused(format!(
                "method = {name}: reads {input}, which no run here has; choose another method"
            ));
        }
        if task == Task::Chain && config.step_start() == Some(StepStart::Line) {
            return refused(
                "rl.step_start = line: values of CHAIN have no line breaks; set rl.step_start=interval"
                    .to_owned(),
            );
        }
        let mut session = Session::open_on(ComputeDevice::Cpu, &Local, &config, true)?.0;
        if let Some(critic) = &mut session.settings.critic {
            (critic.rates.shape, critic.rates.warmup) = (ScheduleShape::Constant, 0);
        }
        Ok(session)
    }

    /// The settings of a method in `llm-train`.
    fn settings(&self, task: Task, method: &Method) -> Vec<String> {
        let Setup { sampling, critic, chain, addition, .. } = &self.study.setup;
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let mut all = vec![format!("method.name={}", method.method)];
        all.extend(words(&method.settings).iter().map(|word| format!("method.{word}")));
        all.extend(sampling.get(&method.name).map(|own| words(own)).unwrap_or_default());
        all.extend(critic.iter().map(|(key, value)| format!("critic.{key}={}", plain(value))));
        let own = match task {
            Task::Addition => addition,
            Task::Chain => {
                let Chain { task, rl, .. } = &self.chain.setup;
                all.push(format!("rl.group_size={}", rl.group));
                all.push(format!("rl.max_new_tokens={}", task.len()));
                chain
            }
        };
        let known = grpo_lambda::methods::parse(&method.method, "");
        let values_steps = known.is_ok_and(|method| method.extra_inputs().contains(&InputKind::Steps));
        all.push(format!("rl.segment={}", if values_steps { own.step } else { own.segment }));
        all
    }
}

#[cfg(test)]
mod tests;
