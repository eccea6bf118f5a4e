//! Responses as `POST /v1/completions` answers them.

use grpo_lambda_decoder::generate::{
    SampledResponse, Sampler, SamplingParams, SamplingRequest, StoppingCriteria,
};
use grpo_lambda_decoder::model::{Decoder, ForwardOptions, Rows};
use serde_json::{Value, json};

use super::completion_request::CompletionRequest;
use super::error::ApiError;
use grpo_lambda_trainer::eval::EVAL_BATCH;
use grpo_lambda_trainer::input::stops::Stops;
use grpo_lambda_trainer::input::tokens::ModelTokenizer;

/// Samples what is asked for and says it in the form of vLLM's answer; choices are flat, prompt by prompt.
pub(super) fn complete(
    request: &CompletionRequest,
    model: &Decoder<f32>,
    tokens: &ModelTokenizer,
    name: &str,
    created: u64,
) -> Result<Value, ApiError> {
    let sampled = sample(request, model, tokens)?;
    let scored = if request.prompt_logprobs {
        let mut rows = Rows::new();
        request.prompts.iter().for_each(|ids| rows.push(ids, 1));
        model.score(&rows, ForwardOptions::default()).map_err(ApiError::internal)?.logps
    } else {
        Vec::new()
    };
    let writer = Writer { request, tokens };
    let mut choices = Vec::new();
    for (prompt, responses) in sampled.iter().enumerate() {
        for response in responses {
            let mut choice = writer.choice(prompt, response)?;
            choice["index"] = json!(choices.len());
            choice["prompt_logprobs"] =
                scored.get(prompt).map_or(Value::Null, |s| writer.prompt_logprobs(prompt, s));
            choices.push(choice);
        }
    }
    let asked: usize = request.prompts.iter().map(Vec::len).sum();
    let made: usize = sampled.iter().flatten().map(|r| r.tokens.len()).sum();
    Ok(json!({
        "id": format!("cmpl-{created}"),
        "object": "text_completion",
        "created": created,
        "model": name,
        "choices": choices,
        "usage": {"prompt_tokens": asked, "completion_tokens": made, "total_tokens": asked + made},
    }))
}

fn sample(
    request: &CompletionRequest,
    model: &Decoder<f32>,
    tokens: &ModelTokenizer,
) -> Result<Vec<Vec<SampledResponse>>, ApiError> {
    let prompts: Vec<&[u32]> = request.prompts.iter().map(Vec::as_slice).collect();
    let own = if request.ignore_eos { &[][..] } else { tokens.eos() };
    let eos: Vec<u32> = own.iter().chain(&request.stop_token_ids).copied().collect();
    let stops = stops(request, tokens);
    let sampling = SamplingParams {
        max_new_tokens: request.max_tokens,
        min_new_tokens: request.min_tokens,
        temperature: request.temperature,
    };
    let address = |_: usize, response: usize| request.randomness.address(response);
    let asked = SamplingRequest {
        truncation: request.truncation,
        stopping: StoppingCriteria { max_lengths: &[], complete: stops.test() },
        // Of a large request not all at once: its cache would be as large.
        slots: Some(EVAL_BATCH),
        ..SamplingRequest::new(&prompts, request.n, &eos, sampling, &address)
    };
    model.generate(&asked).map_err(ApiError::internal)
}

fn stops<'a>(request: &'a CompletionRequest, tokens: &'a ModelTokenizer) -> Stops<'a> {
    Stops { passed_over: request.min_tokens, ..Stops::new(tokens, &request.stop) }
}

/// Writes choices.
struct Writer<'a> {
    request: &'a CompletionRequest,
    tokens: &'a ModelTokenizer,
}

impl Writer<'_> {
    fn choice(&self, prompt: usize, response: &SampledResponse) -> Result<Value, ApiError> {
        let mut text = self.text(&response.tokens)?;
        let stop = self.stop(response, &mut text)?;
        let ids = self.request.return_token_ids;
        Ok(json!({
            "text": text,
            "logprobs": if self.request.logprobs { self.logprobs(response)? } else { Value::Null },
            "finish_reason": if response.truncated { "length" } else { "stop" },
            "stop_reason": stop,
            "token_ids": ids.then_some(&response.tokens),
            "prompt_token_ids": ids.then(|| &self.request.prompts[prompt]),
        }))
    }

    /// The stop token or string that ended the response, if none of the model's own did; its text ends before a stop string.
    fn stop(&self, response: &SampledResponse, text: &mut String) -> Result<Value, ApiError> {
        let Some(last) = response.tokens.last().filter(|_| !response.truncated) else {
            return Ok(Value::Null);
        };
        if self.request.stop_token_ids.contains(last) {
            return Ok(json!(last));
        }
        let found =
            stops(self.request, self.tokens).first(&response.tokens, text).map_err(ApiError::internal)?;
        Ok(found.map_or(Value::Null, |(at, stop)| {
            text.truncate(if self.request.include_stop { at + stop.len() } else { at });
            json!(stop)
        }))
    }

    /// The lists of log-probabilities; the entropies are ours alone, so that a client need not compute them.
    fn logprobs(&self, response: &SampledResponse) -> Result<Value, ApiError> {
        let names = response.tokens.iter().map(|&id| match self.request.names_are_ids {
            true => Ok(format!("token_id:{id}")),
            false => self.text(&[id]),
        });
        let names = names.collect::<Result<Vec<_>, _>>()?;
        let offsets: Vec<usize> = names
            .iter()
            .scan(0, |end, name| {
                let start = *end;
                *end += name.chars().count();
                Some(start)
            })
            .collect();
        let top = names.iter().zip(&response.logps).map(|(name, logp)| json!({ name.as_str(): logp }));
        Ok(json!({
            "text_offset": offsets,
            "token_logprobs": response.logps,
            "token_entropies": response.entropies,
            "top_logprobs": top.collect::<Vec<_>>(),
            "tokens": names,
        }))
    }

    fn prompt_logprobs(&self, prompt: usize, scored: &[f64]) -> Value {
        let ids = &self.request.prompts[prompt];
        let entries = ids[1..].iter().zip(scored);
        let entries = entries.map(|(id, logp)| json!({ id.to_string(): {"logprob": logp} }));
        std::iter::once(Value::Null).chain(entries).collect()
    }

    fn text(&self, ids: &[u32]) -> Result<String, ApiError> {
        self.tokens.text(ids).map_err(ApiError::internal)
    }
}
