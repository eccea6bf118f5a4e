//! What the numbers say, in words.

use grpo_lambda::stats::Interval;
use grpo_lambda::table::significant;
use grpo_lambda::trace::{Both, Recent};

use super::exact::{credit, first_update, mean_weight};
use super::reading::{BASELINE, PAPER};
use super::scores::{Overall, Regime};
use super::{Comparison, UNIT};
use crate::experiment::{Finding, Verdict};

/// Findings, and the figures' titles.
pub(super) struct Verdicts {
    pub(super) findings: Vec<Finding>,
    pub(super) titles: Titles,
}

/// A title per figure.
pub(super) struct Titles {
    pub(super) cautious: String,
    pub(super) own_best: String,
    pub(super) forest: String,
    pub(super) map: String,
    pub(super) sweep: String,
}

/// What a comparison says, by the intervals of the gain over all MDPs and on each.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sign {
    Better,
    /// Not better on average, but better on more MDPs than worse.
    Mixed,
    Tie,
    Worse,
}

impl Sign {
    fn of(o: &Overall) -> Sign {
        match o.gain {
            g if g.low > 0.0 => Sign::Better,
            g if g.high >= 0.0 => Sign::Tie,
            _ if o.better.len() > o.worse.len() => Sign::Mixed,
            _ => Sign::Worse,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Sign::Better => "beats",
            Sign::Mixed => "wins more MDPs than it loses but on average trails",
            Sign::Tie => "ties with",
            Sign::Worse => "loses to",
        }
    }
}

/// How a regime is named in a sentence.
fn at(regime: Regime) -> &'static str {
    match regime {
        Regime::Equal => "at GRPO's best rate",
        Regime::Cautious => "at a sixteenth of GRPO's best rate",
        Regime::OwnBest => "each at its own best rate",
        Regime::UnitMean => "with weights of mean 1",
    }
}

fn signed(x: f64) -> String {
    format!("{x:+.3}")
}

fn interval(i: Interval) -> String {
    format!("{} [{}, {}]", signed(i.mid), signed(i.low), signed(i.high))
}

fn names(c: &Comparison, tasks: &[usize]) -> String {
    if tasks.is_empty() {
        return "none".into();
    }
    tasks.iter().map(|&t| c.tasks[t].name.as_str()).collect::<Vec<_>>().join(", ")
}

/// A reading against GRPO, by name; every reading named here has a place in every regime asked for.
fn against<'a>(c: &'a Comparison, regime: Regime, name: &str) -> &'a Overall {
    c.overall(regime, c.index(name)).expect("the reading has a place in the regime")
}

fn numbers(c: &Comparison, name: &str, o: &Overall) -> String {
    format!(
        "{name}: area {:.3} against {:.3}, gain {} ({:+.1} %), P(better run) {:.2} [{:.2}, {:.2}], better on {} ({}), worse on {} ({}) of {} MDPs",
        o.area.mid,
        o.area.mid - o.gain.mid,
        interval(o.gain),
        o.percent.mid,
        o.improvement.mid,
        o.improvement.low,
        o.improvement.high,
        o.better.len(),
        names(c, &o.better),
        o.worse.len(),
        names(c, &o.worse),
        c.tasks.len()
    )
}

/// The paper's two readings under a regime: verdict, numbers, and the less favourable sign.
fn paper_under(c: &Comparison, regime: Regime) -> (Finding, Sign) {
    let both = PAPER.map(|name| (name, against(c, regime, name)));
    let signs = both.map(|(_, o)| Sign::of(o));
    let order = [Sign::Worse, Sign::Tie, Sign::Mixed, Sign::Better];
    let sign = order.into_iter().find(|s| signs.contains(s)).unwrap_or(Sign::Tie);
    let (better, worse) = (names(c, &both[0].1.better), names(c, &both[0].1.worse));
    let gains = both.map(|(name, o)| format!("{name} {}", interval(o.gain))).join(", ");
    let verdict = match sign {
        Sign::Better if both.iter().all(|(_, o)| o.worse.is_empty()) => Verdict::Holds,
        Sign::Better => Verdict::HoldsWhen(format!("averaged over MDPs; worse on {worse}")),
        Sign::Mixed => {
            Verdict::HoldsWhen(format!("on {better} only; worse on {worse} and on average: {gains}"))
        }
        Sign::Tie | Sign::Worse => {
            Verdict::Fails(format!("{}: {gains}", if sign == Sign::Tie { "a tie" } else { "worse" }))
        }
    };
    let finding = Finding {
        statement: format!(
            "GRPO-λ as in the paper (recent|both, trace, λ = .99, clamp -0.1) beats GRPO {}",
            at(regime)
        ),
        verdict,
        numbers: both.map(|(name, o)| numbers(c, name, o)).join("; "),
    };
    (finding, sign)
}

