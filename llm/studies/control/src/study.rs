//! A protocol of `paper/protocols` on the tasks of `llm-train`: the runs of its arms, seeds and rates, each a row.
//!
//! The protocol names the columns, the first of which say whose a row is. Where it has selection seeds, every arm is
//! tried at each rate on them, and the evaluation seeds run at the rate that they choose.

use std::path::Path;

use grpo_lambda::group::InputKind;
use grpo_lambda::methods::Configured;
use grpo_lambda_stats::table::Cell;
use grpo_lambda_trainer::config::TREE_METHODS;
use grpo_lambda_trainer::run::progress::say;
use grpo_lambda_trainer::step::StepSettings;
use grpo_lambda_trainer::step::critic::CriticSettings;
use serde::Deserialize;

use super::arm::{Arm, MOST_RANDOM_REWARDS};
use super::exam::{self, Exam, length, mean};
use super::fill::{Job, fill};
use super::force::{Force, Weighing, force};
use super::lab::{Lab, LabError, Optimiser, ProtocolError, StepRecord};
use super::store::{Cells, Results};
use super::variance::{self, Variances};

/// The protocol: everything that decides what is run and what it says.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Protocol {
    pub(super) version: u32,
    #[serde(rename = "status")]
    _status: String,
    /// After those of the experiments on addition.
    settings: Vec<String>,
    /// After those: of the command.
    #[serde(skip)]
    overrides: Vec<String>,
    #[serde(default)]
    rates: Vec<f64>,
    #[serde(default)]
    selection: Vec<u64>,
    pub(super) evaluation: Vec<u64>,
    #[serde(default)]
    measure: Measure,
    /// The difference within which two arms count as equal, and the confidence level of a comparison with the first:
    /// read by the claim.
    #[serde(rename = "margin")]
    _margin: Option<f64>,
    #[serde(rename = "level")]
    _level: Option<f64>,
    #[serde(default = "common_columns")]
    columns: Vec<String>,
    /// The number of columns that say whose a row is.
    #[serde(default = "common_keys")]
    keys: usize,
    /// Variances of gradients are measured in place of runs.
    variance: Option<Variances>,
    #[serde(deserialize_with = "arms")]
    pub(super) arms: Vec<Arm>,
    #[serde(rename = "endpoint")]
    _endpoint: toml::Table,
}

/// The number of a run that decides.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Measure {
    /// Mean reward of a token that is sampled in training.
    #[default]
    Learning,
    /// Share of all problems that the final weights solve greedily.
    Accuracy,
    /// Logarithm of the divergence from the start at the end, so that differences are ratios.
    LogKl,
}

const LABELS: [&str; 10] = [
    "arm",
    "optimiser",
    "rate",
    "learning_rate",
    "rate_over_reference",
    "lambda",
    "part",
    "clamp",
    "reduction",
    "seed",
];
const TRAINING: [&str; 5] = ["steps", "tokens", "learning", "reward_at_end", "grad_norm"];
const LENGTHS: [&str; 3] = ["length_before", "length_after", "change"];
const FORCES: [&str; 3] = ["mean_advantage", "predicted_change", "predicted_error"];

fn common_columns() -> Vec<String> {
    ["arm", "rate", "seed", "tokens", "learning", "reward_at_end", "accuracy", "kl", "length"]
        .map(str::to_owned)
        .to_vec()
}

fn common_keys() -> usize {
    3
}

/// Reads arms: a field that lists several values stands for an arm with each.
fn arms<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<Arm>, D::Error> {
    let mut all: Vec<Arm> = Vec::new();
    for table in Vec::<toml::Table>::deserialize(deserializer)? {
        for arm in spanned(&table) {
            let arm = arm.try_into().map_err(serde::de::Error::custom)?;
            if !all.contains(&arm) {
                all.push(arm);
            }
        }
    }
    Ok(all)
}

/// The tables with one value of every field.
fn spanned(table: &toml::Table) -> Vec<toml::Table> {
    let with = |all: Vec<toml::Table>, (key, value): (&String, &toml::Value)| {
        let values = value.as_array().cloned().unwrap_or_else(|| vec![value.clone()]);
        let mut longer = Vec::new();
        for (table, value) in all.iter().flat_map(|table| values.iter().map(move |value| (table, value))) {
            let mut table = table.clone();
            table.insert(key.clone(), value.clone());
            longer.push(table);
        }
        longer
    };
    table.iter().fold(vec![toml::Table::new()], with)
}

/// A protocol of this kind.
const LIKE: &str = "systematic.toml";

