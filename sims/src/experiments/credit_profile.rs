//! `credit_profile`: what each reading of GRPO-lambda weighs each token with, on-policy.

use grpo_lambda::table::Table;

use super::common::{EXACT, evaluate, finding, gap, group, holds_or, mean, norm, on_policy_weights, short};
use crate::experiment::{Context, Experiment, Report};
use crate::figure::{Axis, Figure, Panel, Style};

/// The experiment.
pub static EXPERIMENT: Experiment = Experiment {
    id: "credit_profile",
    title: "The weight of each token under every reading of GRPO-lambda",
    claim: "\"the loss at each step (token) essentially gets reweighted implicitly with ϵ-trace. ϵ-weight does this reweighting of the loss explicitly.\"",
    source: "GRPO-lambda (arXiv 2510.00194v1), Appendix A.3; Section 3.2, Section 4.2, Algorithms 1 and 2",
    run,
};

/// The paper's KL coefficient (Table 2).
const BETA: f64 = 0.04;
const LEN: usize = 256;
const Q: f64 = 0.99;

/// Log-probabilities between about -0.02 and -2.3, not the same at any two neighbours.
fn ragged_logps(len: usize) -> Vec<f64> {
    (0..len).map(|t| -0.02 - 0.19 * ((5 * t) % 13) as f64).collect()
}

/// One reading of the method.
struct Reading {
    both: bool,
    matrix: &'static str,
    normalise: &'static str,
    terminal: bool,
    /// `None` for the trace update; else reading of the soft clamp and whether the gradient flows through it.
    weight: Option<(&'static str, bool)>,
}

impl Reading {
    fn every() -> Vec<Reading> {
        let mut all = Vec::new();
        let soft =
            ["matrix", "elementwise", "inner"].into_iter().flat_map(|r| [Some((r, true)), Some((r, false))]);
        for weight in std::iter::once(None).chain(soft) {
            for both in [false, true] {
                for matrix in ["equation", "row_index", "as_printed"] {
                    for normalise in ["none", "rows", "mean"] {
                        for terminal in [false, true] {
                            all.push(Reading { both, matrix, normalise, terminal, weight });
                        }
                    }
                }
            }
        }
        all
    }

    fn style(&self) -> &'static str {
        if self.both { "both" } else { "recent" }
    }
    fn delta(&self) -> &'static str {
        if self.terminal { "terminal" } else { "constant" }
    }

    fn settings(&self) -> String {
        let update = match self.weight {
            None => "update=trace".to_owned(),
            Some((reading, gradient)) => {
                format!("update=weight soft_clamp={reading} soft_gradient={gradient}")
            }
        };
        format!(
            "lambda={Q} style={} matrix={} normalise={} delta={} {update}",
            self.style(),
            self.matrix,
            self.normalise,
            self.delta()
        )
    }

    /// The weights from formulas alone, with the matrix written out: nothing of the crate's traces is used.
    fn closed_form(&self, logps: &[f64]) -> Vec<f64> {
        let len = logps.len();
        let power = |n: usize| Q.powi(n as i32);
        let entry = |t: usize, k: usize| match (self.matrix, self.both) {
            _ if k > t => 0.0,
            _ if k == t => 1.0,
            ("as_printed", false) => power(len - 1 - k),
            ("as_printed", true) => power(len - 1 - k).max(power(k)),
            (_, false) => power(t - k),
            (_, true) => power(t - k).max(power(k)),
        };
        let mut m: Vec<Vec<f64>> = (0..len).map(|t| (0..len).map(|k| entry(t, k)).collect()).collect();
        if self.normalise == "rows" {
            for row in &mut m {
                let sum: f64 = row.iter().sum();
                row.iter_mut().for_each(|x| *x /= sum);
            }
        }
        let delta: Vec<f64> = (0..len).map(|t| f64::from(!self.terminal || t + 1 == len)).collect();
        let column = |k: usize, y: &[f64]| (0..len).map(|t| m[t][k] * y[t]).sum::<f64>();
        let weight = |k: usize| match self.weight {
            None => column(k, &delta),
            Some((reading, gradient)) => {
                // v = 1 + σ(log π - 1) and v' = σ (1 - σ)
                let sigma = |t: usize| 1.0 / (1.0 + (1.0 - logps[t]).exp());
                let (v, slope) = (|t| 1.0 + sigma(t), |t| sigma(t) * (1.0 - sigma(t)));
                let row_sum = |t: usize| m[t].iter().sum::<f64>();
                let (front, through) = match reading {
                    "matrix" => ((0..len).map(|j| m[k][j] * v(j)).sum(), column(k, &delta)),
                    "elementwise" => (row_sum(k) * v(k), row_sum(k) * delta[k]),
                    _ => ((0..len).map(|t| row_sum(t) * v(t)).sum(), row_sum(k) * delta.iter().sum::<f64>()),
                };
                delta[k] * front + f64::from(gradient) * slope(k) * through
            }
        };
        let weights: Vec<f64> = (0..len).map(weight).collect();
        let mass = if self.normalise == "mean" { mean(&weights) } else { 1.0 };
        weights.iter().map(|w| w / mass).collect()
    }
}

