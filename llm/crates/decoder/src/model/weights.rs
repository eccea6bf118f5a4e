//! Parameters by their Hugging Face names, read from and written to safetensors.
//!
//! A [`BTreeMap`] keeps them sorted, so that sums, norms, optimiser state and files have one order in every process. Master
//! weights are `f32` whatever the file holds.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use half::{bf16, f16};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use safetensors::tensor::{Dtype, Metadata, SafeTensors, TensorView};
use serde_json::{Map, Value, json};

use super::config::{Config, EMBEDDING, HEAD};
use super::error::{Error, Result};
use super::ops::Real;
use crate::disk::Disk;

/// A dense array.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor<T> {
    /// Its shape.
    pub shape: Vec<usize>,
    /// Its elements by rows.
    pub data: Vec<T>,
}

impl<T: Real> Tensor<T> {
    /// Zeros.
    pub fn zeros(shape: &[usize]) -> Self {
        Self { shape: shape.to_vec(), data: vec![T::ZERO; shape.iter().product()] }
    }
}

/// Parameters, or their gradients, by name and sorted.
pub type Parameters<T> = BTreeMap<String, Tensor<T>>;

/// Dtype of a file to be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SaveDtype {
    /// 32-bit: what training continues from without loss.
    #[default]
    F32,
    /// bfloat16: half the size, rounded.
    Bf16,
}

/// Reads every parameter of `config` from a checkpoint directory: `model.safetensors`, or shards with their index.
///
/// # Errors
/// Naming file and tensor: when one is missing, unexpected, of another shape or of a dtype other than f32, bf16 and f16; when
/// a file is truncated or is no safetensors file.
pub fn load(directory: &Path, config: &Config) -> Result<Parameters<f32>> {
    let mut expected = Expected::new(config);
    let mut parameters = Parameters::new();
    for (path, names) in files(directory)? {
        let bytes = fs::read(&path).map_err(|e| Error::io(&path, e))?;
        let tensors = SafeTensors::deserialize(&bytes).map_err(|e| damaged(&path, bytes.len() as u64, e))?;
        let names = names.unwrap_or_else(|| tensors.names().into_iter().map(str::to_string).collect());
        for name in names {
            let view = tensors.tensor(&name).ok();
            let Some(shape) = expected.take(&path, &name, view.as_ref().map(|v| (v.dtype(), v.shape())))?
            else {
                continue;
            };
            let data = view.and_then(|v| decode(v.dtype(), v.data())).expect("its dtype was checked");
            parameters.insert(name, Tensor { shape, data });
        }
    }
    expected.finish(directory)?;
    Ok(parameters)
}

