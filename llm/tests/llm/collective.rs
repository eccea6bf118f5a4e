//! Several workers are one: bit for bit whatever their number, and none waits for one that failed.

use std::sync::mpsc;
use std::time::Duration;

use grpo_lambda::group::{Group, Response};
use grpo_lambda::learner::{self, Policy, Scored};
use grpo_lambda::methods::{self, Configured, Method};
use grpo_lambda_decoder::model::{Config, Decoder, ForwardOptions, Rows, Tape, weights};
use grpo_lambda_decoder::optim::{AdamW, AdamWSettings, StepOutcome};
use grpo_lambda_decoder::rollout::SamplingParams;
use grpo_lambda_llm::config::MemoryConfig;
use grpo_lambda_llm::step::collective::run::DistributedRun;
use grpo_lambda_llm::step::collective::threads::{TeamFailure, run};
use grpo_lambda_llm::step::collective::training::{DistributedReport, train};
use grpo_lambda_llm::step::collective::{
    Collective, CollectiveError, ShardPolicy, Shards, SingleWorker, Threads, TreeSum, UpdateReport,
    UpdateSettings, Worker, WorkerError,
};
use grpo_lambda_llm::step::engine::{CpuEngine, Engine, TrainingSetup};
use grpo_lambda_llm::step::sft::{self, Example};
use proptest::prelude::*;

/// Small micro-batches, so that a shard of several rows has several.
const MEMORY: MemoryConfig = MemoryConfig { micro_batch_tokens: 24, recompute_layers: false };
const VOCABULARY: u32 = 23;

/// What `work` returns, or a failure if that takes long: a test of waiting must not wait.
fn within<T: Send + 'static>(seconds: u64, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || drop(send.send(work())));
    receive.recv_timeout(Duration::from_secs(seconds)).expect("somebody waits for ever, or panicked")
}

fn shape(tied: bool) -> Config {
    let config = Config { intermediate_size: 24, ..Config::qwen2(VOCABULARY as usize, 16, 2, 4, 2) };
    Config { tie_word_embeddings: tied, ..config }
}

fn model(shape: &Config, seed: u64) -> Decoder<f32> {
    Decoder::new(shape.clone(), weights::initialise(shape, seed, 0.3)).unwrap()
}

fn adam() -> AdamWSettings {
    AdamWSettings { weight_decay: 0.01, max_grad_norm: Some(0.5), ..AdamWSettings::default() }
}

fn optimiser(model: &Decoder<f32>) -> AdamW {
    AdamW::new(adam(), model.parameters().iter().map(|(n, t)| (n.clone(), t.data.clone())))
}

fn worker<C: Collective>(shape: &Config, collective: C, shards: usize) -> Result<Worker<C>, WorkerError> {
    let model = model(shape, 1);
    let optimiser = optimiser(&model);
    Worker::new(model, optimiser, collective, shards, MEMORY)
}

/// Ragged tokens that differ from row to row.
fn tokens(row: usize, len: usize) -> Vec<u32> {
    (0..len).map(|t| ((row * 7 + t * t + 3 * t) % VOCABULARY as usize) as u32).collect()
}

fn examples(rows: usize, salt: usize) -> Vec<Example> {
    let one = |i: usize| Example {
        prompt: tokens(i + salt, 1 + (i * 5 + salt) % 7),
        response: tokens(i + 2 * salt + 1, 1 + (i * 3 + salt) % 9),
    };
    (0..rows).map(one).collect()
}

/// Rewards that differ within every group, one missing now and then.
fn grade(prompt: &[u32], response: &[u32]) -> Option<f64> {
    let sum: u32 = prompt.iter().chain(response).sum();
    (!sum.is_multiple_of(11)).then(|| f64::from(sum % 5) / 4.0 + f64::from(response[0] % 3))
}

