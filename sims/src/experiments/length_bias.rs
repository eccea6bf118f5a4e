//! `length_bias`: what weights that depend on the length of a response do to preferences.
//!
//! ```text
//! T3   all responses of length T:   E[(r - V0) Σ_k c_k ∇_k] = Σ_k c_k ∇_(k)J          ∇_(k): logits at depth k
//! T4   lengths vary:                ω(s,a) = E[(r - V0) c_k(T) | s,a]  is not  κ Q(s,a) + const(s)
//! G4   weight 1/T_i:                E[g] = (G-1)/G ( ∇E[r/T] - V0 ∇E[1/T] )
//! ```

use super::exact::{Mdp, cosine, error, gap, holds, method, random_mdps, short};
use crate::experiment::{Context, Experiment, Finding, Report};
use crate::figure::{Axis, Figure, Panel, Style};
use grpo_lambda::mdp::expected::{Situation, implied};
use grpo_lambda::mdp::zoo::{Branch, Family, Fork, Random};
use grpo_lambda::mdp::{Oracle, Tabular};
use grpo_lambda::methods::Method;
use grpo_lambda::table::Table;
use grpo_lambda::trace::{Both, Recent, Trace};

/// The claim.
pub static EXPERIMENT: Experiment = Experiment {
    id: "length_bias",
    title: "With responses of different lengths the trace turns preferences round",
    claim: "drastically improving the credit assignment through rapid value propagation towards earlier tokens",
    source: "GRPO-lambda, section 1 (and Eq. 1, 2)",
    run,
};

const EXACT: f64 = 1e-12;
/// Probability of each of the two good branches, so that `V(s_0) = 0.25` with success 0.9 and 0.8.
const GOOD: f64 = 0.25 / 1.7;

/// Two branches that are chosen equally often, and a third of length 10 that is never rewarded.
fn fork(lengths: [usize; 2], success: [f64; 2]) -> Fork {
    Fork {
        branches: vec![
            Branch::new("short", lengths[0], success[0], GOOD),
            Branch::new("long", lengths[1], success[1], GOOD),
            Branch::new("astray", 10, 0.0, 1.0 - 2.0 * GOOD),
        ],
    }
}

/// What a method's expected update does at the prompt of a [`fork`]: implied credits and steps of the two logits.
struct Preference {
    credit: [f64; 2],
    step: [f64; 2],
    q: [f64; 2],
}

impl Preference {
    fn new(method: &dyn Method, fork: &Fork, group_size: usize) -> anyhow::Result<Preference> {
        let tree = fork.tree()?;
        let policy = fork.initial(&tree);
        let e = implied(method, &Situation::on_policy(&tree, &policy, group_size))?;
        let q = Oracle::new(&tree, &policy).q;
        Ok(Preference {
            credit: [e.credit[0], e.credit[1]],
            step: [e.update[0], e.update[1]],
            q: [q[0], q[1]],
        })
    }
    /// Whether the worse answer gains on the better one: the steps of the two logits are in the wrong order. (The branches
    /// are equally likely, so that ∇J orders the logits as Q does.)
    fn inverts(&self) -> bool {
        (self.step[0] - self.step[1]) * (self.q[0] - self.q[1]) < 0.0
    }
}

/// The methods of the table: name for a reader, registered name, settings.
fn variants() -> Vec<(String, &'static str, String)> {
    let mut all = Vec::new();
    let plain = "scale=none clamp=none";
    for reduction in ["token_mean", "response_mean", "constant"] {
        all.push((format!("no trace, {reduction}"), "grpo", format!("{plain} reduction={reduction}")));
    }
    for style in ["recent", "both"] {
        for normalise in ["none", "rows", "mean"] {
            for reduction in ["token_mean", "response_mean", "constant"] {
                all.push((
                    format!("{style}, normalise {normalise}, {reduction}"),
                    "grpo_lambda",
                    format!("{plain} style={style} normalise={normalise} reduction={reduction} lambda=0.99"),
                ));
            }
        }
    }
    all.push((
        "recent as in the paper: z-score, clamp -0.1, token_mean".into(),
        "grpo_lambda",
        "lambda=0.99".into(),
    ));
    all.push(("ε-weight as in the paper".into(), "grpo_lambda", "lambda=0.99 update=weight".into()));
    all.push((
        "GAE with constant critic (delta terminal)".into(),
        "grpo_lambda",
        format!("{plain} delta=terminal reduction=constant lambda=0.99"),
    ));
    all
}

