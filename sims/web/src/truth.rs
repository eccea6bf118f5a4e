//! A task, its exact values, and the expected update of a method on it.

use grpo_lambda::settings::did_you_mean;
use grpo_lambda_mdp::expected::{Comparison, Expected, Situation, compare};
use grpo_lambda_mdp::extra_inputs::check_measurable;
use grpo_lambda_mdp::{Optimal, Oracle, Tabular, Tree, has_success_rate, zoo};
use grpo_lambda_tools::length_direction::{HORIZONS, POLICIES, at_horizon};
use grpo_lambda_tools::mdp_command::{expectation, resolved};
use grpo_lambda_tools::mdp_file;
use serde_json::{Value, json};
use wasm_bindgen::prelude::wasm_bindgen;

use crate::tasks::knob;
use crate::{MDP, configure};

/// Prefixes of which the credit is listed.
const PREFIXES: usize = 12;
/// Used only where nothing exact is feasible.
const SEED: u64 = 0;

/// The tasks of the zoo: name, what it shows, the knob for its length (or null), and whether its success rate can be chosen.
///
/// # Errors
/// When it cannot be written as JSON.
#[wasm_bindgen]
pub fn tasks() -> Result<String, String> {
    let task = |named: &zoo::Named| {
        let tree = (named.build)();
        let knob = knob(named.name).map(|k| {
            json!({ "label": k.label, "least": k.least, "most": k.most, "default": k.default, "step": k.step })
        });
        json!({ "name": named.name, "about": named.about, "knob": knob, "success": has_success_rate(&tree) })
    };
    crate::json(&zoo::all().iter().map(task).collect::<Vec<Value>>())
}

/// A token-MDP with a policy on it.
#[wasm_bindgen]
pub struct Task {
    name: String,
    pub(crate) tree: Tree,
    pub(crate) policy: Tabular,
}

#[wasm_bindgen]
impl Task {
    /// A task of the zoo, with another value of its knob where one is given.
    ///
    /// # Errors
    /// For an unknown name, and a value that the knob does not take.
    pub fn zoo(name: &str, value: Option<usize>) -> Result<Task, String> {
        let all = zoo::all();
        let named = all.iter().find(|named| named.name == name).ok_or_else(|| {
            let names: Vec<&str> = all.iter().map(|named| named.name).collect();
            format!(
                "unknown task `{name}`{}; known: {}",
                did_you_mean(name, names.iter().copied()),
                names.join(", ")
            )
        })?;
        let (tree, policy) = match (knob(name), value) {
            (Some(knob), Some(value)) => knob.build(value)?,
            _ => {
                let tree = (named.build)();
                let policy = (named.initial)(&tree);
                (tree, policy)
            }
        };
        Ok(Task { name: name.to_owned(), tree, policy })
    }

    /// The task of a file of `sim mdp`, with another horizon where one is given.
    ///
    /// # Errors
    /// The text of the command line.
    pub fn toml(text: &str, horizon: Option<usize>) -> Result<Task, String> {
        let file = mdp_file::read_text(MDP, text, horizon).map_err(|e| e.to_string())?;
        Ok(Task { name: file.name, tree: file.tree, policy: file.policy })
    }

    /// The task under the policy whose success rate is `rate`: right responses keep their relative probabilities, and so do wrong ones.
    ///
    /// # Errors
    /// Where responses are not right or wrong by themselves, or the policy never or always succeeds.
    pub fn at_success_rate(&self, rate: f64) -> Result<Task, String> {
        let policy = Oracle::new(&self.tree, &self.policy).at_success_rate(rate).ok_or_else(|| {
            let right = "must lie between 0 and 1, on a task whose responses are right or wrong, without discount, that the policy sometimes solves";
            format!("success rate = {rate}; {right}")
        })?;
        Ok(Task { name: self.name.clone(), tree: self.tree.clone(), policy })
    }

