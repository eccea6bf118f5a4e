//! [`Study`]: a protocol that is written before the runs that it governs.

use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Everything that decides what is run and how it is judged. `setup` holds what only the program that runs it reads.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Study<S> {
    pub version: u32,
    /// The knowledge from before the runs.
    pub status: String,
    /// Tokens over which accuracy is averaged.
    pub budget: f64,
    pub rates: Vec<f64>,
    pub seeds: Seeds,
    pub methods: Vec<Method>,
    /// The comparisons that are corrected for together.
    pub comparisons: Vec<Comparison>,
    pub gate: Gate,
    /// The confidence level of a comparison, and the difference within which two methods count as equal.
    pub level: f64,
    pub margin: f64,
    /// In words, for readers.
    pub endpoint: toml::Table,
    pub predictions: Vec<toml::Table>,
    pub setup: S,
}

/// Seeds that choose rates, and others that compare.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seeds {
    pub selection: Vec<u64>,
    pub evaluation: Vec<u64>,
}

/// A method with its settings.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Method {
    pub name: String,
    /// Its name in tables and figures.
    pub label: String,
    pub method: String,
    #[serde(default)]
    pub settings: String,
}

/// A method against another, by their names.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Comparison {
    pub method: String,
    pub with: String,
}

/// The condition without which the study cannot tell methods apart at all.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gate {
    /// Methods of which the first is known to be better than the second: its interval must lie above 0.
    pub better: Vec<Comparison>,
}

/// Why a protocol cannot be followed.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    #[error(transparent)]
    Toml(#[from] toml::de::Error),
    #[error("{field}: {value} {why}")]
    Field { field: &'static str, value: String, why: &'static str },
}

impl<S> Study<S> {
    /// Reads a protocol.
    ///
    /// # Errors
    /// For text of other fields; for seeds that choose and compare, names that are no method's or two methods', and
    /// numbers that cannot be.
    pub fn read(text: &str) -> Result<Study<S>, StudyError>
    where
        S: DeserializeOwned,
    {
        let study: Study<S> = toml::from_str(text)?;
        study.check()?;
        Ok(study)
    }

    fn check(&self) -> Result<(), StudyError> {
        let refused = |field, value: String, why| Err(StudyError::Field { field, value, why });
        if let Some(seed) = self.seeds.selection.iter().find(|seed| self.seeds.evaluation.contains(seed)) {
            return refused("seeds.evaluation", seed.to_string(), "chooses rates as well; give another");
        }
        let is_positive = |x: &f64| x.is_finite() && *x > 0.0;
        if let Some(rate) = self.rates.iter().find(|rate| !is_positive(rate)) {
            return refused("rates", rate.to_string(), "must be finite and above 0");
        }
        if !is_positive(&self.budget) {
            return refused("budget", self.budget.to_string(), "must be finite and above 0");
        }
        let named = |name: &str| self.methods.iter().filter(|method| method.name == name).count();
        if let Some(method) = self.methods.iter().find(|method| named(&method.name) > 1) {
            return refused("methods.name", method.name.clone(), "names two methods; give each its own name");
        }
        let pairs = self.comparisons.iter().chain(&self.gate.better);
        match pairs.flat_map(|pair| [&pair.method, &pair.with]).find(|name| named(name) == 0) {
            Some(name) => {
                refused("comparisons", name.clone(), "is the name of no method; name one of `methods`")
            }
            None => Ok(()),
        }
    }
}

/// A small study for tests.
#[cfg(test)]
pub(crate) const SMALL: &str = r#"
version = 1
status = ""
budget = 100
rates = [0.1, 0.2]
level = 0.95
margin = 0.02
seeds = { selection = [1], evaluation = [2, 3, 4] }
methods = [{ name = "a", label = "A", method = "grpo" }, { name = "b", label = "B", method = "rloo" }]
comparisons = [{ method = "a", with = "b" }]
gate = { better = [{ method = "a", with = "b" }] }
endpoint = {}
predictions = []
setup = {}
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_protocol_that_cannot_be_judged_is_refused_by_its_field() {
        let read = |from: &str, to: &str| Study::<toml::Table>::read(&SMALL.replacen(from, to, 1));
        assert_eq!(read("", "").expect("a study").methods.len(), 2);
        for (from, to, want) in [
            ("[2, 3, 4]", "[2, 1]", "seeds.evaluation: 1 chooses rates as well; give another"),
            ("[0.1, 0.2]", "[0.1, 0.0]", "rates: 0 must be finite and above 0"),
            ("= 100", "= -1", "budget: -1 must be finite and above 0"),
            (
                "with = \"b\"",
                "with = \"c\"",
                "comparisons: c is the name of no method; name one of `methods`",
            ),
            ("name = \"b\"", "name = \"a\"", "methods.name: a names two methods; give each its own name"),
        ] {
            assert_eq!(read(from, to).expect_err(to).to_string(), want);
        }
        assert!(read("version = 1", "versoin = 1").expect_err("unknown").to_string().contains("versoin"));
    }
}
