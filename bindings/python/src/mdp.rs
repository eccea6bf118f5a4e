//! A user's token-MDP: exact values, and the expected update of any method on it.

use grpo_lambda::methods::Method;
use grpo_lambda::settings::did_you_mean;
use grpo_lambda_mdp::expected::{self, Situation, compare, enumerated, implied, sampled};
use grpo_lambda_mdp::extra_inputs::check_measurable;
use grpo_lambda_mdp::{
    DEFAULT_MAX_LEAVES, Optimal, Oracle, PolicyEntry, PrefixTokens, RewardEntry, RewardKind, TableMdp,
    Tabular, Tree, zoo,
};
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat};
use std::sync::Arc;

use crate::callable::Callable;
use crate::configured::{configure, warn_of_idle};
use crate::values::{quoted, refused, shown, vector};

/// A token-MDP with a policy on it: every quantity is an exact sum over its responses.
///
/// The fields are those of a `sim mdp` file: `tokens` and `eos`; the `horizon` that cuts a response; `rewards`, a list of
/// `{"pattern": .., "reward": ..}`; `illegal`, a list of `{"prefix": .., "tokens": ..}`; `policy`, a list of
/// `{"prefix": .., "probabilities": {token: p}}`, uniform elsewhere. Every array has one entry per edge, in the order of `edges`.
#[pyclass(frozen, module = "grpo_lambda")]
pub(crate) struct Mdp {
    name: String,
    tree: Tree,
    policy: Tabular,
    origin: Origin,
}

/// The origin of an MDP, from which its tree is made again.
#[derive(Clone)]
enum Origin {
    /// A name of the library.
    Zoo(String),
    Table(Arc<TableMdp>),
}

/// A table's fields: name, tokens, end, horizon, discount, whether rewards are binary, the default reward, rewards, illegal tokens, policy, and
/// the most responses.
type Fields = (
    (String, Vec<String>, String, usize, f64, bool, f64),
    Vec<(Vec<String>, f64)>,
    Vec<(Vec<String>, Vec<String>)>,
    Vec<(Vec<String>, Vec<(String, f64)>)>,
    usize,
);

/// An MDP in a pickle: a name of the library or a table, and the logits.
type State = (Option<String>, Option<Fields>, Vec<f64>);

fn fields(mdp: &TableMdp) -> Fields {
    let binary = matches!(mdp.reward_kind, RewardKind::Binary);
    (
        (
            mdp.name.clone(),
            mdp.tokens.clone(),
            mdp.eos.clone(),
            mdp.horizon,
            mdp.gamma,
            binary,
            mdp.default_reward,
        ),
        mdp.rewards.iter().map(|r| (r.pattern.clone(), r.reward)).collect(),
        mdp.illegal.iter().map(|p| (p.prefix.clone(), p.tokens.clone())).collect(),
        mdp.policy.iter().map(|p| (p.prefix.clone(), p.probabilities.clone())).collect(),
        mdp.max_leaves,
    )
}

fn table(
    ((name, tokens, eos, horizon, gamma, binary, default_reward), rewards, illegal, policy, most): Fields,
) -> TableMdp {
    TableMdp {
        name,
        tokens,
        eos,
        horizon,
        gamma,
        reward_kind: if binary { RewardKind::Binary } else { RewardKind::Real },
        default_reward,
        rewards: rewards.into_iter().map(|(pattern, reward)| RewardEntry { pattern, reward }).collect(),
        illegal: illegal.into_iter().map(|(prefix, tokens)| PrefixTokens { prefix, tokens }).collect(),
        policy: policy
            .into_iter()
            .map(|(prefix, probabilities)| PolicyEntry { prefix, probabilities })
            .collect(),
        max_leaves: most,
    }
}

