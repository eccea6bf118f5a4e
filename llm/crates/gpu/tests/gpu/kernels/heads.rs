//! Heads: token-major to head-major and back, rotated by position.

use grpo_lambda_decoder::model::ops::rope;
use grpo_lambda_gpu::kernels::{
    DecodeHeads, HeadShape, MergeHeads, MergeHeadsBackward, Ragged, SplitHeads, SplitHeadsBackward,
};
use grpo_lambda_gpu::{Array, Dtype};

use super::{Harness, bits, everywhere, numbers, wide};
use crate::emulator::Order;

const SHAPES: [HeadShape; 4] = [
    HeadShape { query: 4, key: 2, dim: 6 },
    HeadShape { query: 14, key: 2, dim: 64 },
    HeadShape { query: 2, key: 1, dim: 8 },
    HeadShape { query: 4, key: 2, dim: 128 },
];
const LENGTHS: [u32; 4] = [1, 5, 2, 9];
const TOKENS: usize = 17;

fn frequencies(dim: u32) -> Vec<f64> {
    (0..dim / 2).map(|i| 1e4f64.powf(-2.0 * f64::from(i) / f64::from(dim))).collect()
}

/// Cosine and sine of every angle, as the kernels read them.
pub(super) fn table(dim: u32, positions: usize) -> Vec<f32> {
    let frequencies = frequencies(dim);
    let angles = (0..positions).flat_map(|p| frequencies.iter().map(move |f| p as f64 * f));
    angles.flat_map(|a| [a.cos() as f32, a.sin() as f32]).collect()
}

/// Rows of these lengths.
struct Batch {
    row: Array<u32>,
    offsets: Array<u32>,
    starts: Vec<usize>,
}

impl Batch {
    fn new(b: &Harness, lengths: &[u32]) -> Self {
        let mut offsets = vec![0u32];
        let mut row = Vec::new();
        for (r, len) in lengths.iter().enumerate() {
            offsets.push(offsets[r] + len);
            row.extend(vec![r as u32; *len as usize]);
        }
        let starts = offsets.iter().map(|o| *o as usize).collect();
        Batch { row: b.raw(&row), offsets: b.raw(&offsets), starts }
    }

    fn ragged(&self) -> Ragged {
        let tokens = *self.starts.last().unwrap() as u32;
        Ragged { tokens, row: self.row.ptr(), offsets: self.offsets.ptr() }
    }

    fn positions(&self) -> Vec<u32> {
        self.starts.windows(2).flat_map(|w| 0..(w[1] - w[0]) as u32).collect()
    }

    /// Where number `i` of head `h` of `token` is in a head-major array.
    fn index(&self, token: usize, heads: usize, h: usize, dim: usize, i: usize) -> usize {
        let row = self.starts.iter().rposition(|s| *s <= token).unwrap();
        let (start, len) = (self.starts[row], self.starts[row + 1] - self.starts[row]);
        start * heads * dim + (h * len + token - start) * dim + i
    }
}

/// The three head-major arrays of token-major numbers.
fn split<T: Copy + Default>(x: &[T], at: &Batch, s: HeadShape) -> [Vec<T>; 3] {
    let (query, key, dim) = (s.query as usize, s.key as usize, s.dim as usize);
    let tokens = x.len() / ((query + 2 * key) * dim);
    let mut from = 0;
    [query, key, key].map(|heads| {
        let mut out = vec![T::default(); tokens * heads * dim];
        for t in 0..tokens {
            for h in 0..heads {
                for i in 0..dim {
                    out[at.index(t, heads, h, dim, i)] = x[(t * (query + 2 * key) + from + h) * dim + i];
                }
            }
        }
        from += heads;
        out
    })
}

fn rotate(x: &mut [f64], positions: &[u32], s: HeadShape, back: bool) {
    let longest = *positions.iter().max().unwrap() as usize + 1;
    let table = rope::Table::<f64>::new(&frequencies(s.dim), longest);
    let stride = ((s.query + 2 * s.key) * s.dim) as usize;
    rope::rotate(x, stride, (s.query + s.key) as usize, positions, &table, back);
}