fn run(ctx: &Context) -> anyhow::Result<Report> {
    let (fixed, fixed_table) = fixed_length()?;
    (ctx.progress)(0.2, "implied credit");
    let registered = oracle_credit()?;
    (ctx.progress)(0.3, "methods");
    let (by_method, method_table) = methods_table()?;
    (ctx.progress)(0.5, "regions");
    let (regions, region_table) = regions(if ctx.full { 21 } else { 13 })?;
    let (ratio_figure, ratio_table) = ratios()?;
    (ctx.progress)(0.9, "1/T");
    let (per_response, cosine_table) = per_response(ctx.seed)?;
    Ok(Report {
        findings: vec![registered, fixed, by_method, per_response],
        tables: vec![
            ("methods".into(), method_table),
            ("fixed_length".into(), fixed_table),
            ("regions".into(), region_table),
            ("ratio".into(), ratio_table),
            ("per_response".into(), cosine_table),
        ],
        figures: vec![("regions".into(), regions), ("ratio".into(), ratio_figure)],
    })
}

/// T3 on every MDP of the zoo whose responses all have the same length.
fn fixed_length() -> anyhow::Result<(Finding, Table)> {
    let mut table =
        Table::new(&["mdp", "length", "style", "lambda", "cosine_with_gradient", "largest_difference_below"]);
    let (mut worst, mut cases) = (0.0f64, 0);
    let group = 4;
    for name in ["pivot", "lucky_guess", "needle", "deceptive", "noisy", "parity"] {
        let mdp = Mdp::named(name)?;
        // A random policy: at the uniform one some of these have no gradient.
        let policy = Tabular::random(&mdp.tree, 1, 0.7);
        let oracle = Oracle::new(&mdp.tree, &policy);
        let len = mdp.tree.max_len();
        anyhow::ensure!(
            mdp.tree.leaves().all(|l| mdp.tree.leaf_len(l) == len),
            "{name} has ragged responses"
        );
        let gradient = oracle.grad_j();
        for (style, lambda) in [("recent", 0.9), ("recent", 0.99), ("both", 0.9), ("both", 0.99)] {
            let weights = match style {
                "recent" => Recent { q: lambda }.column_sums(len),
                _ => Both { q: lambda }.column_sums(len),
            };
            let settings =
                format!("style={style} lambda={lambda} scale=none clamp=none reduction=response_sum");
            let m = method("grpo_lambda", &settings)?;
            let update = implied(m.as_ref(), &Situation::on_policy(&mdp.tree, &policy, group))?.update;
            let share = (group as f64 - 1.0) / group as f64;
            let depth = |e| mdp.tree.depth(mdp.tree.edge_node(e));
            let rescaled: Vec<f64> =
                mdp.tree.edges().map(|e| share * weights[depth(e)] * gradient[e]).collect();
            let off = gap(&update, &rescaled);
            worst = worst.max(off);
            cases += 1;
            table.push(vec![
                name.into(),
                len.into(),
                style.into(),
                lambda.into(),
                cosine(&update, &gradient).into(),
                if off < EXACT { EXACT } else { off }.into(),
            ]);
        }
    }
    let finding = Finding {
        statement: "Fixed length T: the expected update of GRPO-lambda is (G-1)/G Σ_k c_k ∇_(k)J, each depth of ∇J rescaled by its column sum".into(),
        verdict: holds(worst < EXACT, || format!("off by {worst:e}")),
        numbers: format!("{cases} cases (6 MDPs, recent and both, λ = 0.9 and 0.99, G = {group}, no std, no clamp): largest difference {}; same stationary points for a tabular policy, another direction", error(worst)),
    };
    Ok((finding, table))
}