/// All findings.
pub(super) fn of(c: &Comparison) -> Verdicts {
    let (under, signs): (Vec<Finding>, Vec<Sign>) = Regime::ALL.iter().map(|&r| paper_under(c, r)).unzip();
    let mut findings = vec![headline(c, &under, &signs)];
    findings.extend(under);
    findings.extend([gap(c), regardless(c), step_size(c), clamp(c), direction(c), inversion(c), grid(c)]);
    Verdicts { titles: titles(c, &signs), findings }
}

fn headline(c: &Comparison, under: &[Finding], signs: &[Sign]) -> Finding {
    let list = |sign: Sign| {
        let named = Regime::ALL.iter().zip(signs).filter(|(_, s)| **s == sign).map(|(r, _)| at(*r));
        named.collect::<Vec<_>>().join(", ")
    };
    let rest = [(Sign::Mixed, "mixed"), (Sign::Tie, "no clear difference"), (Sign::Worse, "worse")]
        .into_iter()
        .filter(|(s, _)| signs.contains(s))
        .map(|(s, word)| format!("{word} {}", list(s)))
        .collect::<Vec<_>>()
        .join("; ");
    let verdict = if under.iter().all(|f| f.verdict == Verdict::Holds) {
        Verdict::Holds
    } else if signs.contains(&Sign::Better) {
        let but = if rest.is_empty() { "on average over MDPs, not on each".to_owned() } else { rest };
        Verdict::HoldsWhen(format!("faster {}; {but}", list(Sign::Better)))
    } else {
        Verdict::Fails(rest)
    };
    let gains = Regime::ALL.iter().map(|&regime| {
        let of = |name| against(c, regime, name).percent.mid;
        format!("{}: {:+.1} % recent, {:+.1} % both", at(regime), of(PAPER[0]), of(PAPER[1]))
    });
    Finding {
        statement: "\"GRPO-λ learns faster and improves 30-40% better than GRPO\" (contributions)".into(),
        verdict,
        numbers: format!(
            "area under J/J* over {} MDPs, {} runs each, paper's 30-40 % against ours {}",
            c.tasks.len(),
            c.runs,
            gains.collect::<Vec<_>>().join("; ")
        ),
    }
}

/// The 16 readings of the paper against GRPO under a regime.
fn sixteen(c: &Comparison, regime: Regime) -> Vec<&Overall> {
    (0..c.readings.len()).filter(|&r| c.readings[r].of_paper).filter_map(|r| c.overall(regime, r)).collect()
}

fn gap(c: &Comparison) -> Finding {
    let mut inside = Vec::new();
    let mut numbers = Vec::new();
    for regime in Regime::ALL {
        let gains = sixteen(c, regime);
        let mean = gains.iter().map(|o| o.percent.mid).sum::<f64>() / gains.len() as f64;
        numbers.push(format!("{} {mean:+.1} %", at(regime)));
        if mean >= 20.0 {
            inside.push(at(regime));
        }
    }
    let verdict = match inside.len() {
        0 => Verdict::Fails(format!("average gap of the 16 readings: {}", numbers.join(", "))),
        4 => Verdict::Holds,
        _ => Verdict::HoldsWhen(inside.join(", ")),
    };
    Finding {
        statement: "\"the average gap between the different variants of GRPO-λ and GRPO to be around 20-50%\" (section 4.2)".into(),
        verdict,
        numbers: format!("paper 20-50 %; ours, mean over the 16 readings: {}", numbers.join(", ")),
    }
}

fn regardless(c: &Comparison) -> Finding {
    let mut all_better = true;
    let mut numbers = Vec::new();
    for regime in Regime::ALL {
        let gains = sixteen(c, regime);
        let better = gains.iter().filter(|o| o.gain.low > 0.0).count();
        let worse = gains.iter().filter(|o| o.gain.high < 0.0).count();
        all_better &= better == gains.len();
        numbers.push(format!("{}: {better} better, {worse} worse", at(regime)));
    }
    let numbers = format!("of 16 readings (style, update, λ .99|.9, clamp on|off), {}", numbers.join("; "));
    Finding {
        statement: "\"regardless of the value for λ, the weighting update (ϵ-trace, ϵ-weight) or the type of trace (both, recent) used, GRPO-λ has a higher training accuracy than GRPO\" (appendix C)".into(),
        verdict: if all_better { Verdict::Holds } else { Verdict::Fails(numbers.clone()) },
        numbers,
    }
}

