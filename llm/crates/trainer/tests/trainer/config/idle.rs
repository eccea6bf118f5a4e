use grpo_lambda_trainer::config::{Config, idle_settings};

#[test]
fn a_setting_without_an_effect_is_reported_with_the_one_that_takes_it() {
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
        (&["rl.children=4,4"], "rl.sampling=independent"),
        (&["rl.segment=4"], "rl.sampling=independent"),
        (&["rl.forks=1"], "rl.sampling=independent"),
        (&["rl.completions=3"], "method.name=grpo_lambda"),
        (&["lora.alpha=8"], "lora.rank=0"),
        (&["reward.overlong_limit=30"], "reward.overlong=0"),
        (&["method.name=spo_tree", "rl.sampling=tree", "rl.sets=3"], "rl.sampling=tree"),
        (&["critic.lr=0.1"], "method.name=grpo_lambda"),
        (&["method.name=ppo", "critic.updates=1", "critic.clip=1"], "critic.updates=1"),
        (&["method.name=ppo", "rl.steps=0", "critic.lr=0.1"], "rl.steps=0"),
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
