//! `sim mdp`: what a method's update is on a user's MDP, exactly.

use std::path::PathBuf;

use grpo_lambda::group::EvidenceKind;
use grpo_lambda::mdp::evidence::Exact;
use grpo_lambda::mdp::expected::{
    Comparison, Expected, ExpectedError, Situation, compare, enumerated, implied, sampled,
};
use grpo_lambda::mdp::{Optimal, Oracle, Tree};
use grpo_lambda::methods::{self, Configured, Method, REGISTRY};
use grpo_lambda::table::{Table, significant};

use crate::failure::Failure;
use crate::figure::{Figure, Mark, Panel};
use crate::mdp_file::{self, MdpFile};
use crate::method_args::{MethodArgs, warn_of_idle_settings};
use crate::run::{DEFAULT_SEED, PNG_SCALE};
use crate::terminal;
use crate::write::Output;

/// Groups simulated where no exact way is feasible.
const SAMPLED_GROUPS: usize = 20_000;

/// Rows of the credit table in the terminal and of the heat-map.
const SHOWN: usize = 24;

/// Arguments of `sim mdp`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct MdpArgs {
    /// The MDP, a TOML file
    #[arg(value_name = "FILE.toml")]
    pub file: PathBuf,
    #[command(flatten)]
    method: MethodArgs,
    /// Responses per group
    #[arg(long, value_name = "G", default_value_t = 8, value_parser = clap::value_parser!(u8).range(2..=64))]
    pub group: u8,
    /// Seed, used only where nothing exact is feasible
    #[arg(long, value_name = "N", default_value_t = DEFAULT_SEED)]
    pub seed: u64,
    /// Folder for results; runs/mdp/NAME when not given
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

