//! `clamp`: what clamping advantages at -0.1 does to a group, a prompt and a direction.

use grpo_lambda::advantage::{Baseline, OutcomeAdvantage as Outcome, Scale, Std};
use grpo_lambda::mdp::expected::{ExpectedError, Situation, compare, cosine, implied};
use grpo_lambda::mdp::zoo::{self, Family, Random, RandomRewards};
use grpo_lambda::mdp::{Oracle, RewardKind, Rules, Tabular, Tree};
use grpo_lambda::table::Table;

use super::common::{EXACT, finding, holds_or, holds_when, method, short};
use crate::experiment::{Context, Experiment, Report};
use crate::figure::{Axis, Figure, Panel, Style};

/// The experiment.
pub static EXPERIMENT: Experiment = Experiment {
    id: "clamp",
    title: "Clamping the advantage at -0.1 re-weights prompts; it changes no prompt's direction under uniform weights",
    claim: "\"Negative returns encourage π to move as far as possible from the corresponding trajectory, which can act as a destructive force on model parameters. [...] To mitigate this issue, we adopt a similar approach, i.e., we clamp negative advantages to a small value (-0.1 in our experiments).\"",
    source: "GRPO-lambda (arXiv 2510.00194v1), Section 4.2 \"Clamping the advantage function\"; Algorithms 1 and 2",
    run,
};

const CLAMP: f64 = -0.1;
const GROUP: usize = 8;
/// A group large enough for the limit.
const LARGE: usize = 128;

fn z_scores(clamp: Option<f64>) -> Outcome {
    Outcome { baseline: Baseline::GroupMean, scale: Scale::Group(Std::TRL), clamp }
}

/// One token, right with probability `p`.
fn coin(p: f64) -> anyhow::Result<(Tree, Tabular)> {
    let tree = Rules::new(["right", "wrong", "EOS"], 1)
        .build(|_| vec![0, 1], |response, _| f64::from(response == [0]))?;
    let policy = Tabular::from_weights(&tree, |_, edge| if edge == 0 { p } else { 1.0 - p });
    Ok((tree, policy))
}

/// `w_G(p) = Σ_k Bin(k; G-1, p) [A(k+1 right, own right) - A(k right, own wrong)]`, with z-scores written out.
fn prompt_weight(p: f64, g: usize, clamp: Option<f64>) -> f64 {
    let n = g as f64;
    let advantage = |right: usize, own: f64| {
        if right == 0 || right == g {
            return 0.0;
        }
        let k = right as f64;
        let std = (k * (n - k) / (n * (n - 1.0))).sqrt() + 1e-4;
        ((own - k / n) / std).max(clamp.unwrap_or(f64::NEG_INFINITY))
    };
    // In logarithms: (1-p)^(G-1) alone underflows in large groups.
    let mut log_binomial = (n - 1.0) * (1.0 - p).ln();
    let mut sum = 0.0;
    for k in 0..g {
        sum += log_binomial.exp() * (advantage(k + 1, 1.0) - advantage(k, 0.0));
        log_binomial += ((n - 1.0 - k as f64) / (k as f64 + 1.0) * p / (1.0 - p)).ln();
    }
    sum
}

/// The limit of `prompt_weight` for large groups.
fn large_group(p: f64, clamp: Option<f64>) -> f64 {
    let wrong = (p / (1.0 - p)).sqrt();
    ((1.0 - p) / p).sqrt() + clamp.map_or(wrong, |c| wrong.min(-c))
}

/// A row of the direction table: MDP, token weights, binary rewards or not, and the cosine of the clamped and the
/// unclamped expected update.
struct Turned {
    mdp: String,
    weights: &'static str,
    binary: bool,
    cosine: f64,
    with_gradient: (f64, f64),
}

const WEIGHTS: [(&str, &str, &str); 4] = [
    ("uniform", "grpo", ""),
    ("recent", "grpo_lambda", "lambda=0.8"),
    ("both", "grpo_lambda", "lambda=0.8 style=both"),
    ("ϵ-weight", "grpo_lambda", "lambda=0.8 update=weight"),
];

