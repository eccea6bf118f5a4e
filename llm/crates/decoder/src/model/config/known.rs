//! The fields of a checkpoint's files: which are used, which change nothing and why, and which are refused.
//!
//! A reader goes through every field of its file with [`FileFields::refuse_unknown`], so that this declaration is what decides, and the table
//! in `docs/checkpoints.md` is made from it. A field that nobody has declared is refused unless it is off: it may change the model.

use serde_json::{Map, Value};

use crate::model::error::{Error, Result};

/// The use of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldUse {
    /// It is read, and a value that is not implemented is refused.
    Used,
    /// It is passed over, because it changes no number; with the reason.
    Harmless(&'static str),
    /// It is refused unless it is off or has one of these values, as JSON; with what it would do.
    Only(&'static [&'static str], &'static str),
}

/// The declared fields of a file.
#[derive(Debug)]
pub struct FileFields {
    /// Its name.
    pub file: &'static str,
    /// Fields of one fate.
    pub fields: &'static [(FieldUse, &'static [&'static str])],
    /// The use of every other field that is not off.
    pub others: FieldUse,
}

/// The fate of fields that are not declared.
pub const UNKNOWN: FieldUse = FieldUse::Only(
    &["0"],
    "unknown to llm-train, and may change the model; if it does not, remove it from the file",
);

/// True for null, false, an empty text, list or object: what a field says that asks for nothing.
pub fn is_off(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(true) | Value::Number(_) => false,
    }
}

impl FileFields {
    /// The fate of a field.
    pub fn fate(&self, name: &str) -> FieldUse {
        let declared = self.fields.iter().find(|(_, names)| names.contains(&name));
        // Names with an underscore in front are notes of the library that wrote the file.
        let private =
            name.starts_with('_').then_some(FieldUse::Harmless("a note of the library that wrote the file"));
        declared.map(|(fate, _)| *fate).or(private).unwrap_or(self.others)
    }

    /// Refuses the first field that would change something and is not implemented; `path` names the file.
    ///
    /// # Errors
    /// Naming file, field and value.
    pub fn refuse_unknown(&self, map: &Map<String, Value>, path: &str) -> Result<()> {
        for (field, value) in map {
            if let FieldUse::Only(accepted, reason) = self.fate(field)
                && !is_off(value)
                && !accepted
                    .iter()
                    .any(|text| serde_json::from_str(text).is_ok_and(|one: Value| same(&one, value)))
            {
                let (file, field, value) = (path.into(), field.clone(), value.to_string());
                return Err(Error::Config { file, field, value, reason: reason.into() });
            }
        }
        Ok(())
    }
}

/// True for equal values; a whole number equals its float.
fn same(a: &Value, b: &Value) -> bool {
    a == b || a.as_f64().is_some_and(|a| Some(a) == b.as_f64())
}

use FieldUse::{Harmless, Only, Used};

const OF_THE_RUN: &str = "sampling is set by the run or the command";
const METADATA: &str = "describes the file";
const OUTPUTS: &str = "chooses what transformers returns, not what it computes";
const OTHER_TASKS: &str = "for models of another kind";

