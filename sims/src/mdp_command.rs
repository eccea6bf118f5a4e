//! `sim mdp`: what a method's update is on a user's MDP, exactly.

use std::path::PathBuf;

use grpo_lambda::group::EvidenceKind;
use grpo_lambda::mdp::expected::{
    Comparison, Expected, ExpectedError, Situation, compare, enumerated, implied, sampled,
};
use grpo_lambda::mdp::{Optimal, Oracle, Tree};
use grpo_lambda::methods::{self, Configured, Method, REGISTRY};
use grpo_lambda::table::{Table, significant};

use crate::figure::{Figure, Panel};
use crate::mdp_file::{self, MdpFile};

/// Groups simulated where no exact way is feasible.
const SAMPLED_GROUPS: usize = 20_000;

/// Rows of the credit table in the terminal and of the heat-map.
const SHOWN: usize = 24;

/// What `sim mdp` was asked.
pub struct Request {
    /// The TOML file.
    pub file: PathBuf,
    /// The method with its settings.
    pub method: Configured,
    /// Responses per group.
    pub group_size: usize,
    /// Seed, used only where nothing exact is feasible.
    pub seed: u64,
}

/// What `sim mdp` found.
pub struct Analysis {
    /// A name fit for files.
    pub name: String,
    /// Facts about the MDP, line by line.
    pub facts: Vec<String>,
    /// The method and every other at its defaults against the policy gradient.
    pub methods: Table,
    /// Credit per prefix and token, most visited first.
    pub credit: Table,
    /// True advantage beside implied credit.
    pub figure: Figure,
}

/// Expected update and how it was obtained.
fn expectation(method: &dyn Method, situation: &Situation, seed: u64) -> (Expected, String) {
    match implied(method, situation).or_else(|_: ExpectedError| enumerated(method, situation)) {
        Ok(expected) => (expected, "exact".to_owned()),
        Err(_) => {
            let run = sampled(method, situation, SAMPLED_GROUPS, seed);
            (run.estimate, format!("sampled, {SAMPLED_GROUPS} groups"))
        }
    }
}

/// Reads the file and analyses the method on it.
///
/// # Errors
/// When the file is refused, or the method needs evidence a table cannot give.
pub fn analyse(request: &Request) -> anyhow::Result<Analysis> {
    let MdpFile { name, tree, policy } = mdp_file::read(&request.file)?;
    let oracle = Oracle::new(&tree, &policy);
    anyhow::ensure!(
        oracle.grad_j().iter().any(|g| *g != 0.0),
        "{}: the policy gradient is zero at the initial policy (every response earns the same, or no prefix has a choice): \
         there is nothing to compare a method with",
        request.file.display()
    );
    // The initial policy is its own reference, as in the first step of a training run.
    let provided = [EvidenceKind::RefLogps, EvidenceKind::Entropies, EvidenceKind::Values];
    if let Some(missing) = request.method.evidence().into_iter().find(|e| !provided.contains(e)) {
        anyhow::bail!(
            "{} needs {}, which a tabular policy does not have",
            request.method.spec.name,
            missing.name()
        );
    }
    let situation =
        Situation { reference: Some(&policy), ..Situation::on_policy(&tree, &policy, request.group_size) };

    let (expected, how) = expectation(request.method.method.as_ref(), &situation, request.seed);
    let comparison = compare(&expected, &oracle);
    let mut rows = Table::new(&[
        "method",
        "settings",
        "cosine",
        "bias",
        "scale",
        "sign agreement",
        "signal/noise",
        "how",
    ]);
    let changed = settings_that_differ(&request.method);
    push(&mut rows, request.method.spec.title, &changed, &comparison, &how);
    for spec in REGISTRY {
        let default = methods::configure(spec.name, &[])?;
        if spec.name == request.method.spec.name && changed == "defaults" {
            continue;
        }
        let (expected, how) = expectation(default.method.as_ref(), &situation, request.seed);
        push(&mut rows, spec.title, "defaults", &compare(&expected, &oracle), &how);
    }

    let facts = vec![
        format!(
            "{name}: {} tokens, {} prefixes, {} responses of 1 to {} tokens (mean {})",
            tree.tokens().len(),
            tree.node_count(),
            tree.leaf_count(),
            tree.max_len(),
            significant(oracle.mean_length(), 4)
        ),
        format!(
            "J = {} at the initial policy, J* = {} at best; groups of {}",
            significant(oracle.j, 6),
            significant(Optimal::new(&tree).j, 6),
            request.group_size
        ),
    ];
    let (credit, figure) = credit_views(&name, &request.method, &expected, &comparison, &oracle);
    let name = name.chars().map(|c| if c.is_alphanumeric() { c.to_ascii_lowercase() } else { '_' }).collect();
    Ok(Analysis { name, facts, methods: rows, credit, figure })
}