fn directions() -> anyhow::Result<Vec<Turned>> {
    let mut mdps: Vec<(String, Tree, Tabular)> = Vec::new();
    for entry in zoo::all() {
        let tree = (entry.build)();
        if tree.leaf_count() <= 600 {
            let policy = (entry.initial)(&tree);
            mdps.push((entry.name.to_owned(), tree, policy));
        }
    }
    let real = Random { seed: 1, symbols: 2, horizon: 2, rewards: RandomRewards::Real, ..Random::default() };
    let tree = real.tree()?;
    let policy = real.initial(&tree);
    mdps.push(("random, real rewards".to_owned(), tree, policy));
    let mut out = Vec::new();
    for (mdp, tree, policy) in &mdps {
        let tree = &tree.clone().with_gamma(1.0);
        let oracle = Oracle::new(tree, policy);
        for (weights, name, settings) in WEIGHTS {
            let expected = |clamp: &str| {
                let method =
                    method(name, &format!("reduction=constant max_length=1 clamp={clamp} {settings}"))?;
                anyhow::Ok(implied(method.as_ref(), &Situation::on_policy(tree, policy, GROUP)))
            };
            let (free, clamped) = match (expected("none")?, expected("-0.1")?) {
                (Ok(free), Ok(clamped)) => (free, clamped),
                (Err(ExpectedError::TooMany { .. }), _) | (_, Err(ExpectedError::TooMany { .. })) => continue,
                (Err(e), _) | (_, Err(e)) => return Err(e.into()),
            };
            out.push(Turned {
                mdp: mdp.clone(),
                weights,
                binary: tree.reward_kind() == RewardKind::Binary,
                cosine: cosine(&free.update, &clamped.update),
                with_gradient: (compare(&free, &oracle).cosine, compare(&clamped, &oracle).cosine),
            });
        }
    }
    Ok(out)
}

