//! The settings of a cell: its model's preset, its column, its data set.

use super::grid::Cell;
use crate::config::Config;

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
    use super::super::grid::{Selection, expand};
    use super::super::models;
    use super::super::paper::Paper;
    use super::*;
    use crate::config::PRESETS;

    fn preset(model: &models::PaperModel) -> Config {
        Config::resolve(&model.preset, &[""; 0]).unwrap_or_else(|e| panic!("{}: {e}", model.name))
    }

    /// Table 2, column by column.
    #[test]
    fn presets_hold_what_table_2_prints() {
        let tables: serde_json::Value =
            serde_json::from_str(include_str!("../../../../paper/data/paper_tables.json")).expect("JSON");
        let (table, rl) = (&tables["tables"]["table2"], &tables["tables"]["table2"]["rl"]);
        let devices = table["common"]["num_devices"].as_u64().expect("printed");
        for model in models::all() {
            let config = preset(&model);
            let size = model.size.as_str();
            let by_size = |key: &str| rl[key][size].as_u64().expect("printed");
            assert_eq!(config.rl.steps, by_size("training_steps"), "{size}");
            assert_eq!(config.rl.max_new_tokens as u64, by_size("max_completion_length"), "{size}");
            assert_eq!(config.rl.group_size as u64, rl["group_size"].as_u64().expect("printed"));
            let responses = (config.rl.prompts_per_step * config.rl.group_size) as u64;
            assert_eq!(
                responses,
                by_size("per_device_batch_size") * by_size("grad_accum") * devices,
                "{size}"
            );
            assert_eq!(config.rl.adam.max_grad_norm, rl["max_grad_norm"].as_f64());
            let settings = config.configured().settings;
            assert_eq!(Some(settings.number("beta")), rl["beta"].as_f64());
            assert_eq!(settings.optional("clamp"), table["grpo_lambda"]["advantage_clamp_min"].as_f64());
            let weight = |key: &str| rl[key].as_f64().expect("printed");
            let weights = [weight("accuracy_reward_weight"), weight("format_reward_weight"), 0.0, 0.0];
            assert_eq!(config.reward.weights, weights);
            assert_eq!(rl["full_finetuning"][size].as_bool(), Some(config.lora.is_none()), "{size}");
            let sft = &table["sft"];
            assert_eq!(Some(config.sft.schedule.peak), sft["learning_rate"].as_f64());
            let rows = |key: &str| sft[key].as_u64().expect("printed");
            assert_eq!(config.sft.batch as u64, rows("per_device_batch_size") * rows("grad_accum") * devices);
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
        for cell in expand(&paper, Selection::All) {
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
