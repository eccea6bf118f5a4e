//! [`Rollout`]: prompts, the responses sampled to them, and what these earned.

use grpo_lambda::group::Group;

use super::evidence::EvidenceCost;
use super::prompt::TrainingPrompt;
use crate::reward::RewardBreakdown;

/// What a step learns from: group `i` and its rewards belong to prompt `i`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rollout {
    /// The step of training that it was sampled for, which addresses its random numbers.
    pub step: u64,
    pub prompts: Vec<TrainingPrompt>,
    /// The responses, with everything a method reads.
    pub groups: Vec<Group>,
    /// What each response earned, and for what.
    pub rewards: Vec<Vec<RewardBreakdown>>,
    /// What the method's evidence cost.
    pub evidence_cost: EvidenceCost,
    /// Whether the weights that sampled it are those to be trained on it: the trainer's log-probabilities must then be the sampler's, to the
    /// bit where the engine is exact.
    pub on_policy: bool,
}

impl Rollout {
    /// Whether the frozen reference scored its responses: only then is there a KL.
    pub fn is_scored_by_reference(&self) -> bool {
        self.groups.iter().flat_map(|g| &g.responses).any(|r| r.ref_logps.is_some())
    }
}
