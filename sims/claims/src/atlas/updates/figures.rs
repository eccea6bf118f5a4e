use grpo_lambda_stats::OverTasks;

use super::measure::Atlas;
use super::overall::{Overall, overall};
use super::row::{Column, GROUP, Row};
use crate::atlas::entrants::{BASELINE, ENTRANTS, Family};
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
        let (Some(cosine), Some(error)) = (row.get(Column::Cosine), row.get(Column::CosineSe)) else {
            return f64::NAN;
        };
        // What two standard errors more would turn it by.
        if degrees(cosine - 2.0 * error) - degrees(cosine) > BLURRED {
            f64::NAN
        } else {
            degrees(cosine).round()
        }
    };
    let values = (0..ENTRANTS.len()).map(|e| atlas.rows_of(e, GROUP).map(angle).collect()).collect();
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
        .x(Axis::new("task").categories(atlas.tasks.iter().map(|t| t.name.as_str())))
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

/// Differences of the error of one update from the baseline's, by entrant.
fn error(atlas: &Atlas) -> Figure {
    let all = overall(atlas);
    let mut order: Vec<&Overall> = all.iter().filter(|o| o.beyond_baseline.is_some()).collect();
    order.sort_by(|a, b| middle(a).total_cmp(&middle(b)));
    let lower = |o: &&&Overall| o.beyond_baseline.as_ref().is_some_and(OverTasks::negative);
    let free: Vec<&str> =
        order.iter().filter(lower).filter(|o| o.passes <= 1.0 + 1e-12).map(|o| o.entrant.name).collect();
    let traces = order.iter().filter(|o| o.entrant.family == Family::Trace);
    let (better, of) = (traces.clone().filter(lower).count(), traces.count());
    let of_traces = match better {
        0 => "no trace does".to_owned(),
        n => format!("of the {of} traces {n} do"),
    };
    let title = match free.as_slice() {
        [] => format!("At no extra cost no method errs less in one update than {BASELINE}, over tasks"),
        [one] => format!(
            "At no extra cost only {one} errs less in one update than {BASELINE}, over tasks; {of_traces}"
        ),
        [first @ .., last] => format!(
            "At no extra cost {} and {last} err less in one update than {BASELINE}, over tasks; {of_traces}",
            first.join(", ")
        ),
    };
    let caption = format!(
        "Error of one update: E|c g - ∇J|² / |∇J|² from {GROUP} responses at the best step size c of each method; 1 is no step at all. Dots: mean over {} tasks (fewer where a task is \
         impossible) of the difference to {BASELINE} on the same task; bars: Student's t over tasks, 95 %, not corrected for the number of methods. In brackets the share of the expected step that is not along the policy \
         gradient, 1 - cos². Every method has groups of {GROUP} whatever it costs: values of a critic or of completions are not free.",
        atlas.tasks.len()
    );
    let label = |o: &&Overall| format!("{}  [{:.3}]", o.entrant.name, o.lost);
    let mut panel = Panel::new("")
        .x(format!("error of one update minus that of {BASELINE}"))
        .y(Axis::new("").categories(order.iter().map(label)))
        .vline(0.0, BASELINE);
    for (family, name) in FAMILIES {
        let span = |(i, o): (usize, &&Overall)| {
            let over = o.beyond_baseline.as_ref().filter(|_| o.entrant.family == family)?;
            Some((i as f64, over.interval.low, over.interval.mid, over.interval.high))
        };
        panel = panel.spans(name, order.iter().enumerate().filter_map(span));
    }
    Figure::new(title)
        .caption(caption)
        .columns(1)
        .panel_size(620, 720)
        .names(FAMILIES.map(|f| f.1))
        .panel(panel)
}

/// The mean difference to the baseline.
fn middle(o: &Overall) -> f64 {
    o.beyond_baseline.as_ref().map_or(f64::NAN, |over| over.interval.mid)
}
