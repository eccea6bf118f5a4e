use super::{Assignment, each_counted};
use crate::equation::{Part, number};
use crate::group::{Group, Response};
use crate::method::Coupling;

/// One advantage for right responses and one for wrong ones, without a baseline (W-REINFORCE).
///
/// ```text
/// A_i = positive where r_i > 0,   -negative elsewhere
/// ```
/// A response teaches whatever the others of its group earned.
///
/// Source: arXiv 2506.01347; the authors' `psr_nsr`, for rewards of 0 or 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Signed {
    /// Weight of right responses, at least 0.
    pub positive: f64,
    /// Weight of wrong responses, at least 0.
    pub negative: f64,
}

impl Assignment for Signed {
    fn advantages(&self, batch: &[Group], active: &[bool]) -> Vec<Vec<f64>> {
        let signed = |r: &Response, reward: f64| {
            vec![if reward > 0.0 { self.positive } else { -self.negative }; r.len()]
        };
        each_counted(batch, active, signed)
    }

    fn equation(&self, token: &str) -> Vec<Part> {
        let [positive, negative] = [self.positive, self.negative].map(number);
        vec![("credit", format!("{token} = {positive} where r_i > 0, else -{negative}"))]
    }

    fn coupling(&self) -> Coupling {
        Coupling::Rewards
    }

    fn reads_tokens(&self) -> bool {
        false
    }

    fn compares(&self) -> bool {
        false
    }

    fn needs_others(&self) -> bool {
        false
    }
}
