//! Findings: GRPO-lambda against GRPO at different learning rates, and causes of gains and losses.

use super::measure::Comparison;
use super::scores::{Overall, Regime};
use super::variant::PAPER;
use crate::experiment::{Finding, Verdict};
use crate::experiments::common::{holds_or, holds_when, list};
use crate::training::inside_the_grid;

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
            Sign::TheseTasks | Sign::Tie => "does not differ significantly from",
            Sign::Worse => "loses to",
        }
    }
}

/// A regime's name in a sentence.
fn at(regime: Regime) -> &'static str {
    match regime {
        Regime::Equal => "at GRPO's best rate",
        Regime::Cautious => "at a sixteenth of GRPO's best rate",
        Regime::OwnBest => "at tuned learning rates",
        Regime::UnitMean => "with its weights rescaled to mean 1",
    }
}

/// The less favourable sign of the paper's two variants under a regime.
pub(super) fn of_paper(c: &Comparison, regime: Regime) -> Sign {
    let signs = PAPER.map(|name| Sign::new(c.against(regime, name)));
    let order = [Sign::Worse, Sign::TheseTasks, Sign::Tie, Sign::Better];
    order.into_iter().find(|s| signs.contains(s)).unwrap_or(Sign::Tie)
}

fn names(c: &Comparison, tasks: &[usize]) -> String {
    list(&tasks.iter().map(|&t| c.tasks[t].name.as_str()).collect::<Vec<_>>())
}

/// The values of a comparison in a regime that a finding shows.
const SHOWN: [&str; 14] = [
    "regime",
    "method",
    "area",
    "gain",
    "gain_low_over_tasks",
    "gain_high_over_tasks",
    "gain_median_over_tasks",
    "p_over_tasks",
    "task_that_moves_the_gain_most",
    "gain_without_it",
    "gain_percent",
    "improvement",
    "mdps_better",
    "mdps_worse",
];

/// Shows these variants in these regimes.
fn showing(finding: Finding, regimes: &[Regime], variants: &[&str]) -> Finding {
    let regimes: Vec<&str> = regimes.iter().map(|regime| regime.name()).collect();
    finding.rows("", &SHOWN).only("regime", &regimes).only("method", variants)
}

/// The variants among the paper's two whose gain is shown under a regime, with the tasks as the sample.
fn gaining(c: &Comparison, regime: Regime) -> Vec<&'static str> {
    PAPER.into_iter().filter(|name| c.against(regime, name).over_tasks.positive()).collect()
}

/// The tasks of a kind under the paper's two variants; each variant is named where they differ.
fn tasks_of(c: &Comparison, both: [(&str, &Overall); 2], of: fn(&Overall) -> &Vec<usize>) -> String {
    if of(both[0].1) == of(both[1].1) {
        return names(c, of(both[0].1));
    }
    let some = both.iter().filter(|(_, o)| !of(o).is_empty());
    some.map(|(name, o)| format!("{} ({name})", names(c, of(o)))).collect::<Vec<_>>().join(" and ")
}

/// The paper's two variants under a regime.
fn paper_under(c: &Comparison, regime: Regime) -> Finding {
    let both = PAPER.map(|name| (name, c.against(regime, name)));
    let sign = of_paper(c, regime);
    let (better, worse) = (tasks_of(c, both, |o| &o.better), tasks_of(c, both, |o| &o.worse));
    let on = format!("by task it is better on {better} and worse on {worse}");
    let verdict = match sign {
        Sign::Better if both.iter().all(|(_, o)| o.worse.is_empty()) => Verdict::Holds,
        Sign::Better => Verdict::HoldsWhen(format!("tasks are averaged; GRPO-λ is worse on {worse}")),
        Sign::TheseTasks | Sign::Tie => Verdict::Inconclusive(match gaining(c, regime).as_slice() {
            [] => format!("no difference is shown; {on}"),
            some => format!("only the variant \"{}\" is shown to be better; {on}", list(some)),
        }),
        Sign::Worse => Verdict::Fails(format!("GRPO-λ is worse; {on}")),
    };
    let statement = format!("GRPO-λ as published is better than GRPO {}", at(regime));
    showing(Finding::new(regime.name(), statement, verdict), &[regime], &PAPER)
}

