//! Methods by their words, trees with their first policy, and expected updates on them, once for all claims.

use grpo_lambda::group::Group;
use grpo_lambda::methods::{Method, parse};
use grpo_lambda_mdp::expected::{Situation, implied};
use grpo_lambda_mdp::zoo::{self, Family};
use grpo_lambda_mdp::{Rules, Tabular, Tree};

/// A method under these settings.
pub(crate) fn method(name: &str, settings: &str) -> Box<dyn Method> {
    parse(name, settings).unwrap_or_else(|error| panic!("{name} {settings}: {error}")).method
}

/// The advantages of a batch under a method.
pub(crate) fn advantages(name: &str, settings: &str, batch: &[Group]) -> Vec<Vec<f64>> {
    method(name, settings).credit(batch).into_iter().map(|credit| credit.advantages).collect()
}

/// One token, rewarded iff it is the first: success rate `p`.
pub(crate) fn coin(p: f64) -> (Tree, Tabular) {
    let tree = Rules::new(["right", "wrong", "EOS"], 1)
        .build(|_| vec![0, 1], |response, _| f64::from(response == [0]))
        .expect("a valid tree");
    let policy = Tabular::from_weights(&tree, |_, edge| if edge == 0 { p } else { 1.0 - p });
    (tree, policy)
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

/// The largest difference of two rows of one length, as a share of the largest number of the second if that exceeds 1; not a number where a difference
/// is none.
pub(crate) fn relative_gap(a: &[f64], b: &[f64]) -> f64 {
    gap(a, b) / b.iter().fold(1.0, |most: f64, x| most.max(x.abs()))
}

/// The largest absolute difference of two rows of one length; not a number where a difference is none.
pub(crate) fn gap(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(x, y)| (x - y).abs()).max_by(f64::total_cmp).unwrap_or(0.0)
}
