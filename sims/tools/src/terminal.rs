//! Writing to the terminal: its width, and a reader that goes away.

use crate::failure::Failure;
use comfy_table::{ContentArrangement, Table, presets};
use std::cell::Cell;
use std::io::{ErrorKind, IsTerminal, Write};
use std::time::{Duration, Instant};

/// Writes all of `text` to stdout. A reader that has seen enough and closed the pipe (`sim estimate .. | head`) is no failure.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(Failure::Failed(format!("stdout: {e}"))),
        _ => Ok(()),
    }
}

/// A line on stderr that says how far long work is: rewritten in place on a terminal, elsewhere a new one every five seconds.
pub(crate) struct Progress(Cell<Instant>);

impl Progress {
    pub(crate) fn start() -> Self {
        Progress(Cell::new(Instant::now()))
    }

    /// Says that `what` is begun, part `part` of `parts`.
    pub(crate) fn begin(&self, part: usize, parts: usize, what: &str) {
        if std::io::stderr().is_terminal() {
            eprint!("\r\x1b[K[{part}/{parts}] {what}");
        } else if self.0.get().elapsed() >= Duration::from_secs(5) {
            self.0.set(Instant::now());
            eprintln!("[{part}/{parts}] {what}");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if std::io::stderr().is_terminal() {
            eprint!("\r\x1b[K");
        }
    }
}

/// An empty table as wide as the terminal; 120 columns where the output is no terminal, or what `COLUMNS` says.
pub fn table(header: &[&str]) -> Table {
    let from_environment = || std::env::var("COLUMNS").ok()?.parse::<u16>().ok();
    let width = own_width().or_else(from_environment).unwrap_or(120);
    let mut table = Table::new();
    table
        .load_preset(presets::UTF8_FULL_CONDENSED)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(width.max(40))
        .set_truncation_indicator("..")
        .set_header(header.to_vec());
    table
}

#[cfg(not(target_family = "wasm"))]
fn own_width() -> Option<u16> {
    terminal_size::terminal_size_of(std::io::stdout()).map(|(width, _)| width.0)
}

/// A page has no terminal.
#[cfg(target_family = "wasm")]
fn own_width() -> Option<u16> {
    None
}
