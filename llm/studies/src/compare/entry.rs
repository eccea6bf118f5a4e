//! The methods of a comparison, as `grpo,grpo_lambda:style=both,lambda=0.9,rloo:rl.lr=1e-4`.

use grpo_lambda::methods;
use grpo_lambda::settings::SettingError;

use grpo_lambda_trainer::config::{divisor, hints};

/// A method in the comparison, with all of its settings and those of its runs that differ from the common ones.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Entry {
    /// Its name in the registry.
    pub name: &'static str,
    /// Its name for a reader.
    pub title: &'static str,
    pub settings: Vec<(String, String)>,
    /// Settings under `rl.` in which its run differs from the common ones.
    pub run: Vec<(String, String)>,
    /// The name with the settings that are not defaults: `grpo_lambda:style=both`. Itself a spelling of the entry.
    pub label: String,
}

impl Entry {
    /// From the name of a method and `key=value` words over its defaults; keys under `rl.` are the run's.
    pub fn new(name: &str, words: &[(String, String)]) -> Result<Entry, String> {
        // One spelling per number, as in a configuration: 1e-3 and 0.001 are the same method.
        let number =
            |value: &String| value.parse::<f64>().ok().filter(|x| x.is_finite()).map(|x| x.to_string());
        let words =
            words.iter().map(|(key, value)| (key.clone(), number(value).unwrap_or_else(|| value.clone())));
        let (mut run, of_method): (Vec<_>, Vec<_>) = words.partition(|(key, _)| key.contains('.'));
        run.sort();
        for (i, (key, value)) in run.iter().enumerate() {
            if !key.starts_with("rl.") {
                return Err(format!(
                    "--methods: {name}: {key}={value}: a method has its own settings and those under rl.; the others \
                     are common to all"
                ));
            }
            if key == "rl.steps" {
                return Err(format!(
                    "--methods: {name}: {key}={value}: methods are compared step by step, so rl.steps is common to all"
                ));
            }
            if run[..i].iter().any(|(k, _)| k == key) {
                return Err(format!("--methods: {name}: {key} is given twice"));
            }
        }
        let automatic: Vec<_> =
            of_method.iter().filter(|(key, value)| !divisor::is_auto(key, value)).cloned().collect();
        let configured = methods::configure(name, &automatic).map_err(hints::with_method_hint);
        let configured = configured.map_err(|e| match e {
            SettingError::UnknownMethod { .. } => format!("--methods: {e}"),
            e => format!("--methods: {name}: {e}"),
        })?;
        let said = |key: &str| automatic.iter().any(|(k, _)| k == key);
        let settings: Vec<(String, String)> = configured
            .settings
            .entries()
            .map(|(key, value)| (key.to_owned(), divisor::unless_said(key, value, said(key)).to_owned()))
            .collect();
        let defaults = (configured.spec.params)();
        let default = |key: &str| {
            defaults.iter().find(|p| p.key == key).map(|p| divisor::unless_said(key, &p.default, false))
        };
        let value = |key: &str| settings.iter().find(|(k, _)| k == key).map(|(_, value)| value.as_str());
        let changed = defaults.iter().filter(|p| value(p.key) != default(p.key));
        let changed = changed.filter_map(|p| Some(format!("{}={}", p.key, value(p.key)?)));
        let own = run.iter().map(|(key, value)| format!("{key}={value}"));
        let words: Vec<String> = changed.chain(own).collect();
        let colon = if words.is_empty() { "" } else { ":" };
        Ok(Entry {
            name: configured.spec.name,
            title: configured.spec.title,
            settings,
            label: format!("{}{colon}{}", configured.spec.name, words.join(",")),
            run,
        })
    }

    /// Its name as the atlas and the paper's tables have it: `GRPO` is the mean over tokens, `GRPO, 1/T` the mean over
    /// responses.
    pub fn reader_name(&self) -> String {
        let word = |key: &str| self.settings.iter().find(|(k, _)| k == key).map_or("", |(_, v)| v.as_str());
        let mut name = self.title.to_owned();
        if self.name == "grpo" {
            name += match word("reduction") {
                "token_mean" => "",
                "response_mean" => ", 1/T",
                _ => ", other reduction",
            };
        }
        let defaults = methods::find(self.name).map(|spec| (spec.params)()).unwrap_or_default();
        match (word("clamp"), defaults.iter().find(|p| p.key == "clamp")) {
            (clamp, Some(default)) if clamp != default.default => {
                name += &if clamp == "none" { ", no clamp".to_owned() } else { format!(", clamp {clamp}") };
            }
            _ => {}
        }
        name
    }

