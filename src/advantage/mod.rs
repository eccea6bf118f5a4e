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

/// True if no two values differ (also for none or one).
pub fn all_equal(values: &[f64]) -> bool {
    values.windows(2).all(|w| w[0] == w[1])
}
