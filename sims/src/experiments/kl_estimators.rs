//! `kl_estimators`: which KL gradient each estimator is in expectation, when it is differentiated as a loss.
//!
//! ```text
//! per state, actions drawn from π:      E[∇k1] = 0,  E[∇k2] = E[∇(ρ k3)] = ∇KL(π||ref),  E[∇k3] = ∇KL(ref||π)
//! ∇KL(π||ref)_a = π_a (log π_a/ref_a - KL),      ∇KL(ref||π)_a = π_a - ref_a               (softmax logits)
//! ```
//! Over whole responses the loss sums these with the visits of π held fixed, which is not the gradient of the KL between the
//! distributions of responses.

use super::common::old::{
    Mdp, cosine, difference, error, gap, holds, largest, method, norm, quantile, short,
};
use crate::experiment::{Context, Experiment, Finding, Report, Verdict};
use crate::figure::{Axis, Figure, Panel, Style};
use grpo_lambda::kl::Kl;
use grpo_lambda::mdp::expected::{Situation, implied};
use grpo_lambda::mdp::zoo::full_tree;
use grpo_lambda::mdp::{Oracle, Tabular, Tree};
use grpo_lambda::table::Table;

/// The claim.
pub static EXPERIMENT: Experiment = Experiment {
    id: "kl_estimators",
    title: "k3 as a loss descends the other KL; k2 and ratio·k3 descend KL(π||ref)",
    claim: "PPO is combined with a KL-divergence regularizer on the initial, pretrained policy (also called the referent policy) π_ref ≔ π_θ0, i.e., ℓ_KL = D_KL(π_θ||π_ref)",
    source: "GRPO-lambda, section 2; Algorithms 1, 2: ℓ_GRPO-λ ← ℓ_GRPO-λ + β·ℓ_KL (estimator not given; k3 in DeepSeekMath and TRL)",
    run,
};

const EXACT: f64 = 1e-12;
const ESTIMATORS: [(&str, Kl); 4] =
    [("k1", Kl::K1), ("k2", Kl::K2), ("k3", Kl::K3), ("ratio_k3", Kl::RatioK3)];

/// The hand case. A published table gives only its gradients, to four digits; these two distributions are the one solution
/// of `π - ref = (0.1509, 0.2927, -0.4436)` and `∇KL(π||ref) = (0.0033, 0.2365, -0.2398)`, by Newton's method from every point
/// of a grid.
const HAND_PI: [f64; 3] = [0.404_936_202_1, 0.475_715_477_3, 0.119_348_320_6];
const HAND_REF: [f64; 3] = [0.254_036_202_1, 0.183_015_477_3, 0.562_948_320_6];
/// Expected gradients of the hand case, as published: true and `k2`, `ratio_k3`; `k3`.
const HAND_REVERSE: [f64; 3] = [0.0033, 0.2365, -0.2398];
const HAND_K3: [f64; 3] = [0.1509, 0.2927, -0.4436];

/// The gradient of one estimator with respect to the logits of one state: mean and trace of the covariance, actions drawn
/// from `old`.
fn moments(kl: Kl, pi: &[f64], old: &[f64], reference: &[f64]) -> (Vec<f64>, f64) {
    let mut mean = vec![0.0; pi.len()];
    let mut second = 0.0;
    for a in 0..pi.len() {
        let slope = kl.at(pi[a].ln(), old[a].ln(), reference[a].ln()).slope;
        for (b, m) in mean.iter_mut().enumerate() {
            let step = slope * (f64::from(u8::from(a == b)) - pi[b]);
            *m += old[a] * step;
            second += old[a] * step * step;
        }
    }
    let variance = second - mean.iter().map(|m| m * m).sum::<f64>();
    (mean, variance)
}

fn value(kl: Kl, pi: &[f64], reference: &[f64]) -> f64 {
    (0..pi.len()).map(|a| pi[a] * kl.at(pi[a].ln(), pi[a].ln(), reference[a].ln()).value).sum()
}

fn divergence(p: &[f64], q: &[f64]) -> f64 {
    p.iter().zip(q).map(|(p, q)| p * (p / q).ln()).sum()
}