/// The MDP of a state.
#[pyfunction]
#[pyo3(name = "_restored_mdp")]
pub(crate) fn restored_mdp(state: State) -> PyResult<Mdp> {
    let (zoo, fields, logits) = state;
    let mdp = match (zoo, fields) {
        (Some(name), _) => Mdp::zoo(&name)?,
        (None, Some(fields)) => Mdp::of_table(table(fields))?,
        (None, None) => return Err(refused("the pickle holds no MDP; make it again")),
    };
    Ok(Mdp { policy: Tabular { logits }, ..mdp })
}

/// The tokens of a pattern: a list, or one text split at blanks.
fn words(field: &str, value: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    if let Ok(text) = value.extract::<String>() {
        return Ok(text.split_whitespace().map(str::to_owned).collect());
    }
    value.extract::<Vec<String>>().map_err(|_| {
        refused(format!(
            "{field} = {}; must be tokens: a text of names separated by blanks, or a list of names",
            shown(value)
        ))
    })
}

/// One entry of a list of dictionaries with exactly the keys `keys`.
fn entry<'py, const N: usize>(
    field: &str,
    value: &Bound<'py, PyAny>,
    keys: [&str; N],
) -> PyResult<[Bound<'py, PyAny>; N]> {
    let right = keys.join(" and ");
    let Ok(dict) = value.cast::<PyDict>() else {
        return Err(refused(format!("{field} = {}; must be a dictionary with {right}", shown(value))));
    };
    for key in dict.keys() {
        let key: String = key.extract()?;
        if !keys.contains(&key.as_str()) {
            let hint = did_you_mean(&key, keys);
            return Err(refused(format!("{field}: unknown field {}{hint}; must have {right}", quoted(&key))));
        }
    }
    let mut found = Vec::new();
    for key in keys {
        found.push(
            dict.get_item(key)?
                .ok_or_else(|| refused(format!("{field}.{key}: missing; must have {right}")))?,
        );
    }
    found.try_into().map_err(|_| refused(format!("{field}: must have {right}")))
}

fn list<'py, T>(
    field: &str,
    values: Option<Vec<Bound<'py, PyAny>>>,
    read: impl Fn(String, &Bound<'py, PyAny>) -> PyResult<T>,
) -> PyResult<Vec<T>> {
    let values = values.unwrap_or_default();
    values.iter().enumerate().map(|(i, value)| read(format!("{field}[{i}]"), value)).collect()
}