/// The example of the zoo: implied credit `E[(r - V0) c_0(T)]` by the oracle.
fn oracle_credit() -> anyhow::Result<Finding> {
    let family = Fork::default();
    let tree = family.tree()?;
    let oracle = Oracle::new(&tree, &family.initial(&tree));
    let trace = Recent { q: 0.99 };
    let credit = oracle.implied_credit(|leaf, reward, w| {
        let sums = trace.column_sums(tree.leaf_len(leaf));
        w.iter_mut().zip(sums).for_each(|(w, c)| *w = (reward - oracle.j) * c);
    });
    let (short_, long) = (credit[0], credit[1]);
    let agrees = (short_ > long) == (oracle.q[0] > oracle.q[1]);
    Ok(Finding {
        statement: "The trace improves credit assignment: the choice with the greater Q gets the greater expected credit".into(),
        verdict: holds(agrees, || {
            format!("short answer Q = {}, T = 2: credit {short_:.2}; long answer Q = {}, T = 50: credit {long:.1}", oracle.q[0], oracle.q[1])
        }),
        numbers: format!("Fork, V0 = {}, γ = 1, λ = 0.99, ω = E[(r-V0) c_0(T)]: short {short_:.2}, long {long:.1} (expected 1.29 and 21.7), true advantages {} and {}", short(oracle.j), short(oracle.advantage(0)), short(oracle.advantage(1))),
    })
}

fn methods_table() -> anyhow::Result<(Finding, Table)> {
    let mut table = Table::new(&[
        "method",
        "better",
        "credit_short",
        "credit_long",
        "credit_ratio",
        "step_short",
        "step_long",
        "inverts",
    ]);
    let group = 8;
    let (mut none, mut short_better, mut long_better) = (Vec::new(), Vec::new(), Vec::new());
    let mut paper = [0.0; 2];
    for (name, registered, settings) in variants() {
        let m = method(registered, &settings)?;
        let mut inverted = false;
        for (better, success) in [("short", [0.9, 0.8]), ("long", [0.8, 0.9])] {
            let p = Preference::new(m.as_ref(), &fork([2, 50], success), group)?;
            if p.inverts() {
                inverted = true;
                if better == "short" { &mut short_better } else { &mut long_better }.push(name.clone());
            }
            if better == "short" && name.starts_with("recent as") {
                paper = p.credit;
            }
            table.push(vec![
                name.as_str().into(),
                better.into(),
                p.credit[0].into(),
                p.credit[1].into(),
                (p.credit[1] / p.credit[0]).into(),
                p.step[0].into(),
                p.step[1].into(),
                if p.inverts() { "yes" } else { "no" }.into(),
            ]);
        }
        if !inverted {
            none.push(name);
        }
    }
    let total = variants().len();
    let finding = Finding {
        statement: "The actual expected updates keep the order of the two answers (Q = 0.9 and 0.8, T = 2 and 50, equally likely, V0 = 0.25, G = 8)".into(),
        verdict: holds(short_better.len() + long_better.len() == 0, || {
            format!("{} of {total} variants push the worse long answer up more than the better short one, {} the worse short answer", short_better.len(), long_better.len())
        }),
        numbers: format!(
            "the paper's setting: credits {} (short, Q = 0.9) and {} (long, Q = 0.8). Inverting towards short: {}. Inverting neither way: {}",
            short(paper[0]),
            short(paper[1]),
            long_better.join("; "),
            none.join("; ")
        ),
    };
    Ok((finding, table))
}

