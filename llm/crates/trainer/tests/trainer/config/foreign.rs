use grpo_lambda_trainer::config::fields;
use grpo_lambda_trainer::config::foreign::names;
use grpo_lambda_trainer::config::hints;

/// Every key in backticks exists: no advice leads into another refusal.
#[test]
fn what_stands_for_them_exists() {
    let methods: Vec<&str> =
        grpo_lambda::methods::REGISTRY.iter().flat_map(|m| (m.params)()).map(|p| p.key).collect();
    for (theirs, ours) in names() {
        for key in ours.split('`').skip(1).step_by(2) {
            let key = key.split('=').next().unwrap_or(key);
            let known = match key.strip_prefix("method.") {
                Some(setting) => setting == "name" || methods.contains(&setting),
                None => fields().any(|field| field.key == key) || key == "dapo",
            };
            assert!(known, "{theirs}: {key}");
        }
        assert!(!fields().any(|field| field.key == theirs), "{theirs} is a key of ours");
    }
    for own in ["rl.lr", "stepz"] {
        assert!(!hints::of_key(own).contains("TRL or verl"), "{own}");
    }
}
