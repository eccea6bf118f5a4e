//! The exact oracle on trees of growing size: building, dynamic programming, and the enumeration of every response with its
//! probability.
//!
//! `cargo bench --bench oracle` closes with the seconds of each step up to 1,111,111 responses.

use criterion::{Criterion, Throughput};
use grpo_lambda::mdp::zoo::full_tree;
use grpo_lambda::mdp::{Oracle, Tabular, Tree};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Vocabulary (EOS included) and horizon: 1,111 to 1,111,111 responses.
const SIZES: [(usize, usize); 4] = [(11, 3), (11, 4), (11, 5), (11, 6)];

fn tree(vocab: usize, horizon: usize) -> Tree {
    full_tree(vocab, horizon).expect("within the limits")
}

/// Every response with its probability, and the expected reward and length over them.
fn enumerate(oracle: &Oracle) -> (f64, f64) {
    oracle.tree.leaves().zip(oracle.leaf_probs()).fold((0.0, 0.0), |(reward, length), (leaf, p)| {
        (reward + p * oracle.tree.reward(leaf), length + p * oracle.tree.leaf_len(leaf) as f64)
    })
}

fn benches(criterion: &mut Criterion) {
    let mut bench = criterion.benchmark_group("oracle");
    bench
        .sample_size(10)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(800));
    for (vocab, horizon) in &SIZES[..3] {
        let tree = tree(*vocab, *horizon);
        let policy = Tabular::uniform(&tree);
        bench.throughput(Throughput::Elements(tree.leaf_count() as u64));
        bench.bench_function(format!("{} responses", tree.leaf_count()), |b| {
            b.iter(|| enumerate(&Oracle::new(black_box(&tree), &policy)));
        });
    }
    bench.finish();
}

fn closing_table() {
    println!("\n| responses | build s | V, Q, A, visits, grad J s | enumeration s | total s |");
    println!("| ---: | ---: | ---: | ---: | ---: |");
    for (vocab, horizon) in SIZES {
        let start = Instant::now();
        let tree = tree(vocab, horizon);
        let policy = Tabular::uniform(&tree);
        let built = start.elapsed().as_secs_f64();
        let oracle = Oracle::new(&tree, &policy);
        black_box(oracle.grad_j());
        let solved = start.elapsed().as_secs_f64();
        let (j, _) = black_box(enumerate(&oracle));
        let total = start.elapsed().as_secs_f64();
        assert!((j - oracle.j).abs() < 1e-9, "enumeration and dynamic programming disagree");
        println!(
            "| {} | {built:.3} | {:.3} | {:.3} | {total:.3} |",
            tree.leaf_count(),
            solved - built,
            total - solved
        );
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
