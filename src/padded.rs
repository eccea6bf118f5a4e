//! Between padded rows with a mask, as trainers keep them, and the ragged rows of this crate.
//!
//! A slot that is no token of the policy (padding on either side, a tool's output in the middle) must not reach a trace or a
//! statistic: multiplied by 0 it still decays a trace, shifts positions, and spoils everything if it holds no number. Compress
//! every row to its trained tokens first, and scatter the gradient back.

use crate::group::{ExtraInputs, InputKind, InputSource, PerStep, Series, StatePerToken};
use std::convert::Infallible;

/// The entries of `row` where `mask` holds.
///
/// ```
/// use grpo_lambda::padded;
/// assert_eq!(padded::compress(&[0.5, f64::NAN, 0.25], &[true, false, true]), [0.5, 0.25]);
/// ```
///
/// # Panics
/// If the lengths differ.
pub fn compress<T: Clone>(row: &[T], mask: &[bool]) -> Vec<T> {
    assert_eq!(row.len(), mask.len(), "one mask entry per slot");
    row.iter().zip(mask).filter(|(_, mask)| **mask).map(|(x, _)| x.clone()).collect()
}

/// The extra inputs of the tokens where `mask` holds. Steps and reasoning tokens, which have no slot each, count trained tokens already and stay
/// as they are, and so does what does not have one entry per slot: [`crate::check`] names it.
pub fn compress_inputs(extra_inputs: &ExtraInputs, mask: &[bool]) -> ExtraInputs {
    let Ok(compressed) = ExtraInputs::read(&mut Compressed { extra_inputs, mask });
    compressed
}

struct Compressed<'a> {
    extra_inputs: &'a ExtraInputs,
    mask: &'a [bool],
}

impl<'a> Compressed<'a> {
    fn series(&self, kind: InputKind) -> Option<Series<'a>> {
        self.extra_inputs.series().find(|(found, _)| *found == kind).map(|(_, series)| series)
    }
}

impl InputSource for Compressed<'_> {
    type Error = Infallible;

    fn numbers(&mut self, kind: InputKind) -> Result<Option<Vec<f64>>, Infallible> {
        Ok(self.series(kind).and_then(|series| match series {
            Series::PerToken(row) if row.len() == self.mask.len() => Some(compress(row, self.mask)),
            Series::PerToken(row) | Series::PerReasoningToken(row) | Series::PerReward(row) => {
                Some(row.to_vec())
            }
            Series::PerStep(_) | Series::StatePerToken(_) => None,
        }))
    }

    fn steps(&mut self, kind: InputKind) -> Result<Option<PerStep>, Infallible> {
        let steps = self.series(kind);
        Ok(steps.and_then(|s| if let Series::PerStep(steps) = s { Some(steps.to_vec()) } else { None }))
    }

    fn states(&mut self, kind: InputKind) -> Result<Option<StatePerToken>, Infallible> {
        Ok(self.series(kind).and_then(|series| match series {
            Series::StatePerToken(states) if states.len() == self.mask.len() => {
                Some(compress(states, self.mask))
            }
            Series::StatePerToken(states) => Some(states.to_vec()),
            _ => None,
        }))
    }
}

/// The inverse of [`compress`], with `fill` in the slots where `mask` does not hold.
///
/// ```
/// use grpo_lambda::padded;
/// assert_eq!(padded::scatter(&[0.5, 0.25], &[true, false, true], 0.0), [0.5, 0.0, 0.25]);
/// ```
///
/// # Panics
/// If `row` does not have one entry per slot where the mask holds.
pub fn scatter<T: Clone>(row: &[T], mask: &[bool], fill: T) -> Vec<T> {
    let trained = mask.iter().filter(|mask| **mask).count();
    assert_eq!(row.len(), trained, "one entry per slot where the mask holds");
    let mut next = row.iter();
    mask.iter()
        .map(|&mask| if mask { next.next().expect("counted above").clone() } else { fill.clone() })
        .collect()
}
