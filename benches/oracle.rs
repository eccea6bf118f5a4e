//! The exact oracle on a million responses, and the expected update by implied credit against the enumeration of all groups.
//!
//! Goal: a million responses enumerated with their probabilities in under 5 s. The closing table says how long each
//! stage took, once, without statistics.

use std::hint::black_box;
use std::time::Instant;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use grpo_lambda::methods;
use grpo_lambda_mdp::expected::{Situation, enumerated, implied};
use grpo_lambda_mdp::{Oracle, Tabular, zoo};

fn enumeration(c: &mut Criterion) {
    let mut group = c.benchmark_group("oracle");
    group.sample_size(10);
    for horizon in [4, 5, 6] {
        let tree = zoo::full_tree(11, horizon).expect("a valid tree");
        let policy = Tabular::random(&tree, 0, 1.0);
        group.throughput(Throughput::Elements(tree.leaf_count() as u64));
        group.bench_with_input(BenchmarkId::new("responses", tree.leaf_count()), &tree, |b, tree| {
            b.iter(|| black_box(Oracle::new(tree, &policy)).leaf_probs());
        });
    }
    group.finish();
}

fn expected_update(c: &mut Criterion) {
    let tree = zoo::full_tree(3, 3).expect("a valid tree");
    let policy = Tabular::random(&tree, 0, 1.0);
    let method = methods::parse("grpo_lambda", "lambda=0.9").expect("valid").method;
    let situation = Situation::on_policy(&tree, &policy, 3);
    let mut group = c.benchmark_group("expected update");
    group.sample_size(10);
    group.bench_function("implied credit", |b| b.iter(|| black_box(implied(method.as_ref(), &situation))));
    group.bench_function("every group", |b| b.iter(|| black_box(enumerated(method.as_ref(), &situation))));
    group.finish();
}

fn closing_table(_: &mut Criterion) {
    let start = Instant::now();
    let lap = |from: &mut Instant| {
        let seconds = from.elapsed().as_secs_f64();
        *from = Instant::now();
        seconds
    };
    let mut clock = start;
    let tree = zoo::full_tree(11, 6).expect("a valid tree");
    let build = lap(&mut clock);
    let oracle = Oracle::new(&tree, &Tabular::random(&tree, 0, 1.0));
    let evaluate = lap(&mut clock);
    let total: f64 = oracle.leaf_probs().iter().sum();
    let probabilities = lap(&mut clock);
    println!(
        "\n{} responses: tree {build:.3} s, V, Q, visits {evaluate:.3} s, every probability {probabilities:.3} s; \
         {:.2} s in all (goal 5 s); probabilities sum to 1 within {:.0e}",
        tree.leaf_count(),
        start.elapsed().as_secs_f64(),
        (total - 1.0).abs()
    );
}

criterion_group!(benches, enumeration, expected_update, closing_table);
criterion_main!(benches);
