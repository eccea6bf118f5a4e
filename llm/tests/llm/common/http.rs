//! A server on this machine that answers what a test says.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)] // not every test uses everything

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::Value;

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Asked {
    pub path: String,
    pub body: Value,
    /// All bytes, to pass it on.
    pub raw: Vec<u8>,
}

/// What is done with it.
pub enum Reply {
    /// Status and body.
    Answer(u16, String),
    /// These bytes.
    Raw(Vec<u8>),
    /// The connection is closed without a word.
    Drop,
}

/// A server that lives as long as the test.
pub struct LoopbackServer {
    pub url: String,
    pub asked: Arc<Mutex<Vec<Asked>>>,
}

impl LoopbackServer {
    pub fn start(answer: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> LoopbackServer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (asked, answer) = (Arc::new(Mutex::new(Vec::new())), Arc::new(answer));
        let log = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (log, answer) = (Arc::clone(&log), Arc::clone(&answer));
                std::thread::spawn(move || serve(stream, &log, answer.as_ref()));
            }
        });
        LoopbackServer { url, asked }
    }

    /// The bodies of the requests for this path.
    pub fn bodies(&self, path: &str) -> Vec<Value> {
        let asked = self.asked.lock().unwrap();
        asked.iter().filter(|a| a.path == path).map(|a| a.body.clone()).collect()
    }

    /// The paths asked for, in order.
    pub fn paths(&self) -> Vec<String> {
        self.asked.lock().unwrap().iter().map(|a| a.path.clone()).collect()
    }
}

fn serve(mut stream: TcpStream, log: &Mutex<Vec<Asked>>, answer: &(dyn Fn(&Asked) -> Reply + Send + Sync)) {
    let Some(asked) = read(&mut stream) else { return };
    log.lock().unwrap().push(asked.clone());
    let bytes = match answer(&asked) {
        Reply::Drop => return,
        Reply::Raw(bytes) => bytes,
        Reply::Answer(status, body) => {
            let head =
                format!("HTTP/1.1 {status} x\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            (head + &body).into_bytes()
        }
    };
    drop(stream.write_all(&bytes));
}

fn read(stream: &mut TcpStream) -> Option<Asked> {
    let (mut raw, mut chunk) = (Vec::new(), [0; 4096]);
    let end = loop {
        if let Some(at) = raw.windows(4).position(|w| w == b"\r\n\r\n") {
            break at + 4;
        }
        match stream.read(&mut chunk) {
            Ok(n) if n > 0 => raw.extend_from_slice(&chunk[..n]),
            _ => return None,
        }
    };
    let head = String::from_utf8_lossy(&raw[..end]).into_owned();
    let length =
        head.lines().find_map(|l| l.to_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
    while raw.len() < end + length.unwrap_or(0) {
        match stream.read(&mut chunk) {
            Ok(n) if n > 0 => raw.extend_from_slice(&chunk[..n]),
            _ => return None,
        }
    }
    let path = head.split_whitespace().nth(1)?.to_owned();
    let body = serde_json::from_slice(&raw[end..]).unwrap_or(Value::Null);
    Some(Asked { path, body, raw })
}

/// Passes a request on and gives back what comes.
pub fn pass_on(asked: &Asked, to: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(to.strip_prefix("http://").unwrap()).unwrap();
    let end = asked.raw.windows(2).position(|w| w == b"\r\n").unwrap();
    // Else the other side keeps the connection open.
    stream.write_all(&asked.raw[..end]).unwrap();
    stream.write_all(b"\r\nConnection: close").unwrap();
    stream.write_all(&asked.raw[end..]).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    answer
}
