//! Tables and figures.

use super::measure::{FIRST_STEP, Numbers, STALE, TEMPERATURES, UPDATES};
use super::pairs::Pair;
use super::row::{Mode, Regions, Row, Share, corrections, mean_cosine, mean_share, methods};
use crate::atlas::entries::BASELINE;
use crate::experiment::CASES;
use crate::experiments::common::grouped;
use crate::experiments::common::record::{Record, table};
use crate::experiments::common::{distinct, heat, mean};
use crate::figure::{Axis, Figure, Panel};
use grpo_lambda_stats::table::{Cell, Table};

pub(super) fn tables(n: &Numbers) -> Vec<(String, Table)> {
    vec![
        (
            CASES.into(),
            table(n.rows.iter().map(|row| with_shares(case(row), |share| row.regions.map(|r| share(&r))))),
        ),
        (String::new(), means(n)),
        ("mismatch".into(), Table::from_rows(corrections(&n.rows))),
        ("trust_region".into(), Table::from_rows(&n.synthetic)),
        ("trust_region_pairs".into(), Table::from_rows(&n.pairs)),
        ("reuse".into(), reuse(n)),
    ]
}

fn case(row: &Row) -> Record {
    Record::default()
        .with("mode", row.mode.name())
        .with("mdp", row.mdp.as_str())
        .with("method", row.method.as_str())
        .with("x", row.x)
        .with("ratios", if row.ignored { "ignored" } else { "sampler" })
        .with("kl", row.kl)
        .with("cosine", row.fit.map(|f| f.cosine))
        .with("scale", row.fit.map(|f| f.scale))
        .with("bias", row.fit.map(|f| f.bias))
}

/// Adds the column of every share.
fn with_shares<C: Into<Cell>>(row: Record, value: impl Fn(Share) -> C) -> Record {
    Regions::SHARES.into_iter().fold(row, |row, (name, share)| row.with(name, value(share)))
}

/// One row per method and number of updates, on the batch or of the sampler's age: means over the tasks.
fn means(n: &Numbers) -> Table {
    let updated = n.rows.iter().filter(|row| row.regions.is_some());
    let groups = grouped(updated, |row| (row.mode, row.method.as_str(), row.x));
    table(groups.into_iter().map(|((mode, method, x), rows)| {
        let over = |number: &dyn Fn(&Row) -> Option<f64>| {
            mean(&rows.iter().copied().filter_map(number).collect::<Vec<f64>>())
        };
        let names = Record::default()
            .with("mode", mode.name())
            .with("method", method)
            .with("x", x)
            .with("tasks", rows.len())
            .with("kl", over(&|row| Some(row.kl)))
            .with("cosine", over(&|row| Some(row.cosine())));
        with_shares(names, |share| over(&|row| row.regions.as_ref().map(share)))
    }))
}

/// One row per task, method and update.
fn reuse(n: &Numbers) -> Table {
    table(n.reused.iter().flat_map(|r| {
        r.gain.iter().zip(&r.kl).enumerate().map(|(k, ([low, mid, high], kl))| {
            Record::default()
                .with("mdp", r.mdp.as_str())
                .with("method", r.method.as_str())
                .with("updates", k + 1)
                .with("gain", *mid)
                .with("gain_low", *low)
                .with("gain_high", *high)
                .with("kl", *kl)
        })
    }))
}

pub(super) fn figures(n: &Numbers) -> Vec<(String, Figure)> {
    vec![
        (String::new(), overview(n)),
        ("trust_region".into(), ratios_outside(n)),
        ("regions".into(), regions(n)),
        ("mismatch".into(), mismatch(n)),
        ("reuse".into(), worth(n)),
    ]
}

/// Methods in figures of lines.
const SHOWN: [&str; 7] =
    [BASELINE, "GRPO, printed clip", "GRPO-λ recent", "GRPO-λ both", "P-trace (recon.)", "GSPO", "RLOO"];

