//! `llm-train score`.

use std::path::PathBuf;

use grpo_lambda_decoder::model::{ForwardOptions, Rows};
use serde::Serialize;

use super::lines::lines;
use super::options::ModelArgs;
use super::{Command, Failure, Result, check_temperature, input, load_model, print};

/// Arguments of `score`.
#[derive(Clone, Debug, clap::Args)]
pub struct ScoreArgs {
    #[command(flatten)]
    pub model: ModelArgs,
    /// JSON lines `{"ids": [n]}`; stdin when not given, or for `-`
    #[arg(long, value_name = "FILE")]
    pub input: Option<PathBuf>,
    /// Divides the logits
    #[arg(long, default_value_t = 1.0, allow_negative_numbers = true)]
    pub temperature: f64,
}

#[derive(Serialize)]
struct Scored {
    logps: Vec<f64>,
    entropies: Vec<f64>,
}

/// Rows scored together.
const BATCH: usize = 64;

impl Command for ScoreArgs {
    /// Scores every line; all or nothing.
    fn run(&self) -> Result<()> {
        check_temperature(self.temperature, "")?;
        let model = load_model(&self.model.open()?)?;
        let (name, text) = input(self.input.as_deref())?;
        let (vocabulary, longest) = (model.config().vocab_size, model.config().max_position_embeddings);
        let (mut sequences, mut places) = (Vec::new(), Vec::new());
        for line in lines(&name, &text, &["ids"])? {
            let ids = line.ids("ids", vocabulary, longest)?;
            sequences.push(ids.ok_or_else(|| line.refused("ids: missing; a line is {\"ids\": [1, 2, 3]}"))?);
            places.push(line.place().to_owned());
        }
        let options = ForwardOptions { temperature: self.temperature, entropy: true, recompute: false };
        let (mut out, mut done) = (String::new(), 0);
        for batch in sequences.chunks(BATCH) {
            let mut rows = Rows::new();
            batch.iter().for_each(|ids| rows.push(ids, 1));
            let scores = model.score(&rows, options).map_err(Failure::refused)?;
            for (logps, entropies) in scores.logps.into_iter().zip(scores.entropies) {
                if logps.iter().chain(&entropies).any(|x| x.is_nan()) {
                    let place = places.get(done).map_or("", String::as_str);
                    return Err(Failure::broke(format!(
                        "{place}: a score is NaN; the weights hold NaN or infinity"
                    )));
                }
                done += 1;
                out += &serde_json::to_string(&Scored { logps, entropies }).map_err(Failure::broke)?;
                out.push('\n');
            }
        }
        print(&out)
    }
}