/// Three batches of examples and three of prompts: more rows than shards, fewer, one; groups of five, which straddle any cut.
fn taught<C: Collective>(
    side: C,
    shape: &Config,
    shards: usize,
    method: &Configured,
    inner_updates: usize,
) -> Result<(DistributedReport, usize), WorkerError> {
    let batches: Vec<Vec<Example>> = [13, 3, 1].into_iter().map(|rows| examples(rows, rows)).collect();
    let prompts: Vec<Vec<Vec<u32>>> =
        [3, 1, 5].into_iter().map(|n| (0..n).map(|p| tokens(p + 40 * n, 2 + p)).collect()).collect();
    let reference = model(shape, 2);
    let mut worker = worker(shape, side, shards)?;
    let plan = DistributedRun {
        examples: &batches,
        sft_rate: 1e-2,
        prompts: &prompts,
        group_size: 5,
        sampling: SamplingParams { max_new_tokens: 12, min_new_tokens: 0, temperature: 1.3 },
        eos: &[4, 9],
        grade: &grade,
        method: method.method.as_ref(),
        reference: Some(&reference),
        settings: UpdateSettings { rate: 3e-3, temperature: 1.3, inner_updates },
        seed: 5,
    };
    Ok((train(&mut worker, &plan)?, worker.buffers()))
}

fn grpo_lambda() -> Configured {
    methods::parse("grpo_lambda", "lambda=0.9 beta=0.05 reduction=token_mean").unwrap()
}

/// What a worker's update reads of a lesson.
fn plan(method: &dyn Method, settings: UpdateSettings) -> DistributedRun<'_> {
    let sampling =
        SamplingParams { max_new_tokens: 12, min_new_tokens: 0, temperature: settings.temperature };
    DistributedRun {
        examples: &[],
        sft_rate: 1e-2,
        prompts: &[],
        group_size: 5,
        sampling,
        eos: &[4, 9],
        grade: &grade,
        method,
        reference: None,
        settings,
        seed: 5,
    }
}

/// Everything that is reported, too: losses, gradient norms, metrics, the sampled batches.
#[test]
fn any_number_of_workers_learns_to_the_bits_of_one() {
    within(240, || {
        let cases = [(true, grpo_lambda(), 2), (false, methods::parse("dapo", "").unwrap(), 1)];
        for (tied, method, inner) in cases {
            let shape = shape(tied);
            let (alone, _) = taught(SingleWorker, &shape, 8, &method, inner).unwrap();
            let lengths: Vec<usize> =
                alone.batches.iter().flatten().flat_map(|g| &g.responses).map(Response::len).collect();
            assert!(lengths.iter().max() > lengths.iter().min(), "rows are not ragged: {lengths:?}");
            let updates = alone.updates.iter().flat_map(|u| &u.updates);
            assert_eq!(updates.filter(|u| matches!(u, StepOutcome::Applied { .. })).count(), 3 * inner);
            // Before the first update of a batch, whoever scores a response gives it the numbers of whoever sampled it.
            let moved = |u: &UpdateReport| u.metrics.log_ratio_max > 0.0;
            assert!(alone.updates.iter().all(|u| moved(u) == (inner > 1)));
            for workers in [1usize, 2, 4, 8] {
                let all = run(workers, |side| taught(side, &shape, 8, &method, inner)).unwrap();
                assert_eq!(all.len(), workers);
                for (rank, (taught, buffers)) in all.into_iter().enumerate() {
                    assert_eq!(taught, alone, "{workers} workers, rank {rank}");
                    assert_eq!(buffers, (8 / workers).ilog2() as usize + 1, "{workers} workers");
                }
            }
            // The number of shards is another matter: the test above could fail.
            let (other, _) = taught(SingleWorker, &shape, 2, &method, inner).unwrap();
            assert_ne!(other.digest, alone.digest);
        }
    });
}

/// The plain learner's policy: one gradient, rows one after the other, no shards.
struct Plain {
    engine: CpuEngine,
    settings: UpdateSettings,
    updates: Vec<StepOutcome>,
}

impl Policy for Plain {
    type Prompt = Vec<u32>;
    type Tape = Tape<f32>;
    type Error = WorkerError;

    fn sample(&mut self, _: &[Vec<u32>], _: usize) -> Result<Vec<Group>, WorkerError> {
        Ok(Vec::new())
    }

