//! The request of `POST /v1/completions`, read and checked before anything is computed.

use grpo_lambda_decoder::generate::{MAX_TEMPERATURE, MIN_TEMPERATURE};
use grpo_lambda_decoder::rng::{Address, Purpose};
use grpo_lambda_decoder::truncation::Truncation;
use serde_json::{Map, Value, json};

use super::error::ApiError;
use super::fields::{Fields, ids, wrong};
use super::limits::{BYTES_PER_TOKEN, PROMPTS, STOP_BYTES, STOP_TOKENS, STOPS};
use grpo_lambda_trainer::input::tokens::ModelTokenizer;

/// Fields that are read.
const READ: [&str; 20] = [
    "model",
    "prompt",
    "n",
    "max_tokens",
    "min_tokens",
    "temperature",
    "top_p",
    "top_k",
    "logprobs",
    "prompt_logprobs",
    "seed",
    "address",
    "stop",
    "stop_token_ids",
    "include_stop_str_in_output",
    "ignore_eos",
    "return_token_ids",
    "return_tokens_as_token_ids",
    "user",
    "stream_options",
];

/// Fields that are taken with the one value under which they have no effect.
fn neutral() -> [(&'static str, Value); 10] {
    [
        ("min_p", json!(0)),
        ("presence_penalty", json!(0)),
        ("frequency_penalty", json!(0)),
        ("repetition_penalty", json!(1)),
        ("best_of", json!(1)),
        ("stream", json!(false)),
        ("echo", json!(false)),
        ("skip_special_tokens", json!(true)),
        ("logit_bias", json!({})),
        ("suffix", json!("")),
    ]
}

/// The limits on requests: the server's own and the model's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Entries of the vocabulary.
    pub(super) vocabulary: usize,
    /// The longest prompt with its response.
    pub(super) context: usize,
    /// Prompts times responses times their longest length.
    pub(super) tokens: usize,
}

/// Responses that are asked for.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CompletionRequest {
    pub(super) prompts: Vec<Vec<u32>>,
    /// Responses to each.
    pub(super) n: usize,
    pub(super) max_tokens: usize,
    pub(super) min_tokens: usize,
    pub(super) temperature: f64,
    pub(super) truncation: Truncation,
    pub(super) logprobs: bool,
    pub(super) prompt_logprobs: bool,
    /// The address of the random numbers.
    pub(super) randomness: Randomness,
    /// Texts that end a response.
    pub(super) stop: Vec<String>,
    /// True if such a text belongs to the response's text.
    pub(super) include_stop: bool,
    pub(super) stop_token_ids: Vec<u32>,
    /// True if the model's own end tokens do not end a response.
    pub(super) ignore_eos: bool,
    pub(super) return_token_ids: bool,
    /// True if a token is named by its id instead of its text.
    pub(super) names_are_ids: bool,
}

/// The address of a request's random numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Randomness {
    /// Response `i` to any prompt has this seed and `i` more, as on vLLM.
    Seed(u64),
    /// The address of a training run's first response; with it, one prompt is asked for.
    Address(Address),
}

impl Randomness {
    /// The address of response `response`.
    pub(super) fn address(self, response: usize) -> Address {
        match self {
            Randomness::Seed(seed) => Address::new(seed.wrapping_add(response as u64), Purpose::Rollout),
            Randomness::Address(first) => first.response(response as u64),
        }
    }
}

impl CompletionRequest {
    /// Reads a request; `fallback` is the seed of one that gives none.
    pub(super) fn read(
        body: &Map<String, Value>,
        tokens: &ModelTokenizer,
        limits: Limits,
        fallback: u64,
    ) -> Result<CompletionRequest, ApiError> {
        let fields = Fields(body);
        let neutral = neutral();
        let known: Vec<&str> = READ.into_iter().chain(neutral.iter().map(|(name, _)| *name)).collect();
        fields.only(&known)?;
        neutral.iter().try_for_each(|(name, value)| fields.neutral(name, value))?;
        let prompts = prompts(&fields, tokens, limits)?;
        let temperature = fields.number("temperature", 0.0..=MAX_TEMPERATURE)?.unwrap_or(1.0);
        if temperature > 0.0 && temperature < MIN_TEMPERATURE {
            return Err(wrong(
                "temperature",
                &json!(temperature),
                &format!("0, or at least {MIN_TEMPERATURE:e}"),
            ));
        }
        let number = |field: &str, range, default: u64| {
            Ok::<_, ApiError>(
                usize::try_from(fields.whole(field, range)?.unwrap_or(default)).unwrap_or(usize::MAX),
            )
        };
        let request = CompletionRequest {
            n: number("n", 1..=1024, 1)?,
            max_tokens: number("max_tokens", 1..=1 << 20, 16)?,
            min_tokens: number("min_tokens", 0..=1 << 20, 0)?,
            temperature,
            truncation: truncation(&fields, limits.vocabulary)?,
            // Alternatives of a token are not kept, so that 0 of them is what there is.
            logprobs: fields.whole("logprobs", 0..=0)?.is_some(),
            prompt_logprobs: fields.whole("prompt_logprobs", 0..=0)?.is_some(),
            randomness: randomness(&fields, prompts.len(), fallback)?,
            stop: fields.texts("stop", STOPS, STOP_BYTES)?,
            include_stop: fields.flag("include_stop_str_in_output")?,
            stop_token_ids: few(
                "stop_token_ids",
                STOP_TOKENS,
                fields.ids("stop_token_ids", limits.vocabulary)?,
            )?,
            ignore_eos: fields.flag("ignore_eos")?,
            return_token_ids: fields.flag("return_token_ids")?,
            names_are_ids: fields.flag("return_tokens_as_token_ids")?,
            prompts,
        };
        request.check(limits)?;
        Ok(request)
    }

