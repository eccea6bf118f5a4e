//! Advice on words that the command line does not know: a command that is gone, and an option that is a setting (`train --steps 3` means
//! `rl.steps=3`).

use grpo_lambda_trainer::config::hints;

/// The commands that are gone, with what does their work.
const GONE: [(&str, &str); 4] = [
    (
        "explain",
        "llm-train train --dry-run prints the objective of a run as an equation, sim methods NAME that of a method",
    ),
    (
        "info",
        "llm-train train --dry-run prints the model and its memory item by item; llm-train bench NAME --device dry counts for a shape alone",
    ),
    (
        "merge",
        "llm-train export --model BASE --adapter DIR --out DIR writes base and adapter as one checkpoint",
    ),
    (
        "serve",
        "vllm serve DIR serves the checkpoint that llm-train export writes, and llm-train train rollout.url=URL trains with it (docs/engines.md)",
    ),
];

/// The refusal of a command that is gone; nothing for any other word.
pub(crate) fn for_command(word: &str) -> Option<String> {
    let (_, instead) = GONE.iter().find(|(name, _)| *name == word)?;
    Some(format!("llm-train {word}: no longer a command; {instead}"))
}

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

#[cfg(test)]
mod tests {
    use super::{for_command, for_option};
    use crate::commands::Cli;
    use clap::CommandFactory;

    #[test]
    fn an_option_that_is_a_setting_is_answered_with_the_setting() {
        let said = |option: &str, value: Option<&str>| for_option(option, value).unwrap_or_default();
        assert_eq!(said("--steps", Some("3")), "a setting is key=value, here rl.steps=3 or sft.steps=3");
        assert_eq!(said("--group-size=4", None), "a setting is key=value, here rl.group_size=4");
        assert_eq!(said("--method", Some("GRPO")), "a setting is key=value, here method.name=grpo");
        assert!(said("--learning_rate", Some("1e-6")).contains("here it is `rl.lr`"));
        assert_eq!(for_option("--qqq", None), None);
        assert_eq!(for_option("-x", None), None);
    }

    #[test]
    fn a_command_that_is_gone_is_refused_by_one_that_is_there() {
        let line = Cli::command();
        for (gone, _) in super::GONE {
            let said = for_command(gone).unwrap_or_default();
            assert!(
                line.find_subcommand(gone).is_none() && said.starts_with(&format!("llm-train {gone}: ")),
                "{said}"
            );
            let named = said.split("llm-train ").skip(2).filter_map(|rest| rest.split_whitespace().next());
            named.for_each(|name| assert!(line.find_subcommand(name).is_some(), "{said}"));
        }
        assert_eq!(for_command("export"), None);
    }

    #[test]
    fn no_page_tells_a_command_that_is_gone() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let pages = std::fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
        for page in
            pages.chain([root.join("README.md")]).filter(|page| page.extension().is_some_and(|e| e == "md"))
        {
            let text = std::fs::read_to_string(&page).unwrap();
            let told = super::GONE.iter().filter(|(gone, _)| text.contains(&format!("llm-train {gone} ")));
            assert_eq!(told.map(|(gone, _)| *gone).collect::<Vec<_>>(), [""; 0], "{}", page.display());
        }
    }
}
