//! `clip_form`: PPO's clip, the one Algorithms 1 and 2 print, and the two-sided one.

use grpo_lambda::mdp::expected::{Situation, cosine, implied};
use grpo_lambda::mdp::{Oracle, Tabular, Tree, zoo};
use grpo_lambda::surrogate::Surrogate;
use grpo_lambda::table::Table;

use super::common::{finding, gap, holds_or, holds_when, method, norm, short};
use crate::experiment::{Context, Experiment, Report};
use crate::figure::{Axis, Figure, Mark, Panel, Style};

/// The experiment.
pub static EXPERIMENT: Experiment = Experiment {
    id: "clip_form",
    title: "The clip printed in the algorithms is not PPO's where the advantage is negative",
    claim: "Main text: \"ℓ_π = min(π^GAE_ratio(s_t) δ_t, clip(π^GAE_ratio(s_t), 1-ϵ, 1+ϵ) δ_t)\"; Algorithm 1: \"coef_2 ← clamp(coef_1, 1±ϵ_clip)\", \"ℓ ← -min(coef_1, coef_2) δ\"",
    source: "GRPO-lambda (arXiv 2510.00194v1), Section 3 against Algorithms 1 and 2",
    run,
};

const EPSILON: f64 = 0.2;
const CAP: f64 = 1.6;
const GROUP: usize = 8;
/// Inner updates on one batch of responses in the run that shows the trust region.
const UPDATES: usize = 200;

const PPO: Surrogate = Surrogate::Clip { low: EPSILON, high: EPSILON };
const PRINTED: Surrogate = Surrogate::Printed { high: EPSILON };
const TWO_SIDED: Surrogate = Surrogate::TwoSided { low: EPSILON, high: EPSILON, delta: CAP };

/// A clip form of the registered methods.
const FORMS: [(&str, &str); 4] = [
    ("PPO", "clip=ppo"),
    ("as printed", "clip=printed"),
    ("as printed, A ≥ -0.1", "clip=printed clamp=-0.1"),
    ("no clip", "clip=none"),
];

/// The ratios and advantages of the maps; bounds of the clip are not on the grid.
fn ratios() -> Vec<f64> {
    (0..14).map(|i| 0.45 + 0.1 * f64::from(i)).collect()
}
fn advantages() -> Vec<f64> {
    (-4..=4).rev().map(|i| 0.5 * f64::from(i)).collect()
}

/// The expected update of GRPO with a clip form, at `current`, from groups sampled by `behaviour`.
fn update(clip: &str, tree: &Tree, behaviour: &Tabular, current: &Tabular) -> anyhow::Result<Vec<f64>> {
    let method = method("grpo", &format!("reduction=response_sum {clip}"))?;
    let situation = Situation { current, ..Situation::on_policy(tree, behaviour, GROUP) };
    Ok(implied(method.as_ref(), &situation)?.update)
}

/// `KL(behaviour || current)` over responses, in nats, and the smallest token ratio.
fn distance(behaviour: &Oracle, current: &Oracle) -> (f64, f64) {
    let log_ratio: Vec<f64> =
        current.log_probs.iter().zip(&behaviour.log_probs).map(|(new, old)| new - old).collect();
    let kl = behaviour.tree.edges().map(|e| -behaviour.edge_visit(e) * log_ratio[e]).sum();
    (kl, log_ratio.iter().fold(0.0f64, |m, x| m.min(*x)).exp())
}

