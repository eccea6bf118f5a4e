//! Drawing tokens.

use grpo_lambda_decoder::model::ops::log_prob::log_softmax;
use grpo_lambda_decoder::rng::{Address, Purpose, categorical, greedy};
use grpo_lambda_gpu::Buffer;
use grpo_lambda_gpu::Dtype;
use grpo_lambda_gpu::kernels::SampleState;

use super::{Bench, bits, in_every_order, numbers};
use crate::emulator::Order;

/// The state of some rows, on the device.
struct Rows {
    rows: u32,
    most: u32,
    lengths: Buffer,
    produced: Buffer,
    done: Buffer,
    limits: Buffer,
    next: Buffer,
    uniforms: Buffer,
    tokens: Buffer,
    logps: Buffer,
    entropies: Buffer,
    ends: Buffer,
    ends_len: u32,
    live: Buffer,
}

const UNTOUCHED: u32 = u32::MAX;

impl Rows {
    fn new(b: &Bench, most: u32, uniforms: &[f64], ends: &[u32]) -> Self {
        let rows = uniforms.len() / most as usize;
        let cells = vec![f32::from_bits(UNTOUCHED); rows * most as usize];
        Rows {
            rows: rows as u32,
            most,
            lengths: b.raw(&vec![5u32; rows]),
            produced: b.raw(&vec![0u32; rows]),
            done: b.raw(&vec![0u32; rows]),
            limits: b.raw(&vec![most; rows]),
            next: b.raw(&vec![UNTOUCHED; rows]),
            uniforms: b.raw(uniforms),
            tokens: b.raw(&cells),
            logps: b.raw(&cells),
            entropies: b.raw(&cells),
            ends: if ends.is_empty() { b.raw_room::<u32>(1) } else { b.raw(ends) },
            ends_len: ends.len() as u32,
            live: b.raw(&[0u32]),
        }
    }

    fn state(&self) -> SampleState {
        SampleState {
            rows: self.rows,
            most: self.most,
            lengths: self.lengths.address(),
            produced: self.produced.address(),
            done: self.done.address(),
            limits: self.limits.address(),
            next: self.next.address(),
            uniforms: self.uniforms.address(),
            tokens: self.tokens.address(),
            logps: self.logps.address(),
            entropies: self.entropies.address(),
            ends: self.ends.address(),
            ends_len: self.ends_len,
            live: self.live.address(),
        }
    }
}

/// The CPU's way: log-probabilities first, then the token at `u` of theirs.
fn on_the_cpu(logits: &[f32], inverse_temperature: f32, u: f64) -> usize {
    let mut scores = logits.to_vec();
    log_softmax(&mut scores, logits.len(), inverse_temperature);
    categorical(&scores, 1.0, u).unwrap()
}

#[test]
fn tokens_are_those_the_cpu_draws_with_the_log_probabilities_of_training() {
    in_every_order(|b| {
        for (vocabulary, rows) in [(1usize, 2usize), (7, 6), (50, 8), (1000, 4), (32_003, 1)] {
            for it in [1.0f32, 1.0 / 0.7] {
                let mut logits: Vec<f32> = numbers(1, rows * vocabulary).iter().map(|x| 3.0 * x).collect();
                if vocabulary > 10 {
                    logits[..3].fill(f32::NEG_INFINITY);
                }
                let uniforms: Vec<f64> =
                    (0..rows as u64).map(|i| Address::new(2, Purpose::Rollout).response(i).unit(0)).collect();
                let (x, state) = (b.raw(&logits), Rows::new(b, 1, &uniforms, &[]));
                let v = vocabulary as u32;
                b.k.sample(x.address(), 0, v, it, false, &state.state()).unwrap();
                let tokens = b.get_raw::<u32>(&state.tokens);
                let lines = logits.chunks_exact(vocabulary);
                let want: Vec<u32> =
                    lines.zip(&uniforms).map(|(l, u)| on_the_cpu(l, it, *u) as u32).collect();
                assert_eq!(tokens, want);
                let (ids, out) = (b.raw(&tokens), b.raw_room::<f32>(4 * rows));
                b.k.log_prob(x.address(), ids.address(), out.address(), rows as u32, v, it, true).unwrap();
                let trained = b.get_raw::<f32>(&out);
                for row in 0..rows {
                    let drawn = [&state.logps, &state.entropies].map(|x| b.get_raw::<f32>(x)[row]);
                    assert_eq!(bits(&drawn), bits(&trained[4 * row..4 * row + 2]));
                }
            }
        }
    });
}