    /// Refuses what is too long for the model, or too much for one request.
    fn check(&self, limits: Limits) -> Result<(), ApiError> {
        let longest = self.prompts.iter().map(Vec::len).max().unwrap_or(0);
        let row = longest + self.max_tokens;
        if row > limits.context {
            return Err(ApiError::field(
                "max_tokens",
                format!(
                    "max_tokens = {}: a prompt has {longest} tokens, and the model's context {} in all",
                    self.max_tokens, limits.context
                ),
            ));
        }
        if self.min_tokens > self.max_tokens {
            let (least, most) = (self.min_tokens, self.max_tokens);
            return Err(wrong("min_tokens", &json!(least), &format!("at most max_tokens = {most}")));
        }
        let all = self.prompts.len().saturating_mul(self.n).saturating_mul(row);
        if all > limits.tokens {
            return Err(ApiError::field(
                "n",
                format!(
                    "n = {}: {} prompts times {} responses of up to {row} tokens are {all}, and a request may have {}; ask in several requests",
                    self.n,
                    self.prompts.len(),
                    self.n,
                    limits.tokens
                ),
            ));
        }
        Ok(())
    }
}

fn truncation(fields: &Fields<'_>, vocabulary: usize) -> Result<Truncation, ApiError> {
    let top_p = fields.number("top_p", f64::MIN_POSITIVE..=1.0)?.filter(|p| *p < 1.0);
    let all = |value: &Value| matches!(value.as_i64(), Some(-1 | 0));
    let top_k = match fields.get("top_k") {
        None => None,
        Some(value) if all(value) => None,
        Some(_) => fields.whole("top_k", 1..=u64::MAX)?,
    };
    let top_k = top_k.and_then(|k| usize::try_from(k).ok()).filter(|k| *k < vocabulary);
    Ok(Truncation { top_k, top_p })
}

fn randomness(fields: &Fields<'_>, prompts: usize, fallback: u64) -> Result<Randomness, ApiError> {
    let Some(address) = fields.get("address") else {
        return Ok(Randomness::Seed(fields.whole("seed", 0..=i64::MAX as u64)?.unwrap_or(fallback)));
    };
    if prompts != 1 {
        return Err(wrong("address", address, "given with one prompt, whose random numbers it names"));
    }
    serde_json::from_value(address.clone())
        .map(Randomness::Address)
        .map_err(|e| wrong("address", address, &format!("an address of random numbers ({e})")))
}

/// Prompts as ids or texts, one or several. Texts are tokenised only if the context may have room for them.
fn prompts(fields: &Fields<'_>, tokens: &ModelTokenizer, limits: Limits) -> Result<Vec<Vec<u32>>, ApiError> {
    let right = "a list of token ids, a text, or a list of either";
    let given = fields.get("prompt");
    let given =
        given.ok_or_else(|| ApiError::field("prompt", format!("prompt is missing; it must be {right}")))?;
    let longest = limits.context.saturating_mul(BYTES_PER_TOKEN);
    let one = |value: &Value| match value {
        Value::String(text) if text.len() > longest => {
            Err(wrong("prompt", value, &format!("at most {longest} bytes long; it has {}", text.len())))
        }
        Value::String(text) => tokens
            .prompt(text)
            .map(|prompt| prompt.ids().to_vec())
            .map_err(|e| ApiError::field("prompt", e.to_string())),
        value => ids("prompt", value, limits.vocabulary),
    };
    let prompts = match given {
        Value::Array(list) if list.first().is_some_and(|first| first.is_array() || first.is_string()) => {
            few("prompt", PROMPTS, list.iter().collect())?
                .into_iter()
                .map(one)
                .collect::<Result<Vec<_>, _>>()?
        }
        one_prompt => vec![one(one_prompt)?],
    };
    if prompts.iter().any(Vec::is_empty) {
        return Err(wrong("prompt", given, &format!("{right}, and no prompt may be empty")));
    }
    Ok(prompts)
}

/// A list of at most `most` entries.
fn few<T>(field: &str, most: usize, list: Vec<T>) -> Result<Vec<T>, ApiError> {
    if list.len() > most {
        let problem = format!("{field}: a list of {}; must have at most {most} entries", list.len());
        return Err(ApiError::field(field, problem));
    }
    Ok(list)
}
