use super::measure::{Effect, GROUP, Numbers, Row, SHOWN, SOUND_LENGTH, SOUND_VALUE};
use crate::atlas::entrants::{BASELINE, ENTRANTS};
use crate::experiment::Finding;
use crate::experiments::common::{distinct, finding, holds_or, holds_when, list, percent, short};

pub(super) fn findings(n: &Numbers) -> Vec<Finding> {
    vec![headline(n), expectation(n), within(n), one_group(n), ragged(n)]
}

/// Text if the shown case was not measured.
fn missing() -> Finding {
    finding("the case that is shown", holds_or(false, "it is missing"), "")
}

fn headline(n: &Numbers) -> Finding {
    let (Some(grpo), Some(recent), Some(both), Some(plain), Some(clamped)) = (
        n.shown(BASELINE),
        n.shown("GRPO-λ recent"),
        n.shown("GRPO-λ both"),
        n.shown("GRPO-λ recent, no clamp"),
        n.shown("GRPO, clamp -0.1"),
    ) else {
        return missing();
    };
    let better =
        |e: &Effect| e.raises_when_lucky < grpo.raises_when_lucky - 1e-9 || e.lucky < grpo.lucky - 1e-9;
    let say = |name: &str, e: &Effect| {
        format!(
            "{name}: weight of the flawed token in a rewarded response {} of a sound one's; one group raises the flaw with probability {} ({} when a guess in it was lucky); expected step {} of ∇J's",
            short(e.lucky),
            percent(e.raises),
            percent(e.raises_when_lucky),
            short(e.step)
        )
    };
    finding(
        "GRPO reinforces the flaw of a lucky response, GRPO-λ's traces do not",
        holds_or(
            better(recent) || better(both),
            format!(
                "both do: at equal lengths a trace multiplies every first token by the same number, sound or flawed. Groups with a lucky guess raise the flaw in {} of cases under GRPO and {} under GRPO-λ without its clamp; with the clamp {}, as GRPO with that clamp ({})",
                percent(grpo.raises_when_lucky),
                percent(plain.raises_when_lucky),
                percent(recent.raises_when_lucky),
                percent(clamped.raises_when_lucky)
            ),
        ),
        format!(
            "exact over all groups of {GROUP}; luck {}, sound steps {} likely and worth {SOUND_VALUE}. {}; {}; {}",
            SHOWN.0,
            SHOWN.1,
            say("GRPO", grpo),
            say("GRPO-λ recent", recent),
            say("GRPO-λ both", both)
        ),
    )
}

/// Methods with a property at any of some rows.
fn any<'a>(rows: impl Iterator<Item = &'a Row>, of: impl Fn(&Row) -> bool) -> Vec<&'static str> {
    distinct(rows.filter(|row| of(row)).map(|row| row.method))
}

/// A number of some methods at the case that is shown.
fn at_shown<const N: usize>(n: &Numbers, methods: [&str; N], of: fn(&Effect) -> f64) -> String {
    methods.map(|name| format!("{name} {}", short(n.shown(name).map_or(f64::NAN, of)))).join(", ")
}

fn expectation(n: &Numbers) -> Finding {
    let total = any(n.equal(), |_| true).len();
    let wrong = any(n.equal(), |r| r.effect.inverts());
    let cases = n.equal().count() / total.max(1);
    let shown = [
        BASELINE,
        "RLOO",
        "GRPO-λ recent",
        "GRPO-λ both",
        "TEMPO",
        "PPO, exact critic",
        "VinePPO, exact values",
    ];
    finding(
        "At equal lengths every method lowers the flawed token in expectation, lucky guesses and all",
        holds_or(wrong.is_empty(), format!("raised somewhere by {}", wrong.join(", "))),
        format!(
            "{total} methods, {cases} cases of luck and initial policy, all with A(flawed) < 0. Step of the flawed token relative to ∇J's at the method's own scale: {}",
            at_shown(n, shown, |e| e.relative)
        ),
    )
}

/// Methods that blame the flawed token of a lucky response in every case, and those that do depending on the case.
pub(super) fn blaming(n: &Numbers) -> [Vec<&'static str>; 2] {
    let praise = any(n.equal(), |r| r.effect.lucky > 0.0);
    let blame = any(n.equal(), |r| r.effect.lucky < 0.0);
    let (sometimes, always) = blame.into_iter().partition(|name| praise.contains(name));
    [always, sometimes]
}

fn within(n: &Numbers) -> Finding {
    let [always, sometimes] = blaming(n);
    let praise = any(n.equal(), |r| r.effect.lucky > 0.0);
    let shown =
        [BASELINE, "GRPO-λ recent", "RLSD (recon.)", "TEMPO", "PPO, exact critic", "SPO-chain, exact values"];
    finding(
        "The flawed token of a lucky response is pushed down in that very response",
        holds_when(
            praise.is_empty(),
            !always.is_empty(),
            format!(
                "the method is {}; depending on the case {}; in no case any other",
                always.join(" or "),
                list(&sometimes)
            ),
            "no method does",
        ),
        format!(
            "mean weight of the flawed first token in rewarded responses over that of the sound one, luck {}: {}",
            SHOWN.0,
            at_shown(n, shown, |e| e.lucky)
        ),
    )
}