    fn log_probs(
        &self,
        prompts: &[Vec<u32>],
        batch: &[Group],
        part: std::ops::Range<usize>,
    ) -> Result<Scored<Tape<f32>>, WorkerError> {
        let mut rows = Rows::new();
        for (prompt, group) in prompts.iter().zip(batch) {
            let (last, shared) = prompt.split_last().unwrap();
            rows.share(shared);
            group.responses.iter().for_each(|r| rows.push(&[&[*last], &r.tokens[..]].concat(), 1));
        }
        assert_eq!(part, 0..rows.len());
        let options = ForwardOptions { temperature: self.settings.temperature, ..ForwardOptions::default() };
        let (scores, tape) = self.engine.forward(&rows, options)?;
        Ok((scores.logps, tape))
    }

    fn backward(&mut self, tape: Tape<f32>, dlogps: &[Vec<f64>]) -> Result<(), WorkerError> {
        Ok(self.engine.backward(tape, dlogps)?)
    }

    fn step(&mut self) -> Result<(), WorkerError> {
        let update = self.engine.step(self.settings.rate)?;
        self.updates.push(update);
        Ok(())
    }
}

fn plain(shape: &Config, settings: UpdateSettings) -> Plain {
    let engine = CpuEngine::new(model(shape, 1), TrainingSetup::new(adam())).unwrap();
    Plain { engine, settings, updates: Vec::new() }
}

/// Groups of these sizes with rewards, and their prompts; log-probabilities of the sampler are near those of the model.
fn batch(shape: &Config, sizes: &[usize], settings: UpdateSettings) -> (Vec<Vec<u32>>, Vec<Group>) {
    let prompts: Vec<Vec<u32>> = (0..sizes.len()).map(|p| tokens(p, 1 + p % 4)).collect();
    let model = model(shape, 1);
    let group = |(p, size): (usize, &usize)| {
        let response = |i: usize| {
            let mut rows = Rows::new();
            let answer = tokens(10 * p + i, 1 + (3 * i + p) % 8);
            rows.push(&[&prompts[p][..], &answer].concat(), prompts[p].len());
            let options = ForwardOptions { temperature: settings.temperature, ..ForwardOptions::default() };
            let mut logps = model.score(&rows, options).unwrap().logps.remove(0);
            logps.iter_mut().enumerate().for_each(|(t, l)| *l += 0.05 * ((t + i) as f64).sin());
            Response { tokens: answer, ..Response::graded(logps, (i % 3) as f64 + 0.25 * p as f64) }
        };
        Group { responses: (0..*size).map(response).collect() }
    };
    let groups = sizes.iter().enumerate().map(group).collect();
    (prompts, groups)
}

const UPDATE_SETTINGS: UpdateSettings = UpdateSettings { rate: 1e-2, temperature: 0.9, inner_updates: 2 };

/// So the loss over workers is the loss: B6, B7 and B9 with the theory crate's learner as judge.
#[test]
fn one_shard_has_the_bits_of_the_plain_learner_and_many_its_losses_and_its_gradient() {
    let shape = shape(true);
    let method = methods::parse("grpo_lambda", "lambda=0.9 reduction=token_mean").unwrap().method;
    let (prompts, groups) = batch(&shape, &[5, 2, 4], UPDATE_SETTINGS);
    let mut judge = plain(&shape, UPDATE_SETTINGS);
    let metrics = learner::update(&mut judge, method.as_ref(), &prompts, &groups, 2).unwrap();
    let update = |shards: usize, inner_updates: usize| -> (UpdateReport, u32, AdamW) {
        let mut worker = worker(&shape, SingleWorker, shards).unwrap();
        let settings = UpdateSettings { inner_updates, ..UPDATE_SETTINGS };
        let plan = plan(method.as_ref(), settings);
        let updated = ShardPolicy::new(&mut worker, &plan, 0).update(&prompts, &groups).unwrap();
        (updated, worker.digest(), worker.optimiser().clone())
    };
    let (one, _, after) = update(1, 2);
    assert_eq!((&one.metrics, &one.updates), (&metrics, &judge.updates));
    assert_eq!(after, judge.engine.optimiser);

    // More shards: the first loss from the very same log-probabilities, the gradient but for the last digits.
    let norm = |update: &StepOutcome| match update {
        StepOutcome::Applied { grad_norm, .. } => *grad_norm,
        StepOutcome::Skipped { .. } => panic!("{update:?}"),
    };
    let first = update(1, 1).0;
    for shards in [2, 8, 32] {
        let (many, _, _) = update(shards, 1);
        assert_eq!((many.loss, &many.metrics), (first.loss, &first.metrics));
        let ratio = norm(&many.updates[0]) / norm(&judge.updates[0]);
        assert!((ratio - 1.0).abs() < 1e-5, "{shards} shards: {ratio}");
    }
}

