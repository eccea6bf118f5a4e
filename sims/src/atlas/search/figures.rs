//! The figure of the search.

use grpo_lambda::stats::Interval;

use super::spans::UNIFORM;
use super::{Overall, Score};
use crate::figure::{Axis, Figure, Panel};

/// Efficiency on held-out families, and learning.
pub(super) fn overview(scores: &[Score], ceiling: Interval, learned: &[Overall]) -> Figure {
    let best = scores.iter().max_by(|a, b| a.held_out.mid.total_cmp(&b.held_out.mid));
    let best = best.map_or(String::new(), |s| {
        format!("{:.0} % ({})", 100.0 * (s.held_out.mid.exp() - 1.0), s.span.name)
    });
    let faster = learned.iter().filter(|o| o.gains.iter().all(|g| g.low > 0.0));
    let faster: Vec<&str> = faster.map(|o| o.name.as_str()).collect();
    let learns = if faster.is_empty() {
        "none learns faster than GRPO and RLOO".to_owned()
    } else {
        format!("faster than GRPO and RLOO learns {}", faster.join(", "))
    };
    let shown: Vec<&Score> = scores.iter().filter(|s| s.span.name != UNIFORM).collect();
    let names = shown.iter().map(|s| s.span.name).chain(["ceiling: any weight per prefix (oracle)"]);
    let span = |y: usize, i: &Interval| (y as f64, i.low.exp(), i.mid.exp(), i.high.exp());
    let part = |fitted: bool| {
        let of = |(y, s): (usize, &&Score)| (s.span.fitted == fitted).then(|| span(y, &s.held_out));
        shown.iter().enumerate().filter_map(of).collect::<Vec<_>>()
    };
    let efficiency = Panel::new("Efficiency of one group, families held out")
        .x(Axis::new("η / η(RLOO), more is better").log())
        .y(Axis::new("").categories(names))
        .spans("nothing chosen", part(false))
        .spans("chosen on the other families", part(true))
        .spans("oracle", [span(shown.len(), &ceiling)])
        .vline(1.0, "RLOO");
    let mut learning = Panel::new("Learning at tuned rates, families held out")
        .x("area under J/J*, difference to GRPO")
        .y(Axis::new("").categories(learned.iter().map(|o| o.name.clone())))
        .vline(0.0, "GRPO");
    let points = learned.iter().enumerate().map(|(y, o)| {
        let g = &o.gains[1];
        (y as f64, g.low, g.mid, g.high)
    });
    learning = learning.spans("difference to GRPO", points);
    Figure::new(format!(
        "One step can be better, {best} more efficient on held-out families; {learns}"
    ))
    .caption("η: share of |∇J|² that one group of 8 yields at the best step size, exact; geometric mean over families of MDPs with 95 % bootstrap intervals over families. Learning: mean over eight tasks of the interquartile mean, runs paired, 95 % stratified bootstrap.")
    .panel_size(620, 460)
    .panel(efficiency)
    .panel(learning)
}
