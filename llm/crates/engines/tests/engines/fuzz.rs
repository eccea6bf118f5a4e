//! Damaged answers of a server: none panics, and what is taken can be learned from.

use grpo_lambda_decoder::generate::SampledResponse;
use serde_json::{Value, json};

use crate::client::{P1, VOCABULARY, ask};
use crate::fuzzer::fuzz;
use grpo_lambda_engines::remote::EngineError;
use grpo_lambda_engines::remote::http::value_of;
use grpo_lambda_engines::remote::vllm;

const EOS: [u32; 2] = [511, 509];
const LIMIT: usize = 16;
/// Two of six answers are those of a server that fails.
const STATUS: [u16; 6] = [200, 200, 404, 200, 200, 500];

fn value(bytes: &[u8]) -> Result<Value, EngineError> {
    value_of("http://there", STATUS[bytes.len() % STATUS.len()], &String::from_utf8_lossy(bytes))
}

/// The properties of an answer that training relies on.
fn can_be_learned_from(response: &SampledResponse) {
    let length = response.tokens.len();
    assert!((1..=LIMIT).contains(&length) && response.logps.len() == length);
    assert!(response.tokens.iter().all(|id| (*id as usize) < VOCABULARY));
    assert!(response.logps.iter().all(|logp| logp.is_finite() && *logp <= 1e-3));
    assert!(response.entropies.is_empty() || response.entropies.len() == length);
    assert!(response.entropies.iter().all(|h| (-1e-3..=(VOCABULARY as f64).ln() + 1e-3).contains(h)));
    assert_eq!(response.truncated, !EOS.contains(&response.tokens[length - 1]));
}

#[test]
fn answers_of_vllm() {
    let recorded = include_str!("../../../../tests/fixtures/vllm/a_single_prompt_flat_ids.json");
    let recorded: Value = serde_json::from_str(recorded).unwrap();
    let choice = |tokens: Vec<u32>, logps: Vec<f64>, finish: &str| {
        json!({"token_ids": tokens, "finish_reason": finish, "prompt_token_ids": P1,
            "logprobs": {"token_logprobs": logps, "token_entropies": [1.5, 0.25]}})
    };
    let short =
        [choice(vec![3, 511], vec![-1.0, -0.5], "stop"), choice(vec![4, 509], vec![-2.0, 0.0], "stop")];
    let seeds = [recorded["response"]["body"].clone(), json!({"choices": short})]
        .map(|seed| seed.to_string().into_bytes());
    let ask = ask(2, LIMIT, &EOS);
    fuzz("answer of vLLM", 400, &seeds, |bytes| {
        let answered = value(bytes).and_then(|value| vllm::responses(value, &ask));
        let answered = answered.map_err(|e| e.to_string())?;
        assert_eq!(answered.len(), 2);
        for answer in answered {
            let response = answer.checked(&ask, VOCABULARY, None).map_err(|e| e.to_string())?;
            can_be_learned_from(&response);
        }
        Ok(())
    });
}
