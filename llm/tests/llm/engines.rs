//! Training, evaluation and generation that sample from a server: one with this program's own decoder, alone and through what goes wrong on a
//! network.

use std::sync::atomic::{AtomicUsize, Ordering};

use grpo_lambda_decoder::model::weights;
use grpo_lambda_trainer::run;
use serde_json::Value;

use crate::common::http::{Asked, LoopbackServer, Reply, pass_on};
use crate::common::{Done, Place, assert_same_run, column, model_server, shape, with, words};

/// A place with a checkpoint `model`, and a server of it.
fn setting() -> (Place, LoopbackServer) {
    let place = Place::with_model();
    let server = model_server::serve(&place.at("model"));
    (place, server)
}

/// Three steps of two updates each, with evaluations; small, but with everything that a step can have.
fn train(place: &Place, run: &str, settings: &str) -> Done {
    let fixed = "task.kind=addition threads=1 sft.steps=0 rl.steps=3 rl.prompts_per_step=3 rl.group_size=4 rl.max_new_tokens=6 \
                 rl.inner_updates=2 rl.temperature=0.8 rl.lr=0.01 reward.tag_count=1 reward.regex=[0-9] method.beta=0.01 eval.n=6 \
                 eval.every=2 checkpoint.every=1";
    place.run_with(&format!("train --run {run} model.checkpoint=model"), &with(fixed, &words(settings)), "")
}

fn through(url: &str) -> String {
    format!("rollout.engine=vllm rollout.url={url}")
}

#[test]
fn training_through_a_server_with_our_decoder_is_training_in_process_byte_for_byte() {
    let (place, server) = setting();
    train(&place, "local", "").output();
    train(&place, "served", &through(&server.url)).output();
    assert_same_run(&place.at("local"), &place.at("served"));
    assert!(!place.at("served/rollout").exists(), "what was handed over is removed");
    // A folder that the user names keeps what is in it.
    let shared = place.at("shared");
    let theirs = ["weights-1", "weights-2024"].map(|name| shared.join(name).join("thesis"));
    for file in &theirs {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, "precious").unwrap();
    }
    let settings = format!("{} rollout.weights={}", through(&server.url), shared.display());
    train(&place, "shared-run", &settings).output();
    assert_same_run(&place.at("local"), &place.at("shared-run"));
    assert_eq!(std::fs::read_dir(&shared).unwrap().count(), 2);
    assert!(theirs.iter().all(|file| std::fs::read_to_string(file).is_ok_and(|text| text == "precious")));
    // In a group that differs in reward, so that something was learned at all.
    let [norms, errors] = ["grad_norm", "logp_error"].map(|name| column(&place.at("local"), "rl", name));
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
    let (place, server) = setting();
    train(&place, "local", "").output();
    let dropped = |k: usize| (k % 3 == 2).then_some(Reply::Drop);
    let overloaded =
        |k: usize| (k % 4 == 2).then(|| Reply::Answer(503, "{\"detail\": \"starting\"}".to_owned()));
    // The second question for the version finds a server that has been started again.
    let restarted =
        |k: usize| (k == 1).then(|| Reply::Answer(200, "{\"weight_version\": \"default\"}".to_owned()));
    let proxies = [
        flaky(&server.url, "/v1/completions", dropped),
        flaky(&server.url, "/v1/completions", overloaded),
        flaky(&server.url, "/weight_info", restarted),
    ];
    for (i, proxy) in proxies.iter().enumerate() {
        let name = format!("proxied-{i}");
        let done = train(&place, &name, &format!("{} rollout.retries=1", through(&proxy.url)));
        done.output();
        let said = if i == 2 { "it has been restarted" } else { "the server failed and is asked again" };
        done.tells(said);
        assert_same_run(&place.at("local"), &place.at(&name));
    }
}

#[test]
fn a_run_whose_server_is_gone_keeps_what_it_has_and_the_same_command_goes_on() {
    let (place, server) = setting();
    // So many questions for the version are answered, then another run takes the server: in the second step, in the evaluation after it, whose
    // result is in the step's row, and in the one before RL.
    for (answered, sft, when, kept) in
        [(3, 0, "RL step 1", 1), (4, 0, "the same command goes on from", 0), (0, 2, "evaluation", 2)]
    {
        let [local, broken] = ["local", "broken"].map(|run| format!("{run}-{answered}"));
        let steps = format!("sft.steps={sft} sft.batch=2");
        train(&place, &local, &steps).output();
        let taken = flaky(&server.url, "/weight_info", move |k| {
            let other = || Reply::Answer(200, "{\"weight_version\": \"grpo-lambda:/other/run\"}".to_owned());
            (k >= answered).then(other)
        });
        let settings = |url: &str| format!("{} {steps} checkpoint.every=100", through(url));
        let done = train(&place, &broken, &settings(&taken.url));
        done.refused(1, "another run has loaded its weights … /other/run … one run at a time");
        done.tells(when);
        let latest = run::latest(&place.at(&broken)).unwrap().expect("a checkpoint");
        assert_eq!(latest.step(), kept, "{}", done.stderr);
        // Another address of the server is no other run.
        train(&place, &broken, &settings(&server.url)).output();
        assert_same_run(&place.at(&local), &place.at(&broken));
    }
}