/// How much of the gain at a cautious rate is step size.
fn step_size(c: &Comparison) -> Finding {
    let mean = |of: &dyn Fn(usize) -> f64| (0..c.tasks.len()).map(of).sum::<f64>() / c.tasks.len() as f64;
    let [recent, both] = [
        mean(&|t| mean_weight(&c.tasks[t], &Recent { q: 0.99 })),
        mean(&|t| mean_weight(&c.tasks[t], &Both { q: 0.99 })),
    ];
    let ratio = |t: usize| c.choices[0][t].rate / c.choices[c.index(PAPER[0])][t].rate;
    let gain = |regime, name| against(c, regime, name).gain.mid;
    let [cautious, own, unit] =
        [Regime::Cautious, Regime::OwnBest, Regime::UnitMean].map(|r| gain(r, PAPER[0]));
    let larger = cautious > own.max(unit);
    let ratios: Vec<String> =
        (0..c.tasks.len()).map(|t| format!("{} {}", c.tasks[t].name, significant(ratio(t), 2))).collect();
    let numbers = format!(
        "mean weight c̄ {recent:.1} recent, {both:.1} both; GRPO's best rate over that of {}: {}; its gain {cautious:+.3} at a sixteenth of GRPO's best rate (RLOO, without any trace: {:+.3}), {own:+.3} at own best rates, {unit:+.3} with mean weight 1",
        PAPER[0],
        ratios.join(", "),
        gain(Regime::Cautious, "RLOO")
    );
    Finding {
        statement: "The advantage of GRPO-λ at a small equal rate is a larger step, not better credit (ours)"
            .into(),
        verdict: if larger { Verdict::Holds } else { Verdict::Fails(numbers.clone()) },
        numbers,
    }
}

fn clamp(c: &Comparison) -> Finding {
    let list = ["GRPO clamped", PAPER[0], "recent trace .99 unclamped", PAPER[1], "both trace .99 unclamped"];
    let found = list.map(|name| (name, against(c, Regime::OwnBest, name)));
    let helps = found[0].1.gain.low > 0.0 && found[1].1.gain.mid > found[2].1.gain.mid;
    let numbers = found.map(|(name, o)| format!("{name} {}", interval(o.gain))).join("; ");
    let numbers = format!("gain over GRPO, each at its own best rate: {numbers}");
    Finding {
        statement: "Clamping advantages at -0.1 helps learning (the paper: it avoids an explosion of the KL; the effect on learning is ours to ask)".into(),
        verdict: if helps { Verdict::Holds } else { Verdict::Fails(numbers.clone()) },
        numbers,
    }
}

/// Where the exact first update points.
fn direction(c: &Comparison) -> Finding {
    let paper = c.index(PAPER[0]);
    let unit = |t: usize| {
        let update = first_update(&c.tasks[t], &c.readings[paper], true).ok().flatten();
        update.map_or(f64::NAN, |e| e.cosine)
    };
    let cosine = |r: usize, t: usize| c.exact[r][t].map_or(f64::NAN, |e| e.cosine);
    let last =
        |r: usize, t: usize| c.scores.point(Regime::OwnBest, r, t..t + 1, |run| run.last).unwrap_or(f64::NAN);
    let clamped = c.index("GRPO clamped");
    let per: Vec<String> = (0..c.tasks.len())
        .map(|t| {
            format!(
                "{} {:.2} / {:.2} / {:.2} / {:.2}, final {:.3} against {:.3}",
                c.tasks[t].name,
                cosine(0, t),
                cosine(clamped, t),
                cosine(paper, t),
                unit(t),
                last(paper, t),
                last(0, t)
            )
        })
        .collect();
    let lower: Vec<usize> = (0..c.tasks.len()).filter(|&t| cosine(paper, t) < cosine(0, t) - 1e-9).collect();
    let numbers = format!(
        "cosine of the exact first update with ∇J: GRPO / GRPO clamped / {} / the same with mean weight 1; final J/J* at own best rates: {}",
        PAPER[0],
        per.join("; ")
    );
    let verdict = if lower.is_empty() {
        Verdict::Holds
    } else {
        let worst = lower.iter().copied().min_by(|&a, &b| cosine(paper, a).total_cmp(&cosine(paper, b)));
        let worst = worst.map_or(String::new(), |t| {
            format!(
                "lowest on {}: {:.3} against GRPO's {:.3}",
                c.tasks[t].name,
                cosine(paper, t),
                cosine(0, t)
            )
        });
        Verdict::Fails(format!(
            "further from ∇J than GRPO on {} of {} MDPs, {worst}",
            lower.len(),
            c.tasks.len()
        ))
    };
    Finding {
        statement: "GRPO-λ's expected first update is at least as close to ∇J as GRPO's (\"enhances credit assignment\")".into(),
        verdict,
        numbers,
    }
}

