//! `config.json` of Qwen2 and Llama, as transformers 4 and 5 write it.
//!
//! What the decoder does not implement is refused by field and value; a setting that would be ignored would be a wrong model.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::{Architecture, Config, RopeScaling};
use crate::model::error::{Error, Result};

impl Config {
    /// Reads `config.json` of a checkpoint directory.
    ///
    /// # Errors
    /// When it cannot be read, or describes a model that this decoder does not implement.
    pub fn load(directory: &Path) -> Result<Self> {
        let path = directory.join("config.json");
        let text = fs::read_to_string(&path).map_err(|e| Error::io(&path, e))?;
        Self::parse(&text, &path.display().to_string())
    }

    /// Parses the text of a `config.json`; `file` names it in errors.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn parse(text: &str, file: &str) -> Result<Self> {
        let value: Value = serde_json::from_str(text)
            .map_err(|e| Error::file(Path::new(file), format!("not a JSON configuration: {e}")))?;
        let Value::Object(map) = value else {
            return Err(Error::file(Path::new(file), "not a JSON object"));
        };
        let fields = Fields { map: &map, file, prefix: "" };
        let architecture = architecture(&fields)?;
        fields.only("hidden_act", &[json!("silu")], "only `silu` is implemented")?;
        fields.only("pretraining_tp", &[json!(1)], "only 1 is implemented")?;
        fields.only("attention_dropout", &[json!(0.0), json!(0)], "only 0 is implemented")?;
        fields.only("quantization_config", &[], "quantised checkpoints are not implemented")?;

        let hidden_size = fields.size("hidden_size", None)?;
        let heads = fields.size("num_attention_heads", None)?;
        let key_heads = fields.size("num_key_value_heads", Some(heads))?;
        if heads % key_heads != 0 {
            return Err(
                fields.error("num_key_value_heads", format!("it must divide num_attention_heads = {heads}"))
            );
        }
        if !fields.has("head_dim") && hidden_size % heads != 0 {
            return Err(
                fields.error("num_attention_heads", format!("it must divide hidden_size = {hidden_size}"))
            );
        }
        let head_dim = fields.size("head_dim", Some(hidden_size / heads))?;
        if head_dim % 2 != 0 {
            return Err(fields.error("head_dim", "it must be even"));
        }
        let max_position_embeddings = fields.size("max_position_embeddings", Some(2048))?;
        let layers = fields.size("num_hidden_layers", None)?;
        refuse_windows(&fields, architecture, layers, max_position_embeddings)?;
        let (rope_theta, rope_scaling) = rope(&fields)?;
        let attention_bias = fields.flag("attention_bias", false)?;
        let (qkv_bias, output_bias, mlp_bias) = match architecture {
            Architecture::Qwen2 => (true, false, false),
            Architecture::Llama => (attention_bias, attention_bias, fields.flag("mlp_bias", false)?),
        };
        let dtype_field = if fields.has("dtype") { "dtype" } else { "torch_dtype" };
        let dtype = match fields.get(dtype_field) {
            None => "float32".to_string(),
            Some(Value::String(s)) if ["float32", "bfloat16", "float16"].contains(&s.as_str()) => s.clone(),
            Some(_) => return Err(fields.error(dtype_field, "float32, bfloat16 and float16 are read")),
        };
        Ok(Self {
            architecture,
            vocab_size: fields.size("vocab_size", None)?,
            hidden_size,
            intermediate_size: fields.size("intermediate_size", None)?,
            num_hidden_layers: layers,
            num_attention_heads: heads,
            num_key_value_heads: key_heads,
            head_dim,
            rms_norm_eps: fields.positive("rms_norm_eps", Some(1e-6))?,
            rope_theta,
            rope_scaling,
            max_position_embeddings,
            tie_word_embeddings: fields.flag("tie_word_embeddings", false)?,
            qkv_bias,
            output_bias,
            mlp_bias,
            eos_token_ids: fields.tokens("eos_token_id")?,
            bos_token_id: fields.tokens("bos_token_id")?.first().copied(),
            pad_token_id: fields.tokens("pad_token_id")?.first().copied(),
            dtype,
        })
    }

    /// The text of a `config.json` that transformers 4 and 5 both load.
    pub fn to_json(&self) -> String {
        let (class, kind) = match self.architecture {
            Architecture::Qwen2 => ("Qwen2ForCausalLM", "qwen2"),
            Architecture::Llama => ("LlamaForCausalLM", "llama"),
        };
        let eos = match self.eos_token_ids.as_slice() {
            [] => Value::Null,
            [one] => json!(one),
            several => json!(several),
        };
        let scaling = match self.rope_scaling {
            RopeScaling::None => Value::Null,
            RopeScaling::Linear { factor } => json!({"rope_type": "linear", "factor": factor}),
            RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_max } => json!({
                "rope_type": "llama3", "factor": factor, "low_freq_factor": low_freq_factor,
                "high_freq_factor": high_freq_factor, "original_max_position_embeddings": original_max as u64,
            }),
        };
        let mut value = json!({
            "architectures": [class],
            "attention_dropout": 0.0,
            "bos_token_id": self.bos_token_id,
            "eos_token_id": eos,
            "hidden_act": "silu",
            "hidden_size": self.hidden_size,
            "initializer_range": 0.02,
            "intermediate_size": self.intermediate_size,
            "max_position_embeddings": self.max_position_embeddings,
            "model_type": kind,
            "num_attention_heads": self.num_attention_heads,
            "num_hidden_layers": self.num_hidden_layers,
            "num_key_value_heads": self.num_key_value_heads,
            "pad_token_id": self.pad_token_id,
            "rms_norm_eps": self.rms_norm_eps,
            "rope_scaling": scaling,
            "rope_theta": self.rope_theta,
            "tie_word_embeddings": self.tie_word_embeddings,
            "torch_dtype": self.dtype,
            "use_cache": true,
            "vocab_size": self.vocab_size,
        });
        if let Value::Object(map) = &mut value {
            match self.architecture {
                Architecture::Qwen2 => {
                    map.insert("use_sliding_window".into(), json!(false));
                    if self.head_dim * self.num_attention_heads != self.hidden_size {
                        map.insert("head_dim".into(), json!(self.head_dim));
                    }
                }
                Architecture::Llama => {
                    map.insert("attention_bias".into(), json!(self.qkv_bias));
                    map.insert("mlp_bias".into(), json!(self.mlp_bias));
                    map.insert("head_dim".into(), json!(self.head_dim));
                }
            }
        }
        format!("{value:#}\n")
    }
}

