//! The file of an optimiser's state: written array by array, read with names and sizes checked.

use std::io::{self, Write};

use safetensors::{Dtype, SafeTensors};

use crate::tensor_file::{self, TensorEntry};

/// Writes an array of a state: part, name of the parameter, where to.
pub type StateWriter<'a, E> = dyn Fn(&str, &str, &mut dyn Write) -> Result<(), E> + 'a;

/// Writes a state in the bytes of [`AdamW::to_bytes`](super::AdamW::to_bytes). `array` writes each array, in the order of the file, from wherever
/// it is.
///
/// # Errors
/// When `to` refuses or `array` fails.
///
/// # Panics
/// When `array` writes another number of bytes than the parameter's size says.
pub fn write_state<'n, E: From<io::Error>>(
    steps: u64,
    parameters: impl Iterator<Item = (&'n str, usize)>,
    compensated: bool,
    array: &StateWriter<'_, E>,
    to: &mut dyn Write,
) -> Result<(), E> {
    let mut tensors = vec![TensorEntry {
        name: "steps".to_owned(),
        dtype: Dtype::U64,
        shape: vec![1],
        write: Box::new(move |to: &mut dyn Write| Ok(to.write_all(&steps.to_le_bytes())?)),
    }];
    for (name, len) in parameters {
        for part in STATE_PARTS.into_iter().filter(|part| has_part(part, compensated, len)) {
            tensors.push(TensorEntry {
                name: format!("{part}/{name}"),
                dtype: Dtype::F32,
                shape: vec![len],
                write: Box::new(move |to| array(part, name, to)),
            });
        }
    }
    tensor_file::write(tensors, None, to)
}

/// Bytes that are not the state of an optimiser of these parameters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// Not a safetensors file, or one without an array that a state has.
    #[error("{reason}")]
    Unreadable {
        /// The fault.
        reason: String,
    },
    /// An array of another type or size than its parameter.
    #[error("`{array}` is {found}, not F32 [{expected}]")]
    Array {
        /// The part of the state and the parameter.
        array: String,
        /// The type and size found.
        found: String,
        /// The parameter's size.
        expected: usize,
    },
    /// A state of more or fewer arrays than the parameters have.
    #[error("{found} tensors where this model has {expected}")]
    Count {
        /// The number found.
        found: usize,
        /// The number that these parameters have.
        expected: usize,
    },
}

impl StateError {
    fn unreadable(reason: impl ToString) -> StateError {
        StateError::Unreadable { reason: reason.to_string() }
    }
}

/// A state that could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteStateError {
    /// The destination refused.
    #[error(transparent)]
    Write(#[from] io::Error),
    /// The device that has it failed.
    #[error(transparent)]
    Device(#[from] crate::device::DeviceError),
}

/// Names of the arrays that a state holds per parameter; `residual` only when compensated.
pub const STATE_PARTS: [&str; 4] = ["weights", "residual", "first", "second"];

/// True if the state of a parameter of this size has this part; an empty parameter has no residual.
pub fn has_part(part: &str, compensated: bool, len: usize) -> bool {
    part != "residual" || (compensated && len > 0)
}

/// A state that [`AdamW::to_bytes`](super::AdamW::to_bytes) wrote, with checked names and sizes.
pub struct SavedState<'a> {
    /// Steps taken.
    pub steps: u64,
    file: SafeTensors<'a>,
}

impl<'a> SavedState<'a> {
    /// Reads a state of parameters with these names and sizes.
    ///
    /// # Errors
    /// When it is none, or one of other parameters.
    pub fn open<'n>(
        bytes: &'a [u8],
        parameters: impl Iterator<Item = (&'n str, usize)>,
        compensated: bool,
    ) -> Result<Self, StateError> {
        let bad = StateError::unreadable;
        let file = SafeTensors::deserialize(bytes).map_err(bad)?;
        let steps = file.tensor("steps").map_err(bad)?;
        let steps: [u8; 8] = steps
            .data()
            .try_into()
            .map_err(|_| StateError::unreadable("`steps` is not one 64-bit number"))?;
        let mut expected = 1;
        for (name, len) in parameters {
            for part in STATE_PARTS.into_iter().filter(|part| has_part(part, compensated, len)) {
                expected += 1;
                let array = format!("{part}/{name}");
                let tensor = file.tensor(&array).map_err(bad)?;
                if tensor.dtype() != Dtype::F32 || tensor.shape() != [len] {
                    let found = format!("{:?} {:?}", tensor.dtype(), tensor.shape());
                    return Err(StateError::Array { array, found, expected: len });
                }
            }
        }
        if file.len() != expected {
            return Err(StateError::Count { found: file.len(), expected });
        }
        Ok(SavedState { steps: u64::from_le_bytes(steps), file })
    }

    /// One array of a parameter's state; empty when absent.
    pub fn values(&self, part: &str, name: &str) -> Vec<f32> {
        let tensor = self.file.tensor(&format!("{part}/{name}"));
        let bytes = tensor.as_ref().map_or(&[][..], |t| t.data());
        bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_residual_is_kept_where_there_is_something_to_compensate() {
        let parts = |compensated, len| STATE_PARTS.map(|part| has_part(part, compensated, len));
        let [yes, no] = [true, false];
        assert_eq!(parts(true, 3), [yes; 4]);
        for (compensated, len) in [(true, 0), (false, 3), (false, 0)] {
            assert_eq!(parts(compensated, len), [yes, no, yes, yes], "{compensated} {len}");
        }
    }
}
