//! `model_server DIR`: serves a checkpoint as the tests of `llm-train` do, for `tests/faults`; prints its address and runs until it is killed.
#![allow(missing_docs)]

#[path = "../../../tests/llm/common/http.rs"]
mod http;
#[path = "../../../tests/llm/common/model_server.rs"]
mod model_server;

use std::path::PathBuf;

fn main() {
    let directory = std::env::args_os().nth(1).map(PathBuf::from).expect("usage: model_server DIR");
    let server = model_server::serve(&directory);
    println!("serving {} on {}", directory.display(), server.url);
    loop {
        std::thread::park();
    }
}
