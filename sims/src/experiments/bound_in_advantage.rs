//! `bound_in_advantage`: what adding the bound of Lemma 1 to the advantage does.
//!
//! ```text
//! A'_t = A + b(s_t),      b(s_t) = 1 - Π_{k<t} (1 - π(EOS|s_k))          (depends on the prefix only)
//! no trace:   E[b(s_t) ∇log π(a_t|s_t)] = 0: a baseline
//! trace M:    token k has the weight Σ_t M[t,k] (A + b(s_t)), and b(s_t) for t > k depends on a_k
//! ```
//! The bound goes into registered methods by a wrapper that adds it to the advantages of [`Method::credit`].

use super::common::old::{
    Mdp, cosine, difference, error, gap, holds, largest, mean, method, norm, random_mdps, short,
};
use crate::experiment::{Context, Experiment, Finding, Report, Verdict};
use crate::figure::{Axis, Figure, Panel};
use grpo_lambda::group::{Group, Response};
use grpo_lambda::mdp::expected::{Expected, Situation, enumerated, implied};
use grpo_lambda::mdp::zoo::Random;
use grpo_lambda::mdp::{Oracle, Target, Tree};
use grpo_lambda::methods::{Coupling, Credit, Loss, Method};
use grpo_lambda::table::Table;

/// The claim.
pub static EXPERIMENT: Experiment = Experiment {
    id: "bound_in_advantage",
    title: "Adding Lemma 1's bound to the advantage is a baseline: it changes nothing without a trace, and adds a bias with one",
    claim: "By naively adding the upper bound of ΔV, we surmise this might be over-correcting the bias term, resulting in an optimistic advantage value. This means that including the bound could reinforce action-probabilities that lead to 0-rewards (encouraging false positives)",
    source: "GRPO-lambda, appendix A.2, relation with GRPO's normalized advantage estimation",
    run,
};

const GROUP: usize = 4;
/// Sums of a few hundred terms of size at most 1.
const EXACT: f64 = 1e-14;

/// A registered method whose advantages have the bound added.
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

/// A reading of the method: short name, registered name, settings, λ of its trace.
struct Reading {
    name: &'static str,
    method: &'static str,
    settings: String,
    lambda: Option<f64>,
}

fn readings() -> Vec<Reading> {
    let mut all = vec![
        ("RLOO", "rloo", String::new(), None),
        ("centred, constant", "dr_grpo", "max_length=1".into(), None),
        ("z-score, constant", "grpo", "reduction=response_sum".into(), None),
        ("z-score, token mean", "grpo", "reduction=token_mean".into(), None),
        ("z-score, 1/T", "grpo", String::new(), None),
    ];
    for (name, lambda) in [("trace 0.5", 0.5), ("trace 0.9", 0.9), ("trace 0.99", 0.99)] {
        let settings = format!("lambda={lambda} scale=none clamp=none reduction=response_sum");
        all.push((name, "grpo_lambda", settings, Some(lambda)));
    }
    all.into_iter()
        .map(|(name, method, settings, lambda)| Reading { name, method, settings, lambda })
        .collect()
}

/// Without and with the bound on one MDP.
struct Effect {
    plain: Expected,
    bounded: Expected,
    gradient: Vec<f64>,
}

impl Effect {
    fn new(reading: &Reading, mdp: &Mdp) -> anyhow::Result<Effect> {
        let situation = Situation::on_policy(&mdp.tree, &mdp.policy, GROUP);
        let oracle = mdp.oracle();
        let plain = implied(method(reading.method, &reading.settings)?.as_ref(), &situation)?;
        let wrapped = WithBound::new(method(reading.method, &reading.settings)?, &oracle);
        let bounded = implied(&wrapped, &situation)?;
        Ok(Effect { plain, bounded, gradient: oracle.grad_j() })
    }
    fn change(&self) -> Vec<f64> {
        difference(&self.bounded.update, &self.plain.update)
    }
    /// `|E[g'] - E[g]| / |E[g]|`.
    fn relative(&self) -> f64 {
        norm(&self.change()) / norm(&self.plain.update)
    }
    fn variance_ratio(&self) -> f64 {
        self.bounded.total_variance() / self.plain.total_variance()
    }
}