/// `config.json`.
#[rustfmt::skip]
pub static CONFIG: FileFields = FileFields {
    file: "config.json",
    fields: &[
        (
            Used,
            &[
                "architectures", "model_type", "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
                "num_attention_heads", "num_key_value_heads", "head_dim", "hidden_act", "max_position_embeddings",
                "rms_norm_eps", "rope_theta", "rope_scaling", "rope_parameters", "tie_word_embeddings",
                "attention_bias",
                "mlp_bias", "use_sliding_window", "sliding_window", "max_window_layers", "layer_types", "eos_token_id",
                "bos_token_id", "pad_token_id", "dtype", "torch_dtype",
            ],
        ),
        (Only(&["1"], "only 1 is implemented"), &["partial_rotary_factor", "pretraining_tp"]),
        (
            Only(&["0"], "only 0 is implemented"),
            &[
                "attention_dropout", "hidden_dropout", "hidden_dropout_prob", "attention_probs_dropout_prob",
                "resid_pdrop",
                "embd_pdrop", "attn_pdrop",
            ],
        ),
        (Only(&[], "quantised checkpoints are not implemented"), &["quantization_config"]),
        (Harmless("initial values of weights that the file lacks"), &["initializer_range"]),
        (
            Harmless("keys and values are kept in any case, with the same numbers"),
            &["use_cache", "cache_implementation"],
        ),
        (
            Harmless("other implementations of attention differ only by rounding"),
            &["attn_implementation"],
        ),
        (Harmless("max_position_embeddings limits the length of a row"), &["max_sequence_length", "seq_length"]),
        (Harmless("changes what is kept for the backward pass"), &["gradient_checkpointing"]),
        (
            Harmless(METADATA),
            &[
                "transformers_version", "name_or_path", "auto_map", "transformers.js_config", "unsloth_version",
                "unsloth_fixed", "unsloth_tiled_mlp", "vllm_version", "peft_version", "model_name", "custom_pipelines",
                "license", "language", "tags", "is_llama_config",
            ],
        ),
        (
            Harmless(OUTPUTS),
            &[
                "return_dict", "output_hidden_states", "output_attentions", "output_scores", "return_dict_in_generate",
                "torchscript",
            ],
        ),
        (
            Harmless(OTHER_TASKS),
            &[
                "is_encoder_decoder", "is_decoder", "add_cross_attention", "cross_attention_hidden_size",
                "tie_encoder_decoder", "id2label", "label2id", "problem_type", "finetuning_task",
                "task_specific_params",
                "chunk_size_feed_forward", "decoder_start_token_id", "sep_token_id", "forced_bos_token_id",
                "tf_legacy_loss",
                "use_bfloat16", "num_labels", "pruned_heads", "classifier_dropout", "summary_type",
            ],
        ),
        (
            Harmless("the tokenizer's files decide"),
            &[
                "tokenizer_class", "prefix", "model_max_length", "tokenizer_model_max_length", "unk_token_id",
                "bos_token",
                "eos_token", "pad_token", "unk_token",
            ],
        ),
        (
            Harmless(OF_THE_RUN),
            &[
                "temperature", "top_k", "top_p", "typical_p", "do_sample", "num_beams", "num_beam_groups",
                "diversity_penalty", "early_stopping", "max_length", "min_length", "max_new_tokens", "length_penalty",
                "repetition_penalty", "encoder_no_repeat_ngram_size", "no_repeat_ngram_size", "num_return_sequences",
                "remove_invalid_values", "forced_eos_token_id", "bad_words_ids", "suppress_tokens",
                "begin_suppress_tokens",
                "exponential_decay_length_penalty",
            ],
        ),
    ],
    others: UNKNOWN,
};

/// `generation_config.json`: nothing in it changes the model, and of how to sample a run says everything.
#[rustfmt::skip]
pub static GENERATION: FileFields = FileFields {
    file: "generation_config.json",
    fields: &[(Used, &["eos_token_id"])],
    others: Harmless(OF_THE_RUN),
};

/// The file of an adapter's settings (PEFT).
pub const ADAPTER_FILE: &str = "adapter_config.json";

/// `adapter_config.json` of PEFT.
#[rustfmt::skip]
pub static ADAPTER: FileFields = FileFields {
    file: "adapter_config.json",
    fields: &[
        (Used, &["peft_type", "r", "lora_alpha", "target_modules", "init_lora_weights", "bias"]),
        (Harmless("acts in training only, where this program has no dropout"), &["lora_dropout"]),
        (
            Harmless(METADATA),
            &[
                "base_model_name_or_path", "task_type", "revision", "inference_mode", "auto_mapping", "peft_version",
                "megatron_config", "megatron_core", "runtime_config", "low_cpu_mem_usage", "lora_magnitude_vector",
            ],
        ),
        (
            Harmless("read only if init_lora_weights selects this initialisation"),
            &["loftq_config", "eva_config", "corda_config", "lora_ga_config"],
        ),
        (
            Harmless("read only with use_qalora or use_bdlora, which llm-train refuses"),
            &["qalora_group_size"],
        ),
        (
            Harmless("checks tied matrices, which llm-train does not adapt"),
            &["ensure_weight_tying"],
        ),
    ],
    others: Only(&[], "not supported, as it changes what the tensors mean; it must be off"),
};
