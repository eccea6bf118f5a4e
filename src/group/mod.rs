//! The rollouts of one prompt: [`Response`], [`Group`], and the [`ExtraInputs`] that a policy may add to a response.

mod extra_inputs;

pub use extra_inputs::{
    ExtraInputs, InputKind, InputSource, PerReasoningToken, PerReward, PerStep, PerToken, Series,
    StatePerToken, StepValue,
};

/// One sampled response: `T` tokens, the last one EOS unless it was cut off at the length limit. With `T = 0` it counts with its reward alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Response {
    /// Token ids, length `T`. May be left empty where only lengths and log-probabilities are known.
    pub tokens: Vec<u32>,
    /// `log pi_old(a_t|s_t)` under the policy that sampled, length `T`, in nats. Its length *is* the response's length.
    pub old_logps: Vec<f64>,
    /// `log pi_ref(a_t|s_t)` under the reference policy, length `T`; needed when the KL coefficient is not zero.
    pub ref_logps: Option<Vec<f64>>,
    /// The outcome reward; `None` when the response could not be graded. Such a response is left out of
    /// every group statistic and gets advantage 0, which is not the same as reward 0.
    pub reward: Option<f64>,
    /// True if the response was cut off at the length limit instead of ending with EOS.
    pub truncated: bool,
    /// The policy's additions, where a method asks for them.
    pub extra_inputs: ExtraInputs,
}

impl Response {
    /// A graded, finished response without tokens, reference or extra inputs: enough for every method that needs log-probabilities only.
    pub fn graded(old_logps: Vec<f64>, reward: f64) -> Self {
        Response {
            tokens: Vec::new(),
            old_logps,
            ref_logps: None,
            reward: Some(reward),
            truncated: false,
            extra_inputs: ExtraInputs::default(),
        }
    }

    /// Number of tokens `T`.
    pub fn len(&self) -> usize {
        self.old_logps.len()
    }

    /// True if the response holds no token: its reward counts for the others, and nothing of it is in the loss.
    pub fn is_empty(&self) -> bool {
        self.old_logps.is_empty()
    }
}

/// The `g` responses to one prompt, which share their baseline.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    /// The responses, in sampling order.
    pub responses: Vec<Response>,
}

impl Group {
    /// Rewards in response order; `None` where a response could not be graded.
    pub fn rewards(&self) -> Vec<Option<f64>> {
        self.responses.iter().map(|r| r.reward).collect()
    }
}

impl InputKind {
    /// True if `response` carries it.
    pub fn is_in(self, response: &Response) -> bool {
        match self {
            InputKind::Tokens => !response.tokens.is_empty(),
            InputKind::RefLogps => response.ref_logps.is_some(),
            kind => response.extra_inputs.series().any(|(found, _)| found == kind),
        }
    }
}

/// Every group with its part of a list over the responses in flat order.
pub(crate) fn by_group<'a, T>(
    batch: &'a [Group],
    flat: &'a [T],
) -> impl Iterator<Item = (&'a Group, &'a [T])> {
    let mut rest = flat;
    batch.iter().map(move |group| {
        let (own, after) = rest.split_at(group.responses.len());
        rest = after;
        (group, own)
    })
}
