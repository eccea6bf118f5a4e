//! The printed results of the paper GRPO-λ (arXiv 2510.00194v1), audited from its own tables.
//!
//! The only input is the paper: Tables 1-6 as printed ([`grpo_lambda_printed`]). [`consistency`] asks whether the
//! numbers agree with each other, [`gains`] how large the gains over GRPO are against the noise
//! of the test items; `findings` adds what the prose says about them.
//!
//! The audit sees one greedy answer per test item and one training run per cell. Its intervals therefore
//! cover the choice of test items only; what another training seed would change is unknown.

mod findings;
pub mod gains;
mod shown;

use crate::experiment::{Context, Experiment, Parts};
use findings::findings;
use gains::{Gain, Multiplicity, Selection};
use grpo_lambda_printed::consistency::{self, AverageCheck, CellCheck, Table1Check};
use grpo_lambda_printed::{Dataset, Model, Paper};
use shown::{figures, tables};

/// The claim `paper_audit`.
pub static EXPERIMENT: Experiment = Experiment {
    id: "paper_audit",
    title: "Do the paper's Tables 1-6 say what the text says of them?",
    claim: "\"We introduce a few variations for the weighting of the λ-return, and their applications to the \
        eligibility-trace, where all the variations provide significant gains over GRPO.\"",
    source: "GRPO-λ, abstract; Section 4.3; Tables 1-6",
    run: |context| Parts { measure, findings, tables, figures }.report(context),
};

/// Everything computed from the tables.
pub struct Audit {
    pub paper: Paper,
    pub averages: Vec<AverageCheck>,
    pub cells: Vec<CellCheck>,
    pub table1: Vec<Table1Check>,
    pub gains: Vec<Gain>,
    /// Holm's correction over all gains.
    pub corrected: Multiplicity,
    /// The best of eight for each 1.5B model and data set.
    pub selections: Vec<Selection>,
}

impl Audit {
    /// Audits the given tables.
    pub fn new(paper: Paper) -> Self {
        let gains = gains::gains(&paper);
        let pairs = Model::SMALL.into_iter().flat_map(|m| Dataset::ALL.map(|d| (m, d)));
        Audit {
            averages: consistency::averages(&paper),
            cells: consistency::cells(&paper),
            table1: consistency::table1(&paper),
            corrected: gains::multiplicity(&gains.iter().map(Gain::estimate).collect::<Vec<_>>()),
            selections: pairs.map(|(m, d)| gains::selection(&gains, m, d)).collect(),
            gains,
            paper,
        }
    }

    /// The numbers of chosen gains above and below zero.
    pub fn wins(&self, chosen: impl Fn(&Gain) -> bool) -> (usize, usize) {
        let chosen = || self.gains.iter().filter(|g| chosen(g));
        (chosen().filter(|g| g.points > 0.0).count(), chosen().filter(|g| g.points < 0.0).count())
    }
}

fn measure(_: &Context) -> anyhow::Result<Audit> {
    Ok(Audit::new(Paper::embedded()?))
}
