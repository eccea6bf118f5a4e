//! The weights that an adapter was trained on: their checksum lies next to it, so that it is not merged into others of the same shapes.

use std::path::Path;

use grpo_lambda_decoder::disk::{Disk, DiskError};
use grpo_lambda_decoder::model::weights::Parameters;
use serde::{Deserialize, Serialize};

/// The file next to `adapter_config.json`. PEFT reads neither it nor, in a field of its own, anything like it.
pub const FILE: &str = "base.json";

/// The contents of [`FILE`].
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct AdapterBase {
    /// Checksum of the weights under the adapter: CRC-32C of names, shapes and numbers in f32, in the order of names.
    pub fingerprint: String,
}

/// The reason why [`FILE`] could not be used.
#[derive(Debug, thiserror::Error)]
pub enum AdapterBaseError {
    #[error(transparent)]
    Disk(#[from] DiskError),
    #[error(
        "{path}: {problem}; llm-train train wrote {{\"fingerprint\": \"8 digits\"}}, and without the file the base is not checked"
    )]
    Damaged { path: String, problem: serde_json::Error },
}

impl AdapterBase {
    /// The checksum of these weights.
    pub fn new(parameters: &Parameters<f32>) -> AdapterBase {
        let mut sum = 0;
        for (name, tensor) in parameters {
            sum = crc32c::crc32c_append(sum, name.as_bytes());
            for side in &tensor.shape {
                sum = crc32c::crc32c_append(sum, &(*side as u64).to_le_bytes());
            }
            sum = crc32c::crc32c_append(sum, bytemuck::cast_slice(&tensor.data));
        }
        AdapterBase { fingerprint: format!("{sum:08x}") }
    }

    /// The bytes of [`FILE`].
    pub fn to_bytes(&self) -> Vec<u8> {
        format!("{{\"fingerprint\": \"{}\"}}\n", self.fingerprint).into_bytes()
    }

    /// Reads that of an adapter's directory; `None` for an adapter from elsewhere, which has none.
    ///
    /// # Errors
    /// If the file is there and cannot be read.
    pub fn read(adapter: &Path) -> Result<Option<AdapterBase>, AdapterBaseError> {
        let path = adapter.join(FILE);
        let Some(bytes) = Disk::default().read(&path)? else { return Ok(None) };
        let damaged = |problem| AdapterBaseError::Damaged { path: path.display().to_string(), problem };
        serde_json::from_slice(&bytes).map(Some).map_err(damaged)
    }
}