fn headline(c: &Comparison) -> Finding {
    let signs = Regime::ALL.map(|regime| of_paper(c, regime));
    // One of the two variants may gain where both together are not shown to.
    let word = |(regime, sign): (Regime, Sign)| match sign {
        Sign::Better => "it is faster",
        Sign::Worse => "it is slower",
        Sign::TheseTasks | Sign::Tie if gaining(c, regime).is_empty() => "no difference is shown",
        Sign::TheseTasks | Sign::Tie => "only one of its two styles is shown to be faster",
    };
    let said = Regime::ALL.into_iter().zip(signs).map(|of| format!("{} {}", word(of), at(of.0)));
    let said = said.collect::<Vec<_>>().join("; ");
    let verdict = if Regime::ALL.iter().all(|&r| paper_under(c, r).verdict == Verdict::Holds) {
        Verdict::Holds
    } else if signs.contains(&Sign::Better) {
        Verdict::HoldsWhen(said)
    } else if signs.contains(&Sign::Worse) {
        Verdict::Fails(said)
    } else {
        Verdict::Inconclusive(said)
    };
    let statement = "On small exact tasks GRPO-λ as published (style recent or both, ε-trace, λ = 0.99, clamp \
        -0.1) learns faster than GRPO at every choice of the learning rate";
    showing(Finding::new("headline", statement, verdict), &Regime::ALL, &PAPER)
        .value("MDPs", c.tasks.len())
        .value("runs", c.runs)
        .note("Area under J/J* by plain SGD.")
}

/// The 16 variants of the paper against GRPO under a regime.
fn sixteen(c: &Comparison, regime: Regime) -> Vec<&Overall> {
    (0..c.variants.len()).filter(|&r| c.variants[r].of_paper).filter_map(|r| c.overall(regime, r)).collect()
}

fn gap(c: &Comparison) -> Finding {
    let means = Regime::ALL.map(|regime| {
        let gains = sixteen(c, regime);
        gains.iter().map(|o| o.percent.mid).sum::<f64>() / gains.len() as f64
    });
    let inside: Vec<&str> =
        Regime::ALL.into_iter().zip(means).filter(|(_, mean)| *mean >= 20.0).map(|(r, _)| at(r)).collect();
    let verdict = match inside.len() {
        0 => {
            Verdict::Fails("the average difference is below 20 % at every choice of the learning rate".into())
        }
        4 => Verdict::Holds,
        _ => Verdict::HoldsWhen(list(&inside)),
    };
    let statement = "On small exact tasks the 16 variants of GRPO-λ are on average 20 % or more better than \
        GRPO, as section 4.2 reports for its training plots";
    Regime::ALL.into_iter().zip(means).fold(
        Finding::new("gap", statement, verdict).note("The paper says 20-50 %."),
        |finding, (regime, mean)| finding.value(format!("mean gain in % {}", at(regime)), mean),
    )
}

fn regardless(c: &Comparison) -> Finding {
    let counts = Regime::ALL.map(|regime| {
        let gains = sixteen(c, regime);
        let better = gains.iter().filter(|o| o.over_tasks.positive()).count();
        (regime, gains.len(), better, gains.iter().filter(|o| o.over_tasks.negative()).count())
    });
    let fewest = counts.iter().map(|(_, _, better, _)| *better).min().unwrap_or(0);
    let finding = Finding::new(
        "regardless",
        "On small exact tasks every variant of GRPO-λ is better than GRPO at every choice of the learning rate",
        holds_or(
            counts.iter().all(|(_, all, better, _)| better == all),
            format!("at one of the choices {fewest} of 16 variants are better"),
        ),
    );
    let finding = counts.into_iter().fold(finding, |finding, (regime, _, better, worse)| {
        finding.value(format!("better {}", at(regime)), better).value(format!("worse {}", at(regime)), worse)
    });
    finding
        .note("Of 16 variants (style, update, λ .99|.9, clamp on|off); the others have no sign over tasks.")
}

