//! A batch of rows on a device.

use std::sync::Arc;

use grpo_lambda_decoder::device::DeviceError;
use grpo_lambda_decoder::model::Rows;

use super::array::Array;
use super::device::Device;
use super::kernels::Ragged;
use super::ptr::Ptr;
use super::spans::{RowSpan, spans};

/// Lists of indices end to end in one array, sent as one.
#[derive(Debug)]
pub(super) struct IndexLists {
    array: Array<u32>,
    starts: Vec<usize>,
}

impl IndexLists {
    pub(super) fn new(device: &Arc<dyn Device>, lists: &[Vec<u32>]) -> Result<Self, DeviceError> {
        let starts = lists.iter().scan(0, |end, list| {
            let start = *end;
            *end += list.len();
            Some(start)
        });
        let starts = starts.collect();
        Ok(IndexLists { array: Array::of(device, "workspace", &lists.concat())?, starts })
    }

    /// List `i`.
    pub(super) fn at(&self, i: usize) -> Ptr<u32> {
        self.array.at(self.starts[i])
    }
}

/// Rows of tokens with what the kernels need to know of them.
///
/// Where only scored tokens are asked for, rows lie on the device sorted by length, each padded to a multiple of a common number: then few
/// lengths are left, rows of one length are attended to in one product, and every matrix begins at an address that tensor cores like.
/// Padding stands at the end, where no token of the row sees it, and nothing is scored there, so no gradient comes from it.
#[derive(Debug)]
pub(super) struct Batch {
    rows: Rows,
    /// As they lie on the device.
    tokens: Vec<u32>,
    lists: IndexLists,
    spans: Vec<RowSpan>,
    scored: usize,
}

impl Batch {
    /// The rows as they are, in their order.
    pub(super) fn in_order(device: &Arc<dyn Device>, rows: &Rows) -> Result<Self, DeviceError> {
        Self::new(device, rows, 1, (0..rows.len()).collect())
    }

    /// The rows by length, padded.
    pub(super) fn packed(device: &Arc<dyn Device>, rows: &Rows) -> Result<Self, DeviceError> {
        let length = |i: usize| rows.offsets()[i + 1] - rows.offsets()[i];
        let multiple = padding((0..rows.len()).map(length).max().unwrap_or(0));
        let mut order: Vec<usize> = (0..rows.len()).collect();
        order.sort_by_key(|&i| length(i).next_multiple_of(multiple));
        Self::new(device, rows, multiple, order)
    }

    /// The rows in this order, each padded to a multiple of so many tokens.
    fn new(
        device: &Arc<dyn Device>,
        rows: &Rows,
        multiple: usize,
        order: Vec<usize>,
    ) -> Result<Self, DeviceError> {
        let given = rows.offsets();
        let (mut tokens, mut row, mut offsets) = (Vec::new(), Vec::new(), vec![0]);
        // Where each row, as given, begins on the device.
        let mut begins = vec![0; rows.len()];
        for (place, &i) in order.iter().enumerate() {
            begins[i] = tokens.len();
            tokens.extend_from_slice(&rows.tokens()[given[i]..given[i + 1]]);
            tokens.resize(begins[i] + (given[i + 1] - given[i]).next_multiple_of(multiple), 0);
            row.resize(tokens.len(), place as u32);
            offsets.push(tokens.len());
        }
        let (predicting, targets) = rows.targets();
        let mut i = 0;
        let on_device = |token: usize| {
            while token >= given[i + 1] {
                i += 1;
            }
            (begins[i] + token - given[i]) as u32
        };
        let predicting: Vec<u32> = predicting.into_iter().map(on_device).collect();
        let scored = predicting.len();
        let row_offsets = offsets.iter().map(|x| *x as u32).collect();
        let lists = IndexLists::new(device, &[tokens.clone(), row, row_offsets, predicting, targets])?;
        Ok(Batch { rows: rows.clone(), tokens, lists, spans: spans(&offsets), scored })
    }

    /// The rows as they were given.
    pub(super) fn rows(&self) -> &Rows {
        &self.rows
    }

    /// Tokens in all, padding included.
    pub(super) fn tokens(&self) -> usize {
        self.tokens.len()
    }

    /// The tokens as they lie on the device.
    pub(super) fn token_ids(&self) -> &[u32] {
        &self.tokens
    }

