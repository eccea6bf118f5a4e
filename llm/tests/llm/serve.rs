//! `llm-train serve` under requests that nobody well-meaning sends: each is answered or closed by itself, and the next right one is served.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use grpo_lambda_decoder::model::ModelConfig;
use grpo_lambda_decoder::model::weights::{self, SaveDtype};
use serde_json::json;

use crate::common::{checkpoint, shape};
use crate::engines::{Serve, call, setting};
use crate::long;

/// A connection that gives up before any limit of the server on time has passed.
fn connect(serve: &Serve) -> TcpStream {
    let stream = TcpStream::connect(serve.url.strip_prefix("http://").unwrap()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(8))).unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(8))).unwrap();
    stream
}

/// Everything that comes back for these bytes.
fn exchange(serve: &Serve, bytes: &[u8]) -> String {
    let mut stream = connect(serve);
    // The server may close before it has read everything.
    drop(stream.write_all(bytes));
    let mut answer = Vec::new();
    drop(stream.read_to_end(&mut answer));
    String::from_utf8_lossy(&answer).into_owned()
}

fn posted(body: &str) -> Vec<u8> {
    let head = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json";
    format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// A request with these headers after the first line.
fn asked(line: &str, headers: &str) -> Vec<u8> {
    format!("{line} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n").into_bytes()
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or_default()
}

#[track_caller]
fn a_right_request_is_answered(serve: &Serve) {
    assert_eq!(call("GET", &format!("{}/health", serve.url), None, &[]).0, 200);
    let answer = exchange(serve, &posted(r#"{"prompt": [5], "max_tokens": 2, "ignore_eos": true}"#));
    assert!(status(&answer) == "200" && answer.contains("\"completion_tokens\":2"), "{answer}");
}

/// Hostile bytes with the status of the answer; none where the connection is closed.
fn attacks() -> Vec<(Vec<u8>, &'static str)> {
    const JSON: &str = "Content-Type: application/json\r\n";
    let sized = |length: &str| asked("POST /v1/completions", &format!("{JSON}Content-Length: {length}\r\n"));
    let chunked = |chunks: &str| {
        let head = asked("POST /v1/completions", &format!("{JSON}Transfer-Encoding: chunked\r\n"));
        [head, chunks.as_bytes().to_vec()].concat()
    };
    let host = |hosts: &str| format!("GET /v1/models HTTP/1.1\r\n{hosts}\r\n").into_bytes();
    let body = |fields: serde_json::Value| posted(&fields.to_string());
    let mut attacks: Vec<(Vec<u8>, &str)> = vec![
        (sized("-1"), "400"),
        (sized("x"), "400"),
        (sized("18446744073709551616"), "400"),
        (sized("7\r\nContent-Length: 8"), "400"),
        (chunked("FFFFFFFFFFFFFFFFF\r\n"), "400"),
        (chunked("zz\r\n"), "400"),
        (chunked(&format!("4000\r\n{}\r\n", "x".repeat(0x4000)).repeat(20)), "413"),
        (posted(&"x".repeat(300_000)), "413"),
        // One connection, one answer: what stands behind a request is no further request.
        (
            [
                asked("GET /health", &format!("{JSON}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n")),
                asked("GET /v1/models", ""),
            ]
            .concat(),
            "200",
        ),
        ([asked("GET /health", ""), asked("GET /v1/models", "")].concat(), "200"),
        (format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "a".repeat(1 << 20)).into_bytes(), "431"),
        (asked("GET /health", &format!("A: {}\r\n", "a".repeat(1 << 20))), "431"),
        (asked("GET /health", &"A: a\r\n".repeat(100)), "431"),
        (asked("GET /health", "A b: c\r\n"), "400"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), ""),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(), "400"),
        (host(""), "400"),
        (host("Host: localhost\r\nHost: localhost\r\n"), "400"),
        (host("Host: evil.example\r\n"), "421"),
        (host("Host: localhost.evil.example:80\r\n"), "421"),
        (host("Host: 127.0.0.1:1\r\n"), "200"),
        (b"GET http://evil.example/v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(), "421"),
        (b"GET /v1/models HTTP/1.0\r\n\r\n".to_vec(), "200"),
        (asked("GET /v1/models", "Origin: null\r\n"), "403"),
        (asked("OPTIONS /v1/completions", "Origin: http://evil.example\r\n"), "403"),
        (asked("DELETE /v1/models", ""), "405"),
        (asked("GET /../../etc/passwd", ""), "404"),
        (asked("POST /v1/completions", "Content-Type: text/plain\r\nContent-Length: 9999999\r\n"), "415"),
        (posted("[1]"), "400"),
        (posted(&"[".repeat(100_000)), "400"),
        (body(json!({"prompt": "a ".repeat(70_000)})), "400"),
        (body(json!({"prompt": [5], "stop": vec!["x"; 65]})), "400"),
        (body(json!({"prompt": [5], "stop": "x".repeat(257)})), "400"),
        (body(json!({"prompt": [5], "stop_token_ids": vec![5; 1025]})), "400"),
        (body(json!({"prompt": vec!["x"; 1025]})), "400"),
        (body(json!({"prompt": [5], "x".repeat(200_000): 1})), "400"),
    ];
    let lengths = ["10000000000", "100000000000", "1000000000000", "9223372036854775807"];
    attacks.extend(lengths.map(|length| (sized(length), "413")));
    // The HTTP library keeps the two largest numbers for itself.
    attacks.extend(["18446744073709551614", "18446744073709551615"].map(|length| (sized(length), "431")));
    attacks
}

#[test]
fn a_hostile_request_is_refused_by_itself() {
    let (_folder, serve) = start(&[]);
    for (bytes, expected) in attacks() {
        let answer = exchange(&serve, &bytes);
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).into_owned();
        assert_eq!(status(&answer), expected, "{shown}\n{answer}");
        assert!(answer.matches("HTTP/1.").count() <= 1 && answer.len() < 3000, "{shown}\n{answer}");
        a_right_request_is_answered(&serve);
    }
}

