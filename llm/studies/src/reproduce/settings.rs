//! The settings of a cell: its model's preset, its column, its data set.

use super::grid::Cell;
use grpo_lambda_trainer::config::Config;

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
    if cell.variant.lambda.is_none() {
        overrides.extend(shared_with_baseline(preset));
    }
    overrides
}

#[cfg(test)]
mod tests {
    use super::super::grid::{TableSelection, expand};
    use super::super::models;
    use super::super::paper::Paper;
    use super::*;
    use grpo_lambda_printed::{self as paper, PerSize, Table2};
    use grpo_lambda_trainer::config::PRESETS;
    use grpo_lambda_trainer::input::task::{LengthFilter, TaskSource};

    fn preset(model: &models::PaperModel) -> Config {
        Config::resolve(&model.preset, &[""; 0]).unwrap_or_else(|e| panic!("{}: {e}", model.name))
    }

    /// Table 2, column by column.
    #[test]
    fn presets_hold_what_table_2_prints() {
        let Table2 { common, sft, rl, grpo_lambda, .. } =
            paper::Paper::embedded().expect("the committed tables").table2;
        for model in models::all() {
            let config = preset(&model);
            let size = model.size.as_str();
            assert_eq!(config.rl.steps, u64::from(of(size, rl.training_steps)), "{size}");
            assert_eq!(config.rl.max_new_tokens, of(size, rl.max_completion_length) as usize, "{size}");
            assert_eq!(config.rl.group_size, rl.group_size as usize);
            let responses = (config.rl.prompts_per_step * config.rl.group_size) as u32;
            let printed = of(size, rl.per_device_batch_size) * of(size, rl.grad_accum) * common.num_devices;
            assert_eq!(responses, printed, "{size}");
            assert_eq!(config.rl.adam.max_grad_norm, Some(rl.max_grad_norm));
            let settings = config.configured().settings;
            assert_eq!(settings.number("beta"), rl.beta);
            assert_eq!(settings.optional("clamp"), Some(grpo_lambda.advantage_clamp_min));
            let (given, others) = config.reward.weights.split_at(2);
            assert_eq!(given, [rl.accuracy_reward_weight, rl.format_reward_weight]);
            assert!(others.iter().all(|weight| *weight == 0.0), "{others:?}");
            assert_eq!(of(size, rl.full_finetuning), config.lora.is_none(), "{size}");
            assert_eq!(config.sft.schedule.peak, sft.learning_rate);
            let rows = sft.per_device_batch_size * sft.grad_accum * common.num_devices;
            assert_eq!(config.sft.batch, rows as usize);
            let TaskSource::Dataset(task) = &config.task else { panic!("{size}: no data set") };
            let (prompt, solution) = (rl.max_prompt_length as usize, sft.max_seq_len as usize);
            assert_eq!(task.lengths, LengthFilter { prompt: Some(prompt), solution: Some(solution) });
        }
    }

    /// The value that Table 2 prints for models of this size.
    fn of<T>(size: &str, values: PerSize<T>) -> T {
        match size {
            "1.5B" => values.small,
            "3B" => values.middle,
            "7B" => values.large,
            other => panic!("Table 2 has no {other}"),
        }
    }

    /// What the paper leaves out (errata E35) is chosen where a reader looks for it: in the preset, with a reason beside it.
    #[test]
    fn every_choice_the_paper_leaves_out_is_made_and_commented() {
        for model in models::all() {
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
        let paper = Paper::load();
        for cell in expand(&paper, TableSelection::All) {
            let base = preset(&cell.model);
            let config = base.with(&method_overrides(&cell, &base)).expect("accepted");
            let settings = config.configured().settings;
            assert_eq!(settings.number("beta"), 0.04, "{cell}");
            assert_eq!(settings.word("reduction"), base.configured().settings.word("reduction"));
            match cell.variant.lambda {
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
