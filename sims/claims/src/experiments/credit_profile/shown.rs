//! The tables and the figures.

use super::findings::paper_factors;
use super::{BETA, LEN, Numbers, Weighed};
use crate::experiments::common::record::{Record, table};
use crate::experiments::common::{extremes, indexed, mean, short};
use crate::figure::{Axis, Figure, Panel, Style};
use grpo_lambda_stats::table::Table;

pub(super) fn tables(n: &Numbers) -> Vec<(String, Table)> {
    vec![
        ("readings".into(), table(n.readings.iter().map(reading_row))),
        (String::new(), Table::from_rows(&n.sizes)),
    ]
}

fn reading_row(Weighed { reading, weights, error }: &Weighed) -> Record {
    let gradient = reading.weight.map_or("", |(_, gradient)| if gradient { "true" } else { "false" });
    Record::default()
        .with("update", if reading.weight.is_some() { "weight" } else { "trace" })
        .with("soft_clamp", reading.weight.map_or("", |(soft, _)| soft))
        .with("soft_gradient", gradient)
        .with("style", reading.style())
        .with("matrix", reading.matrix)
        .with("normalise", reading.normalise)
        .with("delta", reading.delta())
        .with("c_0", weights[0])
        .with("c_T/4", weights[LEN / 4])
        .with("c_T/2", weights[LEN / 2])
        .with("c_3T/4", weights[3 * LEN / 4])
        .with("c_T-1", weights[LEN - 1])
        .with("mean", mean(weights))
        .with("relative_error_of_closed_form", *error)
}

pub(super) fn figures(n: &Numbers) -> Vec<(String, Figure)> {
    vec![(String::new(), profiles(n)), ("readings".into(), readings(n)), ("scale".into(), scale(n))]
}

fn profiles(n: &Numbers) -> Figure {
    let mut figure = Figure::new("ϵ-trace pushes the first tokens hardest, ϵ-weight the last: the same weights reversed in time")
        .caption("On-policy gradient over GRPO's, token by token; λ = 0.99, γ = 1, no advantage clamp, log π = -0.5 everywhere. ϵ-weight with its soft clamp (a factor of 1.18) held constant; but for it the reversal is exact for the style recent.");
    for profiles in n.by_length.chunk_by(|a, b| a.panel == b.panel) {
        let mut panel = Panel::new(format!("T = {}", profiles[0].panel))
            .x("token k")
            .y(Axis::new("weight of token k (GRPO = 1)").log());
        for p in profiles {
            // Both styles of an update meet over half of a response: the dashes let the line below show.
            let stroke = if p.name.ends_with("both") { Style::Dashed } else { Style::Solid };
            panel = panel.styled_line(p.name, stroke, indexed(&p.weights));
        }
        figure = figure.panel(panel.hline(1.0, "GRPO"));
    }
    figure
}

fn readings(n: &Numbers) -> Figure {
    // The readings of Eq. 1 and 2, which an implementation would take.
    let paper = n.by_update.iter().filter(|p| !p.name.contains("normalised") && !p.name.contains("printed"));
    let (least, most) = extremes(paper.flat_map(|p| p.weights.iter().copied()));
    let title = format!(
        "Readings of Eq. 1 and 2 differ: they give a token from {} to {} times GRPO's weight",
        short(least),
        short(most)
    );
    let mut figure = Figure::new(title)
        .caption("Exact on-policy weights, T = 256, λ = 0.99, δ_t = A_NAE; log π varies between -0.02 and -2.3, which is the ripple of ϵ-weight. As printed: Eq. 17/18. Normalised (ours): weights of each row, or of the response on average, 1. Vertical axes differ.")
        .panel_size(480, 320);
    for profiles in n.by_update.chunk_by(|a, b| a.panel == b.panel) {
        let mut panel = Panel::new(profiles[0].panel).x("token k").y(Axis::new("weight (GRPO = 1)").log());
        for p in profiles {
            panel = panel.line(p.name, indexed(&p.weights));
        }
        figure = figure.panel(panel);
    }
    figure
}

fn scale(n: &Numbers) -> Figure {
    let mut factors = Panel::new("Size of the policy gradient")
        .x(Axis::new("tokens T").log())
        .y(Axis::new("mean weight (GRPO = 1)").log());
    let mut betas = Panel::new(format!("What is left of β = {BETA}"))
        .x(Axis::new("tokens T").log())
        .y(Axis::new("effective β = β / mean weight").log());
    for sizes in n.sizes.chunk_by(|a, b| (a.style, a.lambda) == (b.style, b.lambda)) {
        let name = format!("{}, λ = {}", sizes[0].style, sizes[0].lambda);
        // Recent at 0.99 and both at 0.98 nearly coincide: the dashes let the line below show.
        let stroke = if sizes[0].style == "both" { Style::Dashed } else { Style::Solid };
        betas = betas.styled_line(
            name.clone(),
            stroke,
            sizes.iter().map(|s| (s.tokens as f64, s.effective_beta)),
        );
        factors = factors.styled_line(name, stroke, sizes.iter().map(|s| (s.tokens as f64, s.factor)));
    }
    let (low, high) = paper_factors(n);
    Figure::new(format!(
        "At the paper's lengths GRPO-λ's policy gradient is {low:.0} to {high:.0} times GRPO's; its KL term is not"
    ))
    .caption(format!(
        "Exact, on-policy, δ_t = A_NAE, γ = 1; mean over tokens of |∂ loss / ∂ log π| over GRPO's. Title: λ = 0.99, at T = 256 (the paper's 1.5B, 3B) and 768 (7B), where β = {BETA} acts like {:.1e} to {:.1e}. recent at λ = 0.99 and both at 0.98 all but coincide.",
        BETA / high,
        BETA / low
    ))
    .panel(factors.vline(256.0, "T = 256").vline(768.0, "T = 768"))
    .panel(betas.vline(256.0, "T = 256").vline(768.0, "T = 768").hline(BETA, "GRPO"))
}
