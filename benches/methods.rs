//! Every registered method on a batch, and GRPO-lambda on a long group against the cost of its exponentials alone.
//!
//! `cargo bench -p grpo-lambda-benches --bench methods` closes with tokens per second for 64 responses of 4,096 tokens through GRPO-lambda's whole loss
//! and gradient, and the ratio to a bare `exp` loop over as many numbers: what no ratio-based loss can do without.

use criterion::{Criterion, Throughput};
use grpo_lambda::group::{ExtraInputs, Group, Response};
use grpo_lambda::methods::{REGISTRY, configure, evaluate, parse};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// A group with every extra input, half of it right, and current log-probabilities one small step away.
fn group(size: usize, len: usize) -> (Vec<Group>, Vec<Vec<f64>>) {
    let old =
        |i: usize| (0..len).map(|t| -0.5 - ((t * 37 + i * 11) % 101) as f64 / 50.0).collect::<Vec<f64>>();
    let responses: Vec<Response> = (0..size)
        .map(|i| Response {
            tokens: (0..len as u32).map(|t| t % 7).collect(),
            ref_logps: Some(old(i)),
            extra_inputs: ExtraInputs {
                teacher_logps: Some(vec![-0.6; len]),
                ..ExtraInputs::constant(len, 0.5)
            },
            ..Response::graded(old(i), f64::from(i % 2 == 0))
        })
        .collect();
    let step = |r: &Response| {
        r.old_logps.iter().enumerate().map(|(t, l)| l + 1e-3 * ((t as f64) * 1.7).sin()).collect()
    };
    let logps = responses.iter().map(step).collect();
    (vec![Group { responses }], logps)
}

fn benches(criterion: &mut Criterion) {
    let (batch, logps) = group(8, 1024);
    let mut bench = criterion.benchmark_group("loss and gradient, 8 x 1024 tokens");
    bench
        .sample_size(20)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(600));
    bench.throughput(Throughput::Elements(8 * 1024));
    for &spec in REGISTRY {
        let method = configure(spec.name, &[]).expect("defaults are valid").method;
        bench.bench_function(spec.name, |b| b.iter(|| evaluate(method.as_ref(), &batch, black_box(&logps))));
    }
    bench.finish();
}

/// Seconds of the fastest of many calls: what the work takes when nothing else holds the processor.
fn fastest(mut call: impl FnMut()) -> f64 {
    let time = |call: &mut dyn FnMut()| {
        let start = Instant::now();
        call();
        start.elapsed().as_secs_f64()
    };
    (0..50).map(|_| time(&mut call)).fold(f64::INFINITY, f64::min)
}

fn closing_table() {
    let (size, len) = (64, 4096);
    let (batch, logps) = group(size, len);
    let tokens = (size * len) as f64;
    let x: Vec<Vec<f64>> = batch[0]
        .responses
        .iter()
        .zip(&logps)
        .map(|(r, l)| l.iter().zip(&r.old_logps).map(|(n, o)| n - o).collect())
        .collect();
    // Response by response, so that a measured piece is shorter than a time slice of a busy machine.
    let bare: f64 =
        x.iter().map(|x| fastest(|| _ = black_box(black_box(x).iter().map(|x| x.exp()).sum::<f64>()))).sum();
    println!("\n| {size} x {len} tokens | ns/token | tokens/s | ratio to the exp loop |");
    println!("| --- | ---: | ---: | ---: |");
    let row = |name: &str, seconds: f64| {
        let rate = tokens / seconds / 1e6;
        println!("| {name} | {:.2} | {rate:.0} million | {:.2} |", seconds * 1e9 / tokens, seconds / bare);
    };
    row("bare exp loop", bare);
    for (name, settings) in [
        ("grpo_lambda", ""),
        ("grpo_lambda", "style=both"),
        ("grpo_lambda", "update=weight"),
        ("grpo_lambda", "beta=0.04"),
        ("grpo", ""),
    ] {
        let method = parse(name, settings).expect("valid settings").method;
        let credits = method.credit(&batch);
        let losses = batch[0].responses.iter().zip(&credits).zip(&logps);
        let seconds =
            losses.map(|((r, c), l)| fastest(|| drop(black_box(method.loss(r, c, black_box(l)))))).sum();
        row(format!("{name} {settings}").trim(), seconds);
    }
    let method = parse("grpo_lambda", "").expect("valid settings").method;
    row("credit of the batch", fastest(|| drop(black_box(method.credit(black_box(&batch))))));
    row(
        "credit, losses and all gradients kept",
        fastest(|| drop(black_box(evaluate(method.as_ref(), &batch, &logps)))),
    );
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    benches(&mut criterion);
    criterion.final_summary();
    // `cargo test --benches` only checks that everything runs.
    if !std::env::args().any(|a| a == "--test") {
        closing_table();
    }
}