#[test]
fn heads_are_split_and_rotated_as_on_the_cpu_and_the_way_back_rotates_back() {
    everywhere(|b| {
        for s in SHAPES {
            let width = ((s.query + 2 * s.key) * s.dim) as usize;
            let at = Batch::new(b, &LENGTHS);
            let x = b.rounded(&numbers(1, TOKENS * width));
            let bias = b.rounded(&numbers(2, width));
            let angles = b.raw(&table(s.dim, 9));
            let sizes = [s.query, s.key, s.key].map(|heads| TOKENS * (heads * s.dim) as usize);
            let (qkv, on_device) = (b.put(&x), b.put(&bias));
            for with_bias in [false, true] {
                let mut sums = wide(&x);
                for (i, sum) in sums.iter_mut().enumerate() {
                    *sum += if with_bias { f64::from(bias[i % width]) } else { 0.0 };
                }
                rotate(&mut sums, &at.positions(), s, false);
                let want = split(&sums, &at, s);
                let [q, k, v] = sizes.map(|n| b.blank(n));
                b.k.launch(SplitHeads {
                    qkv: qkv.ptr(),
                    bias: with_bias.then(|| on_device.ptr()),
                    table: angles.ptr(),
                    batch: at.ragged(),
                    q: q.ptr_mut(),
                    k: k.ptr_mut(),
                    v: v.ptr_mut(),
                    heads: s,
                })
                .unwrap();
                for (got, want) in [q, k, v].iter().zip(&want) {
                    // A rotated number may be small where its parts are not.
                    b.close("split_heads", &b.get(got), want, |_| 4.0, 2e-7);
                }
            }
            let mut want = wide(&x);
            rotate(&mut want, &at.positions(), s, true);
            let [q, k, v] = split(&x, &at, s).map(|x| b.put(&x));
            let out = b.blank(TOKENS * width);
            b.k.launch(SplitHeadsBackward {
                dq: q.ptr(),
                dk: k.ptr(),
                dv: v.ptr(),
                table: angles.ptr(),
                batch: at.ragged(),
                dqkv: out.ptr_mut(),
                heads: s,
            })
            .unwrap();
            b.close("split_heads_backward", &b.get(&out), &want, |_| 4.0, 2e-7);
        }
    });
}

#[test]
fn heads_are_merged_and_parted_to_the_bit() {
    everywhere(|b| {
        for s in SHAPES {
            let only = HeadShape { key: 0, ..s };
            let at = Batch::new(b, &LENGTHS);
            let mut x = b.rounded(&numbers(3, TOKENS * (s.query * s.dim) as usize));
            x[5] = f32::NAN;
            let [parted, ..] = split(&x, &at, only);
            let (from, out) = (b.put(&parted), b.blank(x.len()));
            let (batch, heads) = (at.ragged(), s);
            b.k.launch(MergeHeads { x: from.ptr(), batch, out: out.ptr_mut(), heads }).unwrap();
            assert_eq!(bits(&b.get(&out)), bits(&x));
            let (from, out) = (b.put(&x), b.blank(x.len()));
            b.k.launch(MergeHeadsBackward { dout: from.ptr(), batch, dx: out.ptr_mut(), heads }).unwrap();
            assert_eq!(bits(&b.get(&out)), bits(&parted));
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
fn split_everywhere(b: &Harness, token: &[f32], table: &Array<f32>, angles: &[f64]) {
    let at = Batch::new(b, &[LEN as u32 + 1]);
    let qkv = b.put(&token.repeat(LEN + 1));
    let [q, k, v] = [(); 3].map(|_| b.blank((LEN + 1) * 64));
    b.k.launch(SplitHeads {
        qkv: qkv.ptr(),
        bias: None,
        table: table.ptr(),
        batch: at.ragged(),
        q: q.ptr_mut(),
        k: k.ptr_mut(),
        v: v.ptr_mut(),
        heads: ONE_HEAD,
    })
    .unwrap();
    for (got, head) in [(&q, &token[..64]), (&k, &token[64..128])] {
        let want: Vec<f64> = (0..=LEN).flat_map(|p| rotated(head, angles, p)).collect();
        b.close("split_heads 1..32768", &b.get(got), &want, |_| 4.0, 2e-7);
    }
}

/// The same token, decoded at some positions.
fn decode_at_some_positions(b: &Harness, token: &[f32], table: &Array<f32>, angles: &[f64]) {
    let positions: Vec<u32> = (0..=LEN as u32).step_by(127).chain([15_962, 15_968, 32_767, 32_768]).collect();
    let rows = positions.len();
    let (lengths, qkv, q) = (b.raw(&positions), b.put(&token.repeat(rows)), b.blank(rows * 64));
    // Every row has its own cache; only its last place is written, so one key head of 64 numbers at this capacity is enough memory.
    for (row, position) in positions.iter().enumerate().filter(|(row, _)| row % 32 == 0 || row + 4 >= rows) {
        let capacity = position + 1;
        let [keys, values] = [(); 2].map(|_| b.blank(capacity as usize * 64));
        b.k.launch(DecodeHeads {
            qkv: qkv.ptr().offset(row * 192),
            bias: None,
            table: table.ptr(),
            lengths: lengths.at(row),
            q: q.ptr_mut().offset(row * 64),
            keys: keys.ptr_mut(),
            values: values.ptr_mut(),
            rows: 1,
            heads: ONE_HEAD,
            capacity,
        })
        .unwrap();
        let position = *position as usize;
        let (got, want) = (b.get(&q), rotated(&token[..64], angles, position));
        b.close("decode_heads 1..32768", &got[row * 64..][..64], &want, |_| 4.0, 2e-7);
        let (got, want) = (b.get(&keys), rotated(&token[64..128], angles, position));
        b.close("decode_heads 1..32768", &got[position * 64..], &want, |_| 4.0, 2e-7);
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
        split_everywhere(&b, &token, &table, &angles);
        decode_at_some_positions(&b, &token, &table, &angles);
    }
}
