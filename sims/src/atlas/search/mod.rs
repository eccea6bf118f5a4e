//! `atlas_search`: is there a better trace? Weights from position, length, entropy and probability, chosen with the oracle on some
//! families of MDPs and judged on others.

pub mod choose;
mod figures;
pub mod instances;
pub mod learn;
pub mod quadratic;
pub mod spans;

use std::sync::atomic::{AtomicUsize, Ordering};

use grpo_lambda::methods;
use grpo_lambda::stats::{Bootstrap, Interval, mean};
use grpo_lambda::table::{Cell, Table};
use rayon::prelude::*;

use crate::atlas::tasks::{Task, tasks};
use crate::experiment::{Context, Experiment, Finding, Report};
use crate::experiments::common::findings::{finding, holds_or, holds_when};
use crate::experiments::common::text::short;
use crate::training::{GROUP, mean_of_iqms};
use instances::{families, family, stages};
use learn::{Learned, Weighted, learn};
use quadratic::Quadratic;
use spans::{SPANS, Span, UNIFORM, find};

/// The experiment.
pub static EXPERIMENT: Experiment = Experiment {
    id: "atlas_search",
    title: "Search beyond the papers: token weights chosen with the oracle, judged on families that were held out",
    claim: "a better trace exists in a small parametric family of position, remaining length and entropy",
    source: "ours",
    run,
};

/// The tasks of the learning curves, one per family.
const LEARNED: [&str; 8] =
    ["fork", "chain", "eos_hazard", "random", "deceptive", "lucky_guess", "carry_add", "delayed_format"];

/// The comparison in efficiency of one span.
pub(crate) struct Score {
    span: &'static Span,
    /// Geometric mean over families of `η/η(uniform)`, each family held out; log.
    held_out: Interval,
    /// The same with `α` chosen on all families.
    in_sample: f64,
    /// Per family, log, held out.
    families: Vec<f64>,
    /// Policies at which the expected update, `α` chosen elsewhere, points away from `∇J`.
    astray: usize,
    /// `α` chosen on all families, first entry 1 where it is not 0.
    alpha: Vec<f64>,
}

fn run(ctx: &Context) -> anyhow::Result<Report> {
    let tasks = tasks(ctx.full)?;
    let names = families(&tasks);
    let points: Vec<(&Task, Vec<grpo_lambda::mdp::Tabular>)> =
        tasks.par_iter().map(|t| (t, stages(t))).collect();
    (ctx.progress)(0.1, "moments");
    // quadratics[span][task][stage]
    let quadratics: Vec<Vec<Vec<Quadratic>>> = SPANS
        .par_iter()
        .map(|span| {
            let of = |(task, stages): &(&Task, Vec<_>)| {
                stages.iter().map(|p| Quadratic::new(&task.tree, p, span.features, GROUP)).collect()
            };
            points.iter().map(of).collect()
        })
        .collect();
    (ctx.progress)(0.3, "weights");
    let bootstrap = Bootstrap { seed: ctx.seed, ..Bootstrap::default() };
    let scores: Vec<Score> = SPANS
        .par_iter()
        .zip(&quadratics)
        .map(|(span, own)| score(span, own, &quadratics[0], &tasks, &names, bootstrap))
        .collect::<Option<_>>()
        .ok_or_else(|| anyhow::anyhow!("a family has no policy with a gradient"))?;
    let ceiling = ceiling(&quadratics[0], &tasks, &names, bootstrap)
        .ok_or_else(|| anyhow::anyhow!("a family has no policy with a gradient"))?;
    let curves = curves(ctx, &tasks, &quadratics, &scores)?;
    let learned = compare(&curves, bootstrap);
    let mut alphas = Table::new(&["weights", "feature", "alpha"]);
    for score in scores.iter().filter(|s| s.span.fitted) {
        for (j, a) in score.alpha.iter().enumerate() {
            alphas.push(vec![score.span.name.into(), j.into(), (*a).into()]);
        }
    }
    Ok(Report {
        findings: vec![
            headline(&scores, &learned),
            efficiency(&scores, ceiling),
            length(&scores, bootstrap),
            learning(&learned, &curves),
        ],
        tables: vec![
            (String::new(), score_table(&scores, &names)),
            ("weights".into(), alphas),
            ("learning".into(), learning_table(&curves, bootstrap)),
            ("learning_overall".into(), overall_table(&learned)),
        ],
        figures: vec![(String::new(), figures::overview(&scores, ceiling, &learned))],
    })
}

