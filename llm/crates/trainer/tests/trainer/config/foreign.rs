use grpo_lambda_trainer::config::fields;
use grpo_lambda_trainer::config::foreign::{NAMES, hint};

#[test]
fn names_of_other_trainers_lead_to_ours() {
    for (theirs, ours) in [
        ("learning_rate", "`rl.lr`"),
        ("--num-generations", "`rl.group_size`"),
        ("actor_rollout_ref.rollout.n", "`rl.group_size`"),
        ("actor_rollout_ref.actor.optim.lr", "`rl.lr`"),
        ("lora.dropout", "not there"),
        ("critic.cliprange_value", "`critic.clip`"),
        ("critic.ppo_epochs", "`critic.updates`"),
        ("actor.ppo_epochs", "`rl.inner_updates`"),
        ("loss_type", "method.name=dr_grpo"),
    ] {
        assert!(hint(theirs).is_some_and(|said| said.contains(ours)), "{theirs}: {:?}", hint(theirs));
    }
    assert_eq!(hint("rl.lr"), None);
    assert_eq!(hint("stepz"), None);
}

/// Every key in backticks exists: no advice leads into another refusal.
#[test]
fn what_stands_for_them_exists() {
    let methods: Vec<&str> =
        grpo_lambda::methods::REGISTRY.iter().flat_map(|m| (m.params)()).map(|p| p.key).collect();
    for f in NAMES {
        for key in f.ours.split('`').skip(1).step_by(2) {
            let key = key.split('=').next().unwrap_or(key);
            let known = match key.strip_prefix("method.") {
                Some(setting) => setting == "name" || methods.contains(&setting),
                None => fields().any(|field| field.key == key) || key == "dapo",
            };
            assert!(known, "{}: {key}", f.theirs);
        }
        assert!(!fields().any(|field| field.key == f.theirs), "{} is a key of ours", f.theirs);
    }
}
