mod foreign;
mod idle;
mod schedule;

use grpo_lambda_trainer::config::given::RawSettings;
use grpo_lambda_trainer::config::schedule::ScheduleShape;
use grpo_lambda_trainer::config::{
    Config, METHOD, ModelShape, ModelSource, PRESETS, SettingDifference, fields,
};
use grpo_lambda_trainer::input::task::{Level, Task, TaskSource};
use std::path::PathBuf;

fn tiny(overrides: &[&str]) -> Config {
    Config::resolve("tiny", overrides).expect("accepted")
}

#[test]
fn a_refusal_names_the_line_it_is_about() {
    for (text, expected) in [
        ("seed = 1\n[rl]\n\nsteps = -2\n", "a.toml, line 4: rl.steps = -2: must be "),
        ("rl.steps = 1\nrl.step = 2\n", "a.toml, line 2: unknown key `rl.step`"),
        ("# a method\n[method]\nlambda = 2\n", "a.toml, line 3: method.lambda=2: must be "),
        ("[method]\nname = \"grpu\"\n", "a.toml, line 2: unknown method `grpu`"),
        ("[rl]\ntop_p = 0.9\n", "a.toml, line 2: rl.top_p: "),
        ("seed = 1\nrl = 5\n", "a.toml, line 2: unknown key `rl`"),
    ] {
        let error = Config::parse(text, "a.toml").expect_err("must be refused").to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn the_tiny_preset_mentions_every_field_and_only_those() {
    let mut given = RawSettings::default();
    given.read(PRESETS[0].text, "tiny").expect("known keys");
    for field in fields() {
        assert!(given.0.contains_key(field.key), "{} is not in tiny.toml", field.key);
    }
    tiny(&[]);
}

/// A run that was begun before there were these settings has the defaults, and is resumed with the preset.
#[test]
fn every_shipped_preset_is_accepted_with_the_defaults_of_later_settings() {
    let new =
        ["children", "segment", "forks", "branches", "completions", "step_start"].map(|k| format!("rl.{k}"));
    let default = |key: &str| {
        let field = fields().find(|f| f.key == key).expect("a field");
        field.kind.canonical(field.default)
    };
    for preset in PRESETS {
        let config = Config::resolve_part(preset.name, &[] as &[&str])
            .unwrap_or_else(|e| panic!("{}: {e}", preset.name));
        for (key, value) in
            config.entries().filter(|(k, _)| k.starts_with("critic.") || new.iter().any(|n| n == k))
        {
            assert_eq!(default(key).as_deref(), Some(value), "{}: {key}", preset.name);
        }
    }
}

#[test]
fn a_critic_learns_more_slowly_from_a_checkpoint_unless_a_rate_is_given() {
    assert_eq!(tiny(&[]).critic_rate(), 1e-3);
    assert_eq!(tiny(&["model.checkpoint=somewhere"]).critic_rate(), 1e-5);
    assert_eq!(tiny(&["model.checkpoint=somewhere", "critic.lr=0.01"]).critic_rate(), 0.01);
}

#[test]
fn defaults_are_in_range_and_a_configuration_from_nothing_is_the_defaults() {
    let config = Config::parse("", "nothing").expect("defaults are valid");
    for (key, value) in config.entries().filter(|(k, _)| !k.starts_with(METHOD)) {
        let field = fields().find(|f| f.key == key).expect("a field");
        assert_eq!(field.kind.canonical(field.default).as_deref(), Some(value), "{key}");
    }
    assert_eq!(config.method, "grpo_lambda");
}

#[test]
fn a_resolved_configuration_is_a_preset_that_repeats_it() {
    let checkpoint = "model.checkpoint=/data/a \"b\" c";
    for overrides in [
        &[][..],
        &["rl.lr=1e-6", "rl.grad_clip=none", "task.levels=4", "method.beta=1e-9", "method.clamp=none"],
        &["method.name=grpo", "method.clip=two_sided", "seed=9223372036854775807"],
        &[checkpoint, "rl.temperature=0.7", "adam.epsilon=1e-30"],
        &["task.kind=addition", "rl.dynamic_sampling=true", "sft.lr=123456789012345680000"],
    ] {
        let config = tiny(overrides);
        let text = config.to_toml();
        let again = Config::parse(&text, "config.toml").unwrap_or_else(|e| panic!("{e} in\n{text}"));
        assert_eq!(again, config, "{text}");
        assert_eq!(again.to_toml(), text);
        assert_eq!(config.differences(&again), []);
    }
    assert_eq!(tiny(&["rl.lr=1e-6"]), tiny(&["rl.lr=0.000001"]));
    assert_eq!(tiny(&["method.beta=1e-6"]), tiny(&["method.beta=0.000001"]));
}

#[test]
fn values_arrive_in_their_sections() {
    let config = tiny(&[
        "rl.group_size=4",
        "rl.grad_clip=none",
        "sft.schedule=linear",
        "task.levels=2,4",
        "task.max_operand=99",
        "method.lambda=0.5",
        "eval.temperature=1",
        "model.hidden=64",
        "threads=3",
    ]);
    assert_eq!((config.rl.group_size, config.rl.grad_clip), (4, None));
    assert_eq!(config.sft.grad_clip, Some(1.0));
    assert_eq!((config.sft.schedule, config.sft.steps), (ScheduleShape::Linear, config.sft.steps));
    let level = |steps| Level { steps, max_operand: 99 };
    assert_eq!(config.task, TaskSource::Embedded(Task::Stories(vec![level(2), level(4)])));
    assert_eq!(config.configured().settings.number("lambda"), 0.5);
    assert!(matches!(config.model, ModelSource::Random(ModelShape { hidden: 64, .. })));
    assert_eq!((config.eval.temperature, config.threads), (1.0, 3));
    let from_disk = tiny(&["model.checkpoint=/models/q"]);
    assert_eq!(from_disk.model, ModelSource::Checkpoint(PathBuf::from("/models/q")));
    assert!(!from_disk.to_toml().contains("hidden"));
}

#[test]
fn the_weights_of_gdpo_are_those_of_the_reward_also_after_it_changed() {
    let weights =
        |config: &Config| [1, 2, 3].map(|k| config.configured().settings.number(&format!("weight_{k}")));
    let first = tiny(&["method.name=gdpo", "reward.format=0.1", "reward.coin=2"]);
    assert_eq!(weights(&first), [1.0, 0.1, 2.0]);
    let read = Config::parse(&first.to_toml(), "config.toml").expect("its own");
    assert_eq!((weights(&read), read.differences(&first)), ([1.0, 0.1, 2.0], vec![]));
    for (change, expected) in [
        ("reward.format=0.2", [1.0, 0.2, 2.0]),
        ("reward.accuracy=0", [0.1, 2.0, 1.0]),
        ("reward.tag_count=0.5", [1.0, 0.1, 0.5]),
        ("method.weight_1=3", [3.0, 0.1, 2.0]),
    ] {
        match read.with(&[change]) {
            Ok(config) => assert_eq!(weights(&config), expected, "{change}"),
            Err(e) => assert!(e.to_string().contains("reward.coin = 2: method.name=gdpo weighs"), "{e}"),
        }
    }
    // A stored run has the numbers; it can be resumed.
    let stored = first.to_toml().replace("weight_2 = \"auto\"", "weight_2 = 0.1");
    assert_ne!(stored, first.to_toml());
    let stored = Config::parse(&stored, "config.toml").expect("valid");
    assert_eq!(stored.differences(&first), []);
    let other = stored.with(&["method.weight_2=0.3"]).expect("valid").differences(&first);
    assert!(other.iter().any(|d| d.key == "method.weight_2" && d.affects_result), "{other:?}");
}

#[test]
fn what_is_not_used_may_be_anything() {
    tiny(&["reward.overlong_limit=100"]);
    tiny(&["method.name=dapo", "method.overlong_limit=64", "method.overlong_cache=16"]);
    assert_eq!(tiny(&["rl.sets=1"]).rl.systematic_sets(), None);
}

#[test]
fn groups_are_systematic_or_trees_where_the_method_takes_them() {
    let systematic = tiny(&["rl.sampling=systematic", "method.name=systematic_rloo"]);
    assert_eq!(systematic.rl.systematic_sets().map(|sets| sets.count(8)), Some(2));
    let tree = ["method.name=spo_tree", "rl.sampling=tree"];
    tiny(&tree);
    tiny(&[&tree[..], &["rl.children=2,4", "rl.group_size=8"]].concat());
    tiny(&[&tree[..], &["rl.children=4,2,2", "rl.segment=16", "rl.max_new_tokens=33"]].concat());
}

#[test]
fn another_method_starts_from_its_own_defaults() {
    let preset = "[method]\nlambda = 0.5\nname = \"grpo_lambda\"\n";
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("mine.toml");
    std::fs::write(&path, preset).expect("writing");
    let path = path.to_str().expect("UTF-8");
    let own = Config::resolve(path, &[""; 0]).expect("valid");
    assert_eq!(own.configured().settings.number("lambda"), 0.5);
    let other = Config::resolve(path, &["method.clip=none", "method.name=grpo"]).expect("lambda is dropped");
    assert_eq!((other.method.as_str(), other.configured().settings.word("clip")), ("grpo", "none"));
}

#[test]
fn differences_are_listed_and_harmless_ones_marked() {
    let (one, other) =
        (tiny(&["threads=1", "rl.lr=0.0002", "method.name=grpo"]), tiny(&["rl.lr=0.5", "method.name=rloo"]));
    let lines: Vec<String> = one.differences(&other).iter().map(ToString::to_string).collect();
    assert!(lines.contains(&"rl.lr: 0.0002 -> 0.5".to_owned()), "{lines:?}");
    assert!(lines.contains(&"method.name: grpo -> rloo".to_owned()));
    let harmless: Vec<SettingDifference> =
        one.differences(&other).into_iter().filter(|d| !d.affects_result).collect();
    assert_eq!(harmless.iter().map(|d| d.key.as_str()).collect::<Vec<_>>(), ["threads"]);
}

#[test]
fn the_constant_divisor_of_a_loss_is_the_completion_limit() {
    let divisor = |words: &[&str]| tiny(words).configured().settings.number("max_length");
    let dr_grpo = "method.name=dr_grpo";
    assert_eq!(divisor(&[dr_grpo, "rl.max_new_tokens=64"]), 64.0);
    assert_eq!(divisor(&[dr_grpo, "rl.max_new_tokens=512"]), 512.0);
    assert_eq!(divisor(&[dr_grpo, "method.max_length=auto", "rl.max_new_tokens=48"]), 48.0);
    assert_eq!(divisor(&[dr_grpo, "method.max_length=100", "rl.max_new_tokens=48"]), 100.0);
    assert_eq!(tiny(&[]).idle(), [""; 0], "nobody said anything of it");
    assert_eq!(tiny(&["method.max_length=64"]).idle().len(), 1);
    // Another limit over a resolved configuration has its own divisor.
    let later = tiny(&[dr_grpo]).with(&["rl.max_new_tokens=32"]).expect("valid");
    assert_eq!(later.configured().settings.number("max_length"), 32.0);
    // A stored run says 256 where the divisor has no effect; it can be resumed.
    let (old, new) = (tiny(&["method.max_length=256"]), tiny(&[]));
    assert!(old.differences(&new).iter().all(|d| !d.affects_result), "{:?}", old.differences(&new));
    let (old, new) = (tiny(&[dr_grpo, "method.max_length=256"]), tiny(&[dr_grpo]));
    assert!(old.differences(&new).iter().any(|d| d.key == "method.max_length" && d.affects_result));
}
