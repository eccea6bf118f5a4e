//! The presets and settings of the paper's grid.

use grpo_lambda_printed::{Paper, PerSize, Table2};
use grpo_lambda_studies::reproduce::axes::{PaperModel, benchmarks, models};
use grpo_lambda_studies::reproduce::grid::Tables;
use grpo_lambda_studies::reproduce::scale::{Scale, method_overrides};
use grpo_lambda_trainer::config::{Config, PRESETS};
use grpo_lambda_trainer::input::task::{LengthFilter, Split, TaskSource};

#[test]
fn a_toy_benchmark_has_as_many_different_problems_as_the_one_it_replaces() {
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
    let Table2 { common, sft, rl, grpo_lambda, .. } = Paper::embedded().expect("the committed tables").table2;
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
        let settings = &config.configured().settings;
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

/// Every choice that the paper leaves out (errata E35) stands in the preset, with a reason next to it.
#[test]
fn every_choice_the_paper_leaves_out_is_made_and_commented() {
    for model in models() {
        let text = PRESETS.iter().find(|p| p.name == model.preset).expect("shipped").text;
        let keys = "seed lr warmup schedule inner_updates temperature gamma epsilon_low epsilon_high \
                    reduction kl floor beta1 beta2 weight_decay std_preset matrix worked_share";
        for key in keys.split(' ') {
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
    for cell in Tables::parse("all").expect("all tables").cells() {
        let base = preset(cell.model);
        let config = base.with(&method_overrides(&cell, &base)).expect("accepted");
        let settings = &config.configured().settings;
        assert_eq!(settings.number("beta"), 0.04, "{cell}");
        assert_eq!(settings.word("reduction"), base.configured().settings.word("reduction"));
        match cell.variant.lam {
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
