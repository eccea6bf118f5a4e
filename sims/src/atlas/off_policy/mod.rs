//! `atlas_off_policy`: what is left of every method when the policy that sampled is not the one that is updated.

pub mod cases;
mod figures;
pub mod pairs;
pub mod products;
pub mod regions;
pub mod reuse;
pub mod trust_region;

use std::sync::atomic::{AtomicUsize, Ordering};

use grpo_lambda::methods::Configured;
use grpo_lambda::stats::mean;
use grpo_lambda::table::{Cell, Table};
use rayon::prelude::*;

use crate::atlas::entrants::{BASELINE, Entrant, Source};
use crate::atlas::multisets::{Groups, Ratios};
use crate::experiment::{Context, Experiment, Finding, Report};
use crate::experiments::common::findings::{finding, holds_or, holds_when};
use crate::experiments::common::text::short;
use cases::{FIRST_STEP, Mode, Row, UPDATES};
use pairs::{Task, tasks};

/// The experiment.
pub static EXPERIMENT: Experiment = Experiment {
    id: "atlas_off_policy",
    title: "Off-policy: staleness, mismatched samplers, clip regions, and the trust region of a trace",
    claim: "clipping π_ratio between 1-ϵ and 1+ϵ discourages π_θ from changing too much from π_θold; P-trace: \"partial trust region preservation\"",
    source: "GRPO-lambda (arXiv 2510.00194v1), section 2; P-trace (arXiv 2605.05965), abstract",
    run,
};

/// Batches per method and task whose reuse is measured.
const BATCHES: usize = 100;
const BATCHES_FULL: usize = 1000;

/// Reuse of one method on one task, as it is tabulated.
pub(crate) struct Reused {
    mdp: String,
    method: String,
    /// Gain after each update: low, mid, high.
    gain: Vec<[f64; 3]>,
    kl: Vec<f64>,
    more: [f64; 3],
}

