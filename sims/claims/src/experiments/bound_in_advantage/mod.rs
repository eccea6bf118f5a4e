//! `bound_in_advantage`: the expected update with the bound of Lemma 1 added to the advantage.
//!
//! ```text
//! A'_t = A + b(s_t),      b(s_t) = 1 - Π_{k<t} (1 - π(EOS|s_k))          (depends on the prefix only)
//! no trace:   E[b(s_t) ∇log π(a_t|s_t)] = 0: a baseline
//! trace M:    token k has the weight Σ_t M[t,k] (A + b(s_t)), and b(s_t) for t > k depends on a_k
//! ```

mod effect;
mod findings;

use grpo_lambda_mdp::Oracle;
use grpo_lambda_mdp::zoo::Random;
use grpo_lambda_stats::table::Table;

use crate::experiment::{Context, Experiment, Parts};
use crate::experiments::common::mdp::{Mdp, random_mdps};
use crate::experiments::common::record::{Record, table};
use crate::experiments::common::vectors::{extremes, largest, mean};
use crate::figure::{Axis, Figure, Panel};
use effect::{Effect, Reading, off_enumeration, readings};
use findings::{ROUNDING, findings};

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "bound_in_advantage",
    title: "What does adding Lemma 1's bound to the advantage change?",
    claim: "Does adding the bound of Lemma 1 to the advantage reinforce unrewarded actions? The paper: \"we surmise this might be over-correcting the bias term\"",
    source: "ours; GRPO-lambda, appendix A.2, relation with GRPO's normalized advantage estimation",
    run: |context| Parts { measure, findings, tables, figures }.report(context),
};

struct Numbers {
    /// Names of the MDPs, the zoo's first.
    mdps: Vec<String>,
    /// The number of MDPs from the zoo.
    zoo: usize,
    readings: Vec<Effects>,
    /// Share of the tokens of unrewarded responses with a positive advantage, per MDP.
    optimistic: Vec<f64>,
    check: Check,
}

/// The effects of the bound on a reading.
struct Effects {
    reading: Reading,
    /// Per MDP.
    by_mdp: Vec<Effect>,
}

/// The wrapper against brute force, on one random MDP.
struct Check {
    /// Responses of the MDP.
    responses: usize,
    /// The largest difference over the readings.
    worst: f64,
    /// The largest relative effect: 0 would leave nothing to check.
    effect: f64,
}

fn measure(context: &Context) -> anyhow::Result<Numbers> {
    let count = if context.full { 100 } else { 20 };
    let zoo = ["eos_hazard", "eos_hazard_dependent", "full"];
    let mut mdps: Vec<Mdp> = zoo.into_iter().map(Mdp::named).collect::<anyhow::Result<_>>()?;
    mdps.extend(random_mdps(count, context.seed, Random { eos: 1.0, horizon: 4, ..Random::default() })?);
    let mut effects = Vec::new();
    for reading in readings() {
        (context.progress)(effects.len() as f64 / 8.0, reading.name);
        let by_mdp = mdps.iter().map(|mdp| Effect::new(&reading, mdp)).collect::<anyhow::Result<_>>()?;
        effects.push(Effects { reading, by_mdp });
    }
    Ok(Numbers {
        zoo: zoo.len(),
        readings: effects,
        optimistic: mdps.iter().map(|mdp| optimistic_share(&mdp.oracle())).collect(),
        mdps: mdps.into_iter().map(|mdp| mdp.name).collect(),
        check: check()?,
    })
}

/// Share of the tokens of unrewarded responses whose advantage `0 - V0 + b(s_t)` is positive.
fn optimistic_share(oracle: &Oracle) -> f64 {
    let tree = oracle.tree;
    let products = oracle.path_products();
    let (mut positive, mut all) = (0.0, 0.0);
    for leaf in tree.leaves() {
        for (reward, p) in tree.outcomes(leaf).filter(|(r, _)| *r == 0.0) {
            for edge in tree.path(leaf) {
                let weight = p * oracle.leaf_prob(leaf);
                all += weight;
                let advantage = reward - oracle.j + 1.0 - products[tree.edge_node(edge)];
                positive += if advantage > 0.0 { weight } else { 0.0 };
            }
        }
    }
    positive / all
}

fn check() -> anyhow::Result<Check> {
    let mdp = Mdp::random(Random { seed: 4, symbols: 3, horizon: 3, eos: 1.0, ..Random::default() })?;
    let (mut worst, mut effect) = (Vec::new(), Vec::new());
    for reading in readings() {
        worst.push(off_enumeration(&reading, &mdp)?);
        effect.push(Effect::new(&reading, &mdp)?.relative);
    }
    Ok(Check { responses: mdp.tree.leaf_count(), worst: largest(worst), effect: largest(effect) })
}

fn tables(n: &Numbers) -> Vec<(String, Table)> {
    let rows = n.readings.iter().flat_map(|Effects { reading, by_mdp }| {
        n.mdps.iter().zip(by_mdp).map(|(mdp, e)| {
            let real = e.relative > ROUNDING;
            Record::default()
                .with("mdp", mdp.as_str())
                .with("method", reading.name)
                .with("lambda", reading.lambda)
                .with("relative_change", if real { e.relative } else { 0.0 })
                .with("cosine_of_change_with_gradient", real.then_some(e.cosine))
                .with("variance_ratio", e.variance_ratio)
        })
    });
    vec![(String::new(), table(rows))]
}

fn figures(n: &Numbers) -> Vec<(String, Figure)> {
    let change = panel(
        n,
        Panel::new("Change of the expected update").y("relative change |E g' - E g| / |E g|"),
        |e| if e.relative < ROUNDING { 0.0 } else { e.relative },
    );
    let variance = panel(
        n,
        Panel::new("Change of the variance (1: none)").y(Axis::new("variance ratio tr Cov g' / tr Cov g")),
        |e| e.variance_ratio,
    );
    let figure = Figure::new("Lemma 1's bound is a baseline under constant reduction (no change); a trace makes it a bias")
        .caption(format!(
            "Exact, groups of 4; g is the update without, g' the one with the bound added to every token's advantage. Bars: least, mean and largest of {} random MDPs; dots: three named ones. \
             trace: recent with that λ, centred rewards, constant reduction.",
            n.mdps.len() - n.zoo
        ))
        .panel_size(480, 360)
        .panel(change)
        .panel(variance.hline(1.0, ""));
    vec![(String::new(), figure)]
}

/// Adds, by reading, a bar over the random MDPs and a dot per MDP of the zoo.
fn panel(n: &Numbers, panel: Panel, value: fn(&Effect) -> f64) -> Panel {
    let mut panel = panel.x(Axis::new("method").categories(n.readings.iter().map(|r| r.reading.name)));
    let dots = |m: usize| n.readings.iter().enumerate().map(move |(i, r)| (i as f64, value(&r.by_mdp[m])));
    let bar = |(i, r): (usize, &Effects)| {
        let values: Vec<f64> = r.by_mdp[n.zoo..].iter().map(value).collect();
        let (low, high) = extremes(values.iter().copied());
        (i as f64, low, mean(&values), high)
    };
    panel = panel.intervals("random MDPs", n.readings.iter().enumerate().map(bar));
    for (m, name) in n.mdps[..n.zoo].iter().enumerate() {
        panel = panel.points(name.as_str(), dots(m));
    }
    panel
}