/// The share of step size in the gain at a cautious rate.
fn step_size(c: &Comparison) -> Finding {
    let [recent, both] = c.exact.mean_weights;
    let gain = |regime, name| c.against(regime, name).gain.mid;
    let [cautious, own, unit] =
        [Regime::Cautious, Regime::OwnBest, Regime::UnitMean].map(|r| gain(r, PAPER[0]));
    let longer = cautious > own.max(unit);
    let gaining = gaining(c, Regime::Cautious);
    let shown = match gaining.as_slice() {
        [] => "no variant is shown to be better".to_owned(),
        some => format!("only the variant \"{}\" is shown to be better", list(some)),
    };
    let verdict = holds_when(
        longer && gaining.len() == PAPER.len(),
        longer,
        format!(
            "means over these tasks are compared. At the small rate, with the tasks as the sample, {shown}"
        ),
        "GRPO-λ is no better at the small rate than at tuned rates, or than with mean weight 1",
    );
    let statement = "Under plain SGD at one small learning rate for both methods GRPO-λ learns faster than GRPO \
        because its steps are longer, not because its credit is better";
    let finding = Finding::new("step_size", statement, verdict)
        .value("mean weight, recent", recent)
        .value("mean weight, both", both)
        .note("RLOO has no trace.");
    let regimes = [Regime::Cautious, Regime::OwnBest, Regime::UnitMean];
    showing(finding, &regimes, &[PAPER[0], "RLOO"])
}

pub(super) fn clamp(c: &Comparison) -> Finding {
    let list = ["GRPO clamped", PAPER[0], "recent trace .99 unclamped", PAPER[1], "both trace .99 unclamped"];
    let found = list.map(|name| (name, c.against(Regime::OwnBest, name)));
    let helps = found[0].1.over_tasks.positive() && found[1].1.gain.mid > found[2].1.gain.mid;
    let statement = "Clamping advantages at -0.1 helps learning";
    let verdict = holds_or(helps, "at tuned rates the clamp is not shown to help, alone or with the trace");
    let regimes = [Regime::OwnBest, Regime::Equal, Regime::UnitMean];
    showing(Finding::new("clamp", statement, verdict), &regimes, &list)
}

/// The direction of the exact first update.
fn direction(c: &Comparison) -> Finding {
    let paper = c.index(PAPER[0]);
    let tasks: Vec<(usize, f64, f64)> = (0..c.tasks.len())
        .filter_map(|t| Some((t, c.exact.updates[paper][t]?.cosine, c.exact.updates[0][t]?.cosine)))
        .collect();
    let lower: Vec<_> = tasks.iter().filter(|(_, ours, grpo)| *ours < grpo - 1e-9).collect();
    let verdict = match lower.iter().min_by(|a, b| a.1.total_cmp(&b.1)) {
        None => Verdict::Holds,
        Some((t, ours, grpo)) => Verdict::Fails(format!(
            "on {} of {} MDPs GRPO-λ's update is further from ∇J. Its lowest cosine is on {}: {ours:.3}, where \
             GRPO's is {grpo:.3}",
            lower.len(),
            c.tasks.len(),
            c.tasks[*t].name,
        )),
    };
    let statement = "GRPO-λ's expected first update is at least as close to ∇J as GRPO's";
    let unit: Vec<_> = c.exact.unit_updates.iter().map(|update| update.map(|u| u.cosine)).collect();
    Finding::new("direction", statement, verdict)
        .value("cosines with mean weight 1, task by task", unit)
        .rows("rates", &["mdp", "method", "best_rate", "cosine", "scale_over_grpo"])
        .only("method", &["GRPO", "GRPO clamped", PAPER[0]])
        .note("Cosines of the exact first update with ∇J.")
}

