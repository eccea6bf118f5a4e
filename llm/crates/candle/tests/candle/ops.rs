//! Every operation of a layer, forward and backward, in double precision: against the operation on candle's tensors, which candle
//! differentiates, and against central differences.

use candle_core::{DType, Device, Result, Tensor, Var};
use grpo_lambda_candle::attention::{Attention as Batches, Sequence};
use grpo_lambda_candle::ops::{self as plain, Rotations};
use grpo_lambda_decoder::model::ops::attention::{self, Context, Heads};
use grpo_lambda_decoder::model::ops::buffer::Pool;
use grpo_lambda_decoder::model::ops::matmul::{Panels, pack_transposed, packed_len};
use grpo_lambda_decoder::model::ops::norm::Groups;
use grpo_lambda_decoder::model::ops::{log_prob, norm, rope, swiglu};

const HEADS: Heads = Heads { query: 4, key: 2, dim: 6 };
const OFFSETS: [usize; 4] = [0, 5, 6, 43];
const EPS: f64 = 1e-3;

type Arrays = Vec<Vec<f64>>;

/// Numbers about 0, of any size from 0.003 to 1.3.
fn numbers(len: usize, seed: usize) -> Vec<f64> {
    (0..len).map(|i| ((i * 7919 + seed * 104_729) % 1009) as f64 / 400.0 - 1.26).collect()
}

/// `d loss / d y` of a loss in which no two outputs are interchangeable.
fn slopes(len: usize) -> Vec<f64> {
    (0..len).map(|i| ((i * 31) % 17) as f64 / 8.0 - 1.0).collect()
}

/// An operation on arrays of these shapes: by hand, and in plain candle.
struct Case<'a> {
    arguments: Vec<(Vec<usize>, Vec<f64>)>,
    forward: &'a dyn Fn(&Arrays) -> Vec<f64>,
    /// The gradient in every argument, from the arguments and `d loss / d y`.
    backward: &'a dyn Fn(&Arrays, &[f64]) -> Arrays,
    plain: &'a dyn Fn(&[Var]) -> Result<Tensor>,
}

impl Case<'_> {
    fn check(&self) {
        let values: Arrays = self.arguments.iter().map(|(_, data)| data.clone()).collect();
        let y = (self.forward)(&values);
        let variables: Vec<Var> = self
            .arguments
            .iter()
            .map(|(shape, data)| Var::from_vec(data.clone(), shape.as_slice(), &Device::Cpu).unwrap())
            .collect();
        let reference = (self.plain)(&variables).unwrap();
        let plain_y: Vec<f64> = reference.flatten_all().unwrap().to_vec1().unwrap();
        assert_eq!(y.len(), plain_y.len());
        y.iter().zip(&plain_y).for_each(|(a, b)| assert!((a - b).abs() < 1e-12, "value {a} for {b}"));

        let weights = slopes(y.len());
        let found = (self.backward)(&values, &weights);
        let weights_tensor = Tensor::from_vec(weights, reference.shape(), &Device::Cpu).unwrap();
        let store = (reference * weights_tensor).unwrap().sum_all().unwrap().backward().unwrap();
        assert_eq!(found.len(), variables.len());
        for (v, (variable, found)) in variables.iter().zip(&found).enumerate() {
            let plain = store.get(variable).unwrap().flatten_all().unwrap().to_vec1::<f64>().unwrap();
            assert_eq!(found.len(), plain.len());
            for (i, (a, b)) in found.iter().zip(&plain).enumerate() {
                assert!((a - b).abs() < 1e-11, "argument {v}, gradient {i}: {a} for {b}");
            }
            self.check_differences(&values, v, found);
        }
    }

    /// About forty elements of argument `v` against central differences of the fourth order.
    fn check_differences(&self, values: &Arrays, v: usize, found: &[f64]) {
        const H: f64 = 1e-3;
        for i in (0..found.len()).step_by(found.len() / 40 + 1) {
            let at = |shift: f64| -> f64 {
                let mut moved = values.clone();
                moved[v][i] += shift;
                let y = (self.forward)(&moved);
                y.iter().zip(slopes(y.len())).map(|(y, w)| y * w).sum()
            };
            let difference = (8.0 * (at(H) - at(-H)) - (at(2.0 * H) - at(-2.0 * H))) / (12.0 * H);
            let error = (found[i] - difference).abs();
            assert!(error < 1e-8, "argument {v}, {i}: {} for {difference}", found[i]);
        }
    }
}

