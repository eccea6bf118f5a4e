//! Settings on the command line without effect given the others.

use grpo_lambda_gpu::select::DevicePreference;

use super::{Branching, Config, EngineKind, ModelSource, StepStart};
use crate::input::task::{Task, TaskSource};

/// A line for each `key=value` word without effect in `config`, as `task.levels` with a data set.
pub fn idle_settings(config: &Config, overrides: &[impl AsRef<str>]) -> Vec<String> {
    let said = |word: &str| {
        let (key, _) = word.split_once('=')?;
        reason(config, key).map(|reason| format!("{word} has no effect with {reason}"))
    };
    overrides.iter().filter_map(|word| said(word.as_ref())).collect()
}

/// The other setting under which `key` has no effect.
fn reason(config: &Config, key: &str) -> Option<String> {
    let (section, name) = key.split_once('.').unwrap_or(("", key));
    let steps = |stage: &str, steps: u64| (steps == 0 && name != "steps").then(|| format!("{stage}.steps=0"));
    match section {
        "task" => of_task(config, name),
        "sft" => steps("sft", config.sft.steps),
        // Evaluations have the same completion limit.
        "rl" if name == "sets" && config.rl.systematic_sets().is_none() => {
            Some(format!("rl.sampling={}", config.rl.sampling.name()))
        }
        "rl" if without_branches(config, name) => Some(format!("rl.sampling={}", config.rl.sampling.name())),
        "rl" if matches!(name, "completions" | "step_start") && config.step_start().is_none() => {
            Some(format!("method.name={}", config.method))
        }
        "rl" if matches!(name, "entropy_delta" | "entropy_coef_max")
            && config.rl.entropy_target.is_none() =>
        {
            Some("rl.entropy_target=none".to_owned())
        }
        // Supervised steps are skipped by the same rule.
        "rl" if name == "max_nan_steps" && config.sft.steps > 0 => None,
        "rl" if name != "max_new_tokens" => steps("rl", config.rl.steps),
        "critic" if !config.has_critic() => Some(format!("method.name={}", config.method)),
        "critic" if name == "clip" && config.critic.updates == 1 => Some("critic.updates=1".to_owned()),
        "critic" => steps("rl", config.rl.steps),
        "rollout" if name != "engine" && config.rollout.is_none() => Some("rollout.engine=local".to_owned()),
        "memory" | "gpu" if matches!(name, "optimiser" | "trust" | "recompute_layers") => {
            let candle = (config.engine == EngineKind::Candle).then_some("engine=candle");
            let cpu = (config.device == DevicePreference::Cpu && name != "recompute_layers")
                .then_some("device=cpu");
            candle.or(cpu).map(str::to_owned)
        }
        "lora" if name != "rank" && config.lora.is_none() => Some("lora.rank=0".to_owned()),
        "reward" => match config.rl.steps {
            0 => Some("rl.steps=0".to_owned()),
            _ => ["overlong", "regex", "command"].into_iter().find_map(|part| {
                let off = if part == "overlong" { "0" } else { "none" };
                let of_part = name.strip_prefix(part).is_some_and(|rest| rest.starts_with('_'));
                (of_part && !config.reward.is_active(part)).then(|| format!("reward.{part}={off}"))
            }),
        },
        "model" if name != "checkpoint" && matches!(config.model, ModelSource::Checkpoint(_)) => {
            Some("model.checkpoint".to_owned())
        }
        _ => None,
    }
}

/// True for a setting of trees that the groups of `config` do not have.
fn without_branches(config: &Config, name: &str) -> bool {
    let branching = config.rl.branching();
    let steps = !matches!(config.step_start(), None | Some(StepStart::Line));
    match name {
        "children" => !matches!(branching, Some(Branching::Intervals { .. })),
        "segment" => !steps && !matches!(branching, Some(Branching::Intervals { .. })),
        "forks" | "branches" => !matches!(branching, Some(Branching::Search { .. })),
        _ => false,
    }
}

fn of_task(config: &Config, name: &str) -> Option<String> {
    const STORIES: [&str; 2] = ["levels", "max_operand"];
    match &config.task {
        TaskSource::Dataset(_) => STORIES.contains(&name).then(|| "task.kind=dataset".to_owned()),
        TaskSource::Embedded(task) => {
            let kind = if *task == Task::Addition { "addition" } else { "stories" };
            let of_stories = STORIES.contains(&name) && kind == "stories";
            (name != "kind" && !of_stories).then(|| format!("task.kind={kind}"))
        }
    }
}
