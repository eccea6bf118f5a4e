//! From the rewards of a group to the advantage of each token.
//!
//! | item | what it is |
//! | --- | --- |
//! | [`OutcomeAdvantage`] | one advantage per response: its reward, centred by a [`Baseline`] and divided by a [`Scale`] |
//! | [`ClampPart`] | the clamp of those advantages taken apart: prompts re-weighted, and an offset |
//! | [`Delta`] | how that becomes the `delta_t` of the response's tokens |
//! | [`Std`] | how the standard deviation of a scale is estimated |
//! | [`td_errors`], [`gae`] | an advantage per token from the values of a critic |

mod clamp_part;
mod delta;
mod deviation;
mod gae;
mod outcome;

pub use clamp_part::ClampPart;
pub use delta::Delta;
pub use deviation::Std;
pub use gae::{gae, td_errors};
pub use outcome::{Baseline, OutcomeAdvantage, Scale};

/// The share of the largest value below which differences are rounding: rewards that are sums of weighted parts, or come from a program, have it.
const ROUNDING: f64 = 1e-9;

/// True if the values span no more than 1e-9 of the largest magnitude (also for none or one).
///
/// ```
/// use grpo_lambda::advantage::all_equal;
/// assert!(all_equal(&[0.1 + 0.2, 0.3]) && !all_equal(&[0.3, 0.3 + 1e-9]) && !all_equal(&[0.0, 1e-300]));
/// ```
pub fn all_equal(values: &[f64]) -> bool {
    let values = || values.iter().copied();
    let (Some(low), Some(high)) = (values().min_by(f64::total_cmp), values().max_by(f64::total_cmp)) else {
        return true;
    };
    high - low <= ROUNDING * high.abs().max(low.abs())
}