/// `∇KL(π||ref)` with respect to the logits of π.
fn reverse(pi: &[f64], reference: &[f64]) -> Vec<f64> {
    let kl = divergence(pi, reference);
    pi.iter().zip(reference).map(|(p, r)| p * ((p / r).ln() - kl)).collect()
}

/// `∇KL(ref||π)` with respect to the logits of π.
fn forward(pi: &[f64], reference: &[f64]) -> Vec<f64> {
    difference(pi, reference)
}

/// A random pair of distributions over `n` actions; `scale` is the standard deviation of the logits' difference.
fn pair(n: usize, seed: u64, scale: f64) -> anyhow::Result<(Vec<f64>, Vec<f64>)> {
    let tree = full_tree(n, 1)?;
    let reference = Tabular::random(&tree, seed, 1.0);
    let mut policy = reference.clone();
    policy.step(&Tabular::random(&tree, seed ^ 0xfeed, 1.0).logits, scale);
    Ok((policy.probs(&tree), reference.probs(&tree)))
}

fn run(ctx: &Context) -> anyhow::Result<Report> {
    let pairs = if ctx.full { 2000 } else { 300 };
    (ctx.progress)(0.0, "one state");
    let (states, state_table) = states(pairs, ctx.seed)?;
    let (hand, hand_table) = hand();
    (ctx.progress)(0.5, "responses");
    let (trajectory, trajectory_table) = trajectories(ctx.seed)?;
    let off_policy = off_policy(pairs, ctx.seed)?;
    let mut findings = states;
    findings.insert(1, hand);
    findings.push(off_policy);
    findings.extend(trajectory);
    Ok(Report {
        findings,
        tables: vec![
            ("hand".into(), hand_table),
            ("distance".into(), state_table.clone()),
            ("responses".into(), trajectory_table.clone()),
        ],
        figures: vec![(String::new(), figure(&state_table, &trajectory_table))],
    })
}

/// The four identities on random pairs, and how far apart the two gradients are at which distance.
fn states(pairs: usize, seed: u64) -> anyhow::Result<(Vec<Finding>, Table)> {
    let mut table = Table::new(&[
        "scale",
        "estimator",
        "median_kl",
        "cosine",
        "cosine_p10",
        "cosine_p90",
        "norm_ratio",
        "norm_ratio_p10",
        "norm_ratio_p90",
        "variance_ratio",
    ]);
    let mut identities = [0.0f64; 4];
    let (mut values, mut k2_value) = (0.0f64, 0.0f64);
    let mut worst_k3: (f64, f64) = (1.0, 0.0);
    for scale in [0.03, 0.1, 0.3, 0.5, 1.0, 1.5, 2.0, 3.0] {
        let mut kls = Vec::new();
        let mut rows: Vec<Vec<(f64, f64, f64)>> = vec![Vec::new(); 4];
        for i in 0..pairs {
            let (pi, reference) = pair(3, seed.wrapping_mul(7919) + i as u64, scale)?;
            let (want, other) = (reverse(&pi, &reference), forward(&pi, &reference));
            let kl = divergence(&pi, &reference);
            kls.push(kl);
            let zero = vec![0.0; 3];
            let expected = [&zero, &want, &other, &want];
            let k2 = moments(Kl::K2, &pi, &pi, &reference).1;
            for (k, (_, estimator)) in ESTIMATORS.into_iter().enumerate() {
                let (mean, variance) = moments(estimator, &pi, &pi, &reference);
                identities[k] = identities[k].max(gap(&mean, expected[k]));
                rows[k].push((cosine(&mean, &want), norm(&mean) / norm(&want), variance / k2));
                let v = value(estimator, &pi, &reference);
                if estimator == Kl::K2 {
                    k2_value = k2_value.max((v - kl).abs());
                } else {
                    values = values.max((v - kl).abs());
                }
            }
            let c = cosine(&other, &want);
            if c < worst_k3.0 {
                worst_k3 = (c, kl);
            }
        }
        for (k, (name, _)) in ESTIMATORS.into_iter().enumerate() {
            let of =
                |f: fn(&(f64, f64, f64)) -> f64, p| quantile(&rows[k].iter().map(f).collect::<Vec<_>>(), p);
            // The mean of k1 is 0 and has no direction.
            let cosine = |p| if k == 0 { None } else { Some(of(|r| r.0, p)) };
            let ratio = |p| if k == 0 { 0.0 } else { of(|r| r.1, p) };
            table.push(vec![
                scale.into(),
                name.into(),
                quantile(&kls, 0.5).into(),
                cosine(0.5).into(),
                cosine(0.1).into(),
                cosine(0.9).into(),
                ratio(0.5).into(),
                ratio(0.1).into(),
                ratio(0.9).into(),
                of(|r| r.2, 0.5).into(),
            ]);
        }
    }
    let worst = largest(identities);
    let headline = Finding {
        statement: "The KL term as k3 in the loss regularises with ∇KL(π||ref), the divergence it estimates"
            .into(),
        verdict: holds(worst_k3.0 > 1.0 - 1e-9, || {
            format!(
                "E[∇k3] = π - ref = ∇KL(ref||π), the other divergence; cosine with ∇KL(π||ref) down to {:.2} (at KL {})",
                worst_k3.0,
                short(worst_k3.1)
            )
        }),
        numbers: format!(
            "{} random pairs of 3-action softmax policies: E[∇k3] - ∇KL(ref||π) {}; its value is right, E[k3] = E[k1] = E[ρ k3] = KL(π||ref) ({}), E[k2] is not (off by up to {})",
            8 * pairs,
            error(identities[2]),
            error(values),
            short(k2_value)
        ),
    };
    let table_of_truth = Finding {
        statement:
            "E[∇k1] = 0, E[∇k2] = E[∇(ρ k3)] = ∇KL(π||ref), E[∇k3] = ∇KL(ref||π), on-policy, per state".into(),
        verdict: holds(worst < EXACT, || format!("off by {worst:e}")),
        numbers: format!(
            "largest differences: k1 {}, k2 {}, k3 {}, ratio_k3 {}; log ref - log π (seen in public code) is -k1: expectation 0, sign wrong sample by sample",
            error(identities[0]),
            error(identities[1]),
            error(identities[2]),
            error(identities[3])
        ),
    };
    Ok((vec![headline, table_of_truth], table))
}

