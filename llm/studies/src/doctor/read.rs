//! Logs as they lie on the disk.

use std::path::{Path, PathBuf};

use grpo_lambda::group::{ExtraInputs, Group, Response};
use grpo_lambda::methods::Method;
use grpo_lambda::token_weights::LOG_PROB;
use grpo_lambda_decoder::disk::read_regular_text;
use serde_json::{Map, Value};

use super::{Column, Framework, Log};
use grpo_lambda_trainer::config::{Config, ConfigError};
use grpo_lambda_trainer::input::json;
use grpo_lambda_trainer::run::{RunError, read_log};

/// Why there is no log.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error("{path}: cannot be read: {source}")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{path}: {problem}")]
    Content { path: PathBuf, problem: String },
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Run(RunError),
}

/// Larger than the log of any run.
const LARGEST: u64 = 4 << 30;

/// A form of log.
const RIGHT: &str = "must be a run directory of llm-train, a trainer_state.json of TRL or a directory with one, or \
                     JSON lines of verl";

/// The log at `path`: a run directory, `trainer_state.json` of TRL or a directory with one, JSON lines of verl or of
/// llm-train.
pub fn read(path: &Path) -> Result<Log, LogError> {
    if !path.exists() {
        return Err(content(path, format!("no such file or directory; {RIGHT}")));
    }
    if !path.is_dir() {
        return parse(path, &text(path)?, false);
    }
    let config = path.join("config.toml");
    if config.exists() {
        let config = Config::read(&config)?;
        let metrics = path.join("metrics.jsonl");
        let text = read_log(path, "metrics.jsonl").map_err(|e| match e {
            RunError::Io(e) => LogError::Read { path: e.path, source: e.source },
            e => LogError::Run(e),
        })?;
        let mut log = parse(&metrics, &text, config.rl.inner_updates == 1)?;
        log.compares_groups = compares_groups(config.configured().method.as_ref());
        return Ok(log);
    }
    let state = trainer_state(path).ok_or_else(|| content(path, RIGHT.to_owned()))?;
    parse(&state, &text(&state)?, false)
}

/// True if nothing is learned from a group whose rewards agree, whatever the other groups earned, but for a KL term.
fn compares_groups(method: &dyn Method) -> bool {
    let response = |reward: f64| Response {
        tokens: vec![u32::from(reward > 0.0)],
        ref_logps: Some(vec![LOG_PROB]),
        extra_inputs: ExtraInputs::neutral(1, LOG_PROB),
        ..Response::graded(vec![LOG_PROB], reward)
    };
    let groups = [[0.0, 0.0], [1.0, 1.0], [1.0, 0.0]];
    let batch = groups.map(|rewards| Group { responses: rewards.map(response).into() });
    let credits = method.credit(&batch);
    // Neutral extra inputs hide what a critic or another reward adds: that the method says itself.
    method.compares_rewards() && credits[..4].iter().all(|credit| credit.advantages == [0.0])
}

fn text(path: &Path) -> Result<String, LogError> {
    read_regular_text(path, LARGEST).map_err(|source| LogError::Read { path: path.to_owned(), source })
}

fn content(path: &Path, problem: String) -> LogError {
    LogError::Content { path: path.to_owned(), problem }
}

/// That of a checkpoint of TRL, or of the last one in its output directory.
fn trainer_state(directory: &Path) -> Option<PathBuf> {
    const NAME: &str = "trainer_state.json";
    let own = directory.join(NAME);
    if own.is_file() {
        return Some(own);
    }
    let entries = std::fs::read_dir(directory).ok()?.flatten().map(|entry| entry.path());
    let step = |path: &Path| path.file_name()?.to_str()?.strip_prefix("checkpoint-")?.parse::<u64>().ok();
    let checkpoints = entries.filter(|path| path.join(NAME).is_file());
    let last = checkpoints.filter_map(|path| Some((step(&path)?, path))).max()?;
    Some(last.1.join(NAME))
}

