//! Reading a checkpoint: one safetensors file, or shards with their index.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use half::{bf16, f16};
use safetensors::tensor::{Dtype, Metadata, SafeTensors};
use serde_json::Value;

use super::{Parameters, Tensor};
use crate::disk::{is_lfs_pointer, open_regular, read_regular, read_regular_text};
use crate::model::config::known::ADAPTER_FILE;
use crate::model::config::{EMBEDDING, HEAD, ModelConfig};
use crate::model::error::{Error, Result};

/// Reads every parameter of `config` from a checkpoint directory: `model.safetensors`, or shards with their index.
///
/// # Errors
/// Naming file and tensor: when one is missing, unexpected, of another shape or of a dtype other than f32, bf16 and f16; when
/// a file is truncated or is no safetensors file; when a head that is tied to the embedding is in the file with other numbers.
pub fn load(directory: &Path, config: &ModelConfig) -> Result<Parameters<f32>> {
    // Headers first: what does not fit is refused before memory is taken for it.
    inspect(directory, config)?;
    let mut expected = Expected::new(config);
    let (mut parameters, mut head_in) = (Parameters::new(), None);
    for (path, names) in files(directory)? {
        let bytes = read_regular(&path, u64::MAX).map_err(|e| Error::io(&path, e))?;
        let tensors = SafeTensors::deserialize(&bytes).map_err(|e| damaged(&path, bytes.len() as u64, e))?;
        for name in listed(names, tensors.names().into_iter().map(str::to_string)) {
            let view = tensors.tensor(&name).ok();
            let Some(shape) = expected.take(&path, &name, view.as_ref().map(|v| (v.dtype(), v.shape())))?
            else {
                continue;
            };
            let data = view.and_then(|v| decode(v.dtype(), v.data())).expect("its dtype was checked");
            let tied = config.tie_word_embeddings && name == HEAD;
            parameters.insert(name, Tensor { shape, data });
            if tied {
                head_in = Some(path.clone());
            }
        }
    }
    expected.finish(directory)?;
    let Some(path) = head_in else { return Ok(parameters) };
    match parameters.remove(HEAD) {
        Some(head) if head.data != parameters[EMBEDDING].data => Err(Error::Tensor {
            file: path.display().to_string(),
            tensor: HEAD.into(),
            reason: format!(
                "differs from `{EMBEDDING}`, but config.json says tie_word_embeddings = true; set it to \
                false to use this head, or \
                 remove the tensor"
            ),
        }),
        _ => Ok(parameters),
    }
}

/// A summary of a checkpoint's files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckpointSummary {
    /// Files with weights.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Dtypes of the tensors, as in `BF16`.
    pub dtypes: BTreeSet<String>,
}

/// Checks the files of a checkpoint as [`load`] does, from their headers alone: names, shapes, dtypes and sizes.
///
/// # Errors
/// The errors of [`load`].
pub fn inspect(directory: &Path, config: &ModelConfig) -> Result<CheckpointSummary> {
    refuse_adapter(directory)?;
    refuse_too_few_bytes(directory, config)?;
    let mut expected = Expected::new(config);
    let mut found = CheckpointSummary::default();
    for (path, names) in files(directory)? {
        let (bytes, header) = header(&path)?;
        found.files += 1;
        found.bytes += bytes;
        for name in listed(names, header.offset_keys()) {
            let info = header.info(&name);
            if expected.take(&path, &name, info.map(|i| (i.dtype, i.shape.as_slice())))?.is_some() {
                found.dtypes.extend(info.map(|i| format!("{:?}", i.dtype)));
            }
        }
    }
    expected.finish(directory)?;
    Ok(found)
}

/// Refuses an adapter in the directory of the weights: as it loads them, transformers 5 adds it to them where PEFT is installed, and leaves it out
/// elsewhere. Which base model the adapter names plays no part.
fn refuse_adapter(directory: &Path) -> Result<()> {
    let adapter = directory.join(ADAPTER_FILE);
    let weights = ["model.safetensors", "model.safetensors.index.json"];
    if adapter.exists() && weights.iter().any(|name| directory.join(name).exists()) {
        let reason = "lies with the weights: transformers adds the adapter that it describes to them where PEFT is installed, and loads them without it \
                      elsewhere; move the adapter's files to a directory of their own and merge it by llm-train export --adapter, or remove them";
        return Err(Error::file(&adapter, reason));
    }
    Ok(())
}

/// Refuses a configuration of more parameters than the files have room for, before anything is listed by it.
fn refuse_too_few_bytes(directory: &Path, config: &ModelConfig) -> Result<()> {
    let mut bytes = 0u128;
    for (path, _) in files(directory)? {
        if is_lfs_pointer(&path) {
            return Err(Error::file(
                &path,
                "a pointer of Git LFS, not the weights; fetch them with `git lfs pull`",
            ));
        }
        bytes += u128::from(fs::metadata(&path).map_err(|e| Error::io(&path, e))?.len());
    }
    let (count, least) = (config.parameter_count(), size_of::<bf16>() as u128);
    // A handful too few is reported better by the name of the tensor that is missing.
    if count * least <= bytes.saturating_mul(2).saturating_add(1 << 20) {
        return Ok(());
    }
    let reason = format!(
        "describes {count} parameters, of {least} bytes or more, but the weights next to it have {bytes} bytes; \
         do they belong to another model?"
    );
    Err(Error::file(&directory.join("config.json"), reason))
}