#[test]
fn one_shard_imitates_to_the_bits_of_the_plain_step() {
    let shape = shape(true);
    let mut judge = plain(&shape, UPDATE_SETTINGS);
    let mut worker = worker(&shape, SingleWorker, 1).unwrap();
    for step in 0..3 {
        let examples = examples(7, step);
        let whole = MemoryConfig { micro_batch_tokens: 10_000, ..MEMORY };
        let theirs = sft::step(&mut judge.engine, &examples, 1e-2, whole).unwrap();
        let ours = worker.sft_step(&examples, 1e-2).unwrap();
        assert_eq!(ours, theirs);
    }
    assert_eq!(worker.optimiser(), &judge.engine.optimiser);
    assert_eq!(worker.model().parameters(), judge.engine.model.parameters());
}

/// The reward of one group is not a number, so only the worker that owns its rows has a gradient that is not.
#[test]
fn a_gradient_that_is_not_finite_in_one_worker_skips_the_step_of_all() {
    within(60, || {
        let shape = shape(true);
        let method = methods::parse("grpo", "").unwrap();
        let (prompts, good) = batch(&shape, &[2, 2, 2, 2], UPDATE_SETTINGS);
        let mut bad = good.clone();
        bad[2].responses[1].reward = Some(f64::NAN);
        let steps = |side: &mut Threads| {
            let mut worker = worker(&shape, side, 4)?;
            let plan = plan(method.method.as_ref(), UPDATE_SETTINGS);
            let start = worker.digest();
            let skipped = ShardPolicy::new(&mut worker, &plan, 0).update(&prompts, &bad)?.updates;
            assert_eq!(worker.digest(), start);
            let applied = ShardPolicy::new(&mut worker, &plan, 1).update(&prompts, &good)?.updates;
            Ok::<_, WorkerError>((skipped, applied, worker.digest()))
        };
        let alone = run(1, steps).unwrap().remove(0);
        assert!(alone.0.iter().all(|u| matches!(u, StepOutcome::Skipped { .. })), "{:?}", alone.0);
        assert!(alone.1.iter().all(|u| matches!(u, StepOutcome::Applied { .. })), "{:?}", alone.1);
        for workers in [2, 4] {
            assert_eq!(run(workers, steps).unwrap(), vec![alone.clone(); workers]);
        }
    });
}

/// All ways to stop, in each worker, met by the others in each of the calls.
#[test]
fn a_worker_that_fails_panics_or_leaves_breaks_the_calls_of_all_others_and_is_named() {
    type Wait = fn(&mut Threads) -> Result<(), CollectiveError>;
    let calls: [Wait; 4] = [
        |side| side.barrier(),
        |side| side.all_reduce(&mut [1.0; 3]),
        |side| side.gather(&[vec![1.0]]).map(drop),
        |side| side.broadcast(0, &mut [1.0; 3]),
    ];
    for how in ["fails", "panics", "leaves", "aborts"] {
        for (culprit, call) in (0..4).zip(calls) {
            let seen = within(20, move || {
                let (send, receive) = mpsc::channel();
                let outcome: Result<Vec<()>, TeamFailure<String>> = run(4, |side| {
                    side.barrier().map_err(|e| e.to_string())?;
                    if side.rank() == culprit {
                        match how {
                            "fails" => return Err("the disk is full".to_owned()),
                            "panics" => panic!("index out of range"),
                            "leaves" => return Ok(()),
                            _ => {
                                side.abort("enough");
                                assert!(call(side).is_err());
                                return Ok(());
                            }
                        }
                    }
                    let error = call(side).expect_err("nobody else can have come");
                    // The next call does not wait either.
                    assert_eq!(side.barrier(), Err(error.clone()));
                    send.clone().send(error.clone()).unwrap();
                    Err(error.to_string())
                });
                let broken = outcome.expect_err("a worker failed");
                assert_eq!(broken.rank, culprit, "{how}: {broken}");
                assert_eq!(broken.error.is_some(), how == "fails");
                drop(send);
                (broken.reason, receive.iter().collect::<Vec<_>>())
            });
            let expected = match how {
                "fails" => "the disk is full",
                "panics" => "it panicked: index out of range",
                "leaves" => "it left while other workers waited for it",
                _ => "enough",
            };
            let failed = CollectiveError::Failed { rank: culprit, reason: expected.to_owned() };
            assert_eq!(seen, (expected.to_owned(), vec![failed; 3]), "{how}");
        }
    }
}