/// The text of a log; `path` names it. Whether the steps are on-policy only a run directory of ours says.
fn parse(path: &Path, text: &str, on_policy: bool) -> Result<Log, LogError> {
    // A byte-order mark, as Windows editors write.
    let text = without_named_numbers(text.strip_prefix('\u{feff}').unwrap_or(text));
    let rows = match serde_json::from_str::<Value>(&text) {
        Ok(Value::Object(mut state)) if state.contains_key("log_history") => {
            json::fields(&text).map_err(|problem| content(path, problem))?;
            let Value::Array(history) = state["log_history"].take() else {
                return Err(content(path, "log_history: must be a list of objects".to_owned()));
            };
            history.into_iter().filter_map(object).collect()
        }
        Err(e) if e.is_eof() && !is_lines(&text) => {
            let problem = format!(
                "ends at byte {} in the middle of a JSON object: it was cut off; give the whole file",
                text.len()
            );
            return Err(content(path, problem));
        }
        Err(e) if text.contains("\"log_history\"") => {
            let problem = format!("not one JSON object: {e}; was it written twice?");
            return Err(content(path, problem));
        }
        _ => lines(path, &text)?,
    };
    let framework =
        framework(&rows).ok_or_else(|| content(path, format!("no step of RL that is known; {RIGHT}")))?;
    let mut log = Log::new(framework, on_policy && framework == Framework::Ours);
    for (i, row) in rows.iter().enumerate() {
        add(&mut log, i, row).map_err(|problem| content(path, format!("row {}: {problem}", i + 1)))?;
    }
    if log.steps == 0 {
        return Err(content(path, "no step of RL is recorded".to_owned()));
    }
    if log.is_out_of_order() {
        let problem =
            "its steps are not in the order in which they were made; sort its rows by step".to_owned();
        return Err(content(path, problem));
    }
    Ok(log)
}

/// True if the first line is a JSON value of its own, or there is nothing.
fn is_lines(text: &str) -> bool {
    let first = text.trim_start().split_inclusive('\n').next();
    first.is_none_or(|line| line.ends_with('\n') && serde_json::from_str::<Value>(line).is_ok())
}

fn object(value: Value) -> Option<Map<String, Value>> {
    match value {
        Value::Object(map) => Some(map),
        _ => None,
    }
}

/// JSON lines; half a line at the end of a run under way is left out. verl nests its numbers under `data`.
fn lines(path: &Path, text: &str) -> Result<Vec<Map<String, Value>>, LogError> {
    let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
    let numbered = whole.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let read = |(i, line): (usize, &str)| {
        let at = |problem: String| LogError::Content {
            path: PathBuf::from(format!("{}:{}", path.display(), i + 1)),
            problem,
        };
        let value: Value = serde_json::from_str(line).map_err(|e| {
            let hint = if i == 0 { format!("; {RIGHT}") } else { String::new() };
            at(format!("not JSON: {}{hint}", e.to_string().replace(" at line 1 column ", " at column ")))
        })?;
        let mut row = object(value).ok_or_else(|| at("a line must be an object of numbers".to_owned()))?;
        json::fields(line).map_err(at)?;
        if let Some(Value::Object(data)) = row.remove("data") {
            if let Some((name, _)) =
                data.iter().find(|(name, value)| row.get(*name).is_some_and(|own| own != *value))
            {
                return Err(at(format!("`{name}` is another number in `data`; leave one of them out")));
            }
            row.extend(data);
        }
        Ok(row)
    };
    numbered.map(read).collect()
}

/// The writer of these rows.
fn framework(rows: &[Map<String, Value>]) -> Option<Framework> {
    let any = |test: &dyn Fn(&Map<String, Value>) -> bool| rows.iter().any(test);
    if any(&|row| row.contains_key("stage")) {
        return Some(Framework::Ours);
    }
    if any(&|row| row.keys().any(|key| key.starts_with("actor/") || key.starts_with("critic/"))) {
        return Some(Framework::Verl);
    }
    // OpenRLHF has the same word for the reward, and others for the rest.
    let is_trl = |row: &Map<String, Value>| row.contains_key("reward") && !row.contains_key("policy_loss");
    any(&is_trl).then_some(Framework::Trl)
}

/// Adds the numbers of a row, where it is one of a step of RL, or the held-out accuracy of an evaluation.
fn add(log: &mut Log, index: usize, row: &Map<String, Value>) -> Result<(), String> {
    let is_step = match log.framework {
        Framework::Ours => row.get("stage").and_then(Value::as_str) == Some("rl"),
        Framework::Trl => row.contains_key("reward"),
        Framework::Verl => row.keys().any(|key| key.starts_with("actor/")),
    };
    let measures = log.framework == Framework::Ours && row.contains_key("eval_high");
    if !is_step && !measures {
        return Ok(());
    }
    let named = ["step", "training/global_step"].iter().find_map(|name| Some((*name, row.get(*name)?)));
    let step = named.map_or(Ok(index as f64), |(name, value)| {
        value.as_f64().ok_or_else(|| format!("{name} = {value}: must be a number"))
    })?;
    if is_step {
        log.begin(step);
    }
    for column in Column::all().filter(|column| is_step || *column == Column::HeldOutHigh) {
        let names = column.names(log.framework);
        let is_there = |name: &&String| name.split(" + ").all(|part| row.contains_key(part));
        let Some(name) = names.iter().find(is_there) else { continue };
        let value = name.split(" + ").map(|part| number(part, &row[part])).sum::<Result<f64, String>>()?;
        let value = match (column, log.framework) {
            (Column::ZeroVariance, Framework::Ours) => {
                value / row.get("groups").and_then(Value::as_f64).unwrap_or(f64::NAN)
            }
            (Column::Mismatch, Framework::Trl) => value.exp(),
            _ => value,
        };
        log.push(column, step, value);
    }
    Ok(())
}