/// Why GRPO-lambda settles on the longer, worse answer of `fork`.
fn inversion(c: &Comparison) -> Finding {
    let last = |name: &str| c.last[c.index(name)][0];
    let paper = c.exact.credits.iter().find(|(name, _)| *name == PAPER[0]).map(|(_, w)| (w[0], w[1]));
    let statement = "GRPO-λ prefers the better of two answers, whatever their lengths are";
    let verdict = match paper {
        None => Verdict::Inconclusive("its credit was not computed".into()),
        Some((short, long)) => holds_or(
            short > long,
            format!(
                "on `fork` the long, worse answer gets credit {long:.2}, and the short, better one {short:.2}. \
                 Runs end at J/J* = {:.3}",
                last(PAPER[0])
            ),
        ),
    };
    let finding = Finding::new("inversion", statement, verdict).note(
        "On fork (short: T = 2, Q = 0.9; long: T = 50, Q = 0.8): exact implied credit of the short and the long answer under the initial policy, and J/J* at the end at the tuned rate.",
    );
    c.exact.credits.iter().fold(finding, |finding, (name, w)| {
        finding
            .value(format!("{name}: credit of the short and the long answer"), [w[0], w[1]])
            .value(format!("{name}: J/J* at the end"), last(name))
    })
}

fn grid(c: &Comparison) -> Finding {
    let named = c.variants.iter().zip(&c.choices).flat_map(|(variant, of)| {
        c.tasks.iter().zip(of).map(|(task, choice)| (variant.name.as_str(), task.name.as_str(), choice))
    });
    inside_the_grid(c.grid, named)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::common::words;
    use crate::experiments::learning::measure::{Exact, Size};
    use crate::experiments::learning::scores::Scores;
    use crate::experiments::learning::variant::variants;
    use crate::training::{Choice, tasks};
    use grpo_lambda_mdp::expected;
    use grpo_lambda_stats::{Interval, OverTasks};

    /// A comparison on one task in which every variant gains `gain` on GRPO under every regime.
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
        let variants = variants();
        let n = variants.len();
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
            variants,
            grid,
            plan,
            runs,
            choices: (0..n).map(|_| vec![choice()]).collect(),
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
        // Headline, four regimes, the average gap, every variant: a gain of 0.2 is 40 %.
        assert_eq!(verdicts(&made_up(0.2))[..7], ["Holds"; 7]);
        // No gain and no loss is inconclusive; the average gap is 0 all the same, and not every variant beats GRPO.
        assert_eq!(verdicts(&made_up(0.0))[..5], ["Inconclusive"; 5]);
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
        assert!(said[0].verdict.detail().contains("slower at tuned learning rates"), "{:?}", said[0]);
        // One MDP that is lost is named, with the variants that lose it.
        let lost = |variants: &[&str]| {
            let mut c = made_up(0.2);
            for name in variants {
                let place = c.index(name);
                c.overall[Regime::Equal as usize][place].as_mut().unwrap().worse = vec![0];
            }
            paper_under(&c, Regime::Equal).verdict.detail().to_owned()
        };
        assert_eq!(lost(&PAPER), "tasks are averaged; GRPO-λ is worse on fork");
        assert_eq!(lost(&PAPER[..1]), "tasks are averaged; GRPO-λ is worse on fork (recent trace .99)");
        assert_eq!(lost(&PAPER[1..]), "tasks are averaged; GRPO-λ is worse on fork (both trace .99)");
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
        // A gain of one variant that is not shown is no reason to deny the other's.
        let mut without = |name| {
            let place = c.index(name);
            c.overall[Regime::Cautious as usize][place].as_mut().unwrap().over_tasks =
                OverTasks::new(&[-0.1, 0.2]).unwrap();
            step_size(&c).verdict.detail().to_owned()
        };
        let first = without(PAPER[0]);
        assert!(first.ends_with("only the variant \"both trace .99\" is shown to be better"), "{first}");
        let neither = without(PAPER[1]);
        assert!(neither.ends_with("no variant is shown to be better"), "{neither}");
    }
}
