//! The plan of a comparison, and the file that stores it.

use std::path::{Path, PathBuf};

use grpo_lambda_decoder::disk::{Disk, DiskError, TEMPORARY};

use super::entrant::Entrant;
use grpo_lambda_trainer::config::{Config, ConfigError};

/// A comparison that was refused.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    #[error("{0}")]
    Refused(String),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Disk(#[from] DiskError),
    #[error(
        "{path} holds another comparison; use its own command, or another directory with --run DIR: {differences}"
    )]
    Changed {
        path: PathBuf,
        /// What differs, stored -> asked for.
        differences: String,
    },
    #[error("{path} is not a comparison: it has no {FILE}, but it is not empty either")]
    NotOurs { path: PathBuf },
}

/// A comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The methods; the others are compared with the first.
    pub entrants: Vec<Entrant>,
    /// How many seeds, from that of `base` on.
    pub seeds: u64,
    /// Whether the first method also runs at the rates that equalise rate times mean token weight.
    pub ablate_rate: bool,
    /// The configuration that all runs share.
    pub base: Config,
}

const FILE: &str = "compare.toml";

impl Plan {
    /// Checks that every run of the comparison has a configuration.
    pub fn new(
        entrants: Vec<Entrant>,
        seeds: u64,
        ablate_rate: bool,
        base: Config,
    ) -> Result<Plan, PlanError> {
        if entrants.len() < 2 {
            let one = entrants.first().map_or("none", |e| e.label.as_str());
            return Err(PlanError::Refused(format!(
                "--methods: a comparison needs two methods or more, as in grpo,grpo_lambda:style=both; given: {one}"
            )));
        }
        if base.rl.steps == 0 {
            return Err(PlanError::Refused(
                "rl.steps = 0: a comparison needs at least one RL step".to_owned(),
            ));
        }
        if base.seed.checked_add(seeds).is_none_or(|end| end > i64::MAX as u64) {
            return Err(PlanError::Refused(format!(
                "seed = {}: too large for {seeds} seeds after it",
                base.seed
            )));
        }
        let plan = Plan { entrants, seeds, ablate_rate, base };
        for entrant in &plan.entrants {
            plan.member(entrant, plan.base.seed, Path::new("checkpoint"))?;
        }
        Ok(plan)
    }

    pub fn all_seeds(&self) -> impl Iterator<Item = u64> + use<> {
        self.base.seed..self.base.seed + self.seeds
    }

    /// The configuration of a seed's supervised stage.
    pub fn supervised(&self, seed: u64) -> Result<Config, ConfigError> {
        self.base.with(&[format!("seed={seed}"), "rl.steps=0".to_owned(), "method.name=grpo".to_owned()])
    }

    /// The configuration of RL with a method from a seed's supervised checkpoint.
    pub fn member(&self, entrant: &Entrant, seed: u64, checkpoint: &Path) -> Result<Config, ConfigError> {
        let mut overrides = entrant.overrides();
        overrides.extend([
            format!("seed={seed}"),
            "sft.steps=0".to_owned(),
            format!("model.checkpoint={}", checkpoint.display()),
        ]);
        self.base.with(&overrides)
    }

    /// Writes the plan into `directory`, or checks that the directory is this comparison's.
    pub fn claim(&self, directory: &Path) -> Result<(), PlanError> {
        let disk = Disk::default();
        let path = directory.join(FILE);
        let Some(stored) = disk.read(&path)? else {
            let ours = format!("{FILE}{TEMPORARY}");
            if directory.exists() && disk.list(directory)?.iter().any(|name| *name != ours) {
                return Err(PlanError::NotOurs { path: directory.to_owned() });
            }
            disk.create_directories(directory)?;
            return Ok(disk.replace(&path, self.to_toml().as_bytes())?);
        };
        let damaged = |problem: String| PlanError::Refused(format!("{}: {problem}", path.display()));
        let text = String::from_utf8(stored).map_err(|e| damaged(format!("not UTF-8 text: {e}")))?;
        let mut table: toml::Table =
            text.parse().map_err(|e: toml::de::Error| damaged(e.message().to_owned()))?;
        let head = table.remove("compare");
        let base = Config::parse(&table.to_string(), &path.display().to_string())?;
        let of = |key: &str| {
            head.as_ref().and_then(|h| h.get(key)).map_or("(absent)".to_owned(), toml::Value::to_string)
        };
        let mut differences: Vec<String> = self
            .head()
            .into_iter()
            .filter_map(|(key, value)| {
                let (old, new) = (of(key), value.to_string());
                (old != new).then(|| format!("{key}: {old} -> {new}"))
            })
            .collect();
        differences.extend(
            base.differences(&self.base).iter().filter(|d| d.affects_result).map(ToString::to_string),
        );
        match differences.is_empty() {
            true => Ok(()),
            false => {
                Err(PlanError::Changed { path: directory.to_owned(), differences: differences.join("; ") })
            }
        }
    }