/// Norms of all numbers, of every query and key head, and of all queries and all keys.
#[test]
fn norms_agree_with_plain_candle_and_finite_differences() {
    let d = HEADS.dim;
    for (width, counts, sizes) in [
        (20, &[1][..], &[20][..]),
        (HEADS.stride(), &[HEADS.query, HEADS.key], &[d, d]),
        (HEADS.stride(), &[1, 1], &[HEADS.query * d, HEADS.key * d]),
    ] {
        let groups = |a: &'_ Arrays| -> Vec<(usize, Vec<f64>)> {
            counts.iter().copied().zip(a[1..].to_vec()).collect()
        };
        let scales = 7 * counts.iter().sum::<usize>();
        let forward = |a: &Arrays| {
            let parts = groups(a);
            let norm = Groups::new(width, parts.iter().map(|(n, weight)| (*n, &weight[..])));
            let (mut y, mut scale) = (vec![0.0; a[0].len()], vec![0.0; scales]);
            norm::forward(&norm, &a[0], EPS, &mut y, &mut scale);
            let mut recomputed = vec![0.0; y.len()];
            norm::recompute(&norm, &a[0], &scale, &mut recomputed);
            assert_eq!(recomputed, y);
            (y, scale)
        };
        let mut arguments = vec![(vec![7, width], numbers(7 * width, 1))];
        arguments.extend(sizes.iter().map(|&size| (vec![size], numbers(size, size))));
        Case {
            arguments,
            forward: &|a| forward(a).0,
            backward: &|a, dy| {
                let (parts, scale) = (groups(a), forward(a).1);
                let norm = Groups::new(width, parts.iter().map(|(n, weight)| (*n, &weight[..])));
                let mut gradients = vec![dy.to_vec()];
                let mut from = 0;
                for (n, weight) in &parts {
                    let mut dw = vec![0.0; weight.len()];
                    norm::backward_weight(&norm, from..from + n, &a[0], &scale, dy, &mut dw);
                    gradients.push(dw);
                    from += n;
                }
                norm::backward(&norm, &a[0], &scale, &mut gradients[0]);
                gradients
            },
            plain: &|v| {
                let weights: Vec<_> = counts.iter().copied().zip(v[1..].iter().map(Var::as_tensor)).collect();
                plain::norm(&v[0], &weights, EPS)
            },
        }
        .check();
    }
}

#[test]
fn rope_agrees_with_plain_candle_and_finite_differences() {
    let (positions, frequencies) = ([0, 1, 2, 900, 30_000], [1.0, 0.1, 0.01]);
    let table = rope::Table::new(&frequencies, 30_001);
    let rotate = |x: &[f64], back: bool| {
        let mut y = x.to_vec();
        rope::rotate(&mut y, HEADS.stride(), HEADS.rotated(), &positions, &table, back);
        y
    };
    Case {
        arguments: vec![(vec![5, HEADS.stride()], numbers(5 * HEADS.stride(), 3))],
        forward: &|a| rotate(&a[0], false),
        backward: &|_, dy| vec![rotate(dy, true)],
        plain: &|v| {
            plain::rotate(&v[0], HEADS, &Rotations::new(&positions, &frequencies, DType::F64, &Device::Cpu)?)
        },
    }
    .check();
}

