//! What the numbers say, in words.

use grpo_lambda::stats::Interval;
use grpo_lambda::table::significant;

use super::Ranking;
use super::competitors::{COMPLETIONS, Competitor, Knowledge};
use super::ranking::{Standing, identical};
use super::run::Spent;
use super::why::{CLAMP, Case, Correlation, QUANTITIES, READINGS, Regime};
use crate::atlas::entrants::Source;
use crate::experiment::{Finding, Verdict};
use crate::training::GROUP;

/// Findings, and the figures' titles.
pub(super) struct Verdicts {
    pub(super) findings: Vec<Finding>,
    pub(super) titles: Titles,
}

/// A title per figure.
pub(super) struct Titles {
    pub(super) ranking: String,
    pub(super) curves: String,
    pub(super) why: String,
}

/// All findings; the first is the headline.
pub(super) fn of(r: &Ranking) -> Verdicts {
    let mut findings = vec![headline(r), best(r), coincide(r), efficiency(r), values(r)];
    findings.extend([
        per_task(r),
        step_size(r),
        clamp(r),
        explained(r),
        by_hindsight(r),
        grid(r),
        everyone(r),
    ]);
    Verdicts { findings, titles: titles(r) }
}

fn finding(statement: impl Into<String>, verdict: Verdict, numbers: impl Into<String>) -> Finding {
    Finding { statement: statement.into(), verdict, numbers: numbers.into() }
}

fn interval(i: Interval) -> String {
    format!("{:+.3} [{:+.3}, {:+.3}]", i.mid, i.low, i.high)
}

fn p(p: f64) -> String {
    significant(p, 2)
}

/// Place, gain, and chance of a better run.
fn standing(r: &Ranking, c: usize, s: &Standing) -> String {
    format!(
        "{}: place {} [{}, {}] of {}, gain {}, better in {:.0} % [{:.0}, {:.0}] of pairs, Holm p {}, better on {} and worse on {} of {} tasks",
        r.name(c),
        s.rank.mid,
        s.rank.low.round(),
        s.rank.high.round(),
        r.field.competitors.len(),
        interval(s.gain),
        100.0 * s.improvement.mid,
        100.0 * s.improvement.low,
        100.0 * s.improvement.high,
        p(s.p_holm),
        s.better().len(),
        s.worse().len(),
        r.field.tasks.len()
    )
}

/// The readings that take part, headline first.
fn readings(r: &Ranking) -> Vec<usize> {
    READINGS.iter().filter_map(|name| r.field.find(name)).collect()
}

fn word(sign: i8) -> &'static str {
    match sign {
        1 => "faster",
        -1 => "slower",
        _ => "no different",
    }
}

fn headline(r: &Ranking) -> Finding {
    let places = |axis: Spent| {
        let of = |&c: &usize| standing(r, c, &r.standings[axis as usize][c]);
        readings(r).iter().map(of).collect::<Vec<_>>().join("; ")
    };
    let signs = |axis: Spent| -> Vec<i8> {
        readings(r).iter().map(|&c| r.standings[axis as usize][c].sign()).collect()
    };
    let both = [signs(Spent::Responses), signs(Spent::Tokens)];
    let all: Vec<i8> = both.concat();
    let said: Vec<String> = readings(r)
        .iter()
        .enumerate()
        .map(|(i, &c)| format!("{} {} ({} by tokens)", r.name(c), word(both[0][i]), word(both[1][i])))
        .collect();
    let verdict = match (all.iter().all(|&s| s > 0), all.iter().any(|&s| s > 0)) {
        (true, _) => Verdict::Holds,
        (false, true) => Verdict::HoldsWhen(said.join(", ")),
        (false, false) => Verdict::Fails(said.join(", ")),
    };
    finding(
        "GRPO-λ learns faster than GRPO from the same responses, each at its own best rate",
        verdict,
        format!("against responses, {}. Against tokens, {}", places(Spent::Responses), places(Spent::Tokens)),
    )
}