/// A server with a small limit on bodies, of a model with a short context.
fn start(more: &[&str]) -> (tempfile::TempDir, Serve) {
    let folder = tempfile::tempdir().unwrap();
    checkpoint(folder.path(), &ModelConfig { max_position_embeddings: 2048, ..shape() }, usize::MAX);
    let serve = Serve::start(folder.path(), &[&["--max-body", "250000"], more].concat(), "");
    (folder, serve)
}

#[test]
fn clients_that_keep_silent_keep_nobody_waiting_and_do_not_hold_up_the_end() {
    let (_folder, mut serve) = start(&[]);
    let silent = [
        asked("POST /v1/completions", "Content-Type: application/json\r\nContent-Length: 200000\r\n"),
        asked("POST /v1/completions", "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n"),
        b"GET /health HTTP/1.1\r\nHo".to_vec(),
        Vec::new(),
    ];
    let held: Vec<TcpStream> = (0..280)
        .map(|i| {
            let mut stream = connect(&serve);
            stream.write_all(&silent[i % silent.len()]).unwrap();
            stream
        })
        .collect();
    a_right_request_is_answered(&serve);
    let sent = Command::new("kill").arg(serve.child.id().to_string()).status().unwrap();
    assert!(sent.success());
    // The limits on time are longer than a connection's patience here: the end must come by itself.
    let mut last = held.into_iter().last().unwrap();
    assert!(
        last.read(&mut [0; 1]).map_or_else(|e| e.kind() == std::io::ErrorKind::ConnectionReset, |n| n == 0)
    );
    assert!(serve.child.wait().unwrap().success());
}

