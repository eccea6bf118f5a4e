//! A batch of rows on a device, and room for numbers.

use std::sync::Arc;

use grpo_lambda_decoder::device::DeviceError;
use grpo_lambda_decoder::model::Rows;

use super::attention::{Span, spans};
use super::device::{Buffer, Device};
use super::kernels::{Kernels, Places};

/// Room for `numbers` of the dtype `T`, for one at least.
pub(super) fn room(k: &Kernels, what: &'static str, numbers: usize) -> Result<Buffer, DeviceError> {
    Buffer::new(&k.device, what, numbers.max(1) * k.dtype.bytes())
}

/// Room for `numbers` of `f32`, for one at least.
pub(super) fn floats(k: &Kernels, what: &'static str, numbers: usize) -> Result<Buffer, DeviceError> {
    Buffer::new(&k.device, what, numbers.max(1) * size_of::<f32>())
}

/// Lists of `u32` end to end in one buffer, sent as one.
#[derive(Debug)]
pub(super) struct Lists {
    buffer: Buffer,
    begins: Vec<usize>,
}

impl Lists {
    pub(super) fn new(device: &Arc<dyn Device>, lists: &[Vec<u32>]) -> Result<Self, DeviceError> {
        let mut all = Vec::new();
        let mut begins = Vec::with_capacity(lists.len());
        for list in lists {
            begins.push(size_of_val(all.as_slice()));
            all.extend_from_slice(list);
        }
        all.resize(all.len().max(1), 0);
        Ok(Lists { buffer: Buffer::of(device, "workspace", &all)?, begins })
    }

    /// Address of list `i`.
    pub(super) fn at(&self, i: usize) -> u64 {
        self.buffer.at(self.begins[i])
    }
}

/// Rows of tokens with what the kernels need to know of them.
///
/// Where only scored tokens are asked for, rows lie on the device by length, each padded to a multiple of a common grain: then few
/// lengths are left, rows of one length are attended to in one product, and every matrix begins at an address that matrix units like.
/// Padding stands at the end, where no token of the row sees it, and nothing is scored there, so no gradient comes from it.
#[derive(Debug)]
pub(super) struct Batch {
    rows: Rows,
    /// As they lie on the device.
    tokens: Vec<u32>,
    lists: Lists,
    spans: Vec<Span>,
    scored: usize,
}

impl Batch {
    /// The rows as they are, in their order.
    pub(super) fn as_given(device: &Arc<dyn Device>, rows: &Rows) -> Result<Self, DeviceError> {
        Self::lay(device, rows, 1, (0..rows.len()).collect())
    }

    /// The rows by length, padded.
    pub(super) fn packed(device: &Arc<dyn Device>, rows: &Rows) -> Result<Self, DeviceError> {
        let length = |i: usize| rows.offsets()[i + 1] - rows.offsets()[i];
        let grain = grain((0..rows.len()).map(length).max().unwrap_or(0));
        let mut order: Vec<usize> = (0..rows.len()).collect();
        order.sort_by_key(|&i| length(i).next_multiple_of(grain));
        Self::lay(device, rows, grain, order)
    }

    fn lay(
        device: &Arc<dyn Device>,
        rows: &Rows,
        grain: usize,
        order: Vec<usize>,
    ) -> Result<Self, DeviceError> {
        let given = rows.offsets();
        let (mut tokens, mut row, mut offsets) = (Vec::new(), Vec::new(), vec![0]);
        // Where each row, as given, begins on the device.
        let mut begins = vec![0; rows.len()];
        for (place, &i) in order.iter().enumerate() {
            begins[i] = tokens.len();
            tokens.extend_from_slice(&rows.tokens()[given[i]..given[i + 1]]);
            tokens.resize(begins[i] + (given[i + 1] - given[i]).next_multiple_of(grain), 0);
            row.resize(tokens.len(), place as u32);
            offsets.push(tokens.len());
        }
        let (at, targets) = rows.targets();
        let mut i = 0;
        let place = |at: usize| {
            while at >= given[i + 1] {
                i += 1;
            }
            (begins[i] + at - given[i]) as u32
        };
        let places: Vec<u32> = at.into_iter().map(place).collect();
        let scored = places.len();
        let small = offsets.iter().map(|x| *x as u32).collect();
        let lists = Lists::new(device, &[tokens.clone(), row, small, places, targets])?;
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
    pub(super) fn laid(&self) -> &[u32] {
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
    pub(super) fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// `u32[tokens]`.
    pub(super) fn ids(&self) -> u64 {
        self.lists.at(0)
    }

    /// For the kernels that turn token-major into head-major.
    pub(super) fn at(&self) -> Places {
        Places { tokens: self.tokens() as u32, row: self.lists.at(1), offsets: self.lists.at(2) }
    }

    /// `u32[scored]`: the token before every target, whose stream predicts it.
    pub(super) fn places(&self) -> u64 {
        self.lists.at(3)
    }

    /// `u32[scored]`: the targets.
    pub(super) fn targets(&self) -> u64 {
        self.lists.at(4)
    }
}

/// What lengths are rounded up to a multiple of, where the longest is `longest`: 16 lengths are left at most, and every row begins at a
/// multiple of 8 numbers.
fn grain(longest: usize) -> usize {
    longest.div_ceil(16).next_multiple_of(8).max(8)
}

/// The tokens of a batch by id, for the gradient of the embedding: ids ascending, the tokens of each ascending, so that its sum has
/// one order.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ById {
    /// Tokens, those of one id together.
    pub(super) order: Vec<u32>,
    /// Where in `order` each id begins, and after the last where it ends.
    pub(super) starts: Vec<u32>,
    /// The ids that occur.
    pub(super) ids: Vec<u32>,
}

impl ById {
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
        ById { order, starts, ids }
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
        let mut laid = vec![2, 3, 4, 0, 0, 0, 0, 0];
        laid.extend([6; 8]);
        laid.extend([5; 9]);
        laid.extend([0; 7]);
        laid.extend([1; 20]);
        laid.extend([0; 4]);
        assert_eq!(batch.laid(), laid);
        assert_eq!(batch.spans().iter().map(|s| s.len).collect::<Vec<_>>(), [8, 16, 24]);
        assert_eq!((batch.scored(), batch.longest()), (2 + 2 + 1, 24));
        let given = Batch::as_given(&device, &rows).expect("dry");
        assert_eq!((given.laid(), given.longest()), (rows.tokens(), 20));
        for longest in [0, 1, 8, 9, 128, 129, 4096] {
            let lengths: std::collections::BTreeSet<_> =
                (1..=longest).map(|n: usize| n.next_multiple_of(grain(longest))).collect();
            assert!(lengths.len() <= 16 && grain(longest).is_multiple_of(8), "{longest}: {lengths:?}");
        }
    }

    #[test]
    fn tokens_of_an_id_are_together_and_in_order() {
        let by_id = ById::new(&[7, 3, 7, 9, 3, 7]);
        let expected = ById { order: vec![1, 4, 0, 2, 5, 3], starts: vec![0, 2, 5, 6], ids: vec![3, 7, 9] };
        assert_eq!(by_id, expected);
        assert_eq!(ById::new(&[]), ById { order: vec![], starts: vec![0], ids: vec![] });
    }
}