/// The norm of the policy gradient and of the KL gradient of one response, of GRPO-lambda and of GRPO.
fn policy_and_kl(settings: &str, len: usize) -> anyhow::Result<[f64; 4]> {
    let logps = vec![ragged_logps(len); 2];
    let mut pair = group(&[1.0, 0.0], &logps);
    for response in &mut pair.responses {
        response.ref_logps = Some(response.old_logps.iter().map(|l| l - 0.3).collect());
    }
    let gradient = |name: &str, settings: String| -> anyhow::Result<Vec<f64>> {
        Ok(evaluate(name, &settings, &pair, &logps)?.dlogps.swap_remove(0))
    };
    let mut out = [0.0; 4];
    for (i, (name, settings)) in
        [("grpo_lambda", format!("clamp=none {settings}")), ("grpo", "reduction=token_mean".to_owned())]
            .into_iter()
            .enumerate()
    {
        let policy = gradient(name, settings.clone())?;
        let total = gradient(name, format!("{settings} beta={BETA}"))?;
        let kl: Vec<f64> = total.iter().zip(&policy).map(|(t, p)| t - p).collect();
        out[2 * i] = policy.iter().map(|p| p.abs()).sum::<f64>() / len as f64;
        out[2 * i + 1] = norm(&kl);
    }
    Ok(out)
}

fn indexed(values: &[f64]) -> impl Iterator<Item = (f64, f64)> + '_ {
    values.iter().enumerate().map(|(k, &v)| (k as f64, v))
}

