//! Training that samples from a server: `llm-train serve`, as it is and behind what goes wrong on a network.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use grpo_lambda_decoder::model::weights;
use grpo_lambda_trainer::run;
use serde_json::{Value, json};

use crate::common::http::{Asked, LoopbackServer, Reply, pass_on};
use crate::common::{Done, checkpoint, column, lasting, llm_train, shape, with, words};

/// `llm-train serve` on a free port, ended with the test.
pub(crate) struct Serve {
    pub(crate) child: Child,
    pub(crate) url: String,
}

impl Serve {
    pub(crate) fn start(model: &Path, more: &[&str], token: &str) -> Serve {
        let model = model.to_str().unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_llm-train-tested"))
            .args(["serve", "--model", model, "--port", "0", "--threads", "1"])
            .args(more)
            .env("LLM_TRAIN_TOKEN", token)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim().rsplit(' ').next().unwrap().to_owned();
        assert!(url.starts_with("http://127.0.0.1:"), "{line}");
        Serve { child, url }
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A folder with a checkpoint `model`, and a server of it that reloads from the folder.
pub(crate) fn setting() -> (tempfile::TempDir, Serve) {
    let folder = tempfile::tempdir().unwrap();
    checkpoint(&folder.path().join("model"), &shape(), usize::MAX);
    let serve =
        Serve::start(&folder.path().join("model"), &["--reload-from", folder.path().to_str().unwrap()], "");
    (folder, serve)
}

/// Three steps of two updates each, with evaluations; small, but with everything that a step can have.
fn train(folder: &Path, run: &str, settings: &str) -> Done {
    let model = format!("model.checkpoint={}", folder.join("model").display());
    let run = folder.join(run);
    let fixed = "task.kind=addition threads=1 sft.steps=0 rl.steps=3 rl.prompts_per_step=3 rl.group_size=4 rl.max_new_tokens=6 \
                 rl.inner_updates=2 rl.temperature=0.8 rl.lr=0.01 reward.tag_count=1 reward.regex=[0-9] method.beta=0.01 eval.n=6 \
                 eval.every=2 checkpoint.every=1";
    llm_train(
        &[&["train", "--run", run.to_str().unwrap(), &model][..], &with(fixed, &words(settings))].concat(),
        "",
    )
}

fn through(url: &str) -> String {
    format!("rollout.engine=vllm rollout.url={url}")
}

#[track_caller]
fn assert_same_run(folder: &Path, a: &str, b: &str) {
    let [a, b] = [a, b].map(|run| lasting(&folder.join(run), &["metrics.jsonl", "samples.jsonl"]));
    assert_eq!(a.len(), b.len());
    for ((name, a), (_, b)) in a.iter().zip(&b) {
        assert!(a == b, "{name} differs:\n{}\n{}", String::from_utf8_lossy(a), String::from_utf8_lossy(b));
    }
}

#[test]
fn training_through_our_own_server_is_training_in_process_byte_for_byte() {
    let (folder, serve) = setting();
    train(folder.path(), "local", "").output();
    train(folder.path(), "served", &through(&serve.url)).output();
    assert_same_run(folder.path(), "local", "served");
    assert!(!folder.path().join("served/rollout").exists(), "what was handed over is removed");
    // A folder that the user names keeps what is in it.
    let shared = folder.path().join("shared");
    let theirs = ["weights-1", "weights-2024"].map(|name| shared.join(name).join("thesis"));
    for file in &theirs {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, "precious").unwrap();
    }
    let settings = format!("{} rollout.weights={}", through(&serve.url), shared.display());
    train(folder.path(), "shared-run", &settings).output();
    assert_same_run(folder.path(), "local", "shared-run");
    assert_eq!(std::fs::read_dir(&shared).unwrap().count(), 2);
    assert!(theirs.iter().all(|file| std::fs::read_to_string(file).is_ok_and(|text| text == "precious")));
    // In a group that differs in reward, so that something was learned at all.
    let [norms, errors] =
        ["grad_norm", "logp_error"].map(|name| column(&folder.path().join("local"), "rl", name));
    assert!(norms.iter().any(|x| *x > 0.0), "{norms:?}");
    assert_eq!(errors, [1.0; 3]);
}

/// A proxy before a server: `fault` says what becomes of the `k`-th request for a path, from 0.
fn flaky(
    to: &str,
    path: &'static str,
    fault: impl Fn(usize) -> Option<Reply> + Send + Sync + 'static,
) -> LoopbackServer {
    let (to, count) = (to.to_owned(), AtomicUsize::new(0));
    LoopbackServer::start(move |asked: &Asked| {
        let fails = (asked.path == path).then(|| fault(count.fetch_add(1, Ordering::SeqCst))).flatten();
        fails.unwrap_or_else(|| Reply::Raw(pass_on(asked, &to)))
    })
}

#[test]
fn a_server_that_fails_or_restarts_changes_no_byte() {
    let (folder, serve) = setting();
    train(folder.path(), "local", "").output();
    let dropped = |k: usize| (k % 3 == 2).then_some(Reply::Drop);
    let overloaded =
        |k: usize| (k % 4 == 2).then(|| Reply::Answer(503, "{\"detail\": \"starting\"}".to_owned()));
    // The second question for the version finds a server that has been started again.
    let restarted =
        |k: usize| (k == 1).then(|| Reply::Answer(200, "{\"weight_version\": \"default\"}".to_owned()));
    let proxies = [
        flaky(&serve.url, "/v1/completions", dropped),
        flaky(&serve.url, "/v1/completions", overloaded),
        flaky(&serve.url, "/weight_info", restarted),
    ];
    for (i, proxy) in proxies.iter().enumerate() {
        let name = format!("proxied-{i}");
        let done = train(folder.path(), &name, &format!("{} rollout.retries=1", through(&proxy.url)));
        done.output();
        let said = if i == 2 { "it has been restarted" } else { "the server failed and is asked again" };
        done.tells(said);
        assert_same_run(folder.path(), "local", &name);
    }
}

#[test]
fn a_run_whose_server_is_gone_keeps_what_it_has_and_the_same_command_goes_on() {
    let (folder, serve) = setting();
    // So many questions for the version are answered, then another run takes the server: in the second step, in the evaluation after it, whose
    // result is in the step's row, and in the one before RL.
    for (answered, sft, when, kept) in
        [(3, 0, "RL step 1", 1), (4, 0, "the same command goes on from", 0), (0, 2, "evaluation", 2)]
    {
        let [local, broken] = ["local", "broken"].map(|run| format!("{run}-{answered}"));
        let steps = format!("sft.steps={sft} sft.batch=2");
        train(folder.path(), &local, &steps).output();
        let taken = flaky(&serve.url, "/weight_info", move |k| {
            let other = || Reply::Answer(200, "{\"weight_version\": \"grpo-lambda:/other/run\"}".to_owned());
            (k >= answered).then(other)
        });
        let settings = |url: &str| format!("{} {steps} checkpoint.every=100", through(url));
        let done = train(folder.path(), &broken, &settings(&taken.url));
        done.refused(1, "another run has loaded its weights … /other/run … one run at a time");
        done.tells(when);
        let latest = run::latest(&folder.path().join(&broken)).unwrap().expect("a checkpoint");
        assert_eq!(latest.step(), kept, "{}", done.stderr);
        // Another address of the server is no other run.
        train(folder.path(), &broken, &settings(&serve.url)).output();
        assert_same_run(folder.path(), &local, &broken);
    }
}

#[test]
fn a_server_that_ignores_seeds_is_told_of_once() {
    let (folder, serve) = setting();
    let to = serve.url.clone();
    // Every response is a copy of the first, whatever its seed.
    let copying = LoopbackServer::start(move |asked: &Asked| {
        let answer = pass_on(asked, &to);
        let text = String::from_utf8_lossy(&answer).into_owned();
        let Some((_, body)) = text.split_once("\r\n\r\n").filter(|_| asked.path == "/v1/completions") else {
            return Reply::Raw(answer);
        };
        let mut body: Value = serde_json::from_str(body).unwrap();
        let choices = body["choices"].as_array_mut().unwrap();
        let first = choices[0].clone();
        choices.iter_mut().for_each(|choice| *choice = first.clone());
        Reply::Answer(200, body.to_string())
    });
    let done = train(folder.path(), "copied", &through(&copying.url));
    done.output();
    let told = done.stderr.matches("4 seeds gave the same response 4 times").count();
    assert_eq!(told, 1, "{}", done.stderr);
}

#[test]
fn a_server_that_keeps_its_old_weights_ends_the_run_by_name() {
    let (folder, serve) = setting();
    // It says that it reloaded, and did not.
    let stale = flaky(&serve.url, "/collective_rpc", |_| {
        Some(Reply::Answer(200, "{\"results\": [null]}".to_owned()))
    });
    let parameters = weights::initialise(&shape(), 4, 0.3);
    weights::save(&folder.path().join("model"), &shape(), &parameters, weights::SaveDtype::F32, usize::MAX)
        .unwrap();
    train(folder.path(), "run", &through(&stale.url))
        .refused(1, "other weights than those just handed to it … rl.max_logp_error");
}

#[test]
fn what_cannot_be_a_server_is_refused_before_anything_is_written() {
    let (folder, serve) = setting();
    let fixed = Serve::start(&folder.path().join("model"), &[], "");
    let misnamed = format!("{} rollout.model=x", through(&serve.url));
    for (settings, said) in [
        ("rollout.engine=vllm", "rollout.url is missing"),
        (&through("https://h:1"), "rollout.url = https://h:1: this program speaks no TLS"),
        (&through("h:1"), "rollout.url = h:1: must be http://HOST:PORT"),
        (&through("http://127.0.0.1:9"), "GET /health"),
        ("rollout.engine=other", "one of local, vllm"),
        (&misnamed, "rollout.model = x: the server has model"),
    ] {
        train(folder.path(), "run", settings).refused(2, said);
        assert!(!folder.path().join("run").exists());
    }
    train(folder.path(), "run", &through(&fixed.url)).refused(1, "--reload-from");
}

/// `eval` and `generate` of the checkpoint in `folder`, with more arguments; what they printed and recorded.
fn asked_of(folder: &Path, name: &str, more: &str) -> [String; 2] {
    let (model, out) = (folder.join("model").display().to_string(), folder.join(name));
    let eval = format!(
        "eval --model {model} --benchmarks tiny:addition --limit 5 --samples 3 --temperature 0.7 --max-new-tokens 6 --seed 4 --out {} {more}",
        out.display()
    );
    llm_train(&words(&eval), "").output();
    let recorded = std::fs::read_to_string(out.join("tiny-addition/completions.jsonl")).unwrap();
    let generate =
        format!("generate --model {model} --prompt 1+2= --prompt 3+4= --top-k 5 --max-new-tokens 6 {more}");
    [recorded, llm_train(&words(&generate), "").output().to_owned()]
}

#[test]
fn evaluations_and_generations_through_our_own_server_are_those_of_this_program() {
    let (folder, serve) = setting();
    let local = asked_of(folder.path(), "local", "");
    let through = |url: &str| format!("--engine vllm --url {url}");
    assert_eq!(asked_of(folder.path(), "served", &through(&serve.url)), local);
    let dropped = flaky(&serve.url, "/v1/completions", |k| (k % 3 == 2).then_some(Reply::Drop));
    assert_eq!(asked_of(folder.path(), "dropped", &through(&dropped.url)), local);
}

#[test]
fn a_server_of_another_model_and_options_that_name_none_are_refused() {
    let (_folder, serve) = setting();
    let other = tempfile::tempdir().unwrap();
    checkpoint(&other.path().join("model"), &shape(), usize::MAX);
    let model = other.path().join("model");
    let parameters = weights::initialise(&shape(), 4, 0.3);
    weights::save(&model, &shape(), &parameters, weights::SaveDtype::F32, usize::MAX).unwrap();
    let ask = |more: &[&str]| {
        let generate = ["generate", "--model", model.to_str().unwrap(), "--prompt", "1+2="];
        llm_train(&[&generate[..], more].concat(), "")
    };
    ask(&["--engine", "vllm", "--url", &serve.url])
        .refused(1, "other weights than the model of --model … start the server with that checkpoint");
    let missing =
        "--engine vllm: --url is missing; give the server's address, as in --url http://127.0.0.1:8000";
    ask(&["--engine", "vllm"]).refused(2, missing);
    ask(&["--url", "http://127.0.0.1:9"]).refused(2, "--url http://127.0.0.1:9 … --engine vllm");
    ask(&["--engine", "vllm", "--url", "http://127.0.0.1:9"]).refused(2, "--url http://127.0.0.1:9");
    ask(&["--engine", "vllm", "--url", &serve.url, "--served-model", "x"])
        .refused(2, "--served-model x: the server has model");
}

/// Status and JSON of a request.
pub(crate) fn call(method: &str, url: &str, body: Option<&Value>, headers: &[(&str, &str)]) -> (u16, Value) {
    let config = ureq::Agent::config_builder().http_status_as_error(false).proxy(None).build();
    let agent = config.new_agent();
    let mut answer = match (method, body) {
        ("GET", _) => headers.iter().fold(agent.get(url), |r, (k, v)| r.header(*k, *v)).call(),
        (_, None) => headers.iter().fold(agent.post(url), |r, (k, v)| r.header(*k, *v)).send_empty(),
        (_, Some(body)) => {
            let typed = headers.iter().any(|(k, _)| *k == "Content-Type");
            let json = [("Content-Type", "application/json")];
            let all = json.iter().filter(|_| !typed).chain(headers);
            all.fold(agent.post(url), |r, (k, v)| r.header(*k, *v)).send(body.to_string())
        }
    }
    .unwrap();
    let text = answer.body_mut().read_to_string().unwrap();
    (answer.status().as_u16(), serde_json::from_str(&text).unwrap_or(Value::Null))
}

/// A completion; its choices.
fn completed(serve: &Serve, fields: Value) -> Vec<Value> {
    let (status, body) = call("POST", &format!("{}/v1/completions", serve.url), Some(&fields), &[]);
    assert_eq!(status, 200, "{body}");
    body["choices"].as_array().unwrap().clone()
}

fn ids(choices: &[Value]) -> Vec<&Value> {
    choices.iter().map(|c| &c["token_ids"]).collect()
}

#[test]
fn completions_are_vllms_seeds_order_and_log_probabilities() {
    let (_folder, serve) = setting();
    let asked = |more: Value| {
        let mut fields = json!({"prompt": [[5, 17, 20], [9]], "n": 3, "max_tokens": 5, "temperature": 1.0, "seed": 7,
            "logprobs": 0, "return_token_ids": true});
        fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        completed(&serve, fields)
    };
    let all = asked(json!({}));
    assert_eq!(all.len(), 6);
    assert_eq!(all.iter().map(|c| c["index"].as_u64().unwrap()).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
    assert_eq!(
        (&all[0]["prompt_token_ids"], &all[5]["prompt_token_ids"]),
        (&json!([5, 17, 20]), &json!([9]))
    );
    assert_eq!(asked(json!({})), all, "the same seed gives the same responses");
    // Response i has seed + i, and does not depend on which others are asked for.
    for i in 0..3 {
        let one = asked(json!({"prompt": [9], "n": 1, "seed": 7 + i}));
        assert_eq!(ids(&one), [ids(&all)[3 + i as usize]]);
        assert_eq!(one[0]["logprobs"]["token_logprobs"], all[3 + i as usize]["logprobs"]["token_logprobs"]);
    }
    // The token's own log-probability, by a scoring request over prompt and response.
    let response: Vec<u32> = serde_json::from_value(all[0]["token_ids"].clone()).unwrap();
    let row: Vec<u32> = [5, 17, 20].into_iter().chain(response.clone()).collect();
    let scored = completed(&serve, json!({"prompt": row, "max_tokens": 1, "prompt_logprobs": 0}));
    for (i, id) in response.iter().enumerate() {
        let scored = &scored[0]["prompt_logprobs"][3 + i][id.to_string()]["logprob"];
        assert_eq!(scored, &all[0]["logprobs"]["token_logprobs"][i]);
    }
    // Truncated distributions are renormalised: the only token that is left is certain.
    let certain = asked(json!({"top_k": 1}));
    for choice in &certain {
        for logp in choice["logprobs"]["token_logprobs"].as_array().unwrap() {
            assert!(logp.as_f64().unwrap().abs() < 1e-6, "{choice}");
        }
    }
    assert_eq!(ids(&asked(json!({"temperature": 0}))), ids(&certain), "greedy is top-k 1");
    let stopped = asked(json!({"stop_token_ids": [response[1]], "prompt": [5, 17, 20], "n": 1}));
    assert_eq!(stopped[0]["token_ids"], json!(response[..2]));
    assert_eq!(
        (&stopped[0]["finish_reason"], &stopped[0]["stop_reason"]),
        (&json!("stop"), &json!(response[1]))
    );
    // A stop string that ends within `min_tokens` is passed over, and the text goes on beyond it.
    let one = |more: Value| {
        let mut fields = json!({"prompt": [5, 17, 20], "n": 1});
        fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        asked(fields).remove(0)
    };
    let spelled = &all[0]["logprobs"]["tokens"][0];
    let stopped = one(json!({"stop": [spelled]}));
    assert_eq!((&stopped["text"], &stopped["token_ids"]), (&json!(""), &json!(response[..1])));
    let passed = one(json!({"stop": [spelled], "min_tokens": response.len() - 1}));
    assert_eq!((&passed["text"], &passed["token_ids"]), (&all[0]["text"], &json!(response)));
}

#[test]
fn a_request_that_is_not_served_is_refused_by_field_and_value() {
    let (_folder, serve) = setting();
    let completions = format!("{}/v1/completions", serve.url);
    for (fields, status, said) in [
        (json!({}), 400, "prompt is missing"),
        (json!({"prompt": [1, 99999]}), 400, "prompt = [1,99999]: must be a list of token ids from 0 to"),
        (json!({"prompt": []}), 400, "prompt = []"),
        (json!({"prompt": [1], "n": 0}), 400, "n = 0: must be a whole number from 1 to 1024"),
        (json!({"prompt": [1], "n": "x"}), 400, "n = \"x\": must be"),
        (json!({"prompt": [1], "temperature": -1}), 400, "temperature = -1: must be"),
        (json!({"prompt": [1], "temperature": 1e-9}), 400, "or at least 1e-6"),
        (json!({"prompt": [1], "top_p": 0}), 400, "top_p = 0: must be"),
        (json!({"prompt": [1], "top_k": -2}), 400, "top_k = -2: must be"),
        (json!({"prompt": [1], "logprobs": 5}), 400, "logprobs = 5: must be a whole number from 0 to 0"),
        (json!({"prompt": [1], "min_p": 0.1}), 400, "min_p = 0.1: must be 0 or left out"),
        (json!({"prompt": [1], "stream": true}), 400, "stream = true: must be false or left out"),
        (json!({"prompt": [1], "temprature": 1}), 400, "temprature: unknown field"),
        (json!({"prompt": [1], "max_tokens": 1000000}), 400, "the model's context"),
        (
            json!({"prompt": [1], "max_tokens": 2, "min_tokens": 3}),
            400,
            "min_tokens = 3: must be at most max_tokens = 2",
        ),
        (json!({"prompt": [1], "stop": [""]}), 400, "stop = \"\""),
        (json!({"prompt": [1], "address": {"seed": 1}}), 400, "address = "),
        (json!({"prompt": [1], "model": "nope"}), 404, "model = \"nope\": the server has \"model\""),
    ] {
        let (found, body) = call("POST", &completions, Some(&fields), &[]);
        let message = body["error"]["message"].as_str().unwrap_or_default();
        assert!(found == status && message.contains(said), "{fields}: {found} {body}");
        assert_eq!(body["error"]["code"], status);
    }
    let at = |path: &str| format!("{}{path}", serve.url);
    let other = json!({"method": "__reduce__"});
    assert_eq!(call("POST", &at("/collective_rpc"), Some(&other), &[]).0, 400);
    // A pause holds requests back until the end of it.
    assert_eq!(call("POST", &at("/pause"), None, &[]).0, 200);
    assert_eq!(call("GET", &at("/is_paused"), None, &[]).1, json!({"is_paused": true}));
    let url = completions.clone();
    let waiting =
        std::thread::spawn(move || call("POST", &url, Some(&json!({"prompt": [5], "seed": 1})), &[]).0);
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(!waiting.is_finished());
    assert_eq!(call("POST", &at("/resume"), None, &[]).0, 200);
    assert_eq!(waiting.join().unwrap(), 200);
}

#[test]
fn a_server_is_for_this_machine_or_for_who_has_the_token() {
    let folder = tempfile::tempdir().unwrap();
    checkpoint(folder.path(), &shape(), usize::MAX);
    let model = folder.path().to_str().unwrap();
    let open = llm_train(&["serve", "--model", model, "--host", "0.0.0.0", "--port", "0"], "");
    open.refused(2, "--host 0.0.0.0 … LLM_TRAIN_TOKEN");
    llm_train(&["serve", "--model", model, "--reload-from", "/nowhere"], "")
        .refused(2, "--reload-from /nowhere");
    llm_train(&["serve", "--model", model, "--queue", "0"], "").refused(2, "--queue");
    let serve = Serve::start(folder.path(), &["--max-body", "200", "--max-tokens", "50"], "secret");
    let at = |path: &str| format!("{}{path}", serve.url);
    let get = |path: &str, given: &str| call("GET", &at(path), None, &[("Authorization", given)]).0;
    assert_eq!(
        (get("/health", ""), get("/v1/models", ""), get("/v1/models", "Bearer secret")),
        (200, 401, 200)
    );
    let token = [("Authorization", "Bearer secret")];
    assert_eq!(call("POST", &at("/pause"), None, &token).0, 404, "without --reload-from");
    let long = json!({"prompt": vec![1; 200]});
    let (status, body) = call("POST", &at("/v1/completions"), Some(&long), &token);
    assert!(status == 413 && body["error"]["message"].as_str().unwrap().contains("200 bytes"), "{body}");
    let many = json!({"prompt": [1], "n": 5, "max_tokens": 10});
    let (status, body) = call("POST", &at("/v1/completions"), Some(&many), &token);
    assert!(
        status == 400 && body["error"]["message"].as_str().unwrap().contains("a request may have 50"),
        "{body}"
    );
}
