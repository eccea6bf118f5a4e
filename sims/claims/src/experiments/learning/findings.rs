//! Findings: GRPO-lambda against GRPO at different learning rates, and causes of gains and losses.

use super::measure::Comparison;
use super::reading::PAPER;
use super::scores::{Overall, Regime};
use crate::experiment::{Finding, Verdict};
use crate::experiments::common::{self, finding, holds_or, holds_when, interval, list};
use grpo_lambda_mdp::expected;
use grpo_lambda_stats::table::significant;

/// All findings; the first is the headline.
pub(super) fn findings(c: &Comparison) -> Vec<Finding> {
    let mut findings = vec![headline(c)];
    findings.extend(Regime::ALL.map(|regime| paper_under(c, regime)));
    findings.extend([gap(c), regardless(c), step_size(c), clamp(c), direction(c), inversion(c), grid(c)]);
    findings
}

/// The sign of a gain with the tasks as the sample, and over runs on these tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    Better,
    /// Clear over runs on these tasks, but not shown for tasks like these.
    TheseTasks,
    Tie,
    Worse,
}

impl Sign {
    fn new(o: &Overall) -> Sign {
        match o.gain {
            _ if o.over_tasks.positive() => Sign::Better,
            _ if o.over_tasks.negative() => Sign::Worse,
            g if g.low > 0.0 || g.high < 0.0 => Sign::TheseTasks,
            _ => Sign::Tie,
        }
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Sign::Better => "beats",
            Sign::TheseTasks | Sign::Tie => "is not told from",
            Sign::Worse => "loses to",
        }
    }
}

/// A regime's name in a sentence.
fn at(regime: Regime) -> &'static str {
    match regime {
        Regime::Equal => "at GRPO's best rate",
        Regime::Cautious => "at a sixteenth of GRPO's best rate",
        Regime::OwnBest => "each at its own best rate",
        Regime::UnitMean => "with weights of mean 1",
    }
}

/// The less favourable sign of the paper's two readings under a regime.
pub(super) fn of_paper(c: &Comparison, regime: Regime) -> Sign {
    let signs = PAPER.map(|name| Sign::new(c.against(regime, name)));
    let order = [Sign::Worse, Sign::TheseTasks, Sign::Tie, Sign::Better];
    order.into_iter().find(|s| signs.contains(s)).unwrap_or(Sign::Tie)
}

fn names(c: &Comparison, tasks: &[usize]) -> String {
    list(&tasks.iter().map(|&t| c.tasks[t].name.as_str()).collect::<Vec<_>>())
}

/// A gain over GRPO with the tasks as the sample.
fn over_tasks(c: &Comparison, o: &Overall) -> String {
    common::over_tasks(&o.over_tasks, |task| c.tasks.get(task).map_or("?", |t| t.name.as_str()))
}

