//! Figures of the lucky guess.

use super::measure::{GROUP, SOUND_LENGTH, SOUND_VALUE};
use super::{LENGTHS, LUCK, Row, SHOWN, shown};
use crate::atlas::entrants::{BASELINE, ENTRANTS};
use crate::figure::{Axis, Figure, Panel, Style};

/// Every method at the case that is shown.
pub(super) fn overview(rows: &[Row]) -> Figure {
    let present: Vec<&str> = ENTRANTS.iter().map(|e| e.name).filter(|n| shown(rows, n).is_some()).collect();
    let at = |of: &dyn Fn(&super::Measure) -> f64| -> Vec<(f64, f64)> {
        let one = |(y, name): (usize, &&str)| Some((of(shown(rows, name)?), y as f64));
        present.iter().enumerate().filter_map(one).collect()
    };
    let names = || Axis::new("").categories(present.clone());
    let grpo = shown(rows, BASELINE).map_or(f64::NAN, |m| 100.0 * m.raises_when_lucky);
    let lambda = shown(rows, "GRPO-λ recent").map_or(f64::NAN, |m| 100.0 * m.raises_when_lucky);
    let most = rows.iter().filter(|r| r.flawed_length.is_none() && (r.luck, r.sound) == SHOWN);
    let most = most.map(|r| r.measure.raises_when_lucky).fold(0.1, f64::max);
    Figure::new(format!(
        "A lucky guess: GRPO and GRPO-λ praise the flawed step alike ({grpo:.0} % and, by its clamp, {lambda:.0} % of groups with one raise it); values blame it"
    ))
    .caption(format!(
        "Exact over all groups of {GROUP}. A flawed step is rewarded with probability {}, a sound one with {SOUND_VALUE}; both are taken half of the time; responses of equal length. recon.: formulas are ours.",
        SHOWN.0
    ))
    .panel_size(560, 760)
    .panel(
        Panel::new("Weight of the flawed token when rewarded")
            .x("relative to a sound token when rewarded (below 0: blamed)")
            .y(names())
            .points("weight in rewarded responses", at(&|m| m.lucky))
            .vline(0.0, "")
            .vline(1.0, "as if sound"),
    )
    .panel(
        Panel::new("Probability that one group raises the flawed token")
            .x(Axis::new("probability").range(-0.005, 1.1 * most))
            .y(names())
            .points("all groups", at(&|m| m.raises))
            .points("groups with a lucky guess", at(&|m| m.raises_when_lucky)),
    )
}

/// Over luck, one panel per initial policy.
pub(super) fn sweep(rows: &[Row]) -> Figure {
    let mut figure = Figure::new("The luckier the guess the more groups raise the flaw: GRPO-λ's clamp changes how many, its trace does not")
        .caption(format!(
            "Exact probability that the update of one group of {GROUP} raises the flawed token, responses of equal length; the flaw is worth less than a sound step ({SOUND_VALUE}) everywhere. Methods on each other: equal."
        ))
        .columns(3)
        .panel_size(400, 320);
    for sound in super::SOUND {
        let mut panel = Panel::new(format!("sound step {sound} likely"))
            .x("chance that the guess is lucky")
            .y(Axis::new("P(one group raises the flaw)").range(-0.02, 0.7));
        for name in [
            BASELINE,
            "GRPO-λ recent",
            "GRPO-λ recent, no clamp",
            "RLSD (recon.)",
            "PPO, exact critic",
            "VinePPO, exact values",
        ] {
            let points = LUCK.iter().filter_map(|&luck| {
                let row = rows.iter().find(|r| {
                    r.flawed_length.is_none() && r.method == name && r.luck == luck && r.sound == sound
                })?;
                Some((luck, row.measure.raises))
            });
            let style = if name.ends_with("no clamp") { Style::Dashed } else { Style::Solid };
            panel = panel.styled_line(name, style, points.collect::<Vec<_>>());
        }
        figure = figure.panel(panel);
    }
    figure
}

/// Over the length of flawed responses.
pub(super) fn length(rows: &[Row]) -> Figure {
    let mut figure = Figure::new("Where flawed responses are longer, the trace together with the clamp raises the flaw in expectation")
        .caption(format!(
            "Exact expected step of the flawed logit over the method's own at equal lengths (6 tokens): 1 for the gradient of J at every length, below 0 the flaw is raised. Groups of {GROUP}; sound responses have {SOUND_LENGTH} tokens and are worth {SOUND_VALUE}; both half of the time."
        ));
    for luck in [0.25, 0.6] {
        let mut panel = Panel::new(format!("luck {luck}"))
            .x(Axis::new("tokens of a flawed response").log())
            .y("step of the flawed logit, relative");
        for name in [
            BASELINE,
            "GRPO, 1/T",
            "RLOO",
            "GRPO-λ recent",
            "GRPO-λ recent, no clamp",
            "GRPO, clamp -0.1",
            "P-trace (recon.)",
        ] {
            let find = |length: usize| {
                rows.iter().find(|r| r.flawed_length == Some(length) && r.method == name && r.luck == luck)
            };
            let Some(equal) = find(SOUND_LENGTH).map(|r| r.measure.step) else { continue };
            let points = LENGTHS.iter().filter_map(|&n| Some((n as f64, find(n)?.measure.step / equal)));
            panel = panel.line(name, points.collect::<Vec<_>>());
        }
        figure = figure.panel(panel.hline(0.0, ""));
    }
    figure
}