#[pymethods]
impl Mdp {
    #[new]
    #[pyo3(signature = (*, tokens, eos, horizon, name = "mdp", gamma = 1.0, reward_kind = "binary", default_reward = 0.0, rewards = None, illegal = None, policy = None, max_leaves = DEFAULT_MAX_LEAVES))]
    #[allow(clippy::too_many_arguments, reason = "the fields of the MDP, by keyword")]
    fn new(
        tokens: &Bound<'_, PyAny>,
        eos: String,
        horizon: usize,
        name: &str,
        gamma: f64,
        reward_kind: &str,
        default_reward: f64,
        rewards: Option<Vec<Bound<'_, PyAny>>>,
        illegal: Option<Vec<Bound<'_, PyAny>>>,
        policy: Option<Vec<Bound<'_, PyAny>>>,
        max_leaves: usize,
    ) -> PyResult<Mdp> {
        let reward_kind = match reward_kind {
            "binary" => RewardKind::Binary,
            "real" => RewardKind::Real,
            _ => return Err(refused(format!("reward_kind = `{reward_kind}`; must be binary or real"))),
        };
        let reward = |field: String, value: &Bound<'_, PyAny>| {
            let [pattern, reward] = entry(&field, value, ["pattern", "reward"])?;
            let reward = crate::values::number(&reward)
                .ok_or_else(|| refused(format!("{field}.reward = {}; must be a number", shown(&reward))))?;
            Ok(RewardEntry { pattern: words(&format!("{field}.pattern"), &pattern)?, reward })
        };
        let prefix = |field: String, value: &Bound<'_, PyAny>| {
            let [prefix, tokens] = entry(&field, value, ["prefix", "tokens"])?;
            let prefix = words(&format!("{field}.prefix"), &prefix)?;
            Ok(PrefixTokens { prefix, tokens: words(&format!("{field}.tokens"), &tokens)? })
        };
        let probabilities = |field: String, value: &Bound<'_, PyAny>| {
            let [prefix, probabilities] = entry(&field, value, ["prefix", "probabilities"])?;
            let prefix = words(&format!("{field}.prefix"), &prefix)?;
            let pairs = probabilities.extract::<std::collections::BTreeMap<String, f64>>().map_err(|_| {
                let found = shown(&probabilities);
                refused(format!(
                    "{field}.probabilities = {found}; must be a dictionary from token to probability"
                ))
            })?;
            Ok(PolicyEntry { prefix, probabilities: pairs.into_iter().collect() })
        };
        let mdp = TableMdp {
            name: name.to_owned(),
            tokens: words("tokens", tokens)?,
            eos,
            horizon,
            gamma,
            reward_kind,
            default_reward,
            rewards: list("rewards", rewards, reward)?,
            illegal: list("illegal", illegal, prefix)?,
            policy: list("policy", policy, probabilities)?,
            max_leaves,
        };
        Mdp::of_table(mdp)
    }

    /// A named MDP of the library with its initial policy.
    #[staticmethod]
    fn zoo(name: &str) -> PyResult<Mdp> {
        let found = zoo::find(name).ok_or_else(|| {
            let all: Vec<&str> = zoo::all().iter().map(|named| named.name).collect();
            let hint = did_you_mean(name, all.iter().copied());
            refused(format!("unknown MDP {}{hint}; known: {}", quoted(name), all.join(", ")))
        })?;
        let tree = (found.build)();
        let policy = (found.initial)(&tree);
        let name = found.name.to_owned();
        Ok(Mdp { origin: Origin::Zoo(name.clone()), name, tree, policy })
    }

    /// This MDP under another policy, given by a logit per edge.
    fn with_logits(&self, logits: &Bound<'_, PyAny>) -> PyResult<Mdp> {
        let logits = vector("logits", logits)?;
        let logits = logits.as_slice()?.to_vec();
        if logits.len() != self.tree.edge_count() {
            let (found, expected) = (logits.len(), self.tree.edge_count());
            return Err(refused(format!("logits has {found} entries; must be {expected}, one per edge")));
        }
        if let Some(e) = logits.iter().position(|x| !x.is_finite()) {
            return Err(refused(format!("logits[{e}] = {}; must be a finite number", logits[e])));
        }
        let policy = Tabular::from_logits(&self.tree, logits);
        Ok(Mdp { name: self.name.clone(), tree: self.tree.clone(), policy, origin: self.origin.clone() })
    }

    /// Pickles and copies.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (State,))> {
        let (zoo, fields) = match &self.origin {
            Origin::Zoo(name) => (Some(name.clone()), None),
            Origin::Table(mdp) => (None, Some(fields(mdp))),
        };
        let restore = py.import("grpo_lambda._native")?.getattr("_restored_mdp")?;
        Ok((restore, ((zoo, fields, self.policy.logits.clone()),)))
    }

    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    #[getter]
    fn gamma(&self) -> f64 {
        self.tree.gamma()
    }

    /// Number of prefixes, edges and responses.
    #[getter]
    fn size(&self) -> (usize, usize, usize) {
        (self.tree.node_count(), self.tree.edge_count(), self.tree.leaf_count())
    }

    /// Prefix and next token of every edge.
    #[getter]
    fn edges(&self) -> Vec<(Vec<String>, String)> {
        let names =
            |node| self.tree.prefix(node).iter().map(|&t| self.tree.tokens()[t as usize].clone()).collect();
        let edge = |e| (names(self.tree.edge_node(e)), self.tree.token_name(e).to_owned());
        self.tree.edges().map(edge).collect()
    }

    /// The expected discounted reward of the policy.
    #[getter]
    fn j(&self, py: Python<'_>) -> f64 {
        py.detach(|| self.oracle().j)
    }

    /// The expected discounted reward of the best policy.
    #[getter]
    fn j_best(&self, py: Python<'_>) -> f64 {
        py.detach(|| Optimal::new(&self.tree).j)
    }

    /// The gradient of `j` with respect to the logits.
    #[getter]
    fn grad_j<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        py.detach(|| self.oracle().grad_j()).into_pyarray(py)
    }

    /// The probability of each edge's token at its prefix.
    #[getter]
    fn probabilities<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        py.detach(|| self.policy.probs(&self.tree)).into_pyarray(py)
    }

    /// The probability that a sampled response takes the edge.
    #[getter]
    fn visits<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        let visits = || {
            let oracle = self.oracle();
            self.tree.edges().map(|e| oracle.edge_visit(e)).collect::<Vec<_>>()
        };
        py.detach(visits).into_pyarray(py)
    }

    /// The advantage of each edge's token, `Q(s,a) - V(s)`.
    #[getter]
    fn advantages<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        py.detach(|| self.oracle().advantages()).into_pyarray(py)
    }

    /// The expected update of a method on-policy, with its variance, compared with the policy gradient.
    ///
    /// Args:
    ///     method: the name of a method, or a callable `f(groups, logps) -> (loss, dlogps)` as `grpo_lambda.conformance` describes it.
    ///     group_size: responses per group, at least 2.
    ///     how: `exact`, a sum over all groups; `sampled`, from `samples` simulated groups; `auto`, exact if feasible.
    ///     samples: simulated groups. seed: their random seed.
    ///     settings: settings of a named method.
    ///
    /// Example:
    ///     >>> import grpo_lambda
    ///     >>> grpo_lambda.Mdp.zoo("pivot").expected("rloo", group_size=2).cosine > 0.999999
    ///     True
    #[pyo3(signature = (method, /, *, group_size = 8, how = "auto", samples = 20_000, seed = 0, **settings))]
    #[allow(clippy::too_many_arguments, reason = "the keywords of the Python method")]
    fn expected(
        &self,
        py: Python<'_>,
        method: &Bound<'_, PyAny>,
        group_size: usize,
        how: &str,
        samples: usize,
        seed: u64,
        settings: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Expected> {
        for (name, value) in [("group_size", group_size), ("samples", samples)] {
            if value < 2 {
                return Err(refused(format!("{name} = {value}; must be at least 2")));
            }
        }
        let run = Run { group_size, how, samples, seed };
        if method.is_callable() {
            if let Some(key) = settings.and_then(|s| s.keys().iter().next()) {
                return Err(refused(format!("{key}: a callable has no settings; bind them in the function")));
            }
            let callable = Callable::new(method.clone().unbind());
            // A call costs some microseconds, so that fewer groups than of a compiled method are enumerated unless that is asked for.
            let few = (self.tree.leaf_count() as f64).powi(group_size as i32) <= CALLS;
            let how = if how == "auto" && !few { "sampled" } else { how };
            let found = self.computed(py, &callable, &Run { how, ..run });
            return callable.failure().map_or(found, Err);
        }
        let name = method.extract::<String>().map_err(|_| {
            refused(format!("method = {}; must be the name of a method, or a callable", shown(method)))
        })?;
        let configured = configure(&name, settings)?;
        check_measurable(&configured, &self.tree).map_err(refused)?;
        warn_of_idle(py, &configured)?;
        self.computed(py, configured.method.as_ref(), &run)
    }

    fn __repr__(&self) -> String {
        let (prefixes, edges, responses) = self.size();
        format!("<Mdp {}: {prefixes} prefixes, {edges} edges, {responses} responses>", self.name)
    }
}