fn hand() -> (Finding, Table) {
    let (pi, reference) = (&HAND_PI, &HAND_REF);
    let mut table =
        Table::new(&["in the loss", "action_1", "action_2", "action_3", "variance", "cosine_with_reverse"]);
    let want = reverse(pi, reference);
    let mut push = |name: &str, g: &[f64], variance: Option<f64>| {
        let cosine = (norm(g) > EXACT).then(|| cosine(g, &want));
        let clean = |x: f64| if x.abs() < EXACT { 0.0 } else { x };
        table.push(vec![
            name.into(),
            clean(g[0]).into(),
            clean(g[1]).into(),
            clean(g[2]).into(),
            variance.into(),
            cosine.into(),
        ]);
    };
    push("true ∇KL(π||ref)", &want, None);
    push("true ∇KL(ref||π)", &forward(pi, reference), None);
    let published = [[0.0; 3], HAND_REVERSE, HAND_K3, HAND_REVERSE];
    let mut off = gap(&want, &HAND_REVERSE);
    for ((name, kl), published) in ESTIMATORS.into_iter().zip(published) {
        let (mean, variance) = moments(kl, pi, pi, reference);
        push(name, &mean, Some(variance));
        off = off.max(gap(&mean, &published));
    }
    let finding = Finding {
        statement: "The worked table of a 3-action softmax: k1 (0,0,0), k2 and ratio·k3 (0.0033, 0.2365, -0.2398), k3 (0.1509, 0.2927, -0.4436)".into(),
        verdict: holds(off < 5.1e-5, || format!("a row differs by {off}")),
        numbers: format!(
            "π = (0.4049, 0.4757, 0.1193), ref = (0.2540, 0.1830, 0.5629), the only pair that gives the first and last row, recovered numerically: every row agrees to {off:.0e}; cosine of k3's row with ∇KL(π||ref) {:.3} (0.82 in another example)",
            cosine(&HAND_K3, &HAND_REVERSE)
        ),
    };
    (finding, table)
}