#[test]
fn thousands_of_draws_differ_from_the_cpu_only_where_rounding_decides() {
    let Some(b) = Bench::new(Order::Forward, Dtype::F32) else { return };
    let (mut draws, mut others) = (0, 0);
    for (vocabulary, rows, most) in [(50usize, 300usize, 10u32), (1000, 250, 10), (32_003, 20, 10)] {
        // Flat ones too: many tokens of nearly one probability, so many edges.
        for spread in [0.3f32, 4.0] {
            let logits: Vec<f32> = numbers(3, rows * vocabulary).iter().map(|x| spread * x).collect();
            let address = |row| Address::new(4, Purpose::Rollout).prompt(vocabulary as u64).response(row);
            let uniforms: Vec<f64> = (0..rows as u64)
                .flat_map(|row| (0..u64::from(most)).map(move |p| address(row).unit(p)))
                .collect();
            let (x, state) = (b.raw(&logits), Rows::new(&b, most, &uniforms, &[]));
            for _ in 0..most {
                b.k.sample(x.address(), 0, vocabulary as u32, 1.0, false, &state.state()).unwrap();
            }
            let tokens = b.get_raw::<u32>(&state.tokens);
            for (row, line) in logits.chunks_exact(vocabulary).enumerate() {
                let mut scores = line.to_vec();
                log_softmax(&mut scores, vocabulary, 1.0);
                for p in 0..most as usize {
                    let (got, u) =
                        (tokens[row * most as usize + p] as usize, uniforms[row * most as usize + p]);
                    let want = categorical(&scores, 1.0, u).unwrap();
                    draws += 1;
                    if got != want {
                        others += 1;
                        // Neighbours whose edge is at u but for the rounding of single log-probabilities.
                        let mass = |j: usize| f64::from(scores[j]).exp();
                        let total: f64 = (0..vocabulary).map(mass).sum();
                        let edge: f64 = (0..got.max(want)).map(mass).sum::<f64>() / total;
                        assert!((edge - u).abs() < 1e-6, "{got}, not {want}, at {u}: the edge is {edge}");
                    }
                }
            }
        }
    }
    println!("{others} of {draws} draws differ from the CPU's");
    assert!(others * 1000 <= draws, "{others} of {draws}");
}

#[test]
fn uniforms_at_the_ends_stay_on_tokens_that_can_be_drawn() {
    in_every_order(|b| {
        for vocabulary in [5usize, 70, 2000] {
            let mut logits = vec![0.5f32; vocabulary];
            logits[..2].fill(f32::NEG_INFINITY);
            logits[vocabulary - 2..].fill(f32::NEG_INFINITY);
            let x = b.raw(&logits.repeat(2));
            let state = Rows::new(b, 1, &[0.0, 1.0 - f64::EPSILON / 2.0], &[]);
            b.k.sample(x.address(), 0, vocabulary as u32, 1.0, false, &state.state()).unwrap();
            assert_eq!(b.get_raw::<u32>(&state.tokens), [2, vocabulary as u32 - 3]);
        }
    });
}

#[test]
fn greedy_takes_the_first_of_the_largest() {
    in_every_order(|b| {
        for vocabulary in [1usize, 5, 64, 3000] {
            let rows = 4;
            let mut logits: Vec<f32> =
                numbers(5, rows * vocabulary).iter().map(|x| (x * 2.0).round()).collect();
            logits[0] = 0.0;
            let x = b.raw(&logits);
            let state = Rows::new(b, 1, &vec![0.9; rows], &[]);
            b.k.sample(x.address(), 0, vocabulary as u32, 1.0, true, &state.state()).unwrap();
            let want: Vec<u32> =
                logits.chunks_exact(vocabulary).map(|line| greedy(line).unwrap() as u32).collect();
            assert_eq!(b.get_raw::<u32>(&state.tokens), want);
        }
    });
}

#[test]
fn logits_without_a_distribution_end_their_row_as_such_and_draw_nothing() {
    in_every_order(|b| {
        for (bad, greedy) in
            [(f32::NAN, false), (f32::NAN, true), (f32::INFINITY, false), (f32::INFINITY, true)]
        {
            let mut logits = numbers(6, 3 * 40);
            logits[41] = bad;
            logits[80..].fill(f32::NEG_INFINITY);
            let (x, state) = (b.raw(&logits), Rows::new(b, 1, &[0.5; 3], &[]));
            b.k.sample(x.address(), 0, 40, 1.0, greedy, &state.state()).unwrap();
            // The first row had a limit of one token.
            assert_eq!(b.get_raw::<u32>(&state.done), [2, 3, 3]);
            assert_eq!(b.get_raw::<u32>(&state.produced), [1, 0, 0]);
            assert_eq!(b.get_raw::<u32>(&state.tokens)[1..], [UNTOUCHED; 2]);
            assert_eq!(b.get_raw::<u32>(&state.next)[1..], [UNTOUCHED; 2]);
        }
    });
}

