use super::{Assignment, each_counted, masked, needed};
use crate::equation::{Part, number};
use crate::group::{Group, Response};
use crate::method::Coupling;

/// Differences of Monte-Carlo values between the starts of steps, the same for every token of a step.
///
/// ```text
/// A_t = V(s_next) - V(s_step)      for the tokens of a step,      A_t = r - V(s_step) in the last
/// ```
/// Fresh completions make both values unbiased, and their noise is independent of the step's tokens given its start: the expected
/// update is the policy gradient over steps, exactly so when every token is a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepDifference {
    /// Tokens that were more likely than this when sampled get 0 (SPO-chain: 0.9); none: every token of a step counts.
    pub sure: Option<f64>,
    /// True if those tokens leave the batch altogether: no KL term, and no place in a denominator.
    pub drop: bool,
}

impl StepDifference {
    fn differences(&self, r: &Response, reward: f64) -> Vec<f64> {
        let steps = needed(&r.extra_inputs.steps, "steps");
        let mut advantages = vec![0.0; r.len()];
        for (i, step) in steps.iter().enumerate() {
            let next = steps.get(i + 1);
            let after = next.map_or(reward, |s| s.value);
            advantages[step.start..next.map_or(r.len(), |s| s.start)].fill(after - step.value);
        }
        advantages
    }

    /// The tokens of which the policy was not sure.
    fn unsure(&self, r: &Response) -> Option<Vec<bool>> {
        let sure = self.sure?;
        Some(r.old_logps.iter().map(|old| old.exp() <= sure).collect())
    }
}

impl Assignment for StepDifference {
    fn advantages(&self, batch: &[Group], active: &[bool]) -> Vec<Vec<f64>> {
        masked(each_counted(batch, active, |r, reward| self.differences(r, reward)), self.mask(batch, active))
    }

    fn mask(&self, batch: &[Group], _: &[bool]) -> Option<Vec<Vec<bool>>> {
        batch.iter().flat_map(|g| &g.responses).map(|r| self.unsure(r)).collect()
    }

    fn equation(&self, token: &str) -> Vec<Part> {
        let left = match self.drop {
            true => ", tokens that leave the batch: they have weight 0 and no place in T_i",
            false => "",
        };
        let mask = self.sure.map(|p| format!("; 0 where pi_old(a_t|s_t) > {}{left}", number(p)));
        let credit = format!(
            "{token} = V(next step) - V(step of t), in the last step r_i - V(step of t){}",
            mask.unwrap_or_default()
        );
        let value = "V(step) = the mean reward of fresh completions from the start of the step";
        vec![("credit", credit), ("value", value.to_owned())]
    }

    fn coupling(&self) -> Coupling {
        // Which tokens of the others stay decides what a token of this one weighs.
        if self.drop { Coupling::Everything } else { Coupling::Rewards }
    }

    fn compares(&self) -> bool {
        false
    }

    fn needs_others(&self) -> bool {
        false
    }

    fn kept(&self, response: &Response) -> Option<Vec<bool>> {
        self.unsure(response).filter(|_| self.drop)
    }
}
