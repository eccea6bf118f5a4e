//! Between padded rows with a mask, as trainers keep them, and the ragged rows of this crate.
//!
//! A slot that is no token of the policy (padding on either side, a tool's output in the middle) must not reach a trace or a
//! statistic: multiplied by 0 it still decays a trace, shifts positions, and spoils everything if it holds no number. Compress
//! every row to its trained tokens first, and scatter the gradient back.

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
