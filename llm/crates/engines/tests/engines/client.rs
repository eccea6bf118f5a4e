//! The client against recorded answers of a real vLLM, and against what a server could get wrong.

use std::path::Path;
use std::time::Duration;

use grpo_lambda_decoder::generate::{
    RolloutError, SampledResponse, Sampler, SamplingParams, SamplingRequest,
};
use grpo_lambda_decoder::model::{
    Architecture::Qwen2, Decoder, ForwardOptions, ModelConfig, ModelShape, Rows, weights,
};
use grpo_lambda_decoder::rng::{Address, Purpose};
use grpo_lambda_decoder::truncation::Truncation;
use serde_json::{Value, json};

use grpo_lambda_engines::remote::answer::{Answered, Ask, Finish, PROBE_TEMPERATURE, Probe, Probed, copies};
use grpo_lambda_engines::remote::check::{Weights, compare};
use grpo_lambda_engines::remote::http::Http;
use grpo_lambda_engines::remote::sampler::of_server;
use grpo_lambda_engines::remote::vllm::Vllm;
use grpo_lambda_engines::remote::{EngineError, RemoteSampler, Server};
use grpo_lambda_trainer::config::RolloutConfig;

use crate::http_server::{LoopbackServer, Reply};

pub(crate) const VOCABULARY: usize = 512;

fn recorded(name: &str) -> Value {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/vllm").join(format!("{name}.json"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// A server that gives this recorded answer to everything.
fn replay(name: &str) -> LoopbackServer {
    let response = recorded(name)["response"].clone();
    let status = response["status"].as_u64().unwrap() as u16;
    LoopbackServer::start(move |_| Reply::Answer(status, response["body"].to_string()))
}

fn client(server: &LoopbackServer) -> Http {
    Http::new(&server.url, Duration::from_secs(20))
}

fn vllm(server: &LoopbackServer) -> Vllm {
    let (http, model) = (client(server), "tiny".to_owned());
    Vllm { http, model, context: Some(256), takes_addresses: false }
}

pub(crate) const P1: [u32; 6] = [5, 17, 200, 301, 44, 9];

pub(crate) fn ask(n: usize, limit: usize, eos: &[u32]) -> Ask<'_> {
    let (prompt, address) = (&P1, Address::new(3, Purpose::Rollout).step(1).prompt(2));
    Ask { prompt, n, limit, at_least: 0, temperature: 1.0, truncation: Truncation::default(), eos, address }
}

fn sample(server: &LoopbackServer, ask: &Ask<'_>) -> Result<Vec<Answered>, EngineError> {
    vllm(server).sample(ask)
}

#[test]
fn recorded_responses_arrive_with_their_tokens_and_log_probabilities() {
    for (name, n, limit, eos) in [
        ("a_single_prompt_flat_ids", 2, 16, vec![511, 509]),
        ("b_greedy_t0", 1, 16, vec![511, 509]),
        ("e_eos_and_length", 8, 48, vec![511, 509]),
        ("e_stop_token_ids", 1, 16, vec![160]),
    ] {
        let body = recorded(name)["response"]["body"].clone();
        let ask = ask(n, limit, &eos);
        let found = sample(&replay(name), &ask).unwrap();
        assert_eq!(found.len(), n, "{name}");
        for (choice, answered) in body["choices"].as_array().unwrap().iter().zip(found) {
            let response = answered.checked(&ask, VOCABULARY, None).unwrap();
            assert_eq!(json!(response.tokens), choice["token_ids"], "{name}");
            assert_eq!(json!(response.logps), choice["logprobs"]["token_logprobs"], "{name}");
            assert_eq!(response.truncated, choice["finish_reason"] == "length", "{name}");
            assert!(response.entropies.is_empty(), "vLLM tells none");
        }
    }
}