    fn head(&self) -> [(&'static str, toml::Value); 3] {
        let methods = self.entrants.iter().map(|e| toml::Value::from(e.label.as_str())).collect::<Vec<_>>();
        [
            ("methods", methods.into()),
            ("seeds", toml::Value::Integer(i64::try_from(self.seeds).unwrap_or(i64::MAX))),
            ("ablate_rate", self.ablate_rate.into()),
        ]
    }

    fn to_toml(&self) -> String {
        let head: Vec<String> = self.head().iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
        format!("{}\n[compare]\n{}", self.base.to_toml(), head.concat())
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse_methods;
    use super::*;

    fn plan(methods: &str, seeds: u64, overrides: &[&str]) -> Result<Plan, PlanError> {
        let base = Config::resolve("tiny", overrides).expect("valid");
        Plan::new(parse_methods(methods).expect("valid"), seeds, false, base)
    }

    #[test]
    fn a_directory_keeps_its_comparison_and_names_what_another_changes() {
        let root = tempfile::tempdir().expect("a directory");
        let path = root.path().join("a/b");
        let own = plan("grpo,rloo", 5, &["model.hidden=32"]).expect("valid");
        own.claim(&path).expect("new");
        own.claim(&path).expect("the same again");
        plan("grpo,rloo", 5, &["model.hidden=32", "threads=1"])
            .expect("valid")
            .claim(&path)
            .expect("threads change no result");
        for (other, expected) in [
            (plan("grpo,rloo", 6, &["model.hidden=32"]), "seeds: 5 -> 6"),
            (
                plan("grpo,grpo_lambda", 5, &["model.hidden=32"]),
                "methods: [\"grpo\", \"rloo\"] -> [\"grpo\", \"grpo_lambda\"]",
            ),
            (plan("grpo,rloo", 5, &["model.hidden=32", "rl.lr=0.5"]), "-> 0.5"),
        ] {
            let error = other.expect("valid").claim(&path).expect_err("refused").to_string();
            assert!(error.contains(expected) && !error.contains('\n'), "{error}");
        }
        let mut twins = own.clone();
        twins.ablate_rate = true;
        assert!(twins.claim(&path).expect_err("refused").to_string().contains("ablate_rate: false -> true"));
        std::fs::write(path.join(FILE), "not = [toml").expect("written");
        assert!(own.claim(&path).expect_err("refused").to_string().contains(FILE));
        let full = tempfile::tempdir().expect("a directory");
        std::fs::write(full.path().join("thesis.tex"), "x").expect("written");
        assert!(own.claim(full.path()).expect_err("refused").to_string().contains("not a comparison"));
    }

    #[test]
    fn members_differ_from_the_common_configuration_in_what_they_must() {
        let plan =
            plan("grpo,grpo_lambda:style=both,rl.lr=0.25", 2, &["model.hidden=32", "method.lambda=0.5"])
                .expect("valid");
        let member = plan.member(&plan.entrants[1], 7, Path::new("/x/y")).expect("valid");
        let differences: Vec<String> = plan.base.differences(&member).iter().map(|d| d.key.clone()).collect();
        let shape = ["model.hidden", "model.layers", "model.heads", "model.kv_heads", "model.intermediate"];
        let mut expected =
            vec!["seed", "model.checkpoint", "sft.steps", "rl.lr", "method.lambda", "method.style"];
        expected.extend(shape); // the checkpoint's
        for key in &differences {
            assert!(expected.contains(&key.as_str()), "{key}");
        }
        assert_eq!(differences.len(), expected.len(), "{differences:?}");
        assert_eq!(plan.supervised(7).expect("valid").rl.steps, 0);
        // The preset's settings of the method are not those of a method that is named without them.
        assert_eq!(member.configured().settings.number("lambda"), 0.99);
    }

    #[test]
    fn what_is_no_comparison_is_refused() {
        let one = plan("grpo", 5, &[]).expect_err("one method").to_string();
        assert!(one.contains("two methods") && one.ends_with("given: grpo"), "{one}");
        assert!(plan("grpo,rloo", 5, &["rl.steps=0"]).is_err());
        assert!(plan("grpo,rloo", 5, &["seed=9223372036854775807"]).is_err());
        let rate = plan("grpo,rloo:rl.lr=fast", 5, &[]).expect_err("a word").to_string();
        assert!(rate.contains("rl.lr = fast: must be a number greater than 0"), "{rate}");
    }
}
