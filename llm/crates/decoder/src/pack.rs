//! Rows packed into micro-batches.

use std::ops::Range;

/// Splits consecutive rows into micro-batches of at most `budget` tokens; a longer row is a micro-batch of its own.
pub fn pack(lengths: impl Iterator<Item = usize>, budget: usize) -> Vec<Range<usize>> {
    let mut parts: Vec<Range<usize>> = Vec::new();
    let mut filled = 0;
    for (i, len) in lengths.enumerate() {
        match parts.last_mut() {
            Some(part) if filled + len <= budget => {
                part.end = i + 1;
                filled += len;
            }
            _ => {
                parts.push(i..i + 1);
                filled = len;
            }
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_packed_in_order_up_to_the_budget() {
        assert_eq!(pack([3, 4, 5, 20, 1].into_iter(), 8), [0..2, 2..3, 3..4, 4..5]);
        assert_eq!(pack([3, 4].into_iter(), 100), vec![0..2; 1]);
        assert!(pack(std::iter::empty(), 8).is_empty());
    }
}