#[test]
fn every_field_that_a_server_would_fill_by_itself_is_sent() {
    let server = replay("b_greedy_t0");
    let ask = Ask { temperature: 0.7, at_least: 2, ..ask(1, 16, &[511]) };
    sample(&server, &ask).unwrap();
    let body = server.bodies("/v1/completions").remove(0);
    let seed = body["seed"].as_u64().unwrap();
    assert!(seed < 1 << 62 && seed == ask.seed());
    let expected = json!({
        "model": "tiny", "prompt": [P1], "max_tokens": 16, "temperature": 0.7, "min_p": 0.0, "presence_penalty": 0.0,
        "frequency_penalty": 0.0, "repetition_penalty": 1.0, "logprobs": 0, "return_token_ids": true,
        "return_tokens_as_token_ids": true, "stream": false, "n": 1, "top_p": 1.0, "top_k": 0, "min_tokens": 2, "seed": seed,
        "ignore_eos": true, "stop_token_ids": [511],
    });
    assert_eq!(body, expected);
    // Another prompt, step or run has another seed; only a server with our sampler gets the address.
    let other = Ask { address: ask.address.prompt(3), ..ask };
    assert_ne!(other.seed(), seed);
    Vllm { takes_addresses: true, ..vllm(&server) }.sample(&ask).unwrap();
    let address = server.bodies("/v1/completions")[1]["address"].clone();
    assert_eq!(
        address,
        json!({"seed": 3, "purpose": "rollout", "step": 1, "prompt": 2, "response": 0, "code": null})
    );
}

#[test]
fn failures_that_pass_are_distinguished_from_those_that_do_not() {
    for (name, passing, said) in [
        ("f_bad_temperature", false, "status 400: temperature must be non-negative, got -1.0."),
        ("f_out_of_vocab", false, "status 400: Token id 99999 is out of vocabulary"),
        ("f_unknown_model", false, "status 404: The model `nope` does not exist."),
        ("f_404", false, "status 404: Not Found"),
        ("z1_unknown_rpc_method", true, "status 500: Call to collective_rpc method failed"),
    ] {
        let error = sample(&replay(name), &ask(1, 16, &[511])).unwrap_err();
        assert_eq!(error.is_passing(), passing, "{error}");
        assert!(error.to_string().contains(said), "{error}");
    }
    let gone = LoopbackServer::start(|_| Reply::Drop);
    assert!(sample(&gone, &ask(1, 16, &[511])).unwrap_err().is_passing());
    let ask = Ask { n: 2, limit: 240, ..ask(2, 240, &[]) };
    let error = sample(&replay("g10_aborted_request"), &ask).unwrap_err();
    assert!(error.is_passing() && error.to_string().contains("aborted"), "{error}");
}

#[test]
fn an_answer_without_ids_or_log_probabilities_is_refused_by_name() {
    let mut ask = ask(1, 4, &[511]);
    ask.prompt = &[260, 261, 262];
    let error = sample(&replay("a_no_logprobs"), &ask).unwrap_err();
    assert!(!error.is_passing() && error.to_string().contains("token_ids is null"), "{error}");
    let mut body = recorded("b_greedy_t0")["response"]["body"].clone();
    body["choices"][0]["logprobs"] = Value::Null;
    let server = LoopbackServer::start(move |_| Reply::Answer(200, body.to_string()));
    ask = Ask { prompt: &P1, limit: 16, ..ask };
    let error = sample(&server, &ask).unwrap_err();
    assert!(error.to_string().contains("logprobs is null"), "{error}");
    let error = sample(&replay("b_greedy_t0"), &Ask { prompt: &P1[1..], ..ask }).unwrap_err();
    assert!(error.to_string().contains("prompt_token_ids are not those that were sent"), "{error}");
    let error = sample(&replay("b_greedy_t0"), &Ask { n: 2, ..ask }).unwrap_err();
    assert!(error.to_string().contains("1 responses to a prompt, and 2 were asked for"), "{error}");
    let long = LoopbackServer::start(|_| Reply::Answer(200, format!("\"{}\"", "x".repeat(3 << 20))));
    let error = sample(&long, &ask).unwrap_err();
    assert!(!error.is_passing() && error.to_string().contains("longer than the"), "{error}");
}

