//! The form of a batch in Python values: nested lists of rows, or padded arrays with a mask.

use numpy::{IntoPyArray, PyArray1, PyArray2, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyList;
use std::ops::Range;

use crate::groups;
use crate::values::{items, matrix, refused};

/// The slots of one row's tokens.
#[derive(Clone, Debug)]
pub(crate) enum Slots {
    /// Consecutive slots.
    Range(Range<usize>),
    /// Anywhere, in ascending order.
    Scattered(Vec<usize>),
}

impl Slots {
    /// The slots with `mask` not 0.
    pub(crate) fn from_mask(mask: &[f64]) -> Slots {
        Slots::from_slots((0..mask.len()).filter(|t| mask[*t] != 0.0).collect())
    }

    /// Slots in ascending order.
    pub(crate) fn from_slots(slots: Vec<usize>) -> Slots {
        match (slots.first(), slots.last()) {
            (Some(&first), Some(&last)) if last - first + 1 == slots.len() => Slots::Range(first..last + 1),
            _ => Slots::Scattered(slots),
        }
    }

    /// The number of tokens.
    pub(crate) fn len(&self) -> usize {
        match self {
            Slots::Range(range) => range.len(),
            Slots::Scattered(slots) => slots.len(),
        }
    }

    /// The slots. `None` if they have a hole.
    pub(crate) fn range(&self) -> Option<Range<usize>> {
        match self {
            Slots::Range(range) => Some(range.clone()),
            Slots::Scattered(_) => None,
        }
    }

    /// The slot of token `t`.
    pub(crate) fn slot(&self, t: usize) -> usize {
        match self {
            Slots::Range(range) => range.start + t,
            Slots::Scattered(slots) => slots[t],
        }
    }

    /// The tokens' entries of a row.
    pub(crate) fn compress<T: Copy>(&self, row: &[T]) -> Vec<T> {
        match self {
            Slots::Range(range) => row[range.clone()].to_vec(),
            Slots::Scattered(slots) => slots.iter().map(|&t| row[t]).collect(),
        }
    }

    /// Writes the tokens' entries into a row.
    pub(crate) fn scatter<T: Copy>(&self, values: &[T], row: &mut [T]) {
        match self {
            Slots::Range(range) => row[range.clone()].copy_from_slice(values),
            Slots::Scattered(slots) => slots.iter().zip(values).for_each(|(&t, &x)| row[t] = x),
        }
    }
}

/// The form of a batch, and of the results returned for it.
#[derive(Clone, Debug)]
pub(crate) enum Layout {
    /// A list of groups, each a list of responses; the number of responses in each.
    Groups(Vec<usize>),
    /// Arrays of shape `(rows, width)`.
    Padded {
        width: usize,
        /// The slots of the tokens of every response, in flat order.
        slots: Vec<Slots>,
        /// The row of every response, in flat order.
        rows: Vec<usize>,
    },
}

/// Log-probabilities in the caller's form, response by response in flat order.
pub(crate) enum Logps<'py> {
    /// One vector per response.
    Rows(Vec<Vec<f64>>),
    /// An array of shape `(rows, width)`, borrowed.
    Padded(numpy::PyReadonlyArray2<'py, f64>),
}

impl Layout {
    /// Reads log-probabilities in this form.
    pub(crate) fn logps<'py>(&self, value: &Bound<'py, PyAny>) -> PyResult<Logps<'py>> {
        match self {
            Layout::Groups(sizes) => {
                let of_groups = items("logps", value, "a list of groups, each a list of lists of numbers")?;
                if of_groups.len() != sizes.len() {
                    let (found, expected) = (of_groups.len(), sizes.len());
                    return Err(refused(format!("logps: {found} entries for {expected} groups")));
                }
                let mut rows = Vec::new();
                for (g, (of_group, &size)) in of_groups.iter().zip(sizes).enumerate() {
                    let read = groups::lists("logps", size, of_group);
                    rows.extend(read.map_err(|e| refused(format!("groups[{g}]: {}", e.value(value.py()))))?);
                }
                Ok(Logps::Rows(rows))
            }
            Layout::Padded { width, rows, .. } => {
                let array = matrix("logps", value)?;
                let (expected, found) = ([rows.len(), *width], array.as_array().shape().to_vec());
                if found != expected {
                    return Err(refused(format!("logps has shape {found:?}; must be {expected:?}")));
                }
                Ok(Logps::Padded(array))
            }
        }
    }

    /// A number per token, in the form of the batch, with `fill` in the other slots.
    pub(crate) fn give<'py, T: numpy::Element + Copy>(
        &self,
        py: Python<'py>,
        values: &[Vec<T>],
        fill: T,
    ) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Layout::Groups(sizes) => {
                let mut rest = values.iter();
                let outer = PyList::empty(py);
                for &size in sizes {
                    let rows = rest.by_ref().take(size).map(|row| PyArray1::from_slice(py, row));
                    outer.append(PyList::new(py, rows.collect::<Vec<_>>())?)?;
                }
                Ok(outer.into_any())
            }
            Layout::Padded { width, slots, rows } => {
                let mut flat = vec![fill; rows.len() * width];
                for ((values, slots), &row) in values.iter().zip(slots).zip(rows) {
                    slots.scatter(values, &mut flat[row * width..(row + 1) * width]);
                }
                let array: Bound<'_, PyArray2<T>> = flat.into_pyarray(py).reshape([rows.len(), *width])?;
                Ok(array.into_any())
            }
        }
    }

    /// True if response `i`, counted in flat order, has no token.
    pub(crate) fn is_empty(&self, i: usize) -> bool {
        matches!(self, Layout::Padded { slots, .. } if slots[i].len() == 0)
    }

    /// The place of token `t` of response `i`, counted in flat order.
    pub(crate) fn place(&self, field: &str, i: usize, t: usize) -> String {
        match self {
            Layout::Groups(sizes) => {
                let (mut g, mut r) = (0, i);
                while r >= sizes[g] {
                    r -= sizes[g];
                    g += 1;
                }
                format!("groups[{g}]: {field}[{r}][{t}]")
            }
            Layout::Padded { slots, rows, .. } => format!("{field}[{}][{}]", rows[i], slots[i].slot(t)),
        }
    }
    /// The place of response `i`, counted in flat order.
    pub(crate) fn row_place(&self, field: &str, i: usize) -> String {
        match self {
            Layout::Groups(_) => {
                let place = self.place(field, i, 0);
                place.strip_suffix("[0]").unwrap_or(&place).to_owned()
            }
            Layout::Padded { rows, .. } => format!("{field}[{}]", rows[i]),
        }
    }

    /// The rows of some responses, for messages.
    pub(crate) fn rows_text(&self, responses: Range<usize>) -> String {
        match self {
            Layout::Groups(_) => String::new(),
            Layout::Padded { rows, .. } => {
                let own = &rows[responses];
                let first: Vec<String> = own.iter().take(4).map(usize::to_string).collect();
                let word = if own.len() == 1 { "row" } else { "rows" };
                format!("{word} {}{}", first.join(", "), if own.len() > 4 { ", .." } else { "" })
            }
        }
    }
}
