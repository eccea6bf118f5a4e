//! `atlas_oar`: scores of tokens by perturbation and by gradient, against exact counterfactuals and the true advantage.

mod findings;
mod measure;
mod shown;

use crate::experiment::{Experiment, Parts};
use findings::findings;
use measure::measure;
use shown::{figures, tables};

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "atlas_oar",
    title: "Scores of OAR against the exact answer-distribution KL and against the true advantage",
    claim: "OAR-P and OAR-G redistribute a response's advantage over its tokens by how far each of them moves the answer, taken for their credit",
    source: "OAR (arXiv 2601.07408), abstract and the authors' code; ground truth ours",
    run: |context| Parts { measure, findings, tables, figures }.report(context),
};