fn run(ctx: &Context) -> anyhow::Result<Report> {
    let count = if ctx.full { 100 } else { 20 };
    let mut mdps = Vec::new();
    for name in ["eos_hazard", "eos_hazard_dependent", "full"] {
        mdps.push(Mdp::named(name)?);
    }
    let named = mdps.len();
    mdps.extend(random_mdps(count, ctx.seed, Random { eos: 1.0, horizon: 4, ..Random::default() })?);

    let mut effects = Vec::new();
    for (i, reading) in readings().iter().enumerate() {
        (ctx.progress)(i as f64 / readings().len() as f64, reading.name);
        effects.push(mdps.iter().map(|mdp| Effect::new(reading, mdp)).collect::<anyhow::Result<Vec<_>>>()?);
    }
    let constant = &effects[..3];
    let silent = largest(constant.iter().flatten().map(|e| largest(e.change().iter().map(|x| x.abs()))));
    let optimistic: Vec<f64> = mdps.iter().map(|m| optimistic_share(&m.oracle())).collect();
    let findings = vec![
        headline(silent, &optimistic, mdps.len()),
        wrapper_check()?,
        reduction(&effects),
        with_trace(&effects, &mdps, named),
        variance(constant, &mdps),
    ];
    Ok(Report {
        findings,
        tables: vec![(String::new(), table(&effects, &mdps))],
        figures: vec![(String::new(), figure(&effects, &mdps, named))],
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
                positive +=
                    if reward - oracle.j + 1.0 - products[tree.edge_node(edge)] > 0.0 { weight } else { 0.0 };
            }
        }
    }
    positive / all
}

fn headline(silent: f64, optimistic: &[f64], mdps: usize) -> Finding {
    Finding {
        statement: EXPERIMENT.claim.into(),
        verdict: if silent < EXACT {
            Verdict::Fails("in GRPO, of which the sentence speaks, the bound depends on the prefix only: it is a baseline, E[update] is unchanged for every action, rewarded or not".into())
        } else {
            Verdict::HoldsWhen(format!("the expected update changes by up to {silent:e}"))
        },
        numbers: format!(
            "{mdps} MDPs; RLOO, centred and z-scored advantages, constant reduction, no trace: largest change of E[update] {}. Single samples do become optimistic: {:.0} % of the tokens of unrewarded responses get a positive advantage (mean over MDPs; 0 % without the bound), the rewarded ones gain as much",
            error(silent),
            100.0 * mean(optimistic)
        ),
    }
}

/// The wrapper by brute force: all pairs of responses.
fn wrapper_check() -> anyhow::Result<Finding> {
    let mdp = Mdp::random(Random { seed: 4, symbols: 3, horizon: 3, eos: 1.0, ..Random::default() })?;
    let (mut worst, mut effect) = (0.0f64, 0.0f64);
    for reading in readings() {
        let wrapped = WithBound::new(method(reading.method, &reading.settings)?, &mdp.oracle());
        let situation = Situation::on_policy(&mdp.tree, &mdp.policy, 2);
        let (a, b) = (implied(&wrapped, &situation)?, enumerated(&wrapped, &situation)?);
        worst = worst.max(gap(&a.update, &b.update)).max(gap(&a.variance, &b.variance));
        effect = effect.max(Effect::new(&reading, &mdp)?.relative());
    }
    Ok(Finding {
        statement:
            "The expected updates with the bound, by implied credit, equal the enumeration of all groups"
                .into(),
        verdict: holds(worst < 1e-12 && effect > 0.0, || format!("off by {worst:e}")),
        numbers: format!(
            "{} readings, groups of 2 on a random MDP of {} responses: {}",
            readings().len(),
            mdp.tree.leaf_count(),
            error(worst)
        ),
    })
}

fn reduction(effects: &[Vec<Effect>]) -> Finding {
    let worst = |i: usize| largest(effects[i].iter().map(Effect::relative));
    let (token, response) = (worst(3), worst(4));
    Finding {
        statement: "Without a trace the bound is neutral under every reduction".into(),
        verdict: if token.max(response) < 1e-12 {
            Verdict::Holds
        } else {
            Verdict::HoldsWhen("the weight of a token does not depend on the length of its response; a token mean over the batch and 1/T_i let later lengths in".into())
        },
        numbers: format!(
            "largest relative change of E[update] (z-score): constant {}, token mean {}, 1/T_i {}",
            error(worst(2)),
            short(token),
            short(response)
        ),
    }
}

