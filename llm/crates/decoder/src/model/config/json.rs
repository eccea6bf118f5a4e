//! `config.json` of the families of [`super::Architecture`], as transformers 4 and 5 write it.
//!
//! What the decoder does not implement is refused by field and value; a setting that would be ignored would be a wrong model.

use std::path::Path;

use serde_json::{Value, json};

use super::architecture::{Bias, FAMILIES, Family};
use super::fields::{Fields, limits};
use super::known::CONFIG;
use super::layer::Activation;
use super::{ModelConfig, rope};
use crate::disk::read_regular_text;
use crate::model::error::{Error, Result};
use crate::model::ops::attention::Heads;

impl ModelConfig {
    /// Reads `config.json` of a checkpoint directory.
    ///
    /// # Errors
    /// When it cannot be read, or describes a model that this decoder does not implement.
    pub fn load(directory: &Path) -> Result<Self> {
        let path = directory.join("config.json");
        let text = read_regular_text(&path, limits::FILE).map_err(|e| Error::io(&path, e))?;
        Self::parse(&text, &path.display().to_string())
    }

    /// Parses the text of a `config.json`; `file` names it in errors.
    ///
    /// # Errors
    /// The errors of [`ModelConfig::load`].
    pub fn parse(text: &str, file: &str) -> Result<Self> {
        let value: Value = serde_json::from_str(text)
            .map_err(|e| Error::file(Path::new(file), format!("not a JSON configuration: {e}")))?;
        let Value::Object(map) = value else {
            return Err(Error::file(Path::new(file), "not a JSON object"));
        };
        let fields = Fields { map: &map, file, prefix: "" };
        let family = family(&fields)?;
        let activation = activation(&fields)?;
        CONFIG.refuse_unknown(&map, file)?;

        let hidden_size = fields.size("hidden_size", None, limits::WIDTH)?;
        let heads = heads(&fields, family, hidden_size)?;
        let max_position_embeddings =
            fields.size("max_position_embeddings", Some(family.positions), limits::POSITIONS)?;
        let layers = fields.size("num_hidden_layers", None, limits::LAYERS)?;
        refuse_windows(&fields, family, layers, max_position_embeddings)?;
        let (rope_theta, rope_scaling) = rope::read(&fields)?;
        Ok(Self {
            architecture: family.architecture,
            vocab_size: fields.size("vocab_size", None, limits::WIDTH)?,
            hidden_size,
            intermediate_size: fields.size("intermediate_size", None, limits::WIDTH)?,
            num_hidden_layers: layers,
            num_attention_heads: heads.query,
            num_key_value_heads: heads.key,
            head_dim: heads.dim,
            norm_placement: family.norm_placement,
            rms_norm_eps: fields.positive("rms_norm_eps", Some(family.rms_norm_eps), limits::EPS)?,
            qk_norm: family.qk_norm,
            activation,
            rope_theta,
            rope_scaling,
            max_position_embeddings,
            tie_word_embeddings: fields.flag("tie_word_embeddings", false)?,
            qkv_bias: bias(&fields, family.qkv_bias)?,
            output_bias: bias(&fields, family.output_bias)?,
            mlp_bias: bias(&fields, family.mlp_bias)?,
            eos_token_ids: fields.tokens("eos_token_id")?,
            bos_token_id: fields.tokens("bos_token_id")?.first().copied(),
            pad_token_id: fields.tokens("pad_token_id")?.first().copied(),
            dtype: dtype(&fields)?,
        })
    }

