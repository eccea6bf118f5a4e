//! What is computed.

use super::hand::{Hand, hand};
use super::responses::{Responses, responses};
use super::states::{OffPolicy, States, off_policy, states};
use crate::experiment::Context;

pub(super) struct Numbers {
    pub(super) states: States,
    pub(super) hand: Hand,
    pub(super) off_policy: OffPolicy,
    pub(super) responses: Responses,
}

pub(super) fn measure(context: &Context) -> anyhow::Result<Numbers> {
    let pairs = if context.full { 2000 } else { 300 };
    (context.progress)(0.0, "one state");
    let states = states(pairs, context.seed)?;
    (context.progress)(0.5, "responses");
    let responses = responses(context.seed)?;
    Ok(Numbers { states, hand: hand(), off_policy: off_policy(pairs, context.seed)?, responses })
}
