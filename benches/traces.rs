//! Traces in linear time against the dense matrix they replace.
//!
//! `cargo bench -p grpo-lambda-benches --bench traces` measures `apply`, `adjoint` and a whole loss with its gradient, then prints a closing table:
//! time per token at each length (flat = linear growth) and, in the same run, the ratio to the dense `T x T` form.

use criterion::{BenchmarkId, Criterion, Throughput};
use grpo_lambda::advantage::{Baseline, OutcomeAdvantage, Scale, Std};
use grpo_lambda::assignment::OutcomeCredit;
use grpo_lambda::group::{Group, Response};
use grpo_lambda::methods::{Credit, Method};
use grpo_lambda::objective::Objective;
use grpo_lambda::ratio::TraceRatio;
use grpo_lambda::reduction::Reduction;
use grpo_lambda::surrogate::Surrogate;
use grpo_lambda::trace::{Both, Recent, Trace, dense};
use std::hint::black_box;
use std::time::{Duration, Instant};

const LENGTHS: [usize; 4] = [256, 1024, 4096, 16_384];
/// The dense matrix of 16,384 tokens would take 2 GiB.
const LONGEST_DENSE: usize = 4096;
const Q: f64 = 0.99;

/// The matrix form: built once for one length, outside the measured time, as an implementation that caches it would.
#[derive(Debug)]
struct Dense {
    rows: Vec<Vec<f64>>,
}

impl Trace for Dense {
    fn weight(&self, t: usize, k: usize, _: usize) -> f64 {
        self.rows[t][k]
    }
    fn apply_into(&self, x: &[f64], z: &mut [f64]) {
        for (z, row) in z.iter_mut().zip(&self.rows) {
            *z = row.iter().zip(x).map(|(e, x)| e * x).sum();
        }
    }
    fn adjoint_into(&self, y: &[f64], g: &mut [f64]) {
        g.fill(0.0);
        for (row, y) in self.rows.iter().zip(y) {
            for (g, e) in g.iter_mut().zip(row) {
                *g += e * y;
            }
        }
    }
}

type Make = fn() -> Box<dyn Trace>;
const TRACES: [(&str, Make); 2] =
    [("recent", || Box::new(Recent { q: Q })), ("both", || Box::new(Both { q: Q }))];

fn objective(trace: Box<dyn Trace>) -> Objective {
    Objective {
        assignment: Box::new(OutcomeCredit::constant(OutcomeAdvantage {
            baseline: Baseline::GroupMean,
            scale: Scale::Group(Std::TRL),
            clamp: Some(-0.1),
        })),
        ratio: Box::new(TraceRatio(trace)),
        unit_mean: false,
        surrogate: Surrogate::Clip { low: 0.2, high: 0.2 },
        kl: None,
        reduction: Reduction::TokenMean,
        mask_truncated: false,
        correction: None,
    }
}

/// A response, its credit and current log-probabilities one small step away.
fn work(len: usize) -> (Response, Credit, Vec<f64>) {
    let old: Vec<f64> = (0..len).map(|t| -0.5 - ((t * 37) % 101) as f64 / 50.0).collect();
    let new: Vec<f64> = old.iter().enumerate().map(|(t, l)| l + 1e-3 * ((t as f64) * 1.7).sin()).collect();
    let group = Group { responses: vec![Response::graded(old.clone(), 1.0), Response::graded(old, 0.0)] };
    let credit = objective(Box::new(Recent { q: Q })).credit(std::slice::from_ref(&group)).swap_remove(0);
    (group.responses[0].clone(), credit, new)
}

fn benches(criterion: &mut Criterion) {
    for (name, make) in TRACES {
        let mut group = criterion.benchmark_group(name);
        group
            .sample_size(20)
            .warm_up_time(Duration::from_millis(200))
            .measurement_time(Duration::from_millis(600));
        for len in LENGTHS {
            let (response, credit, logps) = work(len);
            let (trace, loss) = (make(), objective(make()));
            let mut out = vec![0.0; len];
            group.throughput(Throughput::Elements(len as u64));
            group.bench_function(BenchmarkId::new("apply", len), |b| {
                b.iter(|| trace.apply_into(black_box(&logps), &mut out));
            });
            group.bench_function(BenchmarkId::new("adjoint", len), |b| {
                b.iter(|| trace.adjoint_into(black_box(&logps), &mut out));
            });
            group.bench_function(BenchmarkId::new("loss and gradient", len), |b| {
                b.iter(|| loss.loss(&response, &credit, black_box(&logps)));
            });
        }
        group.finish();
    }
}

/// Seconds of one call, from the fastest of 25 batches of about a millisecond: what the work takes when nothing else holds
/// the processor.
fn fastest(mut call: impl FnMut()) -> f64 {
    call();
    let once = Instant::now();
    call();
    let calls = (1e-3 / once.elapsed().as_secs_f64().max(1e-9)).ceil().clamp(1.0, 1e5) as u32;
    let mut time = || {
        let start = Instant::now();
        (0..calls).for_each(|_| call());
        start.elapsed().as_secs_f64() / f64::from(calls)
    };
    (0..25).map(|_| time()).fold(f64::INFINITY, f64::min)
}

fn closing_table() {
    println!("\n| trace | what | T | ns/token | dense ns/token | dense / linear |");
    println!("| --- | --- | ---: | ---: | ---: | ---: |");
    for (name, make) in TRACES {
        for len in LENGTHS {
            let (response, credit, logps) = work(len);
            let (trace, linear) = (make(), objective(make()));
            let rows = if len <= LONGEST_DENSE { dense(trace.as_ref(), len) } else { Vec::new() };
            let matrix = Dense { rows };
            let mut out = vec![0.0; len];
            let row = |what: &str, ours: f64, theirs: Option<f64>| {
                let per_token = 1e9 / len as f64;
                let (d, ratio) = theirs.map_or(("-".to_owned(), "-".to_owned()), |d| {
                    (format!("{:.1}", d * per_token), format!("{:.0}", d / ours))
                });
                println!("| {name} | {what} | {len} | {:.1} | {d} | {ratio} |", ours * per_token);
            };
            let small = len <= LONGEST_DENSE;
            let ours = fastest(|| trace.apply_into(black_box(&logps), &mut out));
            row("apply", ours, small.then(|| fastest(|| matrix.apply_into(black_box(&logps), &mut out))));
            let ours = fastest(|| trace.adjoint_into(black_box(&logps), &mut out));
            row("adjoint", ours, small.then(|| fastest(|| matrix.adjoint_into(black_box(&logps), &mut out))));
            let ours = fastest(|| drop(black_box(linear.loss(&response, &credit, black_box(&logps)))));
            let dense_loss = objective(Box::new(matrix));
            row(
                "loss and gradient",
                ours,
                small.then(|| {
                    fastest(|| drop(black_box(dense_loss.loss(&response, &credit, black_box(&logps)))))
                }),
            );
        }
    }
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
