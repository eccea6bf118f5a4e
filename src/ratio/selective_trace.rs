use super::{LOG_RATIO, LogProbs, PolicyRatio, SurrogateInput};
use crate::assignment::EntropySelection;
use crate::equation::Part;
use crate::group::Group;
use crate::method::Coupling;
use crate::trace::{Clock, RowNormalised, Sparse, Trace};

/// A [`Sparse`] trace in the ratio over the tokens that an [`EntropySelection`] chooses in each batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SelectiveTrace {
    /// `gamma lambda`, in `[0, 1]`.
    pub q: f64,
    /// The clock of the trace's decay.
    pub clock: Clock,
    /// Divide each row by its sum.
    pub normalised: bool,
    /// The tokens that later ones read.
    pub selection: EntropySelection,
}

impl SelectiveTrace {
    fn with<R>(&self, eligible: &[bool], run: impl FnOnce(&dyn Trace) -> R) -> R {
        let sparse = Sparse { q: self.q, eligible, clock: self.clock };
        if self.normalised { run(&RowNormalised(sparse)) } else { run(&sparse) }
    }
}

/// The selection of a response's credit.
fn eligible<'a>(logps: &LogProbs<'a>) -> &'a [bool] {
    logps.eligible.expect("a selective trace reads the selection of its credit")
}

impl PolicyRatio for SelectiveTrace {
    fn forward(&self, logps: &LogProbs) -> SurrogateInput {
        let x = logps.log_ratios();
        SurrogateInput {
            z: self.with(eligible(logps), |trace| trace.apply(&x)),
            buffer: x,
            ..SurrogateInput::default()
        }
    }

    fn backward(&self, logps: &LogProbs, input: SurrogateInput, slopes: Vec<f64>, _: &[f64]) -> Vec<f64> {
        let mut gradient = input.z;
        self.with(eligible(logps), |trace| trace.adjoint_into(&slopes, &mut gradient));
        gradient
    }

    fn equation(&self, loss: &str) -> Vec<Part> {
        vec![
            ("policy", format!("l_t = {loss}")),
            ("ratio", format!("rho_t = exp(z_t), z_t = sum_k E[t,k] x_k, {LOG_RATIO}")),
            ("trace", self.with(&[], |trace| trace.equation())),
            ("chosen", format!("h_k = 1 where {}, else 0", self.selection.equation("k"))),
        ]
    }

    fn select(&self, batch: &[Group], counts: &[bool]) -> Option<Vec<Vec<bool>>> {
        Some(self.selection.of_batch(batch, counts))
    }

    fn reads_tokens(&self) -> bool {
        true
    }

    fn coupling(&self) -> Coupling {
        self.selection.coupling()
    }
}