/// A reading against GRPO in full.
fn numbers(c: &Comparison, name: &str, o: &Overall) -> String {
    format!(
        "{name}: area {:.3} against {:.3}, gain over runs {} ({:+.1} %), over tasks {}, P(better run) {:.2} [{:.2}, {:.2}], better on {} ({}), worse on {} ({}) of {} MDPs",
        o.area.mid,
        o.area.mid - o.gain.mid,
        interval(o.gain),
        o.percent.mid,
        over_tasks(c, o),
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

/// The readings among the paper's two whose gain is shown under a regime, with the tasks as the sample.
fn gaining(c: &Comparison, regime: Regime) -> Vec<&'static str> {
    PAPER.into_iter().filter(|name| c.against(regime, name).over_tasks.positive()).collect()
}

/// The tasks of a kind under the paper's two readings; each reading is named where they differ.
fn tasks_of(c: &Comparison, both: [(&str, &Overall); 2], of: fn(&Overall) -> &Vec<usize>) -> String {
    if of(both[0].1) == of(both[1].1) {
        return names(c, of(both[0].1));
    }
    let some = both.iter().filter(|(_, o)| !of(o).is_empty());
    some.map(|(name, o)| format!("{} ({name})", names(c, of(o)))).collect::<Vec<_>>().join(" and ")
}

/// The paper's two readings under a regime.
fn paper_under(c: &Comparison, regime: Regime) -> Finding {
    let both = PAPER.map(|name| (name, c.against(regime, name)));
    let sign = of_paper(c, regime);
    let (better, worse) = (tasks_of(c, both, |o| &o.better), tasks_of(c, both, |o| &o.worse));
    let gains = both.map(|(name, o)| format!("{name} {}", over_tasks(c, o))).join(", ");
    let verdict = match sign {
        Sign::Better if both.iter().all(|(_, o)| o.worse.is_empty()) => Verdict::Holds,
        Sign::Better => Verdict::HoldsWhen(format!("averaged over MDPs; worse on {worse}")),
        Sign::TheseTasks | Sign::Tie => {
            let over = if sign == Sign::Tie { "" } else { " with the tasks as the sample" };
            let not = match gaining(c, regime).as_slice() {
                [] => format!("no difference is shown{over}"),
                some => format!("a gain is shown{over} for {} alone", list(some)),
            };
            let on = if sign == Sign::Tie {
                String::new()
            } else {
                format!("; of these tasks it is better on {better}, worse on {worse}")
            };
            Verdict::NotTold(format!("{not}: {gains}{on}"))
        }
        Sign::Worse => Verdict::Fails(format!("worse: {gains}")),
    };
    finding(
        format!("GRPO-λ as in the paper (recent|both, trace, λ = .99, clamp -0.1) beats GRPO {}", at(regime)),
        verdict,
        both.map(|(name, o)| numbers(c, name, o)).join("; "),
    )
}

fn headline(c: &Comparison) -> Finding {
    let signs = Regime::ALL.map(|regime| of_paper(c, regime));
    let list = |sign: Sign| {
        let named = Regime::ALL.iter().zip(signs).filter(|(_, s)| *s == sign).map(|(r, _)| at(*r));
        named.collect::<Vec<_>>().join(", ")
    };
    // What is said of a regime without a gain: one of the two readings may gain all the same.
    let word = |regime: Regime, sign: Sign| match sign {
        Sign::Better => None,
        Sign::Worse => Some("worse"),
        Sign::TheseTasks | Sign::Tie if !gaining(c, regime).is_empty() => {
            Some("a gain of one of the two readings alone is shown")
        }
        Sign::TheseTasks => Some("no difference is shown over tasks"),
        Sign::Tie => Some("no difference is shown"),
    };
    let mut said: Vec<(&str, Vec<&str>)> = Vec::new();
    for (regime, sign) in Regime::ALL.into_iter().zip(signs) {
        let Some(word) = word(regime, sign) else { continue };
        match said.iter_mut().find(|(w, _)| *w == word) {
            Some((_, places)) => places.push(at(regime)),
            None => said.push((word, vec![at(regime)])),
        }
    }
    let rest = said.iter().map(|(word, places)| format!("{word} {}", places.join(", ")));
    let rest = rest.collect::<Vec<_>>().join("; ");
    let verdict = if Regime::ALL.iter().all(|&r| paper_under(c, r).verdict == Verdict::Holds) {
        Verdict::Holds
    } else if signs.contains(&Sign::Better) {
        let but = if rest.is_empty() { "on average over MDPs, not on each".to_owned() } else { rest };
        Verdict::HoldsWhen(format!("faster {}; {but}", list(Sign::Better)))
    } else if signs.contains(&Sign::Worse) {
        Verdict::Fails(rest)
    } else {
        Verdict::NotTold(rest)
    };
    let gains = Regime::ALL.map(|regime| {
        let percent = |name| c.against(regime, name).percent.mid;
        format!("{}: {:+.1} % recent, {:+.1} % both", at(regime), percent(PAPER[0]), percent(PAPER[1]))
    });
    finding(
        "On small exact tasks GRPO-λ learns faster than GRPO, whichever the learning rate",
        verdict,
        format!(
            "area under J/J* over {} MDPs, {} runs each, plain SGD: {}",
            c.tasks.len(),
            c.runs,
            gains.join("; ")
        ),
    )
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
    finding(
        "On small exact tasks the average gap between the 16 readings of GRPO-λ and GRPO is 20 % or more, as section 4.2 reports of its training plots",
        verdict,
        format!("paper 20-50 %; ours, mean over the 16 readings: {}", numbers.join(", ")),
    )
}

fn regardless(c: &Comparison) -> Finding {
    let mut all_better = true;
    let mut numbers = Vec::new();
    for regime in Regime::ALL {
        let gains = sixteen(c, regime);
        let better = gains.iter().filter(|o| o.over_tasks.positive()).count();
        let worse = gains.iter().filter(|o| o.over_tasks.negative()).count();
        all_better &= better == gains.len();
        numbers.push(format!(
            "{}: {better} better, {worse} worse, {} without a sign over tasks",
            at(regime),
            gains.len() - better - worse
        ));
    }
    let numbers = format!("of 16 readings (style, update, λ .99|.9, clamp on|off), {}", numbers.join("; "));
    finding(
        "On small exact tasks every reading of GRPO-λ beats GRPO, whichever the learning rate",
        holds_or(all_better, numbers.clone()),
        numbers,
    )
}

/// The share of step size in the gain at a cautious rate.
fn step_size(c: &Comparison) -> Finding {
    let [recent, both] = c.exact.mean_weights;
    let ratio = |t: usize| c.choices[0][t].rate / c.choices[c.index(PAPER[0])][t].rate;
    let gain = |regime, name| c.against(regime, name).gain.mid;
    let [cautious, own, unit] =
        [Regime::Cautious, Regime::OwnBest, Regime::UnitMean].map(|r| gain(r, PAPER[0]));
    let ratios: Vec<String> =
        (0..c.tasks.len()).map(|t| format!("{} {}", c.tasks[t].name, significant(ratio(t), 2))).collect();
    let longer = cautious > own.max(unit);
    let gaining = gaining(c, Regime::Cautious);
    let shown = match gaining.as_slice() {
        [] => "no gain is shown".to_owned(),
        some => format!("a gain is shown for {} alone", list(some)),
    };
    let numbers = format!(
        "mean weight c̄ {recent:.1} recent, {both:.1} both; GRPO's best rate over that of {}: {}; its gain {cautious:+.3} at a sixteenth of GRPO's best rate (RLOO, without any trace: {:+.3}), {own:+.3} at own best rates, {unit:+.3} with mean weight 1",
        PAPER[0],
        ratios.join(", "),
        gain(Regime::Cautious, "RLOO")
    );
    finding(
        "Under plain SGD the advantage of GRPO-λ at a small equal rate is a larger step, not better credit",
        holds_when(
            longer && gaining.len() == PAPER.len(),
            longer,
            format!(
                "means over these tasks are compared; at the small rate, with the tasks as the sample, {shown}"
            ),
            numbers.clone(),
        ),
        numbers,
    )
}

pub(super) fn clamp(c: &Comparison) -> Finding {
    let list = ["GRPO clamped", PAPER[0], "recent trace .99 unclamped", PAPER[1], "both trace .99 unclamped"];
    let found = list.map(|name| (name, c.against(Regime::OwnBest, name)));
    let helps = found[0].1.over_tasks.positive() && found[1].1.gain.mid > found[2].1.gain.mid;
    let numbers = found.map(|(name, o)| format!("{name} {}", over_tasks(c, o))).join("; ");
    let unit = |name| over_tasks(c, c.against(Regime::UnitMean, name));
    let numbers = format!(
        "{numbers}. At GRPO's best rate with weights of mean 1: {} {}, of which GRPO clamped alone {}, the trace unclamped {}",
        PAPER[0],
        unit(PAPER[0]),
        over_tasks(c, c.against(Regime::Equal, "GRPO clamped")),
        unit("recent trace .99 unclamped")
    );
    let numbers =
        format!("gain over GRPO with its interval over tasks, each at its own best rate: {numbers}");
    finding("Clamping advantages at -0.1 helps learning", holds_or(helps, numbers.clone()), numbers)
}

fn cosine_of(update: Option<expected::Comparison>) -> f64 {
    update.map_or(f64::NAN, |e| e.cosine)
}

/// The direction of the exact first update.
fn direction(c: &Comparison) -> Finding {
    let (paper, clamped) = (c.index(PAPER[0]), c.index("GRPO clamped"));
    let cosine = |r: usize, t: usize| cosine_of(c.exact.updates[r][t]);
    let said = |t: usize| {
        format!(
            "{} {:.2} / {:.2} / {:.2} / {:.2}, final {:.3} against {:.3}",
            c.tasks[t].name,
            cosine(0, t),
            cosine(clamped, t),
            cosine(paper, t),
            cosine_of(c.exact.unit_updates[t]),
            c.last[paper][t],
            c.last[0][t]
        )
    };
    let lower: Vec<usize> = (0..c.tasks.len()).filter(|&t| cosine(paper, t) < cosine(0, t) - 1e-9).collect();
    let lowest = lower.iter().copied().min_by(|&a, &b| cosine(paper, a).total_cmp(&cosine(paper, b)));
    let verdict = match lowest {
        None => Verdict::Holds,
        Some(t) => Verdict::Fails(format!(
            "further from ∇J than GRPO on {} of {} MDPs, lowest on {}: {:.3} against GRPO's {:.3}",
            lower.len(),
            c.tasks.len(),
            c.tasks[t].name,
            cosine(paper, t),
            cosine(0, t)
        )),
    };
    finding(
        "GRPO-λ's expected first update is at least as close to ∇J as GRPO's",
        verdict,
        format!(
            "cosine of the exact first update with ∇J: GRPO / GRPO clamped / {} / the same with mean weight 1; final J/J* at own best rates: {}",
            PAPER[0],
            (0..c.tasks.len()).map(said).collect::<Vec<_>>().join("; ")
        ),
    )
}

/// Why GRPO-lambda settles on the longer, worse answer of `fork`.
fn inversion(c: &Comparison) -> Finding {
    let last = |name: &str| c.last[c.index(name)][0];
    let said = |(name, w): &(&str, Vec<f64>)| {
        format!("{name} {:.3} short, {:.3} long, final {:.3}", w[0], w[1], last(name))
    };
    let paper = c.exact.credits.iter().find(|(name, _)| *name == PAPER[0]);
    let (short, long) = paper.map_or((f64::NAN, f64::NAN), |(_, w)| (w[0], w[1]));
    finding(
        "GRPO-λ prefers the better of two answers whatever their lengths",
        holds_or(
            short > long,
            format!(
                "on fork the long, worse answer gets credit {long:.2}, the short, better one {short:.2}; runs end at {:.3} J*",
                last(PAPER[0])
            ),
        ),
        format!(
            "fork (short: T = 2, Q = 0.9; long: T = 50, Q = 0.8), exact implied credit of the choice under the initial policy and final J/J* at own best rate (the long answer is {:.3}): {}",
            0.8 / c.tasks[0].best,
            c.exact.credits.iter().map(said).collect::<Vec<_>>().join("; ")
        ),
    )
}

pub(super) fn grid(c: &Comparison) -> Finding {
    let all: Vec<_> = c.choices.iter().flatten().collect();
    let edge = all.iter().filter(|x| x.at_edge).count();
    let widened = all.iter().filter(|x| x.widened > 0).count();
    let g = c.grid;
    finding(
        "Every best learning rate lies inside the grid that was tried",
        match edge {
            0 => Verdict::Holds,
            n => Verdict::HoldsWhen(format!("apart from {n} of {} choices", all.len())),
        },
        format!(
            "grid 2^{} to 2^{}, {} rate(s) per doubling, {} selection runs per rate with streams of their own; {widened} of {} grids widened, {edge} best rates still at an end",
            g.low,
            g.high,
            g.per_octave,
            g.seeds,
            all.len()
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::common::words;
    use crate::experiments::learning::measure::{Exact, Size};
    use crate::experiments::learning::reading::readings;
    use crate::experiments::learning::scores::Scores;
    use crate::training::{Choice, tasks};
    use grpo_lambda_stats::{Interval, OverTasks};

    /// A comparison on one task in which every reading gains `gain` on GRPO under every regime.
    fn made_up(gain: f64) -> Comparison {
        let at = |mid: f64| Interval { low: mid - 0.01, mid, high: mid + 0.01, level: 0.95 };
        let overall = || Overall {
            area: at(0.5 + gain),
            gain: at(gain),
            percent: at(200.0 * gain),
            improvement: at(0.5),
            last: 0.9,
            over_tasks: OverTasks::new(&[gain; 9]).unwrap(),
            gains: vec![at(gain)],
            better: if gain > 0.01 { vec![0] } else { Vec::new() },
            worse: if gain < -0.01 { vec![0] } else { Vec::new() },
        };
        let mut tasks = tasks(false).unwrap();
        tasks.truncate(1);
        let readings = readings();
        let n = readings.len();
        let choice = || Choice { rate: 1.0, tried: Vec::new(), widened: 0, at_edge: false };
        let update = expected::Comparison {
            cosine: 0.9,
            scale: 1.0,
            bias: 0.1,
            sign_agreement: 1.0,
            signal_to_noise: 1.0,
        };
        let Size { plan, grid, runs, .. } = Size::new(false);
        Comparison {
            tasks,
            readings,
            grid,
            plan,
            runs,
            choices: (0..n).map(|_| vec![choice()]).collect(),
            sweeps: Vec::new(),
            sweep_runs: 1,
            exact: Exact {
                updates: vec![vec![Some(update)]; n],
                unit_updates: vec![Some(update)],
                mean_weights: [3.0, 4.0],
                credits: vec![(PAPER[0], vec![2.0, 1.0])],
            },
            scores: Scores::none(),
            overall: Regime::ALL.map(|_| (0..n).map(|_| Some(overall())).collect()).into(),
            last: vec![vec![0.9]; n],
        }
    }

    fn verdicts(c: &Comparison) -> Vec<&'static str> {
        words(&findings(c))
    }

    #[test]
    fn gains_everywhere_bear_the_paper_out_and_losses_refute_it() {
        // Headline, four regimes, the average gap, every reading: a gain of 0.2 is 40 %.
        assert_eq!(verdicts(&made_up(0.2))[..7], ["Holds"; 7]);
        // No gain and no loss is nothing told; the average gap is 0 all the same, and not every reading beats GRPO.
        assert_eq!(verdicts(&made_up(0.0))[..5], ["Not told"; 5]);
        assert_eq!(verdicts(&made_up(0.0))[5..7], ["Fails"; 2]);
        assert_eq!(verdicts(&made_up(-0.2))[..7], ["Fails"; 7]);
        // Ten percent is a gain, but not one of 20 to 50 %.
        assert_eq!(verdicts(&made_up(0.05))[5], "Fails");
    }

    #[test]
    fn one_regime_without_a_gain_is_a_condition() {
        let mut c = made_up(0.2);
        c.overall[Regime::OwnBest as usize] = made_up(-0.2).overall.swap_remove(0);
        let said = findings(&c);
        assert_eq!(words(&said)[..5], ["Holds when", "Holds", "Holds", "Fails", "Holds"]);
        assert!(said[0].verdict.detail().contains("worse each at its own best rate"), "{:?}", said[0]);
        // One MDP that is lost is named, with the readings that lose it.
        let lost = |readings: &[&str]| {
            let mut c = made_up(0.2);
            for name in readings {
                let place = c.index(name);
                c.overall[Regime::Equal as usize][place].as_mut().unwrap().worse = vec![0];
            }
            paper_under(&c, Regime::Equal).verdict.detail().to_owned()
        };
        assert_eq!(lost(&PAPER), "averaged over MDPs; worse on fork");
        assert_eq!(lost(&PAPER[..1]), "averaged over MDPs; worse on fork (recent trace .99)");
        assert_eq!(lost(&PAPER[1..]), "averaged over MDPs; worse on fork (both trace .99)");
    }

    #[test]
    fn the_causes_follow_their_own_numbers() {
        // The gain is the same at all rates, and the clamp changes nothing.
        assert_eq!(verdicts(&made_up(0.2))[7..], ["Fails", "Fails", "Holds", "Holds", "Holds"]);
        let mut c = made_up(0.2);
        let paper = c.index(PAPER[0]);
        c.overall[Regime::Cautious as usize][paper].as_mut().unwrap().gain.mid = 0.5;
        c.overall[Regime::OwnBest as usize][paper].as_mut().unwrap().gain.mid = 0.3;
        c.exact.updates[paper][0].as_mut().unwrap().cosine = 0.5;
        c.exact.credits[0].1 = vec![1.0, 20.0];
        c.choices[3][0].at_edge = true;
        assert_eq!(verdicts(&c)[7..], ["Holds", "Holds", "Fails", "Fails", "Holds when"]);
        // A gain of one reading that is not shown is no reason to deny the other's.
        let mut without = |name| {
            let place = c.index(name);
            c.overall[Regime::Cautious as usize][place].as_mut().unwrap().over_tasks =
                OverTasks::new(&[-0.1, 0.2]).unwrap();
            step_size(&c).verdict.detail().to_owned()
        };
        let first = without(PAPER[0]);
        assert!(first.ends_with("a gain is shown for both trace .99 alone"), "{first}");
        let neither = without(PAPER[1]);
        assert!(neither.ends_with("no gain is shown"), "{neither}");
    }
}