pub(crate) fn read(path: &Path) -> Result<Protocol, ProtocolError> {
    let text = ProtocolError::read(path, LIKE)?;
    let protocol: Protocol =
        toml::from_str(&text).map_err(|e| ProtocolError::fields(path, &text, LIKE, &e))?;
    let known = [&LABELS[..], &TRAINING, &LENGTHS, &FORCES, &exam::COLUMNS].concat();
    if let Some(column) = protocol.columns.iter().find(|c| !known.contains(&c.as_str())) {
        let (column, known) = (column.clone(), known.join(", "));
        return Err(ProtocolError::Column { path: path.to_owned(), column, known });
    }
    for arm in &protocol.arms {
        let (path, arm_name) = (path.to_owned(), arm.name());
        match arm.configured() {
            Err(source) => return Err(ProtocolError::Arm { path, arm: arm_name, source: Box::new(source) }),
            Ok(configured) if !samples_whole_responses(&configured) => {
                return Err(ProtocolError::Sampling { path, arm: arm_name });
            }
            Ok(_) => {}
        }
    }
    Ok(protocol)
}

/// True if a method reads nothing that must be sampled besides responses that are independent, or of systematic sets.
fn samples_whole_responses(method: &Configured) -> bool {
    let further = [InputKind::Steps, InputKind::RewardParts];
    !TREE_METHODS.contains(&method.spec.name)
        && !method.extra_inputs().iter().any(|kind| further.contains(kind))
}

/// Runs what is missing of a protocol; `overrides` come after its settings.
///
/// # Errors
/// [`LabError`] for a protocol that cannot be read, a file of other results, or a run that fails.
pub fn run(protocol: &Path, path: &Path, overrides: &[&str]) -> Result<(), LabError> {
    let name = protocol.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut protocol = read(protocol)?;
    protocol.overrides = overrides.iter().map(ToString::to_string).collect();
    let version = protocol.version;
    let words = [&format!("study paper/protocols/{name} FILE (version {version})")[..]];
    go_on(&protocol, &[&words[..], overrides].concat().join(" "), path).map(drop)
}

fn go_on(protocol: &Protocol, command: &str, path: &Path) -> Result<Results, LabError> {
    let columns: Vec<&str> = protocol.columns.iter().map(String::as_str).collect();
    if let Some(variances) = &protocol.variance {
        let results = Results::open(path, command, &variance::COLUMNS, variance::KEYS)?;
        let (arms, seeds) = (&protocol.arms, &protocol.evaluation);
        variance::go_on(variances, arms, seeds, protocol.settings(), &results)?;
        return Ok(results);
    }
    let size = Lab::config(0, protocol.settings())?.rl.group_size;
    if protocol.has(&FORCES) && size > MOST_RANDOM_REWARDS {
        return Err(LabError::RandomRewards { size, most: MOST_RANDOM_REWARDS });
    }
    let results = Results::open(path, command, &columns, protocol.keys)?;
    protocol.fill_seeds(&protocol.selection, |_| protocol.rates.clone(), &results)?;
    let mut chosen = Vec::new();
    for arm in &protocol.arms {
        let rate = arm.rate.or_else(|| protocol.chosen(arm, &results));
        let file = || path.display().to_string();
        chosen.push(rate.ok_or_else(|| LabError::NoRate { file: file(), arm: arm.name() })?);
    }
    let own =
        |arm: &Arm| protocol.arms.iter().zip(&chosen).filter(|(a, _)| *a == arm).map(|(_, r)| *r).collect();
    protocol.fill_seeds(&protocol.evaluation, own, &results)?;
    Ok(results)
}

impl Protocol {
    /// Its settings, and those of the command.
    pub(super) fn settings(&self) -> [&[String]; 2] {
        [&self.settings, &self.overrides]
    }

    /// True if one of these columns is asked for.
    fn has(&self, columns: &[&str]) -> bool {
        self.columns.iter().any(|c| columns.contains(&c.as_str()))
    }

    /// The cells of these columns; empty where a run has no such number.
    fn chosen_cells(&self, columns: &[String], cells: &Cells) -> Vec<Cell> {
        columns.iter().map(|c| cells.get(c.as_str()).cloned().unwrap_or(Cell::Empty)).collect()
    }

    fn key(&self, arm: &Arm, rate: f64, seed: u64) -> Vec<Cell> {
        self.chosen_cells(&self.columns[..self.keys], &labels(arm, rate, seed))
    }

    /// The only rate, or that with the highest mean over the selection seeds, once all their runs are there.
    fn chosen(&self, arm: &Arm, results: &Results) -> Option<f64> {
        let score = |rate: f64, seed: u64| {
            let number = |column: &str| results.number(&self.key(arm, rate, seed), column);
            match self.measure {
                Measure::Learning => number("learning"),
                Measure::Accuracy => number("accuracy"),
                Measure::LogKl => number("kl").map(f64::ln),
            }
        };
        grpo_lambda_trials::chosen(&self.rates, &self.selection, score)
    }

