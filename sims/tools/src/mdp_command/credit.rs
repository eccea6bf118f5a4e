//! The credit that a method implies, prefix by prefix, beside the true advantage.

use grpo_lambda::methods::Configured;
use grpo_lambda_mdp::expected::{Comparison, Expected};
use grpo_lambda_mdp::{Oracle, Tree};
use grpo_lambda_stats::table::{Table, significant};

use crate::method_args::settings_that_differ;
use grpo_lambda_figure::{Axis, Figure, Mark, Panel};

/// Rows of the credit table in the terminal and of the heat-map.
pub(super) const SHOWN: usize = 24;

/// The credit table, every edge with a choice, and the heat-map of the most visited prefixes.
pub(super) fn views(
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
    let mut table =
        Table::new(&["prefix", "token", "visit", "pi", "advantage", "credit", "update", "gradient"]);
    let grad = oracle.grad_j();
    let mut map = HeatMaps::default();
    for &node in &nodes {
        let label = label(tree, node);
        let edges = tree.edges_of(node);
        let mean: f64 = edges.clone().map(|e| oracle.probs[e] * expected.credit[e]).sum();
        let (mut advantages, mut credits) =
            (vec![f64::NAN; tree.tokens().len()], vec![f64::NAN; tree.tokens().len()]);
        for e in edges {
            let credit = (expected.credit[e] - mean) / comparison.scale;
            advantages[tree.token(e) as usize] = oracle.advantage(e);
            credits[tree.token(e) as usize] = credit;
            table.push(vec![
                label.as_str().into(),
                tree.token_name(e).into(),
                oracle.visit[node].into(),
                oracle.probs[e].into(),
                oracle.advantage(e).into(),
                credit.into(),
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
    (table, map.figure(name, method, comparison, tree))
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
    fn figure(self, name: &str, method: &Configured, comparison: &Comparison, tree: &Tree) -> Figure {
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
            "{}; implied credit centred per prefix and divided by the scale {} that fits the gradient best; {} provenance",
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
