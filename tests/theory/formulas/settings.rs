use grpo_lambda::methods::{REGISTRY, parse};
use grpo_lambda::settings::Silence;

#[test]
fn silence_is_distinguished_from_the_setting_that_is_read() {
    assert!(idle("high_entropy", "top_fraction=0.05 entropy_scope=response").is_empty());
    assert_eq!(
        idle("high_entropy", "top_fraction=0.05 entropy_scope=response entropy_threshold=0.5"),
        ["top_fraction=0.05", "entropy_scope=response"]
            .map(|own| format!("{own} has no effect with entropy_threshold=0.5"))
    );
    // A number is one number however it is spelt.
    assert_eq!(idle("grpo", "kl=k1 beta=0.0"), ["kl=k1 has no effect with beta=0.0"]);
    assert!(idle("grpo", "epsilon_low=0.20 clip=none").is_empty(), "the default");
    // The clipped trace reads the bounds whatever the clip.
    assert!(idle("p_trace_reconstructed", "form=clipped clip=none epsilon_low=0.1").is_empty());
    let other_form = idle("p_trace_reconstructed", "form=history clip=none epsilon_low=0.1");
    assert_eq!(other_form, ["epsilon_low=0.1 has no effect with clip=none"]);
}

fn idle(method: &str, settings: &str) -> Vec<String> {
    parse(method, settings).expect("valid").idle()
}

#[test]
fn a_changed_setting_without_effect_is_named_with_the_one_that_silences_it() {
    for (settings, expected) in [
        ("soft_clamp=inner", "soft_clamp=inner has no effect with update=trace"),
        ("floor=0.1", "floor=0.1 has no effect with matrix=equation"),
        ("max_length=64", "max_length=64 has no effect with reduction=token_mean"),
        ("kl=k2", "kl=k2 has no effect with beta=0"),
        ("clip_max=3", "clip_max=3 has no effect with clip=ppo"),
        ("clip=printed epsilon_low=0.1", "epsilon_low=0.1 has no effect with clip=printed"),
        ("clip=none epsilon_high=0.1", "epsilon_high=0.1 has no effect with clip=none"),
        ("scale=none std_ddof=0", "std_ddof=0 has no effect with scale=none"),
    ] {
        assert_eq!(idle("grpo_lambda", settings), [expected]);
    }
    assert!(idle("grpo_lambda", "update=weight soft_clamp=inner matrix=row_index floor=0.1").is_empty());
    assert!(idle("grpo_lambda", "soft_clamp=matrix clip_max=4 max_length=256").is_empty(), "the defaults");
}

#[test]
fn what_silences_a_setting_is_a_value_the_other_setting_takes() {
    for &spec in REGISTRY {
        let params = (spec.params)();
        for p in &params {
            for (key, silence) in &p.idle_under {
                let other =
                    params.iter().find(|o| o.key == *key).unwrap_or_else(|| panic!("{}: {key}", p.key));
                let taken = |value: &&str| other.kind.canonical(value).is_some();
                let fits = match silence {
                    Silence::Of(values) => values.iter().all(taken),
                    Silence::AllBut(value) => taken(value),
                };
                assert!(fits, "{}: {key} never takes {silence:?}", p.key);
            }
        }
    }
}
