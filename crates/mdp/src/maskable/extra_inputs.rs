//! [`MaskableInputs`]: what methods ask for beyond rewards, of a [`Maskable`] policy.

use super::Maskable;
use crate::extra_inputs::{Exact, Provider};
use crate::{EdgeId, LeafId, Oracle, Tree};
use grpo_lambda::group::{ExtraInputs, InputKind};

/// The extra inputs of a [`Maskable`] policy: everything a table gives, both scores, and its hidden units.
#[derive(Clone, Debug)]
pub struct MaskableInputs<'t> {
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

impl<'t> MaskableInputs<'t> {
    /// The scores of `policy` on `tree`, with eight draws of noise 1e-3.
    pub fn new(tree: &'t Tree, policy: Maskable) -> MaskableInputs<'t> {
        let exact = Exact::new(&Oracle::new(tree, &policy.tabular(tree)));
        MaskableInputs { policy, tree, exact, noise: 1e-3, draws: 8, seed: 0 }
    }
}

impl Provider for MaskableInputs<'_> {
    fn extra_inputs(&self, leaf: LeafId, path: &[EdgeId]) -> ExtraInputs {
        ExtraInputs {
            shifts: Some(self.policy.shifts(self.tree, path)),
            saliencies: Some(self.policy.saliencies(self.tree, path, self.noise, self.draws, self.seed)),
            hidden: Some(self.policy.states(self.tree, path)),
            ..self.exact.extra_inputs(leaf, path)
        }
    }

    fn kinds(&self) -> Vec<InputKind> {
        [self.exact.kinds(), vec![InputKind::Shifts, InputKind::Saliencies, InputKind::Hidden]].concat()
    }
}
