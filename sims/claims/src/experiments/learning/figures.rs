//! The figures.

use super::findings::of_paper;
use super::measure::Comparison;
use super::scores::Regime;
use super::variant::{BASELINE, PAPER};
use crate::experiments::common::heat;
use crate::figure::{Axis, Figure, Panel};
use crate::training::GROUP;
use grpo_lambda_stats::OverTasks;

pub(super) fn figures(c: &Comparison) -> Vec<(String, Figure)> {
    vec![
        ("curves".into(), curves(c, Regime::OwnBest, "each method at its tuned rate")),
        ("small_rate".into(), curves(c, Regime::Cautious, "all at a sixteenth of GRPO's best rate")),
        ("forest".into(), forest(c)),
        ("map".into(), map(c)),
    ]
}

/// The methods whose curves are drawn, in the order of their colours: the style both learns like recent.
const DRAWN: [&str; 4] = [BASELINE, PAPER[0], "GRPO clamped", "RLOO"];

/// A method's long name.
fn shown(name: &str) -> &str {
    match name {
        "recent trace .99" => "GRPO-λ (recent trace, λ = 0.99)",
        "GRPO clamped" => "GRPO, advantages clamped as in GRPO-λ",
        _ => name,
    }
}

/// The methods of the forest plot, top to bottom.
const FOREST: [&str; 13] = [
    "RLOO",
    "Dr. GRPO",
    "GRPO 1/T",
    "GRPO clamped",
    PAPER[0],
    PAPER[1],
    "recent trace .9",
    "recent weight .99",
    "both weight .99",
    "recent trace .99 unclamped",
    "both trace .99 unclamped",
    "recent trace .99 terminal",
    "recent trace .99 printed matrix",
];

/// Learning curves, a panel per MDP.
fn curves(c: &Comparison, regime: Regime, rates: &str) -> Figure {
    // Learning at best rates is over within a few groups: a logarithmic axis, without the common start.
    let log = regime == Regime::OwnBest;
    let caption = format!(
        "Exact J over its optimum J*: mean of {} runs, band: 95 % bootstrap, of GRPO and GRPO-λ only. A panel is an MDP; groups of {GROUP}, plain gradient steps, {rates}. \
         GRPO-λ with advantages clamped at -0.1; its style both all but coincides with recent. Vertical axes differ; of curves that coincide the last name is on top.",
        c.runs
    );
    let mut figure = Figure::new(curves_title(c, regime))
        .caption(caption)
        .columns(3)
        .panel_size(320, 235)
        .names(DRAWN.map(shown));
    for (t, task) in c.tasks.iter().enumerate() {
        let mut panel = Panel::new(format!("{}: {}", task.name, task.about))
            .x(if log { Axis::new("responses sampled").log() } else { Axis::new("responses sampled") })
            .y("J / J*");
        let mut low = 1.0f64;
        for name in DRAWN {
            let Some(curve) = c.scores.curve((regime, c.index(name)), t) else { continue };
            low = curve.iter().skip(usize::from(log)).map(|p| p.low).fold(low, f64::min);
            let (name, x) = (shown(name), |i: usize| (i * c.plan.every * GROUP) as f64);
            let points = || curve.iter().enumerate().skip(usize::from(log));
            // The bands of four methods on top of each other would hide the lines.
            if [BASELINE, PAPER[0]].map(shown).contains(&name) {
                panel = panel.band(name, points().map(|(i, p)| (x(i), p.low, p.high)));
            }
            panel = panel.line(name, points().map(|(i, p)| (x(i), p.mid)));
        }
        panel.y = panel.y.range(((low * 5.0).floor() / 5.0).clamp(0.0, 0.8), 1.02);
        figure = figure.panel(panel);
    }
    figure
}

