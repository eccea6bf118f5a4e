//! Every entrant on every case.

use std::sync::atomic::{AtomicUsize, Ordering};

use grpo_lambda_mdp::evidence::Exact;
use rayon::prelude::*;

use super::effect::Case;
use super::effect::Effect;
use crate::atlas::entrants::{ENTRANTS, Entrant};
use crate::atlas::multisets::given;
use crate::experiment::Context;

/// Chances of a lucky guess where all responses have the same length.
pub(super) const LUCK: [f64; 4] = [0.1, 0.25, 0.5, 0.7];
/// Initial probabilities of the sound step.
pub(super) const SOUND: [f64; 3] = [0.2, 0.5, 0.8];
/// Chances of a lucky guess where lengths differ.
pub(super) const RAGGED_LUCK: [f64; 2] = [0.25, 0.6];
/// Lengths of flawed responses; sound ones have six tokens.
pub(super) const LENGTHS: [usize; 6] = [2, 4, 6, 12, 24, 48];
/// The case that is shown where one has to do: luck, initial probability of the sound step.
pub(super) const SHOWN: (f64, f64) = (0.25, 0.5);

pub(super) struct Numbers {
    pub(super) rows: Vec<Row>,
}

/// A method on a case.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) method: &'static str,
    pub(super) luck: f64,
    pub(super) sound: f64,
    pub(super) flawed_length: Option<usize>,
    pub(super) effect: Effect,
}

impl Numbers {
    pub(super) fn equal(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|r| r.flawed_length.is_none())
    }

    /// The rows where flawed and sound responses may differ in length.
    pub(super) fn ragged(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|r| r.flawed_length.is_some())
    }

    /// One method at the case that is shown.
    pub(super) fn shown(&self, method: &str) -> Option<&Effect> {
        self.equal().find(|r| r.method == method && (r.luck, r.sound) == SHOWN).map(|r| &r.effect)
    }
}

pub(super) fn measure(context: &Context) -> anyhow::Result<Numbers> {
    let cases = cases(context.full)?;
    let work: Vec<(&Case, &'static Entrant)> =
        cases.iter().flat_map(|case| ENTRANTS.iter().map(move |e| (case, e))).collect();
    let done = AtomicUsize::new(0);
    let rows: Vec<Option<Row>> = work
        .par_iter()
        .map(|(case, entrant)| {
            let row = row(context, case, entrant);
            let n = done.fetch_add(1, Ordering::Relaxed) + 1;
            (context.progress)(n as f64 / work.len() as f64, entrant.name);
            row
        })
        .collect::<anyhow::Result<_>>()?;
    Ok(Numbers { rows: rows.into_iter().flatten().collect() })
}

fn cases(full: bool) -> anyhow::Result<Vec<Case>> {
    let mut cases = Vec::new();
    for luck in LUCK {
        for sound in SOUND {
            cases.push(Case::equal(luck, sound)?);
        }
    }
    for luck in RAGGED_LUCK {
        for length in LENGTHS {
            cases.push(Case::ragged(luck, length)?);
        }
    }
    if full {
        for luck in [0.01, 0.05, 0.4, 0.6, 0.74] {
            for sound in [0.05, 0.35, 0.65, 0.95] {
                cases.push(Case::equal(luck, sound)?);
            }
        }
    }
    Ok(cases)
}

/// A method on a case, from the store of a long run where it is there; none where a table cannot give its evidence.
fn row(context: &Context, case: &Case, entrant: &'static Entrant) -> anyhow::Result<Option<Row>> {
    let configured = entrant.build(&case.tree)?;
    if !given(entrant.source) || configured.require(&Exact::kinds_on(&case.tree)).is_err() {
        return Ok(None);
    }
    let key = format!("{} {} {} {:?}", entrant.name, case.luck, case.sound, case.flawed_length);
    let effect =
        context.store.piece(&key, || Effect::new(case, configured.method.as_ref(), entrant.source))?;
    Ok(Some(Row {
        method: entrant.name,
        luck: case.luck,
        sound: case.sound,
        flawed_length: case.flawed_length,
        effect,
    }))
}
