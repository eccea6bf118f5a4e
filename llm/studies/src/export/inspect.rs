//! The log of Inspect (version 2 of its JSON), one for each benchmark of an evaluation: for `inspect view` and
//! `read_eval_log`.

use std::path::Path;
use std::time::SystemTime;

use chrono::{DateTime, Utc};
use serde_json::{Map, Value, json};

use super::{ExportError, Files, file};
use grpo_lambda_trainer::eval::benchmark::slug;
use grpo_lambda_trainer::eval::completion::{CompletionRecord, RecordedFinish, ResponseOutcome};
use grpo_lambda_trainer::eval::store::{self, EvalManifest, ProblemRecord, StoredBenchmark};

/// The name of the scorer.
const SCORER: &str = "grpo_lambda_grade";

/// A log for each benchmark of the finished evaluation in `directory`.
pub fn inspect(directory: &Path) -> Result<Files, ExportError> {
    let (manifest, benchmarks) = store::read(directory)?;
    // When the evaluation was made, so that the same evaluation gives the same log.
    let written = std::fs::metadata(directory.join(store::FILE)).and_then(|m| m.modified());
    let created =
        DateTime::<Utc>::from(written.unwrap_or(SystemTime::UNIX_EPOCH)).format("%Y-%m-%dT%H:%M:%S+00:00");
    let created = created.to_string();
    let one = |benchmark: &StoredBenchmark| {
        let name = slug(&benchmark.head.name);
        let identity = format!("{}{}", benchmark.head.fingerprint, manifest.setting("weights"));
        let id = format!("{:08x}", crc32c::crc32c(identity.as_bytes()));
        let stamp = created.replace(':', "-");
        (format!("{stamp}_{name}_{id}.json"), file(&log(&manifest, benchmark, &created, &id)))
    };
    Ok(benchmarks.iter().map(one).collect())
}

fn log(manifest: &EvalManifest, benchmark: &StoredBenchmark, created: &str, id: &str) -> Value {
    let epochs = benchmark.completions.iter().map(Vec::len).max().unwrap_or(1);
    let model = format!("grpo-lambda/{}", manifest.setting("model"));
    let settings: Map<String, Value> = manifest.settings().map(|(k, v)| (k.to_owned(), json!(v))).collect();
    let number = |key: &str| manifest.setting(key).parse::<f64>().ok();
    let graded: Vec<f64> = benchmark.completions.iter().flatten().filter_map(|c| c.verdict.score()).collect();
    let accuracy = grpo_lambda_stats::mean(&graded);
    let total: usize = benchmark.completions.iter().map(Vec::len).sum();
    let samples = benchmark.problems.iter().zip(&benchmark.completions);
    let samples =
        samples.flat_map(|(problem, responses)| responses.iter().map(|r| sample(problem, r, &model)));
    let metric =
        accuracy.map(|value| json!({"accuracy": {"name": "accuracy", "value": value, "params": {}}}));
    json!({
        "version": 2,
        "status": "success",
        "eval": {
            "eval_id": id, "run_id": id, "created": created, "task": benchmark.head.name, "task_id": id, "task_version": 0,
            "task_attribs": {}, "task_args": {}, "task_args_passed": {}, "model": model, "model_generate_config": {}, "model_args": {},
            "dataset": {
                "name": benchmark.head.name, "samples": benchmark.problems.len(), "shuffled": false,
                "sample_ids": benchmark.problems.iter().map(|p| p.id.as_str()).collect::<Vec<_>>(),
            },
            "config": {"epochs": epochs},
            "packages": {"grpo-lambda": env!("CARGO_PKG_VERSION")},
            "metadata": settings,
        },
        "plan": {
            "name": "plan", "steps": [],
            "config": {
                "max_tokens": number("max_new_tokens"), "temperature": number("temperature"), "seed": number("seed").map(|s| s as u64),
            },
        },
        "results": {
            "total_samples": total, "completed_samples": total,
            "scores": [{"name": SCORER, "scorer": SCORER, "params": {}, "scored_samples": graded.len(),
                "unscored_samples": total - graded.len(), "metrics": metric.unwrap_or_else(|| json!({}))}],
        },
        "stats": {"started_at": created, "completed_at": created, "model_usage": {}},
        "samples": samples.collect::<Vec<_>>(),
    })
}

fn sample(problem: &ProblemRecord, response: &CompletionRecord, model: &str) -> Value {
    let value = match response.verdict {
        ResponseOutcome::Right => json!("C"),
        ResponseOutcome::Wrong => json!("I"),
        ResponseOutcome::NoAnswer => json!("N"),
        // Left out of the accuracy here; Inspect's metrics pass over NaN likewise.
        ResponseOutcome::Unreadable | ResponseOutcome::NoRoom => json!("NaN"),
    };
    let stop = match response.finish {
        RecordedFinish::Length => "max_tokens",
        RecordedFinish::NoRoom => "model_length",
        RecordedFinish::Eos | RecordedFinish::Stop => "stop",
    };
    let said = json!({"role": "assistant", "content": response.text, "source": "generate", "model": model});
    json!({
        "id": problem.id, "epoch": response.sample + 1, "input": problem.prompt, "target": problem.golds,
        "messages": [{"role": "user", "content": problem.prompt, "source": "input"}, said],
        "output": {
            "model": model, "choices": [{"message": said, "stop_reason": stop}], "completion": response.text,
            "usage": {"input_tokens": 0, "output_tokens": response.tokens, "total_tokens": response.tokens},
        },
        "scores": {SCORER: {"value": value, "answer": response.answer, "explanation": response.reason, "metadata": {
            "verdict": response.verdict.words(), "lenient": response.lenient}}},
        "metadata": {"problem": problem.problem}, "store": {}, "events": [], "model_usage": {}, "attachments": {},
    })
}
