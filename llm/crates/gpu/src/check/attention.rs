//! Kernels of attention: heads and their rotation, softmax, one token against a cache.

use grpo_lambda_decoder::device::DeviceError;

use super::Extent;
use super::trial::{Bench, Case, Kind, Numbers, Outcome, Term, rounded};
use crate::kernels::{Kernels, Places, Shape};

/// Heads of odd sizes, and those of a 1.5B model.
const SMALL: [Shape; 4] = [
    Shape { query: 1, key: 1, dim: 2 },
    Shape { query: 6, key: 3, dim: 10 },
    Shape { query: 4, key: 1, dim: 64 },
    LARGE,
];
const LARGE: Shape = Shape { query: 12, key: 2, dim: 128 };
/// Heads and tokens of a row's scores.
const LINES: [(usize, usize); 4] = [(1, 1), (3, 5), (2, 33), (2, 260)];

pub(super) fn check(bench: &mut Bench) {
    let mut shapes = bench.extent.of(&SMALL);
    let mut lines = bench.extent.of(&LINES);
    if bench.extent == Extent::Full {
        shapes.push((LARGE, true));
        lines.push(((12, 512), true));
    }
    for (shape, timed) in shapes {
        let rows: &[usize] = if timed { &[512; 4] } else { &[3, 1, 6] };
        for biased in [false, true] {
            split(bench, shape, rows, biased, timed && biased);
        }
        split_backward(bench, shape, rows, timed);
        for back in [false, true] {
            merge(bench, shape, rows, back, timed);
        }
        let (lengths, capacity): (&[usize], usize) =
            if timed { (&[511; 16], 512) } else { (&[0, 4, 32, 39, 17], 40) };
        for biased in [false, true] {
            decode_heads(bench, shape, lengths, capacity, biased, timed && biased);
        }
        decode_attention(bench, shape, lengths, capacity, timed);
        let (prompts, source): (&[usize], &[usize]) = if timed {
            (&[256, 256], &[0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1])
        } else {
            (&[5, 1, 40], &[2, 0, 0, 1])
        };
        fill_cache(bench, shape, prompts, source, capacity, timed);
    }
    for ((heads, len), timed) in lines {
        softmax(bench, heads, len, timed);
        softmax_backward(bench, heads, len, timed);
    }
}

fn label(s: Shape, what: &str) -> String {
    format!("{} + {} heads of {} {what}", s.query, s.key, s.dim)
}

/// A batch of rows: where every token is, on the device and here.
struct Batch {
    row: Numbers,
    offsets: Numbers,
    /// Row start, length, and position of every token.
    tokens: Vec<(usize, usize, usize)>,
}

impl Batch {
    fn new(c: &Case<'_>, rows: &[usize]) -> Result<Self, DeviceError> {
        let starts: Vec<usize> = std::iter::once(0)
            .chain(rows.iter().scan(0, |sum, n| {
                *sum += n;
                Some(*sum)
            }))
            .collect();
        let row = rows.iter().enumerate().flat_map(|(r, n)| vec![r as f64; *n]).collect();
        let tokens = rows.iter().zip(&starts).flat_map(|(n, s)| (0..*n).map(|p| (*s, *n, p))).collect();
        let offsets = starts.iter().map(|s| *s as f64).collect();
        Ok(Batch { row: c.of(Kind::U32, row)?, offsets: c.of(Kind::U32, offsets)?, tokens })
    }
    fn places(&self) -> Places {
        Places { tokens: self.tokens.len() as u32, row: self.row.at(), offsets: self.offsets.at() }
    }
    /// Where number `i` of head `h` of token `t` is in a head-major array of `heads` heads.
    fn head_major(&self, t: usize, heads: usize, h: usize, dim: usize, i: usize) -> usize {
        let (start, len, position) = self.tokens[t];
        (start * heads + h * len + position) * dim + i
    }
}