fn run(ctx: &Context) -> anyhow::Result<Report> {
    let size = if ctx.full { 8 } else { 4 };
    let batches = if ctx.full { BATCHES_FULL } else { BATCHES };
    let tasks = tasks()?;
    let mut work: Vec<(&Task, &'static Entrant, Configured)> = Vec::new();
    for task in &tasks {
        work.extend(cases::entrants(task)?.into_iter().map(|(entrant, c)| (task, entrant, c)));
    }
    let done = AtomicUsize::new(0);
    let results: Vec<(Vec<Row>, Option<Reused>)> = work
        .par_iter()
        .map(|(task, entrant, configured)| {
            let result = piece(ctx, task, entrant, configured, size, batches);
            let n = done.fetch_add(1, Ordering::Relaxed) + 1;
            (ctx.progress)(0.9 * n as f64 / work.len() as f64, &format!("{}, {}", task.name, entrant.name));
            result
        })
        .collect::<anyhow::Result<_>>()?;
    let (rows, reused): (Vec<Vec<Row>>, Vec<Option<Reused>>) = results.into_iter().unzip();
    let (rows, reused) = (rows.concat(), reused.into_iter().flatten().collect::<Vec<_>>());
    (ctx.progress)(0.92, "trust region");
    let synthetic = trust_region::synthetic(ctx.seed, if ctx.full { 20_000 } else { 2_000 });
    let pairs = trust_region::pairs(ctx.seed)?;
    let products = products::products(ctx.seed, if ctx.full { 40 } else { 12 })?;

    let findings = vec![
        trust(&synthetic),
        normalised(&synthetic, &pairs),
        exact_products(&products),
        stale(&rows),
        bound(&rows),
        mismatch(&rows),
        reuse_finding(&reused, batches),
    ];
    let figures = vec![
        (String::new(), figures::overview(&rows, size)),
        ("trust_region".into(), figures::trust_region(&synthetic.table, &pairs)),
        ("regions".into(), figures::regions(&rows, size)),
        ("mismatch".into(), figures::mismatch(&rows, size)),
        ("reuse".into(), figures::reuse(&reused, batches)),
    ];
    Ok(Report {
        findings,
        tables: vec![
            (String::new(), cases::table(&rows)),
            ("trust_region".into(), synthetic.table),
            ("trust_region_pairs".into(), trust_region::table(&pairs)),
            ("products".into(), products.table),
            ("reuse".into(), reuse_table(&reused)),
        ],
        figures,
    })
}

/// Rows and reuse of one method on one task; kept by the store of a long run.
fn piece(
    ctx: &Context,
    task: &Task,
    entrant: &Entrant,
    configured: &Configured,
    size: usize,
    batches: usize,
) -> anyhow::Result<(Vec<Row>, Option<Reused>)> {
    let key = |part: &str| format!("{part} {} {}", task.name, entrant.name);
    let cells = ctx.store.rows(&key("rows"), || {
        Ok(cases::rows(task, entrant, configured, size, ctx.seed)?.iter().map(Row::cells).collect())
    })?;
    let rows: Option<Vec<Row>> = cells.iter().map(|c| Row::parse(c)).collect();
    let rows = rows.ok_or_else(|| anyhow::anyhow!("kept rows of {} cannot be read", entrant.name))?;
    let reused = ctx.store.rows(&key("reuse"), || {
        if entrant.source != Source::Table {
            return Ok(Vec::new()); // the learner's evidence is the table's
        }
        let (tree, start) = (&task.tree, &task.start);
        let groups = Groups::new(tree, start, start, Ratios::Sampler, size, entrant.source)?;
        let update = groups.expected(configured.method.as_ref());
        let rate = pairs::rate_of(&task.tree, &task.start, &update, FIRST_STEP);
        let of = |rate| reuse::reuse(task, configured.method.as_ref(), rate, batches, ctx.seed);
        let Some(reuse) = rate.and_then(of) else { return Ok(Vec::new()) };
        let mut kept = vec![vec![reuse.more.low.into(), reuse.more.mid.into(), reuse.more.high.into()]];
        for (gain, kl) in reuse.gain.iter().zip(&reuse.kl) {
            kept.push(vec![gain.low.into(), gain.mid.into(), gain.high.into(), (*kl).into()]);
        }
        Ok(kept)
    })?;
    let three = |row: &[Cell]| -> Option<[f64; 3]> {
        Some([row.first()?.number()?, row.get(1)?.number()?, row.get(2)?.number()?])
    };
    let reused = reused.split_first().and_then(|(more, each)| {
        Some(Reused {
            mdp: task.name.to_owned(),
            method: entrant.name.to_owned(),
            more: three(more)?,
            gain: each.iter().map(|row| three(row)).collect::<Option<_>>()?,
            kl: each.iter().map(|row| row.get(3)?.number()).collect::<Option<_>>()?,
        })
    });
    Ok((rows, reused))
}

fn percent(x: f64) -> String {
    format!("{} %", short(100.0 * x))
}

fn trust(synthetic: &trust_region::Synthetic) -> Finding {
    let [recent, both] = synthetic.paper;
    finding(
        "If every token's ratio lies in [1-ε, 1+ε], so does the ratio that GRPO-λ clips",
        holds_or(
            recent == 0.0 && both == 0.0,
            format!(
                "64 tokens, log-ratios uniform in [log 0.8, log 1.2], λ = 0.99: {} of the trace ratios of style recent lie outside, {} of style both",
                percent(recent),
                percent(both)
            ),
        ),
        "the rows of the trace sum to up to 1/(1-λ): log-ratios add up, with a mean of -0.017 per token as well, because the interval is not symmetric in log",
    )
}

fn normalised(synthetic: &trust_region::Synthetic, pairs: &[trust_region::Pair]) -> Finding {
    let traces = trust_region::traces(0.99);
    let worst = |convex: bool| {
        let all = pairs.iter().flat_map(|p| {
            let of = traces.iter().zip(&p.outside_though_inside).filter(|(t, _)| t.convex == convex);
            of.map(move |(t, share)| (*share, t.name, p))
        });
        all.max_by(|a, b| a.0.total_cmp(&b.0))
    };
    let (none, paper) = (worst(true), worst(false));
    let said = paper.map_or(String::new(), |(share, name, pair)| {
        format!(
            "; among pairs of policies on a chain of 48 steps, {name} does worst at \"{}\" (KL {} nats per response): {} of the trace ratios leave it in responses none of whose tokens does",
            pair.name,
            short(pair.kl),
            percent(share)
        )
    });
    let none = none.map_or(0.0, |(share, ..)| share);
    finding(
        "A trace whose rows are weighted means (P-trace as reconstructed, GSPO) keeps the trust region: its ratio stays in the interval if all token ratios do",
        holds_or(
            synthetic.convex == 0.0 && none == 0.0,
            format!("{} outside", percent(none.max(synthetic.convex))),
        ),
        format!(
            "a convex combination of numbers in an interval lies in it: {} outside in 7 decays of synthetic responses and {} in {} real pairs{said}",
            percent(synthetic.convex),
            percent(none),
            pairs.len()
        ),
    )
}

fn exact_products(products: &products::Products) -> Finding {
    let [outcome, advantage] = &products.exact;
    let one = outcome == &["product over the response"];
    let two = advantage == &["product over the response", "product over the prefix"];
    finding(
        "Off-policy without a clip only the product of ratios over the whole response makes an outcome reward the policy gradient; with the true advantage the product over the prefix does, too",
        holds_or(one && two, format!("exact with R/T: {outcome:?}; with A: {advantage:?}")),
        format!(
            "{} pairs of random policies on random MDPs, seven ratios; each of the others is off by at least {} of |∇J| somewhere",
            products.mdps,
            percent(products.least)
        ),
    )
}

/// Rows by mode, method and x, over tasks.
fn select<'a>(rows: &'a [Row], mode: Mode, method: &'a str, x: f64) -> impl Iterator<Item = &'a Row> {
    rows.iter().filter(move |r| r.mode == mode && r.method == method && r.x == x && !r.ignored)
}

/// Names of the methods in the order of the rows.
pub(crate) fn methods(rows: &[Row]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for row in rows {
        if !names.contains(&row.method) {
            names.push(row.method.clone());
        }
    }
    names
}

/// Mean cosine over the tasks; a silent update counts 0.
pub(crate) fn mean_cosine(rows: &[Row], mode: Mode, method: &str, x: f64) -> f64 {
    let cosines: Vec<f64> = select(rows, mode, method, x).map(|r| r.fit.map_or(0.0, |f| f.cosine)).collect();
    mean(&cosines).unwrap_or(f64::NAN)
}

/// Mean of a share over the tasks.
pub(crate) fn mean_share(
    rows: &[Row],
    mode: Mode,
    method: &str,
    x: f64,
    of: impl Fn(&regions::Regions) -> f64,
) -> f64 {
    let shares: Vec<f64> =
        select(rows, mode, method, x).filter_map(|r| r.regions.as_ref().map(&of)).collect();
    mean(&shares).unwrap_or(f64::NAN)
}

fn stale(rows: &[Row]) -> Finding {
    let names = methods(rows);
    let unbiased: Vec<&String> = names
        .iter()
        .filter(|name| {
            select(rows, Mode::Stale, name, 0.0).all(|r| r.fit.is_some_and(|f| f.cosine > 1.0 - 1e-9))
        })
        .collect();
    let last = UPDATES as f64;
    let kept = |name: &&&String| {
        select(rows, Mode::Stale, name, last).all(|r| r.fit.is_some_and(|f| f.cosine > 1.0 - 1e-9))
    };
    let still: Vec<&str> = unbiased.iter().filter(kept).map(|n| n.as_str()).collect();
    let kls: Vec<f64> = select(rows, Mode::Stale, BASELINE, last).map(|r| r.kl).collect();
    let mut at: Vec<(f64, &String)> =
        names.iter().map(|n| (mean_cosine(rows, Mode::Stale, n, last), n)).collect();
    at.sort_by(|a, b| b.0.total_cmp(&a.0));
    let show = |(c, n): &(f64, &String)| format!("{n} {}", short(*c));
    let best: Vec<String> = at.iter().take(4).map(show).collect();
    let worst: Vec<String> = at.iter().rev().take(4).map(show).collect();
    finding(
        format!(
            "A method that goes in the direction of ∇J on-policy still does when the sampler is {UPDATES} updates old"
        ),
        holds_or(
            still.len() == unbiased.len(),
            format!(
                "{} of {} methods have cosine 1 on-policy on all tasks; at KL {} to {} nats per response {} of them do",
                unbiased.len(),
                names.len(),
                short(kls.iter().copied().fold(f64::INFINITY, f64::min)),
                short(kls.iter().copied().fold(0.0, f64::max)),
                still.len()
            ),
        ),
        format!(
            "mean cosine over tasks at {UPDATES} updates of age (a silent update counts 0), best: {}; worst: {}; on-policy unbiased: {}",
            best.join(", "),
            worst.join(", "),
            unbiased.iter().map(|n| n.as_str()).collect::<Vec<_>>().join(", ")
        ),
    )
}

fn bound(rows: &[Row]) -> Finding {
    let last = UPDATES as f64;
    let of = |name: &str, f: fn(&regions::Regions) -> f64| mean_share(rows, Mode::Inner, name, last, f);
    let say = |name: &str| {
        format!(
            "{name}: {} raised and above, {} lowered and below, {} without gradient",
            percent(of(name, |r| r.raised_high)),
            percent(of(name, |r| r.lowered_low)),
            percent(of(name, |r| r.silent))
        )
    };
    let (grpo, lambda) = (of(BASELINE, |r| r.bound()), of("GRPO-λ recent", |r| r.bound()));
    let printed = of("GRPO, printed clip", |r| r.lowered_low);
    finding(
        "After updates on the same batch the clip binds where it should: raised tokens above 1+ε, lowered tokens below 1-ε",
        holds_when(
            methods(rows).iter().all(|n| of(n, |r| r.raised_low + r.lowered_high) == 0.0),
            of(BASELINE, |r| r.raised_low + r.lowered_high) == 0.0 && printed == 0.0,
            format!(
                "the clip is PPO's. As printed in GRPO-λ's algorithms it never binds below; and a trace binds for more tokens than their own ratios would: {} of the tokens of GRPO-λ recent against {} of GRPO after {UPDATES} updates",
                percent(lambda),
                percent(grpo)
            ),
            format!("GRPO binds on the other side, or the printed clip below: {}", percent(printed)),
        ),
        format!(
            "share of tokens after {UPDATES} updates whose first moves by {FIRST_STEP} nats, mean over tasks; GSPO with its published bounds, narrow for responses this short. {}",
            [
                BASELINE,
                "GRPO, printed clip",
                "GRPO-λ recent",
                "GRPO-λ both",
                "P-trace (recon.)",
                "GSPO",
                "CISPO"
            ]
            .map(say)
            .join("; ")
        ),
    )
}

fn mismatch(rows: &[Row]) -> Finding {
    let (mut better, mut worse, mut same) = (0, 0, 0);
    let mut unclipped = [0; 2];
    let never = |name: &str| {
        rows.iter().filter(|r| r.method == name).all(|r| r.regions.is_none_or(|r| r.bound() == 0.0))
    };
    let free: Vec<String> = methods(rows).into_iter().filter(|n| never(n)).collect();
    let mut largest = (0.0f64, String::new());
    let mut against = (0.0f64, String::new());
    for row in rows.iter().filter(|r| !r.ignored && matches!(r.mode, Mode::Temperature | Mode::Noise)) {
        let twin = rows.iter().find(|r| {
            r.ignored && r.mode == row.mode && r.mdp == row.mdp && r.method == row.method && r.x == row.x
        });
        let cosine = |r: &Row| r.fit.map_or(0.0, |f| f.cosine);
        let Some(twin) = twin else { continue };
        let gain = cosine(row) - cosine(twin);
        let said = || {
            format!(
                "{} on {}, {} {}: {} corrected, {} ignored",
                row.method,
                row.mdp,
                row.mode.name(),
                row.x,
                short(cosine(row)),
                short(cosine(twin))
            )
        };
        if gain.abs() > 1e-9 && free.contains(&row.method) {
            unclipped[usize::from(gain < 0.0)] += 1;
        }
        match gain {
            g if g > 1e-9 => better += 1,
            g if g < -1e-9 => worse += 1,
            _ => same += 1,
        }
        if gain > largest.0 {
            largest = (gain, said());
        }
        if gain < against.0 {
            against = (gain, said());
        }
    }
    finding(
        "When the sampler's probabilities differ (temperature, noise on logits), ratios that correct for it give a better direction than ratios of 1",
        holds_or(
            worse == 0,
            format!(
                "worse in {worse} of {} cases, better in {better}, the same in {same}",
                better + worse + same
            ),
        ),
        format!(
            "cosine with ∇J, exact. Of methods without a clip ({}): better {}, worse {}. Most gained: {}; most lost: {}",
            free.join(", "),
            unclipped[0],
            unclipped[1],
            largest.1,
            against.1
        ),
    )
}

fn reuse_finding(reused: &[Reused], batches: usize) -> Finding {
    let names: Vec<&str> = {
        let mut names: Vec<&str> = Vec::new();
        for r in reused {
            if !names.contains(&r.method.as_str()) {
                names.push(&r.method);
            }
        }
        names
    };
    let of = |name: &str| reused.iter().filter(|r| r.method == name).collect::<Vec<_>>();
    let everywhere: Vec<&str> =
        names.iter().copied().filter(|n| of(n).iter().all(|r| r.more[0] > 0.0)).collect();
    let somewhere: Vec<String> = names
        .iter()
        .filter_map(|n| {
            let lost: Vec<&str> = of(n).iter().filter(|r| r.more[2] < 0.0).map(|r| r.mdp.as_str()).collect();
            (!lost.is_empty()).then(|| format!("{n} ({})", lost.join(", ")))
        })
        .collect();
    finding(
        format!("{UPDATES} updates on a batch of one group raise J above what the first one did"),
        holds_or(
            everywhere.len() == names.len(),
            format!(
                "for {} of {} methods on every task (95 % interval above 0); J falls below that of the first update for {}",
                everywhere.len(),
                names.len(),
                if somewhere.is_empty() { "none".to_owned() } else { somewhere.join(", ") }
            ),
        ),
        format!(
            "exact J, {batches} batches of 8 responses per method and task, each method at the rate at which its expected first update moves {FIRST_STEP} nats per response"
        ),
    )
}

fn reuse_table(reused: &[Reused]) -> Table {
    let mut table = Table::new(&["mdp", "method", "updates", "gain", "gain_low", "gain_high", "kl"]);
    for r in reused {
        for (k, (g, kl)) in r.gain.iter().zip(&r.kl).enumerate() {
            table.push(vec![
                r.mdp.as_str().into(),
                r.method.as_str().into(),
                (k + 1).into(),
                g[1].into(),
                g[0].into(),
                g[2].into(),
                (*kl).into(),
            ]);
        }
    }
    table
}
