//! Settings on the command line without effect beside the others.

use grpo_lambda_gpu::select::DevicePreference;

use super::{Config, EngineKind, ModelSource};
use crate::input::task::{Task, TaskSource};

/// A line for each `key=value` word without effect in `config`, as `task.levels` beside a data set.
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
            Some("rl.sampling=independent".to_owned())
        }
        // Supervised steps are skipped by the same rule.
        "rl" if name == "max_nan_steps" && config.sft.steps > 0 => None,
        "rl" if name != "max_new_tokens" => steps("rl", config.rl.steps),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_without_an_effect_is_told_with_the_one_that_takes_it() {
        let idle = |words: &[&str]| idle_settings(&Config::resolve("tiny", words).expect("valid"), words);
        for (words, other) in [
            (&["task.kind=dataset", "task.data=x.jsonl", "task.levels=1"][..], "task.kind=dataset"),
            (&["task.template=r1"], "task.kind=stories"),
            (&["task.kind=addition", "task.levels=1"], "task.kind=addition"),
            (&["sft.steps=0", "sft.lr=1"], "sft.steps=0"),
            (&["sft.steps=0", "rl.steps=0", "rl.max_nan_steps=1"], "rl.steps=0"),
            (&["device=cpu", "memory.optimiser=host"], "device=cpu"),
            (&["engine=candle", "memory.recompute_layers=true"], "engine=candle"),
            (&["rl.sets=4"], "rl.sampling=independent"),
            (&["lora.alpha=8"], "lora.rank=0"),
            (&["reward.overlong_limit=30"], "reward.overlong=0"),
        ] {
            let last = words.last().expect("a word");
            assert_eq!(idle(words), [format!("{last} has no effect with {other}")]);
        }
        assert_eq!(idle(&["memory.optimiser=host"]), [""; 0]);
        assert_eq!(idle(&["rl.steps=0", "rl.max_nan_steps=1"]), [""; 0]);
        assert_eq!(idle(&["device=cpu", "memory.recompute_layers=true"]), [""; 0]);
        let all = [
            "task.kind=dataset",
            "task.data=x.jsonl",
            "task.template=r1",
            "sft.lr=1",
            "rl.lr=1e-4",
            "seed=3",
            "lora.rank=2",
            "lora.alpha=8",
        ];
        assert_eq!(idle(&all), [""; 0]);
    }
}
