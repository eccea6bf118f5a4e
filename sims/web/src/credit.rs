//! The weight of every token of a right and of a wrong response of equal length, next to GRPO's.

use grpo_lambda::group::{ExtraInputs, Group, Response};
use grpo_lambda::methods::{BatchLoss, Configured, evaluate};
use grpo_lambda::token_weights::LOG_PROB;
use wasm_bindgen::prelude::wasm_bindgen;

use crate::configure;

/// The baseline, which weighs every token equally.
const GRPO: &str = "reduction=token_mean";
const LARGEST: usize = 64;
const LONGEST: usize = 4096;

/// The pull on every token of a group of `size` responses of `length` tokens each, of which `right` are right.
///
/// ```text
/// pull_t = -N dL/dlog π(a_t|s_t),      N = tokens of the group
/// ```
/// Positive: gradient descent makes the token more likely. GRPO with a token mean has the response's advantage at every token.
#[wasm_bindgen]
pub struct Profile {
    own: Pulls,
    grpo: Pulls,
}

/// Credit of the first right and the first wrong response.
struct Pulls {
    right: Vec<f64>,
    wrong: Vec<f64>,
    /// The advantage of largest magnitude of each response.
    advantages: [f64; 2],
    /// Mean magnitude over all tokens of the group.
    mean: f64,
    clipped: usize,
}

#[wasm_bindgen]
impl Profile {
    /// Evaluates `method` and GRPO. `log_ratio` is the log-ratio of policy and sampler at every token, 0 on-policy.
    ///
    /// # Errors
    /// The text of the command line for a method or setting; a group that has no right or no wrong response, or too many tokens.
    #[wasm_bindgen(constructor)]
    pub fn new(
        method: &str,
        settings: &str,
        size: usize,
        right: usize,
        length: usize,
        log_ratio: f64,
    ) -> Result<Profile, String> {
        let configured = configure(method, settings)?;
        if !(2..=LARGEST).contains(&size) {
            return Err(format!("group size = {size}; must be from 2 to {LARGEST}"));
        }
        if right == 0 || right >= size {
            return Err(format!(
                "right = {right}; must be from 1 to {}, so that some are right and some are wrong",
                size - 1
            ));
        }
        if !(1..=LONGEST).contains(&length) {
            return Err(format!("length = {length}; must be from 1 to {LONGEST}"));
        }
        if !(-1.0..=1.0).contains(&log_ratio) {
            return Err(format!("log-ratio = {log_ratio}; must be from -1 to 1"));
        }
        if let Some(limit) = configured.method.max_len().filter(|limit| length > *limit) {
            return Err(format!(
                "length = {length}; with matrix_length={limit} at most {limit} tokens are possible"
            ));
        }
        let grpo = configure("grpo", GRPO)?;
        let (group, logps) = group(size, right, length, log_ratio);
        let pulls_under = |configured: &Configured| pulls(configured, &group, &logps, right);
        Ok(Profile { own: pulls_under(&configured)?, grpo: pulls_under(&grpo)? })
    }

    /// Pull on every token of a right response.
    #[wasm_bindgen(getter)]
    pub fn right(&self) -> Vec<f64> {
        self.own.right.clone()
    }

    /// Pull on every token of a wrong response.
    #[wasm_bindgen(getter)]
    pub fn wrong(&self) -> Vec<f64> {
        self.own.wrong.clone()
    }

    /// GRPO's pull on every token of a right response.
    #[wasm_bindgen(getter)]
    pub fn grpo_right(&self) -> Vec<f64> {
        self.grpo.right.clone()
    }

    /// GRPO's pull on every token of a wrong response.
    #[wasm_bindgen(getter)]
    pub fn grpo_wrong(&self) -> Vec<f64> {
        self.grpo.wrong.clone()
    }

    /// Advantages of right and wrong, of the method and of GRPO.
    #[wasm_bindgen(getter)]
    pub fn advantages(&self) -> Vec<f64> {
        [self.own.advantages, self.grpo.advantages].concat()
    }

    /// Tokens of the group that are clipped: of the method, and of GRPO.
    #[wasm_bindgen(getter)]
    pub fn clipped(&self) -> Vec<usize> {
        vec![self.own.clipped, self.grpo.clipped]
    }

    /// Mean magnitude of the pull over that of GRPO; infinite or NaN where GRPO's is 0.
    #[wasm_bindgen(getter)]
    pub fn scale(&self) -> f64 {
        self.own.mean / self.grpo.mean
    }
}

