//! [`Pattern`]: a token sequence, exact or open at its end.

/// The pattern token that stands for any suffix.
pub(super) const ANY: &str = "*";

/// A token sequence that is matched exactly, or whose end is open (`*`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    pub(super) fixed: Vec<u32>,
    pub(super) open: bool,
}

impl Pattern {
    /// True if it matches: the sequence itself, or for an open pattern any sequence that starts with the
    /// fixed part (that part alone included).
    pub(super) fn matches(&self, sequence: &[u32]) -> bool {
        if self.open { sequence.starts_with(&self.fixed) } else { sequence == self.fixed }
    }

    /// Rank by which the more specific of two matching patterns is the greater: a longer fixed part first
    /// (an exact match has the longest possible), then exact before open.
    fn specificity(&self) -> (usize, bool) {
        (self.fixed.len(), !self.open)
    }
}

/// The index of the most specific pattern that matches; unique if the patterns are distinct.
pub(super) fn best(patterns: &[Pattern], sequence: &[u32]) -> Option<usize> {
    let matching = (0..patterns.len()).filter(|&i| patterns[i].matches(sequence));
    matching.max_by_key(|&i| patterns[i].specificity())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_specific_match_wins() {
        let open = |fixed: &[u32]| Pattern { fixed: fixed.to_vec(), open: true };
        let exact = |fixed: &[u32]| Pattern { fixed: fixed.to_vec(), open: false };
        let patterns = [open(&[]), open(&[1]), exact(&[1, 2]), open(&[1, 2]), exact(&[])];
        assert_eq!(best(&patterns, &[1, 2]), Some(2));
        assert_eq!(best(&patterns, &[1, 2, 3]), Some(3));
        assert_eq!(best(&patterns, &[1, 3]), Some(1));
        assert_eq!(best(&patterns, &[1]), Some(1));
        assert_eq!(best(&patterns, &[0]), Some(0));
        assert_eq!(best(&patterns, &[]), Some(4));
        assert_eq!(best(&patterns[1..4], &[0]), None);
    }
}