    /// Scored tokens in all.
    pub(super) fn scored(&self) -> usize {
        self.scored
    }

    /// Tokens of the longest row, padding included.
    pub(super) fn longest(&self) -> usize {
        self.spans.iter().map(|span| span.len).max().unwrap_or(0)
    }

    /// Runs of rows of equal length.
    pub(super) fn spans(&self) -> &[RowSpan] {
        &self.spans
    }

    /// `[tokens]`.
    pub(super) fn ids(&self) -> Ptr<u32> {
        self.lists.at(0)
    }

    /// Where the rows are.
    pub(super) fn ragged(&self) -> Ragged {
        Ragged { tokens: self.tokens() as u32, row: self.lists.at(1), offsets: self.lists.at(2) }
    }

    /// `[scored]`: the token before every target, whose hidden state predicts it.
    pub(super) fn predicting(&self) -> Ptr<u32> {
        self.lists.at(3)
    }

    /// `[scored]`: the targets.
    pub(super) fn targets(&self) -> Ptr<u32> {
        self.lists.at(4)
    }
}

/// What lengths are rounded up to a multiple of, where the longest is `longest`: 16 lengths are left at most, and every row begins at a
/// multiple of 8 elements.
fn padding(longest: usize) -> usize {
    longest.div_ceil(16).next_multiple_of(8).max(8)
}

/// The tokens of a batch by id, for the gradient of the embedding: ids ascending, the tokens of each ascending, so that its sum has
/// one order.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TokensById {
    /// Tokens, those of one id together.
    pub(super) order: Vec<u32>,
    /// Where in `order` each id begins, and after the last where it ends.
    pub(super) starts: Vec<u32>,
    /// The ids that occur.
    pub(super) ids: Vec<u32>,
}

impl TokensById {
    pub(super) fn new(tokens: &[u32]) -> Self {
        let mut order: Vec<u32> = (0..tokens.len() as u32).collect();
        order.sort_by_key(|t| (tokens[*t as usize], *t));
        let (mut starts, mut ids) = (Vec::new(), Vec::new());
        for (i, t) in order.iter().enumerate() {
            let id = tokens[*t as usize];
            if ids.last() != Some(&id) {
                ids.push(id);
                starts.push(i as u32);
            }
        }
        starts.push(order.len() as u32);
        TokensById { order, starts, ids }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dry::Dry;

    #[test]
    fn rows_lie_by_padded_length_and_their_targets_stay_theirs() {
        let mut rows = Rows::new();
        rows.push(&[1; 20], 18);
        rows.push(&[2, 3, 4], 1);
        rows.push(&[5; 9], 9);
        rows.push(&[6; 8], 7);
        let device: Arc<dyn Device> = Arc::new(Dry::default());
        let batch = Batch::packed(&device, &rows).expect("dry");
        let mut expected = vec![2, 3, 4, 0, 0, 0, 0, 0];
        expected.extend([6; 8]);
        expected.extend([5; 9]);
        expected.extend([0; 7]);
        expected.extend([1; 20]);
        expected.extend([0; 4]);
        assert_eq!(batch.token_ids(), expected);
        assert_eq!(batch.spans().iter().map(|s| s.len).collect::<Vec<_>>(), [8, 16, 24]);
        assert_eq!((batch.scored(), batch.longest()), (2 + 2 + 1, 24));
        let given = Batch::in_order(&device, &rows).expect("dry");
        assert_eq!((given.token_ids(), given.longest()), (rows.tokens(), 20));
        for longest in [0, 1, 8, 9, 128, 129, 4096] {
            let lengths: std::collections::BTreeSet<_> =
                (1..=longest).map(|n: usize| n.next_multiple_of(padding(longest))).collect();
            assert!(lengths.len() <= 16 && padding(longest).is_multiple_of(8), "{longest}: {lengths:?}");
        }
    }

    #[test]
    fn tokens_of_an_id_are_together_and_in_order() {
        let by_id = TokensById::new(&[7, 3, 7, 9, 3, 7]);
        let expected =
            TokensById { order: vec![1, 4, 0, 2, 5, 3], starts: vec![0, 2, 5, 6], ids: vec![3, 7, 9] };
        assert_eq!(by_id, expected);
        assert_eq!(TokensById::new(&[]), TokensById { order: vec![], starts: vec![0], ids: vec![] });
    }
}
