//! Damaged input for readers: whatever stands there, the answer is a value or an error that says something, soon and without a panic.
//!
//! `cargo test-all` tries some hundred inputs of each reader. `GRPO_LAMBDA_FUZZ=1000000` tries more, `GRPO_LAMBDA_FUZZ_SEED` begins elsewhere, and
//! `GRPO_LAMBDA_FUZZ_TABLE` names a file to which a line for each reader is added: `tests/fuzzer/run.sh`. An input that fails is printed with the
//! number that makes it again.

#![allow(clippy::unwrap_used)] // it is a test, wherever it stands

use std::io::Write;
use std::time::{Duration, Instant};

/// What an input may take.
const LONGEST: Duration = Duration::from_secs(30);

/// SplitMix64: a number from a seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

/// What readers stumble over.
const WORDS: [&[u8]; 28] = [
    b"null",
    b"NaN",
    b"-1",
    b"0",
    b"1e308",
    b"-1e308",
    b"1e-320",
    b"true",
    b"9007199254740993",
    b"4294967295",
    b"18446744073709551616",
    b"\"\"",
    b"{}",
    b"[]",
    b"[[[[[[[[",
    b"{{",
    b"}}",
    b"{%",
    b"%}",
    b"\\u0000",
    b"\xff\xfe",
    b"\n",
    b"\r\n",
    b"\x00",
    b"'",
    b"\"",
    b"..",
    b"\xef\xbb\xbf",
];

/// `seed` with one to four changes.
fn mutated(seed: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len() + 1);
        let end = (at + random.below(40)).min(bytes.len());
        match random.below(8) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            1 => bytes.truncate(at),
            2 => drop(bytes.drain(at..end)),
            3 => drop(bytes.splice(at..at, WORDS[random.below(WORDS.len())].iter().copied())),
            4 => drop(bytes.splice(at..end, WORDS[random.below(WORDS.len())].iter().copied())),
            5 => {
                let piece = bytes[at..end].repeat(1 + random.below(20));
                drop(bytes.splice(at..at, piece));
            }
            6 => replace_a_number(&mut bytes, at, random),
            _ => bytes[at..end].fill(random.next() as u8),
        }
    }
    bytes
}

/// Puts a word in place of the next number after `at`, so that the input often keeps its form.
fn replace_a_number(bytes: &mut Vec<u8>, at: usize, random: &mut Random) {
    let of_number = |b: &u8| b.is_ascii_digit() || b"+-.eE".contains(b);
    let Some(start) = bytes[at..].iter().position(u8::is_ascii_digit).map(|i| at + i) else { return };
    let length = bytes[start..].iter().take_while(|b| of_number(b)).count();
    let word = WORDS[random.below(14)];
    drop(bytes.splice(start..start + length, word.iter().copied()));
}

/// FNV-1a, so that readers get different inputs.
fn number_of(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

/// Gives `read` mutations of the seeds; its error, where there is one, must not be empty.
pub(crate) fn fuzz(
    name: &str,
    times: u64,
    seeds: &[Vec<u8>],
    mut read: impl FnMut(&[u8]) -> Result<(), String>,
) {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let (times, first) =
        (number("GRPO_LAMBDA_FUZZ").unwrap_or(times), number("GRPO_LAMBDA_FUZZ_SEED").unwrap_or(0));
    let (mut refused, mut slowest, started) = (0, (Duration::ZERO, first), Instant::now());
    for i in first..first + times {
        let mut random = Random(i ^ number_of(name));
        let seed = &seeds[random.below(seeds.len())];
        let bytes = mutated(seed, &mut random);
        let (began, shown) =
            (Instant::now(), String::from_utf8_lossy(&bytes[..bytes.len().min(300)]).into_owned());
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| read(&bytes)));
        let done = done.unwrap_or_else(|_| panic!("{name}, input {i} panics: {shown:?}"));
        slowest = slowest.max((began.elapsed(), i));
        assert!(slowest.0 < LONGEST, "{name}, input {i} takes {:?}: {shown:?}", slowest.0);
        if let Err(problem) = done {
            refused += 1;
            assert!(!problem.trim().is_empty(), "{name}, input {i}: {shown:?}");
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    eprintln!("{name}: {times} inputs, {refused} refused, {seconds:.1} s, slowest {slowest:?}");
    assert!(refused > 0, "{name}: nothing was refused, so nothing was tried");
    assert!(
        refused < times,
        "{name}: everything was refused, so what lies after the first check was not tried"
    );
    if let Some(path) = std::env::var_os("GRPO_LAMBDA_FUZZ_TABLE") {
        let milliseconds = slowest.0.as_secs_f64() * 1e3;
        let line = format!("{name},{times},{first},{refused},{seconds:.0},{milliseconds:.1},{}\n", slowest.1);
        let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
        file.unwrap().write_all(line.as_bytes()).unwrap();
    }
}

/// Seeds that are texts.
#[allow(dead_code)] // those of bodies are JSON
pub(crate) fn texts(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}
