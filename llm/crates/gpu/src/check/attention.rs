//! Kernels of attention: heads and their rotation, softmax.

mod decode;
mod head_norm;

use super::Extent;
use super::array::TestArray;
use super::case::{Case, Checker, Result, Term};
use crate::kernels::{
    HeadShape, MergeHeads, MergeHeadsBackward, Ragged, Softmax, SoftmaxBackward, SplitHeads,
    SplitHeadsBackward,
};
use crate::ptr::Real;

/// Heads of odd sizes, and those of a 1.5B model.
const SMALL: [HeadShape; 4] = [
    HeadShape { query: 1, key: 1, dim: 2 },
    HeadShape { query: 6, key: 3, dim: 10 },
    HeadShape { query: 4, key: 1, dim: 64 },
    LARGE,
];
const LARGE: HeadShape = HeadShape { query: 12, key: 2, dim: 128 };
/// Heads of which a lane of a warp has more than four numbers.
const WIDE: HeadShape = HeadShape { query: 5, key: 2, dim: 134 };
/// Heads and tokens of a row's scores.
const LINES: [(usize, usize); 4] = [(1, 1), (3, 5), (2, 33), (2, 260)];

pub(super) fn check(checker: &mut Checker) {
    let mut shapes = checker.extent.of(&SMALL);
    let mut lines = checker.extent.of(&LINES);
    if checker.extent == Extent::Full {
        shapes.push((LARGE, true));
        lines.push(((12, 512), true));
    }
    for (shape, timed) in shapes {
        let rows: &[usize] = if timed { &[512; 4] } else { &[3, 1, 6] };
        for biased in [false, true] {
            split(checker, shape, rows, biased, timed && biased);
        }
        split_backward(checker, shape, rows, timed);
        for back in [false, true] {
            merge(checker, shape, rows, back, timed);
        }
        decode::check(checker, shape, timed);
        head_norm::check(checker, shape, rows.iter().sum(), timed);
    }
    head_norm::check(checker, WIDE, 3, false);
    for ((heads, len), timed) in lines {
        softmax(checker, heads, len, timed);
        softmax_backward(checker, heads, len, timed);
    }
}

fn label(s: HeadShape, what: &str) -> String {
    format!("{} + {} heads of {} {what}", s.query, s.key, s.dim)
}

/// A batch of rows: where every token is, on the device and here.
struct Batch {
    row: TestArray<u32>,
    offsets: TestArray<u32>,
    /// Row start, length, and position of every token.
    tokens: Vec<(usize, usize, usize)>,
}

impl Batch {
    fn new(c: &Case<'_>, rows: &[usize]) -> Result<Self> {
        let starts: Vec<usize> = std::iter::once(0)
            .chain(rows.iter().scan(0, |sum, n| {
                *sum += n;
                Some(*sum)
            }))
            .collect();
        let row = rows.iter().enumerate().flat_map(|(r, n)| vec![r; *n]);
        let tokens = rows.iter().zip(&starts).flat_map(|(n, s)| (0..*n).map(|p| (*s, *n, p))).collect();
        Ok(Batch { row: c.integers(row)?, offsets: c.integers(starts.iter().copied())?, tokens })
    }
    fn ragged(&self) -> Ragged {
        Ragged { tokens: self.tokens.len() as u32, row: self.row.ptr(), offsets: self.offsets.ptr() }
    }
    /// Where number `i` of head `h` of token `t` is in a head-major array of `heads` heads.
    fn head_major(&self, t: usize, heads: usize, h: usize, dim: usize, i: usize) -> usize {
        let (start, len, position) = self.tokens[t];
        (start * heads + h * len + position) * dim + i
    }
}

/// Cosines and sines of `positions`, `[positions][dim / 2][2]`.
fn angles(c: &Case<'_>, positions: usize, dim: usize) -> Result<TestArray<f32>> {
    let half = dim / 2;
    let angle = |p: usize, i: usize| p as f64 * 1e4f64.powf(-(i as f64) / half as f64);
    let each = |p: usize| (0..half).flat_map(move |i| [angle(p, i).cos(), angle(p, i).sin()]);
    c.of((0..positions).flat_map(each).collect())
}

/// Number `i` of a head rotated by the angles of `position`, forwards for `sign` 1; `x` gives the head's numbers and their sizes.
fn rotated(
    table: &[f64],
    position: usize,
    dim: usize,
    i: usize,
    sign: f64,
    x: impl Fn(usize) -> Term,
) -> Term {
    let half = dim / 2;
    let at = (position * half + i % half) * 2;
    let (cos, sin) = (table[at], table[at + 1] * sign);
    let (low, high) = (x(i % half), x(i % half + half));
    let value = if i < half { low.0 * cos - high.0 * sin } else { high.0 * cos + low.0 * sin };
    (value, low.1 + high.1)
}