    /// The text of a `config.json` that transformers 4 and 5 both load.
    pub fn to_json(&self) -> String {
        let family = self.architecture.family();
        let eos = match self.eos_token_ids.as_slice() {
            [] => Value::Null,
            [one] => json!(one),
            several => json!(several),
        };
        let mut value = json!({
            "architectures": [family.class],
            "attention_dropout": 0.0,
            "bos_token_id": self.bos_token_id,
            "eos_token_id": eos,
            "hidden_act": self.activation.name(),
            "hidden_size": self.hidden_size,
            "initializer_range": 0.02,
            "intermediate_size": self.intermediate_size,
            "max_position_embeddings": self.max_position_embeddings,
            "model_type": family.model_type,
            "num_attention_heads": self.num_attention_heads,
            "num_hidden_layers": self.num_hidden_layers,
            "num_key_value_heads": self.num_key_value_heads,
            "pad_token_id": self.pad_token_id,
            "rms_norm_eps": self.rms_norm_eps,
            "rope_scaling": self.rope_scaling.to_json(),
            "rope_theta": self.rope_theta,
            "tie_word_embeddings": self.tie_word_embeddings,
            "torch_dtype": self.dtype,
            "use_cache": true,
            "vocab_size": self.vocab_size,
        });
        if let Value::Object(map) = &mut value {
            if family.window_switch {
                map.insert("use_sliding_window".into(), json!(false));
            }
            for (bias, has) in [(family.qkv_bias, self.qkv_bias), (family.mlp_bias, self.mlp_bias)] {
                map.extend(bias.field().map(|field| (field.into(), json!(has))));
            }
            if family.writes_head_dim || self.head_dim * self.num_attention_heads != self.hidden_size {
                map.insert("head_dim".into(), json!(self.head_dim));
            }
        }
        format!("{value:#}\n")
    }
}

