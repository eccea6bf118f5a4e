//! Kernels of attention: heads and their rotation, attention over rows and over a cache.

mod decode;
mod fused;
mod head_norm;

use grpo_lambda_decoder::device::Dtype;

use super::Extent;
use super::array::TestArray;
use super::case::{BF16, Case, Checker, Result, Term};
use crate::kernels::{HeadShape, RotateHeads};
use crate::ptr::Real;

/// Heads of odd sizes, and those of a 1.5B model.
const SMALL: [HeadShape; 4] = [
    HeadShape { query: 1, key: 1, dim: 2 },
    HeadShape { query: 6, key: 3, dim: 10 },
    HeadShape { query: 4, key: 1, dim: 64 },
    HeadShape { query: 12, key: 2, dim: 128 },
];
/// Heads of which a lane of a warp has more than four numbers.
const WIDE: HeadShape = HeadShape { query: 4, key: 2, dim: 134 };
/// The widest heads of the kernels that keep one in registers.
const WIDEST: HeadShape = HeadShape { query: 2, key: 2, dim: HeadShape::WIDEST };
/// Heads wider than these.
const WIDER: HeadShape = HeadShape { query: 1, key: 1, dim: 258 };
/// More query heads to a key head than a block works on.
const GROUPED: HeadShape = HeadShape { query: 20, key: 1, dim: 32 };
/// The last position of a long row.
const FAR: usize = 32_768;

pub(super) fn check(checker: &mut Checker) {
    for shape in checker.extent.sizes(&SMALL) {
        let rows = [3, 1, 6];
        for how in [(true, false), (true, true), (false, false), (false, true)] {
            rotate(checker, shape, &rows, how);
        }
        fused::check(checker, shape);
        decode::check(checker, shape);
        head_norm::check(checker, shape, rows.iter().sum());
    }
    for shape in [WIDE, WIDEST] {
        head_norm::check(checker, shape, 3);
        decode::attend(checker, shape, 1.0);
    }
    // More heads than the blocks take at once.
    head_norm::check(checker, HeadShape { query: 2, key: 1, dim: 2 }, 2500);
    decode::attend(checker, GROUPED, 64.0);
    for shape in [WIDE, WIDER] {
        fused::check(checker, shape);
    }
    if checker.extent != Extent::Odd {
        rotate(checker, HeadShape { query: 1, key: 1, dim: 16 }, &[FAR + 1], (true, true));
        decode::far(checker, SMALL[0], FAR);
    }
}

fn label(s: HeadShape, what: &str) -> String {
    format!("{} + {} heads of {} {what}", s.query, s.key, s.dim)
}

/// Cosines and sines of `positions`, `[positions][dim / 2][2]`.
fn angles(c: &Case<'_>, positions: usize, dim: usize) -> Result<TestArray<f32>> {
    let half = dim / 2;
    let angle = |p: usize, i: usize| p as f64 * 1e4f64.powf(-(i as f64) / half as f64);
    let each = |p: usize| (0..half).flat_map(move |i| [angle(p, i).cos(), angle(p, i).sin()]);
    c.array((0..positions).flat_map(each).collect())
}

/// Number `i` of a head rotated by the angles of `position`, forwards if `sign` is 1; `x` gives the head's numbers and their sizes.
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

/// Tokens of rows end to end: rotated, in place or not, or rotated back.
fn rotate(checker: &mut Checker, s: HeadShape, rows: &[usize], (biased, in_place): (bool, bool)) {
    let place = if in_place { "in place" } else { "" };
    let what = format!("{} {place}", if biased { "biased" } else { "back" });
    checker.case("rotate_heads", label(s, &what), |c| {
        let (query, key, dim) = parts(s);
        let positions: Vec<usize> = rows.iter().flat_map(|n| 0..*n).collect();
        let (n, width) = (positions.len(), (query + 2 * key) * dim);
        let (qkv, bias) = (c.reals(n * width)?, c.reals(width)?);
        let table = angles(c, positions.iter().max().map_or(0, |p| p + 1), dim)?;
        let at = c.integers(positions.iter().copied())?;
        let other = c.blank(if in_place { 0 } else { n * width })?;
        let out = if in_place { &qkv } else { &other };
        let sign = if biased { 1.0 } else { -1.0 };
        c.launch(RotateHeads {
            qkv: qkv.ptr(),
            bias: biased.then(|| bias.ptr()),
            table: table.ptr(),
            positions: at.ptr(),
            out: out.ptr_mut(),
            tokens: n as u32,
            heads: s,
            sign,
        })?;
        let bias = biased.then_some(&bias);
        c.expect(out, 1, |i| {
            let (t, h) = (i / width, i % width / dim);
            let x = |i: usize| biased_number(&qkv, bias, width, t, h * dim + i);
            Some(match h < query + key {
                true => rotated(&table.initial, positions[t], dim, i % dim, f64::from(sign), x),
                false => x(i % dim),
            })
        })
    });
}

/// The sum of products, and of their absolute values.
fn dot(a: &[f64], b: &[f64]) -> Term {
    let products = a.iter().zip(b).map(|(a, b)| a * b);
    products.fold((0.0, 0.0), |(s, a), x| (s + x, a + x.abs()))
}

/// The score of a query and a key, and the sum of its absolute terms.
fn score(query: &[f64], key: &[f64], scale: f32) -> Term {
    let (sum, size) = dot(query, key);
    (sum * f64::from(scale), size * f64::from(scale))
}

/// The rounding of a number that is stored on the way.
fn stored(c: &Case<'_>) -> f64 {
    if c.kernels.dtype == Dtype::Bf16 { BF16 } else { 0.0 }
}

/// Sums over some positions: the largest score, the sum of `e^(score - largest)` and of the values by it, and the largest size of a score.
struct Split {
    top: f64,
    total: f64,
    sums: Vec<Term>,
    size: f64,
}

impl Split {
    fn new(seen: &[(Term, &[f64])], dim: usize) -> Self {
        let top = seen.iter().fold(f64::NEG_INFINITY, |a, x| a.max(x.0.0));
        let size = seen.iter().fold(0.0f64, |a, x| a.max(x.0.1));
        let mut split = Split { top, total: 0.0, sums: vec![(0.0, 0.0); dim], size };
        for (score, value) in seen {
            let p = (score.0 - top).exp();
            split.total += p;
            for (sum, v) in split.sums.iter_mut().zip(*value) {
                *sum = (sum.0 + p * v, sum.1 + p * v.abs());
            }
        }
        split
    }

    /// The logarithm of the sum of the scores' exponentials.
    fn log_sum(&self) -> f64 {
        self.top + self.total.ln()
    }
}