fn run(context: &Context) -> anyhow::Result<Report> {
    let logps = ragged_logps(LEN);
    let mut table = Table::new(&[
        "update",
        "soft_clamp",
        "soft_gradient",
        "style",
        "matrix",
        "normalise",
        "delta",
        "c_0",
        "c_T/4",
        "c_T/2",
        "c_3T/4",
        "c_T-1",
        "mean",
        "relative_error_of_closed_form",
    ]);
    let readings = Reading::every();
    let mut worst = 0.0f64;
    // How far the mean weight is from 1 under normalise=mean.
    let mut unit = 0.0f64;
    for (i, reading) in readings.iter().enumerate() {
        let weights = on_policy_weights(&reading.settings(), &logps)?;
        let predicted = reading.closed_form(&logps);
        let largest = predicted.iter().fold(0.0f64, |m, w| m.max(w.abs()));
        let error = gap(&weights, &predicted) / largest;
        worst = worst.max(error);
        if reading.normalise == "mean" {
            unit = unit.max((mean(&weights) - 1.0).abs());
        }
        let (update, soft, gradient) = match reading.weight {
            None => ("trace", "", ""),
            Some((soft, gradient)) => ("weight", soft, if gradient { "true" } else { "false" }),
        };
        let mut row = vec![
            update.into(),
            soft.into(),
            gradient.into(),
            reading.style().into(),
            reading.matrix.into(),
            reading.normalise.into(),
            reading.delta().into(),
        ];
        row.extend([0, LEN / 4, LEN / 2, 3 * LEN / 4, LEN - 1].map(|k| weights[k].into()));
        row.extend([mean(&weights).into(), error.into()]);
        table.push(row);
        if i % 32 == 0 {
            (context.progress)(0.6 * i as f64 / readings.len() as f64, "readings");
        }
    }

    // Closed forms in geometric sums: methods.md 2.3's table.
    let mut scale =
        Table::new(&["tokens", "lambda", "style", "mean_weight", "effective_beta", "kl_gradient_over_grpo"]);
    let mut geometric = 0.0f64;
    let mut paper_cases = Vec::new();
    let mut scales = Panel::new("Size of the policy gradient")
        .x(Axis::new("tokens T").log())
        .y(Axis::new("mean weight (GRPO = 1)").log());
    let mut betas = Panel::new(format!("What is left of β = {BETA}"))
        .x(Axis::new("tokens T").log())
        .y(Axis::new("effective β = β / mean weight").log());
    for style in ["recent", "both"] {
        for lambda in [0.98f64, 0.99] {
            let mut points = Vec::new();
            for len in [16usize, 32, 64, 128, 256, 512, 768, 1024, 2048] {
                let settings = format!("lambda={lambda} style={style}");
                let weights = on_policy_weights(&settings, &ragged_logps(len))?;
                let sum = |n: usize| (1.0 - lambda.powi(n as i32)) / (1.0 - lambda);
                let formula: Vec<f64> = (0..len)
                    .map(|k| match style {
                        "recent" => sum(len - k),
                        _ => {
                            sum(k.min(len - 1 - k) + 1)
                                + (len - 1).saturating_sub(2 * k) as f64 * lambda.powi(k as i32)
                        }
                    })
                    .collect();
                geometric = geometric.max(gap(&weights, &formula) / formula[0]);
                let [ours, our_kl, grpo, grpo_kl] = policy_and_kl(&settings, len)?;
                let factor = ours / grpo;
                scale.push(vec![
                    len.into(),
                    lambda.into(),
                    style.into(),
                    factor.into(),
                    (BETA / factor).into(),
                    (our_kl / grpo_kl).into(),
                ]);
                points.push((len as f64, factor));
                if lambda == 0.99 && (len == 256 || len == 768) {
                    paper_cases.push((len, style, factor, our_kl / grpo_kl));
                }
            }
            let name = format!("{style}, λ = {lambda}");
            // Recent at 0.99 and both at 0.98 nearly coincide: the dashes let the line below show.
            let stroke = if style == "both" { Style::Dashed } else { Style::Solid };
            betas = betas.styled_line(name.clone(), stroke, points.iter().map(|&(x, y)| (x, BETA / y)));
            scales = scales.styled_line(name, stroke, points);
        }
    }
    (context.progress)(0.8, "profiles");

    let trace = on_policy_weights(&format!("lambda={Q}"), &logps)?;
    let both = on_policy_weights(&format!("lambda={Q} style=both"), &logps)?;
    // The paper's w_t alone, without the soft clamp around it: constant v, no gradient through it.
    let flat = vec![-0.5; LEN];
    let front = on_policy_weights(&format!("lambda={Q} update=weight soft_gradient=false"), &flat)?;
    let v = 1.0 + 1.0 / (1.0 + 1.5f64.exp());
    let reversed: Vec<f64> = trace.iter().rev().map(|c| c * v).collect();
    let reversal = gap(&front, &reversed) / reversed[LEN - 1];
    let terminal = on_policy_weights(&format!("lambda={Q} delta=terminal"), &logps)?;
    let gae: Vec<f64> = (0..LEN).map(|t| Q.powi((LEN - 1 - t) as i32)).collect();
    let factors: Vec<f64> = paper_cases.iter().map(|c| c.2).collect();
    let (low, high) = factors.iter().fold((f64::MAX, 0.0f64), |(l, h), &f| (l.min(f), h.max(f)));
    let falling = trace.windows(2).all(|w| w[0] > w[1]);
    let kl_same = paper_cases.iter().all(|c| (c.3 - 1.0).abs() < 1e-9);

    let findings = vec![
        finding(
            "ϵ-trace and ϵ-weight are the same reweighting of tokens, once implicit and once explicit",
            holds_or(
                gap(&trace, &front.iter().map(|w| w / v).collect::<Vec<_>>()) < EXACT,
                format!(
                    "they are time reversals of each other, w_t = c_(T-1-t) (relative error {}): at T = {LEN}, λ = {Q} ϵ-trace weighs token 0 with {} and the last with {}, ϵ-weight's w with {} and {}",
                    short(reversal),
                    short(trace[0]),
                    short(trace[LEN - 1]),
                    short(front[0] / v),
                    short(front[LEN - 1] / v)
                ),
            ),
            format!(
                "style recent, on-policy, δ_t = A_NAE; ϵ-weight's soft clamp multiplies w by {} at log π = -0.5",
                short(v)
            ),
        ),
        finding(
            "\"The discount induced by λ<1 results in an exponential decay of weighting importance as we go back in time\" (in the update)",
            holds_or(
                !falling,
                format!(
                    "summed over the ratios it enters, a token's weight grows going back in time, c_k = (1 - q^(T-k))/(1 - q): {} at the last token, {} at T/2, {} at token 0",
                    short(trace[LEN - 1]),
                    short(trace[LEN / 2]),
                    short(trace[0])
                ),
            ),
            format!("T = {LEN}, λ = {Q}; the decay holds inside each single ratio only"),
        ),
        finding(
            "\"The accumulated log-probabilities in GRPO-λ's objective function mean their gradients are larger than for GRPO\"",
            holds_or(low > 1.0, format!("smallest factor {}", short(low))),
            format!(
                "{} to {} times GRPO's at the paper's lengths and λ = 0.99: {}",
                short(low),
                short(high),
                paper_cases
                    .iter()
                    .map(|c| format!("T = {} {} {:.1}", c.0, c.1, c.2))
                    .collect::<Vec<_>>()
                    .join(", ")
            ),
        ),
        finding(
            "The KL term grows with the policy term, so that β = 0.04 means the same for GRPO and GRPO-λ",
            holds_or(
                !kl_same || high < 1.0 + EXACT,
                format!(
                    "the KL gradient is GRPO's (ratio {}), so the effective β is {} to {}",
                    short(paper_cases[0].3),
                    short(BETA / high),
                    short(BETA / low)
                ),
            ),
            paper_cases
                .iter()
                .map(|c| format!("T = {} {}: {}", c.0, c.1, short(BETA / c.2)))
                .collect::<Vec<_>>()
                .join(", "),
        ),
        finding(
            "Under the style both, \"early tokens are considered as important as the late ones\" (in the update)",
            holds_or(
                (both[0] - both[LEN - 1]).abs() < EXACT,
                format!("token 0 weighs {}, the last {}", short(both[0]), short(both[LEN - 1])),
            ),
            format!("T = {LEN}, λ = {Q}; c_0 = T for every λ"),
        ),
        finding(
            "With the TD errors of a constant critic (delta=terminal) the weights are GAE's λ^(T-1-t), rising towards the end",
            holds_or(
                gap(&terminal, &gae) < EXACT,
                format!("largest difference {}", short(gap(&terminal, &gae))),
            ),
            format!(
                "token 0: {}, last token: {}; constant δ: {} and {}",
                short(terminal[0]),
                short(terminal[LEN - 1]),
                short(trace[0]),
                short(trace[LEN - 1])
            ),
        ),
        finding(
            "Our setting normalise=mean makes the on-policy weights average 1",
            holds_or(unit < EXACT, format!("off by {}", short(unit))),
            format!("every reading, update=trace and update=weight: 1 to within {}", short(unit)),
        ),
        finding(
            "The on-policy weights of every reading are those of its closed form",
            holds_or(
                worst < 1e-11 && geometric < 1e-11,
                format!("largest relative error {}", short(worst.max(geometric))),
            ),
            format!(
                "{} readings at T = {LEN}, λ = {Q}: largest error relative to the largest weight {}; geometric sums, T up to 2048: {}",
                readings.len(),
                short(worst),
                short(geometric)
            ),
        ),
    ];

    let mut profiles = Figure::new("ϵ-trace pushes the first tokens hardest, ϵ-weight the last: the same weights reversed in time")
        .caption("On-policy gradient over GRPO's, token by token; λ = 0.99, γ = 1, no advantage clamp, log π = -0.5 everywhere. ϵ-weight with its soft clamp (a factor of 1.18) held constant; but for it the reversal is exact for the style recent. Where two lines meet the later name is on top.");
    for len in [256, 768] {
        let flat = vec![-0.5; len];
        let mut panel =
            Panel::new(format!("T = {len}")).x("token k").y(Axis::new("weight of token k (GRPO = 1)").log());
        for (name, settings) in [
            ("ϵ-trace, recent", ""),
            ("ϵ-trace, both", "style=both"),
            ("ϵ-weight, recent", "update=weight soft_gradient=false"),
            ("ϵ-weight, both", "update=weight soft_gradient=false style=both"),
            ("TD errors of a constant critic", "delta=terminal"),
        ] {
            let weights = on_policy_weights(&format!("lambda={Q} {settings}"), &flat)?;
            panel = panel.line(name, indexed(&weights));
        }
        profiles = profiles.panel(panel.hline(1.0, "GRPO"));
    }
    let mut grid = Figure::new("")
        .caption("Exact on-policy weights, T = 256, λ = 0.99, δ_t = A_NAE; log π varies between -0.02 and -2.3, which is the ripple of ϵ-weight. As printed: Eq. 17/18. Normalised (ours): weights of each row, or of the response on average, 1. Vertical axes differ.")
        .panel_size(480, 320);
    let (mut least, mut most) = (f64::INFINITY, 0.0f64);
    for (title, base) in [
        ("ϵ-trace", "update=trace"),
        ("ϵ-weight, w @ v as matrix product", "update=weight"),
        ("ϵ-weight, element by element", "update=weight soft_clamp=elementwise"),
        ("ϵ-weight, inner product", "update=weight soft_clamp=inner"),
    ] {
        let mut panel = Panel::new(title).x("token k").y(Axis::new("weight (GRPO = 1)").log());
        for (name, settings) in [
            ("recent", "style=recent"),
            ("both", "style=both"),
            ("recent, as printed", "style=recent matrix=as_printed"),
            ("both, as printed", "style=both matrix=as_printed"),
            ("recent, rows normalised", "style=recent normalise=rows"),
            ("recent, mean normalised", "style=recent normalise=mean"),
        ] {
            let weights = on_policy_weights(&format!("lambda={Q} {base} {settings}"), &logps)?;
            if !settings.contains("normalise") {
                least = weights.iter().copied().fold(least, f64::min);
                most = weights.iter().copied().fold(most, f64::max);
            }
            panel = panel.line(name, indexed(&weights));
        }
        grid = grid.panel(panel);
    }
    grid.title = format!(
        "Readings of the paper differ: they give a token from {} to {} times GRPO's weight",
        short(least),
        short(most)
    );
    let size = Figure::new(format!(
        "At the paper's lengths GRPO-λ's policy gradient is {low:.0} to {high:.0} times GRPO's; its KL term is not"
    ))
    .caption(format!(
        "Exact, on-policy, δ_t = A_NAE, γ = 1; mean over tokens of |∂ loss / ∂ log π| over GRPO's. Title: λ = 0.99, at T = 256 (the paper's 1.5B, 3B) and 768 (7B), where β = {BETA} acts like {:.1e} to {:.1e}. recent at λ = 0.99 and both at 0.98 all but coincide.",
        BETA / high,
        BETA / low
    ))
    .panel(scales.vline(256.0, "T = 256").vline(768.0, "T = 768"))
    .panel(betas.vline(256.0, "T = 256").vline(768.0, "T = 768").hline(BETA, "GRPO"));
    Ok(Report {
        findings,
        tables: vec![("readings".into(), table), (String::new(), scale)],
        figures: vec![(String::new(), profiles), ("readings".into(), grid), ("scale".into(), size)],
    })
}