/// Cosines and sines of `positions`, `[positions][dim / 2][2]`.
fn angles(c: &Case<'_>, positions: usize, dim: usize) -> Result<Numbers, DeviceError> {
    let half = dim / 2;
    let angle = |p: usize, i: usize| p as f64 * 1e4f64.powf(-(i as f64) / half as f64);
    let each = |p: usize| (0..half).flat_map(move |i| [angle(p, i).cos(), angle(p, i).sin()]);
    c.of(Kind::F32, (0..positions).flat_map(each).collect())
}

/// Number `i` of a head turned by the angles of `position`, forwards for `sign` 1; `x` gives the head's numbers and their sizes.
fn turned(
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
fn biased_number(qkv: &Numbers, bias: Option<&Numbers>, width: usize, t: usize, j: usize) -> Term {
    let (x, b) = (qkv.at_start[t * width + j], bias.map_or(0.0, |b| b.at_start[j]));
    (x + b, x.abs() + b.abs())
}

fn parts(s: Shape) -> (usize, usize, usize) {
    (s.query as usize, s.key as usize, s.dim as usize)
}

fn split(bench: &mut Bench, s: Shape, rows: &[usize], biased: bool, timed: bool) {
    bench.case("split_heads", label(s, if biased { "biased" } else { "" }), |c| {
        let (query, key, dim) = parts(s);
        let batch = Batch::new(c, rows)?;
        let (n, width) = (batch.tokens.len(), (query + 2 * key) * dim);
        let (qkv, bias) = (c.reals(n * width)?, c.reals(width)?);
        let longest = rows.iter().max().copied().unwrap_or(0);
        let table = angles(c, longest, dim)?;
        let [q, k, v] = [query, key, key].map(|heads| c.blank(c.real(), n * heads * dim));
        let (q, k, v) = (q?, k?, v?);
        let b = if biased { bias.at() } else { 0 };
        let launch = |kernels: &Kernels| {
            kernels.split_heads(qkv.at(), b, table.at(), batch.places(), s, q.at(), k.at(), v.at())
        };
        launch(c.kernels)?;
        let bias = biased.then_some(&bias);
        for (out, heads, from, turns) in
            [(&q, query, 0, true), (&k, key, query, true), (&v, key, query + key, false)]
        {
            let mut expected = vec![(f64::NAN, 0.0); n * heads * dim];
            for t in 0..n {
                for h in 0..heads {
                    let x = |i: usize| biased_number(&qkv, bias, width, t, (from + h) * dim + i);
                    for i in 0..dim {
                        let term = match turns {
                            true => turned(&table.at_start, batch.tokens[t].2, dim, i, 1.0, x),
                            false => x(i),
                        };
                        expected[batch.head_major(t, heads, h, dim, i)] = term;
                    }
                }
            }
            c.expect(out, 1, |i| Some(expected[i]))?;
        }
        c.time(timed, 2.0 * qkv.bytes(), launch)
    });
}

fn split_backward(bench: &mut Bench, s: Shape, rows: &[usize], timed: bool) {
    bench.case("split_heads_backward", label(s, ""), |c| {
        let (query, key, dim) = parts(s);
        let batch = Batch::new(c, rows)?;
        let (n, width) = (batch.tokens.len(), (query + 2 * key) * dim);
        let [dq, dk, dv] = [query, key, key].map(|heads| c.reals(n * heads * dim));
        let (dq, dk, dv) = (dq?, dk?, dv?);
        let longest = rows.iter().max().copied().unwrap_or(0);
        let (table, dqkv) = (angles(c, longest, dim)?, c.blank(c.real(), n * width)?);
        let launch = |k: &Kernels| {
            k.split_heads_backward(dq.at(), dk.at(), dv.at(), table.at(), batch.places(), s, dqkv.at())
        };
        launch(c.kernels)?;
        c.expect(&dqkv, 1, |at| {
            let (t, h, i) = (at / width, at % width / dim, at % dim);
            let (from, heads, head, turns) = match h {
                h if h < query => (&dq, query, h, true),
                h if h < query + key => (&dk, key, h - query, true),
                h => (&dv, key, h - query - key, false),
            };
            let x = |i: usize| {
                let x = from.at_start[batch.head_major(t, heads, head, dim, i)];
                (x, x.abs())
            };
            Some(match turns {
                true => turned(&table.at_start, batch.tokens[t].2, dim, i, -1.0, x),
                false => x(i),
            })
        })?;
        c.time(timed, 2.0 * dqkv.bytes(), launch)
    });
}

fn merge(bench: &mut Bench, s: Shape, rows: &[usize], back: bool, timed: bool) {
    let kernel = if back { "merge_heads_backward" } else { "merge_heads" };
    bench.case(kernel, label(s, ""), |c| {
        let (query, _, dim) = parts(s);
        let batch = Batch::new(c, rows)?;
        let n = batch.tokens.len() * query * dim;
        let (from, to) = (c.reals(n)?, c.blank(c.real(), n)?);
        let launch = |k: &Kernels| match back {
            false => k.merge_heads(from.at(), batch.places(), s, to.at()),
            true => k.merge_heads_backward(from.at(), batch.places(), s, to.at()),
        };
        launch(c.kernels)?;
        // Token-major number `i` is head-major number `places[i]`.
        let place = |i: usize| batch.head_major(i / (query * dim), query, i / dim % query, dim, i % dim);
        let mut expected = vec![f64::NAN; n];
        for i in 0..n {
            let (a, b) = if back { (place(i), i) } else { (i, place(i)) };
            expected[a] = from.at_start[b];
        }
        c.exact(&to, |i| Some(expected[i]))?;
        c.time(timed, 2.0 * to.bytes(), launch)
    });
}

/// Softmax of the numbers `0..n` of a line: each, and what it hangs on.
fn probabilities(line: &[f64], scale: f64) -> Vec<Term> {
    let max = line.iter().fold(f64::NEG_INFINITY, |a, x| a.max(x * scale));
    let sum: f64 = line.iter().map(|x| (x * scale - max).exp()).sum();
    let one = |x: &f64| {
        let p = (x * scale - max).exp() / sum;
        (p, p * (2.0 + (x * scale).abs() + max.abs()))
    };
    line.iter().map(one).collect()
}

fn softmax(bench: &mut Bench, heads: usize, len: usize, timed: bool) {
    bench.case("softmax", format!("{heads} heads of {len} tokens"), |c| {
        let (lines, scale) = (heads * len, 0.3f32);
        let scores = c.random(Kind::F32, lines * len, 5.0)?;
        let out = c.blank(c.real(), lines * len)?;
        let launch = |k: &Kernels| k.softmax(scores.at(), out.at(), lines as u32, len as u32, scale);
        launch(c.kernels)?;
        let mut expected = vec![(0.0, 0.0); lines * len];
        for line in 0..lines {
            let at = line * len;
            let seen = &scores.at_start[at..=at + line % len];
            for (to, p) in expected[at..].iter_mut().zip(probabilities(seen, f64::from(scale))) {
                *to = p;
            }
        }
        c.expect(&out, len.div_ceil(128), |i| Some(expected[i]))?;
        c.time(timed, scores.bytes() / 2.0 + out.bytes(), launch)
    });
}

fn softmax_backward(bench: &mut Bench, heads: usize, len: usize, timed: bool) {
    bench.case("softmax_backward", format!("{heads} heads of {len} tokens"), |c| {
        let (lines, scale) = (heads * len, 0.3f32);
        let scores = c.random(Kind::F32, lines * len, 1.0)?;
        let mut p = vec![0.0; lines * len];
        for line in 0..lines {
            let at = line * len;
            let seen = &scores.at_start[at..=at + line % len];
            for (to, p) in p[at..].iter_mut().zip(probabilities(seen, 1.0)) {
                *to = p.0;
            }
        }
        let p = c.of(c.real(), p)?;
        let dp = c.random(Kind::F32, lines * len, 1.0)?;
        let ds = c.blank(c.real(), lines * len)?;
        let launch =
            |k: &Kernels| k.softmax_backward(p.at(), dp.at(), ds.at(), lines as u32, len as u32, scale);
        launch(c.kernels)?;
        let inner: Vec<Term> = (0..lines)
            .map(|line| {
                let term = |i: usize| p.at_start[line * len + i] * dp.at_start[line * len + i];
                (0..=line % len).map(term).fold((0.0, 0.0), |(s, a), x| (s + x, a + x.abs()))
            })
            .collect();
        let scale = f64::from(scale);
        c.expect(&ds, len.div_ceil(128), |i| {
            if i % len > i / len % len {
                return Some((0.0, 0.0));
            }
            let (p, dp, (sum, size)) = (p.at_start[i], dp.at_start[i], inner[i / len]);
            Some((p * (dp - sum) * scale, p * (dp.abs() + size) * scale))
        })?;
        c.time(timed, (p.bytes() + dp.bytes()) / 2.0 + ds.bytes(), launch)
    });
}

/// Where position `p` of a cache `[rows][key][capacity][dim]` begins.
fn cached(row: usize, key: usize, g: usize, capacity: usize, p: usize, dim: usize) -> usize {
    ((row * key + g) * capacity + p) * dim
}

fn decode_heads(bench: &mut Bench, s: Shape, lengths: &[usize], capacity: usize, biased: bool, timed: bool) {
    bench.case("decode_heads", label(s, if biased { "biased" } else { "" }), |c| {
        let (query, key, dim) = parts(s);
        let (rows, width) = (lengths.len(), (query + 2 * key) * dim);
        let (qkv, bias, table) = (c.reals(rows * width)?, c.reals(width)?, angles(c, capacity, dim)?);
        let before = c.of(Kind::U32, lengths.iter().map(|n| *n as f64).collect())?;
        let q = c.blank(c.real(), rows * query * dim)?;
        let (keys, values) = (c.reals(rows * key * capacity * dim)?, c.reals(rows * key * capacity * dim)?);
        let b = if biased { bias.at() } else { 0 };
        let launch = |k: &Kernels| {
            let (qkv, table, before) = (qkv.at(), table.at(), before.at());
            k.decode_heads(
                qkv,
                b,
                table,
                before,
                q.at(),
                keys.at(),
                values.at(),
                rows as u32,
                s,
                capacity as u32,
            )
        };
        launch(c.kernels)?;
        let bias = biased.then_some(&bias);
        let head = |row: usize, h: usize, i: usize, turns: bool| {
            let x = |i: usize| biased_number(&qkv, bias, width, row, h * dim + i);
            if turns { turned(&table.at_start, lengths[row], dim, i, 1.0, x) } else { x(i) }
        };
        c.expect(&q, 1, |i| Some(head(i / (query * dim), i / dim % query, i % dim, true)))?;
        for (cache, from, turns) in [(&keys, query, true), (&values, query + key, false)] {
            let place = |i: usize| {
                let (row, g, p) =
                    (i / (key * capacity * dim), i / (capacity * dim) % key, i / dim % capacity);
                (p == lengths[row]).then_some((row, from + g))
            };
            c.expect(cache, 1, |i| place(i).map(|(row, h)| head(row, h, i % dim, turns)))?;
            c.exact(cache, |i| place(i).is_none().then_some(cache.at_start[i]))?;
        }
        c.time(timed, 2.0 * qkv.bytes(), launch)
    });
}

fn decode_attention(bench: &mut Bench, s: Shape, lengths: &[usize], capacity: usize, timed: bool) {
    bench.case("decode_attention", label(s, &format!("over {capacity}")), |c| {
        let (query, key, dim) = parts(s);
        let rows = lengths.len();
        let scale = 1.0 / (s.dim as f32).sqrt();
        let q = c.reals(rows * query * dim)?;
        let (keys, values) = (c.reals(rows * key * capacity * dim)?, c.reals(rows * key * capacity * dim)?);
        let before = c.of(Kind::U32, lengths.iter().map(|n| *n as f64).collect())?;
        let out = c.blank(c.real(), rows * query * dim)?;
        let launch = |k: &Kernels| {
            let (q, before, rows) = (q.at(), before.at(), rows as u32);
            k.decode_attention(q, keys.at(), values.at(), before, out.at(), rows, s, capacity as u32, scale)
        };
        launch(c.kernels)?;
        let mut expected = Vec::with_capacity(rows * query * dim);
        for row in 0..rows {
            for h in 0..query {
                let g = h / (query / key);
                let mine = &q.at_start[(row * query + h) * dim..][..dim];
                let score = |p: usize| -> Term {
                    let k = &keys.at_start[cached(row, key, g, capacity, p, dim)..][..dim];
                    let products = mine.iter().zip(k).map(|(a, b)| a * b * f64::from(scale));
                    products.fold((0.0, 0.0), |(s, a), x| (s + x, a + x.abs()))
                };
                let scores: Vec<Term> = (0..=lengths[row]).map(score).collect();
                // What a score may be off by moves its probability in proportion.
                let size = scores.iter().fold(0.0f64, |a, s| a.max(s.1));
                let p = probabilities(&scores.iter().map(|s| s.0).collect::<Vec<_>>(), 1.0);
                for i in 0..dim {
                    let v = |at: usize| values.at_start[cached(row, key, g, capacity, at, dim) + i];
                    let terms = p.iter().enumerate().map(|(at, p)| p.0 * v(at));
                    let (sum, sizes) = terms.fold((0.0, 0.0), |(s, a), x: f64| (s + x, a + x.abs()));
                    expected.push((sum, sizes * (2.0 + 2.0 * size)));
                }
            }
        }
        c.expect(&out, capacity.div_ceil(128) + dim, |i| Some(expected[i]))?;
        c.time(timed, keys.bytes() + values.bytes() + 2.0 * q.bytes(), launch)
    });
}

fn fill_cache(
    bench: &mut Bench,
    s: Shape,
    prompts: &[usize],
    source: &[usize],
    capacity: usize,
    timed: bool,
) {
    bench.case("fill_cache", label(s, ""), |c| {
        let (_, key, dim) = parts(s);
        let batch = Batch::new(c, prompts)?;
        let n = batch.tokens.len() * key * dim;
        let (k, v) = (c.reals(n)?, c.reals(n)?);
        let size = source.len() * key * capacity * dim;
        let (keys, values) = (c.reals(size)?, c.reals(size)?);
        let from = c.of(Kind::U32, source.iter().map(|p| *p as f64).collect())?;
        let launch = |kernels: &Kernels| -> Outcome {
            let (k, v, offsets, from) = (k.at(), v.at(), batch.offsets.at(), from.at());
            let rows = source.len() as u32;
            kernels.fill_cache(k, v, offsets, from, keys.at(), values.at(), rows, s, capacity as u32)
        };
        launch(c.kernels)?;
        let first: Vec<usize> = (0..prompts.len()).map(|p| prompts[..p].iter().sum()).collect();
        for (cache, x) in [(&keys, &k), (&values, &v)] {
            c.exact(cache, |i| {
                let (row, g, p) =
                    (i / (key * capacity * dim), i / (capacity * dim) % key, i / dim % capacity);
                let prompt = source[row];
                Some(match p < prompts[prompt] {
                    true => x.at_start[batch.head_major(first[prompt] + p, key, g, dim, i % dim)],
                    false => rounded(cache.at_start[i], cache.kind),
                })
            })?;
        }
        let moved: usize = source.iter().map(|p| prompts[*p] * key * dim).sum();
        c.time(timed, 4.0 * moved as f64 * (k.bytes() / n as f64), launch)
    });
}