/// Responses drawn from another policy than the one being updated.
fn off_policy(pairs: usize, seed: u64) -> anyhow::Result<Finding> {
    let mut off: [Vec<f64>; 4] = Default::default();
    for i in 0..pairs {
        let (pi, reference) = pair(3, seed + i as u64, 1.0)?;
        let (old, _) = pair(3, seed + 77_777 + i as u64, 1.0)?;
        let want = reverse(&pi, &reference);
        for (o, (_, kl)) in off.iter_mut().zip(ESTIMATORS) {
            o.push(norm(&difference(&moments(kl, &pi, &old, &reference).0, &want)) / norm(&want));
        }
    }
    let exact = largest(off[3].iter().copied());
    let [k1, k2, k3, _] = off.map(|o| quantile(&o, 0.5));
    Ok(Finding {
        statement: "ratio·k3 stays exact when the sampling policy is another one (unclipped); k2 does not"
            .into(),
        verdict: match (exact < 1e-9, k2 > 1e-3) {
            (true, true) => Verdict::Holds,
            _ => Verdict::Fails(format!("relative error {exact} of ratio_k3, {k2} of k2")),
        },
        numbers: format!(
            "{pairs} random triples (π, π_old, ref), relative error of E[∇]: ratio_k3 {}; medians k2 {}, k3 {}, k1 {}",
            error(exact),
            short(k2),
            short(k3),
            short(k1)
        ),
    })
}

/// A sum over states of a gradient per state, weighted by `visit`.
fn per_state(
    tree: &Tree,
    visit: &[f64],
    pi: &[f64],
    reference: &[f64],
    of: fn(&[f64], &[f64]) -> Vec<f64>,
) -> Vec<f64> {
    let mut out = vec![0.0; tree.edge_count()];
    for node in tree.nodes() {
        let edges = tree.edges_of(node);
        for (o, g) in out[edges.clone()].iter_mut().zip(of(&pi[edges.clone()], &reference[edges])) {
            *o = visit[node] * g;
        }
    }
    out
}

/// MDP, estimator, cosine with `∇KL(π||ref)` and with `∇KL(ref||π)` of whole responses.
type Row = (&'static str, &'static str, Option<f64>, Option<f64>);

/// Named MDPs for statements on whole responses.
const MDPS: [&str; 7] =
    ["pivot", "lucky_guess", "eos_hazard", "eos_hazard_dependent", "chain", "random", "full"];

