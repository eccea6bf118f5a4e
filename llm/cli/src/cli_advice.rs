//! Advice on an option that is a setting: `train --steps 3` means `rl.steps=3`.

use grpo_lambda_trainer::config::hints;

/// Advice for an unknown option of a command that takes settings; nothing where no setting is meant. `value` is what follows it.
pub(crate) fn for_option(option: &str, value: Option<&str>) -> Option<String> {
    let word = option.strip_prefix("--")?;
    let (word, value) = match word.split_once('=') {
        Some((word, value)) => (word, Some(value)),
        None => (word, value.filter(|v| !v.starts_with('-'))),
    };
    let key = word.replace('-', "_");
    let shown = value.unwrap_or("VALUE");
    if key == "method" {
        return Some(format!("a setting is key=value, here method.name={}", shown.to_lowercase()));
    }
    let hint = hints::of_key(&key);
    let named: Vec<&str> = hint.split('`').skip(1).step_by(2).collect();
    // Reinforcement learning is what most settings are of.
    let mut keys: Vec<&str> = named;
    keys.sort_by_key(|key| !key.starts_with("rl."));
    match keys.as_slice() {
        [] => None,
        [first, others @ ..] if hint.contains("did you mean") => {
            let others: Vec<String> = others.iter().map(|key| format!(" or {key}={shown}")).collect();
            Some(format!("a setting is key=value, here {first}={shown}{}", others.concat()))
        }
        _ => Some(format!("a setting is key=value{hint}")),
    }
}