/// The files of a checkpoint, each with the names the index lists for it, if there is one.
fn files(directory: &Path) -> Result<Vec<(PathBuf, Option<BTreeSet<String>>)>> {
    let single = directory.join("model.safetensors");
    let index = directory.join("model.safetensors.index.json");
    if single.exists() || !index.exists() {
        return Ok(vec![(single, None)]);
    }
    Ok(shards(&index)?.into_iter().map(|(file, names)| (directory.join(file), Some(names))).collect())
}

/// The tensors of a file: those that are in it, and those that the index lists for it.
fn listed(index: Option<BTreeSet<String>>, file: impl IntoIterator<Item = String>) -> BTreeSet<String> {
    index.into_iter().flatten().chain(file).collect()
}

fn damaged(path: &Path, bytes: u64, problem: impl std::fmt::Display) -> Error {
    Error::file(path, format!("damaged or not a safetensors file ({bytes} bytes): {problem}"))
}

/// Size and header of a safetensors file: the length of the header in 8 bytes, the header as JSON, then the tensors.
fn header(path: &Path) -> Result<(u64, Metadata)> {
    let io = |e| Error::io(path, e);
    let mut file = open_regular(path).map_err(io)?;
    let bytes = file.metadata().map_err(io)?.len();
    let short = || damaged(path, bytes, "it ends inside its header");
    let mut length = [0; 8];
    file.read_exact(&mut length).map_err(|_| short())?;
    let length = u64::from_le_bytes(length);
    // The limit of the format's own library.
    if length > 100_000_000 || length + 8 > bytes {
        return Err(short());
    }
    let mut text = vec![0; length as usize];
    file.read_exact(&mut text).map_err(|_| short())?;
    let header: Metadata = serde_json::from_slice(&text).map_err(|e| damaged(path, bytes, e))?;
    let whole = 8 + length + header.data_len() as u64;
    if whole != bytes {
        return Err(damaged(path, bytes, format!("its header describes {whole} bytes")));
    }
    Ok((bytes, header))
}

/// The parameters that have not been found yet.
struct Expected<'a> {
    config: &'a ModelConfig,
    left: BTreeMap<String, Vec<usize>>,
    /// True until a copy of a tied head is found: some writers add one.
    head: bool,
}

impl<'a> Expected<'a> {
    fn new(config: &'a ModelConfig) -> Self {
        Self {
            config,
            left: config.parameter_shapes().into_iter().collect(),
            head: config.tie_word_embeddings,
        }
    }

    /// Checks a tensor against the configuration; its shape, or nothing when it is one to pass over.
    fn take(
        &mut self,
        path: &Path,
        name: &str,
        found: Option<(Dtype, &[usize])>,
    ) -> Result<Option<Vec<usize>>> {
        let fail = |reason: String| {
            let (file, tensor) = (path.display().to_string(), name.to_string());
            Err(Error::Tensor { file, tensor, reason })
        };
        // Precomputed frequencies, which some writers add and transformers passes over, too.
        if name.ends_with("rotary_emb.inv_freq") {
            return Ok(None);
        }
        let Some((dtype, shape)) = found else {
            return fail("listed in the index, missing in the file".into());
        };
        let copy = (name == HEAD && std::mem::take(&mut self.head))
            .then(|| vec![self.config.vocab_size, self.config.hidden_size]);
        let Some(expected) = self.left.remove(name).or(copy) else {
            let twice = self.config.parameter_shapes().iter().any(|(known, _)| known == name);
            return fail(if twice {
                "another file of the checkpoint holds it, too; keep it in one file".into()
            } else {
                format!("not a parameter of this configuration (shape {shape:?})")
            });
        };
        if shape != expected {
            return fail(format!("expected shape {expected:?}, found {shape:?}"));
        }
        if ![Dtype::F32, Dtype::BF16, Dtype::F16].contains(&dtype) {
            return fail(format!("expected dtype F32, BF16 or F16, found {dtype:?}"));
        }
        Ok(Some(expected))
    }

    /// Refuses a checkpoint in which a parameter is missing.
    fn finish(self, directory: &Path) -> Result<()> {
        match self.left.into_iter().next() {
            None => Ok(()),
            Some((tensor, shape)) => Err(Error::Tensor {
                file: directory.display().to_string(),
                tensor,
                reason: format!("missing; expected shape {shape:?}"),
            }),
        }
    }
}

/// Largest index in bytes; those of the largest models have about ten megabytes.
const INDEX: u64 = 256 << 20;

/// The index of a sharded checkpoint: file -> names in it.
fn shards(index: &Path) -> Result<BTreeMap<String, BTreeSet<String>>> {
    let text = read_regular_text(index, INDEX).map_err(|e| Error::io(index, e))?;
    let value: Value =
        serde_json::from_str(&text).map_err(|e| Error::file(index, format!("not JSON: {e}")))?;
    let map = value.get("weight_map").and_then(Value::as_object);
    let map = map.ok_or_else(|| Error::file(index, "field `weight_map` is not an object"))?;
    let mut files: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (name, file) in map {
        let file = file.as_str().filter(|f| !f.contains(['/', '\\']) && *f != "..");
        let file = file.ok_or_else(|| {
            Error::file(index, format!("`{name}` is not mapped to a file of this directory"))
        })?;
        files.entry(file.to_string()).or_default().insert(name.clone());
    }
    Ok(files)
}

pub(crate) fn decode(dtype: Dtype, bytes: &[u8]) -> Option<Vec<f32>> {
    let pairs = || bytes.chunks_exact(2).map(|b| [b[0], b[1]]);
    Some(match dtype {
        Dtype::F32 => bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect(),
        Dtype::BF16 => pairs().map(|b| bf16::from_le_bytes(b).to_f32()).collect(),
        Dtype::F16 => pairs().map(|b| f16::from_le_bytes(b).to_f32()).collect(),
        _ => return None,
    })
}