/// An object of the file, with typed reading and errors that name field and value.
struct Fields<'a> {
    map: &'a Map<String, Value>,
    file: &'a str,
    prefix: &'a str,
}

impl<'a> Fields<'a> {
    /// The value, unless absent or null.
    fn get(&self, field: &str) -> Option<&'a Value> {
        self.map.get(field).filter(|v| !v.is_null())
    }

    fn has(&self, field: &str) -> bool {
        self.get(field).is_some()
    }

    fn error(&self, field: &str, reason: impl Into<String>) -> Error {
        let value = self.map.get(field).map_or("missing".to_string(), Value::to_string);
        Error::Config {
            file: self.file.into(),
            field: format!("{}{field}", self.prefix),
            value,
            reason: reason.into(),
        }
    }

    fn size(&self, field: &str, default: Option<usize>) -> Result<usize> {
        match (self.get(field), default) {
            (None, Some(default)) => Ok(default),
            (Some(v), _) if v.as_u64().is_some_and(|n| n > 0 && n < 1 << 32) => {
                Ok(v.as_u64().unwrap_or_default() as usize)
            }
            _ => Err(self.error(field, "a positive integer is needed")),
        }
    }

    fn positive(&self, field: &str, default: Option<f64>) -> Result<f64> {
        match (self.get(field).map(Value::as_f64), default) {
            (None, Some(default)) => Ok(default),
            (Some(Some(x)), _) if x > 0.0 && x.is_finite() => Ok(x),
            _ => Err(self.error(field, "a positive number is needed")),
        }
    }

    fn flag(&self, field: &str, default: bool) -> Result<bool> {
        match self.get(field) {
            None => Ok(default),
            Some(Value::Bool(b)) => Ok(*b),
            Some(_) => Err(self.error(field, "true or false is needed")),
        }
    }

    /// Refuses every value but these; absent and null pass.
    fn only(&self, field: &str, accepted: &[Value], reason: &str) -> Result<()> {
        match self.get(field) {
            Some(v) if !accepted.contains(v) => Err(self.error(field, reason)),
            _ => Ok(()),
        }
    }

    /// A token id, a list of them, or none.
    fn tokens(&self, field: &str) -> Result<Vec<u32>> {
        let one = |v: &Value| v.as_u64().and_then(|n| u32::try_from(n).ok());
        let found = match self.get(field) {
            None => Some(Vec::new()),
            Some(Value::Array(list)) => list.iter().map(one).collect(),
            Some(v) => one(v).map(|n| vec![n]),
        };
        found.ok_or_else(|| self.error(field, "a token id or a list of token ids is needed"))
    }
}

