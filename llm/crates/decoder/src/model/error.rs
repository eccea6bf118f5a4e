//! Errors between a checkpoint on disk and the decoder.

use std::io;
use std::path::{Path, PathBuf};

use crate::device::DeviceError;
use crate::disk::DiskError;
use crate::lora_error::LoraError;

/// A checkpoint, configuration or input that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused a file operation.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A configuration field with a value that this decoder does not implement, or no value.
    #[error("{file}: field `{field}` is {value}: {reason}")]
    Config {
        /// The configuration file.
        file: String,
        /// Its field.
        field: String,
        /// The value found.
        value: String,
        /// The accepted values.
        reason: String,
    },
    /// A file that is not what its name says.
    #[error("{}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// A tensor that does not fit the configuration.
    #[error("{file}: tensor `{tensor}`: {reason}")]
    Tensor {
        /// The file, or "parameters" for tensors in memory.
        file: String,
        /// The tensor's name.
        tensor: String,
        /// Expected and found.
        reason: String,
    },
    /// An adapter that the model cannot take.
    #[error(transparent)]
    Adapter(#[from] LoraError),
    /// A model that the chosen device does not compute.
    #[error("{family} is only supported on the CPU: the {device} has no {part}; run it on the CPU")]
    Unsupported {
        /// The model's family.
        family: String,
        /// The kind of device.
        device: &'static str,
        /// The part of a layer that it does not compute.
        part: &'static str,
    },
    /// The device that computes.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Token ids that the model cannot take.
    #[error("row {row}: {reason}")]
    Input {
        /// The row of the batch.
        row: usize,
        /// The reason.
        reason: String,
    },
}

impl From<DiskError> for Error {
    fn from(DiskError { path, source, .. }: DiskError) -> Self {
        Self::Io { path, source }
    }
}

impl Error {
    pub(crate) fn io(path: &Path, source: io::Error) -> Self {
        Self::Io { path: path.to_path_buf(), source }
    }
    pub(crate) fn file(path: &Path, reason: impl Into<String>) -> Self {
        Self::File { path: path.to_path_buf(), reason: reason.into() }
    }
}

/// A result of the model layer.
pub type Result<T, E = Error> = std::result::Result<T, E>;
