//! `lambda_zero`: which readings of GRPO-lambda are GRPO at λ = 0, and where GAE becomes GRPO.

use grpo_lambda::advantage::gae;
use grpo_lambda::group::Group;
use grpo_lambda::table::Table;

use super::common::{
    EXACT, evaluate, finding, gap, group, holds_or, holds_when, norm, on_policy_weights, short, stream,
    symmetric,
};
use crate::experiment::{Context, Experiment, Report};
use crate::figure::{Axis, Figure, Panel};

/// The experiment.
pub static EXPERIMENT: Experiment = Experiment {
    id: "lambda_zero",
    title: "λ = 0 is GRPO only for the style recent without clamp; GAE is GRPO at λ = 1",
    claim: "\"GRPO-λ is also a generalization of GRPO, as it falls back to GRPO with λ=0.\"",
    source: "GRPO-lambda (arXiv 2510.00194v1), Section 3",
    run,
};

/// GRPO with the reduction of the code base the paper builds on.
const GRPO: &str = "reduction=token_mean";
const BATCHES: usize = 200;

/// The readings compared with GRPO.
const READINGS: [(&str, &str); 12] = [
    ("recent", "clamp=none"),
    ("recent, Eq. 18 as printed", "clamp=none matrix=as_printed"),
    ("recent, rows normalised", "clamp=none normalise=rows"),
    ("recent, A clamped at -0.1", ""),
    ("recent, printed clip", "clamp=none clip=printed"),
    ("recent, terminal δ", "clamp=none delta=terminal"),
    ("both", "clamp=none style=both"),
    ("both, Eq. 17 as printed", "clamp=none style=both matrix=as_printed"),
    ("both, rows normalised", "clamp=none style=both normalise=rows"),
    ("both, mean normalised", "clamp=none style=both normalise=mean"),
    ("ϵ-weight", "clamp=none update=weight"),
    ("ϵ-weight, no soft gradient", "clamp=none update=weight soft_gradient=false"),
];

/// A seeded group of five with binary rewards, lengths 1 to 9, and current log-probabilities that differ by up to `drift`.
fn batch(seed: u64, index: usize, drift: f64) -> (Group, Vec<Vec<f64>>) {
    let mut rng = stream(seed, index as u64);
    let mut numbers = |n: usize, centre: f64, width: f64| -> Vec<f64> {
        (0..n).map(|_| centre + width * symmetric(&mut rng)).collect()
    };
    let old: Vec<Vec<f64>> = (0..5).map(|i| numbers(1 + (index + 2 * i) % 9, -1.0, 0.9)).collect();
    let logps = old
        .iter()
        .map(|o| o.iter().zip(numbers(o.len(), 0.0, drift)).map(|(o, d)| o + d).collect())
        .collect();
    let rewards: Vec<f64> = (0..5).map(|i| f64::from((index + i) % 5 < 1 + index % 4)).collect();
    (group(&rewards, &old), logps)
}

