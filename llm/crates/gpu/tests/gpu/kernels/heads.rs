//! Heads rotated by position.

use grpo_lambda_decoder::model::ops::rope;
use grpo_lambda_gpu::kernels::{DecodeHeads, HeadShape, RotateHeads};
use grpo_lambda_gpu::{Array, Dtype};

use super::{Harness, everywhere, numbers, wide};
use crate::emulator::Order;

const SHAPES: [HeadShape; 4] = [
    HeadShape { query: 4, key: 2, dim: 6 },
    HeadShape { query: 14, key: 2, dim: 64 },
    HeadShape { query: 2, key: 1, dim: 8 },
    HeadShape { query: 4, key: 2, dim: 128 },
];
const LENGTHS: [u32; 4] = [1, 5, 2, 9];

fn frequencies(dim: u32) -> Vec<f64> {
    (0..dim / 2).map(|i| 1e4f64.powf(-2.0 * f64::from(i) / f64::from(dim))).collect()
}

/// Cosine and sine of every angle, as the kernels read them.
pub(super) fn table(dim: u32, positions: usize) -> Vec<f32> {
    let frequencies = frequencies(dim);
    let angles = (0..positions).flat_map(|p| frequencies.iter().map(move |f| p as f64 * f));
    angles.flat_map(|a| [a.cos() as f32, a.sin() as f32]).collect()
}

fn rotate(x: &mut [f64], positions: &[u32], s: HeadShape, back: bool) {
    let longest = *positions.iter().max().unwrap() as usize + 1;
    let table = rope::Table::<f64>::new(&frequencies(s.dim), longest);
    let stride = ((s.query + 2 * s.key) * s.dim) as usize;
    rope::rotate(x, stride, (s.query + s.key) as usize, positions, &table, back);
}

#[test]
fn heads_are_rotated_as_on_the_cpu_in_place_or_not_and_back() {
    everywhere(|b| {
        for s in SHAPES {
            let width = ((s.query + 2 * s.key) * s.dim) as usize;
            let positions: Vec<u32> = LENGTHS.iter().flat_map(|n| 0..*n).collect();
            let x = b.rounded(&numbers(1, positions.len() * width));
            let bias = b.rounded(&numbers(2, width));
            let (angles, at) = (b.raw(&table(s.dim, 9)), b.raw(&positions));
            for (with_bias, in_place, back) in
                [(false, false, false), (true, false, false), (true, true, false), (false, true, true)]
            {
                let mut want = wide(&x);
                for (i, sum) in want.iter_mut().enumerate() {
                    *sum += if with_bias { f64::from(bias[i % width]) } else { 0.0 };
                }
                rotate(&mut want, &positions, s, back);
                let (qkv, on_device, other) = (b.put(&x), b.put(&bias), b.blank(x.len()));
                let out = if in_place { &qkv } else { &other };
                b.k.launch(RotateHeads {
                    qkv: qkv.ptr(),
                    bias: with_bias.then(|| on_device.ptr()),
                    table: angles.ptr(),
                    positions: at.ptr(),
                    out: out.ptr_mut(),
                    tokens: positions.len() as u32,
                    heads: s,
                    sign: if back { -1.0 } else { 1.0 },
                })
                .unwrap();
                // A rotated number may be small where its parts are not.
                b.close("rotate_heads", &b.get(out), &want, |_| 4.0, 2e-7);
            }
        }
    });
}

const LEN: usize = 32_768;
const ONE_HEAD: HeadShape = HeadShape { query: 1, key: 1, dim: 64 };

/// Angles of every position up to [`LEN`], 32 each.
fn long_angles() -> Vec<f64> {
    let frequencies: Vec<f64> = (0..32).map(|i| 1e6f64.powf(-f64::from(i) / 32.0)).collect();
    (0..=LEN).flat_map(|p| frequencies.iter().map(move |f| p as f64 * f)).collect()
}