/// The family that the file names: transformers goes by `model_type`, so `architectures` must not name another one.
fn family(fields: &Fields<'_>) -> Result<&'static Family> {
    let classes = || FAMILIES.each_ref().map(|f| f.class).join(", ");
    let named = |field: &str, name: Option<&str>| {
        let found = FAMILIES.iter().find(|f| name.is_some_and(|n| n == f.class || n == f.model_type));
        found.ok_or_else(|| fields.error(field, format!("these are implemented: {}", classes())))
    };
    let of_type = fields.get("model_type").map(|v| named("model_type", v.as_str())).transpose();
    let of_class = match fields.get("architectures") {
        Some(Value::Array(list)) if !list.is_empty() => named("architectures", list[0].as_str()).map(Some)?,
        Some(Value::Array(_)) | None => None,
        Some(_) => return fields.refuse("architectures", "a list is needed"),
    };
    match (of_class, of_type?) {
        (Some(class), Some(other)) if class.architecture != other.architecture => {
            let reason = format!("`architectures` names {}; leave one of them out", class.class);
            fields.refuse("model_type", reason)
        }
        (Some(family), _) | (None, Some(family)) => Ok(family),
        (None, None) => named("model_type", None),
    }
}

fn activation(fields: &Fields<'_>) -> Result<Activation> {
    match fields.get("hidden_act") {
        Some(name) if *name != json!(Activation::Silu.name()) => {
            fields.refuse("hidden_act", "only `silu` is implemented")
        }
        Some(_) | None => Ok(Activation::Silu),
    }
}

fn bias(fields: &Fields<'_>, bias: Bias) -> Result<bool> {
    match bias {
        Bias::Never => Ok(false),
        Bias::Always => Ok(true),
        Bias::Field(field) => fields.flag(field, false),
    }
}

fn heads(fields: &Fields<'_>, family: &Family, hidden_size: usize) -> Result<Heads> {
    let query = fields.size("num_attention_heads", None, limits::HEADS)?;
    let key = fields.size("num_key_value_heads", Some(query), limits::HEADS)?;
    if query % key != 0 {
        return fields.refuse("num_key_value_heads", format!("it must divide num_attention_heads = {query}"));
    }
    if family.head_dim.is_none() && !fields.has("head_dim") && !hidden_size.is_multiple_of(query) {
        return fields.refuse("num_attention_heads", format!("it must divide hidden_size = {hidden_size}"));
    }
    let dim =
        fields.size("head_dim", Some(family.head_dim.unwrap_or(hidden_size / query)), limits::HEAD_DIM)?;
    if dim % 2 != 0 {
        return fields.refuse("head_dim", "it must be even");
    }
    Ok(Heads { query, key, dim })
}

fn dtype(fields: &Fields<'_>) -> Result<String> {
    let field = fields.one_of(["dtype", "torch_dtype"])?;
    match fields.get(field) {
        None => Ok("float32".to_string()),
        Some(Value::String(s)) if ["float32", "bfloat16", "float16"].contains(&s.as_str()) => Ok(s.clone()),
        Some(_) => fields.refuse(field, "float32, bfloat16 and float16 are read"),
    }
}

/// A sliding window is fine while it is switched off or longer than any row.
fn refuse_windows(fields: &Fields<'_>, family: &Family, layers: usize, longest: usize) -> Result<()> {
    if let Some(types) = fields.get("layer_types") {
        let full = |v: &Value| v.as_str() == Some("full_attention");
        if !types.as_array().is_some_and(|list| list.len() == layers && list.iter().all(full)) {
            return fields.refuse("layer_types", format!("{layers} times `full_attention` is implemented"));
        }
        return Ok(());
    }
    let switched = family.window_switch && fields.flag("use_sliding_window", false)?;
    // Switched on without a size, it is that of transformers; null is none.
    let default = (switched && !fields.map.contains_key("sliding_window")).then_some(4096);
    if family.window_switch && !switched || default.is_none() && !fields.has("sliding_window") {
        return Ok(());
    }
    let first = match family.window_switch {
        true => fields.map.get("max_window_layers").and_then(Value::as_u64).unwrap_or(28) as usize,
        false => 0,
    };
    let window = fields.size("sliding_window", default, limits::POSITIONS)?;
    if first < layers && window < longest {
        let reason = format!(
            "sliding-window attention is not implemented, and rows may have max_position_embeddings = {longest} tokens"
        );
        return fields.refuse("sliding_window", reason);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::config::{Architecture, NormPlacement, QkNorm, RopeScaling};

    fn qwen(extra: &str) -> String {
        format!(
            r#"{{"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "vocab_size": 512, "hidden_size": 128,
            "intermediate_size": 344, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
            "max_position_embeddings": 2048, "rms_norm_eps": 1e-6, "tie_word_embeddings": true{extra}}}"#
        )
    }

    fn of_family(text: &str, class: &str, model_type: &str) -> String {
        text.replace("Qwen2ForCausalLM", class).replace("\"qwen2\"", &format!("\"{model_type}\""))
    }

    fn refused(text: &str) -> String {
        ModelConfig::parse(text, "config.json").expect_err("refused").to_string()
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
        let config = ModelConfig::parse(&old, "a").unwrap();
        assert_eq!(config, ModelConfig::parse(&new, "b").unwrap());
        assert_eq!((config.rope_theta, config.head_dim, config.qkv_bias), (1e6, 32, true));
        assert_eq!(config, ModelConfig::parse(&config.to_json(), "c").unwrap());
    }

    #[test]
    fn qwen3_norms_its_heads_and_has_biases_and_narrow_heads_only_where_it_says_so() {
        let qwen3 = |extra: &str| of_family(&qwen(extra), "Qwen3ForCausalLM", "qwen3");
        let old = qwen3(
            r#", "rope_theta": 1000000, "rope_scaling": null, "torch_dtype": "bfloat16", "head_dim": 32, "attention_bias": false,
            "use_sliding_window": false, "sliding_window": null, "max_window_layers": 28"#,
        );
        let new = qwen3(
            r#", "rope_parameters": {"rope_theta": 1000000.0, "rope_type": "default"}, "dtype": "bfloat16", "head_dim": 32,
            "layer_types": ["full_attention", "full_attention", "full_attention", "full_attention"]"#,
        );
        let config = ModelConfig::parse(&old, "a").unwrap();
        assert_eq!(config, ModelConfig::parse(&new, "b").unwrap());
        assert_eq!((config.architecture, config.qk_norm), (Architecture::Qwen3, QkNorm::PerHead));
        assert_eq!((config.head_dim, config.qkv_bias, config.output_bias), (32, false, false));
        assert_eq!(config, ModelConfig::parse(&config.to_json(), "c").unwrap());
        // The default of transformers, which is not hidden_size / num_attention_heads.
        assert_eq!(ModelConfig::parse(&qwen3(""), "d").unwrap().head_dim, 128);
        let biased = ModelConfig::parse(&qwen3(r#", "attention_bias": true"#), "e").unwrap();
        assert!(biased.qkv_bias && biased.output_bias && !biased.mlp_bias);
        assert_eq!(biased, ModelConfig::parse(&biased.to_json(), "f").unwrap());
        let message = refused(&qwen3(r#", "layer_types": ["sliding_attention"]"#));
        assert!(message.contains("layer_types") && message.contains("sliding_attention"), "{message}");
        let moe = qwen("").replace("Qwen2ForCausalLM", "Qwen3MoeForCausalLM");
        assert!(refused(&moe).contains("Qwen3MoeForCausalLM"), "{}", refused(&moe));
    }

    #[test]
    fn olmo2_norms_after_its_blocks_and_over_all_heads_with_an_epsilon_of_its_own() {
        let olmo2 = |extra: &str| {
            of_family(&qwen(extra), "Olmo2ForCausalLM", "olmo2").replace("\"rms_norm_eps\": 1e-6, ", "")
        };
        let config = ModelConfig::parse(&olmo2(r#", "rope_theta": 500000"#), "a").unwrap();
        assert_eq!((config.norm_placement, config.qk_norm), (NormPlacement::Post, QkNorm::Whole));
        assert_eq!((config.rms_norm_eps, config.head_dim, config.qkv_bias), (1e-5, 32, false));
        assert_eq!(config, ModelConfig::parse(&config.to_json(), "b").unwrap());
        assert!(refused(&olmo2(r#", "sliding_window": 64"#)).contains("sliding_window"));
    }

    #[test]
    fn llama3_scaling_survives_writing_and_changes_only_long_wavelengths() {
        let text = of_family(
            &qwen(
                r#", "rope_theta": 500000.0, "rope_scaling": {"type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}"#,
            ),
            "LlamaForCausalLM",
            "llama",
        );
        let config = ModelConfig::parse(&text, "a").unwrap();
        assert!(!config.qkv_bias);
        assert_eq!(config, ModelConfig::parse(&config.to_json(), "b").unwrap());
        let plain = ModelConfig { rope_scaling: RopeScaling::None, ..config.clone() };
        let (scaled, plain) = (config.frequencies(), plain.frequencies());
        assert_eq!(scaled[0], plain[0]);
        assert_eq!(scaled[15], plain[15] / 8.0);
    }

    #[test]
    fn what_is_not_implemented_is_refused_by_field_and_value() {
        for (fields, _, named) in crate::cases::cases(include_str!("refused.txt")) {
            let message = refused(&qwen(fields));
            assert!(named.split(" … ").all(|part| message.contains(part)), "{fields}: {message}");
        }
        for (field, value, absurd) in [
            ("num_hidden_layers", "4", "4294967295"),
            ("num_hidden_layers", "4", "10001"),
            ("hidden_size", "128", "4294967295"),
            ("intermediate_size", "344", "18446744073709551615"),
            ("vocab_size", "512", "4294967295"),
            ("num_attention_heads", "4", "4294967295"),
            ("max_position_embeddings", "2048", "1e300"),
            ("rms_norm_eps", "1e-6", "1e308"),
        ] {
            let text = qwen("").replace(&format!("\"{field}\": {value}"), &format!("\"{field}\": {absurd}"));
            let message = refused(&text);
            assert!(message.contains(&format!("`{field}` is ")) && message.contains("at most"), "{message}");
        }
        let other = qwen("").replace("\"model_type\": \"qwen2\"", "\"model_type\": \"llama\"");
        assert!(
            refused(&other).contains("`model_type` is \"llama\": `architectures` names Qwen2ForCausalLM"),
            "{}",
            refused(&other)
        );
        // Equal duplicates, values that ask for nothing, and notes pass.
        for extra in [
            r#", "rope_parameters": {"rope_theta": 1e4, "rope_type": "default"}, "rope_scaling": {"type": "default"}, "rope_theta": 10000"#,
            r#", "dtype": "bfloat16", "torch_dtype": "bfloat16", "final_logit_softcapping": null, "use_mrope": false, "_mine": 3"#,
        ] {
            assert!(ModelConfig::parse(&qwen(extra), "a").is_ok(), "{extra}");
        }
        let unbounded = |text: String| text.replace("\"max_position_embeddings\": 2048, ", "");
        assert_eq!(ModelConfig::parse(&unbounded(qwen("")), "a").unwrap().max_position_embeddings, 32_768);
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
            assert!(ModelConfig::parse(&qwen(extra), "a").is_ok());
        }
    }
}
