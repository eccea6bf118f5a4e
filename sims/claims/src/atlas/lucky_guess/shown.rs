//! Tables and figures.

use super::findings::blaming;
use super::measure::{
    Effect, GROUP, LENGTHS, LUCK, Numbers, RAGGED_LUCK, SHOWN, SOUND, SOUND_LENGTH, SOUND_VALUE,
};
use crate::atlas::entrants::{BASELINE, ENTRANTS};
use crate::experiments::common::record::{Record, table};
use crate::figure::{Axis, Figure, Panel, Style};
use grpo_lambda_stats::table::Table;

/// Tokens of every response where all have the same length.
const EQUAL_LENGTH: usize = 4;

pub(super) fn tables(n: &Numbers) -> Vec<(String, Table)> {
    let finite = |x: f64| x.is_finite().then_some(x);
    let rows = n.rows.iter().map(|row| {
        let effect = &row.effect;
        Record::default()
            .with("method", row.method)
            .with("luck", row.luck)
            .with("initial_sound", row.sound)
            .with("flawed_length", row.flawed_length.unwrap_or(EQUAL_LENGTH))
            .with("sound_length", row.flawed_length.map_or(EQUAL_LENGTH, |_| SOUND_LENGTH))
            .with("advantage_flawed", finite(effect.advantage))
            .with("step_over_gradient", finite(effect.step))
            .with("step_relative", finite(effect.relative))
            .with("credit_flawed", finite(effect.credit_flawed))
            .with("credit_sound", finite(effect.credit_sound))
            .with("lucky_over_right", finite(effect.lucky))
            .with("raises", finite(effect.raises))
            .with("raises_when_lucky", finite(effect.raises_when_lucky))
            .with("raises_when_unlucky", finite(effect.raises_when_unlucky))
    });
    vec![(String::new(), table(rows))]
}

pub(super) fn figures(n: &Numbers) -> Vec<(String, Figure)> {
    vec![(String::new(), overview(n)), ("sweep".into(), sweep(n)), ("length".into(), length(n))]
}

/// Every method at the case that is shown.
fn overview(n: &Numbers) -> Figure {
    let present: Vec<&str> = ENTRANTS.iter().map(|e| e.name).filter(|name| n.shown(name).is_some()).collect();
    let at = |of: &dyn Fn(&Effect) -> f64| -> Vec<(f64, f64)> {
        let one = |(y, name): (usize, &&str)| Some((of(n.shown(name)?), y as f64));
        present.iter().enumerate().filter_map(one).collect()
    };
    let names = || Axis::new("").categories(present.clone());
    let grpo = n.shown(BASELINE).map_or(f64::NAN, |e| 100.0 * e.raises_when_lucky);
    let lambda = n.shown("GRPO-λ recent").map_or(f64::NAN, |e| 100.0 * e.raises_when_lucky);
    let most = n.equal().filter(|r| (r.luck, r.sound) == SHOWN);
    let most = most.map(|r| r.effect.raises_when_lucky).fold(0.1, f64::max);
    let [always, _] = blaming(n);
    let blame =
        if always.is_empty() { String::new() } else { format!("; blamed by {}", always.join(" and by ")) };
    Figure::new(format!(
        "A lucky guess: GRPO and GRPO-λ praise the flawed step alike ({grpo:.0} % and, by its clamp, {lambda:.0} % of groups with one raise it){blame}"
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
            .points("weight in rewarded responses", at(&|e| e.lucky))
            .vline(0.0, "")
            .vline(1.0, "as if sound"),
    )
    .panel(
        Panel::new("Probability that one group raises the flawed token")
            .x(Axis::new("probability").range(-0.005, 1.1 * most))
            .y(names())
            .points("all groups", at(&|e| e.raises))
            .points("groups with a lucky guess", at(&|e| e.raises_when_lucky)),
    )
}

/// Over luck, one panel per initial policy.
fn sweep(n: &Numbers) -> Figure {
    let mut figure = Figure::new("The luckier the guess the more groups raise the flaw: GRPO-λ's clamp changes how many, its trace does not")
        .caption(format!(
            "Exact probability that the update of one group of {GROUP} raises the flawed token, responses of equal length; the flaw is worth less than a sound step ({SOUND_VALUE}) everywhere. Methods on each other: equal."
        ))
        .columns(3)
        .panel_size(400, 320);
    for sound in SOUND {
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
                let row = n.equal().find(|r| r.method == name && r.luck == luck && r.sound == sound)?;
                Some((luck, row.effect.raises))
            });
            let style = if name.ends_with("no clamp") { Style::Dashed } else { Style::Solid };
            panel = panel.styled_line(name, style, points.collect::<Vec<_>>());
        }
        figure = figure.panel(panel);
    }
    figure
}

/// Over the length of flawed responses.
fn length(n: &Numbers) -> Figure {
    let mut figure = Figure::new("Where flawed responses are longer, the trace together with the clamp raises the flaw in expectation")
        .caption(format!(
            "Exact expected step of the flawed logit over the method's own at equal lengths (6 tokens): 1 for the gradient of J at every length, below 0 the flaw is raised. Groups of {GROUP}; sound responses have {SOUND_LENGTH} tokens and are worth {SOUND_VALUE}; both half of the time."
        ));
    for luck in RAGGED_LUCK {
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
                n.ragged().find(|r| r.flawed_length == Some(length) && r.method == name && r.luck == luck)
            };
            let Some(equal) = find(SOUND_LENGTH).map(|r| r.effect.step) else { continue };
            let points =
                LENGTHS.iter().filter_map(|&length| Some((length as f64, find(length)?.effect.step / equal)));
            panel = panel.line(name, points.collect::<Vec<_>>());
        }
        figure = figure.panel(panel.hline(0.0, ""));
    }
    figure
}
