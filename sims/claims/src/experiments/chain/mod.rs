//! `chain`: which methods assign credit on chains of operations whose first error a verifier knows? Version 6 of the protocol decides.
//!
//! *Verifier credit* is not exact, since its `Q` is modelled: `Q - b*` has the baseline of least variance, `Q - V` the value. *Permuted credit* is
//! `Q - b*` at random steps of the response.
//!
//! The runs are recorded: `cargo run --release -p grpo-lambda-control -- chain FILE` trains them by `paper/protocols/chain_6.toml`, which was committed
//! first, and this claim reads their file. [`updates`] reads what `quality` measured of the updates.
//!
//! `chain_gate.csv` and `chain_earlier.csv` compare tokens to a target, as versions 4 and 5 did, and decide nothing any more. They stay as the last run
//! wrote them; `tests/report/chain_earlier.rs` computes them from the recorded runs.

pub(super) mod findings;
pub(super) mod judged;
mod rows;
mod shown;
#[cfg(test)]
mod tests;
mod updates;

use crate::experiment::{Context, Experiment, Parts};
use crate::experiments::common::record::recorded;
use findings::findings;
use grpo_lambda_trials::{Compared, Comparison, Difference, Rows, Study, Trial, correct};
use judged::{Evaluated, label};
use rows::UpdateRow;
use shown::{figures, tables};

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "chain",
    title: "Which methods assign credit on chains whose first error is known, and how much does it help?",
    claim: "Credit from a verifier gains over RLOO and over the same credit at other steps, and GRPO-λ gains what its clamp gains",
    source: "Our question; its protocol, `paper/protocols/chain_6.toml`, was committed before the runs",
    run: |context| Parts { measure, findings, tables, figures }.report(context),
};

const PROTOCOL: &str = include_str!("../../../../../paper/protocols/chain_6.toml");
const RUNS: &str = include_str!("../../../../../paper/data/chain_6_runs.csv");

/// The methods of the protocol that pages name.
pub(crate) const REFERENCE: &str = "rloo";
pub(crate) const VERIFIER: &str = "verifier_q_b";
pub(crate) const TEXTBOOK: &str = "verifier_q_v";
pub(crate) const PERMUTED: &str = "permuted";
pub(crate) const GRPO: &str = "grpo";
pub(crate) const CLAMP: &str = "grpo_clamp";
pub(crate) const TRACE: &str = "trace";
pub(crate) const PAPER: &str = "grpo_lambda";
pub(crate) const SETS: &str = "systematic_rloo";
pub(crate) const TEMPO: &str = "tempo";
/// The comparison that the protocol reports outside gate and family.
const REPORTED: [&str; 2] = [PERMUTED, REFERENCE];
/// The confidence level of the updates.
const LEVEL: f64 = 0.95;

/// The runs of version 6, and its updates.
struct Numbers {
    study: Study<toml::Table>,
    methods: Vec<Evaluated>,
    /// Comparisons of the gate, of the family that Holm corrects, and one outside both; none before all evaluation runs are there, since until then
    /// nothing is concluded.
    gate: Vec<Compared>,
    family: Vec<Compared>,
    reported: Vec<Compared>,
    /// The updates of the methods.
    updates: Vec<UpdateRow>,
}

impl Numbers {
    /// A comparison that Holm corrects; none where the gate is not passed, since none may be read then.
    fn family(&self, [method, with]: [&str; 2]) -> Option<&Difference> {
        Compared::find(&self.family, method, with).filter(|_| self.is_gate_passed())
    }

    fn is_gate_passed(&self) -> bool {
        !self.gate.is_empty() && self.gate.iter().all(|c| c.difference.interval.low > 0.0)
    }

    /// The name of a comparison.
    fn name(&self, [method, with]: [&str; 2]) -> String {
        format!("{} minus {}", label(&self.study, method), label(&self.study, with))
    }
}

fn measure(_: &Context) -> anyhow::Result<Numbers> {
    Ok(Numbers { updates: updates::updates(updates::RECORDED)?, ..judged(PROTOCOL, RUNS)? })
}

/// The methods and the comparisons of a protocol from recorded runs, as the protocol says.
fn judged(protocol: &str, runs: &str) -> anyhow::Result<Numbers> {
    let study: Study<toml::Table> = Study::read(protocol)?;
    let trials: Vec<Trial> = recorded(runs)?;
    let rows = Rows { study: &study, trials: &trials };
    let [method, with] = REPORTED.map(str::to_owned);
    let all = || {
        let [gate, family] = [&study.gate.better, &study.comparisons].map(|pairs| rows.compared(pairs));
        let reported = rows.compared(&[Comparison { method, with }])?;
        Some((Evaluated::all(&rows)?, gate?, family?, reported))
    };
    let (methods, gate, mut family, reported) = all().unwrap_or_default();
    correct(family.iter_mut().map(|c| &mut c.difference), study.comparisons.len());
    Ok(Numbers { study, methods, gate, family, reported, updates: Vec::new() })
}
