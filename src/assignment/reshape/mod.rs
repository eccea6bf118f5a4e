//! Bi-level reshaping of an advantage by token scores (OAR).

mod bi_level;
mod scores;

pub use bi_level::{BiLevel, Threshold};
pub use scores::{Answer, TokenScores};

use super::{Assignment, counted, needed};
use crate::equation::{Part, inner};
use crate::group::Group;
use crate::method::Coupling;

/// Another assignment times the bi-level weights of the reasoning tokens; the tokens after them keep weight 1.
#[derive(Debug)]
pub struct Reshaped {
    /// The assignment whose advantages are reshaped.
    pub inner: Box<dyn Assignment>,
    /// The scores of the reasoning tokens that reshape them.
    pub scores: TokenScores,
    /// The function from scores to weights.
    pub bi_level: BiLevel,
}

impl Assignment for Reshaped {
    fn advantages(&self, batch: &[Group], active: &[bool]) -> Vec<Vec<f64>> {
        let mut advantages = self.inner.advantages(batch, active);
        for (row, (r, counts)) in advantages.iter_mut().zip(counted(batch, active)) {
            if !counts {
                continue;
            }
            let scores = match self.scores {
                TokenScores::Shifts { .. } => needed(&r.extra_inputs.shifts, "shifts"),
                TokenScores::Saliencies { .. } => needed(&r.extra_inputs.saliencies, "saliencies"),
            };
            assert!(scores.len() <= r.len(), "at most one score per token");
            for (a, w) in row.iter_mut().zip(self.bi_level.weights(scores)) {
                *a *= w;
            }
        }
        advantages
    }

    fn equation(&self, token: &str) -> Vec<Part> {
        let own = inner(token);
        let reshaped = format!("{token} = c_t {own} at the reasoning tokens, {own} at those after them");
        let mut parts = vec![("reshaped", reshaped)];
        parts.extend(self.bi_level.equation());
        parts.push(("input", self.scores.equation()));
        parts.extend(self.inner.equation(&own));
        parts
    }

    fn coupling(&self) -> Coupling {
        self.inner.coupling()
    }

    fn compares(&self) -> bool {
        self.inner.compares()
    }

    fn needs_others(&self) -> bool {
        self.inner.needs_others()
    }
}
