//! The fields of a tokenizer's files, as those of a model's: see [`FileFields`].

use grpo_lambda_decoder::model::config::known::{FieldUse, FileFields, UNKNOWN};

use FieldUse::{Harmless, Only, Used};

/// `tokenizer.json`.
#[rustfmt::skip]
pub static TOKENIZER_FIELDS: FileFields = FileFields {
    file: "tokenizer.json",
    fields: &[
        (Used, &["added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder", "model"]),
        (Harmless("switched off here, since each text is encoded alone and whole"), &["truncation", "padding"]),
        (Harmless("describes the file"), &["version"]),
    ],
    others: UNKNOWN,
};

/// `tokenizer_config.json`.
#[rustfmt::skip]
pub static TOKENIZER_CONFIG_FIELDS: FileFields = FileFields {
    file: "tokenizer_config.json",
    fields: &[
        (
            Used,
            &[
                "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token",
                "additional_special_tokens", "extra_special_tokens", "added_tokens_decoder", "split_special_tokens",
                "tokenizer_class", "chat_template",
            ],
        ),
        (
            Harmless("tokenizer.json decides, as in transformers 5; llm-train prints a line if the two files disagree"),
            &["add_bos_token", "add_eos_token"],
        ),
        (
            Harmless("tokenizer.json decides, as in transformers 5"),
            &[
                "add_prefix_space", "legacy", "do_lower_case", "sp_model_kwargs", "tokenize_chinese_chars", "strip_accents",
                "keep_accents", "byte_fallback", "from_slow", "use_fast", "fix_mistral_regex",
            ],
        ),
        (
            Harmless("switched off here, since each text is encoded alone and whole"),
            &["padding_side", "truncation_side", "truncation", "padding", "max_length", "stride"],
        ),
        (
            Harmless("only warns of long texts; the model's limit is that of config.json"),
            &["model_max_length"],
        ),
        (
            Harmless("changes how a decoded response is spelt, but no token"),
            &["clean_up_tokenization_spaces", "spaces_between_special_tokens", "errors"],
        ),
        (Harmless("an option of an old template that no checkpoint has now"), &["use_default_system_prompt"]),
        (Only(&[], "tokenizer.json alone is read"), &["fast_tokenizer_files"]),
    ],
    others: Harmless("in transformers 5 an attribute that no tokenisation reads; but a text whose name ends in `_token` is used as a special token"),
};