fn architecture(fields: &Fields<'_>) -> Result<Architecture> {
    let by_name = |name: &str| match name {
        "Qwen2ForCausalLM" | "qwen2" => Some(Architecture::Qwen2),
        "LlamaForCausalLM" | "llama" => Some(Architecture::Llama),
        _ => None,
    };
    let listed = match fields.get("architectures") {
        Some(Value::Array(list)) if !list.is_empty() => Some("architectures"),
        Some(Value::Array(_)) | None => None,
        Some(_) => return Err(fields.error("architectures", "a list is needed")),
    };
    let field = listed.unwrap_or("model_type");
    let name = match fields.get(field) {
        Some(Value::Array(list)) => list.first().and_then(Value::as_str),
        Some(v) => v.as_str(),
        None => None,
    };
    name.and_then(by_name)
        .ok_or_else(|| fields.error(field, "Qwen2ForCausalLM and LlamaForCausalLM are implemented"))
}

/// A sliding window is fine while it is switched off or longer than any row.
fn refuse_windows(
    fields: &Fields<'_>,
    architecture: Architecture,
    layers: usize,
    longest: usize,
) -> Result<()> {
    if let Some(types) = fields.get("layer_types") {
        let full = |v: &Value| v.as_str() == Some("full_attention");
        if !types.as_array().is_some_and(|list| list.len() == layers && list.iter().all(full)) {
            return Err(
                fields.error("layer_types", format!("{layers} times `full_attention` is implemented"))
            );
        }
        return Ok(());
    }
    let used = match architecture {
        Architecture::Qwen2 => fields.flag("use_sliding_window", false)?,
        Architecture::Llama => true,
    };
    if !used || !fields.has("sliding_window") {
        return Ok(());
    }
    // Qwen2 windows only the layers from `max_window_layers` on.
    let first = match architecture {
        Architecture::Qwen2 => {
            fields.map.get("max_window_layers").and_then(Value::as_u64).unwrap_or(28) as usize
        }
        Architecture::Llama => 0,
    };
    let window = fields.size("sliding_window", None)?;
    if first < layers && window < longest {
        let reason = format!(
            "sliding-window attention is not implemented, and rows may have max_position_embeddings = {longest} tokens"
        );
        return Err(fields.error("sliding_window", reason));
    }
    Ok(())
}