/// A number of the fused projection and its bias.
fn biased_number(
    qkv: &TestArray<Real>,
    bias: Option<&TestArray<Real>>,
    width: usize,
    t: usize,
    j: usize,
) -> Term {
    let (x, b) = (qkv.initial[t * width + j], bias.map_or(0.0, |b| b.initial[j]));
    (x + b, x.abs() + b.abs())
}

fn parts(s: HeadShape) -> (usize, usize, usize) {
    (s.query as usize, s.key as usize, s.dim as usize)
}

fn split(checker: &mut Checker, s: HeadShape, rows: &[usize], biased: bool, timed: bool) {
    checker.case("split_heads", label(s, if biased { "biased" } else { "" }), |c| {
        let (query, key, dim) = parts(s);
        let batch = Batch::new(c, rows)?;
        let (n, width) = (batch.tokens.len(), (query + 2 * key) * dim);
        let (qkv, bias) = (c.reals(n * width)?, c.reals(width)?);
        let longest = rows.iter().max().copied().unwrap_or(0);
        let table = angles(c, longest, dim)?;
        let [q, k, v] = [query, key, key].map(|heads| c.blank(n * heads * dim));
        let (q, k, v) = (q?, k?, v?);
        let kernel = SplitHeads {
            qkv: qkv.ptr(),
            bias: biased.then(|| bias.ptr()),
            table: table.ptr(),
            batch: batch.ragged(),
            q: q.ptr_mut(),
            k: k.ptr_mut(),
            v: v.ptr_mut(),
            heads: s,
        };
        c.launch(kernel)?;
        let bias = biased.then_some(&bias);
        for (out, heads, from, rotates) in
            [(&q, query, 0, true), (&k, key, query, true), (&v, key, query + key, false)]
        {
            let mut expected = vec![(f64::NAN, 0.0); n * heads * dim];
            for t in 0..n {
                for h in 0..heads {
                    let x = |i: usize| biased_number(&qkv, bias, width, t, (from + h) * dim + i);
                    for i in 0..dim {
                        let term = match rotates {
                            true => rotated(&table.initial, batch.tokens[t].2, dim, i, 1.0, x),
                            false => x(i),
                        };
                        expected[batch.head_major(t, heads, h, dim, i)] = term;
                    }
                }
            }
            c.expect(out, 1, |i| Some(expected[i]))?;
        }
        c.time(timed, 2.0 * qkv.bytes(), kernel)
    });
}

fn split_backward(checker: &mut Checker, s: HeadShape, rows: &[usize], timed: bool) {
    checker.case("split_heads_backward", label(s, ""), |c| {
        let (query, key, dim) = parts(s);
        let batch = Batch::new(c, rows)?;
        let (n, width) = (batch.tokens.len(), (query + 2 * key) * dim);
        let [dq, dk, dv] = [query, key, key].map(|heads| c.reals(n * heads * dim));
        let (dq, dk, dv) = (dq?, dk?, dv?);
        let longest = rows.iter().max().copied().unwrap_or(0);
        let (table, dqkv) = (angles(c, longest, dim)?, c.blank(n * width)?);
        let kernel = SplitHeadsBackward {
            dq: dq.ptr(),
            dk: dk.ptr(),
            dv: dv.ptr(),
            table: table.ptr(),
            batch: batch.ragged(),
            dqkv: dqkv.ptr_mut(),
            heads: s,
        };
        c.launch(kernel)?;
        c.expect(&dqkv, 1, |at| {
            let (t, h, i) = (at / width, at % width / dim, at % dim);
            let (from, heads, head, rotates) = match h {
                h if h < query => (&dq, query, h, true),
                h if h < query + key => (&dk, key, h - query, true),
                h => (&dv, key, h - query - key, false),
            };
            let x = |i: usize| {
                let x = from.initial[batch.head_major(t, heads, head, dim, i)];
                (x, x.abs())
            };
            Some(match rotates {
                true => rotated(&table.initial, batch.tokens[t].2, dim, i, -1.0, x),
                false => x(i),
            })
        })?;
        c.time(timed, 2.0 * dqkv.bytes(), kernel)
    });
}

