//! The scale of a grid: the paper's models and benchmarks, or small stand-ins that this machine can train.

use std::path::PathBuf;

use super::axes::{PaperBenchmark, PaperDataset, PaperModel, StandIn, benchmarks, datasets};
use super::cost::Assumptions;
use super::grid::Cell;
use grpo_lambda_trainer::config::{Config, ConfigError};
use grpo_lambda_trainer::input::task::{Level, Task, TaskSource};

/// On what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// The paper's models, data sets and benchmarks.
    Full,
    /// The embedded model and task: word problems of some levels stand for each data set and each benchmark.
    Tiny,
}

impl StandIn {
    fn levels(&self) -> String {
        self.steps.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
    }

    fn in_words(&self) -> String {
        let plural = if self.steps == [1] { "step" } else { "steps" };
        let levels = self.levels().replace(',', " or ");
        format!("word problems of {levels} {plural}, numbers to {}", self.max_operand)
    }
}

/// Settings of the preset's method that the baseline shares: all it has, but for the clamp, which Table 2 lists as GRPO-lambda's own.
fn shared_with_baseline(config: &Config) -> Vec<String> {
    let baseline: Vec<&str> = grpo_lambda::methods::REGISTRY
        .iter()
        .filter(|m| m.name == "grpo")
        .flat_map(|m| (m.params)())
        .map(|p| p.key)
        .collect();
    config
        .entries()
        .filter_map(|(key, value)| Some((key.strip_prefix("method.")?, value)))
        .filter(|(key, _)| *key != "clamp" && baseline.contains(key))
        .map(|(key, value)| format!("method.{key}={value}"))
        .collect()
}

/// The method of a cell, as settings over its model's preset.
pub fn method_overrides(cell: &Cell, preset: &Config) -> Vec<String> {
    let mut overrides = cell.variant.overrides();
    if cell.variant.lambda().is_none() {
        overrides.extend(shared_with_baseline(preset));
    }
    overrides
}