/// Who inverts, over the two success probabilities.
fn regions(n: usize) -> anyhow::Result<(Figure, Table)> {
    let columns = ["method", "q_short", "q_long", "advantage_difference", "credit_difference", "inverts"];
    let mut table = Table::new(&columns);
    let shown = [
        ("no trace, 1/T per response", "grpo", "scale=none reduction=response_mean"),
        ("no trace, token mean", "grpo", "scale=none reduction=token_mean"),
        ("recent, token mean", "grpo_lambda", "scale=none clamp=none lambda=0.99"),
        (
            "recent, weights of mean 1, token mean",
            "grpo_lambda",
            "scale=none clamp=none lambda=0.99 normalise=mean",
        ),
    ];
    let q = |i: usize| i as f64 / (n - 1) as f64;
    let mut figure = Figure::new("Length-dependent weights invert preferences: the worse answer gains on the better one")
        .caption("Exact expected step of the two logits at the prompt; short T = 2, long T = 50, each chosen with probability 0.15, else astray (T = 10, reward 0); G = 4, λ = 0.99, no std, no clamp. Q: probability of reward. Mean 1: weights of each response averaging 1 (ours).")
        .panel_size(440, 330);
    for (name, registered, settings) in shown {
        let m = method(registered, settings)?;
        let (mut right, mut wrong) = (Vec::new(), Vec::new());
        let mut share = 0;
        for i in 0..n {
            for j in 0..n {
                // Rows from the top: the long answer's success falls.
                let success = [q(j), q(n - 1 - i)];
                let p = Preference::new(m.as_ref(), &fork([2, 50], success), 4)?;
                if success[0] != success[1] {
                    if p.inverts() { &mut wrong } else { &mut right }.push((success[0], success[1]));
                    share += usize::from(p.inverts());
                }
                table.push(vec![
                    name.into(),
                    success[0].into(),
                    success[1].into(),
                    (p.q[0] - p.q[1]).into(),
                    (p.credit[0] - p.credit[1]).into(),
                    if p.inverts() { "yes" } else { "no" }.into(),
                ]);
            }
        }
        figure = figure.panel(
            Panel::new(format!(
                "{}: {:.0} % inverted",
                name.replace("weights of mean 1", "mean 1"),
                100.0 * share as f64 / (n * n - n) as f64
            ))
            .x(Axis::new("Q of the short answer").range(-0.04, 1.04))
            .y(Axis::new("Q of the long answer").range(-0.04, 1.04))
            .points("the better answer gains on the worse one", right)
            .points("inverted: the worse answer gains on the better one", wrong)
            .styled_line("equal values", Style::Dashed, [(0.0, 0.0), (1.0, 1.0)]),
        );
    }
    Ok((figure, table))
}

/// The credit of the long answer relative to that of the short one, against λ.
fn ratios() -> anyhow::Result<(Figure, Table)> {
    let mut table = Table::new(&[
        "normalise",
        "long_length",
        "lambda",
        "credit_short",
        "credit_long",
        "credit_ratio",
        "advantage_ratio",
    ]);
    let lambdas = [0.0, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99, 1.0];
    let advantage = (0.8 - 0.25) / (0.9 - 0.25);
    let mut figure = Figure::new("")
        .caption("Exact implied credit at the prompt: long answer (Q = 0.8) over short answer (Q = 0.9, T = 2), V0 = 0.25; recent trace, reduction constant, G = 4, no std, no clamp.");
    let mut most = 0.0f64;
    for (normalise, title) in
        [("none", "Trace as in the paper"), ("mean", "Weights of each response with mean 1 (ours)")]
    {
        let mut panel = Panel::new(title)
            .x("λ (γ = 1)")
            .y(Axis::new("credit of long / credit of short").log().range(0.5, 100.0));
        for length in [4usize, 10, 50, 200] {
            let mut points = Vec::new();
            for lambda in lambdas {
                let settings = format!(
                    "scale=none clamp=none reduction=response_sum normalise={normalise} lambda={lambda}"
                );
                let m = method("grpo_lambda", &settings)?;
                let p = Preference::new(m.as_ref(), &fork([2, length], [0.9, 0.8]), 4)?;
                let ratio = p.credit[1] / p.credit[0];
                points.push((lambda, ratio));
                most = most.max(ratio);
                table.push(vec![
                    normalise.into(),
                    length.into(),
                    lambda.into(),
                    p.credit[0].into(),
                    p.credit[1].into(),
                    ratio.into(),
                    advantage.into(),
                ]);
            }
            panel = panel
                .styled_line(format!("T = {length}"), Style::Solid, points.clone())
                .points(format!("T = {length}"), points);
        }
        figure = figure.panel(panel.hline(advantage, "true ratio").hline(1.0, "above: inverted"));
    }
    figure.title = format!(
        "The longer the worse answer and the larger λ, the more credit it gets: up to {most:.0} times the better's"
    );
    Ok((figure, table))
}

