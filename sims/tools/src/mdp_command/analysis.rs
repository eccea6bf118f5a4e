//! A method and all others against the policy gradient of a user's MDP.

use super::MdpArgs;
use crate::input::MOST_PAIRS;
use crate::mdp_file::{self, MdpFile};
use crate::method_args::{DEFAULTS, settings_that_differ};
use crate::terminal::Progress;
use grpo_lambda::group::InputKind;
use grpo_lambda::methods::{self, Configured, REGISTRY};
use grpo_lambda::systematic::Sets;
use grpo_lambda_figure::{Axis, Figure, Mark, Panel};
use grpo_lambda_mdp::expected::{
    Comparison, Expected, Situation, compare, enumerated, implied, multisets, sampled,
};
use grpo_lambda_mdp::extra_inputs::{check_measurable, provided};
use grpo_lambda_mdp::{Optimal, Oracle, Tree};
use grpo_lambda_stats::table::{Table, significant};
use std::fmt;
use std::ops::RangeInclusive;

/// Groups simulated where no exact way is feasible.
const SAMPLED_GROUPS: usize = 20_000;

/// Limit on the number of groups, whatever their order, over which a method is summed: under a second of one processor.
const MULTISETS: f64 = 2e5;

/// Squared lengths of a policy gradient with which no comparison overflows or underflows.
const RESOLVED: RangeInclusive<f64> = 1e-200..=1e200;

/// The least squared length of a policy gradient over that of its terms before their mean is taken off: below it only rounding is left.
const CANCELLED: f64 = 1e-24;

/// The result of `sim mdp`.
pub struct Analysis {
    /// The name of the MDP.
    pub title: String,
    /// The name in a form fit for files.
    pub name: String,
    /// Facts about the MDP, line by line.
    pub facts: Vec<String>,
    /// The method and every other at its defaults against the policy gradient.
    pub methods: Table,
    /// The methods that need inputs which a table does not give, on a line; empty for none.
    pub left_out: String,
    /// Credit per prefix and token, most visited first.
    pub credit: Table,
    /// True advantage and implied credit.
    pub figure: Figure,
}

/// The way an expected update was obtained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// A sum over all groups.
    Exact,
    /// The mean of this many simulated groups.
    Sampled(usize),
}

impl How {
    /// The bias that the noise of the mean alone gives an update, the root of its summed squared standard errors over `|κ ∇J|`; 0 if exact.
    fn bias_noise(self, c: &Comparison) -> f64 {
        match self {
            How::Exact => 0.0,
            How::Sampled(groups) => 1.0 / (c.cosine.abs() * (groups as f64 * c.signal_to_noise).sqrt()),
        }
    }
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            How::Exact => f.write_str("exact"),
            How::Sampled(groups) => write!(f, "sampled, {groups} groups"),
        }
    }
}

/// Expected update and how it was obtained: exactly, or from groups simulated with this seed where nothing exact is feasible.
pub fn expectation(configured: &Configured, situation: &Situation, seed: u64) -> (Expected, How) {
    let method = configured.method.as_ref();
    let sets = configured.sets().unwrap_or(Sets::SINGLE);
    let are_equal = situation.group_size.is_multiple_of(sets.count(situation.group_size));
    let exact = implied(method, situation)
        .or_else(|error| if are_equal { multisets(method, situation, sets, MULTISETS) } else { Err(error) });
    match exact.or_else(|_| enumerated(method, situation)) {
        Ok(expected) => (expected, How::Exact),
        Err(_) => {
            let run = sampled(method, situation, SAMPLED_GROUPS, seed);
            (run.estimate, How::Sampled(run.groups))
        }
    }
}

/// Checks that the policy gradient is long enough, and short enough, to compare a method with.
///
/// # Errors
/// The squared length of a gradient that floating point cannot compare.
pub fn resolved(oracle: &Oracle) -> Result<(), String> {
    let (mut squared, mut terms) = (0.0, 0.0);
    for (edge, g) in oracle.grad_j().into_iter().enumerate() {
        squared += g * g;
        // The gradient with Q in the place of A = Q - V, as far as a product can say it.
        let depth = oracle.tree.depth(oracle.tree.edge_node(edge)) as i32;
        terms += (oracle.tree.gamma().powi(depth) * oracle.edge_visit(edge) * oracle.q[edge]).powi(2);
    }
    if RESOLVED.contains(&squared) && squared > CANCELLED * terms {
        return Ok(());
    }
    Err(format!(
        "the policy gradient has the squared length {squared:e} at the initial policy (every response earns the same, no prefix has a choice, or \
         differences of rewards, or gamma, are too small for floating point): there is nothing to compare a method with"
    ))
}

