//! `atlas_oar`: scores of tokens by perturbation and by gradient, against exact counterfactuals and the true advantage.

use grpo_lambda::mdp::{Answers, Maskable, Oracle, Rules, Tree};
use grpo_lambda::stats::{Interval, spearman, t_interval};
use grpo_lambda::table::{Cell, Table, significant};

use crate::experiment::{Context, Experiment, Finding, Report, Verdict};
use crate::figure::{Axis, Figure, Panel};

/// The experiment.
pub static EXPERIMENT: Experiment = Experiment {
    id: "atlas_oar",
    title: "Scores of OAR against the exact answer-distribution KL and against the true advantage",
    claim: "OAR-P and OAR-G redistribute a response's advantage over its tokens by how far each of them moves the answer, taken for their credit",
    source: "OAR (arXiv 2601.07408), abstract and the authors' code; ground truth ours",
    run,
};

/// Symbols of the alphabet, and tokens of every response, the last of which is the answer.
const SYMBOLS: u32 = 3;
const LEN: usize = 6;
/// Hidden units, and the spread of their weights: large enough that tokens matter.
const WIDTH: usize = 8;
const SCALE: f64 = 1.2;
/// Perturbation of OAR-G.
const NOISE: f64 = 1e-3;
/// What rounding leaves of a number that is 0.
const ZERO: f64 = 1e-12;

/// What a response is rewarded for.
struct Task {
    name: &'static str,
    /// Whether the reward is a function of the answer alone.
    by_answer: bool,
    reward: fn(&[u32]) -> bool,
}

const TASKS: [Task; 4] = [
    Task { name: "answer is right", by_answer: true, reward: |y| y[LEN - 1] == 0 },
    Task { name: "answer repeats the first token", by_answer: false, reward: |y| y[LEN - 1] == y[0] },
    Task {
        name: "sum of all tokens",
        by_answer: false,
        reward: |y| y.iter().sum::<u32>().is_multiple_of(SYMBOLS),
    },
    Task { name: "first token alone", by_answer: false, reward: |y| y[0] == 0 },
];

fn tree(task: &Task) -> anyhow::Result<Tree> {
    let names = (0..SYMBOLS).map(|s| format!("t{s}")).chain(["EOS".to_owned()]);
    Ok(Rules::new(names, LEN).build(|_| (0..SYMBOLS).collect(), |y, _| f64::from((task.reward)(y)))?)
}

/// Names of the scores of a token, in the order of [`scores`].
const SCORES: [&str; 6] = [
    "OAR-P (token masked)",
    "OAR-G, 8 draws",
    "OAR-G, 1 draw",
    "exact, in hindsight",
    "exact, when written",
    "position",
];
const MASKED: usize = 0;
const GRADIENT: usize = 1;
const SINGLE: usize = 2;
const HINDSIGHT: usize = 3;
const GAIN: usize = 4;
const POSITION: usize = 5;

/// Every score of every reasoning token of one response.
fn scores(tree: &Tree, policy: &Maskable, answers: &Answers, path: &[usize], seed: u64) -> [Vec<f64>; 6] {
    let rounded =
        |v: Vec<f64>| v.into_iter().map(|x| if x.abs() < ZERO { 0.0 } else { x }).collect::<Vec<f64>>();
    [
        rounded(policy.shifts(tree, path)),
        policy.saliencies(tree, path, NOISE, 8, seed),
        policy.saliencies(tree, path, NOISE, 1, seed),
        rounded(answers.hindsights(path)),
        rounded(answers.gains(path)),
        (0..path.len() - 1).map(|t| t as f64).collect(),
    ]
}

/// Expectations over the responses of one policy.
#[derive(Default)]
struct Mean {
    correlation: f64,
    top: f64,
    mass: f64,
}

impl Mean {
    /// Adds a response of probability `p`, if both orders exist.
    fn add(&mut self, p: f64, score: &[f64], target: &[f64]) {
        let Some(correlation) = spearman(score, target) else { return };
        let best = |v: &[f64]| v.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let (highest, largest) = (best(score), best(target));
        // The first of the highest scored tokens, and whether no other token has more of the target.
        let hit = score.iter().position(|s| *s == highest).is_some_and(|t| target[t] == largest);
        self.correlation += p * correlation;
        self.top += p * f64::from(hit);
        self.mass += p;
    }
}

/// A correlation and a share of hits per policy, for one task, score and target.
struct Row {
    task: &'static str,
    score: usize,
    target: &'static str,
    correlation: Interval,
    mean: f64,
    top: Interval,
    top_mean: f64,
}

