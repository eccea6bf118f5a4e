//! Runs of rows of equal length.

/// Rows of equal length that follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RowSpan {
    /// Token at which the first begins.
    pub(super) start: usize,
    /// Tokens of each.
    pub(super) len: usize,
    /// How many.
    pub(super) rows: usize,
}

/// The spans of rows that begin at these offsets, the last of which is the end.
pub(super) fn spans(offsets: &[usize]) -> Vec<RowSpan> {
    let mut spans: Vec<RowSpan> = Vec::new();
    for pair in offsets.windows(2) {
        let len = pair[1] - pair[0];
        match spans.last_mut() {
            Some(span) if span.len == len => span.rows += 1,
            _ => spans.push(RowSpan { start: pair[0], len, rows: 1 }),
        }
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consecutive_rows_of_equal_length_are_one_span() {
        let expected =
            [(0, 3, 2), (6, 1, 1), (7, 3, 1)].map(|(start, len, rows)| RowSpan { start, len, rows });
        assert_eq!(spans(&[0, 3, 6, 7, 10]), expected);
        assert_eq!(spans(&[0]), []);
    }
}