/// What the files of a checkpoint hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inspected {
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
/// As [`load`].
pub fn inspect(directory: &Path, config: &Config) -> Result<Inspected> {
    let mut expected = Expected::new(config);
    let mut found = Inspected::default();
    for (path, names) in files(directory)? {
        let (bytes, header) = header(&path)?;
        found.files += 1;
        found.bytes += bytes;
        for name in names.unwrap_or_else(|| header.offset_keys().into_iter().collect()) {
            let info = header.info(&name);
            if expected.take(&path, &name, info.map(|i| (i.dtype, i.shape.as_slice())))?.is_some() {
                found.dtypes.extend(info.map(|i| format!("{:?}", i.dtype)));
            }
        }
    }
    expected.finish(directory)?;
    Ok(found)
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

fn damaged(path: &Path, bytes: u64, problem: impl std::fmt::Display) -> Error {
    Error::file(path, format!("damaged or not a safetensors file ({bytes} bytes): {problem}"))
}

/// Size and header of a safetensors file: the length of the header in 8 bytes, the header as JSON, then the tensors.
fn header(path: &Path) -> Result<(u64, Metadata)> {
    let io = |e| Error::io(path, e);
    let mut file = fs::File::open(path).map_err(io)?;
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
    config: &'a Config,
    left: BTreeMap<String, Vec<usize>>,
}

impl<'a> Expected<'a> {
    fn new(config: &'a Config) -> Self {
        Self { config, left: config.parameter_shapes().into_iter().collect() }
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
        if ignored(name, self.config) {
            return Ok(None);
        }
        let Some((dtype, shape)) = found else {
            return fail("listed in the index, missing in the file".into());
        };
        let Some(expected) = self.left.remove(name) else {
            return fail(format!("not a parameter of this configuration (shape {shape:?})"));
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

/// Tensors that some writers add: a second copy of a tied head, and precomputed frequencies.
fn ignored(name: &str, config: &Config) -> bool {
    (config.tie_word_embeddings && name == HEAD) || name.ends_with("rotary_emb.inv_freq")
}

/// The index of a sharded checkpoint: file -> names in it.
fn shards(index: &Path) -> Result<BTreeMap<String, BTreeSet<String>>> {
    let text = fs::read_to_string(index).map_err(|e| Error::io(index, e))?;
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

/// The bytes of a file, which are those in memory where both are little-endian `f32`: a large model is not copied for it.
fn encode(data: &[f32], dtype: SaveDtype) -> Cow<'_, [u8]> {
    match dtype {
        SaveDtype::F32 if cfg!(target_endian = "little") => Cow::Borrowed(bytemuck::cast_slice(data)),
        SaveDtype::F32 => data.iter().flat_map(|x| x.to_le_bytes()).collect(),
        SaveDtype::Bf16 => data.iter().flat_map(|&x| bf16::from_f32(x).to_le_bytes()).collect(),
    }
}

/// Writes `config.json` and the weights into `directory` so that transformers loads them: one `model.safetensors`, or shards
/// with an index when the weights exceed `shard_bytes`. A tied head is not written twice.
///
/// Every file is written beside its place, synced and renamed, the index and the configuration last.
///
/// # Errors
/// When the operating system refuses (a full disk, for one); what was there before is then still there.
pub fn save(
    directory: &Path,
    config: &Config,
    parameters: &Parameters<f32>,
    dtype: SaveDtype,
    shard_bytes: usize,
) -> Result<()> {
    fs::create_dir_all(directory).map_err(|e| Error::io(directory, e))?;
    let width = if dtype == SaveDtype::F32 { 4 } else { 2 };
    let mut files: Vec<Vec<&str>> = vec![Vec::new()];
    let (mut size, mut total) = (0, 0);
    for (name, tensor) in parameters.iter().filter(|(name, _)| !ignored(name, config)) {
        let bytes = width * tensor.data.len();
        if size > 0 && size + bytes > shard_bytes {
            files.push(Vec::new());
            size = 0;
        }
        size += bytes;
        total += bytes;
        files.last_mut().into_iter().for_each(|f| f.push(name));
    }
    let sharded = files.len() > 1;
    let count = files.len();
    let mut map = Map::new();
    for (i, names) in files.into_iter().enumerate() {
        let file = match sharded {
            true => format!("model-{:05}-of-{count:05}.safetensors", i + 1),
            false => "model.safetensors".to_string(),
        };
        let path = directory.join(&file);
        let encoded: Vec<(&str, Cow<'_, [u8]>)> =
            names.iter().map(|&name| (name, encode(&parameters[name].data, dtype))).collect();
        let mut views = Vec::with_capacity(encoded.len());
        for (name, bytes) in &encoded {
            let kind = if dtype == SaveDtype::F32 { Dtype::F32 } else { Dtype::BF16 };
            let view = TensorView::new(kind, parameters[*name].shape.clone(), bytes)
                .map_err(|e| Error::file(&path, format!("tensor `{name}`: {e}")))?;
            views.push((*name, view));
            map.insert((*name).to_string(), json!(file));
        }
        let metadata = Some([("format".to_string(), "pt".to_string())].into());
        let bytes = safetensors::serialize(views, metadata).map_err(|e| Error::file(&path, e.to_string()))?;
        replace(&path, &bytes)?;
    }
    let index = directory.join("model.safetensors.index.json");
    let stale = if sharded {
        let text = format!("{:#}\n", json!({"metadata": {"total_size": total}, "weight_map": map}));
        replace(&index, text.as_bytes())?;
        directory.join("model.safetensors")
    } else {
        index
    };
    // The other layout, left from an earlier save, would contradict this one.
    match fs::remove_file(&stale) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(Error::io(&stale, e)),
        _ => {}
    }
    let dtype = if dtype == SaveDtype::F32 { "float32" } else { "bfloat16" };
    let config = Config { dtype: dtype.into(), ..config.clone() };
    replace(&directory.join("config.json"), config.to_json().as_bytes())
}

/// [`Disk::replace`] as part of a checkpoint.
fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    Ok(Disk::default().replace(path, bytes)?)
}

/// Fresh parameters: matrices normal with this standard deviation (0.02 is usual), norms 1, biases 0.
///
/// Each parameter has a generator of its own, ChaCha8 keyed by the seed and its name, so no order enters and a larger model
/// shares the parameters of a smaller one where shapes agree.
pub fn initialise(config: &Config, seed: u64, deviation: f64) -> Parameters<f32> {
    let fill = |(name, shape): (String, Vec<usize>)| {
        let mut tensor = Tensor::<f32>::zeros(&shape);
        if name.ends_with("norm.weight") {
            tensor.data.fill(1.0);
        } else if name.ends_with(".weight") {
            let mut rng = ChaCha8Rng::seed_from_u64(seed ^ fnv(&name));
            for pair in tensor.data.chunks_mut(2) {
                // Box-Muller on (0, 1]; both halves are used.
                let unit = |rng: &mut ChaCha8Rng| ((rng.next_u64() >> 11) as f64 + 1.0) / (1u64 << 53) as f64;
                let (radius, angle) =
                    ((-2.0 * unit(&mut rng).ln()).sqrt(), std::f64::consts::TAU * unit(&mut rng));
                for (x, turn) in pair.iter_mut().zip([angle.cos(), angle.sin()]) {
                    *x = (deviation * radius * turn) as f32;
                }
            }
        }
        (name, tensor)
    };
    config.parameter_shapes().into_iter().map(fill).collect()
}

/// FNV-1a: a hash that stays the same from release to release.
pub fn fnv(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

/// The same parameters in another precision.
pub fn cast<A: Real, B: Real>(parameters: &Parameters<A>) -> Parameters<B> {
    let cast = |t: &Tensor<A>| Tensor {
        shape: t.shape.clone(),
        data: t.data.iter().map(|x| B::from_f64(x.to_f64())).collect(),
    };
    parameters.iter().map(|(name, tensor)| (name.clone(), cast(tensor))).collect()
}

/// Refuses parameters that are not exactly those of `config`.
///
/// # Errors
/// Naming the first tensor that is missing, unexpected or of another shape.
pub fn check<T>(config: &Config, parameters: &Parameters<T>) -> Result<()> {
    let fail = |tensor: &str, reason: String| Error::Tensor {
        file: "parameters".into(),
        tensor: tensor.into(),
        reason,
    };
    let shapes: BTreeMap<String, Vec<usize>> = config.parameter_shapes().into_iter().collect();
    for (name, shape) in &shapes {
        match parameters.get(name) {
            None => return Err(fail(name, format!("missing; expected shape {shape:?}"))),
            Some(t) if t.shape != *shape || t.data.len() != shape.iter().product::<usize>() => {
                return Err(fail(name, format!("expected shape {shape:?}, found {:?}", t.shape)));
            }
            Some(_) => {}
        }
    }
    match parameters.keys().find(|name| !shapes.contains_key(*name)) {
        Some(name) => Err(fail(name, "not a parameter of this configuration".into())),
        None => Ok(()),
    }
}

/// The output matrix: the embedding when tied.
pub fn head_name(config: &Config) -> &'static str {
    if config.tie_word_embeddings { EMBEDDING } else { HEAD }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> Config {
        Config { qkv_bias: true, ..Config::qwen2(20, 8, 2, 2, 1) }
    }

    #[test]
    fn saving_and_loading_gives_the_same_bits_single_and_sharded() {
        let config = small();
        let parameters = initialise(&config, 3, 0.02);
        let directory = tempfile::tempdir().unwrap();
        for shard_bytes in [usize::MAX, 700, usize::MAX] {
            save(directory.path(), &config, &parameters, SaveDtype::F32, shard_bytes).unwrap();
            let sharded = directory.path().join("model.safetensors.index.json").exists();
            assert_eq!(sharded, shard_bytes == 700);
            assert_eq!(sharded, !directory.path().join("model.safetensors").exists());
            let read = Config::load(directory.path()).unwrap();
            assert_eq!(read, config);
            assert!(load(directory.path(), &read).unwrap() == parameters);
            let found = inspect(directory.path(), &read).unwrap();
            assert_eq!((found.files > 1, found.dtypes), (sharded, ["F32".to_string()].into()));
        }
        save(directory.path(), &config, &parameters, SaveDtype::Bf16, usize::MAX).unwrap();
        let rounded = load(directory.path(), &config).unwrap();
        for (name, t) in &parameters {
            let expected: Vec<f32> = t.data.iter().map(|&x| bf16::from_f32(x).to_f32()).collect();
            assert_eq!(rounded[name].data, expected, "{name}");
        }
    }

    #[test]
    fn a_checkpoint_that_does_not_fit_is_refused_by_file_and_tensor() {
        let config = small();
        let parameters = initialise(&config, 3, 0.02);
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        let refused = |config: &Config| {
            let message = load(at, config).expect_err("refused").to_string();
            let by_header = inspect(at, config).expect_err("refused by its header").to_string();
            // Both say the same up to the words for damage.
            let same = |m: &str| m.split(" bytes)").next().map(str::to_owned);
            assert_eq!(same(&by_header), same(&message));
            message
        };
        assert!(refused(&config).contains("model.safetensors"));
        save(at, &config, &parameters, SaveDtype::F32, usize::MAX).unwrap();

        let wide = Config { intermediate_size: 99, ..config.clone() };
        let message = refused(&wide);
        assert!(
            message.contains("mlp.down_proj") && message.contains("[8, 99]") && message.contains("[8, 24]"),
            "{message}"
        );
        let deep = Config { num_hidden_layers: 3, ..config.clone() };
        assert!(refused(&deep).contains("layers.2") && refused(&deep).contains("missing"));
        let shallow = Config { num_hidden_layers: 1, ..config.clone() };
        assert!(refused(&shallow).contains("layers.1") && refused(&shallow).contains("not a parameter"));
        let untied = Config { tie_word_embeddings: false, ..config.clone() };
        assert!(refused(&untied).contains("lm_head.weight"));

        let path = at.join("model.safetensors");
        let good = fs::read(&path).unwrap();
        for bad in [&good[..good.len() - 5], &good[..100], &good[..4], b"not a tensor file at all"] {
            fs::write(&path, bad).unwrap();
            assert!(refused(&config).contains("model.safetensors: damaged"), "{}", refused(&config));
        }
        let ints = vec![0u8; 8 * 20 * 8];
        let view = TensorView::new(Dtype::I64, vec![20, 8], &ints).unwrap();
        fs::write(&path, safetensors::serialize([(EMBEDDING, view)], None).unwrap()).unwrap();
        assert!(refused(&config).contains("found I64"), "{}", refused(&config));
    }

    #[test]
    fn initial_parameters_depend_on_seed_and_name_alone() {
        let config = small();
        let (a, b) = (initialise(&config, 1, 0.02), initialise(&config, 2, 0.02));
        assert!(a == initialise(&config, 1, 0.02) && a != b);
        let deep = initialise(&Config { num_hidden_layers: 5, ..config.clone() }, 1, 0.02);
        assert!(a.iter().all(|(name, t)| deep[name] == *t));
        let wide = initialise(&Config::qwen2(2000, 64, 1, 2, 1), 1, 0.02);
        let e = &wide[EMBEDDING].data;
        let mean = e.iter().map(|&x| f64::from(x)).sum::<f64>() / e.len() as f64;
        let variance = e.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / e.len() as f64;
        assert!(mean.abs() < 3e-4 && (variance.sqrt() - 0.02).abs() < 2e-4, "{mean} {variance}");
    }
}
