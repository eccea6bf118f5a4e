//! `traces`: the matrices of Eq. 17/18 against those of Eq. 1/2, and linear time against dense.

mod figures;
mod findings;
mod measure;
mod tables;

use crate::experiment::{Experiment, Parts};
use figures::figures;
use findings::findings;
use measure::measure;
use tables::tables;

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "traces",
    title: "Are the printed trace matrices those of Eq. 1 and Eq. 2?",
    claim: "\"Trace matrix is a non-learnable precomputed lower-triangular matrix with 1s on the leading diagonal. The two variants of GRPO-λ uses recent and both styles for the trace-weights, which is computed with get_trace().\" (Eq. 17 for both, Eq. 18 for recent)",
    source: "GRPO-lambda (arXiv 2510.00194v1), Appendix A.3 \"Trace weights\", Eq. 17-18, against Eq. 1-2",
    run: |context| Parts { measure, findings, tables, figures }.report(context),
};
