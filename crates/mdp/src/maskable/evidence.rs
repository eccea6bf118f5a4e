//! [`MaskableEvidence`]: what methods ask for beyond rewards, of a [`Maskable`] policy.

use super::Maskable;
use crate::evidence::{Exact, Provider};
use crate::{EdgeId, LeafId, Oracle, Tree};
use grpo_lambda::group::{Evidence, EvidenceKind};

/// The evidence of a [`Maskable`] policy: everything a table gives, both scores, and its hidden units.
#[derive(Clone, Debug)]
pub struct MaskableEvidence<'t> {
    policy: Maskable,
    tree: &'t Tree,
    exact: Exact,
    /// Standard deviation of the perturbation of OAR-G; the authors' is 1e-3.
    pub noise: f64,
    /// Perturbations averaged per response; the authors take 1.
    pub draws: usize,
    /// Seed of the perturbations.
    pub seed: u64,
}

impl<'t> MaskableEvidence<'t> {
    /// The scores of `policy` on `tree`, with eight draws of noise 1e-3.
    pub fn new(tree: &'t Tree, policy: Maskable) -> MaskableEvidence<'t> {
        let exact = Exact::new(&Oracle::new(tree, &policy.tabular(tree)));
        MaskableEvidence { policy, tree, exact, noise: 1e-3, draws: 8, seed: 0 }
    }
}

impl Provider for MaskableEvidence<'_> {
    fn evidence(&self, leaf: LeafId, path: &[EdgeId]) -> Evidence {
        Evidence {
            shifts: Some(self.policy.shifts(self.tree, path)),
            saliencies: Some(self.policy.saliencies(self.tree, path, self.noise, self.draws, self.seed)),
            hidden: Some(self.policy.states(self.tree, path)),
            ..self.exact.evidence(leaf, path)
        }
    }

    fn kinds(&self) -> Vec<EvidenceKind> {
        [self.exact.kinds(), vec![EvidenceKind::Shifts, EvidenceKind::Saliencies, EvidenceKind::Hidden]]
            .concat()
    }
}
