//! A step to be measured, and the counts that follow from its shape.

use std::path::Path;

use grpo_lambda::group::{Group, InputKind, Response};
use grpo_lambda_decoder::model::{ModelConfig as Shape, Rows};
use grpo_lambda_gpu::{Dtype, StatePlace};
use serde_json::{Value, json};

use super::super::{Failure, Result, checkpoint};
use super::BenchArgs;
use grpo_lambda_trainer::config::Config;
use grpo_lambda_trainer::plan::synthetic::{self, StepPrediction, SyntheticStepError};
use grpo_lambda_trainer::plan::{roofline, shapes};
use grpo_lambda_trainer::problems::MaxLengths;
use grpo_lambda_trainer::step::micro_batch::Batch;

/// A step that cannot be taken, or that failed.
pub(super) fn failed(error: SyntheticStepError) -> Failure {
    match error {
        SyntheticStepError::ExtraInputs { .. } => Failure::refused(error),
        other => Failure::broke(other),
    }
}

pub(super) struct Bench {
    pub(super) name: String,
    pub(super) shape: Shape,
    pub(super) config: Config,
    pub(super) dtype: Dtype,
    pub(super) prompt_tokens: usize,
}

/// Counts of a step that follow from shapes.
pub(super) struct Counts {
    /// Tokens sampled.
    pub(super) sampled: f64,
    /// Tokens that pass through an update, prompts included: once for every micro-batch.
    pub(super) updated: f64,
    /// Bytes of weights, keys and values that decoding reads.
    pub(super) decode_bytes: f64,
    /// Operations of an update, those of layers computed again apart.
    pub(super) update_operations: f64,
    pub(super) recomputed_operations: f64,
}

impl Bench {
    pub(super) fn new(args: &BenchArgs) -> Result<Self> {
        let (name, prompt_tokens) = (args.shape.clone(), args.prompt_tokens);
        let shape = match Path::new(&name) {
            directory if directory.is_dir() => {
                Shape::load(&checkpoint(directory)?).map_err(Failure::refused)?
            }
            _ => shapes::named(&name).map_err(|e| Failure::refused(format!("{e}; or give a directory")))?,
        };
        let mut config = Config::resolve_part(&args.preset, &args.overrides).map_err(Failure::refused)?;
        let mut more = Vec::new();
        for (key, value) in [
            ("rl.prompts_per_step", args.prompts),
            ("rl.group_size", args.group),
            ("rl.max_new_tokens", args.completion),
        ] {
            more.extend(value.map(|n| format!("{key}={n}")));
        }
        if args.lora && config.lora.is_none() {
            more.push("lora.rank=16".to_owned());
        }
        // No evaluation is measured, so none is predicted.
        more.push("eval.n=1".to_owned());
        config = config.with(&more).map_err(Failure::refused)?;
        let (row, limit) = (prompt_tokens + config.rl.max_new_tokens, shape.max_position_embeddings);
        if row > limit {
            return Err(Failure::refused(format!(
                "--prompt-tokens {prompt_tokens}: with rl.max_new_tokens = {} it exceeds the model's limit of {limit}",
                config.rl.max_new_tokens
            )));
        }
        let dtype = if args.dtype == "f32" { Dtype::F32 } else { Dtype::Bf16 };
        Ok(Bench { name, shape, config, dtype, prompt_tokens })
    }

    /// The longest rows: those of rollouts, since no example is trained on.
    pub(super) fn longest(&self) -> MaxLengths {
        MaxLengths { prompt: self.prompt_tokens, example: 0 }
    }

    /// The bench with `memory.recompute_layers=auto` decided for a card with `free` bytes, and the prediction of its
    /// step.
    pub(super) fn decided(self, free: u64) -> Result<(Bench, StepPrediction)> {
        let decided = synthetic::decided(&self.shape, &self.config, self.dtype, self.longest(), free);
        let (config, prediction) = decided.map_err(failed)?;
        Ok((Bench { config, ..self }, prediction))
    }