#[test]
fn a_worker_that_ends_after_the_last_call_breaks_nothing() {
    let late = |side: &mut Threads| {
        side.barrier().map_err(|e| e.to_string())?;
        // The others have left by then, and that is no failure of theirs.
        std::thread::sleep(Duration::from_millis(50 * side.rank() as u64));
        if side.rank() == 3 { Err("my own fault".to_owned()) } else { Ok(side.rank()) }
    };
    let broken = within(20, move || run(4, late)).expect_err("worker 3 failed");
    assert_eq!((broken.rank, broken.reason.as_str()), (3, "my own fault"));
}

/// A token outside the vocabulary in the shard of worker 2: its model refuses, the others' do not see it.
#[test]
fn an_error_in_one_workers_rows_ends_training_for_all() {
    let broken = within(30, || {
        let shape = shape(true);
        let mut bad = examples(8, 0);
        bad[5].response[0] = VOCABULARY;
        run(4, |side| worker(&shape, side, 4)?.sft_step(&bad, 1e-2)).expect_err("a token is impossible")
    });
    assert_eq!(broken.rank, 2);
    assert!(matches!(broken.error.as_deref(), Some(WorkerError::Model(_))), "{broken}");
    assert!(broken.reason.contains("outside the vocabulary"), "{broken}");
}

/// B29: the others may not train on with what one alone has loaded, restored or lost.
#[test]
fn replicas_that_differ_in_a_single_bit_are_stopped() {
    let outcomes = within(30, || {
        let shape = shape(false);
        let bits = |side: &mut Threads, moments: bool| {
            let mut model = model(&shape, 1);
            let mut optimiser = optimiser(&model);
            if side.rank() == 3 && moments {
                let zeros: Vec<_> =
                    optimiser.parameters().map(|(n, w)| (n.to_owned(), vec![0.0; w.len()])).collect();
                let zeros: Vec<(&str, &[f32])> =
                    zeros.iter().map(|(n, z)| (n.as_str(), z.as_slice())).collect();
                optimiser.step(0.0, &zeros)?;
            } else if side.rank() == 3 {
                model.update(|p| {
                    let last = &mut p.get_mut("model.norm.weight").unwrap().data[15];
                    *last = f32::from_bits(last.to_bits() ^ 1);
                });
            }
            Worker::new(model, optimiser, side, 4, MEMORY).map(drop)
        };
        [true, false].map(|moments| run(4, |side| Ok::<_, WorkerError>(bits(side, moments).unwrap_err())))
    });
    for outcome in outcomes {
        for error in outcome.unwrap() {
            let WorkerError::Collective(CollectiveError::Diverged { rank, .. }) = error else {
                panic!("{error}")
            };
            assert_eq!(rank, 3);
        }
    }
}

