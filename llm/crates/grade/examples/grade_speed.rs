//! Speed of comparisons on one thread: `cargo run -p grpo-lambda-grade --release --example grade_speed [FILE]`.
//!
//! FILE holds lines `{"gold", "answer"}`; without it the pool of test cases is used. Simple cases (integers, fractions,
//! decimals and pairs in a sentence) come first, then those of FILE in the strict and in the free mode. Each line of
//! the output has comparisons a second, and quantiles of one comparison in microseconds, by the processor time of the
//! thread: other load on the machine does not count.

use std::time::Duration;

use cpu_time::ThreadTime;
use grpo_lambda_grade::Grader;

/// A reference and a response.
type Case = (String, String);

fn simple(i: u32) -> Case {
    let (a, b) = (i % 997, i % 89 + 1);
    let (gold, answer) = match i % 4 {
        0 => (a.to_string(), (a + u32::from(i.is_multiple_of(3))).to_string()),
        1 => (format!("\\frac{{{a}}}{{{b}}}"), format!("{}/{}", 2 * a, 2 * b)),
        2 => (format!("{a}.5"), format!("\\frac{{{}}}{{2}}", 2 * a + 1)),
        _ => (format!("({a}, {b})"), format!("({a},{b})")),
    };
    (gold, format!("Adding up, the answer is \\boxed{{{answer}}}."))
}

fn read(path: &str) -> Vec<Case> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let case = |line: &str| {
        let value: serde_json::Value = serde_json::from_str(line).ok()?;
        Some((value["gold"].as_str()?.to_owned(), value["answer"].as_str()?.to_owned()))
    };
    text.lines().filter_map(case).collect()
}

fn measure(name: &str, grader: Grader, cases: &[Case]) {
    let one = |(gold, answer): &Case| {
        let start = ThreadTime::now();
        let gold = grader.gold([gold.as_str()]).ok()?;
        std::hint::black_box(grader.grade(&gold, answer));
        Some(start.elapsed())
    };
    // Once to warm up, then the measurement.
    let _ = cases.iter().take(1000).filter_map(one).count();
    let mut times: Vec<Duration> = cases.iter().filter_map(one).collect();
    times.sort();
    let at = |q: f64| times[((times.len() - 1) as f64 * q) as usize].as_secs_f64() * 1e6;
    let [median, p99, slowest] = [0.5, 0.99, 1.0].map(at);
    let (n, rate) = (times.len(), times.len() as f64 / times.iter().sum::<Duration>().as_secs_f64());
    println!("{name}: {n} at {rate:.0} a second; us: median {median:.1}, p99 {p99:.1}, slowest {slowest:.1}");
}

fn main() {
    measure("simple cases, strict", Grader::default(), &(0..200_000).map(simple).collect::<Vec<_>>());
    let pool = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/pool/pool.jsonl");
    let path = std::env::args().nth(1).unwrap_or_else(|| pool.to_owned());
    let cases = read(&path);
    measure(&format!("{path}, strict"), Grader::default(), &cases);
    measure(&format!("{path}, free"), Grader::free(), &cases);
}