fn run(context: &Context) -> anyhow::Result<Report> {
    // The group: how far the advantages are from summing to 0.
    let mut push = Table::new(&["right_of_8", "clamp", "sum_of_advantages"]);
    let mut pushes = Vec::new();
    for right in 0..=GROUP {
        let rewards: Vec<Option<f64>> = (0..GROUP).map(|i| Some(f64::from(i < right))).collect();
        for (word, clamp) in [("none", None), ("-0.1", Some(CLAMP))] {
            let sum: f64 = z_scores(clamp).of_batch(std::slice::from_ref(&rewards))[0].iter().sum();
            push.push(vec![right.into(), word.into(), sum.into()]);
            pushes.push((right, clamp.is_some(), sum));
        }
    }
    let zero_sum = pushes.iter().filter(|p| !p.1).map(|p| p.2.abs()).fold(0.0, f64::max);
    let at_half = pushes.iter().find(|p| p.0 == 4 && p.1).map_or(f64::NAN, |p| p.2);
    (context.progress)(0.1, "prompt weights");

    // The prompt: the oracle's multiple of ∇p against the binomial formula.
    let mut weights = Table::new(&[
        "p",
        "group",
        "clamp",
        "weight_by_oracle",
        "weight_by_formula",
        "large_group_limit",
        "signal_to_noise",
    ]);
    let (mut formula_error, mut turned) = (0.0f64, 0.0f64);
    let mut lines = vec![Vec::new(); 4];
    let mut limit_error = [0.0f64; 2];
    let mut noted = Vec::new();
    let probabilities = [
        0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.98,
        0.99,
    ];
    for p in probabilities {
        let (tree, policy) = coin(p)?;
        let oracle = Oracle::new(&tree, &policy);
        for (c, clamp) in [None, Some(CLAMP)].into_iter().enumerate() {
            let word = clamp.map_or("none".to_owned(), |c| c.to_string());
            for g in [GROUP, 32, LARGE] {
                let method = method("grpo", &format!("reduction=response_sum clamp={word}"))?;
                let expected = implied(method.as_ref(), &Situation::on_policy(&tree, &policy, g))?;
                let found = compare(&expected, &oracle);
                let (formula, limit) = (prompt_weight(p, g, clamp), large_group(p, clamp));
                formula_error = formula_error.max((found.scale - formula).abs() / formula);
                turned = turned.max((found.cosine - 1.0).abs());
                // Groups that are mixed almost surely: only there does the limit say anything about a finite group.
                if (0.1..=0.9).contains(&p) && g != 32 {
                    let e = &mut limit_error[usize::from(g == LARGE)];
                    *e = e.max((found.scale - limit).abs() / limit);
                }
                weights.push(vec![
                    p.into(),
                    g.into(),
                    word.as_str().into(),
                    found.scale.into(),
                    formula.into(),
                    limit.into(),
                    found.signal_to_noise.into(),
                ]);
                if g == GROUP {
                    lines[c].push((p, found.scale));
                    lines[c + 2].push((p, limit));
                    if [0.05, 0.25, 0.5, 0.95].contains(&p) {
                        noted.push((p, clamp.is_some(), found.scale, limit, found.signal_to_noise));
                    }
                }
            }
        }
    }
    let at = |p: f64, clamped: bool| {
        noted
            .iter()
            .find(|n| n.0 == p && n.1 == clamped)
            .map_or((f64::NAN, f64::NAN, f64::NAN), |n| (n.2, n.3, n.4))
    };
    (context.progress)(0.4, "directions");

    // The direction, by the oracle.
    let turned_by = directions()?;
    let mut direction = Table::new(&[
        "mdp",
        "rewards",
        "token_weights",
        "cosine_clamped_unclamped",
        "cosine_grad_j_unclamped",
        "cosine_grad_j_clamped",
    ]);
    for t in &turned_by {
        let rewards = if t.binary { "binary" } else { "real" };
        direction.push(vec![
            t.mdp.as_str().into(),
            rewards.into(),
            t.weights.into(),
            t.cosine.into(),
            t.with_gradient.0.into(),
            t.with_gradient.1.into(),
        ]);
    }
    let lowest = |keep: &dyn Fn(&Turned) -> bool| {
        turned_by.iter().filter(|t| keep(t)).min_by(|a, b| a.cosine.total_cmp(&b.cosine))
    };
    let uniform_binary = lowest(&|t| t.binary && t.weights == "uniform");
    let traced = lowest(&|t| t.binary && t.weights != "uniform");
    let real = lowest(&|t| !t.binary && t.weights == "uniform");
    let of = |t: Option<&Turned>| t.map_or(f64::NAN, |t| t.cosine);
    let named = |t: Option<&Turned>| {
        t.map_or(String::new(), |t| format!("{} ({}, {})", short(t.cosine), t.mdp, t.weights))
    };
    let traces = || turned_by.iter().filter(|t| t.binary && t.weights != "uniform");
    let descends = traces().min_by(|a, b| a.with_gradient.1.total_cmp(&b.with_gradient.1));
    let unclamped = traces().map(|t| t.with_gradient.0).fold(f64::MAX, f64::min);
    let of_gradient = |t: Option<&Turned>| t.map_or((f64::NAN, f64::NAN), |t| t.with_gradient);
    let kept = (of(uniform_binary) - 1.0).abs() < EXACT;
    let changed_by_traces = of(traced) < 1.0 - 1e-6;
    let changed_by_rewards = of(real) < 1.0 - 1e-6;
    let binary_mdps = turned_by.iter().filter(|t| t.binary && t.weights == "uniform").count();

    let findings = vec![
        finding(
            "Clamping negative advantages changes in which direction a prompt's expected update moves the policy, not only how far",
            holds_when(
                !kept,
                changed_by_traces && changed_by_rewards,
                format!(
                    "rewards are not binary, or token weights differ between responses (a trace and varying lengths). With binary rewards and uniform weights (GRPO) pulling towards right responses and pushing away from wrong ones is the same expected direction: cosine 1 on {binary_mdps} MDPs, so nothing destructive is taken out, the prompt only counts less"
                ),
                format!("lowest cosines: traces {}, real rewards {}", short(of(traced)), short(of(real))),
            ),
            format!(
                "lowest cosine of clamped and unclamped expected update (G = {GROUP}): uniform weights, binary rewards 1 - {}; with traces {}; real rewards {}",
                short((1.0 - of(uniform_binary)).abs()),
                named(traced),
                named(real)
            ),
        ),
        finding(
            "With a trace the clamped expected update still raises J (its cosine with ∇J is positive)",
            holds_or(
                of_gradient(descends).1 > 0.0,
                format!(
                    "MDP {}, style {}, λ = 0.8: cosine {} clamped, {} unclamped. The push the clamp leaves over is weighted by traces that grow with the response's length",
                    descends.map_or("", |t| t.mdp.as_str()),
                    descends.map_or("", |t| t.weights),
                    short(of_gradient(descends).1),
                    short(of_gradient(descends).0)
                ),
            ),
            format!(
                "lowest cosine with ∇J over binary MDPs and traces: {} clamped, {} unclamped",
                short(of_gradient(descends).1),
                short(unclamped)
            ),
        ),
        finding(
            "The clamped advantages of a group still sum to 0",
            holds_or(
                at_half.abs() < EXACT,
                format!(
                    "with 4 of 8 right they sum to +{at_half:.2}: the batch pushes up the likelihood of whatever was sampled"
                ),
            ),
            format!("unclamped: at most {} from 0", short(zero_sum)),
        ),
        finding(
            "The clamp leaves the relative weight of prompts alone",
            holds_or(
                (at(0.95, true).0 / at(0.05, true).0 - at(0.95, false).0 / at(0.05, false).0).abs() < 0.01,
                format!(
                    "a prompt solved 95 % of the time has weight w_G = {:.3} instead of {:.3}, one solved 5 % {:.3} instead of {:.3}: solved prompts are nearly switched off",
                    at(0.95, true).0,
                    at(0.95, false).0,
                    at(0.05, true).0,
                    at(0.05, false).0
                ),
            ),
            format!(
                "G = {GROUP}, TRL std; unclamped p = .05: {:.3}, .25: {:.3}, .5: {:.3}; clamped .25: {:.3}, .5: {:.3}; signal to noise at p = .5: {} clamped, {} unclamped",
                at(0.05, false).0,
                at(0.25, false).0,
                at(0.5, false).0,
                at(0.25, true).0,
                at(0.5, true).0,
                short(at(0.5, true).2),
                short(at(0.5, false).2)
            ),
        ),
        finding(
            "E[update] = w_G(p) ∇p, with w_G(p) = Σ_k Bin(k; G-1, p) [A(k+1 right, r=1) - A(k right, r=0)], clamped or not",
            holds_or(
                formula_error < 1e-10 && turned < EXACT,
                format!("relative difference {}, cosine off by {}", short(formula_error), short(turned)),
            ),
            format!(
                "G = 8, 32, {LARGE}; {} probabilities: relative difference of oracle and formula {}",
                probabilities.len(),
                short(formula_error)
            ),
        ),
        finding(
            "For large groups the clamped weight is sqrt((1-p)/p) + min(0.1, sqrt(p/(1-p)))",
            holds_or(limit_error[1] < 0.03, format!("G = {LARGE} differs by {}", short(limit_error[1]))),
            format!(
                "p = .95: {:.2} clamped, {:.2} unclamped; relative difference for p in [.1, .9]: {} at G = 8, {} at G = {LARGE}",
                at(0.95, true).1,
                at(0.95, false).1,
                short(limit_error[0]),
                short(limit_error[1])
            ),
        ),
    ];

    let weight_panel = Panel::new("Weight of a prompt in the update")
        .x("p, probability of a right response")
        .y(Axis::new("weight w(p), E[update] = w(p) ∇p").log())
        .line("unclamped, G = 8", lines[0].clone())
        .line("A ≥ -0.1, G = 8", lines[1].clone())
        .styled_line("unclamped, large G", Style::Dashed, lines[2].clone())
        .styled_line("A ≥ -0.1, large G", Style::Dashed, lines[3].clone());
    let sums = |clamped: bool| {
        pushes.iter().filter(move |p| p.1 == clamped).map(|p| (p.0 as f64, p.2)).collect::<Vec<_>>()
    };
    let push_panel = Panel::new("Sum of a group's advantages")
        .x(Axis::new("right responses of 8").categories((0..=GROUP).map(|k| k.to_string())))
        .y("sum of the advantages Σ A_i")
        .bars("A ≥ -0.1, G = 8", sums(true))
        .hline(0.0, "unclamped");
    let names: Vec<String> = {
        let mut names: Vec<String> = Vec::new();
        for t in &turned_by {
            if !names.contains(&t.mdp) {
                names.push(t.mdp.clone());
            }
        }
        names
    };
    let of_both = |value: &dyn Fn(&Turned) -> f64| -> Vec<(f64, f64)> {
        let point = |t: &Turned| Some((names.iter().position(|n| *n == t.mdp)? as f64, value(t)));
        turned_by.iter().filter(|t| t.weights == "both").filter_map(point).collect()
    };
    let mut cosine_panel = Panel::new("Turn: angle between clamped and unclamped expected update, G = 8")
        .x(Axis::new("MDP").categories(names.clone()))
        .y("angle (degrees)");
    for (weights, _, _) in WEIGHTS {
        let bars = turned_by.iter().filter(|t| t.weights == weights).filter_map(|t| {
            let x = names.iter().position(|n| *n == t.mdp)?;
            Some((x as f64, t.cosine.clamp(-1.0, 1.0).acos().to_degrees()))
        });
        cosine_panel = cosine_panel.points(weights, bars.collect::<Vec<_>>());
    }
    let after = Panel::new(
        "Usefulness: cosine of the expected update with ∇J, trace of style both (below 0: against ∇J)",
    )
    .x(Axis::new("MDP").categories(names.clone()))
    .y(Axis::new("cosine with ∇J").range(-1.05, 1.05))
    .points("both, unclamped", of_both(&|t| t.with_gradient.0))
    .points("both, A ≥ -0.1", of_both(&|t| t.with_gradient.1))
    .hline(0.0, "");
    let effect = Figure::new("Clamping at -0.1 all but switches off solved prompts and gives mixed groups a net push up")
        .caption("Exact, z-scores with TRL's std. Left: one prompt's expected update is w(p) ∇p; at p = 0.95, G = 8 the clamp leaves w = 0.22 of 2.31. Dashed: G → ∞, clamped sqrt((1-p)/p) + min(0.1, sqrt(p/(1-p))). Right: G = 8; unclamped advantages sum to 0.")
        .panel(weight_panel)
        .panel(push_panel);
    let against = turned_by.iter().filter(|t| t.weights == "both" && t.with_gradient.1 < 0.0).count();
    let turn = Figure::new(format!("With a trace the clamp turns the expected update, on {against} MDPs even against ∇J"))
        .caption("Exact expected updates on-policy, constant reduction, λ = 0.8. With uniform weights (GRPO) and binary rewards the angle is 0; chain_partial and the last MDP have real rewards, all others binary ones.")
        .columns(1)
        .panel_size(900, 360)
        .panel(cosine_panel)
        .panel(after);
    Ok(Report {
        findings,
        tables: vec![("push".into(), push), (String::new(), weights), ("direction".into(), direction)],
        figures: vec![(String::new(), effect), ("direction".into(), turn)],
    })
}
