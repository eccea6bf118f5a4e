//! Methods on addition, each at the learning rate that other seeds choose, as a protocol of `paper/protocols` says
//! that was written before its runs.

use std::path::Path;

use grpo_lambda::group::EvidenceKind;
use grpo_lambda::methods::{self, Configured};
use grpo_lambda_stats::mean;
use grpo_lambda_trainer::run::progress::say;
use grpo_lambda_trainer::step::StepSettings;
use serde::{Deserialize, Serialize};

use super::clamp::Exam;
use super::fill::{Job, fill};
use super::lab::{ADDITION, Lab, LabError, Optimiser, ProtocolError, StepRecord};
use super::store::{Results, cells_of};

/// The protocol: everything that decides what is run and what it says.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Protocol {
    version: u32,
    #[serde(rename = "status")]
    _status: String,
    /// After those of the experiments on addition.
    settings: Vec<String>,
    rates: Vec<f64>,
    selection: Vec<u64>,
    evaluation: Vec<u64>,
    measure: Measure,
    /// The difference within which two arms count as equal, and the confidence level of a comparison with the first:
    /// read by the claim.
    #[serde(rename = "margin")]
    _margin: f64,
    #[serde(rename = "level")]
    _level: f64,
    arms: Vec<Arm>,
    #[serde(rename = "endpoint")]
    _endpoint: toml::Table,
}

/// A method; its name and settings in one line are the name of the arm.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arm {
    method: String,
    #[serde(default)]
    settings: String,
}

impl Arm {
    fn name(&self) -> String {
        format!("{} {}", self.method, self.settings).trim().to_owned()
    }

    fn parsed(&self) -> Configured {
        methods::parse(&self.method, &self.settings).expect("checked when it was read")
    }
}

/// The number of a run that decides.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Measure {
    /// Mean reward of a token that is sampled in training.
    Learning,
    /// Share of all problems that the final weights solve greedily.
    Accuracy,
    /// Logarithm of the divergence from the start at the end, so that differences are ratios.
    LogKl,
}

fn read(path: &Path) -> Result<Protocol, ProtocolError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| ProtocolError::Unreadable { path: path.to_owned(), source })?;
    let protocol: Protocol =
        toml::from_str(&text).map_err(|source| ProtocolError::Fields { path: path.to_owned(), source })?;
    for arm in &protocol.arms {
        methods::parse(&arm.method, &arm.settings).map_err(|source| ProtocolError::Arm {
            path: path.to_owned(),
            arm: arm.name(),
            source: Box::new(source),
        })?;
    }
    Ok(protocol)
}

/// A run in the file of results; the first three fields say whose it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    arm: String,
    rate: f64,
    seed: u64,
    /// Tokens sampled for training.
    tokens: f64,
    /// Mean reward of a sampled token.
    learning: f64,
    /// Mean reward of a response in the last ten steps.
    reward_at_end: f64,
    /// Share of all problems that the final weights solve greedily.
    accuracy: f64,
    /// Mean over tokens sampled at the end of the log-ratio to the start; none in rows of before it was measured.
    kl: Option<f64>,
    length: Option<f64>,
}

impl Row {
    fn measure(&self, measure: Measure) -> f64 {
        match measure {
            Measure::Learning => self.learning,
            Measure::Accuracy => self.accuracy,
            Measure::LogKl => self.kl.map_or(f64::NAN, f64::ln),
        }
    }
}

const KEYS: usize = 3;

/// Runs what is missing of a protocol; `sim addition` reads the rows.
///
/// # Errors
/// [`LabError`] for a protocol that cannot be read, a file of other results, or a run that fails.
pub fn run(protocol: &Path, path: &Path) -> Result<(), LabError> {
    let name = protocol.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let protocol = read(protocol)?;
    go_on(&protocol, &name, path).map(drop)
}

fn go_on(protocol: &Protocol, name: &str, path: &Path) -> Result<Vec<Row>, LabError> {
    let command = format!("rates paper/protocols/{name} FILE (version {})", protocol.version);
    let results = Results::open_typed::<Row>(path, &command, KEYS)?;
    let every = |_: &Arm| protocol.rates.clone();
    fill_seeds(protocol, &protocol.selection, every, &results)?;
    let rows: Vec<Row> = results.rows()?;
    let best = |arm: &Arm| chosen(protocol, &rows, &arm.name()).into_iter().collect();
    fill_seeds(protocol, &protocol.evaluation, best, &results)?;
    Ok(results.rows()?)
}

fn fill_seeds(
    protocol: &Protocol,
    seeds: &[u64],
    rates: impl Fn(&Arm) -> Vec<f64> + Sync,
    results: &Results,
) -> Result<(), LabError> {
    let key = |arm: &Arm, rate: f64, seed: u64| vec![arm.name().into(), rate.into(), (seed as usize).into()];
    let jobs = |seed| {
        let of_arm = |arm| rates(arm).into_iter().map(move |rate| (arm, rate));
        let job = |(arm, rate): (&Arm, f64)| Job::one(key(arm, rate, seed), (arm.clone(), rate, seed));
        protocol.arms.iter().flat_map(of_arm).map(job).collect()
    };
    let start = |seed| {
        let lab = Lab::of_seed(seed, &ADDITION, &protocol.settings)?;
        Ok((Exam::new(&lab)?, lab))
    };
    let row = |(exam, lab): &(Exam, Lab), (arm, rate, seed): &(Arm, f64, u64)| {
        let done = execute(lab, exam, &arm.parsed(), *rate)?;
        let row = Row { arm: arm.name(), rate: *rate, seed: *seed, ..done };
        let Row { learning, accuracy, .. } = row;
        say(&format!("{} rate {rate} seed {seed}: learning {learning:.3}, {accuracy:.2} solved", row.arm));
        Ok(vec![cells_of(&row)])
    };
    fill(results, seeds, jobs, start, row)
}

