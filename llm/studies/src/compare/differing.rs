//! The settings in which the methods of a comparison differ: what a difference in accuracy may be due to.

use std::collections::BTreeSet;

use super::entry::Entry;
use super::plan::Plan;
use crate::terminal;
use grpo_lambda_trainer::config::Config;

/// The heading of their list.
pub const DIFFERING: &str = "The methods differ in these settings (- where a method does not have one, or it has no \
                             effect), and any of them may be what a result shows; a setting is made equal in \
                             --methods, as in grpo:reduction=token_mean.";

/// A setting in which methods differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DifferingSetting {
    /// `reduction` for a setting of the method, `rl.lr` for one of its runs.
    pub key: String,
    /// The value of each method in order; `None` where it does not have the setting, or the setting has no effect.
    pub values: Vec<Option<String>>,
}

/// The settings in which the methods of a plan differ: first those that every method has, then those of some, each
/// sorted by key.
pub fn differing(plan: &Plan) -> Vec<DifferingSetting> {
    let configs: Vec<Config> =
        plan.entries.iter().filter_map(|entry| plan.base.with(&entry.overrides()).ok()).collect();
    let effective: Vec<Vec<(String, String)>> =
        configs.iter().map(Config::effective_method_settings).collect();
    let runs: Vec<Vec<(String, String)>> = configs
        .iter()
        .map(|config| {
            let of_run = config.entries().filter(|(key, _)| key.starts_with("rl."));
            of_run.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
        })
        .collect();
    let mut found: Vec<DifferingSetting> =
        [effective, runs].iter().flat_map(|columns| unequal(columns)).collect();
    // What every method has and sets otherwise comes first: it can be made equal.
    found.sort_by_key(|setting| setting.values.iter().any(Option::is_none));
    found
}

/// The keys under which the columns do not all hold the same.
fn unequal(columns: &[Vec<(String, String)>]) -> Vec<DifferingSetting> {
    let keys: BTreeSet<&String> = columns.iter().flatten().map(|(key, _)| key).collect();
    let row = |key: &String| DifferingSetting {
        key: key.clone(),
        values: columns
            .iter()
            .map(|column| column.iter().find(|(k, _)| k == key).map(|(_, value)| value.clone()))
            .collect(),
    };
    keys.into_iter().map(row).filter(|row| row.values.iter().any(|value| *value != row.values[0])).collect()
}

/// Their table for a terminal, a column for each method; empty if nothing differs.
pub fn in_words(settings: &[DifferingSetting], plan: &Plan) -> String {
    if settings.is_empty() {
        return String::new();
    }
    let labels = plan.entries.iter().map(|e| e.label.replacen(':', "\n", 1).replace(',', "\n"));
    let heads: Vec<String> = std::iter::once("setting".to_owned()).chain(labels).collect();
    let mut table = terminal::table(heads);
    let names = plan.entries.iter().map(Entry::reader_name);
    table.add_row(std::iter::once("(in atlas and tables)".to_owned()).chain(names));
    for DifferingSetting { key, values } in settings {
        let cells = values.iter().map(|value| value.clone().unwrap_or_else(|| "-".to_owned()));
        table.add_row(std::iter::once(key.clone()).chain(cells));
    }
    format!("{table}\n")
}

#[cfg(test)]
mod tests {
    use super::super::parse_methods;
    use super::*;

    fn differences(methods: &str) -> Vec<(String, Vec<String>)> {
        let base = Config::resolve("tiny", &["rl.max_new_tokens=48"]).expect("valid");
        let plan = Plan::new(parse_methods(methods).expect("valid"), 2, base).expect("valid");
        let shown = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        let row = |s: DifferingSetting| (s.key, s.values.into_iter().map(shown).collect());
        differing(&plan).into_iter().map(row).collect()
    }

    fn row(key: &str, values: [&str; 2]) -> (String, Vec<String>) {
        (key.to_owned(), values.map(str::to_owned).to_vec())
    }

    #[test]
    fn a_comparison_that_is_confounded_shows_by_what() {
        let found = differences("grpo,grpo_lambda");
        // GRPO means over responses and does not clamp; GRPO-lambda means over tokens and does.
        for expected in [row("reduction", ["response_mean", "token_mean"]), row("clamp", ["none", "-0.1"])] {
            assert!(found.contains(&expected), "{expected:?}: {found:?}");
        }
        assert!(found.contains(&row("lambda", ["-", "0.99"])), "{found:?}");
        assert!(!found.iter().any(|(key, _)| key == "beta" || key == "max_length"), "{found:?}");
        let equal = differences("grpo:reduction=token_mean,clamp=-0.1,grpo_lambda");
        assert!(!equal.iter().any(|(key, _)| key == "reduction" || key == "clamp"), "{equal:?}");
    }

    #[test]
    fn a_divisor_is_the_completion_limit_of_the_runs_and_settings_of_runs_are_distinguished() {
        let found = differences("grpo,dr_grpo:rl.lr=0.001");
        assert!(found.contains(&row("max_length", ["-", "48"])), "{found:?}");
        assert!(found.contains(&row("rl.lr", ["0.0001", "0.001"])), "{found:?}");
        assert!(differences("grpo,grpo:beta=0.1").iter().any(|(key, _)| key == "beta"));
        // The weight of the KL term is the only thing two such entries differ in.
        assert_eq!(differences("grpo,grpo:max_length=3").len(), 0, "it has no effect in a mean");
    }
}