#[test]
fn ragged_attention_agrees_with_plain_candle_and_finite_differences() {
    let pool = Pool::default();
    let forward = |a: &Arrays| {
        let (mut out, mut log_sum) = (vec![0.0; 43 * HEADS.width()], vec![0.0; 43 * HEADS.query]);
        attention::forward(&pool, HEADS, &a[0], &OFFSETS, &[&[][..]; 3], &mut out, &mut log_sum);
        (out, log_sum)
    };
    let sequence = |pair: &[usize]| Sequence { tokens: pair[0]..pair[1], prefix: 0..0 };
    let sequences: Vec<Sequence> = OFFSETS.windows(2).map(sequence).collect();
    // All scores of a sequence at a time, and those of two queries.
    for most in [1 << 20, 300] {
        Case {
            arguments: vec![(vec![43, HEADS.stride()], numbers(43 * HEADS.stride(), 4))],
            forward: &|a| forward(a).0,
            backward: &|a, dy| {
                let (out, log_sum) = forward(a);
                let mut dqkv = vec![0.0; a[0].len()];
                let alone = [Context { before: &[], sum: 0, own: &[] }; 3];
                attention::backward(
                    &pool,
                    HEADS,
                    &a[0],
                    &OFFSETS,
                    &out,
                    &log_sum,
                    dy,
                    &mut dqkv,
                    &alone,
                    &mut [],
                );
                vec![dqkv]
            },
            plain: &|v| Batches::new(HEADS, &sequences, most, DType::F64, &Device::Cpu)?.run(&v[0]),
        }
        .check();
    }
}

#[test]
fn swiglu_agrees_with_plain_candle_and_finite_differences() {
    Case {
        arguments: vec![(vec![6, 38], numbers(6 * 38, 5))],
        forward: &|a| {
            let mut y = vec![0.0; 6 * 19];
            swiglu::forward(&a[0], 19, &mut y);
            y
        },
        backward: &|a, dy| {
            let mut dx = a[0].clone();
            swiglu::backward(&mut dx, 19, dy);
            vec![dx]
        },
        plain: &|v| plain::swiglu(&v[0]),
    }
    .check();
}

#[test]
fn log_prob_agrees_with_plain_candle_and_finite_differences() {
    const TEMPERATURE: f64 = 0.7;
    let (pool, targets) = (Pool::default(), [0, 49, 3, 3, 20, 31, 32, 33, 7]);
    let pack = |head: &[f64]| {
        let mut packed = vec![0.0; packed_len(12, 50)];
        pack_transposed(|i| &head[i * 12..], 12, 50, &mut packed);
        packed
    };
    let forward = |a: &Arrays| {
        let packed = pack(&a[1]);
        let (panels, mut saved) = (Panels::new(&packed, 12, 50), vec![0.0; 4 * 9]);
        log_prob::forward(&pool, &a[0], 12, panels, 50, &targets, 1.0 / TEMPERATURE, false, &mut saved);
        saved
    };
    Case {
        arguments: vec![(vec![9, 12], numbers(9 * 12, 6)), (vec![50, 12], numbers(50 * 12, 7))],
        forward: &|a| forward(a).chunks_exact(4).map(|s| s[0]).collect(),
        backward: &|a, dy| {
            let (packed, saved) = (pack(&a[1]), forward(a));
            let (panels, it) = (Panels::new(&packed, 12, 50), 1.0 / TEMPERATURE);
            let (mut dh, mut dw) = (vec![0.0; 9 * 12], vec![0.0; 50 * 12]);
            let out = Some(dw.as_mut_slice());
            log_prob::backward(
                &pool,
                &a[0],
                12,
                panels,
                &a[1],
                &targets,
                it,
                &saved,
                (dy, &[]),
                out,
                &mut dh,
            );
            vec![dh, dw]
        },
        plain: &|v| {
            let targets = Tensor::new(&targets, &Device::Cpu)?.unsqueeze(1)?;
            plain::log_probs(&v[0], &v[1], TEMPERATURE)?.gather(&targets, 1)?.squeeze(1)
        },
    }
    .check();
}
