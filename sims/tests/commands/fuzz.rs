//! The readers of `sim` under damaged input, as `tests/fuzzer` makes it: `cargo test -p grpo-lambda-sims --test commands fuzz`.

#![allow(clippy::unwrap_used)] // the lint spares test functions but not their helpers

use grpo_lambda::methods::{self, Configured};
use grpo_lambda_mdp::Oracle;
use grpo_lambda_tools::estimate::{self, against};
use grpo_lambda_tools::mdp_file;
use serde_json::Value;

use crate::fuzzer::{fuzz, texts};

#[test]
fn mdp_files() {
    // Without a bound of its own, a tree of 20 million responses is built, which takes seconds.
    let example = include_str!("../../../examples/two_roads.toml")
        .replace("horizon = 4", "horizon = 4\nmax_leaves = 500");
    let seeds = texts(&[
        &example,
        "name = 'a'\ntokens = 'x y EOS'\neos = 'EOS'\nhorizon = 4\ngamma = 0.95\nreward_kind = 'real'\ndefault_reward = -0.5\nmax_leaves = 500\n\
         rewards = [{ pattern = 'x *', reward = 2.5 }, { pattern = ['x', 'y', '*'], reward = 1e-3 }]\n\
         illegal = [{ prefix = 'x', tokens = 'EOS' }]\npolicy = [{ prefix = '', probabilities = { x = 0.25, y = 0.75 } }]\n",
    ]);
    fuzz("mdp.toml", 400, &seeds, |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let found = mdp_file::read_text("mdp.toml", &text, None).map_err(|e| e.to_string())?;
        let oracle = Oracle::new(&found.tree, &found.policy);
        assert!(oracle.j.is_finite(), "J = {}: {text}", oracle.j);
        Ok(())
    });
}

/// Every method with its defaults, and KL terms that need a reference.
fn configured() -> Vec<Configured> {
    let plain = methods::REGISTRY.iter().map(|spec| (spec.name, Vec::new()));
    let with_kl = [("grpo", vec![("beta".to_owned(), "0.04".to_owned())])];
    plain.chain(with_kl).map(|(name, settings)| methods::configure(name, &settings).unwrap()).collect()
}

const GROUPS: [&str; 3] = [
    "{\"id\": 1, \"rewards\": [1, 0, null], \"logps\": [[-0.5, -0.25], [-1.0], [-0.125]], \"old_logps\": [[-0.5, -0.3], [-1.5], [-0.125]], \
     \"ref_logps\": [[-1.0, -0.5], [-1.0], [-2.0]], \"truncated\": [false, true, false], \"tokens\": [[1, 2], [3], [4]]}\n\
     {\"rewards\": [0.5, 0.5], \"logps\": [[-0.5], [-1.5]], \"old_logps\": [[-0.5], [-1.5]]}\n",
    "{\"id\": \"a\", \"rewards\": [1, -1], \"logps\": [[-0.5, -9, -1], [-1, -2, -9]], \"old_logps\": [[-0.5, 0, -1], [-1, -2, 0]], \
     \"mask\": [[1, 0, 1], [1, 1, 0]], \"entropies\": [[0.5, 0, 1], [1, 2, 0]], \"values\": [[0.1, 0, 0.2], [0.3, 0.4, 0]], \
     \"reward_parts\": [[1, 0], [0, 1]], \"sampler_logps\": [[-0.5, 0, -1], [-1, -2, 0]]}\n",
    "{\"logps\": [[-0.5, -0.25], [-1.0]], \"old_logps\": [[-0.5, -0.25], [-1.0]], \"advantages\": [0.5, [-0.25]], \"rewards\": [1, 0]}\n",
];

/// Every number of a JSON value is a number.
fn all_numbers(value: &Value) -> bool {
    match value {
        Value::Array(list) => list.iter().all(all_numbers),
        Value::Object(fields) => fields.iter().all(|(key, value)| key == "id" || all_numbers(value)),
        other => other.is_number(),
    }
}

#[test]
fn groups() {
    let configured = configured();
    fuzz("groups.jsonl", 600, &texts(&GROUPS), |bytes| {
        let turn: usize = bytes.iter().map(|byte| usize::from(*byte)).sum();
        let method = &configured[turn % configured.len()];
        let printed =
            estimate::printed(method, "groups", bytes, turn.is_multiple_of(2)).map_err(|e| e.line())?;
        for line in printed.text.lines() {
            assert!(all_numbers(&serde_json::from_str(line).unwrap()), "{}: {line}", method.spec.name);
        }
        Ok(())
    });
}

#[test]
fn numbers_of_another_trainer() {
    let groups = estimate::lines(None, "groups", GROUPS[0].as_bytes()).unwrap();
    let assumed = against::assumptions(1e-5, &[], false).unwrap();
    let seeds = texts(&[
        "{\"advantages\": [1.2, -1.2, 0], \"loss\": 0.25}\n{\"advantages\": [0, 0]}\n",
        "{\"id\": 1, \"gradient\": [[-0.1, 0.2], [1e-3], [0]]}\n{\"gradient\": [[0], [0]]}\n",
        "{\"loss\": 0.125}\n",
    ]);
    fuzz("theirs.jsonl", 60, &seeds, |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let found = against::report(None, &assumed, ("groups", &groups), ("theirs", text.as_ref()));
        found.map(|report| assert!(!report.is_empty())).map_err(|e| e.line())
    });
}