#[test]
fn health_is_answered_and_a_signal_heeded_while_requests_compute_and_wait() {
    let (_folder, mut serve) = start(&["--queue", "3"]);
    let long = posted(r#"{"prompt": [5], "n": 64, "max_tokens": 1000, "ignore_eos": true}"#);
    let mut computing: Vec<TcpStream> = (0..3).map(|_| connect(&serve)).collect();
    computing.iter_mut().for_each(|stream| stream.write_all(&long).unwrap());
    // A fourth is refused once the three are in.
    while status(&exchange(&serve, &posted(r#"{"prompt": [5], "max_tokens": 1}"#))) != "429" {}
    assert_eq!(call("GET", &format!("{}/health", serve.url), None, &[]).0, 200);
    let mut answered = [0; 1];
    computing[0].set_nonblocking(true).unwrap();
    assert!(computing[0].read(&mut answered).is_err_and(|e| e.kind() == std::io::ErrorKind::WouldBlock));
    // Those that leave give their places back, also the one whose responses are being computed.
    computing.iter().for_each(|stream| stream.shutdown(Shutdown::Both).unwrap());
    while status(&exchange(&serve, &posted(r#"{"prompt": [5], "max_tokens": 0}"#))) == "429" {}
    drop(serve.child.kill());
}

#[test]
fn as_many_as_may_wait_are_answered_when_all_come_at_once() {
    let (_folder, serve) = start(&["--queue", "64"]);
    let request = posted(r#"{"prompt": [5, 6], "max_tokens": 4}"#);
    let statuses: Vec<String> = std::thread::scope(|scope| {
        let one = || status(&exchange(&serve, &request)).to_owned();
        let asked: Vec<_> = (0..96).map(|_| scope.spawn(one)).collect();
        asked.into_iter().map(|answer| answer.join().unwrap()).collect()
    });
    assert!(statuses.iter().all(|status| status == "200" || status == "429"), "{statuses:?}");
    assert!(statuses.iter().filter(|status| *status == "200").count() >= 64, "{statuses:?}");
}

/// The most memory that a process had resident, in KiB.
fn most_resident(serve: &Serve) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", serve.child.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn ten_thousand_hostile_requests_take_no_memory() {
    let (_folder, serve) = start(&[]);
    a_right_request_is_answered(&serve);
    let (before, attacks) = (most_resident(&serve), attacks());
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (serve, attacks) = (&serve, &attacks);
            scope.spawn(move || {
                for i in 0..long::of(50, 1250) {
                    let (bytes, _) = &attacks[(7 * i + thread) % attacks.len()];
                    let mut stream = connect(serve);
                    drop(stream.write_all(bytes));
                    // Every other client does not wait for its answer.
                    if i % 2 == 0 {
                        drop(stream.read_to_end(&mut Vec::new()));
                    }
                }
            });
        }
    });
    a_right_request_is_answered(&serve);
    let after = most_resident(&serve);
    // 128 connections times 250,000 bytes are 31 MiB; the refused lengths alone would be a terabyte.
    assert!(after < before + (64 << 10), "{before} KiB before, {after} after");
}

#[test]
fn weights_that_are_no_numbers_or_lie_elsewhere_are_not_loaded() {
    let (folder, serve) = setting();
    let outside = tempfile::tempdir().unwrap();
    let save = |directory: &Path, wrong: f32| {
        let mut parameters = weights::initialise(&shape(), 4, 0.3);
        parameters.values_mut().last().unwrap().data[3] = wrong;
        weights::save(directory, &shape(), &parameters, SaveDtype::F32, usize::MAX).unwrap();
    };
    let inside = |name: &str| folder.path().join(name);
    let link = |to: &Path, name: &str| std::os::unix::fs::symlink(to, inside(name)).unwrap();
    save(outside.path(), 0.5);
    save(&inside("nan"), f32::NAN);
    save(&inside("infinite"), f32::NEG_INFINITY);
    save(&inside("good"), 0.5);
    link(outside.path(), "linked");
    std::fs::create_dir(inside("files")).unwrap();
    link(&outside.path().join("model.safetensors"), "files/model.safetensors");
    link(&inside("good"), "linked-within");
    let sample = || {
        let fields =
            json!({"prompt": [5], "seed": 1, "max_tokens": 8, "logprobs": 0, "return_token_ids": true});
        call("POST", &format!("{}/v1/completions", serve.url), Some(&fields), &[]).1["choices"].clone()
    };
    let before = sample();
    for (name, said) in [
        ("absent", "No such file"),
        ("nan", "has NaN at element 3; every weight must be a finite number"),
        ("infinite", "has -inf at element 3"),
        ("linked", "must lie under --reload-from"),
        ("files", "must lie under --reload-from"),
    ] {
        let reload = json!({"method": "reload_weights", "kwargs": {"weights_path": inside(name)}});
        let (status, body) = call("POST", &format!("{}/collective_rpc", serve.url), Some(&reload), &[]);
        assert!(status == 400 && body["error"]["message"].as_str().unwrap().contains(said), "{body}");
        assert_eq!(sample(), before);
    }
    let reload = json!({"method": "reload_weights", "kwargs": {"weights_path": inside("linked-within")}});
    assert_eq!(call("POST", &format!("{}/collective_rpc", serve.url), Some(&reload), &[]).0, 200);
    assert_ne!(sample(), before);
}
