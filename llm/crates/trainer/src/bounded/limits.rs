//! Bounds on what others wrote, and their table for the documentation.

use std::time::Duration;

use super::{Limits, PATIENCE};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
const GIB: usize = 1 << 30;

/// Bytes of a tokenizer's or a template's file; the largest published ones have about 40 MB.
pub(crate) const LARGEST_FILE: u64 = 256 * MIB as u64;

/// Bytes of a chat template. The longest published ones have about 30,000; a chain of operators of this length still fits the address space of the stack.
pub(crate) const LONGEST_TEMPLATE: usize = 128 * KIB;

/// Steps of a template's machine. A conversation of a thousand turns takes fewer than 100,000; values cannot be nested deeper than there are steps, and
/// one that is so deep still fits the address space of the stack.
pub(crate) const TEMPLATE_STEPS: u64 = 1_000_000;

/// Compiling or rendering a template: a thousand times the usual need and more.
pub(crate) const TEMPLATE: Limits =
    Limits { memory: 256 * MIB, stack: 64 * MIB, time: Some(Duration::from_secs(10)) };

/// Bytes that a rendered prompt may leave besides its text, as a value that holds itself does.
pub(crate) const LEFT_OVER: usize = 4 * KIB;

/// Stack for work whose recursion the libraries bound themselves.
const STACK: usize = 4 * MIB;

/// Reading a `tokenizer.json` of so many bytes, whose vocabulary takes about ten times its file.
pub(crate) fn tokenizer_file(bytes: usize) -> Limits {
    let memory = (256 * MIB).saturating_add(bytes.saturating_mul(64));
    Limits { memory, stack: STACK, time: Some(Duration::from_secs(300)) }
}

/// Bounds on a text that is tokenised, and on ids that are decoded.
#[derive(Clone, Copy, Debug)]
pub struct TextLimits {
    /// Bytes of a text.
    pub longest: usize,
    /// The limits of an empty text.
    pub least: Limits,
}

/// Bytes of a text for each token of the model's context; ordinary text has 3 to 5.
const BYTES_PER_TOKEN: usize = 64;
/// Bytes of a text, whatever the context that a checkpoint claims.
const LONGEST_TEXT: usize = 8 * MIB;
/// Memory for each byte of a text. The library takes about 250.
const MEMORY_PER_BYTE: usize = 512;
/// The context of a checkpoint that names none.
const CONTEXT: usize = 1 << 17;

impl TextLimits {
    /// The limits for a model with a context of so many tokens.
    pub(crate) fn for_context(context: Option<usize>) -> TextLimits {
        let longest = context.unwrap_or(CONTEXT).saturating_mul(BYTES_PER_TOKEN).min(LONGEST_TEXT);
        let least = Limits { memory: 256 * MIB, stack: STACK, time: Some(Duration::from_secs(10)) };
        TextLimits { longest, least }
    }

    /// The limits on a text of so many bytes, or on so many ids.
    pub(crate) fn for_length(&self, length: usize) -> Limits {
        let memory = self.least.memory.saturating_add(length.saturating_mul(MEMORY_PER_BYTE));
        let slower = Duration::from_micros(10) * u32::try_from(length).unwrap_or(u32::MAX);
        Limits { memory, time: self.least.time.map(|time| time + slower), ..self.least }
    }
}

/// Bytes that a Parquet file is unpacked to: more than any published set of problems has.
pub(crate) const LARGEST_UNPACKED: u64 = 256 * GIB as u64;
/// Bytes that a byte of a Parquet file is unpacked to at most, next to [`UNPACKED_FREE`]. Published sets have 2 to 10; a text that repeats another
/// compresses a hundredfold.
pub(crate) const UNPACKED_RATIO: u64 = 1000;
/// Bytes that any Parquet file may be unpacked to.
pub(crate) const UNPACKED_FREE: u64 = 64 * MIB as u64;

/// Unpacking a Parquet file to at most `most` bytes; each open page has about a megabyte.
pub(crate) fn parquet(most: u64) -> Limits {
    let memory = usize::try_from(most).unwrap_or(GIB).min(GIB);
    Limits { memory, stack: 4 * STACK, time: None }
}

/// Bytes of a line that the program of `reward.command` writes.
pub(crate) const LONGEST_ANSWER: usize = 64 * KIB;
/// Lines of that program that wait to be read; then it waits.
pub(crate) const WAITING_ANSWERS: usize = 16;

/// The bounds in words: what is bounded, by how much, and what lies beyond, for `docs/promises.md`.
pub fn table() -> Vec<[String; 3]> {
    let mib = |bytes: usize| format!("{} MiB", bytes / MIB);
    let time = |limits: Limits, more: &str| {
        let seconds = limits.time.map_or(0, |time| time.as_secs());
        format!("{seconds} s{more} of computing, or {PATIENCE} times that in all")
    };
    let (text, file) = (TextLimits::for_context(None), tokenizer_file(0));
    let row = |what: &str, bound: String, beyond: &str| [what.to_owned(), bound, beyond.to_owned()];
    let refused = "refused";
    vec![
        row("file of a tokenizer or a template", mib(LARGEST_FILE as usize), refused),
        row("chat template: source", format!("{} KiB", LONGEST_TEMPLATE / KIB), refused),
        row(
            "chat template: compiling it, or rendering one prompt",
            format!(
                "{TEMPLATE_STEPS} steps, {} of memory, {} of stack, {}",
                mib(TEMPLATE.memory),
                mib(TEMPLATE.stack),
                time(TEMPLATE, "")
            ),
            "refused with the limit that it reached",
        ),
        row(
            "chat template: memory that stays after a prompt, besides its text",
            format!("{} KiB", LEFT_OVER / KIB),
            refused,
        ),
        row(
            "`tokenizer.json`: reading it",
            format!("{} and 64 bytes a byte, {}", mib(file.memory), time(file, "")),
            refused,
        ),
        row(
            "text to tokenise",
            format!(
                "{BYTES_PER_TOKEN} bytes for each token of the context (`max_position_embeddings`; {CONTEXT} where none is named), and {}",
                mib(LONGEST_TEXT)
            ),
            "refused before it is tokenised; a row of a data set is treated as too long",
        ),
        row(
            "tokenising a text, or decoding ids",
            format!(
                "{} and {MEMORY_PER_BYTE} bytes a byte, {} of stack, {}",
                mib(text.least.memory),
                mib(text.least.stack),
                time(text.least, " and 10 s a megabyte")
            ),
            "refused with the limit that it reached",
        ),
        row(
            "Parquet file: unpacked",
            format!(
                "{UNPACKED_RATIO} times the file and {}, at most {} GiB; {} GiB of memory",
                mib(UNPACKED_FREE as usize),
                LARGEST_UNPACKED >> 30,
                parquet(u64::MAX).memory >> 30
            ),
            "refused with the row",
        ),
        row(
            "`reward.command`: a line of its output",
            format!("{} KiB", LONGEST_ANSWER / KIB),
            "the run stops and keeps the steps that were done",
        ),
        row("`reward.command`: lines that wait to be read", WAITING_ANSWERS.to_string(), "the program waits"),
    ]
}