#[test]
fn rows_end_at_end_tokens_and_limits_and_stay_as_they_are_then() {
    in_every_order(|b| {
        // Greedy over one-hot lines: row i draws from line source[i], whose token is that index.
        let vocabulary = 6;
        let logits: Vec<f32> =
            (0..36).map(|i| if i / vocabulary == i % vocabulary { 1.0 } else { 0.0 }).collect();
        let x = b.raw(&logits);
        let state = Rows::new(b, 3, &[0.5; 15], &[4, 2]);
        let source = b.raw(&[1u32, 2, 3, 4, 0]);
        state.limits.write(0, &[3u32, 3, 2, 1, 0]).unwrap();
        state.done.write(0, &[0u32, 0, 0, 0, 0]).unwrap();
        let mut lives = Vec::new();
        for _ in 0..4 {
            b.k.advance(&state.state()).unwrap();
            b.k.sample(x.address(), source.address(), vocabulary as u32, 1.0, true, &state.state()).unwrap();
            lives.push(b.get_raw::<u32>(&state.live)[0]);
        }
        // Row 1 ends with token 2; row 3 at its end token, though its limit is there too; row 4 may draw nothing.
        assert_eq!(b.get_raw::<u32>(&state.done), [2, 1, 2, 1, 2]);
        assert_eq!(b.get_raw::<u32>(&state.produced), [3, 1, 2, 1, 0]);
        assert_eq!(b.get_raw::<u32>(&state.next), [1, 2, 3, 4, UNTOUCHED]);
        let none = UNTOUCHED;
        let tokens = [[1, 1, 1], [2, none, none], [3, 3, none], [4, none, none], [none; 3]].concat();
        assert_eq!(b.get_raw::<u32>(&state.tokens), tokens);
        assert_eq!(lives, [5, 2, 1, 0]);
        // Prompts of 5 tokens: a row's length grows while it is live.
        assert_eq!(b.get_raw::<u32>(&state.lengths), [8, 6, 7, 6, 6]);
    });
}

#[test]
fn advancing_counts_the_rows_that_live() {
    in_every_order(|b| {
        let rows = 700;
        let state = Rows::new(b, 1, &vec![0.5; rows], &[]);
        let done: Vec<u32> = (0..rows as u32).map(|i| i % 3).collect();
        state.done.write(0, &done).unwrap();
        b.k.advance(&state.state()).unwrap();
        assert_eq!(b.get_raw::<u32>(&state.live), [234]);
        let want: Vec<u32> = done.iter().map(|d| 5 + u32::from(*d == 0)).collect();
        assert_eq!(b.get_raw::<u32>(&state.lengths), want);
    });
}

#[test]
fn frequencies_follow_the_distribution() {
    let Some(b) = Bench::new(Order::Forward, Dtype::F32) else { return };
    let probabilities = [0.5f32, 0.25, 0.0, 0.2, 0.05];
    let (rows, most) = (50usize, 100u32);
    let address = |row| Address::new(8, Purpose::Rollout).response(row);
    let uniforms: Vec<f64> =
        (0..rows as u64).flat_map(|row| (0..u64::from(most)).map(move |p| address(row).unit(p))).collect();
    let (x, state) = (b.raw(&probabilities.map(f32::ln)), Rows::new(&b, most, &uniforms, &[]));
    let source = b.raw(&vec![0u32; rows]);
    for _ in 0..most {
        b.k.sample(x.address(), source.address(), 5, 1.0, false, &state.state()).unwrap();
    }
    let mut counts = [0.0f64; 5];
    b.get_raw::<u32>(&state.tokens).iter().for_each(|t| counts[*t as usize] += 1.0);
    let n = f64::from(most) * rows as f64;
    for (count, p) in counts.iter().zip(probabilities.map(f64::from)) {
        assert!((count / n - p).abs() <= 4.0 * (p * (1.0 - p) / n).sqrt(), "{counts:?}");
    }
}