fn with_trace(effects: &[Vec<Effect>], mdps: &[Mdp], named: usize) -> Finding {
    let list = |i: usize| {
        let each = |(m, e): (&Mdp, &Effect)| format!("{} {:.2}", m.name, e.relative());
        mdps[..named].iter().zip(&effects[i]).map(each).collect::<Vec<_>>().join(", ")
    };
    let random = |i: usize| mean(&effects[i][named..].iter().map(Effect::relative).collect::<Vec<_>>());
    let against = effects[6].iter().filter(|e| cosine(&e.change(), &e.gradient) < 0.0).count();
    let least = effects[5..].iter().flatten().map(Effect::relative).fold(f64::INFINITY, f64::min);
    Finding {
        statement: "With a trace the bound changes the expected update".into(),
        verdict: holds(least > 1e-6, || format!("a relative change of {least:e}")),
        numbers: format!(
            "|ΔE[g]|/|E[g]| at q = 0.9: {}, mean of the random MDPs {:.2}; at q = 0.99: {}, {:.2} (0.64 at q = 0.9 in an example that is not recorded). At q = 0.9 the change points against ∇J in {against} of {} MDPs",
            list(6),
            random(6),
            list(7),
            random(7),
            mdps.len()
        ),
    }
}

fn variance(constant: &[Vec<Effect>], mdps: &[Mdp]) -> Finding {
    let ratios: Vec<f64> = constant[0].iter().map(Effect::variance_ratio).collect();
    let up = ratios.iter().filter(|r| **r > 1.0).count();
    let (low, high) = ratios.iter().fold((f64::INFINITY, 0.0f64), |(l, h), r| (l.min(*r), h.max(*r)));
    Finding {
        statement: "\"We can thus potentially reduce the bias from using V(s_0) by including knowledge about ΔV(s_t)\": there is no bias to reduce, only variance, and the bound reduces it".into(),
        verdict: if up == 0 { Verdict::Holds } else { Verdict::Fails(format!("no bias to reduce; and the bound raises the variance in {up} of {} MDPs", mdps.len())) },
        numbers: format!("RLOO, tr Cov(g) with over without the bound: {} to {}, mean {}", short(low), short(high), short(mean(&ratios))),
    }
}

fn table(effects: &[Vec<Effect>], mdps: &[Mdp]) -> Table {
    let mut table = Table::new(&[
        "mdp",
        "method",
        "lambda",
        "relative_change",
        "cosine_of_change_with_gradient",
        "variance_ratio",
    ]);
    for (reading, row) in readings().iter().zip(effects) {
        for (mdp, e) in mdps.iter().zip(row) {
            let change = e.relative();
            let real = change > 1e-12;
            table.push(vec![
                mdp.name.as_str().into(),
                reading.name.into(),
                reading.lambda.into(),
                if real { change } else { 0.0 }.into(),
                real.then(|| cosine(&e.change(), &e.gradient)).into(),
                e.variance_ratio().into(),
            ]);
        }
    }
    table
}

fn figure(effects: &[Vec<Effect>], mdps: &[Mdp], named: usize) -> Figure {
    let readings = readings();
    let labels: Vec<&str> = readings.iter().map(|r| r.name).collect();
    let mut change = Panel::new("Change of the expected update")
        .x(Axis::new("method").categories(labels.clone()))
        .y("relative change |E g' - E g| / |E g|");
    let mut variance = Panel::new("Change of the variance (1: none)")
        .x(Axis::new("method").categories(labels))
        .y(Axis::new("variance ratio tr Cov g' / tr Cov g"));
    let of =
        |m: usize, f: fn(&Effect) -> f64| effects.iter().enumerate().map(move |(i, e)| (i as f64, f(&e[m])));
    let clean = |e: &Effect| if e.relative() < 1e-12 { 0.0 } else { e.relative() };
    for m in named..mdps.len() {
        change = change.points("random MDPs", of(m, clean));
        variance = variance.points("random MDPs", of(m, Effect::variance_ratio));
    }
    for m in 0..named {
        let name = mdps[m].name.as_str();
        change = change.points(name, of(m, clean));
        variance = variance.points(name, of(m, Effect::variance_ratio));
    }
    Figure::new("Lemma 1's bound is a baseline under constant reduction (no change); a trace makes it a bias")
        .caption(format!(
            "Exact, groups of 4; g is the update without, g' the one with the bound added to every token's advantage. A dot is an MDP: {} random ones, 3 named. \
             trace: recent with that λ, centred rewards, constant reduction.",
            mdps.len() - named
        ))
        .panel_size(480, 360)
        .panel(change)
        .panel(variance.hline(1.0, ""))
}