const HELP: &str = "\
The file:
  name = \"two roads\"
  tokens = [\"left\", \"right\", \"EOS\"]
  eos = \"EOS\"
  horizon = 3              # a response without EOS is cut here
  gamma = 1.0              # optional
  reward_kind = \"binary\"   # optional; or \"real\". A binary reward is the probability of 1
  default_reward = 0.0     # optional; of a response that no pattern matches

  [[rewards]]              # the most specific pattern wins; * at the end matches any continuation
  pattern = \"left *\"
  reward = 1.0

  [[illegal]]              # optional: tokens that cannot follow a prefix; \"\" is the prompt
  prefix = \"\"
  tokens = \"EOS\"

  [[policy]]               # optional: the initial policy, uniform where nothing is said
  prefix = \"\"
  probabilities = { left = 0.25, right = 0.75 }

The initial policy is also the reference of a KL term, so that beta changes nothing here.

What the columns say:
  cosine          between the expected update and the policy gradient; 1 is unbiased up to scale
  bias            the part of the update that is no multiple of the gradient, relative
  scale           that multiple: a factor on the learning rate
  sign agreement  share of visits at which the implied credit has the sign of the true advantage
  signal/noise    squared length of the expected update over its variance, for one group";

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
pub fn analyse(request: &MdpArgs, method: &Configured) -> anyhow::Result<Analysis> {
    let MdpFile { name, tree, policy } = mdp_file::read(&request.file)?;
    let oracle = Oracle::new(&tree, &policy);
    let group_size = usize::from(request.group);
    anyhow::ensure!(
        oracle.grad_j().iter().any(|g| *g != 0.0),
        "{}: the policy gradient is zero at the initial policy (every response earns the same, or no prefix has a choice): \
         there is nothing to compare a method with",
        request.file.display()
    );
    // The initial policy is its own reference, as in the first step of a training run.
    let provided = [Exact::kinds_on(&tree), vec![EvidenceKind::RefLogps]].concat();
    method.require(&provided)?;
    let situation =
        Situation { reference: Some(&policy), ..Situation::on_policy(&tree, &policy, group_size) };

    let (expected, how) = expectation(method.method.as_ref(), &situation, request.seed);
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
    let changed = settings_that_differ(method);
    push(&mut rows, method.spec.title, &changed, &comparison, &how);
    let mut left_out = Vec::new();
    for &spec in REGISTRY {
        let default = methods::configure(spec.name, &[])?;
        if let Err(lacking) = default.require(&provided) {
            left_out.push(format!("{} (needs {})", spec.title, lacking.needs));
            continue;
        }
        if spec.name == method.spec.name && changed == "defaults" {
            continue;
        }
        let (expected, how) = expectation(default.method.as_ref(), &situation, request.seed);
        push(&mut rows, spec.title, "defaults", &compare(&expected, &oracle), &how);
    }

    let mut facts = vec![
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
            group_size
        ),
    ];
    if !left_out.is_empty() {
        facts.push(format!("not shown, for want of evidence a table gives: {}", left_out.join(", ")));
    }
    let (credit, figure) = credit_views(&name, method, &expected, &comparison, &oracle);
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
    // One range for both panels, so that a colour means the same credit in each.
    let largest =
        truth.iter().chain(&implied).flatten().filter(|x| x.is_finite()).fold(0.0f64, |m, x| m.max(x.abs()));
    let panel = |title: &str, values: Vec<Vec<f64>>| {
        Panel::new(title)
            .x(crate::figure::Axis::new("next token").categories(tree.tokens().to_vec()))
            .y(crate::figure::Axis::new("prefix, most visited first").categories(rows.clone()))
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
    let figure = Figure::new(title)
        .caption(caption)
        .panel_size(520, height)
        .panel(panel("true advantage A(s,a)", truth))
        .panel(panel(&format!("implied credit of {}", method.spec.title), implied));
    (table, figure)
}

/// Runs the command: analyses, writes CSV and figure, prints.
///
/// # Errors
/// When the input is refused or the results cannot be written.
pub fn run(args: &MdpArgs) -> Result<(), Failure> {
    let refused = |e: anyhow::Error| Failure::Refused(format!("{e:#}"));
    let method = args.method.configure()?;
    let analysis = analyse(args, &method).map_err(refused)?;
    let out = args.out.clone().unwrap_or_else(|| PathBuf::from("runs/mdp").join(&analysis.name));
    let output = Output::open(&out)
        .map_err(|e| Failure::Refused(format!("--out: {e:#}; give a folder this user can write to")))?;
    let command = command(args);
    let write = || -> anyhow::Result<PathBuf> {
        output.write("data/methods.csv", analysis.methods.to_csv(&command).as_bytes())?;
        output.write("data/credit.csv", analysis.credit.to_csv(&command).as_bytes())?;
        output.write("figures/credit.svg", analysis.figure.to_svg()?.as_bytes())?;
        output.write("figures/credit.png", &analysis.figure.to_png(PNG_SCALE)?)
    };
    let figure = write().map_err(|e| Failure::Failed(format!("{e:#}")))?;
    warn_of_idle_settings(&method, "sim mdp");
    let mut text = analysis.facts.join("\n") + "\n\n";
    text += &format!("{}\n\n", shown(&analysis.methods, usize::MAX));
    text += "Credit, most visited prefixes first: `credit` is the implied credit over `scale`, to be compared with the advantage\n";
    text += &format!("{}\n", shown(&analysis.credit, SHOWN));
    text += &format!("\nFigure: {} (and .svg); data: {}\n", figure.display(), out.join("data").display());
    terminal::print(&text)
}

/// The command that repeats the analysis, for the first line of its CSVs.
fn command(args: &MdpArgs) -> String {
    let file = args.file.display().to_string();
    let (group, seed) = (args.group.to_string(), args.seed.to_string());
    let words = ["sim", "mdp", &file, "--method", &args.method.method];
    let settings = args.method.settings.iter().map(String::as_str);
    let options = ["--group", &group, "--seed", &seed];
    words.into_iter().chain(settings).chain(options).collect::<Vec<_>>().join(" ")
}

/// A table for the terminal, its first rows.
fn shown(table: &Table, rows: usize) -> String {
    let columns: Vec<&str> = table.columns.iter().map(String::as_str).collect();
    let mut view = terminal::table(&columns);
    for row in table.rows.iter().take(rows) {
        view.add_row(row.iter().map(|cell| cell.format(4)).collect::<Vec<_>>());
    }
    let cut = table.rows.len().saturating_sub(rows);
    let note = if cut > 0 { format!("\n{cut} more rows in the CSV") } else { String::new() };
    format!("{view}{note}")
}