/// Right responses first. The sampler's log-probabilities lie `log_ratio` below the policy's.
fn group(size: usize, right: usize, length: usize, log_ratio: f64) -> (Group, Vec<Vec<f64>>) {
    let response = |i: usize| Response {
        tokens: vec![u32::from(i < right); length],
        ref_logps: Some(vec![LOG_PROB; length]),
        extra_inputs: ExtraInputs::neutral(length, LOG_PROB),
        ..Response::graded(vec![LOG_PROB - log_ratio; length], f64::from(u8::from(i < right)))
    };
    (Group { responses: (0..size).map(response).collect() }, vec![vec![LOG_PROB; length]; size])
}

fn pulls(configured: &Configured, group: &Group, logps: &[Vec<f64>], right: usize) -> Result<Pulls, String> {
    let BatchLoss { advantages, dlogps, metrics, .. } =
        evaluate(configured.method.as_ref(), std::slice::from_ref(group), logps);
    let tokens = dlogps.iter().map(Vec::len).sum::<usize>() as f64;
    let pull = |i: usize| dlogps[i].iter().map(|d| 0.0 - d * tokens).collect::<Vec<f64>>();
    let largest =
        |i: usize| advantages[i].iter().fold(0.0, |a: f64, b| if b.abs() > a.abs() { *b } else { a });
    let pulls = Pulls {
        right: pull(0),
        wrong: pull(right),
        advantages: [largest(0), largest(right)],
        mean: dlogps.iter().flatten().map(|d| d.abs()).sum::<f64>(),
        clipped: metrics.clipped_low + metrics.clipped_high,
    };
    match pulls.right.iter().chain(&pulls.wrong).find(|x| !x.is_finite()) {
        None => Ok(pulls),
        Some(x) => Err(format!("the gradient would be {x}; settings are too large for 64-bit floats")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use grpo_lambda::methods::{REGISTRY, parse};
    use grpo_lambda::token_weights::token_weights;

    #[test]
    fn the_pull_is_the_token_weight_times_the_advantage() {
        for (method, settings) in [
            ("grpo_lambda", "lambda=0.9"),
            ("grpo_lambda", "style=both lambda=0.5"),
            ("rloo", ""),
            ("dr_grpo", "max_length=8"),
        ] {
            let profile = Profile::new(method, settings, 2, 1, 5, 0.0).unwrap();
            let weights = token_weights(&parse(method, settings).unwrap(), 5);
            for (pull, w) in profile.right().iter().zip(weights) {
                assert!((pull - w * profile.advantages()[0]).abs() < 1e-12, "{method} {settings}");
            }
        }
    }

    #[test]
    fn grpo_pulls_every_token_by_the_advantage_and_the_clip_stops_it() {
        let on_policy = Profile::new("grpo", "reduction=token_mean", 8, 2, 16, 0.0).unwrap();
        let [right, wrong, ..] = on_policy.advantages()[..] else { panic!("two advantages") };
        // Two of eight right: mean 1/4, variance (2 (3/4)^2 + 6 (1/4)^2) / 7.
        let std = (1.5f64 / 7.0).sqrt() + 1e-4;
        assert!((right - 0.75 / std).abs() < 1e-12 && (wrong + 0.25 / std).abs() < 1e-12);
        assert!(on_policy.right().iter().all(|x| (x - right).abs() < 1e-12));
        assert!(on_policy.wrong().iter().all(|x| (x - wrong).abs() < 1e-12));
        assert_eq!(on_policy.scale(), 1.0);
        let above = Profile::new("grpo", "", 8, 2, 16, 0.3).unwrap();
        assert!(above.right().iter().all(|x| *x == 0.0) && above.wrong().iter().all(|x| *x < 0.0));
        assert_eq!(above.clipped(), [32, 32]);
    }

    #[test]
    fn every_method_has_a_profile() {
        for spec in REGISTRY {
            let profile =
                Profile::new(spec.name, "", 8, 4, 12, 0.0).map_err(|e| format!("{}: {e}", spec.name));
            assert!(profile.is_ok_and(|p| p.right().len() == 12));
        }
    }

    #[test]
    fn what_is_no_group_is_refused() {
        let refused = |right, length, log_ratio| {
            Profile::new("grpo", "", 8, right, length, log_ratio).err().expect("refused")
        };
        assert!(refused(0, 4, 0.0).contains("from 1 to 7"));
        assert!(refused(8, 4, 0.0).contains("from 1 to 7"));
        assert!(refused(4, 0, 0.0).starts_with("length = 0"));
        assert!(refused(4, 4, f64::NAN).starts_with("log-ratio = NaN"));
        assert!(Profile::new("grpo", "lambda=0.9", 8, 4, 4, 0.0).err().unwrap().contains("lambda"));
    }
}
