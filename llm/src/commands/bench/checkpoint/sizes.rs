//! How large a step is.

use grpo_lambda_decoder::generate::SamplingParams;
use grpo_lambda_decoder::model::Rows;
use grpo_lambda_decoder::rng::{Address, Purpose};
use grpo_lambda_gpu::StatePlace;
use grpo_lambda_grade::Gold;

use super::super::BenchArgs;
use crate::config::MemoryConfig;
use crate::step::{StepSettings, TrainingPrompt};

/// Prompts, responses to each, and lengths of a step.
pub(super) struct Sizes {
    pub(super) prompts: usize,
    pub(super) group: usize,
    pub(super) completion: usize,
    /// Of the prompts, in turn.
    prompt_tokens: Vec<usize>,
}

impl Sizes {
    pub(super) fn new(args: &BenchArgs) -> Self {
        let given = &args.prompt_tokens;
        Sizes {
            prompts: args.prompts.unwrap_or(4),
            group: args.group.unwrap_or(8),
            completion: args.completion.unwrap_or(64),
            prompt_tokens: if given.is_empty() { vec![10, 43, 12] } else { given.clone() },
        }
    }

    pub(super) fn lengths(&self) -> Vec<usize> {
        self.prompt_tokens.iter().copied().cycle().take(self.prompts).collect()
    }

    /// Random prompts, whose answers nobody reads.
    pub(super) fn prompts(&self, vocabulary: usize, step: u64) -> Vec<TrainingPrompt> {
        let address = Address::new(0, Purpose::Rollout).step(step);
        let token =
            |i: u64, j: usize| (address.prompt(1 << 20 | i).bits(j as u64) % vocabulary as u64) as u32;
        let prompt = |(number, len): (u64, usize)| TrainingPrompt {
            tokens: (0..len).map(|j| token(number, j)).collect(),
            gold: Gold::from(0),
            number,
        };
        (0..).zip(self.lengths()).map(prompt).collect()
    }

    /// The rows of a pass over the whole batch; which tokens they are does not matter.
    pub(super) fn rows(&self) -> Rows {
        let mut rows = Rows::new();
        for len in self.lengths() {
            rows.share(&vec![0; len - 1]);
            (0..self.group).for_each(|_| rows.push(&vec![0; 1 + self.completion], 1));
        }
        rows
    }

    /// One pass over the whole batch. There is no end token: every response runs to its full length, as in the peers.
    pub(super) fn settings(&self) -> StepSettings {
        let sampling =
            SamplingParams { max_new_tokens: self.completion, min_new_tokens: 0, temperature: 1.0 };
        StepSettings {
            sampling,
            eos: Vec::new(),
            stops: None,
            seed: 0,
            inner_updates: 1,
            memory: MemoryConfig {
                micro_batch_tokens: usize::MAX,
                recompute_layers: false,
                optimiser: StatePlace::Device,
                slots: None,
            },
            reference: false,
            evidence: None,
            max_logp_error: f64::INFINITY,
        }
    }
}