/// G4: dividing by the length of a response.
fn per_response(seed: u64) -> anyhow::Result<(Finding, Table)> {
    let mut table =
        Table::new(&["mdp", "mean_length", "cosine_with_gradient", "largest_difference_to_formula_below"]);
    let m = method("grpo", "scale=none reduction=response_mean")?;
    let group = 4;
    let (mut cosines, mut worst) = (Vec::new(), 0.0f64);
    let mut mdps = random_mdps(3, seed, Random { eos: 1.0, ..Random::default() })?;
    mdps.push(Mdp::named("eos_hazard_dependent")?);
    mdps.push(Mdp::named("fork")?);
    for mdp in &mdps {
        let oracle = mdp.oracle();
        let update = implied(m.as_ref(), &Situation::on_policy(&mdp.tree, &mdp.policy, group))?.update;
        let c = cosine(&update, &oracle.grad_j());
        // ∇E[r/T] - V0 ∇E[1/T], each as the policy gradient of an MDP with that reward.
        let gradient_of = |f: &dyn Fn(usize) -> f64| -> Vec<f64> {
            let credit = oracle.implied_credit(|leaf, _, w| w.fill(f(leaf)));
            oracle.update_of_credit(&credit)
        };
        let rate = gradient_of(&|leaf| mdp.tree.reward(leaf) / mdp.tree.leaf_len(leaf) as f64);
        let inverse = gradient_of(&|leaf| 1.0 / mdp.tree.leaf_len(leaf) as f64);
        let share = (group as f64 - 1.0) / group as f64;
        let formula: Vec<f64> = rate.iter().zip(&inverse).map(|(a, b)| share * (a - oracle.j * b)).collect();
        let off = gap(&formula, &update);
        worst = worst.max(off);
        cosines.push(c);
        table.push(vec![
            mdp.name.as_str().into(),
            oracle.mean_length().into(),
            c.into(),
            if off < EXACT { EXACT } else { off }.into(),
        ]);
    }
    let list: Vec<String> = mdps.iter().zip(&cosines).map(|(m, c)| format!("{} {c:.3}", m.name)).collect();
    let finding = Finding {
        statement: "Dividing each response by its own length (1/T_i) leaves a multiple of ∇J".into(),
        verdict: holds(cosines.iter().all(|c| *c > 1.0 - 1e-9), || {
            format!("cosine with ∇J down to {:.3}", cosines.iter().copied().fold(1.0, f64::min))
        }),
        numbers: format!(
            "cosine with ∇J: {} (three other random MDPs, earlier: 0.95-0.99); instead E[g] = (G-1)/G (∇E[r/T] - V0 ∇E[1/T]), off by {}",
            list.join(", "),
            error(worst)
        ),
    };
    Ok((finding, table))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fork_has_v0_of_a_quarter_and_equally_likely_answers() {
        let family = fork([2, 50], [0.9, 0.8]);
        let tree = family.tree().unwrap();
        let oracle = Oracle::new(&tree, &family.initial(&tree));
        assert!((oracle.j - 0.25).abs() < 1e-15 && (oracle.probs[0] - oracle.probs[1]).abs() < 1e-15);
    }
}