/// Reads the file and analyses the method on it.
///
/// # Errors
/// When the file is refused, or the method needs extra inputs that a table cannot give.
pub fn analyse(request: &MdpArgs, method: &Configured) -> anyhow::Result<Analysis> {
    let MdpFile { name, tree, policy } = mdp_file::read(&request.file)?;
    let group_size = usize::from(request.group);
    let pairs = tree.edge_count();
    anyhow::ensure!(
        pairs * group_size <= MOST_PAIRS,
        "{}: {pairs} (prefix, token) pairs in groups of {group_size}: their product must be at most {MOST_PAIRS} to be summed for every method; \
         make horizon, tokens or --group smaller",
        request.file.display()
    );
    let oracle = Oracle::new(&tree, &policy);
    resolved(&oracle).map_err(|why| anyhow::anyhow!("{}: {why}", request.file.display()))?;
    let provided = provided(&tree);
    check_measurable(method, &tree).map_err(anyhow::Error::msg)?;
    let situation =
        Situation { reference: Some(&policy), ..Situation::on_policy(&tree, &policy, group_size) };

    let progress = Progress::start();
    progress.begin(1, REGISTRY.len(), method.spec.title);
    let (expected, how) = expectation(method, &situation, request.seed);
    let comparison = compare(&expected, &oracle);
    let mut methods = Table::new(&COLUMNS);
    push(&mut methods, method.spec.title, &settings_that_differ(method), &comparison, how);
    let left_out = push_defaults(&mut methods, method, &provided, |number, default| {
        progress.begin(number, REGISTRY.len(), default.spec.title);
        let (expected, how) = expectation(default, &situation, request.seed);
        (compare(&expected, &oracle), how)
    })?;

    let facts = facts(&oracle, group_size);
    let left_out = match left_out.is_empty() {
        true => String::new(),
        false => format!("not shown, for lack of inputs that a table gives: {}\n", left_out.join(", ")),
    };
    let (credit, figure) = views(&name, method, (&expected, how), &comparison, &oracle);
    let fit = |c: char| if c.is_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
    Ok(Analysis {
        name: name.chars().map(fit).collect(),
        title: name,
        facts,
        methods,
        left_out,
        credit,
        figure,
    })
}

/// The size of the MDP and what can be earned on it.
fn facts(oracle: &Oracle, group_size: usize) -> Vec<String> {
    let tree = oracle.tree;
    vec![
        format!(
            "{} tokens, {} prefixes, {} responses of 1 to {} tokens (mean {})",
            tree.tokens().len(),
            tree.node_count(),
            tree.leaf_count(),
            tree.max_len(),
            significant(oracle.mean_length(), 4)
        ),
        format!(
            "J = {} at the initial policy, J* = {} at best; groups of {}",
            significant(oracle.j, 6),
            significant(Optimal::new(tree).j, 6),
            group_size
        ),
    ]
}

const COLUMNS: [&str; 9] =
    ["method", "settings", "cosine", "bias", "bias noise", "scale", "sign agreement", "signal/noise", "how"];

/// A row for every other method at its defaults; returns those that need extra inputs which are not `provided`.
fn push_defaults(
    rows: &mut Table,
    method: &Configured,
    provided: &[InputKind],
    compared: impl Fn(usize, &Configured) -> (Comparison, How),
) -> anyhow::Result<Vec<String>> {
    let shown_already = settings_that_differ(method) == DEFAULTS;
    let mut left_out = Vec::new();
    for (number, &spec) in (1..).zip(REGISTRY) {
        let default = methods::configure(spec.name, &[])?;
        if let Err(lacking) = default.require(provided) {
            left_out.push(format!("{} (needs {})", spec.title, lacking.needs));
            continue;
        }
        if spec.name == method.spec.name && shown_already {
            continue;
        }
        let (comparison, how) = compared(number, &default);
        push(rows, spec.title, DEFAULTS, &comparison, how);
    }
    Ok(left_out)
}

fn push(rows: &mut Table, title: &str, settings: &str, c: &Comparison, how: How) {
    rows.push(vec![
        title.into(),
        settings.into(),
        c.cosine.into(),
        c.bias.into(),
        how.bias_noise(c).into(),
        c.scale.into(),
        c.sign_agreement.into(),
        c.signal_to_noise.into(),
        how.to_string().into(),
    ]);
}