    /// Size, what can be earned, horizon, and whether a success rate can be chosen, as JSON.
    ///
    /// # Errors
    /// When it cannot be written as JSON.
    pub fn facts(&self) -> Result<String, String> {
        let oracle = Oracle::new(&self.tree, &self.policy);
        crate::json(&json!({
            "name": self.name,
            "tokens": self.tree.tokens().len(),
            "prefixes": self.tree.node_count(),
            "responses": self.tree.leaf_count(),
            "horizon": self.tree.horizon(),
            "longest": self.tree.max_len(),
            "mean_length": oracle.mean_length(),
            "j": oracle.j,
            "best": Optimal::new(&self.tree).j,
            "success": has_success_rate(&self.tree),
        }))
    }

    /// The expected update of a method in groups of `group`, compared with ∇J, as JSON: exact where that is feasible.
    ///
    /// # Errors
    /// The text of the command line for a method, setting or missing extra inputs; a task on which ∇J is 0.
    pub fn measure(&self, method: &str, settings: &str, group: usize) -> Result<String, String> {
        let configured = configure(method, settings)?;
        if !(2..=64).contains(&group) {
            return Err(format!("group = {group}; must be from 2 to 64"));
        }
        let oracle = Oracle::new(&self.tree, &self.policy);
        resolved(&oracle).map_err(|why| format!("{MDP}: {why}"))?;
        check_measurable(&configured, &self.tree)?;
        let on_policy = Situation::on_policy(&self.tree, &self.policy, group);
        let situation = Situation { reference: Some(&self.policy), ..on_policy };
        let (expected, how) = expectation(&configured, &situation, SEED);
        let comparison = compare(&expected, &oracle);
        crate::json(&measured(&oracle, &expected, &comparison, &how.to_string()))
    }
}

/// NaN and infinities become null.
fn measured(oracle: &Oracle, expected: &Expected, c: &Comparison, how: &str) -> Value {
    let square: f64 = oracle.grad_j().iter().map(|g| g * g).sum();
    json!({
        "how": how,
        "j": oracle.j,
        "mean_length": oracle.mean_length(),
        "cosine": c.cosine,
        "bias": c.bias,
        "scale": c.scale,
        "sign_agreement": c.sign_agreement,
        "signal_to_noise": c.signal_to_noise,
        "variance": expected.total_variance() / (c.scale * c.scale * square),
        "mse": c.mean_squared_error(),
        "update": expected.update,
        "credit": credit(oracle, expected, c.scale),
    })
}

/// The credit of every token next to its advantage, at the most visited prefixes with a choice. As in `sim mdp`, centred and over `scale`;
/// over its magnitude where the update points away from ∇J, so that the sign stays that of the credit.
fn credit(oracle: &Oracle, expected: &Expected, scale: f64) -> Vec<Value> {
    let tree = oracle.tree;
    let mut nodes: Vec<usize> =
        tree.nodes().filter(|&n| tree.edges_of(n).len() > 1 && oracle.visit[n] > 0.0).collect();
    // Prefixes that are visited equally often but for rounding keep their order in the tree.
    nodes.sort_by_key(|&n| (std::cmp::Reverse((oracle.visit[n] * 1e12).round() as u64), n));
    nodes.truncate(PREFIXES);
    let rows = |node: usize| {
        let mean: f64 = tree.edges_of(node).map(|e| oracle.probs[e] * expected.credit[e]).sum();
        tree.edges_of(node).map(move |e| {
            json!({
                "prefix": tree.text(&tree.prefix(node)),
                "token": tree.token_name(e),
                "visit": oracle.visit[node],
                "pi": oracle.probs[e],
                "q": oracle.q[e],
                "advantage": oracle.advantage(e),
                "raw": expected.credit[e],
                "credit": (expected.credit[e] - mean) / scale.abs(),
            })
        })
    };
    nodes.into_iter().flat_map(rows).collect()
}