const LEVEL: f64 = 0.95;

fn of(values: &[f64]) -> anyhow::Result<(f64, Interval)> {
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    let interval = t_interval(values, LEVEL);
    Ok((
        mean,
        interval
            .ok_or_else(|| anyhow::anyhow!("fewer than two policies of which a response could be ranked"))?,
    ))
}

/// What is compared with the scores: a name and, by task, its numbers.
const ADVANTAGE: &str = "|A|";
const TARGETS: [(&str, usize); 2] = [("exact, in hindsight", HINDSIGHT), ("exact, when written", GAIN)];

struct Found {
    rows: Vec<Row>,
    /// Largest of `|A| - sqrt(D / 2)` where the answer decides, and elsewhere.
    pinsker: [f64; 2],
    policies: usize,
}

fn measure(ctx: &Context, policies: usize) -> anyhow::Result<Found> {
    let trees = TASKS.iter().map(tree).collect::<anyhow::Result<Vec<Tree>>>()?;
    // [task][score]: against |A|; [target][score]: against the exact counterfactuals.
    let mut by_task = vec![vec![(Vec::new(), Vec::new()); SCORES.len()]; TASKS.len()];
    let mut by_target = vec![vec![(Vec::new(), Vec::new()); SCORES.len()]; TARGETS.len()];
    let mut pinsker = [f64::NEG_INFINITY; 2];
    for n in 0..policies {
        (ctx.progress)(n as f64 / policies as f64, "policies");
        let seed = ctx.seed.wrapping_add(n as u64);
        let policy = Maskable::random(&trees[0], WIDTH, SCALE, seed);
        let table = policy.tabular(&trees[0]);
        let oracles: Vec<Oracle> = trees.iter().map(|tree| Oracle::new(tree, &table)).collect();
        let answers = Answers::new(&oracles[0]);
        let mut task_means: Vec<Vec<Mean>> =
            TASKS.iter().map(|_| SCORES.iter().map(|_| Mean::default()).collect()).collect();
        let mut target_means: Vec<Vec<Mean>> =
            TARGETS.iter().map(|_| SCORES.iter().map(|_| Mean::default()).collect()).collect();
        for leaf in trees[0].leaves() {
            let path = trees[0].path(leaf);
            let p = oracles[0].leaf_prob(leaf);
            let all = scores(&trees[0], &policy, &answers, &path, seed);
            for (means, &(_, target)) in target_means.iter_mut().zip(&TARGETS) {
                means.iter_mut().zip(&all).for_each(|(m, s)| m.add(p, s, &all[target]));
            }
            for ((means, oracle), task) in task_means.iter_mut().zip(&oracles).zip(&TASKS) {
                let size = |&e: &usize| oracle.advantage(e).abs();
                let advantage: Vec<f64> =
                    path[..LEN - 1].iter().map(size).map(|a| if a < ZERO { 0.0 } else { a }).collect();
                means.iter_mut().zip(&all).for_each(|(m, s)| m.add(p, s, &advantage));
                let excess = &mut pinsker[usize::from(!task.by_answer)];
                for (a, d) in advantage.iter().zip(&all[GAIN]) {
                    *excess = excess.max(a - ((d + ZERO) / 2.0).sqrt());
                }
            }
        }
        let keep = |into: &mut Vec<Vec<(Vec<f64>, Vec<f64>)>>, means: &[Vec<Mean>]| {
            for (lists, means) in into.iter_mut().zip(means) {
                for ((correlations, tops), m) in lists.iter_mut().zip(means).filter(|(_, m)| m.mass > ZERO) {
                    correlations.push(m.correlation / m.mass);
                    tops.push(m.top / m.mass);
                }
            }
        };
        keep(&mut by_task, &task_means);
        keep(&mut by_target, &target_means);
    }
    let mut rows = Vec::new();
    let mut push = |task: &'static str, target: &'static str, lists: &[(Vec<f64>, Vec<f64>)]| {
        for (score, (correlations, tops)) in lists.iter().enumerate() {
            if SCORES[score] == target {
                continue;
            }
            let ((mean, correlation), (top_mean, top)) = (of(correlations)?, of(tops)?);
            rows.push(Row { task, score, target, correlation, mean, top, top_mean });
        }
        anyhow::Ok(())
    };
    for (task, lists) in TASKS.iter().zip(&by_task) {
        push(task.name, ADVANTAGE, lists)?;
    }
    for (&(target, _), lists) in TARGETS.iter().zip(&by_target) {
        push("any", target, lists)?;
    }
    Ok(Found { rows, pinsker, policies })
}