#[test]
fn a_response_that_could_not_be_learned_from_is_refused_by_name() {
    let good = || Answered {
        tokens: vec![41, 7, 9, 3],
        logps: [-1.0, -2.0, -0.5, 0.0].map(Some).to_vec(),
        entropies: None,
        finish: Finish::Length,
    };
    let ask = ask(1, 4, &[9]);
    let plain = Ask { eos: &[511], ..ask };
    assert!(good().checked(&plain, VOCABULARY, None).unwrap().truncated);
    let with = |change: &dyn Fn(&mut Answered)| {
        let mut answer = good();
        change(&mut answer);
        answer.checked(&plain, VOCABULARY, None).unwrap_err().to_string()
    };
    // What vLLM's top-k leaves of a masked token, as recorded.
    let masked =
        recorded("b_topk2")["response"]["body"]["choices"][0]["logprobs"]["top_logprobs"][0]["token_id:3"]
            .clone();
    let masked = masked.as_f64().unwrap();
    for (said, change) in [
        ("null; it needs one", &(|a: &mut Answered| a.logps[1] = None) as &dyn Fn(&mut Answered)),
        ("masked", &|a| a.logps[1] = Some(masked)),
        ("must be a number of at most 0", &|a| a.logps[1] = Some(f64::NAN)),
        ("must be a number of at most 0", &|a| a.logps[1] = Some(0.5)),
        ("each token needs one", &|a| a.logps.truncate(3)),
        ("3 entropies of 4 tokens", &|a| a.entropies = Some(vec![1.0; 3])),
        ("token 2 has entropy 1e300; it must be a number from 0 to ln 512 = 6.2383", &|a| {
            a.entropies = Some(vec![0.0, 1.0, 1e300, 1.0]);
        }),
        ("token 0 has entropy -5", &|a| a.entropies = Some(vec![-5.0; 4])),
        ("token 0 has entropy 6.25", &|a| a.entropies = Some(vec![6.25; 4])),
        ("token 3 has entropy NaN", &|a| a.entropies = Some(vec![0.0, 1.0, 2.0, f64::NAN])),
        ("id 512, and the model has 512", &|a| a.tokens[0] = 512),
        ("no token", &|a| (a.tokens, a.logps) = (Vec::new(), Vec::new())),
        ("has 5 tokens, and 4 were the limit", &|a| {
            a.tokens.push(1);
            a.logps.push(Some(-1.0));
        }),
        ("finish_reason = \"none\"", &|a| a.finish = Finish::Other("none".to_owned())),
        ("stopped at id 3, which is no end token", &|a| a.finish = Finish::Stop),
        ("cut off after 3 of 4 tokens", &|a| {
            a.tokens.pop();
            a.logps.pop();
        }),
    ] {
        let found = with(change);
        assert!(found.contains(said), "{said}: {found}");
    }
    let error = good().checked(&ask, VOCABULARY, None).unwrap_err();
    assert!(error.to_string().contains("goes on after its end token (id 9 at 2 of 4)"), "{error}");
}

#[test]
fn equal_responses_of_different_seeds_are_distinguished_from_a_policy_that_is_sure() {
    let response = |tokens: &[u32], logp: f64| SampledResponse {
        tokens: tokens.to_vec(),
        logps: vec![logp; tokens.len()],
        ..SampledResponse::default()
    };
    let (one, other) = ([41, 7, 8], [41, 7, 9]);
    // Three copies of a response of probability e^-12 come with probability e^-24 < 1e-9 < e^-12; with one of e^-3, e^-6.
    for (temperature, responses, found) in [
        (1.0, vec![response(&one, -4.0); 3], Some(3)),
        (1.0, vec![response(&one, -4.0); 2], None),
        (1.0, vec![response(&one, -1.0); 3], None),
        (0.0, vec![response(&one, -4.0); 3], None),
        (1.0, vec![response(&one, -40.0), response(&other, -40.0)], None),
        (1.0, vec![response(&one, -40.0)], None),
    ] {
        let ask = Ask { temperature, ..ask(responses.len(), 4, &[9]) };
        assert_eq!(copies(&ask, &responses), found, "{temperature}: {responses:?}");
    }
}

#[test]
fn a_stopping_criterion_of_ours_ends_what_the_server_went_on_with() {
    let answer = Answered {
        tokens: vec![41, 7, 8, 3],
        logps: [-1.0, -2.0, -0.5, -0.1].map(Some).to_vec(),
        entropies: Some(vec![1.0, 2.0, 3.0, 4.0]),
        finish: Finish::Length,
    };
    let complete = |tokens: &[u32]| tokens.contains(&7);
    let response = answer.checked(&ask(1, 4, &[9]), VOCABULARY, Some(&complete)).unwrap();
    assert_eq!((response.tokens, response.logps), (vec![41, 7], vec![-1.0, -2.0]));
    assert_eq!((response.entropies, response.truncated), (vec![1.0, 2.0], false));
}