/// `rope_theta` beside `rope_scaling` (transformers 4), or both in `rope_parameters` (transformers 5).
fn rope(fields: &Fields<'_>) -> Result<(f64, RopeScaling)> {
    let field = if fields.has("rope_parameters") { "rope_parameters" } else { "rope_scaling" };
    fields.only("partial_rotary_factor", &[json!(1.0), json!(1)], "only 1 is implemented")?;
    let Some(value) = fields.get(field) else {
        return Ok((fields.positive("rope_theta", Some(10_000.0))?, RopeScaling::None));
    };
    let Value::Object(map) = value else {
        return Err(fields.error(field, "an object is needed"));
    };
    let prefix = format!("{field}.");
    let inner = Fields { map, file: fields.file, prefix: &prefix };
    let theta = match inner.has("rope_theta") {
        true => inner.positive("rope_theta", None)?,
        false => fields.positive("rope_theta", Some(10_000.0))?,
    };
    inner.only("partial_rotary_factor", &[json!(1.0), json!(1)], "only 1 is implemented")?;
    let kind = if inner.has("rope_type") { "rope_type" } else { "type" };
    let scaling = match inner.get(kind).map(|v| v.as_str().unwrap_or("")) {
        None | Some("default") => RopeScaling::None,
        Some("linear") => RopeScaling::Linear { factor: inner.positive("factor", None)? },
        Some("llama3") => {
            let low_freq_factor = inner.positive("low_freq_factor", None)?;
            let high_freq_factor = inner.positive("high_freq_factor", None)?;
            if high_freq_factor <= low_freq_factor {
                return Err(inner.error(
                    "high_freq_factor",
                    format!("it must exceed low_freq_factor = {low_freq_factor}"),
                ));
            }
            RopeScaling::Llama3 {
                factor: inner.positive("factor", None)?,
                low_freq_factor,
                high_freq_factor,
                original_max: inner.positive("original_max_position_embeddings", None)?,
            }
        }
        Some(_) => return Err(inner.error(kind, "default, linear and llama3 are implemented")),
    };
    Ok((theta, scaling))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn qwen(extra: &str) -> String {
        format!(
            r#"{{"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "vocab_size": 512, "hidden_size": 128,
            "intermediate_size": 344, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
            "max_position_embeddings": 2048, "rms_norm_eps": 1e-6, "tie_word_embeddings": true{extra}}}"#
        )
    }

    fn refused(text: &str) -> String {
        Config::parse(text, "config.json").expect_err("refused").to_string()
    }

    #[test]
    fn both_styles_of_transformers_say_the_same() {
        let old = qwen(
            r#", "rope_theta": 1000000.0, "torch_dtype": "bfloat16", "eos_token_id": 511, "sliding_window": null"#,
        );
        let new = qwen(
            r#", "rope_parameters": {"rope_theta": 1000000.0, "rope_type": "default"}, "dtype": "bfloat16",
            "eos_token_id": [511], "use_sliding_window": false, "sliding_window": 64,
            "layer_types": ["full_attention", "full_attention", "full_attention", "full_attention"]"#,
        );
        let config = Config::parse(&old, "a").unwrap();
        assert_eq!(config, Config::parse(&new, "b").unwrap());
        assert_eq!((config.rope_theta, config.head_dim, config.qkv_bias), (1e6, 32, true));
        assert_eq!(config, Config::parse(&config.to_json(), "c").unwrap());
    }

    #[test]
    fn llama3_scaling_survives_writing_and_changes_only_long_wavelengths() {
        let text = qwen(r#", "rope_theta": 500000.0, "rope_scaling": {"type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}"#)
        .replace("Qwen2ForCausalLM", "LlamaForCausalLM");
        let config = Config::parse(&text, "a").unwrap();
        assert!(!config.qkv_bias);
        assert_eq!(config, Config::parse(&config.to_json(), "b").unwrap());
        let plain = Config { rope_scaling: RopeScaling::None, ..config.clone() };
        let (scaled, plain) = (config.frequencies(), plain.frequencies());
        assert_eq!(scaled[0], plain[0]);
        assert_eq!(scaled[15], plain[15] / 8.0);
    }

    #[test]
    fn what_is_not_implemented_is_refused_by_field_and_value() {
        for (extra, field, value) in [
            (r#", "hidden_act": "gelu""#, "hidden_act", "gelu"),
            (r#", "rope_scaling": {"rope_type": "yarn", "factor": 4.0}"#, "rope_scaling.rope_type", "yarn"),
            (
                r#", "use_sliding_window": true, "sliding_window": 64, "max_window_layers": 2"#,
                "sliding_window",
                "64",
            ),
            (r#", "layer_types": ["sliding_attention"]"#, "layer_types", "sliding_attention"),
            (r#", "torch_dtype": "float8_e4m3fn""#, "torch_dtype", "float8"),
            (r#", "num_key_value_heads": 3"#, "num_key_value_heads", "3"),
            (r#", "eos_token_id": -1"#, "eos_token_id", "-1"),
            (r#", "attention_dropout": 0.1"#, "attention_dropout", "0.1"),
            (r#", "quantization_config": {"bits": 4}"#, "quantization_config", "bits"),
        ] {
            let message = refused(&qwen(extra));
            assert!(message.contains(field) && message.contains(value), "{message}");
        }
        let message = refused(&qwen("").replace("Qwen2ForCausalLM", "MambaForCausalLM"));
        assert!(message.contains("architectures") && message.contains("MambaForCausalLM"), "{message}");
        let message = refused(&qwen("").replace("\"hidden_size\": 128,", ""));
        assert!(message.contains("hidden_size") && message.contains("missing"), "{message}");
        assert!(refused("{").contains("not a JSON"));
        // a window that no row can outgrow, or on layers that the model does not have, does nothing
        for extra in [
            r#", "use_sliding_window": true, "sliding_window": 4096, "max_window_layers": 0"#,
            r#", "use_sliding_window": true, "sliding_window": 64, "max_window_layers": 28"#,
        ] {
            assert!(Config::parse(&qwen(extra), "a").is_ok());
        }
    }
}