    fn fill_seeds(
        &self,
        seeds: &[u64],
        rates: impl Fn(&Arm) -> Vec<f64> + Sync,
        results: &Results,
    ) -> Result<(), LabError> {
        let jobs = |seed| {
            let of_arm = |arm| rates(arm).into_iter().map(move |rate| (arm, rate));
            let job =
                |(arm, rate): (&Arm, f64)| Job::one(self.key(arm, rate, seed), (arm.clone(), rate, seed));
            self.arms.iter().flat_map(of_arm).map(job).collect()
        };
        let row = |start: &Start, (arm, rate, seed): &(Arm, f64, u64)| {
            let mut cells = labels(arm, *rate, *seed);
            cells.extend(start.execute(arm, *rate)?);
            say(&format!("seed {seed}, {}, rate {rate}: done", arm.name()));
            Ok(vec![self.chosen_cells(&self.columns, &cells)])
        };
        fill(results, seeds, jobs, |seed| Start::new(self, seed), row)
    }
}

/// The columns that an arm, a rate and a seed decide.
fn labels(arm: &Arm, rate: f64, seed: u64) -> Cells {
    let values: [Cell; LABELS.len()] = [
        arm.name().into(),
        arm.optimiser.name().into(),
        rate.into(),
        rate.into(),
        arm.reference_rate.map(|reference| rate / reference).into(),
        arm.lambda.into(),
        arm.part.map_or(Cell::Empty, |part| part.name().into()),
        arm.clamp.into(),
        arm.reduction.map_or(Cell::Empty, |weighing| weighing.names().0.into()),
        (seed as usize).into(),
    ];
    LABELS.into_iter().zip(values).collect()
}

/// The start of a seed, with what its weights are asked and predict.
struct Start {
    lab: Lab,
    exam: Option<Exam>,
    /// The length before RL.
    length: Option<f64>,
    forces: Option<Vec<Force>>,
}

impl Start {
    fn new(protocol: &Protocol, seed: u64) -> Result<Start, LabError> {
        let lab = Lab::of_seed(seed, protocol.settings())?;
        let mut kinds: Vec<(f64, Weighing)> = Vec::new();
        for arm in protocol.arms.iter().filter(|arm| arm.optimiser == Optimiser::Sgd) {
            kinds.extend(arm.lambda.zip(arm.reduction).filter(|kind| !kinds.contains(kind)));
        }
        let forces = protocol.has(&FORCES).then(|| force(&lab, &kinds)).transpose()?;
        let before = |lab: &Lab| length(lab, &mut lab.engine(Optimiser::Sgd)?.0);
        let length = protocol.has(&LENGTHS).then(|| before(&lab)).transpose()?;
        let exam = protocol.has(&exam::COLUMNS).then(|| Exam::new(&lab)).transpose()?;
        Ok(Start { lab, exam, length, forces })
    }

    /// The numbers of a run.
    fn execute(&self, arm: &Arm, rate: f64) -> Result<Cells, LabError> {
        let (lab, configured, advantages) = (&self.lab, arm.configured()?, arm.advantages()?);
        let reference = configured.extra_inputs().contains(&InputKind::RefLogps);
        let critic = CriticSettings::new(&configured, &lab.session.config);
        let settings = StepSettings { reference, critic, ..lab.settings(configured.sets()) };
        let method = match &advantages {
            Some(parts) => parts,
            None => configured.method.as_ref(),
        };
        let (mut engine, records) = lab.train(&settings, method, arm.optimiser, rate)?;
        let mut cells = self.training(&records);
        if let Some(before) = self.length {
            let after = length(lab, &mut engine)?;
            cells.extend(LENGTHS.into_iter().zip([before, after, after - before].map(Cell::from)));
        }
        if let (Some(forces), Some(parts)) = (&self.forces, &advantages) {
            let rl = &lab.session.config.rl;
            let mean = parts.mean_of_random_rewards(rl.group_size);
            let own = forces.iter().find(|f| Some((f.lambda, f.weighing)) == arm.lambda.zip(arm.reduction));
            // Of AdamW nothing is predicted.
            let own = own.filter(|_| arm.optimiser == Optimiser::Sgd);
            let scale = rl.steps as f64 * rate * mean;
            let values = [Some(mean), own.map(|f| scale * f.slope), own.map(|f| scale.abs() * f.error)];
            cells.extend(FORCES.into_iter().zip(values.map(Cell::from)));
        }
        if let Some(exam) = &self.exam {
            cells.extend(exam.at(lab, &mut engine)?);
        }
        Ok(cells)
    }

    fn training(&self, records: &[StepRecord]) -> Cells {
        let rl = &self.lab.session.config.rl;
        let tokens: f64 = records.iter().map(|r| r.length).sum();
        let values: [Cell; TRAINING.len()] = [
            (rl.steps as usize).into(),
            (tokens * (rl.prompts_per_step * rl.group_size) as f64).into(),
            (records.iter().map(|r| r.token_reward * r.length).sum::<f64>() / tokens).into(),
            mean(records.iter().rev().take(10).map(|r| r.reward)).into(),
            mean(records.iter().map(|r| r.grad_norm)).into(),
        ];
        TRAINING.into_iter().zip(values).collect()
    }
}

#[cfg(test)]
mod tests;