#[test]
fn a_server_that_ignores_seeds_is_reported_once() {
    let (place, server) = setting();
    let to = server.url.clone();
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
    let done = train(&place, "copied", &through(&copying.url));
    done.output();
    let reported = done.stderr.matches("4 seeds gave the same response 4 times").count();
    assert_eq!(reported, 1, "{}", done.stderr);
}

/// Gives the checkpoint other weights than those that the server has read.
fn other_weights(place: &Place) {
    let parameters = weights::initialise(&shape(), 4, 0.3);
    weights::save(&place.at("model"), &shape(), &parameters, weights::SaveDtype::F32, usize::MAX).unwrap();
}

#[test]
fn a_server_that_keeps_its_old_weights_ends_the_run_by_name() {
    let (place, server) = setting();
    // It says that it reloaded, and did not.
    let stale = flaky(&server.url, "/collective_rpc", |_| {
        Some(Reply::Answer(200, "{\"results\": [null]}".to_owned()))
    });
    other_weights(&place);
    train(&place, "run", &through(&stale.url))
        .refused(1, "other weights than those just handed to it … rl.max_logp_error");
}

#[test]
fn what_cannot_be_a_server_is_refused_before_anything_is_written() {
    let (place, server) = setting();
    // vLLM without its development mode has no such endpoint.
    let fixed = flaky(&server.url, "/pause?mode=keep", |_| Some(Reply::Answer(404, "{}".to_owned())));
    let misnamed = format!("{} rollout.model=x", through(&server.url));
    for (settings, said) in [
        ("rollout.engine=vllm", "rollout.url is missing"),
        (&through("https://h:1"), "rollout.url = https://h:1: this program speaks no TLS"),
        (&through("h:1"), "rollout.url = h:1: must be http://HOST:PORT"),
        (&through("http://127.0.0.1:9"), "GET /health"),
        ("rollout.engine=other", "one of local, vllm"),
        (&misnamed, "rollout.model = x: the server has model"),
    ] {
        train(&place, "run", settings).refused(2, said);
        assert!(!place.at("run").exists());
    }
    train(&place, "run", &through(&fixed.url)).refused(1, "VLLM_SERVER_DEV_MODE=1");
}

/// `eval` and `generate` of the checkpoint, with more arguments; what they recorded and printed.
fn asked_of(place: &Place, name: &str, more: &str) -> [String; 2] {
    let benchmark =
        "--benchmarks tiny:addition --limit 5 --samples 3 --temperature 0.7 --max-new-tokens 6 --seed 4";
    place.run(&format!("eval --model model {benchmark} --out {name} {more}")).output();
    let recorded = place.read(&format!("{name}/tiny-addition/completions.jsonl"));
    let asked = "--prompt 1+2= --prompt 3+4= --top-k 5 --max-new-tokens 6";
    [recorded, place.run(&format!("generate --model model {asked} {more}")).output().to_owned()]
}

#[test]
fn evaluations_and_generations_through_a_server_with_our_decoder_are_those_of_this_program() {
    let (place, server) = setting();
    let local = asked_of(&place, "local", "");
    let through = |url: &str| format!("--engine vllm --url {url}");
    assert_eq!(asked_of(&place, "served", &through(&server.url)), local);
    let dropped = flaky(&server.url, "/v1/completions", |k| (k % 3 == 2).then_some(Reply::Drop));
    assert_eq!(asked_of(&place, "dropped", &through(&dropped.url)), local);
}

#[test]
fn a_server_of_another_model_and_options_that_name_none_are_refused() {
    let (place, server) = setting();
    other_weights(&place);
    let missing =
        "--engine vllm: --url is missing; give the server's address, as in --url http://127.0.0.1:8000";
    let there = format!("--engine vllm --url {}", server.url);
    for (options, code, expected) in [
        (&*there, 1, "other weights than the model of --model … start the server with that checkpoint"),
        ("--engine vllm", 2, missing),
        ("--url http://127.0.0.1:9", 2, "--url http://127.0.0.1:9 … --engine vllm"),
        ("--engine vllm --url http://127.0.0.1:9", 2, "--url http://127.0.0.1:9"),
        (&format!("{there} --served-model x"), 2, "--served-model x: the server has model"),
    ] {
        place.run(&format!("generate --model model --prompt 1+2= {options}")).refused(code, expected);
    }
}