/// A head rotated by the angles of a position.
fn rotated(x: &[f32], angles: &[f64], position: usize) -> Vec<f64> {
    let angle = |i: usize| angles[position * 32 + i];
    let (x, mut y) = (wide(x), vec![0.0; 64]);
    for i in 0..32 {
        y[i] = x[i] * angle(i).cos() - x[i + 32] * angle(i).sin();
        y[i + 32] = x[i + 32] * angle(i).cos() + x[i] * angle(i).sin();
    }
    y
}

/// The same token, of three heads, at every position of one row.
fn rotate_everywhere(b: &Harness, token: &[f32], table: &Array<f32>, angles: &[f64]) {
    let (qkv, positions) = (b.put(&token.repeat(LEN + 1)), b.raw(&(0..=LEN as u32).collect::<Vec<_>>()));
    b.k.launch(RotateHeads {
        qkv: qkv.ptr(),
        bias: None,
        table: table.ptr(),
        positions: positions.ptr(),
        out: qkv.ptr_mut(),
        tokens: LEN as u32 + 1,
        heads: ONE_HEAD,
        sign: 1.0,
    })
    .unwrap();
    let heads =
        |p| [rotated(&token[..64], angles, p), rotated(&token[64..128], angles, p), wide(&token[128..])];
    let want: Vec<f64> = (0..=LEN).flat_map(|p| heads(p).concat()).collect();
    b.close("rotate_heads 1..32768", &b.get(&qkv), &want, |_| 4.0, 2e-7);
}

/// The same token, decoded at some positions.
fn decode_at_some_positions(b: &Harness, token: &[f32], table: &Array<f32>, angles: &[f64]) {
    let positions: Vec<u32> = (0..=LEN as u32).step_by(127).chain([15_962, 15_968, 32_767, 32_768]).collect();
    let rows = positions.len();
    let (lengths, qkv, q) = (b.raw(&positions), b.put(&token.repeat(rows)), b.blank(rows * 64));
    // Only a row's last place is written, so that one page, which is all of them, is enough memory.
    for (row, position) in positions.iter().enumerate().filter(|(row, _)| row % 32 == 0 || row + 4 >= rows) {
        let width = position / 32 + 1;
        let pages = b.raw(&vec![0u32; width as usize]);
        let [keys, values] = [(); 2].map(|_| b.blank(32 * 64));
        b.k.launch(DecodeHeads {
            qkv: qkv.ptr().offset(row * 192),
            bias: None,
            table: table.ptr(),
            lengths: lengths.at(row),
            q: q.ptr_mut().offset(row * 64),
            keys: keys.ptr_mut(),
            values: values.ptr_mut(),
            pages: pages.ptr(),
            rows: 1,
            heads: ONE_HEAD,
            width,
        })
        .unwrap();
        let position = *position as usize;
        let (got, want) = (b.get(&q), rotated(&token[..64], angles, position));
        b.close("decode_heads 1..32768", &got[row * 64..][..64], &want, |_| 4.0, 2e-7);
        let (got, want) = (b.get(&keys), rotated(&token[64..128], angles, position));
        b.close("decode_heads 1..32768", &got[position % 32 * 64..][..64], &want, |_| 4.0, 2e-7);
    }
}

#[test]
fn every_position_to_32k_is_rotated_by_its_own_angle_in_both_dtypes() {
    let angles = long_angles();
    let pairs: Vec<f32> = angles.iter().flat_map(|a| [a.cos() as f32, a.sin() as f32]).collect();
    for dtype in [Dtype::F32, Dtype::Bf16] {
        let Some(b) = Harness::new(Order::Forward, dtype) else { return };
        // The same token everywhere, so that a neighbour's angle would show as its neighbour's result.
        let token = b.rounded(&numbers(4, 3 * 64));
        let table = b.raw(&pairs);
        rotate_everywhere(&b, &token, &table, &angles);
        decode_at_some_positions(&b, &token, &table, &angles);
    }
}