fn push(rows: &mut Table, title: &str, settings: &str, c: &Comparison, how: &str) {
    rows.push(vec![
        title.into(),
        settings.into(),
        c.cosine.into(),
        c.bias.into(),
        c.scale.into(),
        c.sign_agreement.into(),
        c.signal_to_noise.into(),
        how.into(),
    ]);
}

/// `key=value` of every setting that is not its default, or `defaults`.
fn settings_that_differ(configured: &Configured) -> String {
    let params = (configured.spec.params)();
    let differs = |(key, value): &(&str, &str)| params.iter().any(|p| p.key == *key && p.default != *value);
    let words: Vec<String> =
        configured.settings.entries().filter(differs).map(|(k, v)| format!("{k}={v}")).collect();
    if words.is_empty() { "defaults".to_owned() } else { words.join(" ") }
}

/// The credit table, every edge with a choice, and the heat-map of the most visited prefixes.
fn credit_views(
    name: &str,
    method: &Configured,
    expected: &Expected,
    comparison: &Comparison,
    oracle: &Oracle,
) -> (Table, Figure) {
    let tree: &Tree = oracle.tree;
    let mut nodes: Vec<usize> =
        tree.nodes().filter(|&n| tree.edges_of(n).len() > 1 && oracle.visit[n] > 0.0).collect();
    nodes.sort_by(|&a, &b| oracle.visit[b].total_cmp(&oracle.visit[a]).then(a.cmp(&b)));
    let label = |node: usize| {
        let text = tree.text(&tree.prefix(node));
        if text.is_empty() { "(prompt)".to_owned() } else { text }
    };
    let mut table =
        Table::new(&["prefix", "token", "visit", "pi", "advantage", "credit", "update", "gradient"]);
    let grad = oracle.grad_j();
    let (mut truth, mut implied, mut rows) = (Vec::new(), Vec::new(), Vec::new());
    for &node in &nodes {
        let edges = tree.edges_of(node);
        let mean: f64 = edges.clone().map(|e| oracle.probs[e] * expected.credit[e]).sum();
        let (mut a_row, mut c_row) =
            (vec![f64::NAN; tree.tokens().len()], vec![f64::NAN; tree.tokens().len()]);
        for e in edges {
            let credit = (expected.credit[e] - mean) / comparison.scale;
            a_row[tree.token(e) as usize] = oracle.advantage(e);
            c_row[tree.token(e) as usize] = credit;
            table.push(vec![
                label(node).into(),
                tree.token_name(e).into(),
                oracle.visit[node].into(),
                oracle.probs[e].into(),
                oracle.advantage(e).into(),
                credit.into(),
                expected.update[e].into(),
                grad[e].into(),
            ]);
        }
        if rows.len() < SHOWN {
            rows.push(label(node));
            truth.push(a_row);
            implied.push(c_row);
        }
    }
    let height = 120 + 24 * rows.len().max(4) as u32;
    let panel = |title: &str, values: Vec<Vec<f64>>| {
        Panel::new(title)
            .x(crate::figure::Axis::new("next token").categories(tree.tokens().to_vec()))
            .y(crate::figure::Axis::new("prefix, most visited first").categories(rows.clone()))
            .diverging_map("credit, in units of reward", values)
    };
    let title = format!(
        "{name}: the expected update of {} has cosine {} with the policy gradient",
        method.spec.title,
        significant(comparison.cosine, 3)
    );
    let caption = format!(
        "{}; implied credit centred per prefix and divided by the scale {} that fits the gradient best; {} provenance",
        settings_that_differ(method),
        significant(comparison.scale, 3),
        method.spec.provenance.name()
    );
    let figure = Figure::new(title)
        .caption(caption)
        .panel_size(520, height)
        .panel(panel("true advantage A(s,a)", truth))
        .panel(panel(&format!("implied credit of {}", method.spec.title), implied));
    (table, figure)
}