/// Calls of a Python function that are made without being asked for.
const CALLS: f64 = 50_000.0;

/// The size of the groups and the way of computing.
struct Run<'a> {
    group_size: usize,
    how: &'a str,
    samples: usize,
    seed: u64,
}

impl Mdp {
    fn of_table(mdp: TableMdp) -> PyResult<Mdp> {
        let (tree, policy) = mdp.build().map_err(refused)?;
        Ok(Mdp { name: mdp.name.clone(), tree, policy, origin: Origin::Table(Arc::new(mdp)) })
    }

    fn computed(&self, py: Python<'_>, method: &dyn Method, run: &Run) -> PyResult<Expected> {
        let Run { group_size, how, samples, seed } = *run;
        let on_policy = Situation::on_policy(&self.tree, &self.policy, group_size);
        let situation = Situation { reference: Some(&self.policy), ..on_policy };
        let exact = || implied(method, &situation).or_else(|_| enumerated(method, &situation));
        let simulated = || sampled(method, &situation, samples, seed).estimate;
        py.detach(|| {
            let (found, how) = match how {
                "exact" => (exact().map_err(|e| e.to_string())?, "exact"),
                "sampled" => (simulated(), "sampled"),
                "auto" => match exact() {
                    Ok(found) => (found, "exact"),
                    Err(_) => (simulated(), "sampled"),
                },
                _ => return Err(format!("how = `{how}`; must be one of auto, exact, sampled")),
            };
            let comparison = compare(&found, &self.oracle());
            Ok(Expected { found, comparison, how })
        })
        .map_err(refused)
    }