fn execute(lab: &Lab, exam: &Exam, configured: &Configured, rate: f64) -> Result<Row, LabError> {
    let reference = configured.evidence().contains(&EvidenceKind::RefLogps);
    let settings = StepSettings { reference, ..lab.settings(configured.sets()) };
    let (engine, records) = lab.train_with(&settings, configured.method.as_ref(), Optimiser::AdamW, rate)?;
    let rl = &lab.session.config.rl;
    let tokens: f64 = records.iter().map(|r| r.length).sum();
    let last: Vec<f64> = records.iter().rev().take(10).map(|r| r.reward).collect();
    let end = exam.at(lab, engine)?;
    Ok(Row {
        tokens: tokens * (rl.prompts_per_step * rl.group_size) as f64,
        learning: records.iter().map(|r: &StepRecord| r.token_reward * r.length).sum::<f64>() / tokens,
        reward_at_end: mean(&last).unwrap_or(f64::NAN),
        accuracy: end.accuracy,
        kl: Some(end.kl),
        length: Some(end.length),
        ..Row::default()
    })
}

/// The only rate, or that with the highest mean over the selection seeds, once all their runs are there.
fn chosen(protocol: &Protocol, rows: &[Row], arm: &str) -> Option<f64> {
    let score = |rate: f64, seed: u64| {
        let is_own = |row: &&Row| row.arm == arm && row.seed == seed && (row.rate / rate - 1.0).abs() < 1e-9;
        rows.iter().find(is_own).map(|row| row.measure(protocol.measure))
    };
    grpo_lambda_trials::chosen(&protocol.rates, &protocol.selection, score)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn committed(name: &str) -> Protocol {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../paper/protocols");
        read(&folder.join(name)).unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn the_committed_protocols_can_be_run() {
        for name in ["systematic.toml", "long_budget.toml", "kl.toml"] {
            let protocol = committed(name);
            assert!(protocol.selection.iter().all(|seed| !protocol.evaluation.contains(seed)), "{name}");
            let evidence = |arm: &Arm| arm.parsed().evidence().contains(&EvidenceKind::RefLogps);
            let with_reference = protocol.arms.iter().filter(|arm| evidence(arm)).count();
            assert_eq!(with_reference, if name == "kl.toml" { protocol.arms.len() / 2 } else { 0 }, "{name}");
        }
    }

    #[test]
    fn a_protocol_with_an_unknown_method_is_refused_by_its_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("own.toml");
        let text = include_str!("../../../../paper/protocols/kl.toml");
        std::fs::write(&path, text.replacen("method = \"grpo\"", "method = \"gpro\"", 1)).expect("written");
        let refused = read(&path).expect_err("no such method").to_string();
        assert!(refused.contains("own.toml: arm gpro: "), "{refused}");
    }

    #[test]
    fn the_protocol_runs_to_the_same_rows_wherever_it_stopped() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("rows.csv");
        let small =
            ["rl.group_size=4", "rl.steps=2", "rl.prompts_per_step=2", "sft.steps=1", "model.hidden=16"];
        let protocol = Protocol {
            settings: small.iter().chain(&["model.intermediate=16"]).map(ToString::to_string).collect(),
            rates: vec![0.001, 0.01],
            selection: vec![1],
            evaluation: vec![2, 3],
            ..committed("systematic.toml")
        };
        let rows = go_on(&protocol, "x.toml", &path).expect("it runs");
        // Three arms at two rates on one seed, and at one rate on two.
        assert_eq!(rows.len(), 12);
        let text = std::fs::read_to_string(&path).expect("written");
        std::fs::write(&path, text.lines().take(8).collect::<Vec<_>>().join("\n") + "\n").expect("written");
        assert_eq!(go_on(&protocol, "x.toml", &path).expect("it runs"), rows);
        assert_eq!(std::fs::read_to_string(&path).expect("there"), text);
    }

    #[test]
    fn the_chosen_rate_is_the_best_on_selection_seeds_once_all_are_there() {
        let protocol = &committed("systematic.toml");
        let scores = [0.1, 0.2, 0.5, 0.3, 0.2, 0.1];
        let each = protocol.rates.iter().zip(scores);
        let mut rows: Vec<Row> = each
            .flat_map(|(&rate, learning)| {
                protocol.selection.iter().map(move |&seed| Row {
                    arm: "rloo".to_owned(),
                    rate,
                    seed,
                    learning,
                    ..Row::default()
                })
            })
            .collect();
        assert_eq!(chosen(protocol, &rows, "rloo"), Some(0.0005));
        rows.pop();
        assert_eq!(chosen(protocol, &rows, "rloo"), None);
        assert_eq!(chosen(&committed("kl.toml"), &[], "grpo"), Some(0.0005), "the only one");
    }
}
