//! `atlas_search`: is there a better trace? Weights from position, length, entropy and probability, chosen with the oracle on some
//! families of MDPs and judged on others.

mod efficiency;
mod figures;
mod findings;
mod instances;
mod learn;
mod measure;
mod quadratic;
mod spans;
mod tables;
mod trained;

use crate::experiment::{Experiment, Parts};
use figures::figures;
use findings::findings;
use measure::measure;
use tables::tables;

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "atlas_search",
    title: "Search beyond the papers: token weights chosen with the oracle, judged on families that were held out",
    claim: "a better trace exists in a small parametric family of position, remaining length and entropy",
    source: "ours",
    run: |context| Parts { measure, findings, tables, figures }.report(context),
};
