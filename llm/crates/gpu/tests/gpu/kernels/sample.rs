//! Drawing tokens.

use grpo_lambda_decoder::model::ops::log_prob::log_softmax;
use grpo_lambda_decoder::rng::{Address, Purpose, categorical, greedy};
use grpo_lambda_decoder::truncation::Truncation;
use grpo_lambda_gpu::Array;
use grpo_lambda_gpu::Dtype;
use grpo_lambda_gpu::kernels::{LogProb, Sample, SampleState};

use super::{Harness, bits, in_every_order, numbers};
use crate::emulator::Order;

/// The state of some rows, on the device.
struct Rows {
    rows: u32,
    max_new_tokens: u32,
    lengths: Array<u32>,
    produced: Array<u32>,
    status: Array<u32>,
    limits: Array<u32>,
    next: Array<u32>,
    uniforms: Array<f64>,
    tokens: Array<u32>,
    logps: Array<f32>,
    entropies: Array<f32>,
    eos: Array<u32>,
}

const UNTOUCHED: u32 = u32::MAX;

impl Rows {
    fn new(b: &Harness, max_new_tokens: u32, uniforms: &[f64], eos: &[u32]) -> Self {
        let rows = uniforms.len() / max_new_tokens as usize;
        let cells = vec![f32::from_bits(UNTOUCHED); rows * max_new_tokens as usize];
        Rows {
            rows: rows as u32,
            max_new_tokens,
            lengths: b.raw(&vec![5u32; rows]),
            produced: b.raw(&vec![0u32; rows]),
            status: b.raw(&vec![0u32; rows]),
            limits: b.raw(&vec![max_new_tokens; rows]),
            next: b.raw(&vec![UNTOUCHED; rows]),
            uniforms: b.raw(uniforms),
            tokens: b.raw(&vec![UNTOUCHED; cells.len()]),
            logps: b.raw(&cells),
            entropies: b.raw(&cells),
            eos: b.raw(eos),
        }
    }

    fn state(&self) -> SampleState {
        SampleState {
            rows: self.rows,
            max_new_tokens: self.max_new_tokens,
            lengths: self.lengths.ptr_mut(),
            produced: self.produced.ptr_mut(),
            status: self.status.ptr_mut(),
            limits: self.limits.ptr(),
            next: self.next.ptr_mut(),
            uniforms: self.uniforms.ptr(),
            tokens: self.tokens.ptr_mut(),
            logps: self.logps.ptr_mut(),
            entropies: self.entropies.ptr_mut(),
            eos: self.eos.ptr(),
            eos_len: self.eos.len() as u32,
        }
    }

    /// Draws from logits of this vocabulary at temperature 1.
    fn sample(&self, logits: &Array<f32>, vocabulary: usize) -> Sample {
        Sample {
            logits: logits.ptr(),
            source: None,
            vocabulary: vocabulary as u32,
            inverse_temperature: 1.0,
            greedy: false,
            advance: false,
            min_new_tokens: 0,
            top_k: None,
            top_p: None,
            state: self.state(),
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
                b.k.launch(Sample { inverse_temperature: it, ..state.sample(&x, vocabulary) }).unwrap();
                let tokens = b.get_raw::<u32>(&state.tokens);
                let lines = logits.chunks_exact(vocabulary);
                let want: Vec<u32> =
                    lines.zip(&uniforms).map(|(l, u)| on_the_cpu(l, it, *u) as u32).collect();
                assert_eq!(tokens, want);
                let (ids, out) = (b.raw(&tokens), b.raw_blank(4 * rows));
                b.k.launch(LogProb {
                    logits: x.ptr(),
                    targets: ids.ptr(),
                    out: out.ptr_mut(),
                    tokens: rows as u32,
                    vocabulary: vocabulary as u32,
                    inverse_temperature: it,
                    entropy: true,
                })
                .unwrap();
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
    let Some(b) = Harness::new(Order::Forward, Dtype::F32) else { return };
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
                b.k.launch(state.sample(&x, vocabulary)).unwrap();
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
            b.k.launch(state.sample(&x, vocabulary)).unwrap();
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
            b.k.launch(Sample { greedy: true, ..state.sample(&x, vocabulary) }).unwrap();
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
            b.k.launch(Sample { greedy, ..state.sample(&x, 40) }).unwrap();
            // The first row had a limit of one token.
            assert_eq!(b.get_raw::<u32>(&state.status), [2, 3, 3]);
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
        state.limits.write(&[3, 3, 2, 1, 0]).unwrap();
        for _ in 0..4 {
            let source = Some(source.ptr());
            b.k.launch(Sample { source, greedy: true, advance: true, ..state.sample(&x, vocabulary) })
                .unwrap();
        }
        // Row 1 ends with token 2; row 3 at its end token, though its limit is there too; row 4 may draw nothing.
        assert_eq!(b.get_raw::<u32>(&state.status), [2, 1, 2, 1, 2]);
        assert_eq!(b.get_raw::<u32>(&state.produced), [3, 1, 2, 1, 0]);
        assert_eq!(b.get_raw::<u32>(&state.next), [1, 2, 3, 4, UNTOUCHED]);
        let none = UNTOUCHED;
        let tokens = [[1, 1, 1], [2, none, none], [3, 3, none], [4, none, none], [none; 3]].concat();
        assert_eq!(b.get_raw::<u32>(&state.tokens), tokens);
        // Prompts of 5 tokens: a row's length grows while it is active.
        assert_eq!(b.get_raw::<u32>(&state.lengths), [8, 6, 7, 6, 6]);
    });
}

