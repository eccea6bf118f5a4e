use super::{Assignment, Overlong};
use crate::advantage::{Baseline, Delta, OutcomeAdvantage};
use crate::equation::{Part, number};
use crate::group::{Group, Response};
use crate::method::Coupling;

/// One advantage per response, from rewards alone, spread over its tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OutcomeCredit {
    /// From the rewards of a group to one advantage per response.
    pub outcome: OutcomeAdvantage,
    /// From the advantage of a response to those of its tokens.
    pub delta: Delta,
    /// A penalty of long responses, part of the reward.
    pub overlong: Option<Overlong>,
}

impl OutcomeCredit {
    /// One advantage at every token.
    pub fn constant(outcome: OutcomeAdvantage) -> OutcomeCredit {
        OutcomeCredit { outcome, delta: Delta::Constant, overlong: None }
    }
}

impl Assignment for OutcomeCredit {
    fn advantages(&self, batch: &[Group], _: &[bool]) -> Vec<Vec<f64>> {
        let penalty = |len: usize| self.overlong.map_or(0.0, |o| o.penalty(len));
        let reward = |r: &Response| r.reward.map(|reward| reward + penalty(r.len()));
        let rewards: Vec<Vec<_>> = batch.iter().map(|g| g.responses.iter().map(reward).collect()).collect();
        let outcomes = self.outcome.of_batch(&rewards).into_iter().flatten();
        let responses = batch.iter().flat_map(|g| &g.responses);
        responses.zip(outcomes).map(|(r, a)| self.delta.spread(a, r.len())).collect()
    }

    fn equation(&self, token: &str) -> Vec<Part> {
        let mut parts = vec![("credit", self.delta.equation(token)), ("advantage", self.outcome.equation())];
        if let Some(Overlong { limit, cache }) = self.overlong {
            let (start, cache) = (number(limit - cache), number(cache));
            parts.push((
                "reward",
                format!("r_i = the graded reward + clip(({start} - T_i) / {cache}, -1, 0)"),
            ));
        }
        parts
    }

    fn coupling(&self) -> Coupling {
        let by_place = matches!(self.outcome.baseline, Baseline::OtherSets(_));
        if self.overlong.is_some() || by_place { Coupling::Everything } else { Coupling::Rewards }
    }

    fn reads_tokens(&self) -> bool {
        false
    }

    fn compares(&self) -> bool {
        self.overlong.is_none()
    }

    fn profile(&self, len: usize) -> Vec<f64> {
        self.delta.spread(1.0, len)
    }
}
