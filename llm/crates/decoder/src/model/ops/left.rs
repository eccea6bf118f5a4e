//! [`Left`]: the left side of a matrix product, where it lies.

/// The left side of a product: element `(i, k)` is `data[i * row + k * step]`; one of the strides is 1.
#[derive(Clone, Copy)]
pub struct Left<'a, T> {
    pub(super) data: &'a [T],
    pub(super) row: usize,
    pub(super) step: usize,
}

impl<'a, T> Left<'a, T> {
    /// A matrix stored by rows that are `stride` apart.
    pub fn rows(data: &'a [T], stride: usize) -> Self {
        Self { data, row: stride, step: 1 }
    }

    /// The transpose of a matrix stored by rows that are `stride` apart.
    pub fn transposed(data: &'a [T], stride: usize) -> Self {
        Self { data, row: 1, step: stride }
    }

    /// From row `i` and step `k` on.
    pub(super) fn after(self, i: usize, k: usize) -> Self {
        Self { data: &self.data[(i * self.row + k * self.step).min(self.data.len())..], ..self }
    }

    /// True if it has `rows` rows of `steps` elements.
    pub(super) fn covers(&self, rows: usize, steps: usize) -> bool {
        rows == 0 || steps == 0 || (rows - 1) * self.row + (steps - 1) * self.step < self.data.len()
    }
}
