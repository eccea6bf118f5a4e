//! The figures.

use super::tables::overall;
use super::{Atlas, GROUP};
use crate::atlas::entrants::{ENTRANTS, Family};
use crate::figure::{Axis, Figure, Mark, Panel};

const FAMILIES: [(Family, &str); 4] = [
    (Family::Group, "one number per response"),
    (Family::Trace, "trace"),
    (Family::Score, "score"),
    (Family::Value, "values"),
];

/// The angle between expected update and gradient, entrants by tasks.
pub(super) fn map(atlas: &Atlas) -> Figure {
    let all = overall(atlas);
    let best = all.iter().filter(|o| o.unbiased == o.tasks).count();
    let angle = |row: &super::Row| {
        row.get("cosine").map_or(f64::NAN, |c| c.clamp(-1.0, 1.0).acos().to_degrees().round())
    };
    let values = (0..ENTRANTS.len()).map(|e| atlas.of(e, GROUP).map(angle).collect()).collect();
    let sampled: usize = all.iter().map(|o| o.sampled).sum();
    let rows: usize = all.iter().map(|o| o.tasks).sum();
    let worst = all.iter().min_by(|a, b| a.worst.0.total_cmp(&b.worst.0));
    let worst = worst.map_or(String::new(), |o| {
        format!("; {} on {} by {:.0}°", o.entrant.name, o.worst.1, o.worst.0.acos().to_degrees())
    });
    let title = format!(
        "{best} of {} methods point along the policy gradient on every task; the others turn away from it{worst}",
        ENTRANTS.len()
    );
    let caption = format!(
        "Angle in degrees between the expected update of one group of {GROUP} responses and ∇J, at the start policy: rounded; 0 (white) is unbiased up to scale, 90 and more (darkest) \
         no longer climbs. {} of {rows} cells are exact, {sampled} simulated (see the table); grey: impossible, for a reason in the table, or no update at all. Left seven tasks: all responses equally long.",
        rows - sampled
    );
    let groups =
        FAMILIES.map(|(family, name)| (name, ENTRANTS.iter().filter(|e| e.family == family).count()));
    let panel = Panel::new("")
        .x(Axis::new("task").categories(atlas.tasks.iter().map(|t| t.name)))
        .y(Axis::new("").categories(ENTRANTS.iter().map(|e| e.name)).groups(groups))
        .mark(Mark::HeatMap {
            values,
            annotate: true,
            range: Some((0.0, 90.0)),
            diverging: true,
            label: "angle to the policy gradient (degrees)".into(),
        });
    Figure::new(title).caption(caption).columns(1).panel_size(1060, 1010).panel(panel)
}

/// Who is named beside the point.
const NAMED: [&str; 11] = [
    "GRPO",
    "RLOO",
    "GRPO-λ recent",
    "GRPO-λ both",
    "GRPO-λ both, ε-weight",
    "TEMPO",
    "SPO-tree",
    "GAE, exact critic",
    "VinePPO, K = 8",
    "high entropy 80/20",
    "TreeRL",
];

/// Bias part against variance part of the error of one update, means over tasks.
pub(super) fn error(atlas: &Atlas) -> Figure {
    let all = overall(atlas);
    let free =
        all.iter().filter(|o| o.entrant.cost.needs != "a critic" && o.passes.is_finite() && o.passes < 2.0);
    let best = free.min_by(|a, b| a.mse.total_cmp(&b.mse)).map_or("", |o| o.entrant.name);
    let title = format!(
        "The error of one update is noise first, bias second; without a critic and at no extra cost {best} has the least"
    );
    let caption = format!(
        "E|c g - ∇J|² / |∇J|² at the best step size c, split into bias |c E g - ∇J|² and variance c² tr Cov g, relative to |∇J|²; one update from {GROUP} responses, mean over \
         {} tasks. On a dashed line the error is the same. A small best step leaves |c E g - ∇J|² large: the bias part holds the step not taken as well as the wrong direction.",
        atlas.tasks.len()
    );
    let mut panel = Panel::new("").x("bias part").y("variance part");
    for (family, name) in FAMILIES {
        let points = all.iter().filter(|o| o.entrant.family == family).map(|o| (o.mse_bias, o.mse_variance));
        panel = panel.points(name, points);
    }
    for o in all.iter().filter(|o| NAMED.contains(&o.entrant.name)) {
        panel = panel.text(o.mse_bias, o.mse_variance + 0.004, o.entrant.name);
    }
    Figure::new(title)
        .caption(caption)
        .columns(1)
        .panel_size(820, 520)
        .names(FAMILIES.map(|f| f.1))
        .panel(panel)
}
