//! Methods by their words, trees with their first policy, and expected updates on them, once for all claims.

use grpo_lambda::methods::{Method, parse};
use grpo_lambda_mdp::expected::{Situation, implied};
use grpo_lambda_mdp::zoo::{self, Family};
use grpo_lambda_mdp::{Tabular, Tree};

/// A method under these settings.
pub(crate) fn method(name: &str, settings: &str) -> Box<dyn Method> {
    parse(name, settings).unwrap_or_else(|error| panic!("{name} {settings}: {error}")).method
}

/// The tree of a family and its initial policy.
pub(crate) fn laid_out<F: Family>(family: &F) -> (Tree, Tabular) {
    let tree = family.tree().expect("knobs in range");
    let policy = family.initial(&tree);
    (tree, policy)
}

/// The entry of the zoo of this name, with its initial policy.
pub(crate) fn of_zoo(name: &str) -> (Tree, Tabular) {
    let entry = zoo::find(name).expect("listed");
    let tree = (entry.build)();
    let policy = (entry.initial)(&tree);
    (tree, policy)
}

/// The expected update on-policy of a method from `name key=value ..`, by implied credit.
pub(crate) fn update(words: &str, tree: &Tree, policy: &Tabular, group: usize) -> Vec<f64> {
    let (name, settings) = words.split_once(' ').unwrap_or((words, ""));
    implied(method(name, settings).as_ref(), &Situation::on_policy(tree, policy, group))
        .expect("feasible")
        .update
}

/// The largest absolute difference.
pub(crate) fn gap(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| (x - y).abs()).fold(0.0, f64::max)
}