/// Gains over GRPO with intervals, a panel per regime.
fn forest(c: &Comparison) -> Figure {
    let caption = format!(
        "Area under J/J* minus that of GRPO: mean over {} MDPs of the mean of {} runs, with Student's t over tasks at 95 %; a colour says that sign flips over tasks agree. \
         recent, both: trace styles of GRPO-λ, with ϵ-trace or ϵ-weight, λ, and what differs from the paper (clamp -0.1). Horizontal axes differ.",
        c.tasks.len(),
        c.runs
    );
    let signs = ["better than GRPO", "worse than GRPO", "no difference shown"];
    let names = [signs[0], signs[1], "3", "4", "5", "6", signs[2]]; // the seventh colour is black
    let mut figure =
        Figure::new(forest_title(c)).caption(caption).columns(2).panel_size(490, 320).names(names);
    let panels = [
        (Regime::Cautious, "Equal rate: a sixteenth of GRPO's best"),
        (Regime::Equal, "Equal rate: GRPO's best"),
        (Regime::OwnBest, "Each at its tuned rate"),
        (Regime::UnitMean, "GRPO's best rate, weights of mean 1"),
    ];
    for (regime, title) in panels {
        let gain = |&name: &&'static str| Some((name, &c.overall(regime, c.index(name))?.over_tasks));
        let gains: Vec<_> = FOREST.iter().filter_map(gain).collect();
        let mut panel = Panel::new(title)
            .x("gain in area (share of J*)")
            .y(Axis::new("").categories(gains.iter().map(|(name, _)| *name)))
            .vline(0.0, "GRPO");
        for (k, sign) in signs.into_iter().enumerate() {
            let kind = |o: &OverTasks| if o.positive() { 0 } else { 2 - usize::from(o.negative()) };
            let points = gains.iter().enumerate().filter(|(_, (_, o))| kind(o) == k);
            let span = |(i, (_, o)): (usize, &(_, &OverTasks))| {
                (i as f64, o.interval.low, o.interval.mid, o.interval.high)
            };
            panel = panel.spans(sign, points.map(span));
        }
        figure = figure.panel(panel);
    }
    figure
}

/// Gains over GRPO, method by MDP, each method at its tuned rate; a row that sign flips over tasks show is marked.
fn map(c: &Comparison) -> Figure {
    let own = |variant| c.overall(Regime::OwnBest, variant);
    let rows = (1..c.variants.len()).map(|variant| {
        let gain = |task: usize| own(variant).map_or(f64::NAN, |o| 100.0 * o.gains[task].mid);
        (0..c.tasks.len()).map(gain).collect()
    });
    let marked = (1..c.variants.len()).map(|variant| {
        let mark = match own(variant).map(|o| (o.over_tasks.positive(), o.over_tasks.negative())) {
            Some((true, _)) => " (+)",
            Some((_, true)) => " (-)",
            Some((false, false)) | None => "",
        };
        format!("{}{mark}", c.variants[variant].name)
    });
    let panel = Panel::new("")
        .x(Axis::new("task").categories(c.tasks.iter().map(|t| t.name.as_str())))
        .y(Axis::new("").categories(marked))
        .mark(heat(rows.collect(), (-10.0, 10.0), true, "gain over GRPO (hundredths of J*)"));
    let caption = format!(
        "Area under J/J* minus that of GRPO, in hundredths of J*, mean of {} runs, each method at its tuned rate. Red: a gain. (+), (-): a gain or a loss over the {} tasks is shown by \
         Student's t and sign flips. recent, both: trace styles of GRPO-λ, with ϵ-trace or ϵ-weight, λ, and what differs from the paper.",
        c.runs,
        c.tasks.len()
    );
    Figure::new(map_title(c)).caption(caption).columns(1).panel_size(900, 600).panel(panel)
}

fn curves_title(c: &Comparison, regime: Regime) -> String {
    let gain = |name| c.against(regime, name).gain.mid;
    let rates = match regime {
        Regime::Cautious => "At a small equal learning rate",
        _ => "Each at its tuned rate,",
    };
    format!(
        "{rates} GRPO-λ {} GRPO: {:+.3} (recent), {:+.3} (both) in area under J/J*",
        of_paper(c, regime).word(),
        gain(PAPER[0]),
        gain(PAPER[1])
    )
}

fn forest_title(c: &Comparison) -> String {
    let [cautious, own, unit] =
        [Regime::Cautious, Regime::OwnBest, Regime::UnitMean].map(|regime| of_paper(c, regime));
    let with_unit_mean = if unit == own {
        " and with weights of mean 1".to_owned()
    } else {
        format!(" and {} it with weights of mean 1", unit.word())
    };
    format!(
        "GRPO-λ {} GRPO at a small equal rate, {} it at tuned rates{with_unit_mean}",
        cautious.word(),
        own.word()
    )
}

fn map_title(c: &Comparison) -> String {
    let variants = (1..c.variants.len()).filter(|r| c.variants[*r].of_paper);
    let signs: Vec<[bool; 2]> = variants
        .filter_map(|r| c.overall(Regime::OwnBest, r))
        .map(|o| [o.over_tasks.positive(), o.over_tasks.negative()])
        .collect();
    let count = |k: usize| signs.iter().filter(|sign| sign[k]).count();
    format!(
        "At tuned rates {} of {} variants of GRPO-λ gain over GRPO on the {} tasks, and {} lose",
        count(0),
        signs.len(),
        c.tasks.len(),
        count(1)
    )
}