fn merge(checker: &mut Checker, s: HeadShape, rows: &[usize], back: bool, timed: bool) {
    let kernel = if back { "merge_heads_backward" } else { "merge_heads" };
    checker.case(kernel, label(s, ""), |c| {
        let (query, _, dim) = parts(s);
        let rows = Batch::new(c, rows)?;
        let n = rows.tokens.len() * query * dim;
        let (from, to) = (c.reals(n)?, c.blank(n)?);
        let (batch, heads) = (rows.ragged(), s);
        let forward = MergeHeads { x: from.ptr(), batch, out: to.ptr_mut(), heads };
        let backward = MergeHeadsBackward { dout: from.ptr(), batch, dx: to.ptr_mut(), heads };
        if back { c.launch(backward) } else { c.launch(forward) }?;
        // Token-major element `i` is head-major element `place(i)`.
        let place = |i: usize| rows.head_major(i / (query * dim), query, i / dim % query, dim, i % dim);
        let mut expected = vec![f64::NAN; n];
        for i in 0..n {
            let (a, b) = if back { (place(i), i) } else { (i, place(i)) };
            expected[a] = from.initial[b];
        }
        c.exact(&to, |i| Some(expected[i]))?;
        let bytes = 2.0 * to.bytes();
        if back { c.time(timed, bytes, backward) } else { c.time(timed, bytes, forward) }
    });
}

/// Softmax of the numbers `0..n` of a line: each, and what it hangs on.
fn probabilities_of(line: &[f64], scale: f64) -> Vec<Term> {
    let max = line.iter().fold(f64::NEG_INFINITY, |a, x| a.max(x * scale));
    let sum: f64 = line.iter().map(|x| (x * scale - max).exp()).sum();
    let one = |x: &f64| {
        let p = (x * scale - max).exp() / sum;
        (p, p * (2.0 + (x * scale).abs() + max.abs()))
    };
    line.iter().map(one).collect()
}

fn softmax(checker: &mut Checker, heads: usize, len: usize, timed: bool) {
    checker.case("softmax", format!("{heads} heads of {len} tokens"), |c| {
        let (lines, scale) = (heads * len, 0.3f32);
        let scores = c.random(lines * len, 5.0)?;
        let out = c.blank(lines * len)?;
        let (probabilities, rows, len32) = (out.ptr_mut(), lines as u32, len as u32);
        let kernel = Softmax { scores: scores.ptr(), probabilities, lines: rows, len: len32, scale };
        c.launch(kernel)?;
        let mut expected = vec![(0.0, 0.0); lines * len];
        for line in 0..lines {
            let at = line * len;
            let visible = &scores.initial[at..=at + line % len];
            for (to, p) in expected[at..].iter_mut().zip(probabilities_of(visible, f64::from(scale))) {
                *to = p;
            }
        }
        c.expect(&out, len.div_ceil(128), |i| Some(expected[i]))?;
        c.time(timed, scores.bytes() / 2.0 + out.bytes(), kernel)
    });
}

fn softmax_backward(checker: &mut Checker, heads: usize, len: usize, timed: bool) {
    checker.case("softmax_backward", format!("{heads} heads of {len} tokens"), |c| {
        let (lines, scale) = (heads * len, 0.3f32);
        let scores = c.random::<f32>(lines * len, 1.0)?;
        let mut p = vec![0.0; lines * len];
        for line in 0..lines {
            let at = line * len;
            let visible = &scores.initial[at..=at + line % len];
            for (to, p) in p[at..].iter_mut().zip(probabilities_of(visible, 1.0)) {
                *to = p.0;
            }
        }
        let p = c.of(p)?;
        let dp = c.random(lines * len, 1.0)?;
        let ds = c.blank(lines * len)?;
        let kernel = SoftmaxBackward {
            p: p.ptr(),
            dp: dp.ptr(),
            ds: ds.ptr_mut(),
            lines: lines as u32,
            len: len as u32,
            scale,
        };
        c.launch(kernel)?;
        let inner: Vec<Term> = (0..lines)
            .map(|line| {
                let term = |i: usize| p.initial[line * len + i] * dp.initial[line * len + i];
                (0..=line % len).map(term).fold((0.0, 0.0), |(s, a), x| (s + x, a + x.abs()))
            })
            .collect();
        let scale = f64::from(scale);
        c.expect(&ds, len.div_ceil(128), |i| {
            if i % len > i / len % len {
                return Some((0.0, 0.0));
            }
            let (p, dp, (sum, size)) = (p.initial[i], dp.initial[i], inner[i / len]);
            Some((p * (dp - sum) * scale, p * (dp.abs() + size) * scale))
        })?;
        c.time(timed, (p.bytes() + dp.bytes()) / 2.0 + ds.bytes(), kernel)
    });
}
