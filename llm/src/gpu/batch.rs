//! A batch of rows on a device, and room for numbers.

use std::sync::Arc;

use super::attention::{Span, spans};
use super::device::{Buffer, Device, DeviceError};
use super::kernels::{Kernels, Places};
use crate::model::Rows;

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
#[derive(Debug)]
pub(super) struct Batch {
    rows: Rows,
    lists: Lists,
    spans: Vec<Span>,
    scored: usize,
}

impl Batch {
    pub(super) fn new(device: &Arc<dyn Device>, rows: &Rows) -> Result<Self, DeviceError> {
        let small = |x: &usize| *x as u32;
        let offsets = rows.offsets();
        let row = offsets.windows(2).enumerate();
        let row = row.flat_map(|(i, pair)| std::iter::repeat_n(i as u32, pair[1] - pair[0])).collect();
        let (places, targets) = rows.targets();
        let lists = [
            rows.tokens().to_vec(),
            row,
            offsets.iter().map(small).collect(),
            places.iter().map(small).collect(),
            targets,
        ];
        let lists = Lists::new(device, &lists)?;
        Ok(Batch { lists, spans: spans(offsets), scored: places.len(), rows: rows.clone() })
    }

    pub(super) fn rows(&self) -> &Rows {
        &self.rows
    }

    /// Tokens in all.
    pub(super) fn tokens(&self) -> usize {
        self.rows.tokens().len()
    }

    /// Scored tokens in all.
    pub(super) fn scored(&self) -> usize {
        self.scored
    }

    /// Tokens of the longest row.
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

    #[test]
    fn tokens_of_an_id_are_together_and_in_order() {
        let by_id = ById::new(&[7, 3, 7, 9, 3, 7]);
        let expected = ById { order: vec![1, 4, 0, 2, 5, 3], starts: vec![0, 2, 5, 6], ids: vec![3, 7, 9] };
        assert_eq!(by_id, expected);
        assert_eq!(ById::new(&[]), ById { order: vec![], starts: vec![0], ids: vec![] });
    }
}
