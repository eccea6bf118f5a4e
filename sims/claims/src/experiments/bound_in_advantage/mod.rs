//! `bound_in_advantage`: the expected update with the bound of Lemma 1 added to the advantage.
//!
//! ```text
//! A'_t = A + b(s_t),      b(s_t) = 1 - Π_{k<t} (1 - π(EOS|s_k))          (depends on the prefix only)
//! no trace:   E[b(s_t) ∇log π(a_t|s_t)] = 0: a baseline
//! trace M:    token k has the weight Σ_t M[t,k] (A + b(s_t)), and b(s_t) for t > k depends on a_k
//! ```

mod findings;

use super::common::mdp::{Mdp, method, random_mdps};
use super::common::record::{Record, table};
use super::common::{cosine, difference, extremes, gap, largest, mean, norm};
use crate::experiment::{Context, Experiment, Parts};
use crate::figure::{Axis, Figure, Panel};
use findings::{ROUNDING, findings};
use grpo_lambda::group::{Group, Response};
use grpo_lambda::methods::{Coupling, Credit, Loss, Method};
use grpo_lambda_mdp::expected::{Situation, enumerated, implied};
use grpo_lambda_mdp::zoo::Random;
use grpo_lambda_mdp::{Oracle, Target, Tree};
use grpo_lambda_stats::table::Table;

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
    by_mdp: Vec<Effect>,
}

/// The wrapper against brute force, on one random MDP.
struct Check {
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

const GROUP: usize = 4;

pub(super) struct Reading {
    pub(super) name: &'static str,
    method: &'static str,
    settings: String,
    /// λ of its trace.
    pub(super) lambda: Option<f64>,
    /// True if the weight of a token does not depend on the other tokens of its response.
    pub(super) constant: bool,
}

/// The names of the readings whose reduction is not constant.
const TOKEN_MEAN: &str = "z-score, token mean";
const PER_RESPONSE: &str = "z-score, 1/T";

/// The readings, those without a trace first.
pub(super) fn readings() -> [Reading; 8] {
    let trace = |lambda: f64| format!("lambda={lambda} scale=none clamp=none reduction=response_sum");
    [
        ("RLOO", "rloo", String::new(), None, true),
        ("centred, constant", "dr_grpo", "max_length=1".into(), None, true),
        ("z-score, constant", "grpo", "reduction=response_sum".into(), None, true),
        (TOKEN_MEAN, "grpo", "reduction=token_mean".into(), None, false),
        (PER_RESPONSE, "grpo", String::new(), None, false),
        ("trace 0.5", "grpo_lambda", trace(0.5), Some(0.5), false),
        ("trace 0.9", "grpo_lambda", trace(0.9), Some(0.9), false),
        ("trace 0.99", "grpo_lambda", trace(0.99), Some(0.99), false),
    ]
    .map(|(name, method, settings, lambda, constant)| Reading {
        name,
        method,
        settings,
        lambda,
        constant,
    })
}

impl Reading {
    fn plain(&self) -> anyhow::Result<Box<dyn Method>> {
        method(self.method, &self.settings)
    }

    fn bounded(&self, mdp: &Mdp) -> anyhow::Result<WithBound> {
        Ok(WithBound::new(self.plain()?, &mdp.oracle()))
    }
}

/// The expected update `g'` with the bound against `g` without, on one MDP.
pub(super) struct Effect {
    /// The largest component of `E[g'] - E[g]`.
    pub(super) change: f64,
    /// `|E[g'] - E[g]| / |E[g]|`.
    pub(super) relative: f64,
    /// The change's cosine with the policy gradient.
    pub(super) cosine: f64,
    /// `tr Cov g' / tr Cov g`.
    pub(super) variance_ratio: f64,
}

impl Effect {
    pub(super) fn new(reading: &Reading, mdp: &Mdp) -> anyhow::Result<Effect> {
        let situation = Situation::on_policy(&mdp.tree, &mdp.policy, GROUP);
        let plain = implied(reading.plain()?.as_ref(), &situation)?;
        let bounded = implied(&reading.bounded(mdp)?, &situation)?;
        let change = difference(&bounded.update, &plain.update);
        Ok(Effect {
            change: largest(change.iter().map(|x| x.abs())),
            relative: norm(&change) / norm(&plain.update),
            cosine: cosine(&change, &mdp.oracle().grad_j()),
            variance_ratio: bounded.total_variance() / plain.total_variance(),
        })
    }
}

/// The largest difference between the expected update with the bound by implied credit and by brute force over all pairs of responses.
fn off_enumeration(reading: &Reading, mdp: &Mdp) -> anyhow::Result<f64> {
    let bounded = reading.bounded(mdp)?;
    let situation = Situation::on_policy(&mdp.tree, &mdp.policy, 2);
    let (a, b) = (implied(&bounded, &situation)?, enumerated(&bounded, &situation)?);
    Ok(gap(&a.update, &b.update).max(gap(&a.variance, &b.variance)))
}

/// A registered method that adds the bound to its advantages.
#[derive(Debug)]
struct WithBound {
    inner: Box<dyn Method>,
    tree: Tree,
    /// `1 - Π_{k<t} (1 - π(EOS|s_k))` per prefix.
    bound: Vec<f64>,
}

impl WithBound {
    fn new(inner: Box<dyn Method>, oracle: &Oracle) -> WithBound {
        let bound = oracle.path_products().iter().map(|p| 1.0 - p).collect();
        WithBound { inner, tree: oracle.tree.clone(), bound }
    }

    /// The bound at every token of a response; none for a stand-in without tokens.
    fn along(&self, response: &Response) -> Vec<f64> {
        let mut at = Target::Node(0);
        let step = |&token: &u32| match at {
            Target::Node(node) => {
                at = self.tree.edge(node, token).map_or(at, |e| self.tree.target(e));
                self.bound[node]
            }
            Target::Leaf(_) => unreachable!("a response has no token after its end"),
        };
        response.tokens.iter().map(step).collect()
    }
}

impl Method for WithBound {
    fn credit(&self, batch: &[Group]) -> Vec<Credit> {
        let mut credits = self.inner.credit(batch);
        for (credit, response) in credits.iter_mut().zip(batch.iter().flat_map(|g| &g.responses)) {
            for (a, b) in credit.advantages.iter_mut().zip(self.along(response)) {
                *a += b;
            }
        }
        credits
    }
    fn loss_around(&self, response: &Response, credit: &Credit, logps: &[f64], frozen: &[f64]) -> Loss {
        self.inner.loss_around(response, credit, logps, frozen)
    }
    fn coupling(&self) -> Coupling {
        self.inner.coupling()
    }
}