fn run(context: &Context) -> anyhow::Result<Report> {
    // Where the forms differ, point by point.
    let mut table = Table::new(&["ratio", "advantage", "form", "loss", "slope"]);
    let (mut points, mut where_said, mut elsewhere, mut positive) = (0, 0, 0, 0.0f64);
    let (mut value_gap, mut difference_map) = (0.0f64, Vec::new());
    for a in advantages() {
        let mut row = Vec::new();
        for rho in ratios() {
            let z = rho.ln();
            let (ppo, printed) = (PPO.at(z, a).loss, PRINTED.at(z, a).loss);
            // The printed formula itself, and its simplification -min(ρ, 1+ε) A.
            let literal = -rho.min(rho.clamp(1.0 - EPSILON, 1.0 + EPSILON)) * a;
            value_gap = value_gap
                .max((printed.value - literal).abs())
                .max((literal + rho.min(1.0 + EPSILON) * a).abs());
            let differs =
                (ppo.value - printed.value).abs() > 1e-12 || (ppo.slope - printed.slope).abs() > 1e-12;
            let said = a < 0.0 && !(1.0 - EPSILON..=1.0 + EPSILON).contains(&rho);
            points += 1;
            where_said += usize::from(differs && said);
            elsewhere += usize::from(differs != said);
            if a >= 0.0 {
                positive =
                    positive.max((ppo.value - printed.value).abs()).max((ppo.slope - printed.slope).abs());
            }
            for (form, surrogate) in [("ppo", PPO), ("printed", PRINTED), ("two_sided", TWO_SIDED)] {
                let loss = surrogate.at(z, a).loss;
                table.push(vec![rho.into(), a.into(), form.into(), loss.value.into(), loss.slope.into()]);
            }
            row.push(printed.slope - ppo.slope);
        }
        difference_map.push(row);
    }
    (context.progress)(0.2, "on-policy");

    let mut on_policy = 0.0f64;
    let mut mdps = 0;
    for entry in zoo::all() {
        let tree = (entry.build)();
        if entry.name == "random" || tree.leaf_count() > 300 {
            continue;
        }
        let policy = (entry.initial)(&tree);
        let [ppo, printed] = ["clip=ppo", "clip=printed"].map(|clip| update(clip, &tree, &policy, &policy));
        on_policy = on_policy.max(gap(&ppo?, &printed?));
        mdps += 1;
    }

    // Off-policy: the policy has moved along the gradient, by up to `step` nats of a logit.
    let mut direction = Table::new(&["mdp", "step", "form", "cosine_with_grad_j", "norm"]);
    let mut cosines = Vec::new();
    let mut worst = [(0.0f64, "", 0.0, 0.0, 0.0); 2];
    for name in ["lucky_guess", "deceptive"] {
        let entry = zoo::find(name).ok_or_else(|| anyhow::anyhow!("no MDP called {name}"))?;
        let tree = (entry.build)();
        let behaviour = (entry.initial)(&tree);
        let grad = Oracle::new(&tree, &behaviour).grad_j();
        let largest = grad.iter().fold(0.0f64, |m, g| m.max(g.abs()));
        let mut panel = Panel::new(format!("MDP {name}: cosine of update and ∇J"))
            .x("step taken along ∇J since sampling (nats of the largest logit)")
            .y(Axis::new("cosine with ∇J at the current policy").range(-1.05, 1.05));
        let mut lines = vec![Vec::new(); FORMS.len()];
        for i in -30..=30 {
            let step = 0.1 * f64::from(i);
            let mut current = behaviour.clone();
            current.step(&grad, step / largest);
            let now = Oracle::new(&tree, &current).grad_j();
            let mut both = [0.0; 2];
            for (f, (form, clip)) in FORMS.into_iter().enumerate() {
                let expected = update(clip, &tree, &behaviour, &current)?;
                let cos = cosine(&expected, &now);
                direction.push(vec![
                    name.into(),
                    step.into(),
                    form.into(),
                    cos.into(),
                    norm(&expected).into(),
                ]);
                lines[f].push((step, cos));
                if f < 2 {
                    both[f] = cos;
                }
            }
            let worst = &mut worst[usize::from(step > 0.0)];
            if (both[0] - both[1]).abs() > worst.0 {
                *worst = ((both[0] - both[1]).abs(), name, step, both[0], both[1]);
            }
        }
        for ((form, _), line) in FORMS.into_iter().zip(lines) {
            panel = panel.line(form, line);
        }
        cosines.push(panel.vline(0.0, "on-policy"));
    }
    (context.progress)(0.6, "inner updates");

    // The trust region: many updates on the responses of one policy.
    let entry = zoo::find("noisy").ok_or_else(|| anyhow::anyhow!("no MDP called noisy"))?;
    let tree = (entry.build)();
    let behaviour = (entry.initial)(&tree);
    let start = Oracle::new(&tree, &behaviour);
    let mut inner = Table::new(&["mdp", "form", "updates", "kl_from_sampling_policy", "smallest_ratio", "j"]);
    let mut drift = Panel::new("MDP noisy: distance from the sampling policy")
        .x("updates on the same batch")
        .y("KL (nats per response)");
    let mut smallest = Panel::new("MDP noisy: smallest token ratio")
        .x("updates on the same batch")
        .y(Axis::new("smallest π/π_old").log());
    let mut ends = Vec::new();
    for (form, clip) in FORMS {
        let mut current = behaviour.clone();
        let (mut kls, mut ratios) = (Vec::new(), Vec::new());
        for n in 0..=UPDATES {
            let oracle = Oracle::new(&tree, &current);
            let (kl, ratio) = distance(&start, &oracle);
            if n % 10 == 0 {
                inner.push(vec![
                    entry.name.into(),
                    form.into(),
                    n.into(),
                    kl.into(),
                    ratio.into(),
                    oracle.j.into(),
                ]);
            }
            kls.push((n as f64, kl));
            ratios.push((n as f64, ratio));
            if n == UPDATES {
                ends.push((form, kl, ratio, oracle.j));
            }
            let step = update(clip, &tree, &behaviour, &current)?;
            current.step(&step, 0.2);
        }
        drift = drift.line(form, kls);
        smallest = smallest.line(form, ratios);
    }
    let [ppo_end, printed_end] = [ends[0], ends[1]];

    let findings = vec![
        finding(
            "Algorithm 1's -min(coef₁, coef₂) δ is the main text's clipped objective",
            holds_when(
                elsewhere == 0 && where_said == 0,
                elsewhere == 0 && positive == 0.0,
                "δ_t ≥ 0 or 1-ε ≤ ratio ≤ 1+ε. For δ_t < 0 outside it differs everywhere: the gradient stays on below 1-ε, where PPO stops pushing the token down, and is off above 1+ε, where PPO pulls it back".to_owned(),
                format!("{elsewhere} points differ from that statement"),
            ),
            format!(
                "{points} points of ratio and advantage: the forms differ at {where_said}, all with δ < 0 and the ratio outside [0.8, 1.2]; at ratio 0.5, δ = -1: slope {} against {}; at ratio 1.5: {} against {} (printed against PPO)",
                short(PRINTED.at(0.5f64.ln(), -1.0).loss.slope),
                short(PPO.at(0.5f64.ln(), -1.0).loss.slope),
                short(PRINTED.at(1.5f64.ln(), -1.0).loss.slope),
                short(PPO.at(1.5f64.ln(), -1.0).loss.slope)
            ),
        ),
        finding(
            "As printed, the loss is -min(ratio, 1+ε) δ for either sign of δ: the lower bound never acts",
            holds_or(value_gap < 1e-12, format!("largest difference {}", short(value_gap))),
            format!("largest difference over the grid {}", short(value_gap)),
        ),
        finding(
            "On-policy (one update per batch) the two forms are the same method",
            holds_or(on_policy == 0.0, format!("expected updates differ by {}", short(on_policy))),
            format!("exact expected updates on {mdps} MDPs, G = {GROUP}: largest difference {}", short(on_policy)),
        ),
        finding(
            "\"clipping π_ratio between 1-ϵ and 1+ϵ discourages π_θ from changing too much from π_θold\", as printed too",
            holds_or(
                printed_end.2 > 0.9 * ppo_end.2,
                format!(
                    "after {UPDATES} updates on one batch the smallest token ratio is {} as printed and {} with PPO's clip, the KL {} against {} nats",
                    short(printed_end.2), short(ppo_end.2), short(printed_end.1), short(ppo_end.1)
                ),
            ),
            ends.iter()
                .map(|(form, kl, ratio, j)| format!("{form}: KL {}, smallest ratio {}, J {}", short(*kl), short(*ratio), short(*j)))
                .collect::<Vec<_>>()
                .join("; "),
        ),
        finding(
            "Off-policy the printed form gives another direction than PPO's",
            holds_or(worst.iter().any(|w| w.0 > 1e-6), "the same everywhere"),
            format!(
                "largest differences of the cosine with ∇J at the current policy: {}. PPO's clip pulls back a policy that has improved and corrects one that has got worse; as printed it does less of both",
                worst
                    .iter()
                    .map(|w| format!("MDP {}, step {} along ∇J: PPO {}, printed {}", w.1, short(w.2), short(w.3), short(w.4)))
                    .collect::<Vec<_>>()
                    .join("; ")
            ),
        ),
    ];

    let curve = |surrogate: Surrogate, a: f64, slope: bool| {
        (0..=1400).map(move |i| {
            let rho = 0.4 + 0.001 * f64::from(i);
            let loss = surrogate.at(rho.ln(), a).loss;
            (rho, if slope { -loss.slope } else { loss.value })
        })
    };
    let forms = |title: &str, y: &str, a: f64, slope: bool| {
        Panel::new(title)
            .x("ratio π/π_old")
            .y(y)
            .styled_line("as printed", Style::Solid, curve(PRINTED, a, slope))
            .styled_line("PPO", Style::Dashed, curve(PPO, a, slope))
            .styled_line("two-sided, cap 1.6", Style::Dotted, curve(TWO_SIDED, a, slope))
            .vline(0.8, "1-ε")
            .vline(1.2, "1+ε")
    };
    let shapes = Figure::new("For A < 0 the printed clip acts on the wrong side: pushes on below 1-ε, no pull above 1+ε")
        .caption("One token, ε = 0.2. Push: minus the derivative of the loss with respect to log π; positive raises the token's probability. Lines on each other: equal.")
        .panel(forms("Loss, A = +1: all forms agree", "loss", 1.0, false))
        .panel(forms("Loss, A = −1: they differ outside 1±ε", "loss", -1.0, false))
        .panel(forms("Push, A = +1: all forms agree", "push on log π", 1.0, true))
        .panel(forms("Push, A = −1: they differ outside 1±ε", "push on log π", -1.0, true));
    let map = Figure::new("The two forms differ only where the advantage is negative and the ratio has left [0.8, 1.2]")
        .caption("Slope of the printed loss minus slope of PPO's, with respect to log π; ε = 0.2. Red: printed pushes the token further down; blue: printed leaves out PPO's pull back; white: the same.")
        .columns(1)
        .panel_size(900, 330)
        .panel(
            Panel::new("d loss / d log π: printed minus PPO")
                .x(Axis::new("ratio π/π_old").categories(ratios().iter().map(|r| format!("{r:.2}"))))
                .y(Axis::new("advantage A").categories(advantages().iter().map(|a| format!("{a}").replace('-', "−"))))
                .mark(Mark::HeatMap { values: difference_map, annotate: false, range: None, diverging: true, label: "difference of slopes".into() }),
        );
    let off = cosines
        .into_iter()
        .fold(
            Figure::new("On-policy the forms agree; on a reused batch PPO's clip holds the policy, the printed one lets it drift"),
            Figure::panel,
        )
        .caption("Exact expected update of GRPO (G = 8, sum over tokens, ε = 0.2). Above: the policy has moved along ∇J since sampling. Below: 200 steps of rate 0.2 in expectation over groups of the first policy.")
        .panel(drift)
        .panel(smallest);
    Ok(Report {
        findings,
        tables: vec![
            (String::new(), table),
            ("off_policy".into(), direction),
            ("trust_region".into(), inner),
        ],
        figures: vec![(String::new(), shapes), ("map".into(), map), ("off_policy".into(), off)],
    })
}