impl Found {
    fn row(&self, task: &str, score: usize, target: &str) -> anyhow::Result<&Row> {
        let same = |r: &&Row| r.task == task && r.score == score && r.target == target;
        self.rows
            .iter()
            .find(same)
            .ok_or_else(|| anyhow::anyhow!("no row for {task}, {}, {target}", SCORES[score]))
    }
}

fn shown(r: &Row) -> String {
    format!("{} [{}, {}]", short(r.mean), short(r.correlation.low), short(r.correlation.high))
}

fn short(x: f64) -> String {
    significant(x, 3)
}

fn short2(x: f64) -> String {
    significant(x, 2)
}

fn verdict(ok: bool, counterexample: String) -> Verdict {
    if ok { Verdict::Holds } else { Verdict::Fails(counterexample) }
}

/// A rank correlation above this is called the same order.
const SAME: f64 = 0.9;

fn findings(found: &Found) -> anyhow::Result<Vec<Finding>> {
    let answer = TASKS[0].name;
    let finding = |statement: String, verdict, numbers| Finding { statement, verdict, numbers };
    let (masked, gradient) =
        (found.row("any", MASKED, SCORES[HINDSIGHT])?, found.row("any", GRADIENT, SCORES[HINDSIGHT])?);
    let credit = |score| -> anyhow::Result<Vec<&Row>> {
        TASKS.iter().map(|t| found.row(t.name, score, ADVANTAGE)).collect()
    };
    let list = |rows: &[&Row]| {
        rows.iter().map(|r| format!("{}: {}", r.task, shown(r))).collect::<Vec<_>>().join("; ")
    };
    let mut all = Vec::new();
    let (p, g) = (credit(MASKED)?, credit(GRADIENT)?);
    let everyone = || p.iter().chain(&g);
    let named = |rows: &[&Row]| {
        let with: Vec<_> =
            rows.iter().filter(|r| r.correlation.low > 0.0).map(|r| format!("\"{}\"", r.task)).collect();
        if with.is_empty() { "no task".to_owned() } else { with.join(", ") }
    };
    let ends = everyone().fold((f64::MAX, f64::MIN), |(low, high), r| (low.min(r.mean), high.max(r.mean)));
    let statement = "A token that OAR scores higher has the larger advantage |A(s_t, a_t)|";
    all.push(finding(
        statement.to_owned(),
        verdict(
            everyone().all(|r| r.correlation.low > SAME),
            format!(
                "rank correlations between {} and {}; above 0 for OAR-P in {}, for OAR-G in {}",
                short(ends.0),
                short(ends.1),
                named(&p),
                named(&g)
            ),
        ),
        format!(
            "rank correlation within a response, mean over {} policies with {} % interval. OAR-P: {}. OAR-G: {}",
            found.policies,
            LEVEL * 100.0,
            list(&p),
            list(&g)
        ),
    ));
    let best = |score: usize| -> anyhow::Result<(&Row, &Row)> {
        Ok((found.row(answer, score, ADVANTAGE)?, found.row(answer, GAIN, ADVANTAGE)?))
    };
    let (own, exact) = best(MASKED)?;
    all.push(finding(
        "Where the answer decides the reward, OAR-P orders tokens by |A| as well as the exact answer KL of the written token does".to_owned(),
        verdict(
            own.correlation.high >= exact.correlation.low,
            format!("OAR-P {}, the exact KL(P(z|s_{{t+1}}) || P(z|s_t)) {}", shown(own), shown(exact)),
        ),
        format!(
            "share of responses whose highest scored token has the largest |A| (chance {}): OAR-P {}, OAR-G {}, exact when written {}, exact in hindsight {}",
            short(1.0 / (LEN - 1) as f64),
            short(own.top_mean),
            short(found.row(answer, GRADIENT, ADVANTAGE)?.top_mean),
            short(exact.top_mean),
            short(found.row(answer, HINDSIGHT, ADVANTAGE)?.top_mean)
        ),
    ));
    all.push(finding(
        "Masking a token orders the tokens as the exact counterfactual does that marginalises it given all others".to_owned(),
        verdict(masked.correlation.low > SAME, format!("rank correlation {} and not above {SAME}: the embedding of a mask is one more token, not the average over tokens", shown(masked))),
        format!("OAR-P {}; position alone {}", shown(masked), shown(found.row("any", POSITION, SCORES[HINDSIGHT])?)),
    ));
    all.push(finding(
        "OAR-G orders the tokens as the exact counterfactual does".to_owned(),
        verdict(
            gradient.correlation.low > SAME,
            format!("rank correlation {} and not above {SAME}", shown(gradient)),
        ),
        format!(
            "8 draws {}, 1 draw {}; with the exact KL of the written token {}",
            shown(gradient),
            shown(found.row("any", SINGLE, SCORES[HINDSIGHT])?),
            shown(found.row("any", GRADIENT, SCORES[GAIN])?)
        ),
    ));
    all.push(finding(
        "|A(s_t, a_t)| <= sqrt(D_t / 2) with D_t = KL(P(z|s_{t+1}) || P(z|s_t)), z the answer (Pinsker)"
            .to_owned(),
        match (found.pinsker[0] <= ZERO, found.pinsker[1] <= ZERO) {
            (true, true) => Verdict::Holds,
            (true, false) => {
                Verdict::HoldsWhen("the reward is a function of the answer with values in [0, 1]".to_owned())
            }
            _ => Verdict::Fails(format!("exceeded by {}", short(found.pinsker[0]))),
        },
        format!(
            "largest excess of |A| over the bound where the answer decides: {}; in the other tasks: {}",
            if found.pinsker[0] <= ZERO { "none".to_owned() } else { short(found.pinsker[0]) },
            short(found.pinsker[1])
        ),
    ));
    Ok(all)
}

