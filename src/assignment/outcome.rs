use super::Assignment;
use crate::advantage::{Delta, Outcome};
use crate::equation::{Part, number};
use crate::group::{Group, Response};
use crate::methods::Coupling;

/// The penalty of responses that come near the length limit (DAPO's soft overlong punishment), added to the reward.
///
/// ```text
/// 0                                  T <= limit - cache
/// ((limit - cache) - T) / cache      in between, falling to -1
/// -1                                 T > limit
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Overlong {
    /// `L_max`, in tokens.
    pub limit: f64,
    /// `L_cache`, in tokens, positive.
    pub cache: f64,
}

impl Overlong {
    /// What is added to the reward of a response of `len` tokens, in `[-1, 0]`.
    ///
    /// ```
    /// use grpo_lambda::assignment::Overlong;
    /// let dapo = Overlong { limit: 20480.0, cache: 4096.0 };
    /// assert_eq!([16384, 18432, 20480, 30000].map(|len| dapo.penalty(len)), [0.0, -0.5, -1.0, -1.0]);
    /// ```
    pub fn penalty(self, len: usize) -> f64 {
        ((self.limit - self.cache - len as f64) / self.cache).clamp(-1.0, 0.0)
    }
}

/// One advantage per response, from rewards alone, spread over its tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Rewards to advantages.
    pub outcome: Outcome,
    /// Advantages to tokens.
    pub delta: Delta,
    /// A penalty of long responses, part of the reward.
    pub overlong: Option<Overlong>,
}

impl Spread {
    /// The same advantage at every token.
    pub fn constant(outcome: Outcome) -> Spread {
        Spread { outcome, delta: Delta::Constant, overlong: None }
    }
}

impl Assignment for Spread {
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
        if self.overlong.is_some() { Coupling::Everything } else { Coupling::Rewards }
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
