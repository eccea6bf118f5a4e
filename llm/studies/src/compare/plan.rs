//! The plan of a comparison: its methods, seeds and common configuration.

use std::path::{Path, PathBuf};

use grpo_lambda_trainer::config::Config;

use super::entry::Entry;
use crate::failure::Failure;
use crate::sweep::{Identity, Run, Start};

/// A comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The methods; the others are compared with the first.
    pub entries: Vec<Entry>,
    /// Number of seeds, from that of `base` on.
    pub seeds: u64,
    /// The configuration that all runs share.
    pub base: Config,
}

impl Plan {
    /// Checks that every run of the comparison has a configuration.
    pub fn new(entries: Vec<Entry>, seeds: u64, base: Config) -> Result<Plan, Failure> {
        if entries.len() < 2 {
            let one = entries.first().map_or("none", |e| e.label.as_str());
            return Err(Failure::refused(format!(
                "--methods: a comparison needs two methods or more, as in grpo,grpo_lambda:style=both; given: {one}"
            )));
        }
        if base.rl.steps == 0 {
            return Err(Failure::refused("rl.steps = 0: a comparison needs at least one RL step".to_owned()));
        }
        if base.eval.patience > 0 {
            return Err(Failure::refused(format!(
                "eval.patience = {}: a run that stops early has fewer steps than the others, and methods are compared \
                 step by step; leave it at 0",
                base.eval.patience
            )));
        }
        if base.seed.checked_add(seeds).is_none_or(|end| end > i64::MAX as u64) {
            let problem = format!("seed = {}: too large for {seeds} seeds after it", base.seed);
            return Err(Failure::refused(problem));
        }
        let plan = Plan { entries, seeds, base };
        for entry in &plan.entries {
            plan.run(entry, 0).config(&plan.base, Path::new("checkpoint"))?;
        }
        Ok(plan)
    }

    pub fn all_seeds(&self) -> impl Iterator<Item = u64> + use<> {
        self.base.seed..self.base.seed + self.seeds
    }

    /// The supervised stage of each seed.
    pub(super) fn starts(&self) -> Result<Vec<Start>, Failure> {
        let start = |seed| {
            let (name, directory) = (format!("supervised, seed {seed}"), format!("supervised/seed-{seed}"));
            Ok(Start { name, directory: directory.into(), base: self.base.with(&[format!("seed={seed}")])? })
        };
        self.all_seeds().map(start).collect()
    }

    /// The run of a method with the seed at this place.
    pub(super) fn run(&self, entry: &Entry, start: usize) -> Run {
        let seed = self.base.seed + start as u64;
        Run {
            name: format!("{}, seed {seed}", entry.label),
            directory: PathBuf::from(entry.slug()).join(format!("seed-{seed}")),
            start,
            settings: entry.overrides(),
        }
    }

    pub(super) fn identity(&self) -> Identity<'_> {
        let methods = self.entries.iter().map(|e| toml::Value::from(e.label.as_str())).collect::<Vec<_>>();
        let seeds = i64::try_from(self.seeds).unwrap_or(i64::MAX);
        let choices = vec![("methods", methods.into()), ("seeds", seeds.into())];
        Identity { name: "compare", noun: "comparison", choices, base: Some(&self.base) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse_methods;
    use super::*;

    fn plan(methods: &str, seeds: u64, overrides: &[&str]) -> Result<Plan, Failure> {
        let base = Config::resolve("tiny", overrides).expect("valid");
        Plan::new(parse_methods(methods).expect("valid"), seeds, base)
    }

    #[test]
    fn a_directory_keeps_its_comparison_and_names_what_another_changes() {
        let root = tempfile::tempdir().expect("a directory");
        let path = root.path().join("a/b");
        let refused =
            |plan: &Plan, path: &Path| plan.identity().claim(path).expect_err("refused").to_string();
        let own = plan("grpo,rloo", 5, &["model.hidden=32"]).expect("valid");
        own.identity().claim(&path).expect("new");
        own.identity().claim(&path).expect("the same again");
        plan("grpo,rloo", 5, &["model.hidden=32", "threads=1"])
            .expect("valid")
            .identity()
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
            let error = refused(&other.expect("valid"), &path);
            assert!(error.contains(expected) && !error.contains('\n'), "{error}");
        }
        std::fs::write(path.join("compare.toml"), "not = [toml").expect("written");
        assert!(refused(&own, &path).contains("compare.toml"));
        let full = tempfile::tempdir().expect("a directory");
        std::fs::write(full.path().join("thesis.tex"), "x").expect("written");
        assert!(refused(&own, full.path()).contains("is not a comparison"));
    }

    #[test]
    fn members_differ_from_the_common_configuration_in_what_they_must() {
        let plan =
            plan("grpo,grpo_lambda:style=both,rl.lr=0.25", 2, &["model.hidden=32", "method.lambda=0.5"])
                .expect("valid");
        let start = plan.starts().expect("valid").remove(1);
        let member = plan.run(&plan.entries[1], 1).config(&start.base, Path::new("/x/y")).expect("valid");
        let differences: Vec<String> = plan.base.differences(&member).iter().map(|d| d.key.clone()).collect();
        let shape = ["model.hidden", "model.layers", "model.heads", "model.kv_heads", "model.intermediate"];
        let mut expected =
            vec!["seed", "model.checkpoint", "sft.steps", "rl.lr", "method.lambda", "method.style"];
        expected.extend(shape); // the checkpoint's
        for key in &differences {
            assert!(expected.contains(&key.as_str()), "{key}");
        }
        assert_eq!(differences.len(), expected.len(), "{differences:?}");
        // The preset's settings of the method are not those of a method that is named without them.
        assert_eq!(member.configured().settings.number("lambda"), 0.99);
    }

    #[test]
    fn what_is_no_comparison_is_refused() {
        let one = plan("grpo", 5, &[]).expect_err("one method").to_string();
        assert!(one.contains("two methods") && one.ends_with("given: grpo"), "{one}");
        assert!(plan("grpo,rloo", 5, &["rl.steps=0"]).is_err());
        assert!(plan("grpo,rloo", 5, &["seed=9223372036854775807"]).is_err());
        let early = plan("grpo,rloo", 5, &["eval.patience=3"]).expect_err("runs of any length").to_string();
        assert!(early.starts_with("eval.patience = 3: a run that stops early"), "{early}");
        let rate = plan("grpo,rloo:rl.lr=fast", 5, &[]).expect_err("a word").to_string();
        assert!(rate.contains("rl.lr = fast: must be a number greater than 0"), "{rate}");
    }
}
