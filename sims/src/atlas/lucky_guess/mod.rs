//! `atlas_lucky_guess`: the motivating example of GRPO-lambda, a lucky guess after a flawed step, in exact numbers.

mod figures;
pub mod measure;

use std::sync::atomic::{AtomicUsize, Ordering};

use grpo_lambda::mdp::evidence::Exact;
use grpo_lambda::table::{Cell, Table};
use rayon::prelude::*;

use crate::atlas::entrants::{BASELINE, ENTRANTS, Entrant};
use crate::atlas::multisets::given;
use crate::experiment::{Context, Experiment, Finding, Report};
use crate::experiments::common::findings::{finding, holds_or, holds_when};
use crate::experiments::common::text::short;
use measure::{Case, GROUP, Measure, SOUND_LENGTH, SOUND_VALUE};

/// The experiment.
pub static EXPERIMENT: Experiment = Experiment {
    id: "atlas_lucky_guess",
    title: "A lucky guess after a flawed step: who lowers the flawed step, in expectation and in one group",
    claim: "if the model made a lucky guess after a flawed intermediate step, GRPO reinforces the flaw; GRPO-λ uses traces to propagate the final reward back to earlier, critical decision points more effectively",
    source: "the project's seed text on GRPO-lambda",
    run,
};

/// Chances of a lucky guess where all responses have the same length.
const LUCK: [f64; 4] = [0.1, 0.25, 0.5, 0.7];
/// Initial probabilities of the sound step.
const SOUND: [f64; 3] = [0.2, 0.5, 0.8];
/// Lengths of flawed responses; sound ones have six tokens.
const LENGTHS: [usize; 6] = [2, 4, 6, 12, 24, 48];
/// The case that is shown where one has to do.
const SHOWN: (f64, f64) = (0.25, 0.5);

/// A method on a case.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    method: &'static str,
    luck: f64,
    sound: f64,
    flawed_length: Option<usize>,
    measure: Measure,
}

fn run(ctx: &Context) -> anyhow::Result<Report> {
    let mut cases = Vec::new();
    for luck in LUCK {
        for sound in SOUND {
            cases.push(Case::equal(luck, sound)?);
        }
    }
    for luck in [0.25, 0.6] {
        for length in LENGTHS {
            cases.push(Case::ragged(luck, length)?);
        }
    }
    if ctx.full {
        for luck in [0.01, 0.05, 0.4, 0.6, 0.74] {
            for sound in [0.05, 0.35, 0.65, 0.95] {
                cases.push(Case::equal(luck, sound)?);
            }
        }
    }
    let work: Vec<(&Case, &'static Entrant)> =
        cases.iter().flat_map(|case| ENTRANTS.iter().map(move |e| (case, e))).collect();
    let done = AtomicUsize::new(0);
    let rows: Vec<Option<Row>> = work
        .par_iter()
        .map(|(case, entrant)| {
            let row = piece(ctx, case, entrant);
            let n = done.fetch_add(1, Ordering::Relaxed) + 1;
            (ctx.progress)(n as f64 / work.len() as f64, entrant.name);
            row
        })
        .collect::<anyhow::Result<_>>()?;
    let rows: Vec<Row> = rows.into_iter().flatten().collect();
    Ok(Report {
        findings: vec![headline(&rows), expectation(&rows), within(&rows), one_group(&rows), ragged(&rows)],
        tables: vec![(String::new(), table(&rows))],
        figures: vec![
            (String::new(), figures::overview(&rows)),
            ("sweep".into(), figures::sweep(&rows)),
            ("length".into(), figures::length(&rows)),
        ],
    })
}

/// A method on a case, from the store of a long run where it is there; none where a table cannot give its evidence.
fn piece(ctx: &Context, case: &Case, entrant: &'static Entrant) -> anyhow::Result<Option<Row>> {
    let configured = entrant.build(&case.tree)?;
    if !given(entrant.source) || configured.require(&Exact::kinds_on(&case.tree)).is_err() {
        return Ok(None);
    }
    let key = format!("{} {} {} {:?}", entrant.name, case.luck, case.sound, case.flawed_length);
    let kept = ctx.store.rows(&key, || {
        Ok(vec![
            cells(&Measure::new(case, configured.method.as_ref(), entrant.source)?).map(Cell::from).to_vec(),
        ])
    })?;
    let numbers: Option<Vec<f64>> = kept.first().and_then(|row| row.iter().map(Cell::number).collect());
    let numbers: Option<[f64; 9]> = numbers.and_then(|n| n.try_into().ok());
    let numbers =
        numbers.ok_or_else(|| anyhow::anyhow!("kept numbers of {} cannot be read", entrant.name))?;
    Ok(Some(Row {
        method: entrant.name,
        luck: case.luck,
        sound: case.sound,
        flawed_length: case.flawed_length,
        measure: of_cells(numbers),
    }))
}

fn cells(m: &Measure) -> [f64; 9] {
    [
        m.advantage,
        m.step,
        m.relative,
        m.credit_flawed,
        m.credit_sound,
        m.lucky,
        m.raises,
        m.raises_when_lucky,
        m.raises_when_unlucky,
    ]
}

fn of_cells(n: [f64; 9]) -> Measure {
    let [advantage, step, relative, credit_flawed, credit_sound, lucky, raises, when_lucky, when_unlucky] = n;
    Measure {
        advantage,
        step,
        relative,
        credit_flawed,
        credit_sound,
        lucky,
        raises,
        raises_when_lucky: when_lucky,
        raises_when_unlucky: when_unlucky,
    }
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new(&[
        "method",
        "luck",
        "initial_sound",
        "flawed_length",
        "sound_length",
        "advantage_flawed",
        "step_over_gradient",
        "step_relative",
        "credit_flawed",
        "credit_sound",
        "lucky_over_right",
        "raises",
        "raises_when_lucky",
        "raises_when_unlucky",
    ]);
    for row in rows {
        let mut cells_: Vec<Cell> = vec![
            row.method.into(),
            row.luck.into(),
            row.sound.into(),
            row.flawed_length.unwrap_or(4).into(),
            row.flawed_length.map_or(4, |_| SOUND_LENGTH).into(),
        ];
        cells_.extend(cells(&row.measure).map(|x| if x.is_finite() { Cell::Number(x) } else { Cell::Empty }));
        table.push(cells_);
    }
    table
}

fn percent(x: f64) -> String {
    format!("{} %", short(100.0 * x))
}

/// The rows of equal lengths.
fn equal(rows: &[Row]) -> impl Iterator<Item = &Row> {
    rows.iter().filter(|r| r.flawed_length.is_none())
}

/// One method at the case that is shown.
pub(crate) fn shown<'a>(rows: &'a [Row], method: &str) -> Option<&'a Measure> {
    equal(rows).find(|r| r.method == method && (r.luck, r.sound) == SHOWN).map(|r| &r.measure)
}