fn table(found: &Found) -> Table {
    let mut table = Table::new(&[
        "task",
        "score",
        "compared_with",
        "rank_correlation",
        "rank_correlation_low",
        "rank_correlation_high",
        "top_agreement",
        "top_agreement_low",
        "top_agreement_high",
        "policies",
    ]);
    for r in &found.rows {
        let text: [Cell; 3] = [r.task.into(), SCORES[r.score].into(), r.target.into()];
        let numbers = [r.mean, r.correlation.low, r.correlation.high, r.top_mean, r.top.low, r.top.high]
            .map(Cell::from);
        table.push([text.to_vec(), numbers.to_vec(), vec![(found.policies as f64).into()]].concat());
    }
    table
}

fn figure(found: &Found) -> anyhow::Result<Figure> {
    let answer = TASKS[0].name;
    let of = |score| anyhow::Ok(short2(found.row(answer, score, ADVANTAGE)?.mean));
    let title = format!(
        "OAR's scores hardly order tokens by their credit: where the answer decides, rank correlation with |A| {} by masking and {} by gradient; the exact answer KL reaches {}",
        of(MASKED)?,
        of(GRADIENT)?,
        of(GAIN)?
    );
    let axis = || Axis::new("rank correlation within a response").range(-1.0, 1.0);
    let mut left = Panel::new("with the true |A(s_t, a_t)|")
        .x(Axis::new("what is rewarded").categories([
            "answer",
            "answer = first",
            "sum of all",
            "first token",
        ]))
        .y(axis());
    let mut right = Panel::new("with the exact answer KL")
        .x(Axis::new("how the token is made unknown")
            .categories(["marginalised, all others known", "not written yet"]))
        .y(axis());
    let shown = [MASKED, GRADIENT, GAIN, POSITION];
    for (k, &score) in shown.iter().enumerate() {
        let offset = (k as f64 - (shown.len() as f64 - 1.0) / 2.0) * 0.16;
        let at = |(x, r): (usize, &Row)| (x as f64 + offset, r.correlation.low, r.mean, r.correlation.high);
        let rows: Vec<&Row> =
            TASKS.iter().map(|t| found.row(t.name, score, ADVANTAGE)).collect::<anyhow::Result<_>>()?;
        left = left.intervals(SCORES[score], rows.into_iter().enumerate().map(at));
        let targets: Vec<(usize, &Row)> = TARGETS
            .iter()
            .enumerate()
            .filter_map(|(x, (target, _))| Some((x, found.row("any", score, target).ok()?)))
            .collect();
        right = right.intervals(SCORES[score], targets.into_iter().map(at));
    }
    let caption = format!(
        "Means over {} random policies with {} % intervals; alphabet of {SYMBOLS}, responses of {LEN} tokens, the last one is the answer",
        found.policies,
        LEVEL * 100.0
    );
    Ok(Figure::new(title).caption(caption).panel(left.hline(0.0, "")).panel(right.hline(0.0, "")))
}

fn run(ctx: &Context) -> anyhow::Result<Report> {
    let found = measure(ctx, if ctx.full { 400 } else { 40 })?;
    Ok(Report {
        findings: findings(&found)?,
        tables: vec![(String::new(), table(&found))],
        figures: vec![(String::new(), figure(&found)?)],
    })
}