/// Methods of the overview; the table has all.
const OVERVIEW: [&str; 14] = [
    BASELINE,
    "GRPO, no clip",
    "GRPO, printed clip",
    "Dr. GRPO",
    "RLOO",
    "DAPO",
    "CISPO",
    "GSPO",
    "GRPO-λ recent",
    "GRPO-λ both",
    "GRPO-λ recent, no clamp",
    "GRPO-λ recent, no clip, no clamp",
    "P-trace (recon.)",
    "TEMPO",
];

/// Methods at a glance: how their direction ages, and how many of its tokens the clip holds.
fn overview(n: &Numbers) -> Figure {
    let names: Vec<_> = methods(&n.rows).into_iter().filter(|name| OVERVIEW.contains(name)).collect();
    let ages = STALE.map(|k| k as f64);
    let map = |[title, x, label]: [&str; 3], range: (f64, f64), of: &dyn Fn(&str, f64) -> f64| {
        let values = names.iter().map(|name| ages.iter().map(|&k| of(name, k)).collect()).collect();
        Panel::new(title)
            .x(Axis::new(x).categories(ages.map(|k| format!("{k}"))))
            .y(Axis::new("").categories(names.clone()))
            .mark(heat(values, range, range.0 < 0.0, label))
    };
    let at = |name| mean_cosine(&n.rows, Mode::Stale, name, 8.0);
    Figure::new(format!(
        "With a stale sampler PPO's clip turns updates back: after 8 steps GRPO's cosine with ∇J is {:.2}, GRPO-λ's without its clamp {:.2}; without a clip {:.2} and {:.2}",
        at(BASELINE),
        at("GRPO-λ recent, no clamp"),
        at("GRPO, no clip"),
        at("GRPO-λ recent, no clip, no clamp")
    ))
    .caption(format!(
        "Exact over all groups of {}. Left: the sampler is k exact gradient steps old, the same policies for all; mean of 4 tasks, a silent update counts 0. Right: after k updates of the method on its own batch (first update {FIRST_STEP} nats). GSPO's published bounds are narrow for responses this short. recon.: formulas are ours.",
        n.size
    ))
    .panel_size(560, 400)
    .panel(map(
        ["Cosine with ∇J at the updated policy", "age of the sampler (updates)", "cosine"],
        (-1.0, 1.0),
        &|name, k| mean_cosine(&n.rows, Mode::Stale, name, k),
    ))
    .panel(map(
        ["Share of tokens on a clip bound", "updates on the same batch", "share of tokens"],
        (0.0, 1.0),
        &|name, k| mean_share(&n.rows, Mode::Inner, name, k, Regions::bound),
    ))
}

/// Trace ratios outside the clip interval.
fn ratios_outside(n: &Numbers) -> Figure {
    let mut lines = Panel::new("Synthetic: all token ratios in [0.8, 1.2], 64 tokens")
        .x("λ (γ = 1)")
        .y(Axis::new("share of trace ratios outside [0.8, 1.2]").range(-0.02, 1.0));
    for (trace, own) in grouped(&n.synthetic, |s| s.trace) {
        lines = lines.line(trace, own.iter().map(|s| (s.lambda, s.outside)));
    }
    let mut bars = Panel::new("Real policy pairs, λ = 0.99: responses whose tokens all stay inside")
        .x(Axis::new("").categories(distinct(n.pairs.iter().map(|p| p.pair.as_str()))))
        .y(Axis::new("share of trace ratios outside [0.8, 1.2]").range(0.0, 1.0));
    for (trace, own) in grouped(&n.pairs, |p| p.trace) {
        let height = |(x, p): (usize, &&Pair)| (x as f64, p.outside_though_inside);
        bars = bars.bars(trace, own.iter().enumerate().map(height));
    }
    Figure::new("A summed trace leaves the trust region that every token keeps; a weighted mean never does")
        .caption("Trace ratio exp(z_t). Above, the traces with weights of mean 1 per row lie on the line at 0. Below: a chain of 48 steps, each right with probability 0.97, expectation over all responses; where no bar stands the share is 0.")
        .columns(1)
        .panel_size(900, 380)
        .panel(lines)
        .panel(bars)
}