/// Registered methods on whole responses: the KL term's expected update against the gradients of both KLs.
fn trajectories(seed: u64) -> anyhow::Result<(Vec<Finding>, Table)> {
    let mut table = Table::new(&[
        "mdp",
        "estimator",
        "cosine_reverse_kl",
        "cosine_forward_kl",
        "norm_ratio",
        "difference_per_state_below",
    ]);
    let (mut identities, mut gradient_check, mut all) = (0.0f64, 0.0f64, Vec::new());
    for name in MDPS {
        let Mdp { tree, policy: reference, .. } = Mdp::named(name)?;
        let mut policy = reference.clone();
        policy.step(&Tabular::random(&tree, seed + 1, 1.0).logits, 1.0);
        let (oracle, frozen) = (Oracle::new(&tree, &policy), Oracle::new(&tree, &reference));
        // KL between distributions of responses: E_π[Σ_t log π/ref] and its gradient, the whole log-ratio being the credit.
        let log_ratio =
            |leaf| tree.path(leaf).iter().map(|&e| oracle.log_probs[e] - frozen.log_probs[e]).sum::<f64>();
        let credit = oracle.implied_credit(|leaf, _, w| w.fill(log_ratio(leaf)));
        let reverse_kl = oracle.update_of_credit(&credit);
        let forward_kl = per_state(&tree, &frozen.visit, &oracle.probs, &frozen.probs, forward);
        gradient_check =
            gradient_check.max(finite_difference(&tree, &policy, &reference, &reverse_kl, &forward_kl));
        let by_visits = |of| per_state(&tree, &oracle.visit, &oracle.probs, &frozen.probs, of);
        for (estimator, _) in ESTIMATORS {
            // RLOO on-policy is linear: the KL term's gradient is what beta adds to the (negative) update.
            let of = |beta: f64| -> anyhow::Result<Vec<f64>> {
                let m = method("rloo", &format!("beta={beta} kl={estimator}"))?;
                let situation =
                    Situation { reference: Some(&reference), ..Situation::on_policy(&tree, &policy, 2) };
                Ok(implied(m.as_ref(), &situation)?.update)
            };
            let gradient = difference(&of(0.0)?, &of(1.0)?);
            let want = match estimator {
                "k1" => vec![0.0; tree.edge_count()],
                "k3" => by_visits(forward),
                _ => by_visits(reverse),
            };
            let off = gap(&gradient, &want);
            identities = identities.max(off);
            let direction = |g: &[f64]| (estimator != "k1").then(|| cosine(&gradient, g));
            all.push((name, estimator, direction(&reverse_kl), direction(&forward_kl)));
            table.push(vec![
                name.into(),
                estimator.into(),
                direction(&reverse_kl).into(),
                direction(&forward_kl).into(),
                if estimator == "k1" { 0.0 } else { norm(&gradient) / norm(&reverse_kl) }.into(),
                if off < EXACT { EXACT } else { off }.into(),
            ]);
        }
    }
    let range = |estimator: &str, which: fn(&Row) -> Option<f64>| {
        let v: Vec<f64> = all.iter().filter(|r| r.1 == estimator).filter_map(which).collect();
        (quantile(&v, 0.0), quantile(&v, 1.0))
    };
    let (k2, k3, k3_forward) = (range("k2", |r| r.2), range("k3", |r| r.2), range("k3", |r| r.3));
    let findings = vec![
        Finding {
            statement: "The sign of β: the text's ℓ_GRPO = ℓ_NAE - βℓ_KL and the algorithms' ℓ_GRPO-λ + βℓ_KL agree".into(),
            verdict: if k2.0.min(k3.0) > 0.0 {
                Verdict::HoldsWhen("the text's objective is maximised and the algorithms' loss, -min(..)δ + βℓ_KL, minimised; and without the value loss, which the text adds to a maximised ℓ_PPO = ℓ_ψ + ℓ_GAE - βℓ_KL".into())
            } else {
                Verdict::Fails("a registered KL term moves away from the reference".into())
            },
            numbers: format!("{} MDPs, minimising +β: cosine of the step with -∇KL(π||ref) at least {:.3} (k2), {:.3} (k3)", MDPS.len(), k2.0, k3.0),
        },
        Finding {
            statement: "On whole responses, the registered KL terms are Σ_s d(s) times the gradients per state (rloo, beta = 1, on-policy)".into(),
            verdict: holds(identities < EXACT, || format!("off by {identities:e}")),
            numbers: format!("{} MDPs, 4 estimators: largest difference {}", MDPS.len(), error(identities)),
        },
        Finding {
            statement: "On whole responses, k2 and ratio·k3 in the loss give ∇KL(π||ref), and k3 gives ∇KL(ref||π), of the distributions of responses".into(),
            verdict: if k2.0 > 1.0 - 1e-9 && k3_forward.0 > 1.0 - 1e-9 {
                Verdict::Holds
            } else {
                Verdict::HoldsWhen("responses have one choice, or the visits d(s) are held fixed: a loss per token lacks the term by which a token leads to states with more or less KL, and k3 weighs states by d of π, not of ref".into())
            },
            numbers: format!(
                "cosine over the named MDPs: k2 and ratio_k3 with ∇KL(π||ref) {:.3} to {:.3}; k3 with ∇KL(π||ref) {:.3} to {:.3}, with ∇KL(ref||π) {:.3} to {:.3}; k1 in the reward (credit = the whole log-ratio) does give ∇KL(π||ref); both gradients agree with finite differences to {}",
                k2.0, k2.1, k3.0, k3.1, k3_forward.0, k3_forward.1, error(gradient_check)
            ),
        },
    ];
    Ok((findings, table))
}