#[test]
fn the_model_is_the_one_named_or_the_only_one() {
    let server = replay("h_models");
    let found = Vllm::find(client(&server), None).unwrap();
    assert_eq!((&*found.model, found.context, found.takes_addresses), ("tiny", Some(256), false));
    let error = Vllm::find(client(&server), Some("other")).err().unwrap();
    assert!(error.to_string().contains("rollout.model = other: the server has tiny"), "{error}");
    let version = vllm(&replay("g9_weight_info")).version().unwrap();
    assert_eq!(version, "step-7");
    let error = vllm(&replay("f_404")).version().unwrap_err();
    assert!(error.to_string().contains("VLLM_SERVER_DEV_MODE=1"), "{error}");
}

#[test]
fn weights_are_reloaded_in_the_order_that_leaves_nothing_stale() {
    let server = LoopbackServer::start(|_| Reply::Answer(200, "{}".to_owned()));
    vllm(&server).load("/w/1", "v1").unwrap();
    let order =
        ["/pause?mode=keep", "/collective_rpc", "/reset_prefix_cache", "/update_weight_version", "/resume"];
    assert_eq!(server.paths(), order);
    let reload = json!({"method": "reload_weights", "kwargs": {"weights_path": "/w/1"}});
    assert_eq!(server.bodies("/collective_rpc"), [reload]);
    // A reload that fails leaves nobody waiting.
    let failing = recorded("z2_reload_missing_dir")["response"]["body"].to_string();
    let server = LoopbackServer::start(move |asked| match asked.path.as_str() {
        "/collective_rpc" => Reply::Answer(500, failing.clone()),
        _ => Reply::Answer(200, "{}".to_owned()),
    });
    let error = vllm(&server).load("/w/1", "v1").unwrap_err();
    assert!(error.is_passing() && error.to_string().contains("reloading the weights in /w/1"), "{error}");
    assert_eq!(server.paths(), ["/pause?mode=keep", "/collective_rpc", "/resume"]);
}

#[test]
fn a_prompt_is_scored_from_its_second_token_on() {
    let mut body = recorded("c_prompt_logprobs_1_t0.7")["response"]["body"].clone();
    // Recorded without log-probabilities of what was sampled.
    body["choices"][0]["logprobs"] = json!({"token_logprobs": [-1.5]});
    let expected: Vec<f64> = (1..P1.len())
        .map(|i| {
            let entry = &body["choices"][0]["prompt_logprobs"][i];
            entry[P1[i].to_string()]["logprob"].as_f64().unwrap()
        })
        .collect();
    let server = LoopbackServer::start(move |_| Reply::Answer(200, body.to_string()));
    let probed = vllm(&server).probe(Probe { prompt: &P1, limit: 1 }).unwrap();
    assert_eq!((probed.prompt, probed.logps), (expected, vec![-1.5]));
}

fn model(seed: u64) -> Decoder<f32> {
    let shape = ModelConfig {
        intermediate_size: 64,
        ..Qwen2.config(ModelShape { vocab: VOCABULARY, hidden: 32, layers: 2, heads: 2, kv_heads: 1 })
    };
    let parameters = weights::initialise(&shape, seed, 0.3);
    Decoder::new(shape, parameters).unwrap()
}

fn logps(model: &Decoder<f32>, row: &[u32], from: usize, temperature: f64) -> Vec<f64> {
    let mut rows = Rows::new();
    rows.push(row, from);
    let options = ForwardOptions { temperature, ..ForwardOptions::default() };
    model.score(&rows, options).unwrap().logps.remove(0)
}

#[test]
fn a_server_with_other_weights_or_raw_log_probabilities_is_refused_by_name() {
    let (ours, stale) = (model(1), model(2));
    let (row, start) = ([5, 17, 200, 301, 44, 9, 77, 12, 8], 6);
    let probed = |model: &Decoder<f32>, temperature: f64| Probed {
        prompt: logps(model, &row[..start], 1, 1.0),
        tokens: row[start..].to_vec(),
        logps: logps(model, &row, start, temperature),
    };
    let score = |rows: &Rows, options: ForwardOptions| Ok(ours.score(rows, options)?.logps);
    let compared = |probed: &Probed| compare(&row[..start], probed, Weights::HandedOver(1.05), &score);
    compared(&probed(&ours, PROBE_TEMPERATURE)).unwrap();
    let error = compared(&probed(&stale, PROBE_TEMPERATURE)).unwrap_err().to_string();
    assert!(error.contains("other weights than those just handed to it"), "{error}");
    let error = compared(&probed(&ours, 1.0)).unwrap_err().to_string();
    assert!(error.contains("raw_logprobs") && error.contains("processed_logprobs"), "{error}");
    let error = compared(&probed(&ours, 0.8)).unwrap_err().to_string();
    assert!(error.contains("changes the distribution"), "{error}");
    let mut silent = probed(&ours, PROBE_TEMPERATURE);
    silent.prompt[2] = f64::NAN;
    assert!(compared(&silent).is_err(), "NaN is no agreement");
    silent.logps.pop();
    assert!(compared(&silent).unwrap_err().to_string().contains("a log-probability for each token"));
}