/// Clip regions that bind, per method, over updates on the batch.
fn regions(n: &Numbers) -> Figure {
    let mut figure = Figure::new(
        "On a reused batch a trace puts more tokens on a bound; the printed clip never binds below, where PPO's stops pushing",
    )
    .caption(format!(
        "Expected share of tokens, exact over groups of {}, mean of 4 tasks; each method's first update moves {FIRST_STEP} nats. Raised: advantage above 0. The rest has advantage 0 or lies inside. The saw: a token on its bound gets no push of its own, \
         the pushes on other tokens of its prefix bring it back inside, and it is pushed out again.",
        n.size
    ))
    .panel_size(420, 280)
    .columns(3);
    for name in [BASELINE, "GRPO, printed clip", "GRPO-λ recent", "GRPO-λ both", "P-trace (recon.)", "CISPO"]
    {
        let at = |of: fn(&Regions) -> f64| {
            (0..=UPDATES).map(move |k| (k as f64, mean_share(&n.rows, Mode::Inner, name, k as f64, of)))
        };
        figure = figure.panel(
            Panel::new(name)
                .x("updates on the batch")
                .y(Axis::new("share of tokens").range(0.0, 0.6))
                .line("raised, above 1+ε: no push", at(|r| r.raised_high))
                .line("lowered, below 1-ε: no push", at(|r| r.lowered_low))
                .line("lowered, above 1+ε: no pull back", at(|r| r.lowered_high))
                .line("no gradient at all", at(|r| r.silent)),
        );
    }
    figure
}

/// Samplers that differ from the trainer.
fn mismatch(n: &Numbers) -> Figure {
    let mut figure = Figure::new("A sampler at another temperature: ignoring it costs little direction; ratios under a narrow clip (GSPO) cost more than they repair")
        .caption(format!("Exact over groups of {}, mean cosine with ∇J over 4 tasks; the policy that is updated has temperature 1. Ratios taken from the sampler's log-probabilities, or recomputed by the trainer (then all are 1). GSPO, with bounds narrow for responses this short, leaves the picture at the left.", n.size))
        .panel_size(480, 330);
    for (ignored, title) in [(false, "Ratios against the sampler"), (true, "Mismatch ignored: every ratio 1")]
    {
        let mut panel =
            Panel::new(title).x("temperature of the sampler").y(Axis::new("cosine with ∇J").range(0.5, 1.01));
        for name in SHOWN {
            let at = |tau: f64| {
                let own = n.rows.iter().filter(|r| {
                    r.mode == Mode::Temperature && r.method == name && r.x == tau && r.ignored == ignored
                });
                (tau, mean(&own.map(Row::cosine).collect::<Vec<f64>>()))
            };
            let mut points: Vec<(f64, f64)> = TEMPERATURES.map(at).into();
            points.insert(2, (1.0, mean_cosine(&n.rows, Mode::Stale, name, 0.0)));
            panel = panel.line(name, points);
        }
        figure = figure.panel(panel);
    }
    figure
}

/// The worth of a batch after several updates.
fn worth(n: &Numbers) -> Figure {
    let mdps = distinct(n.reused.iter().map(|r| r.mdp.as_str()));
    let mut figure = Figure::new("A batch is worth several updates: a narrow clip (GSPO) or a summed trace (GRPO-λ) stops early, no clip (RLOO) goes on")
        .caption(format!(
            "Exact J after k updates on one batch of 8 responses, mean of {} batches with 95 % t-intervals; each method's expected first update moves {FIRST_STEP} nats.",
            n.batches
        ))
        .panel_size(480, 320);
    for mdp in mdps {
        let mut panel = Panel::new(format!("task {mdp}"))
            .x(Axis::new("updates on the batch").range(0.4, UPDATES as f64 + 0.6))
            .y("gain of J");
        for name in SHOWN {
            if let Some(r) = n.reused.iter().find(|r| r.mdp == mdp && r.method == name) {
                let point = |(k, g): (usize, &[f64; 3])| ((k + 1) as f64, g[0], g[1], g[2]);
                panel = panel.intervals(name, r.gain.iter().enumerate().map(point));
            }
        }
        figure = figure.panel(panel);
    }
    figure
}
