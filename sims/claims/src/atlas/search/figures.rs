use grpo_lambda_stats::Interval;

use super::efficiency::Efficiency;
use super::measure::Numbers;
use super::spans::UNIFORM;
use crate::figure::{Axis, Figure, Panel};

pub(super) fn figures(n: &Numbers) -> Vec<(String, Figure)> {
    let best =
        n.efficiencies.iter().max_by(|a, b| a.held_out.interval.mid.total_cmp(&b.held_out.interval.mid));
    let best = best.map_or(String::new(), |e| {
        format!("{:.0} % ({})", 100.0 * (e.held_out.interval.mid.exp() - 1.0), e.span.name)
    });
    let faster: Vec<&str> = n.overall.iter().filter(|o| o.faster()).map(|o| o.name).collect();
    let learns = if faster.is_empty() {
        "none learns faster than GRPO and RLOO".to_owned()
    } else {
        format!("faster than GRPO and RLOO learns {}", faster.join(", "))
    };
    let figure = Figure::new(format!(
        "One step can be better, {best} more efficient on held-out families; {learns}"
    ))
    .caption("η: share of |∇J|² that one group of 8 yields at the best step size, exact; geometric mean over families of MDPs with Student's t over families at 95 %. Learning: mean over eight tasks, Student's t over tasks at 95 %.")
    .panel_size(620, 460)
    .panel(efficiency(n))
    .panel(learning(n));
    vec![(String::new(), figure)]
}

/// Efficiency on held-out families.
fn efficiency(n: &Numbers) -> Panel {
    let shown: Vec<&Efficiency> = n.efficiencies.iter().filter(|e| e.span.name != UNIFORM).collect();
    let names = shown.iter().map(|e| e.span.name).chain(["ceiling: any weight per prefix (oracle)"]);
    let span = |y: usize, i: &Interval| (y as f64, i.low.exp(), i.mid.exp(), i.high.exp());
    let part = |fitted: bool| {
        let row =
            |(y, e): (usize, &&Efficiency)| (e.span.fitted == fitted).then(|| span(y, &e.held_out.interval));
        shown.iter().enumerate().filter_map(row).collect::<Vec<_>>()
    };
    Panel::new("Efficiency of one group, families held out")
        .x(Axis::new("η / η(RLOO), more is better").log())
        .y(Axis::new("").categories(names))
        .spans("nothing chosen", part(false))
        .spans("chosen on the other families", part(true))
        .spans("oracle", [span(shown.len(), &n.ceiling)])
        .vline(1.0, "RLOO")
}

fn learning(n: &Numbers) -> Panel {
    let points = n.overall.iter().enumerate().map(|(y, o)| {
        let gain = o.over_grpo.over_tasks.interval;
        (y as f64, gain.low, gain.mid, gain.high)
    });
    Panel::new("Learning at tuned rates, families held out")
        .x("area under J/J*, difference to GRPO")
        .y(Axis::new("").categories(n.overall.iter().map(|o| o.name)))
        .vline(0.0, "GRPO")
        .spans("difference to GRPO", points)
}