/// The cosine with ∇J of GRPO with and without trace and clamp, at every horizon of the claim `length_bonus` or at one of them, as JSON.
/// `policy` is 0 for the chances of EOS of the zoo, 1 for a tenth of them.
///
/// # Errors
/// For another policy, or a horizon below 2 or above 256.
#[wasm_bindgen]
pub fn length_bonus(policy: usize, horizon: usize) -> Result<String, String> {
    if policy >= POLICIES.len() {
        return Err(format!("policy = {policy}; must be 0 or 1"));
    }
    if horizon == 0 {
        return crate::json(&json!({ "horizons": HORIZONS, "policies": POLICIES }));
    }
    if !(2..=256).contains(&horizon) {
        return Err(format!("horizon = {horizon}; must be from 2 to 256"));
    }
    let points = at_horizon(policy, horizon);
    let arm = |p: &grpo_lambda_tools::length_direction::Point| json!({ "arm": p.arm, "cosine": p.cosine, "cosine_length": p.cosine_length, "mean_length": p.mean_length });
    crate::json(&points.iter().map(arm).collect::<Vec<Value>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOML: &str = "name = \"roads\"\ntokens = \"a b EOS\"\neos = \"EOS\"\nhorizon = 3\n[[rewards]]\npattern = \"a *\"\nreward = 1.0\n";

    fn value(text: Result<String, String>) -> Value {
        serde_json::from_str(&text.unwrap()).unwrap()
    }

    #[test]
    fn rloo_is_unbiased_and_grpo_lambda_prefers_the_worse_answer_of_the_fork() {
        let fork = Task::zoo("fork", None).unwrap();
        let rloo = value(fork.measure("rloo", "", 4));
        assert!(
            (rloo["cosine"].as_f64().unwrap() - 1.0).abs() < 1e-12 && rloo["bias"].as_f64().unwrap() < 1e-7
        );
        let traced = value(fork.measure("grpo_lambda", "lambda=0.99", 8));
        let raw = |i: usize| traced["credit"][i]["raw"].as_f64().unwrap();
        assert!(raw(0) < raw(1), "short {} long {}", raw(0), raw(1));
        assert!(traced["credit"][0]["q"].as_f64() > traced["credit"][1]["q"].as_f64());
    }

    #[test]
    fn a_success_rate_is_that_of_the_task() {
        let task = Task::zoo("needle", Some(3)).unwrap().at_success_rate(0.25).unwrap();
        assert!((value(task.facts())["j"].as_f64().unwrap() - 0.25).abs() < 1e-12);
        assert!(Task::zoo("chain_partial", None).unwrap().at_success_rate(0.5).is_err());
        assert!(Task::zoo("fork", None).unwrap().at_success_rate(0.5).is_err(), "rewards are drawn");
    }

    #[test]
    fn refusals_name_what_would_be_right() {
        assert_eq!(Task::zoo("pivot", Some(99)).err().unwrap(), "length = 99; must be from 3 to 10");
        assert!(Task::zoo("pivt", None).err().unwrap().contains("pivot"));
        let error = Task::toml(&TOML.replace("a *", "c *"), None).err().unwrap();
        assert!(error.starts_with("mdp.toml:6: "), "{error}");
        assert_eq!(value(Task::toml(TOML, Some(5)).unwrap().facts())["horizon"], 5);
        assert!(Task::toml(TOML, None).unwrap().measure("grpo", "", 1).unwrap_err().starts_with("group = 1"));
    }

    /// Figures that the report of the claim quotes.
    #[test]
    fn the_length_bonus_is_that_of_the_claim() {
        let cosine = |policy, horizon| value(length_bonus(policy, horizon))[3]["cosine"].as_f64().unwrap();
        assert!((cosine(0, 5) - 0.74).abs() < 0.005 && (cosine(0, 8) + 0.11).abs() < 0.005);
        assert!((cosine(1, 32) + 0.90).abs() < 0.005);
        assert!(length_bonus(0, 1).is_err() && length_bonus(2, 8).is_err());
    }
}