fn headline(rows: &[Row]) -> Finding {
    let (Some(grpo), Some(recent), Some(both), Some(plain), Some(clamped)) = (
        shown(rows, BASELINE),
        shown(rows, "GRPO-λ recent"),
        shown(rows, "GRPO-λ both"),
        shown(rows, "GRPO-λ recent, no clamp"),
        shown(rows, "GRPO, clamp -0.1"),
    ) else {
        return finding("the case that is shown", holds_or(false, "it is missing"), "");
    };
    let better =
        |m: &Measure| m.raises_when_lucky < grpo.raises_when_lucky - 1e-9 || m.lucky < grpo.lucky - 1e-9;
    let say = |name: &str, m: &Measure| {
        format!(
            "{name}: weight of the flawed token in a rewarded response {} of a sound one's; one group raises the flaw with probability {} ({} when a guess in it was lucky); expected step {} of ∇J's",
            short(m.lucky),
            percent(m.raises),
            percent(m.raises_when_lucky),
            short(m.step)
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
    let mut names: Vec<&'static str> = Vec::new();
    for row in rows {
        if of(row) && !names.contains(&row.method) {
            names.push(row.method);
        }
    }
    names
}

fn expectation(rows: &[Row]) -> Finding {
    let total = any(equal(rows), |_| true).len();
    let wrong = any(equal(rows), |r| r.measure.inverts());
    let cases = equal(rows).count() / total.max(1);
    let sizes = |name: &str| shown(rows, name).map_or(f64::NAN, |m| m.relative);
    finding(
        "At equal lengths every method lowers the flawed token in expectation, lucky guesses and all",
        holds_or(wrong.is_empty(), format!("raised somewhere by {}", wrong.join(", "))),
        format!(
            "{total} methods, {cases} cases of luck and initial policy, all with A(flawed) < 0. Step of the flawed token relative to ∇J's at the method's own scale: {}",
            [
                BASELINE,
                "RLOO",
                "GRPO-λ recent",
                "GRPO-λ both",
                "TEMPO",
                "PPO, exact critic",
                "VinePPO, exact values"
            ]
            .map(|n| format!("{n} {}", short(sizes(n))))
            .join(", ")
        ),
    )
}

fn within(rows: &[Row]) -> Finding {
    let praise = any(equal(rows), |r| r.measure.lucky > 0.0);
    let blame = any(equal(rows), |r| r.measure.lucky < 0.0);
    let always: Vec<&str> = blame.iter().copied().filter(|n| !praise.contains(n)).collect();
    let sometimes: Vec<&str> = blame.iter().copied().filter(|n| praise.contains(n)).collect();
    finding(
        "The flawed token of a lucky response is pushed down in that very response",
        holds_when(
            praise.is_empty(),
            !always.is_empty(),
            format!(
                "the method knows values: {}; depending on the case {}",
                always.join(", "),
                if sometimes.is_empty() { "none".to_owned() } else { sometimes.join(", ") }
            ),
            "no method does",
        ),
        format!(
            "mean weight of the flawed first token in rewarded responses over that of the sound one, luck {}: {}",
            SHOWN.0,
            [
                BASELINE,
                "GRPO-λ recent",
                "RLSD (recon.)",
                "TEMPO",
                "PPO, exact critic",
                "SPO-chain, exact values"
            ]
            .map(|n| format!("{n} {}", short(shown(rows, n).map_or(f64::NAN, |m| m.lucky))))
            .join(", ")
        ),
    )
}

fn one_group(rows: &[Row]) -> Finding {
    let Some(grpo) = shown(rows, BASELINE) else {
        return finding("the case that is shown", holds_or(false, "it is missing"), "");
    };
    let lower: Vec<String> = ENTRANTS
        .iter()
        .filter_map(|e| {
            let m = shown(rows, e.name)?;
            (m.raises < grpo.raises - 1e-9).then(|| format!("{} {}", e.name, percent(m.raises)))
        })
        .collect();
    let higher: Vec<String> = ENTRANTS
        .iter()
        .filter_map(|e| {
            let m = shown(rows, e.name)?;
            (m.raises > grpo.raises + 1e-9).then(|| format!("{} {}", e.name, percent(m.raises)))
        })
        .collect();
    let worst = equal(rows)
        .filter(|r| r.method == BASELINE)
        .max_by(|a, b| a.measure.raises.total_cmp(&b.measure.raises));
    let worst = worst.map_or(String::new(), |r| {
        format!("; GRPO at worst {} (luck {}, sound step {})", percent(r.measure.raises), r.luck, r.sound)
    });
    finding(
        format!("No method makes it less likely than GRPO that one group of {GROUP} raises the flawed token"),
        holds_or(lower.is_empty(), format!("less likely: {}", lower.join(", "))),
        format!(
            "luck {}: GRPO {}; more likely: {}{worst}",
            SHOWN.0,
            percent(grpo.raises),
            if higher.is_empty() { "none".to_owned() } else { higher.join(", ") }
        ),
    )
}

fn ragged(rows: &[Row]) -> Finding {
    let all = || rows.iter().filter(|r| r.flawed_length.is_some());
    let wrong = any(all(), |r| r.measure.inverts());
    let worst = |name: &str| {
        let row =
            all().filter(|r| r.method == name).min_by(|a, b| a.measure.step.total_cmp(&b.measure.step))?;
        let m = &row.measure;
        row.measure.inverts().then(|| {
            format!(
                "{name}: luck {}, flawed responses of {} tokens against {SOUND_LENGTH}: ω(flawed) {}, ω(sound) {}, true advantages {} and {}",
                row.luck,
                row.flawed_length.unwrap_or(0),
                short(m.credit_flawed),
                short(m.credit_sound),
                short(m.advantage),
                short(-m.advantage)
            )
        })
    };
    let unclamped: Vec<&str> = wrong.iter().copied().filter(|n| n.contains("no clamp")).collect();
    let unclamped = if unclamped.is_empty() { "none".to_owned() } else { unclamped.join(", ") };
    let said: Vec<String> = ENTRANTS.iter().filter_map(|e| worst(e.name)).take(4).collect();
    finding(
        "Whatever the length of flawed responses, the flawed token is lowered in expectation",
        holds_or(
            wrong.is_empty(),
            format!("raised somewhere by {} methods: {}", wrong.len(), wrong.join(", ")),
        ),
        if said.is_empty() {
            format!("{} cases", all().count())
        } else {
            format!(
                "of the readings of GRPO-λ without the clamp at -0.1: {unclamped}; with it failures count little, so that the mean credit of either step is positive, and the trace multiplies it by a number that grows with the length: {}",
                said.join("; ")
            )
        },
    )
}
