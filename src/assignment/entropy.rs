use super::{Assignment, EntropySelection, counted, masked};
use crate::equation::{Part, inner};
use crate::group::Group;
use crate::method::Coupling;

/// Another assignment at the tokens of high entropy, 0 at the others: the 80/20 rule.
///
/// Denominators and the KL term keep every token, as in TRL. With a threshold in nats the mask depends on the prefix
/// alone, and the expected update of an unbiased method is the policy gradient restricted to the prefixes kept.
///
/// Source: TRL `top_entropy_quantile`; arXiv 2506.01939.
#[derive(Debug)]
pub struct HighEntropy {
    /// The assignment whose advantages the chosen tokens keep.
    pub inner: Box<dyn Assignment>,
    /// The choice of tokens.
    pub selection: EntropySelection,
}

impl Assignment for HighEntropy {
    fn advantages(&self, batch: &[Group], active: &[bool]) -> Vec<Vec<f64>> {
        let counts: Vec<bool> = counted(batch, active).map(|(_, counts)| counts).collect();
        masked(self.inner.advantages(batch, active), self.mask(batch, &counts))
    }

    fn mask(&self, batch: &[Group], counts: &[bool]) -> Option<Vec<Vec<bool>>> {
        Some(self.selection.of_batch(batch, counts))
    }

    fn equation(&self, token: &str) -> Vec<Part> {
        let (full, chosen) = (inner(token), self.selection.equation("t"));
        [vec![("mask", format!("{token} = {full} where {chosen}, else 0"))], self.inner.equation(&full)]
            .concat()
    }

    fn coupling(&self) -> Coupling {
        self.inner.coupling().max(self.selection.coupling())
    }

    fn compares(&self) -> bool {
        self.inner.compares()
    }

    fn needs_others(&self) -> bool {
        self.inner.needs_others()
    }
}