/// Why GRPO-lambda settles on the longer, worse answer of `fork`.
fn inversion(c: &Comparison) -> Finding {
    let task = &c.tasks[0];
    let credit = |name: &str| credit(task, &c.readings[c.index(name)]).unwrap_or_else(|_| vec![f64::NAN; 2]);
    let of = |name: &str| (name.to_owned(), credit(name));
    let all = [BASELINE, "GRPO clamped", "RLOO", PAPER[0], PAPER[1], "recent trace .99 terminal"].map(of);
    let last =
        |name: &str| c.scores.point(Regime::OwnBest, c.index(name), 0..1, |run| run.last).unwrap_or(f64::NAN);
    let list = all
        .iter()
        .map(|(name, w)| format!("{name} {:.3} short, {:.3} long, final {:.3}", w[0], w[1], last(name)));
    let numbers = format!(
        "fork (short: T = 2, Q = 0.9; long: T = 50, Q = 0.8), exact implied credit of the choice under the initial policy and final J/J* at own best rate (the long answer is {:.3}): {}",
        0.8 / task.best,
        list.collect::<Vec<_>>().join("; ")
    );
    let paper = &all[3].1;
    Finding {
        statement: "GRPO-λ prefers the better of two answers whatever their lengths (ours)".into(),
        verdict: if paper[0] > paper[1] {
            Verdict::Holds
        } else {
            Verdict::Fails(format!(
                "on fork the long, worse answer gets credit {:.2}, the short, better one {:.2}; runs end at {:.3} J*",
                paper[1],
                paper[0],
                last(PAPER[0])
            ))
        },
        numbers,
    }
}

fn grid(c: &Comparison) -> Finding {
    let all: Vec<_> = c.choices.iter().flatten().collect();
    let edge = all.iter().filter(|x| x.at_edge).count();
    let widened = all.iter().filter(|x| x.widened > 0).count();
    let g = c.grid;
    let numbers = format!(
        "grid 2^{} to 2^{}, {} rate(s) per doubling, {} selection runs per rate with streams of their own; {widened} of {} grids widened, {edge} best rates still at an end",
        g.low,
        g.high,
        g.per_octave,
        g.seeds,
        all.len()
    );
    Finding {
        statement: "Every best learning rate lies inside the grid that was tried (ours)".into(),
        verdict: match edge {
            0 => Verdict::Holds,
            n => Verdict::HoldsWhen(format!("apart from {n} of {} choices", all.len())),
        },
        numbers,
    }
}

fn titles(c: &Comparison, signs: &[Sign]) -> Titles {
    let words = |r: Regime| {
        let gain = |name| against(c, r, name).gain.mid;
        format!(
            "{} GRPO: {:+.3} (recent), {:+.3} (both) in area under J/J*",
            signs[r as usize].word(),
            gain(PAPER[0]),
            gain(PAPER[1])
        )
    };
    let count = |r: Regime| {
        let o = against(c, r, PAPER[0]);
        format!("wins {} and loses {}", o.better.len(), o.worse.len())
    };
    let curves = c.sweeps();
    let curve = |name: &str| curves.iter().find(|(n, _)| n == name).map_or(&[][..], |(_, points)| points);
    let top = |name: &str| curve(name).iter().map(|p| p.1).fold(f64::NAN, f64::max);
    // Better than GRPO at small rates, not at the best one, and with mean weight 1 nowhere on the way there.
    let small = |name: &str| curve(name).first().map_or(f64::NAN, |p| p.1);
    let unit = format!("{}{UNIT}", PAPER[0]);
    let step =
        small(PAPER[0]) > small(BASELINE) && small(&unit) < small(BASELINE) && top(PAPER[0]) < top(BASELINE);
    let unit_mean = signs[Regime::UnitMean as usize];
    let with_unit_mean = if unit_mean == signs[Regime::OwnBest as usize] {
        " and with weights of mean 1".to_owned()
    } else {
        format!(" and {} it with weights of mean 1", unit_mean.word())
    };
    Titles {
        cautious: format!("At a small equal learning rate GRPO-λ {}", words(Regime::Cautious)),
        own_best: format!("Each at its own best rate, GRPO-λ {}", words(Regime::OwnBest)),
        forest: format!(
            "GRPO-λ {} GRPO at a small equal rate, {} it at own best rates{with_unit_mean}",
            signs[Regime::Cautious as usize].word(),
            signs[Regime::OwnBest as usize].word(),
        ),
        map: format!(
            "GRPO-λ (recent trace .99) {} of {} MDPs at GRPO's best rate; each at its own best rate it {}",
            count(Regime::Equal),
            c.tasks.len(),
            count(Regime::OwnBest)
        ),
        sweep: if step {
            "GRPO-λ beats GRPO at small learning rates only: its trace is a larger step, not better credit"
                .into()
        } else {
            format!("Tuned, GRPO-λ reaches {:.3} of the best area, GRPO {:.3}", top(PAPER[0]), top(BASELINE))
        },
    }
}