    /// Tokens, and operations of a forward pass, of the micro-batches of one update.
    fn update(&self) -> (f64, f64) {
        let rl = &self.config.rl;
        let response = || {
            let (old_logps, extra_inputs) = Default::default();
            let tokens = vec![0; rl.max_new_tokens];
            Response { tokens, old_logps, ref_logps: None, reward: None, truncated: false, extra_inputs }
        };
        let group = || Group { responses: (0..rl.group_size).map(|_| response()).collect() };
        let groups: Vec<Group> = (0..rl.prompts_per_step).map(|_| group()).collect();
        let prompt = vec![0; self.prompt_tokens];
        let prompts = vec![prompt.as_slice(); rl.prompts_per_step];
        let batch = Batch::new(&prompts, &groups);
        let parts = batch.parts(self.config.memory.micro_batch_tokens).into_iter();
        let counted = |rows: Rows| {
            let (tokens, scored) = (rows.computed() as f64, rows.targets().0.len() as f64);
            (tokens, roofline::pass(&self.shape, tokens, scored, rows.pairs()))
        };
        let each = parts.map(|part| counted(batch.rows(part)));
        each.fold((0.0, 0.0), |(tokens, operations), one| (tokens + one.0, operations + one.1))
    }

    /// Counts of a step in this precision.
    pub(super) fn counts(&self, dtype: Dtype) -> Counts {
        let (c, rl) = (&self.shape, &self.config.rl);
        let responses = (rl.prompts_per_step * rl.group_size) as f64;
        let (prompt, new) = (self.prompt_tokens as f64, rl.max_new_tokens as f64);
        let (tokens, forward) = self.update();
        let forward = forward * rl.inner_updates as f64;
        // The last token is sampled and never read.
        let steps = new - 1.0;
        let weights = roofline::decode_weight_bytes(c, 1) / 4.0;
        let per_token = (2 * c.num_hidden_layers * c.num_key_value_heads * c.head_dim) as f64;
        let positions = steps * prompt + steps * (steps + 1.0) / 2.0;
        let passes = if self.config.lora.is_some() { 2.0 } else { 3.0 };
        Counts {
            sampled: responses * new,
            updated: tokens * rl.inner_updates as f64,
            decode_bytes: dtype.bytes() as f64 * (steps * weights + responses * per_token * positions),
            update_operations: passes * forward,
            recomputed_operations: if self.config.memory.recompute_layers { forward } else { 0.0 },
        }
    }

    pub(super) fn describe(&self, device: &str, dtype: Dtype) -> String {
        let rl = &self.config.rl;
        let trained = match &self.config.lora {
            Some(lora) => format!("an adapter of rank {} on {}", lora.rank, lora.targets.join(", ")),
            None => "all weights".to_owned(),
        };
        let reference = self.config.configured().extra_inputs().contains(&InputKind::RefLogps);
        format!(
            "{} on {device} in {}, training {trained}: {} prompts of {} tokens x {} responses of {}{}{}\n",
            self.name,
            dtype.name(),
            rl.prompts_per_step,
            self.prompt_tokens,
            rl.group_size,
            rl.max_new_tokens,
            if reference { ", scored by a reference" } else { "" },
            match (self.config.memory.recompute_layers, self.config.memory.optimiser) {
                (true, StatePlace::Device) => ", layers recomputed",
                (true, StatePlace::Host) => ", layers recomputed, the optimiser on the host",
                (false, StatePlace::Device) => "",
                (false, StatePlace::Host) => ", the optimiser on the host",
            },
        )
    }

    pub(super) fn settings(&self, device: &str, dtype: Dtype) -> Value {
        let rl = &self.config.rl;
        json!({
            "shape": self.name, "device": device, "dtype": dtype.name(), "lora_rank": self.config.lora.as_ref().map(|l| l.rank),
            "prompts": rl.prompts_per_step, "prompt_tokens": self.prompt_tokens, "group": rl.group_size,
            "new_tokens": rl.max_new_tokens, "inner_updates": rl.inner_updates,
            "micro_batch_tokens": self.config.memory.micro_batch_tokens, "recompute_layers": self.config.memory.recompute_layers,
            "optimiser": if self.config.memory.optimiser == StatePlace::Host { "host" } else { "device" },
            "method": self.config.method,
        })
    }
}