    /// Its directory's name: the label in letters, digits, `.`, `-` and `_`.
    pub fn slug(&self) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
        self.label.chars().map(plain).collect()
    }

    /// Settings of its runs over the common configuration.
    pub fn overrides(&self) -> Vec<String> {
        let method = self.settings.iter().map(|(k, v)| format!("method.{k}={v}"));
        let own = self.run.iter().map(|(k, v)| format!("{k}={v}"));
        std::iter::once(format!("method.name={}", self.name)).chain(method).chain(own).collect()
    }
}

/// Reads `grpo,grpo_lambda:style=both,lambda=0.9`: methods separated by commas, settings of a method after a colon and
/// separated by commas as well.
///
/// ```
/// use grpo_lambda_studies::compare::parse_methods;
/// let two = parse_methods("grpo,grpo_lambda:style=both,lambda=0.9").unwrap();
/// assert_eq!(two.iter().map(|m| m.label.as_str()).collect::<Vec<_>>(), ["grpo", "grpo_lambda:lambda=0.9,style=both"]);
/// ```
pub fn parse(text: &str) -> Result<Vec<Entry>, String> {
    let mut given: Vec<(String, Vec<(String, String)>)> = Vec::new();
    for word in text.split(',').map(str::trim) {
        let bad = |what: &str| {
            format!("--methods: {word:?} in {text:?}: {what}; write name:key=value,key=value,name")
        };
        let (name, setting) = match (word.split_once(':'), word.contains('=')) {
            (Some((name, setting)), _) if !name.contains('=') => (Some(name), Some(setting)),
            (_, true) => (None, Some(word)),
            (_, false) => (Some(word), None),
        };
        if let Some(name) = name {
            if name.is_empty() {
                return Err(bad("the name of a method is missing"));
            }
            given.push((name.to_owned(), Vec::new()));
        }
        if let Some(setting) = setting {
            let pair = setting.split_once('=').filter(|(key, value)| !key.is_empty() && !value.is_empty());
            let (key, value) = pair.ok_or_else(|| bad("a setting is key=value"))?;
            let (_, settings) = given.last_mut().ok_or_else(|| bad("a setting before any method"))?;
            settings.push((key.to_owned(), value.to_owned()));
        }
    }
    let entries = given.iter().map(|(name, words)| Entry::new(name, words)).collect::<Result<Vec<_>, _>>()?;
    for (i, entry) in entries.iter().enumerate() {
        let equal = |other: &&Entry| other.slug().eq_ignore_ascii_case(&entry.slug());
        if let Some(other) = entries[..i].iter().find(equal) {
            return Err(format!(
                "--methods: {} is given twice (as {} and {})",
                other.label,
                spelt(&given, &entries, other),
                spelt_at(&given, i)
            ));
        }
    }
    Ok(entries)
}

fn spelt_at(given: &[(String, Vec<(String, String)>)], i: usize) -> String {
    let (name, words) = &given[i];
    let words: Vec<String> = words.iter().map(|(k, v)| format!("{k}={v}")).collect();
    if words.is_empty() { name.clone() } else { format!("{name}:{}", words.join(",")) }
}

fn spelt(given: &[(String, Vec<(String, String)>)], entries: &[Entry], of: &Entry) -> String {
    entries.iter().position(|e| e == of).map_or_else(|| of.label.clone(), |i| spelt_at(given, i))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(text: &str) -> Vec<String> {
        parse(text).expect(text).into_iter().map(|e| e.label).collect()
    }

    #[test]
    fn settings_belong_to_the_method_before_them() {
        assert_eq!(labels("grpo, rloo"), ["grpo", "rloo"]);
        assert_eq!(
            labels("grpo_lambda:style=both,lambda=0.9,grpo:beta=0.1,rloo"),
            ["grpo_lambda:style=both,lambda=0.9", "grpo:beta=0.1", "rloo"].map(|l| {
                // A label lists settings in the method's own order.
                parse(l).expect("a label is a spelling")[0].label.clone()
            })
        );
        // A default is no setting of its own.
        assert_eq!(labels("grpo_lambda:style=recent"), ["grpo_lambda"]);
        assert_eq!(labels("grpo,grpo:rl.lr=1e-3"), ["grpo", "grpo:rl.lr=0.001"]);
    }

    #[test]
    fn a_label_is_a_spelling_of_its_entry_and_the_slug_a_file_name() {
        for text in ["grpo", "grpo_lambda:style=both,lambda=0.9,rl.lr=0.001", "rloo:clip=two_sided"] {
            let entry = parse(text).expect(text).remove(0);
            assert_eq!(parse(&entry.label).expect("a label"), std::slice::from_ref(&entry));
            assert!(!entry.slug().contains([':', '=', ',', '/']), "{}", entry.slug());
        }
        assert_eq!(parse("grpo:rl.lr=0.001").expect("one")[0].slug(), "grpo-rl.lr-0.001");
    }
}
