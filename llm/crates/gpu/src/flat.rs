//! Named tensors in one flat array, so that clearing, norms and the optimiser are one launch each.
//!
//! Offsets and lengths count elements, not bytes, so that one layout serves arrays of any dtype: weights, gradients, moments.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Segments begin at multiples of so many elements: 128 bytes of bf16, what a GPU fetches at once.
pub(crate) const ALIGNMENT: u64 = 64;

/// The place of a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TensorInfo {
    /// Its first element.
    pub(crate) offset: u64,
    /// Its shape; its elements are contiguous, by rows.
    pub(crate) shape: Vec<usize>,
}

impl TensorInfo {
    /// The number of its elements.
    pub(crate) fn elements(&self) -> usize {
        self.shape.iter().product()
    }
}

/// Parameters by name in one array, matrices before vectors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlatLayout {
    tensors: BTreeMap<String, TensorInfo>,
    matrices: u64,
    len: u64,
}

impl FlatLayout {
    /// Elements of the array.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// The first so many elements are of matrices; the others, of norms and biases, do not decay by default.
    pub(crate) fn matrices(&self) -> u64 {
        self.matrices
    }

    /// The place of this parameter.
    pub(crate) fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        self.tensors.get(name)
    }

    /// All parameters, sorted by name.
    pub(crate) fn tensors(&self) -> impl Iterator<Item = (&str, &TensorInfo)> {
        self.tensors.iter().map(|(name, tensor)| (name.as_str(), tensor))
    }
}

/// A layout whose parameters lie in one flat array.
pub trait Flat {
    /// Their places by name.
    fn flat(&self) -> &Arc<FlatLayout>;
}

/// Puts segments one after the other.
#[derive(Debug, Default)]
pub(super) struct Builder {
    tensors: BTreeMap<String, TensorInfo>,
    next: u64,
    matrices: Option<u64>,
}

impl Builder {
    /// A segment of these parameters, end to end; its offset.
    pub(super) fn segment(&mut self, parameters: impl IntoIterator<Item = (String, Vec<usize>)>) -> u64 {
        let begin = self.next;
        let mut end = begin;
        for (name, shape) in parameters {
            let tensor = TensorInfo { offset: end, shape };
            end += tensor.elements() as u64;
            self.tensors.insert(name, tensor);
        }
        self.next = end.next_multiple_of(ALIGNMENT);
        begin
    }

    /// Ends the matrices; vectors follow.
    pub(super) fn end_of_matrices(&mut self) {
        self.matrices = Some(self.next);
    }

    pub(super) fn finish(self) -> FlatLayout {
        FlatLayout { tensors: self.tensors, matrices: self.matrices.unwrap_or(self.next), len: self.next }
    }
}