#[test]
fn workers_at_different_calls_are_told_so() {
    let parted = |call: fn(&mut Threads) -> Result<(), CollectiveError>| {
        let both = move || {
            run(2, |side| {
                let outcome = if side.rank() == 0 { side.all_reduce(&mut [0.0; 4]) } else { call(side) };
                Ok::<_, String>(outcome.expect_err("they differ"))
            })
        };
        let errors = within(20, both).unwrap();
        assert_eq!(errors[0], errors[1]);
        errors[0].to_string()
    };
    let start = "worker 1 calls ";
    let end = " where worker 0 calls all_reduce of 4 numbers; all must make the same calls";
    assert_eq!(parted(|side| side.barrier()), format!("{start}barrier{end}"));
    assert_eq!(parted(|side| side.gather(&[]).map(drop)), format!("{start}gather{end}"));
    assert_eq!(parted(|side| side.all_reduce(&mut [])), format!("{start}all_reduce of 0 numbers{end}"));
    let cast = parted(|side| side.broadcast(1, &mut [0.0; 4]));
    assert_eq!(cast, format!("{start}broadcast of 4 numbers from worker 1{end}"));
    for workers in [0, 3, 6] {
        let refused = run(workers, |_| Ok::<_, String>(())).unwrap_err();
        assert_eq!(refused.reason, format!("workers = {workers}; must be a power of two"));
    }
    assert_eq!(SingleWorker.broadcast(1, &mut []), Err(CollectiveError::Root { root: 1, workers: 1 }));
}

/// Eight numbers whose sum has three values under three associations.
const ADVERSARIAL: [f32; 8] = [1e8, 3.0, -1e8, 5.0, 0.1, 7e7, -7e7, 0.3];

#[test]
fn all_reduce_adds_along_the_tree_written_out_by_hand() {
    let l = ADVERSARIAL;
    let two = l[0] + l[1];
    let four = (l[0] + l[1]) + (l[2] + l[3]);
    let eight = ((l[0] + l[1]) + (l[2] + l[3])) + ((l[4] + l[5]) + (l[6] + l[7]));
    let chain = l.iter().fold(0.0, |a, b| a + b);
    assert_ne!(eight, chain, "no test");
    assert_ne!(four, ((l[0] + l[1]) + l[2]) + l[3], "no test");
    for (workers, expected) in [(1usize, l[0]), (2, two), (4, four), (8, eight)] {
        // One more than two chunks, so that chunks and their borders are met; the addends change with the place.
        let len = 2 * (1 << 16) + 1;
        let sums = within(60, move || {
            run(workers, |side| {
                let scale = |i: usize| if i % 3 == 1 { 2.0 } else { 1.0 };
                let mut values: Vec<f32> = (0..len).map(|i| l[side.rank()] * scale(i)).collect();
                side.all_reduce(&mut values).map(|()| values)
            })
        });
        for values in sums.unwrap() {
            assert_eq!(values.len(), len);
            for (i, value) in values.iter().enumerate() {
                let expected = if i % 3 == 1 { 2.0 * expected } else { expected };
                assert_eq!(value.to_bits(), expected.to_bits(), "{workers} workers, {i}");
            }
        }
    }
}

#[test]
fn gathered_rows_and_broadcast_numbers_keep_every_bit() {
    let row = |rank: usize, i: usize| -> Vec<f64> {
        let odd =
            [-0.0, f64::MIN_POSITIVE / 8.0, f64::from_bits(0x7ff8_0000_0000_1234), f64::NEG_INFINITY, 0.1];
        odd.iter().copied().cycle().skip(rank).take((rank * 3 + i) % 7).collect()
    };
    let rows =
        move |rank: usize| -> Vec<Vec<f64>> { (0..[2, 0, 5, 1][rank]).map(|i| row(rank, i)).collect() };
    let all: Vec<Vec<f64>> = (0..4).flat_map(rows).collect();
    let bits = |rows: &[Vec<f64>]| -> Vec<Vec<u64>> {
        rows.iter().map(|r| r.iter().map(|x| x.to_bits()).collect()).collect()
    };
    let got = within(20, move || {
        run(4, |side| {
            let gathered = side.gather(&rows(side.rank()))?;
            let mut values = [side.rank() as f32 * 0.1, -0.0];
            side.broadcast(2, &mut values)?;
            Ok::<_, CollectiveError>((gathered, values.map(f32::to_bits)))
        })
    });
    for (gathered, values) in got.unwrap() {
        assert_eq!(bits(&gathered), bits(&all));
        assert_eq!(values, [0.2f32.to_bits(), (-0.0f32).to_bits()]);
    }
}