/// Recorded answers where it samples; where it is probed, what a server with this model's weights says.
fn recorded_with_weights_of(own: Decoder<f32>, name: &str) -> LoopbackServer {
    let (models, sampled) = (recorded("h_models")["response"]["body"].clone(), recorded(name));
    let sampled = sampled["response"]["body"].clone();
    LoopbackServer::start(move |asked| {
        let is_probe = asked.body.get("prompt_logprobs").is_some();
        let body = match asked.path.as_str() {
            "/v1/completions" if is_probe => probed_by(&own, &asked.body),
            "/v1/completions" => sampled.clone(),
            "/v1/models" => models.clone(),
            _ => json!({}),
        };
        Reply::Answer(200, body.to_string())
    })
}

/// A probe's answer in vLLM's form: the prompt's log-probabilities, and one more token.
fn probed_by(own: &Decoder<f32>, asked: &Value) -> Value {
    let prompt: Vec<u32> = serde_json::from_value(asked["prompt"][0].clone()).unwrap();
    let next = 7;
    let scored = logps(own, &prompt, 1, 1.0);
    let listed =
        prompt[1..].iter().zip(scored).map(|(id, logp)| json!({ id.to_string(): {"logprob": logp} }));
    let listed: Vec<Value> = std::iter::once(Value::Null).chain(listed).collect();
    let whole = [&prompt[..], &[next]].concat();
    let logps = logps(own, &whole, prompt.len(), asked["temperature"].as_f64().unwrap());
    json!({"choices": [{"token_ids": [next], "prompt_token_ids": prompt, "finish_reason": "length",
        "logprobs": {"token_logprobs": logps}, "prompt_logprobs": listed}]})
}

#[test]
fn a_model_that_does_not_move_is_compared_and_gives_the_recorded_responses() {
    let own = model(1);
    let settings = |server: &LoopbackServer| RolloutConfig {
        url: server.url.clone(),
        model: None,
        weights: None,
        timeout: Duration::from_secs(20),
        retries: 0,
        concurrency: 2,
    };
    let request = |sampler: &dyn Sampler| {
        let sampling = SamplingParams { max_new_tokens: 16, min_new_tokens: 0, temperature: 1.0 };
        let address =
            |p: usize, r: usize| Address::new(3, Purpose::Evaluation).prompt(p as u64).response(r as u64);
        sampler.generate(&SamplingRequest::new(&[&P1], 2, &[511, 509], sampling, &address))
    };
    let server = recorded_with_weights_of(model(1), "a_single_prompt_flat_ids");
    let connected = Server::connect(&settings(&server), VOCABULARY).unwrap();
    let responses = request(&RemoteSampler::new(connected, &own, 1.05)).unwrap().remove(0);
    let body = recorded("a_single_prompt_flat_ids")["response"]["body"].clone();
    for (response, choice) in responses.iter().zip(body["choices"].as_array().unwrap()) {
        assert_eq!(json!(response.tokens), choice["token_ids"]);
        assert_eq!(json!(response.logps), choice["logprobs"]["token_logprobs"]);
    }
    assert_eq!(responses.len(), 2);
    let server = recorded_with_weights_of(model(2), "a_single_prompt_flat_ids");
    let connected = Server::connect(&settings(&server), VOCABULARY).unwrap();
    let error = request(&RemoteSampler::new(connected, &own, 1.05)).unwrap_err().to_string();
    assert!(error.contains("other weights than the model of --model"), "{error}");
}

#[test]
fn a_prompt_beyond_the_servers_context_names_the_server() {
    let beyond = RolloutError::TooLong { prompt: 3, tokens: 600, new: 1536, limit: 2048 };
    let expected = "prompt 3 has 600 tokens; with 1536 new ones it exceeds the server's context of 2048; start the server with";
    let said = of_server(beyond).to_string();
    assert!(said.starts_with(expected), "{said}");
}
