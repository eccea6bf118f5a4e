//! The file that tells the directory of one sweep from that of another.

use std::path::Path;

use grpo_lambda_decoder::disk::{Disk, TEMPORARY};
use grpo_lambda_trainer::config::Config;

use crate::failure::Failure;

/// The choices that make a sweep this one.
#[derive(Clone, Debug)]
pub struct Identity<'a> {
    /// `compare`: of the file, and of its section next to a configuration.
    pub name: &'static str,
    /// For messages, as in "a comparison".
    pub noun: &'static str,
    pub choices: Vec<(&'static str, toml::Value)>,
    /// The configuration that all runs share, where there is one.
    pub base: Option<&'a Config>,
}

impl Identity<'_> {
    fn file(&self) -> String {
        format!("{}.toml", self.name)
    }

    fn to_toml(&self) -> String {
        let choices: String = self.choices.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
        match self.base {
            Some(base) => format!("{}\n[{}]\n{choices}", base.to_toml(), self.name),
            None => choices,
        }
    }

    /// True if the directory holds this sweep, false if it is empty or missing. Errors if it holds anything else.
    pub fn check(&self, directory: &Path) -> Result<bool, Failure> {
        let (disk, file, shown) = (Disk::default(), self.file(), directory.display());
        let Some(stored) = disk.read(&directory.join(&file))? else {
            let temporary = format!("{file}{TEMPORARY}");
            return match disk.list(directory)?.iter().find(|name| **name != temporary) {
                None => Ok(false),
                Some(other) => Err(Failure::refused(format!(
                    "{shown} is not a {}: it holds {other} and no {file}; choose another directory",
                    self.noun
                ))),
            };
        };
        let differences = self.differences(&stored, &directory.join(&file).display().to_string())?;
        match differences.is_empty() {
            true => Ok(true),
            false => Err(Failure::refused(format!(
                "{shown} holds another {}: {}; use its own command, or choose another directory",
                self.noun,
                differences.join("; ")
            ))),
        }
    }

    /// [`Identity::check`], and writes the file where there is none.
    pub(crate) fn claim(&self, directory: &Path) -> Result<(), Failure> {
        if !self.check(directory)? {
            let disk = Disk::default().inside(directory)?;
            disk.replace(&directory.join(self.file()), self.to_toml().as_bytes())?;
        }
        Ok(())
    }

    /// The differences from a stored file, as `key: stored -> own`.
    fn differences(&self, stored: &[u8], path: &str) -> Result<Vec<String>, Failure> {
        let damaged = |problem: String| Failure::refused(format!("{path}: {problem}"));
        let text = std::str::from_utf8(stored).map_err(|e| damaged(format!("not UTF-8 text: {e}")))?;
        let mut table: toml::Table =
            text.parse().map_err(|e: toml::de::Error| damaged(e.message().to_owned()))?;
        let (choices, base) = match self.base {
            None => (toml::Value::Table(table), None),
            Some(own) => {
                let choices = table.remove(self.name).unwrap_or(false.into());
                (choices, Some((Config::parse(&table.to_string(), path)?, own)))
            }
        };
        let stored = |key: &str| choices.get(key).map_or("(absent)".to_owned(), toml::Value::to_string);
        let choice = |(key, value): &(&str, toml::Value)| {
            let (old, new) = (stored(key), value.to_string());
            (old != new).then(|| format!("{key}: {old} -> {new}"))
        };
        let mut differences: Vec<String> = self.choices.iter().filter_map(choice).collect();
        let settings = base.map_or(Vec::new(), |(base, own)| base.differences(own));
        differences.extend(settings.iter().filter(|d| d.affects_result).map(ToString::to_string));
        Ok(differences)
    }
}