fn one_group(n: &Numbers) -> Finding {
    let Some(grpo) = n.shown(BASELINE) else { return missing() };
    let named = |keep: &dyn Fn(&Effect) -> bool| -> Vec<String> {
        let own = ENTRANTS.iter().filter_map(|e| Some((e.name, n.shown(e.name)?)));
        let kept = own.filter(|(_, e)| keep(e));
        kept.map(|(name, e)| format!("{name} {}", percent(e.raises))).collect()
    };
    let lower = named(&|e| e.raises < grpo.raises - 1e-9);
    let higher = named(&|e| e.raises > grpo.raises + 1e-9);
    let worst =
        n.equal().filter(|r| r.method == BASELINE).max_by(|a, b| a.effect.raises.total_cmp(&b.effect.raises));
    let worst = worst.map_or(String::new(), |r| {
        format!("; GRPO at worst {} (luck {}, sound step {})", percent(r.effect.raises), r.luck, r.sound)
    });
    finding(
        format!("No method makes it less likely than GRPO that one group of {GROUP} raises the flawed token"),
        holds_or(lower.is_empty(), format!("less likely: {}", lower.join(", "))),
        format!("luck {}: GRPO {}; more likely: {}{worst}", SHOWN.0, percent(grpo.raises), list(&higher)),
    )
}

/// The case in which a method raises the flawed token most.
fn worst_ragged(n: &Numbers, method: &str) -> Option<String> {
    let own = n.ragged().filter(|r| r.method == method);
    let row = own.min_by(|a, b| a.effect.step.total_cmp(&b.effect.step))?;
    let e = &row.effect;
    e.inverts().then(|| {
        format!(
            "{method}: luck {}, flawed responses of {} tokens against {SOUND_LENGTH}: ω(flawed) {}, ω(sound) {}, true advantages {} and {}",
            row.luck,
            row.flawed_length.unwrap_or(0),
            short(e.credit_flawed),
            short(e.credit_sound),
            short(e.advantage),
            short(-e.advantage)
        )
    })
}

fn ragged(n: &Numbers) -> Finding {
    let wrong = any(n.ragged(), |r| r.effect.inverts());
    let unclamped: Vec<&str> = wrong.iter().copied().filter(|name| name.contains("no clamp")).collect();
    let worst: Vec<String> = ENTRANTS.iter().filter_map(|e| worst_ragged(n, e.name)).take(4).collect();
    finding(
        "Whatever the length of flawed responses, the flawed token is lowered in expectation",
        holds_or(
            wrong.is_empty(),
            format!("raised somewhere by {} methods: {}", wrong.len(), wrong.join(", ")),
        ),
        if worst.is_empty() {
            format!("{} cases", n.ragged().count())
        } else {
            format!(
                "of the readings of GRPO-λ without the clamp at -0.1: {}; with it failures count little, so that the mean credit of either step is positive, and the trace multiplies it by a number that grows with the length: {}",
                list(&unclamped),
                worst.join("; ")
            )
        },
    )
}

#[cfg(test)]
mod tests {
    use super::super::shown::figures;
    use super::*;
    use crate::experiments::common::words;

    /// Every method treats the flawed step alike: its weight, and the probability that a group raises it.
    fn numbers(lucky: f64, raises: f64) -> Numbers {
        let effect = Effect {
            advantage: -0.2,
            step: 1.0,
            relative: 1.0,
            credit_flawed: -0.2,
            credit_sound: 0.2,
            lucky,
            raises,
            raises_when_lucky: raises,
            raises_when_unlucky: raises,
        };
        let row =
            |method, flawed_length| Row { method, luck: SHOWN.0, sound: SHOWN.1, flawed_length, effect };
        let rows = ENTRANTS.iter().flat_map(|e| [row(e.name, None), row(e.name, Some(12))]);
        Numbers { rows: rows.collect() }
    }

    fn verdicts(n: &Numbers) -> Vec<&'static str> {
        words(&findings(n))
    }

    fn with(mut n: Numbers, method: &str, change: fn(&mut Row)) -> Numbers {
        n.rows.iter_mut().filter(|r| r.method == method).for_each(change);
        n
    }

    #[test]
    fn each_verdict_follows_its_own_numbers() {
        let [h, w, f] = ["Holds", "Holds when", "Fails"];
        let praise = || numbers(1.0, 0.2);
        assert_eq!(verdicts(&praise()), [f, h, f, h, h], "all praise the flaw as GRPO does");
        assert_eq!(verdicts(&numbers(-1.0, 0.2)), [f, h, h, h, h], "all blame it");
        assert_eq!(verdicts(&with(praise(), "GRPO-λ both", |r| r.effect.lucky = 0.5)), [h, h, f, h, h]);
        assert_eq!(verdicts(&with(praise(), "TEMPO", |r| r.effect.lucky = -0.5)), [f, h, w, h, h]);
        assert_eq!(verdicts(&with(praise(), "TEMPO", |r| r.effect.raises = 0.1)), [f, h, f, f, h]);
        let wrong = |r: &mut Row| r.effect.step = -1.0;
        assert_eq!(verdicts(&with(praise(), "RLOO", wrong)), [f, f, f, h, f]);
        let title = |n: &Numbers| figures(n)[0].1.title.clone();
        assert!(!title(&praise()).contains("blame"), "{}", title(&praise()));
        let one = with(praise(), "VinePPO, exact values", |r| r.effect.lucky = -0.5);
        assert!(title(&one).ends_with("; blamed by VinePPO, exact values"), "{}", title(&one));
        assert_eq!(verdicts(&Numbers { rows: Vec::new() })[0], f, "what was not measured does not hold");
    }
}