/// A number; null, which is how a number that JSON has no word for is written, is NaN.
fn number(name: &str, value: &Value) -> Result<f64, String> {
    match value {
        Value::Null => Ok(f64::NAN),
        value => value.as_f64().ok_or_else(|| format!("{name} = {value}: must be a number")),
    }
}

/// Python writes NaN and Infinity into JSON, which has no such words: null in their place, outside of texts.
fn without_named_numbers(text: &str) -> String {
    if !["NaN", "Infinity"].iter().any(|word| text.contains(word)) {
        return text.to_owned();
    }
    let (mut out, mut rest, mut quoted) = (String::with_capacity(text.len()), text, false);
    while let Some(c) = rest.chars().next() {
        let word =
            ["-Infinity", "Infinity", "NaN"].into_iter().find(|word| !quoted && rest.starts_with(word));
        let taken = match (word, c) {
            (Some(word), _) => {
                out.push_str("null");
                word.len()
            }
            (None, '\\') if quoted => {
                let escape: String = rest.chars().take(2).collect();
                out.push_str(&escape);
                escape.len()
            }
            (None, c) => {
                quoted ^= c == '"';
                out.push(c);
                c.len_utf8()
            }
        };
        rest = &rest[taken..];
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::diagnose;
    use super::*;
    use grpo_lambda::methods::{self, REGISTRY};

    fn parsed(text: &str) -> Log {
        parse(Path::new("log"), text, true).unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn our_rows_are_those_of_rl_and_the_share_without_variance_is_a_quotient() {
        let log = parsed(
            "{\"step\":0,\"stage\":\"sft\",\"loss\":1}\n\
             {\"step\":0,\"stage\":\"rl\",\"reward\":0.5,\"zero_variance_groups\":3,\"groups\":4,\"grad_norm\":null}\n\
             {\"step\":1,\"stage\":\"eval\",\"reward\":0.9,\"eval_high\":0.7}\n{\"step\":1,\"sta",
        );
        assert_eq!((log.steps, log.framework, log.on_policy), (1, Framework::Ours, true));
        assert_eq!(log.get(Column::Reward), [(0.0, 0.5)]);
        assert_eq!(log.get(Column::HeldOutHigh), [(1.0, 0.7)]);
        assert_eq!(log.get(Column::ZeroVariance), [(0.0, 0.75)]);
        assert!(log.get(Column::GradNorm)[0].1.is_nan());
        assert!(!log.has(Column::Loss) && !log.has(Column::Kl));
    }

    #[test]
    fn the_history_of_trl_is_read_with_the_numbers_python_writes() {
        let log = parsed(
            "{\"global_step\": 2, \"best\": \"NaN \\\" NaN\", \"log_history\": [\
             {\"step\": 10, \"reward\": 0.25, \"frac_reward_zero_std\": 1.0, \"completions/mean_length\": 1.15, \
              \"sampling/sampling_logp_difference/mean\": 0.1, \"grad_norm\": NaN, \"kl\": -Infinity},\
             {\"step\": 20, \"train_runtime\": 3.5}]}",
        );
        assert_eq!((log.steps, log.framework, log.on_policy), (1, Framework::Trl, false));
        assert_eq!(log.get(Column::Length), [(10.0, 1.15)]);
        assert!((log.get(Column::Mismatch)[0].1 - 0.1f64.exp()).abs() < 1e-15);
        assert!(log.get(Column::GradNorm)[0].1.is_nan() && log.get(Column::Kl)[0].1.is_nan());
    }

    #[test]
    fn verl_is_read_flat_and_nested() {
        let nested = "{\"step\": 3, \"data\": {\"actor/pg_clipfrac\": 0.25, \"actor/pg_clipfrac_lower\": 0.25, \"critic/score/mean\": 0.25}}\n";
        let flat = "{\"training/global_step\": 3, \"actor/pg_clipfrac\": 0.5, \"critic/score/mean\": 0.25}\n";
        for text in [nested, flat] {
            let log = parsed(text);
            assert_eq!((log.steps, log.framework), (1, Framework::Verl));
            assert_eq!(log.get(Column::Clipped), [(3.0, 0.5)]);
            assert_eq!(log.get(Column::Reward), [(3.0, 0.25)]);
        }
    }

    #[test]
    fn groups_that_agree_are_found_where_the_method_compares_them() {
        let row = |step: usize| {
            format!("{{\"step\":{step},\"stage\":\"rl\",\"zero_variance_groups\":19,\"groups\":20}}\n")
        };
        let found = |method: &str| {
            let run = tempfile::tempdir().expect("a directory");
            let config = Config::resolve("tiny", &[format!("method.name={method}")]).expect("valid");
            std::fs::write(run.path().join("config.toml"), config.to_toml()).expect("written");
            std::fs::write(run.path().join("metrics.jsonl"), (0..20).map(row).collect::<String>())
                .expect("written");
            let diagnosis = diagnose(&read(run.path()).expect("a log"));
            diagnosis.findings.iter().any(|(check, _)| check.id == "no-variance")
        };
        assert_eq!(["w_reinforce", "reinforce_pp"].map(found), [false; 2]);
        assert_eq!(["grpo", "rloo", "grpo_lambda", "reinforce_pp_baseline"].map(found), [true; 4]);
    }

    #[test]
    fn methods_that_learn_from_a_group_that_agrees_are_distinguished() {
        let alone = REGISTRY.iter().map(|spec| methods::parse(spec.name, "").expect("defaults"));
        let alone: Vec<&str> =
            alone.filter(|m| !compares_groups(m.method.as_ref())).map(|m| m.spec.name).collect();
        // A pull to the old policy; a bonus for length; rewards in parts that differ; baselines of the batch, of a
        // greedy response, of a critic, of a teacher, and none.
        let expected =
            ["dro", "grpo_lead", "remax", "gdpo", "reinforce_pp", "w_reinforce", "systematic_visit", "ppo"];
        assert_eq!(alone, [&expected[..], &["vine_ppo", "spo_chain", "distillation", "prime"]].concat());
    }

    #[test]
    fn the_rows_of_a_run_alone_do_not_say_that_its_steps_were_on_policy() {
        let run = tempfile::tempdir().expect("a directory");
        let path = run.path().join("metrics.jsonl");
        std::fs::write(&path, "{\"step\":0,\"stage\":\"rl\",\"ratio_mean\":1.1}\n").expect("written");
        let log = read(&path).expect("a log");
        assert!(!log.on_policy && diagnose(&log).findings.is_empty());
    }

    #[test]
    fn steps_that_were_written_again_count_once() {
        let rows = [(1, 0.1), (2, 0.2), (3, 0.3), (2, 0.5), (3, 0.6)];
        let text = rows.map(|(step, x)| {
            format!("{{\"training/global_step\": {step}, \"actor/lr\": 1, \"critic/score/mean\": {x}}}\n")
        });
        let log = parsed(&text.concat());
        assert_eq!((log.steps, log.repeated), (3, 2));
        assert_eq!(log.get(Column::Reward), [(1.0, 0.1), (2.0, 0.5), (3.0, 0.6)]);
    }

    #[test]
    fn steps_that_run_backwards_are_refused() {
        let row = |step: u32| format!("{{\"step\":{step},\"stage\":\"rl\",\"reward\":0}}\n");
        let read = |steps: &[u32]| {
            parse(Path::new("log"), &steps.iter().map(|step| row(*step)).collect::<String>(), true)
        };
        for steps in [&[5, 4, 3, 2, 1][..], &[3, 1, 2, 0], &[0, 4, 1, 5, 2, 6, 3]] {
            let problem = read(steps).expect_err("refused").to_string();
            assert!(problem.contains("not in the order in which they were made"), "{steps:?}: {problem}");
        }
        // Those of runs that were stopped and went on, from their start or from a checkpoint.
        for steps in [&[0, 1, 0][..], &[0, 1, 2, 2, 3, 3, 4], &[0, 1, 2, 3, 2, 3, 4, 5, 4, 5, 6]] {
            read(steps).unwrap_or_else(|e| panic!("{steps:?}: {e}"));
        }
    }
}
