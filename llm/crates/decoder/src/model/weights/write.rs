//! Writing a checkpoint that transformers loads.

use std::borrow::Cow;
use std::io::{self, Write};
use std::path::Path;

use half::bf16;
use safetensors::Dtype;
use serde_json::{Map, json};

use super::{Parameters, Tensor};
use crate::disk::Disk;
use crate::model::config::{HEAD, ModelConfig};
use crate::model::error::{Error, Result};
use crate::tensor_file::{self, TensorEntry, bytes_of};

/// Dtype of a file to be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SaveDtype {
    /// 32-bit: what training continues from without loss.
    #[default]
    F32,
    /// bfloat16: half the size, rounded.
    Bf16,
}

impl SaveDtype {
    fn bytes(self) -> usize {
        match self {
            SaveDtype::F32 => 4,
            SaveDtype::Bf16 => 2,
        }
    }

    /// Its name in safetensors, and in `config.json`.
    fn names(self) -> (Dtype, &'static str) {
        match self {
            SaveDtype::F32 => (Dtype::F32, "float32"),
            SaveDtype::Bf16 => (Dtype::BF16, "bfloat16"),
        }
    }
}

fn encode(data: &[f32], dtype: SaveDtype) -> Cow<'_, [u8]> {
    match dtype {
        SaveDtype::F32 => bytes_of(data),
        SaveDtype::Bf16 => data.iter().flat_map(|&x| bf16::from_f32(x).to_le_bytes()).collect(),
    }
}

/// Writes `config.json` and the weights into `directory` so that transformers loads them: one `model.safetensors`, or shards
/// with an index when the weights exceed `shard_bytes`. A tied head is not written twice.
///
/// Every file is written next to its place, synced and renamed, the index and the configuration last.
///
/// # Errors
/// When the operating system refuses (a full disk, for one); what was there before is then still there.
pub fn save(
    directory: &Path,
    config: &ModelConfig,
    parameters: &Parameters<f32>,
    dtype: SaveDtype,
    shard_bytes: usize,
) -> Result<()> {
    save_on(&Disk::default(), directory, (config, parameters), (dtype, shard_bytes))
}

/// [`save`] on this disk.
///
/// # Errors
/// The errors of [`save`].
pub fn save_on(
    disk: &Disk,
    directory: &Path,
    (config, parameters): (&ModelConfig, &Parameters<f32>),
    (dtype, shard_bytes): (SaveDtype, usize),
) -> Result<()> {
    disk.create_directories(directory)?;
    let written = || parameters.iter().filter(|(name, _)| !(config.tie_word_embeddings && *name == HEAD));
    let files = shards(written().map(|(n, t)| (n.as_str(), dtype.bytes() * t.data.len())), shard_bytes);
    let sharded = files.len() > 1;
    let mut map = Map::new();
    for (i, names) in files.iter().enumerate() {
        let file = match sharded {
            true => format!("model-{:05}-of-{:05}.safetensors", i + 1, files.len()),
            false => "model.safetensors".to_string(),
        };
        let tensors = names.iter().map(|name| ((*name).to_owned(), &parameters[*name]));
        write_file(disk, &directory.join(&file), tensors, dtype)?;
        map.extend(names.iter().map(|name| ((*name).to_string(), json!(file))));
    }
    let index = directory.join("model.safetensors.index.json");
    let stale = if sharded {
        let total: usize = written().map(|(_, t)| dtype.bytes() * t.data.len()).sum();
        let text = format!("{:#}\n", json!({"metadata": {"total_size": total}, "weight_map": map}));
        disk.replace(&index, text.as_bytes())?;
        directory.join("model.safetensors")
    } else {
        index
    };
    // The other layout, left from an earlier save, would contradict this one.
    disk.remove_file(&stale)?;
    let config = ModelConfig { dtype: dtype.names().1.into(), ..config.clone() };
    Ok(disk.replace(&directory.join("config.json"), config.to_json().as_bytes())?)
}

/// Tensors in the order given, in files of at most so many bytes unless one tensor alone has more; at least one file.
fn shards<'a>(tensors: impl Iterator<Item = (&'a str, usize)>, shard_bytes: usize) -> Vec<Vec<&'a str>> {
    let mut files: Vec<Vec<&str>> = vec![Vec::new()];
    let mut size = 0;
    for (name, bytes) in tensors {
        if size > 0 && size + bytes > shard_bytes {
            files.push(Vec::new());
            size = 0;
        }
        size += bytes;
        files.last_mut().into_iter().for_each(|f| f.push(name));
    }
    files
}

pub(crate) fn write_file<'t>(
    disk: &Disk,
    path: &Path,
    tensors: impl Iterator<Item = (String, &'t Tensor<f32>)>,
    dtype: SaveDtype,
) -> Result<()> {
    let entry = |(name, tensor): (String, &'t Tensor<f32>)| TensorEntry {
        name,
        dtype: dtype.names().0,
        shape: tensor.shape.clone(),
        write: Box::new(move |to: &mut dyn Write| to.write_all(&encode(&tensor.data, dtype))),
    };
    let tensors: Vec<TensorEntry<'_, io::Error>> = tensors.map(entry).collect();
    let about = Some([("format".to_string(), "pt".to_string())].into());
    disk.replace_with(path, Error::from, |to| {
        tensor_file::write(tensors, about, to).map_err(|e| Error::io(path, e))
    })
}
