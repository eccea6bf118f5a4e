//! The figures.

use super::measure::Atlas;
use super::overall::{Overall, overall};
use super::row::{GROUP, Row};
use crate::atlas::entrants::{ENTRANTS, Family};
use crate::figure::{Axis, Figure, Mark, Panel};

pub(super) fn figures(atlas: &Atlas) -> Vec<(String, Figure)> {
    vec![(String::new(), map(atlas)), ("error".into(), error(atlas))]
}

const FAMILIES: [(Family, &str); 4] = [
    (Family::Group, "one number per response"),
    (Family::Trace, "trace"),
    (Family::Score, "score"),
    (Family::Value, "values"),
];

/// Degrees by which two standard errors may turn an angle that is shown.
const BLURRED: f64 = 10.0;

/// The angle between expected update and gradient, entrants by tasks.
fn map(atlas: &Atlas) -> Figure {
    let all = overall(atlas);
    let best = all.iter().filter(|o| o.unbiased == o.tasks).count();
    let degrees = |cosine: f64| cosine.clamp(-1.0, 1.0).acos().to_degrees();
    let angle = |row: &Row| {
        let (Some(cosine), Some(error)) = (row.get("cosine"), row.get("cosine_se")) else { return f64::NAN };
        // What two standard errors more would turn it by.
        if degrees(cosine - 2.0 * error) - degrees(cosine) > BLURRED {
            f64::NAN
        } else {
            degrees(cosine).round()
        }
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
         no longer climbs. {} of {rows} cells are exact, {sampled} simulated (see the table); grey: impossible, for a reason in the table, or simulated and not known to {BLURRED}° (two standard errors). In the {equal} tasks at the left all responses are equally long.",
        rows - sampled,
        equal = atlas.tasks.iter().take_while(|t| t.equal_lengths()).count()
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
const NAMED: [&str; 13] = [
    "GRPO",
    "GRPO, 1/T",
    "RLOO",
    "GRPO-λ recent",
    "GRPO-λ both, ε-weight",
    "P-trace (recon.)",
    "TEMPO",
    "TreeRPO (recon.)",
    "GAE, exact critic",
    "VinePPO, exact values",
    "VinePPO, K = 8",
    "high entropy 80/20",
    "OAR-P",
];

/// Direction lost against the error of one update, means over tasks.
fn error(atlas: &Atlas) -> Figure {
    let all = overall(atlas);
    let free: Vec<&Overall> = all.iter().filter(|o| o.passes <= 1.0 + 1e-12).collect();
    let least =
        |all: &[&Overall]| all.iter().min_by(|a, b| a.mse.total_cmp(&b.mse)).map(|o| (o.entrant.name, o.mse));
    let (best, error) = least(&free).unwrap_or(("none", f64::NAN));
    let rloo = all.iter().find(|o| o.entrant.name == "RLOO").map_or(f64::NAN, |o| o.mse);
    let title = format!(
        "No bias is not the least error: at no extra cost {best} errs least in one update ({error:.2}), unbiased RLOO by {rloo:.2}"
    );
    let caption = format!(
        "Across: share of the expected step that is not along the policy gradient. Up: E|c g - ∇J|² / |∇J|² of one update from {GROUP} responses at the best step size c; 1 is no step at all. \
         Means over {} tasks, each method with groups of {GROUP} whatever it costs: values of a critic or of completions are not free.",
        atlas.tasks.len()
    );
    let mut panel = Panel::new("")
        .x(Axis::new("direction lost, 1 - cos²")
            .range(-0.005, 0.05 + all.iter().map(|o| o.lost).fold(0.0, f64::max)))
        .y("error of one update");
    for (family, name) in FAMILIES {
        let points = all.iter().filter(|o| o.entrant.family == family).map(|o| (o.lost, o.mse));
        panel = panel.points(name, points);
    }
    for (x, y, name) in labels(&all) {
        panel = panel.text(x, y, name);
    }
    Figure::new(title)
        .caption(caption)
        .columns(1)
        .panel_size(1060, 660)
        .names(FAMILIES.map(|f| f.1))
        .panel(panel)
}

/// Where the names go: above their point, or as near to that as leaves points and other names uncovered.
fn labels(all: &[Overall]) -> Vec<(f64, f64, &'static str)> {
    let range = |f: &dyn Fn(&Overall) -> f64| {
        let ends = all.iter().map(f).fold((f64::MAX, f64::MIN), |(l, h), v| (l.min(v), h.max(v)));
        ends.1 - ends.0
    };
    let (wide, high) = (range(&|o| o.lost), range(&|o| o.mse));
    // Half a name's width and a line, as shares of the panel.
    let half = |name: &str| 0.0046 * wide * name.chars().count() as f64;
    let line = 0.027 * high;
    let mut placed: Vec<(f64, f64, &'static str)> = Vec::new();
    for o in all.iter().filter(|o| NAMED.contains(&o.entrant.name)) {
        let name = o.entrant.name;
        let free = |&(x, y): &(f64, f64)| {
            let apart = |other: &(f64, f64, &str)| {
                (other.0 - x).abs() > half(name) + half(other.2) || (other.1 - y).abs() > line
            };
            let clear = |p: &Overall| (p.lost - x).abs() > half(name) || (p.mse - y).abs() > 0.7 * line;
            placed.iter().all(apart) && all.iter().all(clear)
        };
        let steps = [1.0, -1.0, 1.6, -1.6, 2.4, -2.4, 3.2, -3.2];
        let sides = [0.0, 1.0, -1.0];
        let places =
            steps.iter().flat_map(|dy| sides.map(|dx| (o.lost + dx * half(name), o.mse + dy * line)));
        let level = [(o.lost + half(name) + 0.012 * wide, o.mse)];
        let inside = |p: &(f64, f64)| p.0 > half(name);
        // A name that finds no room is left out: it would cover others.
        if let Some(at) = level.into_iter().chain(places).filter(inside).find(free) {
            placed.push((at.0, at.1, name));
        }
    }
    placed
}