/// `log η/η(uniform)` of weights `alpha` at every stage of a task.
fn ratios(own: &[Quadratic], uniform: &[Quadratic], alpha: &[f64]) -> Vec<f64> {
    own.iter()
        .zip(uniform)
        .map(|(q, u)| {
            // An update that points away has no good step size: counted as next to nothing.
            let along: f64 = quadratic::dot(&q.b, alpha);
            let eta = if along > 0.0 { q.efficiency(alpha) } else { 0.0 };
            (eta.max(1e-6) / u.efficiency(&[1.0])).ln()
        })
        .collect()
}

/// `α` chosen on every family but one; families weigh the same, and so do the policies of one.
fn fit(own: &[Vec<Quadratic>], tasks: &[Task], names: &[&'static str], without: Option<&str>) -> Vec<f64> {
    let mut all = Vec::new();
    for name in names.iter().filter(|n| Some(**n) != without) {
        let members: Vec<&Quadratic> =
            own.iter().zip(tasks).filter(|(_, t)| family(t) == *name).flat_map(|(qs, _)| qs).collect();
        let weight = 1.0 / members.len() as f64;
        all.extend(members.into_iter().map(|q| (q, weight)));
    }
    choose::choose(&all)
}

fn score(
    span: &'static Span,
    own: &[Vec<Quadratic>],
    uniform: &[Vec<Quadratic>],
    tasks: &[Task],
    names: &[&'static str],
    bootstrap: Bootstrap,
) -> Option<Score> {
    let alpha = |without| if span.fitted { fit(own, tasks, names, without) } else { vec![1.0] };
    let all = alpha(None);
    let (mut held, mut inside, mut astray) = (Vec::new(), Vec::new(), 0);
    for name in names {
        let out = alpha(Some(name));
        let of = |alpha: &[f64]| -> Vec<f64> {
            let members = own.iter().zip(uniform).zip(tasks).filter(|(_, t)| family(t) == *name);
            members.flat_map(|((q, u), _)| ratios(q, u, alpha)).collect()
        };
        let members = own.iter().zip(tasks).filter(|(_, t)| family(t) == *name);
        astray += members.flat_map(|(q, _)| q).filter(|q| quadratic::dot(&q.b, &out) <= 0.0).count();
        held.push(mean(&of(&out))?);
        inside.push(mean(&of(&all))?);
    }
    let first = if all[0].abs() > 1e-9 { all[0] } else { 1.0 };
    Some(Score {
        span,
        held_out: bootstrap.interval(std::slice::from_ref(&held), |x| mean(&x[0]).unwrap_or(f64::NAN))?,
        in_sample: mean(&inside)?,
        families: held,
        astray,
        alpha: all.iter().map(|a| a / first).collect(),
    })
}

/// The best weight per prefix of each policy, known to the oracle: log of `η/η(uniform)`.
fn ceiling(
    uniform: &[Vec<Quadratic>],
    tasks: &[Task],
    names: &[&'static str],
    bootstrap: Bootstrap,
) -> Option<Interval> {
    let of = |name: &&str| {
        let members = uniform.iter().zip(tasks).filter(|(_, t)| family(t) == *name).flat_map(|(q, _)| q);
        mean(&members.map(|q| (q.ceiling / q.efficiency(&[1.0])).ln()).collect::<Vec<_>>())
    };
    let all: Vec<f64> = names.iter().map(of).collect::<Option<_>>()?;
    bootstrap.interval(&[all], |x| mean(&x[0]).unwrap_or(f64::NAN))
}

/// Areas per task of one entrant of the learning curves.
pub(crate) struct Curve {
    name: String,
    tasks: Vec<(String, Learned)>,
}

/// The entrants: registered baselines, and the spans that can be trained and did best when held out.
fn curves(
    ctx: &Context,
    tasks: &[Task],
    quadratics: &[Vec<Vec<Quadratic>>],
    scores: &[Score],
) -> anyhow::Result<Vec<Curve>> {
    let size = if ctx.full { (20, 100, 160) } else { (6, 30, 60) };
    let names = families(tasks);
    let mut ranked: Vec<usize> =
        (0..SPANS.len()).filter(|&i| SPANS[i].trainable && SPANS[i].name != UNIFORM).collect();
    ranked.sort_by(|&a, &b| scores[b].held_out.mid.total_cmp(&scores[a].held_out.mid));
    let by_prefix = ranked.iter().copied().find(|&i| SPANS[i].by_prefix);
    let mut shown: Vec<usize> = ranked.into_iter().take(4).chain(by_prefix).collect();
    shown.extend(SPANS.iter().position(|s| s.name == "recent 0.99, fixed horizon"));
    shown.sort_unstable();
    shown.dedup();
    enum Entrant {
        Registered(&'static str, &'static str, &'static str),
        Span(usize),
    }
    let registered = [
        ("RLOO", "rloo", ""),
        ("GRPO", "grpo", "reduction=token_mean"),
        ("GRPO-λ recent", "grpo_lambda", "style=recent"),
    ];
    let entrants: Vec<Entrant> = registered
        .map(|(name, method, settings)| Entrant::Registered(name, method, settings))
        .into_iter()
        .chain(shown.into_iter().map(Entrant::Span))
        .collect();
    let picked: Vec<(usize, &Task)> =
        LEARNED.iter().filter_map(|name| tasks.iter().enumerate().find(|(_, t)| t.name == *name)).collect();
    let work: Vec<(usize, usize)> =
        (0..entrants.len()).flat_map(|e| (0..picked.len()).map(move |t| (e, t))).collect();
    let done = AtomicUsize::new(0);
    let learned: Vec<Learned> = work
        .par_iter()
        .map(|&(e, t)| {
            let (index, task) = picked[t];
            let (name, method): (String, Box<dyn methods::Method>) = match &entrants[e] {
                Entrant::Registered(name, method, settings) => {
                    ((*name).to_owned(), methods::parse(method, settings)?.method)
                }
                Entrant::Span(i) => {
                    let span = &SPANS[*i];
                    let alpha = if span.fitted {
                        fit(&quadratics[*i], tasks, &names, Some(family(&tasks[index])))
                    } else {
                        vec![1.0]
                    };
                    let inner = methods::parse("rloo", "")?.method;
                    let longest = task.longest;
                    (span.name.to_owned(), Box::new(Weighted { inner, span, alpha, longest }))
                }
            };
            let kept = ctx.store.rows(&format!("{name} {}", task.name), || {
                let learned = learn(task, method.as_ref(), size, ctx.seed);
                let head = vec![learned.rate.into(), f64::from(learned.inside).into()];
                Ok(vec![head, learned.areas.iter().map(|&a| a.into()).collect()])
            })?;
            let done = done.fetch_add(1, Ordering::Relaxed) + 1;
            (ctx.progress)(0.4 + 0.6 * done as f64 / work.len() as f64, &format!("{name}, {}", task.name));
            let numbers = |row: &Vec<Cell>| row.iter().map(Cell::number).collect::<Option<Vec<f64>>>();
            let read = || {
                let head = numbers(kept.first()?)?;
                Some(Learned {
                    rate: *head.first()?,
                    inside: *head.get(1)? != 0.0,
                    areas: numbers(kept.get(1)?)?,
                })
            };
            read().ok_or_else(|| anyhow::anyhow!("kept areas of {name} cannot be read"))
        })
        .collect::<anyhow::Result<_>>()?;
    let mut learned = learned.into_iter();
    Ok(entrants
        .iter()
        .map(|entrant| Curve {
            name: match entrant {
                Entrant::Registered(name, ..) => (*name).to_owned(),
                Entrant::Span(i) => SPANS[*i].name.to_owned(),
            },
            tasks: picked.iter().map(|(_, t)| t.name.to_owned()).zip(learned.by_ref()).collect(),
        })
        .collect())
}

/// One entrant against RLOO and GRPO over all tasks.
pub(crate) struct Overall {
    name: String,
    /// Mean over tasks of the IQM of areas.
    area: Interval,
    /// Its difference to RLOO's and to GRPO's, runs drawn in pairs.
    gains: [Interval; 2],
    /// Probability that a run beats one of RLOO, of GRPO.
    improves: [Interval; 2],
}

fn strata(curve: &Curve) -> Vec<Vec<f64>> {
    curve.tasks.iter().map(|(_, l)| l.areas.clone()).collect()
}

/// The difference of two levels with runs drawn in pairs that share their stream.
fn gain(x: &[Vec<f64>], y: &[Vec<f64>], bootstrap: Bootstrap) -> Option<Interval> {
    let numbers: Vec<Vec<f64>> = x.iter().map(|runs| (0..runs.len()).map(|i| i as f64).collect()).collect();
    let pick = |all: &[Vec<f64>], drawn: &[Vec<f64>]| {
        let of = |(all, drawn): (&Vec<f64>, &Vec<f64>)| drawn.iter().map(|&i| all[i as usize]).collect();
        mean_of_iqms(&all.iter().zip(drawn).map(of).collect::<Vec<_>>())
    };
    bootstrap.interval(&numbers, |drawn| pick(x, drawn) - pick(y, drawn))
}

fn compare(curves: &[Curve], bootstrap: Bootstrap) -> Vec<Overall> {
    let of = |name: &str| curves.iter().find(|c| c.name == name).map(strata);
    let (Some(rloo), Some(grpo)) = (of("RLOO"), of("GRPO")) else { return Vec::new() };
    let one = |curve: &Curve| {
        let own = strata(curve);
        Some(Overall {
            name: curve.name.clone(),
            area: bootstrap.interval(&own, mean_of_iqms)?,
            gains: [gain(&own, &rloo, bootstrap)?, gain(&own, &grpo, bootstrap)?],
            improves: [
                bootstrap.probability_of_improvement(&own, &rloo)?,
                bootstrap.probability_of_improvement(&own, &grpo)?,
            ],
        })
    };
    curves.iter().filter_map(one).collect()
}

fn interval(i: &Interval) -> String {
    format!("{} [{}, {}]", short(i.mid), short(i.low), short(i.high))
}

/// A log ratio as a factor with its interval.
fn factor(i: &Interval) -> String {
    format!("{} [{}, {}]", short(i.mid.exp()), short(i.low.exp()), short(i.high.exp()))
}

fn headline(scores: &[Score], learned: &[Overall]) -> Finding {
    let efficient: Vec<&Score> = scores.iter().filter(|s| s.held_out.low > 0.0).collect();
    let spans: Vec<&Overall> = learned.iter().filter(|o| find(&o.name).is_some()).collect();
    let helps: Vec<&str> =
        spans.iter().filter(|o| o.gains.iter().all(|g| g.low > 0.0)).map(|o| o.name.as_str()).collect();
    let both: Vec<&str> =
        helps.iter().copied().filter(|n| efficient.iter().any(|s| s.span.name == *n)).collect();
    let best = efficient.iter().max_by(|a, b| a.held_out.mid.total_cmp(&b.held_out.mid));
    let best = best.map_or("none".to_owned(), |s| format!("{} {}", s.span.name, factor(&s.held_out)));
    finding(
        "Some weights of position, length and entropy, chosen on other families, beat RLOO and GRPO both in efficiency and in learning",
        holds_or(
            !both.is_empty(),
            format!(
                "efficiency on held-out families is better with {} of {} ({best}), but no such weights learn faster than both RLOO and GRPO at tuned rates",
                efficient.len(),
                scores.len() - 1
            ),
        ),
        format!(
            "in both: {}; in learning: {}",
            if both.is_empty() { "none".to_owned() } else { both.join(", ") },
            if helps.is_empty() { "none".to_owned() } else { helps.join(", ") }
        ),
    )
}

fn efficiency(scores: &[Score], ceiling: Interval) -> Finding {
    let better: Vec<&Score> = scores.iter().filter(|s| s.held_out.low > 0.0).collect();
    let worse: Vec<String> = scores
        .iter()
        .filter(|s| s.held_out.high < 0.0)
        .map(|s| format!("{} {}", s.span.name, factor(&s.held_out)))
        .collect();
    let say = |s: &Score| {
        format!("{} {} ({} in sample)", s.span.name, factor(&s.held_out), short(s.in_sample.exp()))
    };
    finding(
        "Weights chosen on other families lower the mean squared error at the best step size on a family that was held out",
        holds_when(
            scores.iter().filter(|s| s.span.fitted).all(|s| s.held_out.low > 0.0),
            !better.is_empty(),
            format!("they are {}", better.iter().map(|s| s.span.name).collect::<Vec<_>>().join(", ")),
            "no span has an interval above 1",
        ),
        format!(
            "η/η(RLOO), geometric mean over {} families [95 % bootstrap over families]: {}; worse: {}; ceiling, the best weight per prefix known to the oracle: {}",
            scores.first().map_or(0, |s| s.families.len()),
            scores.iter().filter(|s| s.span.fitted).map(say).collect::<Vec<_>>().join("; "),
            if worse.is_empty() { "none".to_owned() } else { worse.join(", ") },
            factor(&ceiling)
        ),
    )
}

fn length(scores: &[Score], bootstrap: Bootstrap) -> Finding {
    let of = |name: &str| scores.iter().find(|s| s.span.name == name);
    let (Some(plain), Some(fixed), Some(given)) = (
        of("recent 0.99 (GRPO-λ)"),
        of("recent 0.99, fixed horizon"),
        of("recent 0.99, expected given the prefix"),
    ) else {
        return finding("a GRPO-λ without length bias", holds_or(false, "spans are missing"), "");
    };
    // Families in pairs: what differs between families does not count.
    let over = |s: &Score| {
        let pairs: Vec<f64> = s.families.iter().zip(&plain.families).map(|(x, y)| x - y).collect();
        bootstrap.interval(&[pairs], |x| mean(&x[0]).unwrap_or(f64::NAN))
    };
    let (Some(by_horizon), Some(by_prefix)) = (over(fixed), over(given)) else {
        return finding("a GRPO-λ without length bias", holds_or(false, "there is one family only"), "");
    };
    finding(
        "A GRPO-λ without length bias (the trace of a fixed horizon, or its mean given the prefix) is more efficient than GRPO-λ and than RLOO",
        holds_or(
            [by_horizon, by_prefix, fixed.held_out, given.held_out].iter().all(|i| i.low > 0.0),
            format!(
                "η over GRPO-λ's {} with a fixed horizon and {} with the mean given the prefix, over RLOO's {} and {}",
                factor(&by_horizon),
                factor(&by_prefix),
                factor(&fixed.held_out),
                factor(&given.held_out)
            ),
        ),
        format!(
            "both weigh by the prefix alone: the implied credit is Q times a factor per prefix, and no preference can turn round. Geometric means over families, in pairs [95 % bootstrap]; GRPO-λ over RLOO {}",
            factor(&plain.held_out)
        ),
    )
}

fn learning(learned: &[Overall], curves: &[Curve]) -> Finding {
    let spans = || learned.iter().filter(|o| find(&o.name).is_some());
    let helps: Vec<&str> =
        spans().filter(|o| o.gains.iter().all(|g| g.low > 0.0)).map(|o| o.name.as_str()).collect();
    let outside: Vec<String> = curves
        .iter()
        .flat_map(|c| c.tasks.iter().filter(|(_, l)| !l.inside).map(|(t, _)| format!("{} on {t}", c.name)))
        .collect();
    let say = |o: &Overall| {
        format!(
            "{}: area {}, against RLOO {}, P(better) {}; against GRPO {}, P(better) {}",
            o.name,
            interval(&o.area),
            interval(&o.gains[0]),
            interval(&o.improves[0]),
            interval(&o.gains[1]),
            interval(&o.improves[1])
        )
    };
    finding(
        "Weights with the best efficiency on held-out families also learn faster than RLOO and GRPO, each at its best rate",
        holds_when(
            helps.len() == spans().count(),
            !helps.is_empty(),
            format!("they are {}", helps.join(", ")),
            "no interval of the difference lies above 0 against both",
        ),
        format!(
            "area under J/J*, {} runs on {} tasks, weights chosen without the task's family. {}. Best rates at an end of the grid: {}",
            curves.first().and_then(|c| c.tasks.first()).map_or(0, |(_, l)| l.areas.len()),
            curves.first().map_or(0, |c| c.tasks.len()),
            learned.iter().map(say).collect::<Vec<_>>().join(". "),
            if outside.is_empty() { "none".to_owned() } else { outside.join(", ") }
        ),
    )
}

fn score_table(scores: &[Score], names: &[&'static str]) -> Table {
    let own = [
        "weights",
        "by_prefix",
        "fitted",
        "held_out",
        "held_out_low",
        "held_out_high",
        "in_sample",
        "astray",
    ];
    let columns: Vec<&str> = own.into_iter().chain(names.iter().copied()).collect();
    let mut table = Table::new(&columns);
    let word = |b: bool| if b { "yes" } else { "no" };
    for s in scores {
        let mut cells: Vec<Cell> = vec![
            s.span.name.into(),
            word(s.span.by_prefix).into(),
            word(s.span.fitted).into(),
            s.held_out.mid.exp().into(),
            s.held_out.low.exp().into(),
            s.held_out.high.exp().into(),
            s.in_sample.exp().into(),
            s.astray.into(),
        ];
        cells.extend(s.families.iter().map(|x| Cell::from(x.exp())));
        table.push(cells);
    }
    table
}

fn learning_table(curves: &[Curve], bootstrap: Bootstrap) -> Table {
    let mut table = Table::new(&["method", "mdp", "rate", "area", "area_low", "area_high"]);
    for curve in curves {
        for (task, learned) in &curve.tasks {
            let Some(i) = bootstrap.iqm(std::slice::from_ref(&learned.areas)) else { continue };
            table.push(vec![
                curve.name.as_str().into(),
                task.as_str().into(),
                learned.rate.into(),
                i.mid.into(),
                i.low.into(),
                i.high.into(),
            ]);
        }
    }
    table
}

fn overall_table(learned: &[Overall]) -> Table {
    let mut table = Table::new(&[
        "method",
        "area",
        "area_low",
        "area_high",
        "over_rloo",
        "over_rloo_low",
        "over_rloo_high",
        "p_rloo",
        "p_rloo_low",
        "p_rloo_high",
        "over_grpo",
        "over_grpo_low",
        "over_grpo_high",
        "p_grpo",
        "p_grpo_low",
        "p_grpo_high",
    ]);
    for o in learned {
        let mut cells: Vec<Cell> = vec![o.name.as_str().into()];
        for i in [&o.area, &o.gains[0], &o.improves[0], &o.gains[1], &o.improves[1]] {
            cells.extend([i.mid, i.low, i.high].map(Cell::from));
        }
        table.push(cells);
    }
    table
}