/// Columns of the credit table in the terminal.
pub(super) const CREDIT: usize = 5;
/// Rows of the credit table in the terminal and of the heat-map.
pub(super) const SHOWN: usize = 24;

/// The credit table, every edge with a choice, and the heat-map of the most visited prefixes.
pub fn views(
    name: &str,
    method: &Configured,
    (expected, how): (&Expected, How),
    comparison: &Comparison,
    oracle: &Oracle,
) -> (Table, Figure) {
    let tree: &Tree = oracle.tree;
    let mut nodes: Vec<usize> =
        tree.nodes().filter(|&n| tree.edges_of(n).len() > 1 && oracle.visit[n] > 0.0).collect();
    nodes.sort_by(|&a, &b| oracle.visit[b].total_cmp(&oracle.visit[a]).then(a.cmp(&b)));
    let mut table =
        Table::new(&["prefix", "token", "probability", "advantage", "credit", "visit", "update", "gradient"]);
    let grad = oracle.grad_j();
    let mut map = HeatMaps::default();
    for &node in &nodes {
        let label = label(tree, node);
        let edges = tree.edges_of(node);
        let mean: f64 = edges.clone().map(|e| oracle.probs[e] * expected.credit[e]).sum();
        let (mut advantages, mut credits) =
            (vec![f64::NAN; tree.tokens().len()], vec![f64::NAN; tree.tokens().len()]);
        for e in edges {
            // The magnitude keeps the sign where the update points away from the gradient.
            let credit = (expected.credit[e] - mean) / comparison.scale.abs();
            advantages[tree.token(e) as usize] = oracle.advantage(e);
            credits[tree.token(e) as usize] = credit;
            table.push(vec![
                label.as_str().into(),
                tree.token_name(e).into(),
                oracle.probs[e].into(),
                oracle.advantage(e).into(),
                credit.into(),
                oracle.visit[node].into(),
                expected.update[e].into(),
                grad[e].into(),
            ]);
        }
        if map.prefixes.len() < SHOWN {
            map.prefixes.push(label);
            map.truth.push(advantages);
            map.implied.push(credits);
        }
    }
    (table, map.figure(name, method, comparison, how, tree))
}

fn label(tree: &Tree, node: usize) -> String {
    let text = tree.text(&tree.prefix(node));
    if text.is_empty() { "(prompt)".to_owned() } else { text }
}

/// Rows of the two heat-maps: the most visited prefixes, with a value for each next token.
#[derive(Default)]
struct HeatMaps {
    prefixes: Vec<String>,
    truth: Vec<Vec<f64>>,
    implied: Vec<Vec<f64>>,
}

impl HeatMaps {
    fn figure(
        self,
        name: &str,
        method: &Configured,
        comparison: &Comparison,
        how: How,
        tree: &Tree,
    ) -> Figure {
        let HeatMaps { prefixes, truth, implied } = self;
        let height = 120 + 24 * prefixes.len().max(4) as u32;
        // One range for both panels, so that a colour means the same credit in each.
        let finite = truth.iter().chain(&implied).flatten().filter(|x| x.is_finite());
        let largest = finite.fold(0.0f64, |m, x| m.max(x.abs()));
        let panel = |title: &str, values: Vec<Vec<f64>>| {
            Panel::new(title)
                .x(Axis::new("next token").categories(tree.tokens().to_vec()))
                .y(Axis::new("prefix, most visited first").categories(prefixes.clone()))
                .mark(Mark::HeatMap {
                    values,
                    annotate: true,
                    range: Some((-largest, largest)),
                    diverging: true,
                    label: "credit, in units of reward".into(),
                })
        };
        let title = format!(
            "{name}: the expected update of {} has cosine {} with the policy gradient",
            method.spec.title,
            significant(comparison.cosine, 3)
        );
        let caption = format!(
            "{}; {how}; implied credit centred per prefix and divided by the magnitude of the scale {} that fits the gradient best; {} provenance",
            settings_that_differ(method),
            significant(comparison.scale, 3),
            method.spec.provenance.name()
        );
        Figure::new(title)
            .caption(caption)
            .panel_size(520, height)
            .panel(panel("true advantage A(s,a)", truth))
            .panel(panel(&format!("implied credit of {}", method.spec.title), implied))
    }
}
