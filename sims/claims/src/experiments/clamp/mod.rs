//! `clamp`: what clamping advantages at -0.1 does to a group, a prompt and a direction.

mod direction;
mod figures;
mod findings;
mod measure;
mod prompt;
mod tables;

use crate::experiment::{Experiment, Parts};
use figures::figures;
use findings::findings;
use measure::measure;
use tables::tables;

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "clamp",
    title: "What does clamping the advantage at -0.1 change?",
    claim: "\"Negative returns encourage π to move as far as possible from the corresponding trajectory, which can act as a destructive force on model parameters. [...] To mitigate this issue, we adopt a similar approach, i.e., we clamp negative advantages to a small value (-0.1 in our experiments).\"",
    source: "GRPO-lambda (arXiv 2510.00194v1), Section 4.2 \"Clamping the advantage function\"; Algorithms 1 and 2",
    run: |context| Parts { measure, findings, tables, figures }.report(context),
};