    fn oracle(&self) -> Oracle<'_> {
        Oracle::new(&self.tree, &self.policy)
    }
}

/// An expected update with its variance, compared with the policy gradient.
#[pyclass(frozen, module = "grpo_lambda")]
pub(crate) struct Expected {
    found: expected::Expected,
    comparison: expected::Comparison,
    how: &'static str,
}

#[pymethods]
impl Expected {
    /// The expected step of the logits at learning rate 1, for one group.
    #[getter]
    fn update<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        PyArray1::from_slice(py, &self.found.update)
    }

    /// The mean weight that a token receives, times the group size.
    #[getter]
    fn credit<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        PyArray1::from_slice(py, &self.found.credit)
    }

    /// The variance of the update over groups.
    #[getter]
    fn variance<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        PyArray1::from_slice(py, &self.found.variance)
    }

    /// The trace of the covariance of the update.
    #[getter]
    fn total_variance(&self) -> f64 {
        self.found.total_variance()
    }

    /// `exact` or `sampled`.
    #[getter]
    fn how(&self) -> &'static str {
        self.how
    }

    /// The cosine between the expected update and the policy gradient.
    #[getter]
    fn cosine(&self) -> f64 {
        self.comparison.cosine
    }

    /// The multiple of the policy gradient that fits the expected update best.
    #[getter]
    fn scale(&self) -> f64 {
        self.comparison.scale
    }

    /// The remainder besides that multiple, relative to it.
    #[getter]
    fn bias(&self) -> f64 {
        self.comparison.bias
    }

    /// The share of visits whose centred credit has the sign of the true advantage.
    #[getter]
    fn sign_agreement(&self) -> f64 {
        self.comparison.sign_agreement
    }

    /// The squared length of the expected update over its total variance, for one group.
    #[getter]
    fn signal_to_noise(&self) -> f64 {
        self.comparison.signal_to_noise
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let c = &self.comparison;
        let short = |x: f64| PyFloat::new(py, x).call_method1("__format__", (".3g",))?.extract::<String>();
        let [cosine, bias, scale] = [short(c.cosine)?, short(c.bias)?, short(c.scale)?];
        Ok(format!("<Expected update, {}: cosine {cosine}, bias {bias}, scale {scale}>", self.how))
    }
}