/// Flat lines, peaked ones, and one of few different scores, so that ties are cut through.
fn lines_to_cut(vocabulary: usize) -> Vec<f32> {
    let of = |seed, spread: f32| numbers(seed, vocabulary).into_iter().map(move |x| spread * x);
    let ties = of(13, 1.0).map(|x| (2.0 * x).round());
    of(11, 0.3).chain(of(12, 3.0)).chain(ties).collect()
}

#[test]
fn tokens_are_cut_off_as_on_the_cpu_and_the_rest_is_renormalised() {
    in_every_order(|b| {
        // How many, what share, whether it is too early for an end token, whether the likeliest is taken.
        let cuts = [
            (Some(1), None, false, false),
            (Some(3), None, false, false),
            (Some(40), Some(0.8), false, false),
            (None, Some(0.35), true, false),
            (None, None, true, false),
            (Some(2), None, true, true),
        ];
        for (vocabulary, (top_k, top_p, early, greedy)) in
            [5usize, 1500].into_iter().flat_map(|n| cuts.map(|cut| (n, cut)))
        {
            let logits = lines_to_cut(vocabulary);
            let eos = [1u32, 4];
            let uniform = |i| Address::new(9, Purpose::Evaluation).response(i).unit(0);
            let uniforms = [0, 1, 2].map(uniform);
            let (x, state) = (b.raw(&logits), Rows::new(b, 1, &uniforms, &eos));
            let p = top_p.map(|p: f64| b.raw(&[p]));
            b.k.launch(Sample {
                greedy,
                min_new_tokens: u32::from(early),
                top_k: top_k.map(|k: usize| k as u32),
                top_p: p.as_ref().map(Array::ptr),
                ..state.sample(&x, vocabulary)
            })
            .unwrap();
            let (tokens, logps) = (b.get_raw::<u32>(&state.tokens), b.get_raw::<f32>(&state.logps));
            for (row, line) in logits.chunks_exact(vocabulary).enumerate() {
                let mut scores = line.to_vec();
                log_softmax(&mut scores, vocabulary, 1.0);
                if early {
                    eos.iter().for_each(|&id| scores[id as usize] = f32::NEG_INFINITY);
                }
                Truncation { top_k, top_p }.apply(&mut scores);
                let want =
                    if greedy { self::greedy(&scores) } else { categorical(&scores, 1.0, uniforms[row]) };
                let want = want.unwrap();
                let mass: f64 = scores.iter().map(|&x| f64::from(x).exp()).sum();
                let logp = f64::from(scores[want]) - mass.ln();
                let said = format!("{vocabulary} tokens, {top_k:?}, {top_p:?}, row {row}, early {early}");
                assert_eq!(tokens[row] as usize, want, "{said}");
                assert!((f64::from(logps[row]) - logp).abs() < 1e-6, "{} not {logp}: {said}", logps[row]);
            }
        }
    });
}

#[test]
fn a_row_that_has_only_end_tokens_too_early_draws_nothing() {
    in_every_order(|b| {
        for greedy in [false, true] {
            let (x, state) = (b.raw(&[1.0f32, f32::NEG_INFINITY, 2.0]), Rows::new(b, 1, &[0.5], &[0, 2]));
            b.k.launch(Sample { greedy, min_new_tokens: 1, ..state.sample(&x, 3) }).unwrap();
            assert_eq!(
                (b.get_raw::<u32>(&state.status), b.get_raw::<u32>(&state.produced)),
                (vec![3], vec![0])
            );
        }
    });
}

#[test]
fn a_row_without_a_line_stays_as_it_is() {
    in_every_order(|b| {
        let (x, state) = (b.raw(&[0.0f32, 3.0, 5.0, 1.0]), Rows::new(b, 2, &[0.5; 6], &[]));
        let source = b.raw(&[1u32, Sample::NO_LINE, 0]);
        let source = Some(source.ptr());
        b.k.launch(Sample { source, greedy: true, advance: true, ..state.sample(&x, 2) }).unwrap();
        assert_eq!(b.get_raw::<u32>(&state.next), [0, UNTOUCHED, 1]);
        let none = UNTOUCHED;
        assert_eq!(b.get_raw::<u32>(&state.tokens), [0, none, none, none, 1, none]);
        assert_eq!(b.get_raw::<u32>(&state.produced), [1, 0, 1]);
        assert_eq!(b.get_raw::<u32>(&state.lengths), [6, 5, 6]);
        assert_eq!(b.get_raw::<u32>(&state.status), [0, 0, 0]);
    });
}

#[test]
fn frequencies_follow_the_distribution() {
    let Some(b) = Harness::new(Order::Forward, Dtype::F32) else { return };
    let probabilities = [0.5f32, 0.25, 0.0, 0.2, 0.05];
    let (rows, most) = (50usize, 100u32);
    let address = |row| Address::new(8, Purpose::Rollout).response(row);
    let uniforms: Vec<f64> =
        (0..rows as u64).flat_map(|row| (0..u64::from(most)).map(move |p| address(row).unit(p))).collect();
    let (x, state) = (b.raw(&probabilities.map(f32::ln)), Rows::new(&b, most, &uniforms, &[]));
    let source = b.raw(&vec![0u32; rows]);
    for _ in 0..most {
        b.k.launch(Sample { source: Some(source.ptr()), ..state.sample(&x, 5) }).unwrap();
    }
    let mut counts = [0.0f64; 5];
    b.get_raw::<u32>(&state.tokens).iter().for_each(|t| counts[*t as usize] += 1.0);
    let n = f64::from(most) * rows as f64;
    for (count, p) in counts.iter().zip(probabilities.map(f64::from)) {
        assert!((count / n - p).abs() <= 4.0 * (p * (1.0 - p) / n).sqrt(), "{counts:?}");
    }
}