/// The kernel of the GPU workers, compiled as C and run thread by thread.
#[test]
fn the_kernel_that_adds_on_a_gpu_adds_along_the_same_tree() {
    let source = include_str!("../../src/step/collective/tree_sum.cu").replace("extern \"C\" ", "");
    let harness = format!(
        "#include <stdio.h>\n#include <stdlib.h>\n#define __global__\n\
         typedef struct {{ unsigned x; }} dim; static dim blockIdx, blockDim, threadIdx;\n\
         static float __fadd_rn(float a, float b) {{ volatile float c = a + b; return c; }}\n{source}\n\
         int main(int argc, char **argv) {{\n\
         unsigned workers = atoi(argv[1]); unsigned long long n = atoi(argv[2]);\n\
         float *part = malloc(4 * n * workers), *out = malloc(4 * n);\n\
         if (argc != 3 || fread(part, 4, n * workers, stdin) != n * workers) return 1;\n\
         blockDim.x = 8;\n\
         for (blockIdx.x = 0; blockIdx.x * 8 < n; blockIdx.x++)\n\
         for (threadIdx.x = 0; threadIdx.x < 8; threadIdx.x++) tree_sum(part, out, n, workers);\n\
         return fwrite(out, 4, n, stdout) != n; }}\n"
    );
    let directory = tempfile::tempdir().unwrap();
    let (code, program) = (directory.path().join("tree_sum.c"), directory.path().join("tree_sum"));
    std::fs::write(&code, harness).unwrap();
    // Whoever can link Rust has a C compiler.
    let built = std::process::Command::new("cc").arg("-O2").arg(&code).arg("-o").arg(&program).output();
    let built = built.expect("cc runs");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    for (workers, n) in [(1usize, 5usize), (2, 8), (4, 17), (8, 3)] {
        let value = |r: usize, i: usize| ADVERSARIAL[r] * (1.0 + i as f32 / 7.0);
        let parts: Vec<Vec<f32>> = (0..workers).map(|r| (0..n).map(|i| value(r, i)).collect()).collect();
        let mut fold = TreeSum::default();
        parts.iter().for_each(|part| fold.push(part));
        let input = directory.path().join("input");
        std::fs::write(&input, bytemuck::cast_slice::<f32, u8>(&parts.concat())).unwrap();
        let mut command = std::process::Command::new(&program);
        command.args([workers.to_string(), n.to_string()]).stdin(std::fs::File::open(&input).unwrap());
        let out = command.output().unwrap();
        assert!(out.status.success());
        assert_eq!(out.stdout, bytemuck::cast_slice::<f32, u8>(fold.root().unwrap()), "{workers} {n}");
    }
}

#[derive(Debug, PartialEq)]
struct Step {
    loss: u64,
    digest: u32,
}

fn steps<C: Collective>(side: C, shards: usize, examples: &[Example]) -> Result<Vec<Step>, WorkerError> {
    let mut worker = worker(&shape(true), side, shards)?;
    let step = |_| {
        let report = worker.sft_step(examples, 1e-2)?;
        Ok(Step { loss: report.loss.to_bits(), digest: worker.digest() })
    };
    (0..2).map(step).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    /// Any rows, any cut, any workers: the bits are those of one worker, and every shard's gradient is counted once.
    #[test]
    fn rows_shards_and_workers_of_any_number(
        lengths in prop::collection::vec((1usize..9, 1usize..9), 1..14),
        s in 0u32..5,
        n in 0u32..4,
    ) {
        let (shards, workers) = (1usize << s.max(n), 1usize << n);
        let one = |(i, (p, r)): (usize, &(usize, usize))| Example { prompt: tokens(i, *p), response: tokens(i + 50, *r) };
        let examples: Vec<Example> = lengths.iter().enumerate().map(one).collect();
        let alone = steps(SingleWorker, shards, &examples).unwrap();
        let cut = Shards::new(shards, workers).unwrap();
        prop_assert_eq!((0..workers).map(|r| cut.rows_of(r, examples.len()).len()).sum::<usize>(), examples.len());
        let all = {
            let examples = examples.clone();
            within(60, move || run(workers, |side| steps(side, shards, &examples)))
        };
        for taught in all.unwrap() {
            prop_assert_eq!(&taught, &alone);
        }
    }
}