/// The largest difference of both response-level gradients to central differences, over a few logits.
fn finite_difference(
    tree: &Tree,
    policy: &Tabular,
    reference: &Tabular,
    reverse_kl: &[f64],
    forward_kl: &[f64],
) -> f64 {
    let frozen = Oracle::new(tree, reference);
    let both = |policy: &Tabular| {
        let now = Oracle::new(tree, policy);
        let (p, q) = (now.leaf_probs(), frozen.leaf_probs());
        (divergence(&p, &q), divergence(&q, &p))
    };
    let h = 1e-4;
    let mut worst = 0.0f64;
    for edge in tree.edges().take(12) {
        let at = |h: f64| {
            let mut moved = policy.clone();
            moved.logits[edge] += h;
            both(&moved)
        };
        let ((a, c), (b, d)) = (at(h), at(-h));
        worst = worst.max(((a - b) / (2.0 * h) - reverse_kl[edge]).abs());
        worst = worst.max(((c - d) / (2.0 * h) - forward_kl[edge]).abs());
    }
    worst
}

fn figure(states: &Table, responses: &Table) -> Figure {
    let column = |name: &str| states.column(name).unwrap_or(0);
    let series = |estimator: &str, of: &[&str]| -> Vec<Vec<f64>> {
        let rows = states.rows.iter().filter(|r| r[column("estimator")].format(9) == estimator);
        rows.map(|r| of.iter().map(|c| r[column(c)].number().unwrap_or(f64::NAN)).collect()).collect()
    };
    let names = ["k2", "k3", "ratio_k3"];
    let mut hand = Panel::new("One state by hand: expected gradient (k1: 0, 0, 0)")
        .x(Axis::new("action").categories(["1", "2", "3"]))
        .y("E[∂ estimator / ∂ logit]");
    for name in names {
        let kl = ESTIMATORS.iter().find(|e| e.0 == name).map_or(Kl::K1, |e| e.1);
        let mean = moments(kl, &HAND_PI, &HAND_PI, &HAND_REF).0;
        hand = hand.bars(name, mean.into_iter().enumerate().map(|(a, g)| (a as f64, g)));
    }
    let mut ratio = Panel::new("Random states: length relative to ∇KL(π||ref)")
        .x(Axis::new("KL(π||ref), median of the pairs (nats)").log())
        .y(Axis::new("|E ∇ estimator| / |∇KL(π||ref)|").log());
    let mut angle = Panel::new("Random states: cosine with ∇KL(π||ref)")
        .x(Axis::new("KL(π||ref), median of the pairs (nats)").log())
        .y(Axis::new("cosine").range(0.0, 1.05));
    for name in ["k2", "k3", "ratio_k3"] {
        let r = series(name, &["median_kl", "norm_ratio_p10", "norm_ratio", "norm_ratio_p90"]);
        let c = series(name, &["median_kl", "cosine_p10", "cosine", "cosine_p90"]);
        let style = if name == "ratio_k3" { Style::Dashed } else { Style::Solid };
        if name == "k3" {
            ratio = ratio.band(name, r.iter().map(|v| (v[0], v[1], v[3])));
            angle = angle.band(name, c.iter().map(|v| (v[0], v[1], v[3])));
        }
        ratio = ratio.styled_line(name, style, r.iter().map(|v| (v[0], v[2])));
        angle = angle.styled_line(name, style, c.iter().map(|v| (v[0], v[2])));
    }
    let name_of = |r: &Vec<grpo_lambda::table::Cell>, c: &str| r[responses.column(c).unwrap_or(0)].format(9);
    let mut mdps: Vec<String> = responses.rows.iter().map(|r| name_of(r, "mdp")).collect();
    mdps.dedup();
    let mut whole = Panel::new("Whole responses: cosine with ∇KL(π||ref)")
        .x(Axis::new("MDP").categories(mdps))
        .y(Axis::new("cosine").range(0.0, 1.0));
    for name in ["k2", "k3", "ratio_k3"] {
        let rows = responses.rows.iter().filter(|r| name_of(r, "estimator") == name);
        let at = responses.column("cosine_reverse_kl").unwrap_or(0);
        whole =
            whole.bars(name, rows.enumerate().map(|(i, r)| (i as f64, r[at].number().unwrap_or(f64::NAN))));
    }
    Figure::new("k3 as a loss descends KL(ref||π), not KL(π||ref); per state k2 and ratio·k3 are right")
        .caption("Exact expectations, on-policy. Top right and bottom left: 300 pairs of 3-action softmax policies per distance, median, band 10-90 % (k3). Bottom right: registered methods on MDPs, against the KL of whole responses.")
        .names(names)
        .panel(hand)
        .panel(ratio)
        .panel(angle)
        .panel(whole)
}