fn run(context: &Context) -> anyhow::Result<Report> {
    let mut table = Table::new(&[
        "reading",
        "policy",
        "batches",
        "largest_loss_difference",
        "largest_relative_gradient_difference",
    ]);
    let mut differences = Vec::new();
    for (i, (name, settings)) in READINGS.into_iter().enumerate() {
        (context.progress)(0.8 * i as f64 / READINGS.len() as f64, name);
        let mut by_policy = [(0.0f64, 0.0f64); 2];
        for (policy, drift) in [("on-policy", 0.0), ("off-policy", 0.5)] {
            let worst = &mut by_policy[usize::from(drift > 0.0)];
            for index in 0..BATCHES {
                let (group, logps) = batch(context.seed, index, drift);
                let ours = evaluate("grpo_lambda", &format!("lambda=0 {settings}"), &group, &logps)?;
                let grpo = evaluate("grpo", GRPO, &group, &logps)?;
                let (a, b) = (ours.dlogps.concat(), grpo.dlogps.concat());
                worst.0 = worst.0.max((ours.value - grpo.value).abs());
                worst.1 = worst.1.max(gap(&a, &b) / norm(&b).max(f64::MIN_POSITIVE));
            }
            table.push(vec![name.into(), policy.into(), BATCHES.into(), worst.0.into(), worst.1.into()]);
        }
        differences.push((name, by_policy));
    }
    let of = |name: &str| differences.iter().find(|d| d.0 == name).map_or([(f64::NAN, f64::NAN); 2], |d| d.1);
    let is_grpo = |name: &str| of(name).iter().all(|d| *d == (0.0, 0.0));

    // The critic GRPO implies is the constant V(s_0): its GAE against r - V(s_0) at every token.
    let (reward, v0, len) = (1.0, 0.375, 16);
    let mut rewards = vec![0.0; len];
    rewards[len - 1] = reward;
    let outcome = vec![reward - v0; len];
    let mut by_lambda = Table::new(&["lambda", "quantity", "relative_difference_from_grpo"]);
    let (mut implied, mut paper) = (Vec::new(), Vec::new());
    let flat = vec![-0.5; len];
    for step in 0..=20 {
        let lambda = f64::from(step) / 20.0;
        let advantages = gae(&rewards, &vec![v0; len], 1.0, lambda);
        let distance =
            |x: &[f64], y: &[f64]| norm(&x.iter().zip(y).map(|(x, y)| x - y).collect::<Vec<_>>()) / norm(y);
        implied.push((lambda, distance(&advantages, &outcome)));
        let weights = on_policy_weights(&format!("lambda={lambda}"), &flat)?;
        paper.push((lambda, distance(&weights, &vec![1.0; len])));
        for (name, (x, y)) in [
            ("GAE with the implied critic", implied[step as usize]),
            ("GRPO-lambda, recent", paper[step as usize]),
        ] {
            by_lambda.push(vec![x.into(), name.into(), y.into()]);
        }
    }
    let terminal_on = {
        let (group, logps) = batch(context.seed, 1, 0.0);
        let ours = evaluate("grpo_lambda", "lambda=1 delta=terminal clamp=none", &group, &logps)?;
        let grpo = evaluate("grpo", GRPO, &group, &logps)?;
        gap(&ours.dlogps.concat(), &grpo.dlogps.concat())
    };

    let six = vec![-0.5; 6];
    let both = on_policy_weights("lambda=0 style=both", &six)?;
    let recent = on_policy_weights("lambda=0", &six)?;
    let weight = on_policy_weights("lambda=0 update=weight", &six)?;
    let terminal = on_policy_weights("lambda=0 delta=terminal", &six)?;
    let list = |w: &[f64]| w.iter().map(|w| short(*w)).collect::<Vec<_>>().join(", ");

    let every = differences.iter().all(|d| d.1.iter().all(|d| *d == (0.0, 0.0)));
    let same: Vec<&str> = differences.iter().map(|d| d.0).filter(|n| is_grpo(n)).collect();
    let findings = vec![
        finding(
            "\"it falls back to GRPO with λ=0\"",
            holds_when(
                every,
                is_grpo("recent"),
                format!(
                    "the style is recent, advantages are not clamped and the clip is PPO's (readings that are GRPO exactly, on and off policy: {}). The paper's own settings clamp at -0.1 and are not",
                    same.join("; ")
                ),
                format!("recent without clamp differs by {}", short(of("recent")[1].1)),
            ),
            format!(
                "{BATCHES} random batches each on and off policy; recent without clamp: largest difference of loss {} and gradient {}; with the clamp at -0.1: relative gradient difference up to {}",
                short(of("recent")[1].0),
                short(of("recent")[1].1),
                short(of("recent, A clamped at -0.1")[0].1)
            ),
        ),
        finding(
            "λ = 0 gives GRPO for the style both",
            holds_or(
                is_grpo("both"),
                format!(
                    "weights at T = 6: [{}]; max(0^l, 0^(t-l)) keeps token 0 in every ratio",
                    list(&both)
                ),
            ),
            format!(
                "recent: [{}]; relative gradient difference of both up to {}",
                list(&recent),
                short(of("both")[0].1)
            ),
        ),
        finding(
            "λ = 0 gives GRPO for ϵ-weight",
            holds_or(
                is_grpo("ϵ-weight"),
                format!("the soft clamp stays: weights at T = 6, log π = -0.5: [{}]", list(&weight)),
            ),
            format!("relative gradient difference up to {}", short(of("ϵ-weight")[0].1)),
        ),
        finding(
            "GAE with the critic GRPO implies, V = V(s₀) everywhere, is GRPO at λ = 1 (not at λ = 0)",
            holds_or(
                implied[20].1 == 0.0 && implied[0].1 > EXACT && terminal_on < EXACT,
                format!("at λ = 1 it differs by {}", short(implied[20].1)),
            ),
            format!(
                "relative difference from r - V(s₀) at every token (T = {len}): {} at λ = 1, {} at λ = 0; the method with delta=terminal, λ = 1, on-policy: gradient differs by {}",
                short(implied[20].1),
                short(implied[0].1),
                short(terminal_on)
            ),
        ),
    ];
    let distances = Panel::new(format!("Distance from GRPO, T = {len}"))
        .x("λ")
        .y("distance of weights (0 = GRPO)")
        .line("δ_t = A_NAE at every token (the paper)", paper.iter().copied())
        .line("TD errors of the critic GRPO implies", implied.iter().copied())
        .hline(0.0, "GRPO");
    let bars = Panel::new("Token weights at λ = 0, T = 6")
        .x(Axis::new("token k").categories((0..6).map(|k| k.to_string())))
        .y("weight (GRPO = 1)")
        .bars("recent", recent.iter().enumerate().map(|(k, &w)| (k as f64, w)))
        .bars("both", both.iter().enumerate().map(|(k, &w)| (k as f64, w)))
        .bars("ϵ-weight", weight.iter().enumerate().map(|(k, &w)| (k as f64, w)))
        .bars("recent, terminal δ", terminal.iter().enumerate().map(|(k, &w)| (k as f64, w)))
        .hline(1.0, "GRPO");
    let figure = Figure::new("λ = 0 gives GRPO for the style recent only; with true TD errors GRPO is λ = 1, the other end")
        .caption("Exact, on-policy, no advantage clamp, γ = 1; ϵ-weight at log π = -0.5. Left: style recent, Euclidean distance of the T weights from 1, over √T. Right: the weights themselves; a missing bar is 0.")
        .panel(distances)
        .panel(bars);
    Ok(Report {
        findings,
        tables: vec![(String::new(), table), ("by_lambda".into(), by_lambda)],
        figures: vec![(String::new(), figure)],
    })
}
