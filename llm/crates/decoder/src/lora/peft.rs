//! Adapters on disk, in the layout of PEFT: `adapter_config.json` and `adapter_model.safetensors`.

use std::path::Path;

use safetensors::tensor::SafeTensors;
use serde_json::{Value, json};

use super::LoraSettings;
use crate::disk::{Disk, read_regular, read_regular_text};
use crate::model::config::known::{ADAPTER, ADAPTER_FILE};
use crate::model::weights::{Parameters, SaveDtype, Tensor, decode, write_file};
use crate::model::{Error, ModelConfig};

/// The file with rank, alpha and targets.
pub const CONFIG_FILE: &str = ADAPTER_FILE;
/// The file with the tensors.
pub const WEIGHTS_FILE: &str = "adapter_model.safetensors";

/// PEFT's prefix of the names of a causal language model. PEFT leaves out a tensor without it; `load_adapter` of transformers reads it all the same.
const PREFIX: &str = "base_model.model.";

/// Writes the adapter so that `peft.PeftModel.from_pretrained` loads it; `base` is the checkpoint it belongs to.
///
/// # Errors
/// When the operating system refuses; what was there before is then still there.
pub fn save(
    directory: &Path,
    settings: &LoraSettings,
    adapter: &Parameters<f32>,
    base: &str,
) -> Result<(), Error> {
    save_on(&Disk::default(), directory, (settings, adapter), base)
}

/// [`save`] on this disk.
///
/// # Errors
/// The errors of [`save`].
pub fn save_on(
    disk: &Disk,
    directory: &Path,
    (settings, adapter): (&LoraSettings, &Parameters<f32>),
    base: &str,
) -> Result<(), Error> {
    disk.create_directories(directory)?;
    let path = directory.join(WEIGHTS_FILE);
    let named = adapter.iter().map(|(name, tensor)| (format!("{PREFIX}{name}"), tensor));
    write_file(disk, &path, named, SaveDtype::F32)?;
    let config = json!({
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base,
        "r": settings.rank,
        "lora_alpha": settings.alpha,
        "lora_dropout": 0.0,
        "target_modules": settings.targets,
        "bias": "none",
        "fan_in_fan_out": false,
        "use_rslora": false,
        "use_dora": false,
        "init_lora_weights": true,
        "inference_mode": true,
        "modules_to_save": null,
    });
    Ok(disk.replace(&directory.join(CONFIG_FILE), format!("{config:#}\n").as_bytes())?)
}

/// Reads an adapter that PEFT or [`save`] wrote for a model of this shape.
///
/// # Errors
/// Naming file and field or tensor: what is not plain LoRA (rank patterns, DoRA, trained biases or embeddings), what is missing,
/// unexpected, of another shape or of a dtype other than f32, bf16 and f16.
pub fn load(directory: &Path, config: &ModelConfig) -> Result<(LoraSettings, Parameters<f32>), Error> {
    let settings = settings(&directory.join(CONFIG_FILE))?;
    let path = directory.join(WEIGHTS_FILE);
    let mut expected =
        settings.shapes(config).map_err(|e| Error::file(&directory.join(CONFIG_FILE), e.to_string()))?;
    let bytes = read_regular(&path, u64::MAX).map_err(|e| Error::io(&path, e))?;
    let tensors = SafeTensors::deserialize(&bytes)
        .map_err(|e| Error::file(&path, format!("damaged ({} bytes): {e}", bytes.len())))?;
    let mut adapter = Parameters::new();
    // Sorted, so that the same file is refused with the same words.
    let mut found = tensors.tensors();
    found.sort_by(|(a, _), (b, _)| a.cmp(b));
    // Names without the prefix, as other writers have them; a file with both has a tensor twice, or half of one adapter.
    let is_bare = found.iter().all(|(name, _)| !name.starts_with(PREFIX));
    for (full, view) in found {
        let fail =
            |reason: String| Error::Tensor { file: path.display().to_string(), tensor: full.clone(), reason };
        let Some(name) = full.strip_prefix(PREFIX).or_else(|| is_bare.then_some(full.as_str())) else {
            return Err(fail(format!(
                "its name lacks the prefix `{PREFIX}`, which other names of the file have; write all names with it, as PEFT does"
            )));
        };
        let Some(shape) = expected.remove(name) else {
            return Err(fail(format!("not a tensor of this adapter (shape {:?})", view.shape())));
        };
        if view.shape() != shape {
            return Err(fail(format!("expected shape {shape:?}, found {:?}", view.shape())));
        }
        let data = decode(view.dtype(), view.data())
            .ok_or_else(|| fail(format!("expected dtype F32, BF16 or F16, found {:?}", view.dtype())))?;
        adapter.insert(name.to_owned(), Tensor { shape: shape.to_vec(), data });
    }
    match expected.into_iter().next() {
        None => Ok((settings, adapter)),
        Some((tensor, shape)) => Err(Error::Tensor {
            file: path.display().to_string(),
            tensor: format!("{PREFIX}{tensor}"),
            reason: format!("missing; expected shape {shape:?}"),
        }),
    }
}

/// Largest `lora_alpha`; published adapters have 1 to 1024.
const MAX_ALPHA: f64 = 1e6;

fn settings(path: &Path) -> Result<LoraSettings, Error> {
    let text = read_regular_text(path, 1 << 20).map_err(|e| Error::io(path, e))?;
    let value: Value =
        serde_json::from_str(&text).map_err(|e| Error::file(path, format!("not JSON: {e}")))?;
    let fail = |field: &str, reason: &str| Error::Config {
        file: path.display().to_string(),
        field: field.into(),
        value: value.get(field).unwrap_or(&Value::Null).to_string(),
        reason: reason.into(),
    };
    if value.get("peft_type").and_then(Value::as_str) != Some("LORA") {
        return Err(fail("peft_type", "only \"LORA\" is read"));
    }
    if let Some(map) = value.as_object() {
        ADAPTER.refuse_unknown(map, &path.display().to_string())?;
    }
    // The others (PiSSA, OLoRA, CorDA, LoftQ) take their start out of the model's own weights, also when an adapter is loaded.
    const STARTS: [&str; 3] = ["gaussian", "eva", "orthogonal"];
    if value.get("init_lora_weights").and_then(Value::as_str).is_some_and(|start| !STARTS.contains(&start)) {
        return Err(fail(
            "init_lora_weights",
            "not supported, as it changes the model's own weights; convert the adapter with PEFT's \
            path_initial_model_for_weight_conversion",
        ));
    }
    if !matches!(value.get("bias").and_then(Value::as_str), None | Some("none")) {
        return Err(fail("bias", "only \"none\" is supported"));
    }
    let rank = value.get("r").and_then(Value::as_u64).ok_or_else(|| fail("r", "expected a whole number"))?;
    let alpha = value.get("lora_alpha").and_then(Value::as_f64);
    let alpha = alpha.filter(|alpha| alpha.abs() <= MAX_ALPHA);
    let alpha = alpha.ok_or_else(|| fail("lora_alpha", "expected a number from -1e6 to 1e6"))?;
    let names = value.get("target_modules").and_then(Value::as_array).map(|list| {
        list.iter().map(|name| name.as_str().map(str::to_owned)).collect::<Option<Vec<String>>>()
    });
    let mut targets =
        names.flatten().ok_or_else(|| fail("target_modules", "expected a list of projection names"))?;
    targets.sort();
    Ok(LoraSettings { rank: rank as usize, alpha, targets })
}