impl Scale {
    /// Its name in `--scale`.
    pub fn name(self) -> &'static str {
        match self {
            Scale::Full => "full",
            Scale::Tiny => "tiny",
        }
    }

    /// The preset of a model's runs, with `key=value` settings over it.
    pub fn preset(self, model: &PaperModel, overrides: &[String]) -> Result<Config, ConfigError> {
        match self {
            Scale::Full => Config::resolve(&model.preset, overrides),
            Scale::Tiny => {
                let base = Config::resolve("paper-tiny", overrides)?;
                // Another seed makes another model of the same shape.
                let seed = base.seed.saturating_add(u64::from(model.table)).min(i64::MAX as u64);
                base.with(&[format!("seed={seed}")])
            }
        }
    }

    /// The settings of a cell over its model's preset: its method and its data set.
    pub fn settings(self, cell: &Cell, preset: &Config) -> Vec<String> {
        [method_overrides(cell, preset), self.task(cell.dataset)].concat()
    }

    fn task(self, dataset: &PaperDataset) -> Vec<String> {
        match self {
            Scale::Full => vec![format!("task.data={}", dataset.id)],
            Scale::Tiny => {
                let s = &dataset.stand_in;
                vec![format!("task.levels={}", s.levels()), format!("task.max_operand={}", s.max_operand)]
            }
        }
    }

    /// The data sets that are needed for a model's cells, as they are given to [`grpo_lambda_trainer::input::data::locate`].
    pub fn data(self, preset: &Config, cells: &[Cell], model: &PaperModel) -> Vec<String> {
        if self == Scale::Tiny {
            return Vec::new();
        }
        let supervised = match &preset.task {
            TaskSource::Dataset(task) => Some(task.data.clone()),
            TaskSource::Embedded(_) => None,
        };
        let mut all: Vec<String> = supervised.into_iter().collect();
        for cell in cells.iter().filter(|cell| cell.model == model) {
            if !all.contains(&cell.dataset.id) {
                all.push(cell.dataset.id.clone());
            }
        }
        all
    }

    /// The problems that stand for a benchmark at the tiny scale.
    pub fn test(benchmark: &PaperBenchmark) -> Task {
        let s = &benchmark.stand_in;
        let level = |steps: &usize| Level { steps: *steps, max_operand: s.max_operand };
        Task::Stories(s.steps.iter().map(level).collect())
    }

    /// The directory of a model's weights, at full scale.
    pub fn weights(self, preset: &Config) -> Option<PathBuf> {
        match (self, &preset.model) {
            (Scale::Full, grpo_lambda_trainer::config::ModelSource::Checkpoint(path)) => Some(path.clone()),
            _ => None,
        }
    }

    /// The stand-ins, in lines for a reader; none at full scale.
    pub fn legend(self) -> Vec<String> {
        if self == Scale::Full {
            return Vec::new();
        }
        let mut lines = vec![
            "OURS ARE STAND-INS, NOT THE PAPER'S MODELS: a small embedded model on generated word problems. The shape of the table and the \
             methods are the paper's; the numbers cannot be compared with its numbers."
                .to_owned(),
            "model: the preset paper-tiny, with another seed for each of the four".to_owned(),
        ];
        lines.extend(datasets().iter().map(|d| format!("data set {}: {}", d.name, d.stand_in.in_words())));
        let test = |b: &PaperBenchmark| {
            format!("benchmark {}: {}, held out, n = {}", b.name, b.stand_in.in_words(), b.items())
        };
        lines.extend(benchmarks().iter().map(test));
        lines
    }

    /// The assumptions about a cell's lengths.
    pub fn assumptions(self, full: Assumptions, preset: &Config) -> Assumptions {
        match self {
            Scale::Full => full,
            Scale::Tiny => Assumptions {
                prompt_tokens: 40,
                demonstration_tokens: 70,
                eval_tokens: preset.rl.max_new_tokens,
                ..full
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::axes::models;
    use super::super::grid::{TableSelection, expand};
    use super::*;
    use grpo_lambda_printed::{self as paper, PerSize, Table2};
    use grpo_lambda_trainer::config::PRESETS;
    use grpo_lambda_trainer::input::task::{LengthFilter, Split};

    #[test]
    fn a_stand_in_has_as_many_different_problems_as_its_benchmark() {
        for b in benchmarks() {
            let found = Scale::test(b).distinct(42, Split::Test, b.items() as usize).len() as u64;
            assert_eq!(found, b.items(), "{}", b.name);
        }
    }

    fn preset(model: &PaperModel) -> Config {
        Config::resolve(&model.preset, &[""; 0]).unwrap_or_else(|e| panic!("{}: {e}", model.name))
    }

    /// Table 2, column by column.
    #[test]
    fn presets_hold_what_table_2_prints() {
        let Table2 { common, sft, rl, grpo_lambda, .. } =
            paper::Paper::embedded().expect("the committed tables").table2;
        for model in models() {
            let config = preset(model);
            let size = model.size.as_str();
            assert_eq!(config.rl.steps, u64::from(for_size(size, rl.training_steps)), "{size}");
            assert_eq!(config.rl.max_new_tokens, for_size(size, rl.max_completion_length) as usize, "{size}");
            assert_eq!(config.rl.group_size, rl.group_size as usize);
            let responses = (config.rl.prompts_per_step * config.rl.group_size) as u32;
            let printed =
                for_size(size, rl.per_device_batch_size) * for_size(size, rl.grad_accum) * common.num_devices;
            assert_eq!(responses, printed, "{size}");
            assert_eq!(config.rl.grad_clip, Some(rl.max_grad_norm));
            let settings = config.configured().settings;
            assert_eq!(settings.number("beta"), rl.beta);
            assert_eq!(settings.optional("clamp"), Some(grpo_lambda.advantage_clamp_min));
            let (given, others) = config.reward.weights.split_at(2);
            assert_eq!(given, [rl.accuracy_reward_weight, rl.format_reward_weight]);
            assert!(others.iter().all(|weight| *weight == 0.0), "{others:?}");
            assert_eq!(for_size(size, rl.full_finetuning), config.lora.is_none(), "{size}");
            assert_eq!(config.sft.lr, sft.learning_rate);
            let rows = sft.per_device_batch_size * sft.grad_accum * common.num_devices;
            assert_eq!(config.sft.batch, rows as usize);
            let TaskSource::Dataset(task) = &config.task else { panic!("{size}: no data set") };
            let (prompt, solution) = (rl.max_prompt_length as usize, sft.max_seq_len as usize);
            assert_eq!(task.lengths, LengthFilter { prompt: Some(prompt), solution: Some(solution) });
        }
    }

    /// The value that Table 2 prints for models of this size.
    fn for_size<T>(size: &str, values: PerSize<T>) -> T {
        match size {
            "1.5B" => values.small,
            "3B" => values.middle,
            "7B" => values.large,
            other => panic!("Table 2 has no {other}"),
        }
    }

    /// Every choice that the paper leaves out (errata E35) stands in the preset, with a reason beside it.
    #[test]
    fn every_choice_the_paper_leaves_out_is_made_and_commented() {
        for model in models() {
            let text = PRESETS.iter().find(|p| p.name == model.preset).expect("shipped").text;
            for key in [
                "seed",
                "lr",
                "warmup",
                "schedule",
                "inner_updates",
                "temperature",
                "gamma",
                "epsilon_low",
                "epsilon_high",
                "reduction",
                "kl",
                "floor",
                "beta1",
                "beta2",
                "weight_decay",
                "std_preset",
                "matrix",
                "worked_share",
            ] {
                let lines: Vec<&str> = text
                    .lines()
                    .filter(|l| l.split('=').next().is_some_and(|k| k.trim() == key) && l.contains('='))
                    .collect();
                assert!(!lines.is_empty(), "{}: no {key}", model.preset);
                for line in lines {
                    assert!(line.contains('#'), "{}: no comment: {line}", model.preset);
                }
            }
        }
    }

    #[test]
    fn a_cell_differs_from_its_preset_in_the_column_only() {
        for cell in expand(TableSelection::All) {
            let base = preset(cell.model);
            let config = base.with(&method_overrides(&cell, &base)).expect("accepted");
            let settings = config.configured().settings;
            assert_eq!(settings.number("beta"), 0.04, "{cell}");
            assert_eq!(settings.word("reduction"), base.configured().settings.word("reduction"));
            match cell.variant.lambda() {
                None => assert_eq!((config.method.as_str(), settings.optional("clamp")), ("grpo", None)),
                Some(lambda) => {
                    assert_eq!((settings.number("lambda"), settings.optional("clamp")), (lambda, Some(-0.1)));
                    let changed = base.differences(&config);
                    let allowed = ["method.lambda", "method.style", "method.update"];
                    assert!(changed.iter().all(|d| allowed.contains(&d.key.as_str())), "{cell}: {changed:?}");
                }
            }
        }
    }
}