/// Names of the competitors with a sign, best first.
fn with_sign(r: &Ranking, axis: Spent, sign: i8) -> Vec<String> {
    let standings = &r.standings[axis as usize];
    let order = super::ranking::order(standings);
    let of = |&c: &usize| format!("{} ({:+.3})", r.name(c), standings[c].gain.mid);
    order.iter().filter(|&&c| c != 0 && standings[c].sign() == sign).map(of).collect()
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

/// Who beats GRPO without the oracle.
fn best(r: &Ranking) -> Finding {
    let honest = |axis: Spent| -> Vec<String> {
        let standings = &r.standings[axis as usize];
        let known =
            |c: usize| matches!(r.field.competitors[c].knowledge, Knowledge::Oracle | Knowledge::Teacher);
        let order = super::ranking::order(standings);
        let better = order.into_iter().filter(|&c| standings[c].sign() > 0 && !known(c));
        better.map(|c| format!("{} ({:+.3})", r.name(c), standings[c].gain.mid)).collect()
    };
    let numbers = Spent::ALL.map(|axis| {
        format!(
            "against {}: faster {}; slower {}; the rest no different",
            axis.name(),
            list(&with_sign(r, axis, 1)),
            list(&with_sign(r, axis, -1))
        )
    });
    let both = Spent::ALL.map(honest);
    let (first, s) = (r.order[0], &r.standings[0][r.order[0]]);
    let leader = format!(
        "first by area against responses: {} ({}), better on {} and worse on {} of {} tasks, Holm p {}, place {} to {} when tasks are drawn as well",
        r.name(first),
        interval(s.gain),
        s.better().len(),
        s.worse().len(),
        r.field.tasks.len(),
        p(s.p_holm),
        s.rank_over_tasks.low.round(),
        s.rank_over_tasks.high.round()
    );
    let verdict = match (both[0].is_empty(), both[1].is_empty()) {
        (true, true) => Verdict::Fails("none of them, after correction for the number of methods".into()),
        (false, false) => Verdict::Holds,
        _ => Verdict::HoldsWhen(format!(
            "against responses {}; against tokens {}",
            list(&both[0]),
            list(&both[1])
        )),
    };
    finding(
        "Some method that needs neither the oracle nor a teacher learns faster than GRPO (Holm-corrected paired permutation tests)",
        verdict,
        format!("{}. {leader}", numbers.join(". ")),
    )
}

fn coincide(r: &Ranking) -> Finding {
    let groups = identical(&r.field.scores(|run| run.area[0]));
    let named = |group: &Vec<usize>| group.iter().map(|&c| r.name(c)).collect::<Vec<_>>().join(" = ");
    let text = groups.iter().map(named).collect::<Vec<_>>().join("; ");
    finding(
        "Every method is an update of its own, also on policy with one prompt and one step per group",
        if groups.is_empty() { Verdict::Holds } else { Verdict::Fails(text.clone()) },
        format!(
            "the same in every run (areas within 1e-9), so that only one of each group's places is information: {}",
            list(&[text])
        ),
    )
}

fn efficiency(r: &Ranking) -> Finding {
    let spent = |c: usize, axis: Spent| super::ranking::level(&r.effort_to_learn(c, axis), r.bootstrap);
    let of = |c: usize| {
        let share = |axis| {
            spent(c, axis)
                .map_or(String::from("unknown"), |i| format!("{:.2} [{:.2}, {:.2}]", i.mid, i.low, i.high))
        };
        format!(
            "{}: {} of the responses, {} of the tokens, {:.0} % of runs",
            r.name(c),
            share(Spent::Responses),
            share(Spent::Tokens),
            100.0 * r.share_learned(c)
        )
    };
    let mut who = vec![0];
    who.extend(readings(r));
    who.extend(super::figures::drawn(r).into_iter().filter(|c| !who.contains(c)).collect::<Vec<_>>());
    let fewer = |axis: Spent| {
        let (ours, theirs) = (spent(readings(r)[0], axis), spent(0, axis));
        ours.zip(theirs).is_some_and(|(a, b)| a.high < b.low)
    };
    let verdict = match Spent::ALL.map(fewer) {
        [true, true] => Verdict::Holds,
        [true, false] => Verdict::HoldsWhen("against responses".into()),
        [false, true] => Verdict::HoldsWhen("against tokens".into()),
        _ => Verdict::Fails("the intervals of GRPO-λ and GRPO overlap, or GRPO needs less".into()),
    };
    finding(
        "GRPO-λ (recent) reaches 90 % of J* with less than GRPO",
        verdict,
        format!(
            "spent until J >= 0.9 J*, as a share of the budget, a run that does not get there counting 1 (mean over tasks of the IQM), and share of runs that get there: {}",
            who.into_iter().map(of).collect::<Vec<_>>().join("; ")
        ),
    )
}

/// Exact values against values from completions.
fn values(r: &Ranking) -> Finding {
    let mut numbers = Vec::new();
    let (mut pays, mut all) = (Vec::new(), 0);
    for (c, competitor) in r.field.competitors.iter().enumerate() {
        if !matches!(competitor.knowledge, Knowledge::Completions(_)) {
            continue;
        }
        let same = |c: &Competitor| (c.entrant.method, c.entrant.settings);
        let exact = |o: &Competitor| o.knowledge == Knowledge::Oracle && o.entrant.source == Source::Table;
        let oracle = r.field.competitors.iter().position(|o| exact(o) && same(o) == same(competitor));
        let gain = |c: usize, axis: Spent| interval(r.standings[axis as usize][c].gain);
        for axis in Spent::ALL {
            all += 1;
            if r.standings[axis as usize][c].sign() > 0 {
                pays.push(format!("{} against {}", competitor.name(), axis.name()));
            }
        }
        numbers.push(format!(
            "{} {} (responses), {} (tokens); exact and free {}, {}",
            competitor.name(),
            gain(c, Spent::Responses),
            gain(c, Spent::Tokens),
            oracle.map_or(String::new(), |o| gain(o, Spent::Responses)),
            oracle.map_or(String::new(), |o| gain(o, Spent::Tokens))
        ));
    }
    let verdict = match pays.len() {
        0 => Verdict::Fails("no method with paid values learns faster than GRPO on the same budget".into()),
        n if n == all => Verdict::Holds,
        _ => Verdict::HoldsWhen(pays.join(", ")),
    };
    finding(
        format!("Values from K = {COMPLETIONS} fresh completions pay for themselves"),
        verdict,
        format!("gain over GRPO in area: {}", numbers.join("; ")),
    )
}

fn cases(r: &Ranking, reading: usize) -> Vec<&Case> {
    r.why.cases.iter().filter(|case| case.reading == reading).collect()
}

fn names(cases: &[&&Case]) -> String {
    let of = |case: &&&Case| format!("{} ({:+.3})", case.task, case.gains[Regime::Tuned as usize].mid);
    if cases.is_empty() { "none".into() } else { cases.iter().map(of).collect::<Vec<_>>().join(", ") }
}

/// Wins, ties and losses per task.
fn per_task(r: &Ranking) -> Finding {
    let mut numbers = Vec::new();
    let mut losses = Vec::new();
    for (i, name) in READINGS.iter().enumerate() {
        let all = cases(r, i);
        let sign = |case: &Case| match case.p_holm <= 0.05 {
            true if case.gains[0].mid > 0.0 => 1,
            true if case.gains[0].mid < 0.0 => -1,
            _ => 0,
        };
        let of = |wanted: i8| all.iter().filter(|case| sign(case) == wanted).collect::<Vec<_>>();
        let (won, lost) = (of(1), of(-1));
        let ties = all.len() - won.len() - lost.len();
        numbers.push(format!(
            "{name}: wins {}; loses {}; ties {ties} of {}",
            names(&won),
            names(&lost),
            all.len()
        ));
        if !lost.is_empty() {
            losses.push(format!(
                "{name} wins {}, loses {}, ties {ties} of {}",
                won.len(),
                lost.len(),
                all.len()
            ));
        }
    }
    finding(
        "GRPO-λ loses to GRPO on no task, each at its own best rate",
        if losses.is_empty() { Verdict::Holds } else { Verdict::Fails(losses.join("; ")) },
        format!(
            "paired permutation tests, Holm-corrected over the tasks of a reading: {}",
            numbers.join(". ")
        ),
    )
}

/// The mean over tasks with its interval over draws of tasks.
fn mean_gain(r: &Ranking, cases: &[&Case], regime: Regime) -> Option<Interval> {
    let mids = cases.iter().map(|case| case.gains[regime as usize].mid).collect();
    r.bootstrap.interval(&[mids], |drawn| drawn[0].iter().sum::<f64>() / drawn[0].len() as f64)
}

/// How much of a gain at a small equal rate is the length of the step.
fn step_size(r: &Ranking) -> Finding {
    let mut numbers = Vec::new();
    let (mut gain_there, mut gone, mut kept) = (0, Vec::new(), Vec::new());
    for (i, name) in READINGS.iter().enumerate() {
        let all = cases(r, i);
        let ratios: Vec<f64> = all.iter().map(|case| case.quantities[2]).collect();
        let of = |regime| mean_gain(r, &all, regime);
        let said = |regime| of(regime).map_or(String::from("unknown"), interval);
        if of(Regime::Cautious).is_some_and(|g| g.low > 0.0) {
            gain_there += 1;
            let above = |regime| of(regime).is_some_and(|g| g.low > 0.0);
            if above(Regime::CautiousUnit) || above(Regime::Tuned) {
                kept.push(*name)
            } else {
                gone.push(*name)
            }
        }
        numbers.push(format!(
            "{name}: |E[g]| is {:.1} times GRPO's (geometric mean; {:.1} to {:.1}); mean gain at a sixteenth of GRPO's best rate {}, there with mean weight 1 {}, at GRPO's best rate {}, there with mean weight 1 {}, each at its best {}, at its best with mean weight 1 {}",
            (ratios.iter().sum::<f64>() / ratios.len() as f64).exp2(),
            ratios.iter().copied().fold(f64::INFINITY, f64::min).exp2(),
            ratios.iter().copied().fold(f64::NEG_INFINITY, f64::max).exp2(),
            said(Regime::Cautious),
            said(Regime::CautiousUnit),
            said(Regime::Equal),
            said(Regime::EqualUnit),
            said(Regime::Tuned),
            said(Regime::TunedUnit)
        ));
    }
    let verdict = match (gain_there, kept.is_empty()) {
        (0, _) => Verdict::Fails("no reading gains at a small equal rate, averaged over tasks".into()),
        (n, true) if n == READINGS.len() => Verdict::Holds,
        (_, true) => {
            Verdict::HoldsWhen(format!("it gains there at all: {}; the others do not", gone.join(", ")))
        }
        (_, false) => Verdict::Fails(format!("{} keep a gain", kept.join(", "))),
    };
    finding(
        "What GRPO-λ gains at a small equal rate it gains by a longer step: nothing is left with weights of mean 1, nor at own best rates",
        verdict,
        format!("mean over tasks, 95 % over draws of tasks: {}", numbers.join(". ")),
    )
}

/// Whether clamp and trace alone add up to both together.
fn clamp(r: &Ranking) -> Finding {
    let mut numbers = Vec::new();
    let mut most = true;
    for (with, without) in [(0, 2), (1, 3)] {
        let (both, trace) = (cases(r, with), cases(r, without));
        // Tasks on which a quantity is not defined are missing from both.
        let pairs: Vec<(&&Case, &&Case)> =
            both.iter().filter_map(|b| Some((b, trace.iter().find(|t| t.task == b.task)?))).collect();
        let n = pairs.len() as f64;
        let mean = |of: &dyn Fn(&Case, &Case) -> f64| pairs.iter().map(|(b, t)| of(b, t)).sum::<f64>() / n;
        let gain = |case: &Case| case.gains[Regime::Tuned as usize].mid;
        let rest = |b: &Case, t: &Case| gain(b) - b.quantities[9] - gain(t);
        let rms = |of: &dyn Fn(&Case, &Case) -> f64| mean(&|b, t| of(b, t).powi(2)).sqrt();
        most &= rms(&|b, _| b.quantities[9]) > rms(&|_, t| gain(t));
        numbers.push(format!(
            "{}: mean gain {:+.3}, {CLAMP} {:+.3}, {} {:+.3}; root mean square {:.3}, {:.3}, {:.3}, and of what does not add up {:.3}",
            READINGS[with],
            mean(&|b, _| gain(b)),
            mean(&|b, _| b.quantities[9]),
            READINGS[without],
            mean(&|_, t| gain(t)),
            rms(&|b, _| gain(b)),
            rms(&|b, _| b.quantities[9]),
            rms(&|_, t| gain(t)),
            rms(&rest)
        ));
    }
    let numbers =
        format!("each at its own best rate, over {} tasks: {}", cases(r, 0).len(), numbers.join(". "));
    finding(
        "Of what GRPO-λ gains or loses per task, the clamp alone moves more than the trace alone",
        if most { Verdict::Holds } else { Verdict::Fails(numbers.clone()) },
        numbers,
    )
}

fn correlations(r: &Ranking, regime: Regime) -> impl Iterator<Item = &Correlation> {
    r.why.correlations.iter().filter(move |c| c.reading == 0 && c.regime == regime)
}

fn said(c: &Correlation) -> String {
    let signed = QUANTITIES[c.quantity].signed;
    let signs = match (signed, c.against.is_empty()) {
        (false, _) => String::new(),
        (true, true) => format!(", sign right on {} of {}", c.agree.0, c.agree.1),
        (true, false) => {
            let mut against = c.against.clone();
            let more = against.len().saturating_sub(4);
            against.truncate(4);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!(", sign right on {} of {}, wrong on {}{more}", c.agree.0, c.agree.1, against.join(", "))
        }
    };
    format!(
        "{} rho {:+.2} [{:+.2}, {:+.2}], Holm p {}{signs}",
        QUANTITIES[c.quantity].name,
        c.rho.mid,
        c.rho.low,
        c.rho.high,
        p(c.p_holm)
    )
}

/// Quantities that take training to know.
const MEASURED: [&str; 2] = ["clamp_gain", "final_gain"];

/// The quantities known before training.
fn explained(r: &Ranking) -> Finding {
    let before = |c: &&Correlation| !MEASURED.contains(&QUANTITIES[c.quantity].name);
    let all: Vec<&Correlation> = correlations(r, Regime::Tuned).filter(before).collect();
    let yes: Vec<String> = all.iter().filter(|c| c.explains()).map(|c| said(c)).collect();
    let no: Vec<String> = all.iter().filter(|c| !c.explains()).map(|c| said(c)).collect();
    let verdict = if yes.is_empty() {
        Verdict::Fails("no exact quantity of the first update goes with the gain".into())
    } else {
        Verdict::HoldsWhen(format!("by {}", yes.join("; ")))
    };
    finding(
        format!(
            "Exact quantities of the update, known before training, say on which tasks {} gains, each at its own best rate",
            READINGS[0]
        ),
        verdict,
        format!(
            "Spearman's correlation over {} tasks with its 95 % interval, permutation p corrected over quantities. Explain: {}. Do not: {}",
            all.first().map_or(0, |c| c.tasks),
            list(&yes),
            list(&no)
        ),
    )
}

/// The same at equal rates, and the clamp's own gain.
fn by_hindsight(r: &Ranking) -> Finding {
    let of =
        |regime: Regime, name: &str| correlations(r, regime).find(|c| QUANTITIES[c.quantity].name == name);
    let step = of(Regime::Cautious, "log2_step");
    let others = [
        ("each at its best", of(Regime::Tuned, "clamp_gain")),
        ("each at its best", of(Regime::Tuned, "final_gain")),
        ("at a sixteenth of GRPO's best rate", of(Regime::Cautious, "cosine")),
        ("at GRPO's best rate", of(Regime::Equal, "log2_step")),
        ("at GRPO's best rate", of(Regime::Equal, "cosine")),
    ];
    let text: Vec<String> =
        others.into_iter().filter_map(|(at, c)| Some(format!("{at}: {}", said(c?)))).collect();
    let numbers = format!(
        "at a sixteenth of GRPO's best rate: {}; {}",
        step.map_or(String::from("unknown"), said),
        text.join("; ")
    );
    finding(
        format!(
            "At a small equal rate the gain of {} goes with the length of its step over tasks",
            READINGS[0]
        ),
        match step {
            Some(c) if c.explains() && c.rho.mid > 0.0 => Verdict::Holds,
            Some(c) => Verdict::Fails(said(c)),
            None => Verdict::Fails("unknown".into()),
        },
        numbers,
    )
}

fn grid(r: &Ranking) -> Finding {
    let all: Vec<_> = r.field.choices.iter().flatten().collect();
    let widened = all.iter().filter(|choice| choice.widened > 0).count();
    let mut edges = Vec::new();
    for (c, row) in r.field.choices.iter().enumerate() {
        for (t, choice) in row.iter().enumerate().filter(|(_, choice)| choice.at_edge) {
            edges.push(format!(
                "{} on {} ({})",
                r.name(c),
                r.field.tasks[t].name,
                significant(choice.rate, 3)
            ));
        }
    }
    let g = r.effort.grid;
    finding(
        "Every best learning rate lies inside the grid that was tried",
        match edges.len() {
            0 => Verdict::Holds,
            n => Verdict::HoldsWhen(format!("apart from {n} of {} choices: {}", all.len(), edges.join(", "))),
        },
        format!(
            "2^{} to 2^{}, {} rate(s) per doubling, {} selection runs per rate on streams that are not reported, the smallest rate within 0.005 of the best mean area against responses; {widened} of {} grids widened",
            g.low,
            g.high,
            g.per_octave,
            g.seeds,
            all.len()
        ),
    )
}

fn everyone(r: &Ranking) -> Finding {
    let reasons: Vec<String> =
        r.excluded.iter().map(|e| format!("{}: {}", e.entrant.name, e.reason)).collect();
    finding(
        "Every entrant of the atlas can learn on a table",
        if reasons.is_empty() { Verdict::Holds } else { Verdict::Fails(reasons.join("; ")) },
        format!(
            "{} competitors of {} entrants (those that need values take part twice); tasks with rewards 0 or 1, so that the teacher of RLSD is defined; one group of {GROUP} and one step per update, so that clipping never binds and methods that differ between prompts or off policy only coincide",
            r.field.competitors.len(),
            crate::atlas::entrants::ENTRANTS.len()
        ),
    )
}

fn titles(r: &Ranking) -> Titles {
    let at = |c: usize, axis: Spent| &r.standings[axis as usize][c];
    let faster: Vec<usize> =
        r.order.iter().copied().filter(|&c| at(c, Spent::Responses).sign() > 0).collect();
    let free = |c: &usize| r.field.competitors[*c].knowledge == Knowledge::Oracle;
    let beyond = if faster.is_empty() {
        "No method learns faster than GRPO beyond noise".to_owned()
    } else if faster.iter().all(free) {
        "Beyond noise only methods with free values from the oracle learn faster than GRPO".to_owned()
    } else {
        let names: Vec<String> = faster.iter().filter(|c| !free(c)).map(|&c| r.name(c)).collect();
        format!("Faster than GRPO beyond noise, without free values: {}", names.join(", "))
    };
    let ranking = match readings(r).first() {
        Some(&reading) => {
            let s = at(reading, Spent::Responses);
            let (low, high) = (s.rank.low.round(), s.rank.high.round());
            let all = r.field.competitors.len();
            format!(
                "{beyond}; {} is {} ({}), place {low} to {high} of {all}",
                READINGS[0],
                word(s.sign()),
                interval(s.gain)
            )
        }
        None => beyond,
    };
    let drawn = super::figures::drawn(r);
    let paid = |&c: &usize| matches!(r.field.competitors[c].knowledge, Knowledge::Completions(_));
    let curves = match drawn.iter().copied().find(|c| paid(c)) {
        Some(c) => {
            let others = drawn.iter().filter(|&&d| d != c);
            let apart = others.map(|&d| at(d, Spent::Responses).gain.mid.abs()).fold(0.0, f64::max);
            format!(
                "{} pays for its completions: {:+.3} in area against responses, {:+.3} against tokens; the other five are within {apart:.3} of GRPO",
                r.name(c),
                at(c, Spent::Responses).gain.mid,
                at(c, Spent::Tokens).gain.mid
            )
        }
        None => "Learning curves".into(),
    };
    let explain = |measured: bool| -> Vec<&str> {
        let found = correlations(r, Regime::Tuned).filter(|c| c.explains());
        let names = found.map(|c| QUANTITIES[c.quantity].name);
        names.filter(|name| MEASURED.contains(name) == measured).collect()
    };
    let (before, after) = (explain(false), explain(true));
    let mut why = match before.is_empty() {
        true => {
            format!("Tuned, no exact quantity of the first update tells where {} beats GRPO", READINGS[0])
        }
        false => format!("Tuned, where {} gains over GRPO goes with {}", READINGS[0], before.join(", ")),
    };
    if !after.is_empty() {
        let words = after.iter().map(|name| match *name {
            "clamp_gain" => "what the clamp alone does",
            _ => "where the runs end",
        });
        why += &format!("; {} does", words.collect::<Vec<_>>().join(" and "));
    }
    Titles { ranking, curves, why }
}
