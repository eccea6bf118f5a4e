//! Kernels of attention over a KV cache: one token of every row, and filling the cache.

use super::super::array::rounded;
use super::super::case::{Checker, Term};
use super::{angles, biased_number, label, parts, probabilities_of, rotated};
use crate::kernels::{DecodeAttention, DecodeHeads, FillCache, HeadShape};

pub(super) fn check(checker: &mut Checker, shape: HeadShape, timed: bool) {
    let (lengths, capacity): (&[usize], usize) =
        if timed { (&[511; 16], 512) } else { (&[0, 4, 32, 39, 17], 40) };
    for biased in [false, true] {
        decode_heads(checker, shape, lengths, capacity, biased, timed && biased);
    }
    decode_attention(checker, shape, lengths, capacity, timed);
    let (prompts, source): (&[usize], &[usize]) = if timed {
        (&[256, 256], &[0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1])
    } else {
        (&[5, 1, 40], &[2, 0, 0, 1])
    };
    fill_cache(checker, shape, prompts, source, capacity, timed);
}

/// Where position `p` of a cache `[rows][key][capacity][dim]` begins.
fn cached(row: usize, key: usize, g: usize, capacity: usize, p: usize, dim: usize) -> usize {
    ((row * key + g) * capacity + p) * dim
}

fn decode_heads(
    checker: &mut Checker,
    s: HeadShape,
    lengths: &[usize],
    capacity: usize,
    biased: bool,
    timed: bool,
) {
    checker.case("decode_heads", label(s, if biased { "biased" } else { "" }), |c| {
        let (query, key, dim) = parts(s);
        let (rows, width) = (lengths.len(), (query + 2 * key) * dim);
        let (qkv, bias, table) = (c.reals(rows * width)?, c.reals(width)?, angles(c, capacity, dim)?);
        let before = c.integers(lengths.iter().copied())?;
        let q = c.blank(rows * query * dim)?;
        let (keys, values) = (c.reals(rows * key * capacity * dim)?, c.reals(rows * key * capacity * dim)?);
        let kernel = DecodeHeads {
            qkv: qkv.ptr(),
            bias: biased.then(|| bias.ptr()),
            table: table.ptr(),
            lengths: before.ptr(),
            q: q.ptr_mut(),
            keys: keys.ptr_mut(),
            values: values.ptr_mut(),
            rows: rows as u32,
            heads: s,
            capacity: capacity as u32,
        };
        c.launch(kernel)?;
        let bias = biased.then_some(&bias);
        let head = |row: usize, h: usize, i: usize, rotates: bool| {
            let x = |i: usize| biased_number(&qkv, bias, width, row, h * dim + i);
            if rotates { rotated(&table.initial, lengths[row], dim, i, 1.0, x) } else { x(i) }
        };
        c.expect(&q, 1, |i| Some(head(i / (query * dim), i / dim % query, i % dim, true)))?;
        for (cache, from, rotates) in [(&keys, query, true), (&values, query + key, false)] {
            let place = |i: usize| {
                let (row, g, p) =
                    (i / (key * capacity * dim), i / (capacity * dim) % key, i / dim % capacity);
                (p == lengths[row]).then_some((row, from + g))
            };
            c.expect(cache, 1, |i| place(i).map(|(row, h)| head(row, h, i % dim, rotates)))?;
            c.exact(cache, |i| place(i).is_none().then_some(cache.initial[i]))?;
        }
        c.time(timed, 2.0 * qkv.bytes(), kernel)
    });
}

fn decode_attention(checker: &mut Checker, s: HeadShape, lengths: &[usize], capacity: usize, timed: bool) {
    checker.case("decode_attention", label(s, &format!("over {capacity}")), |c| {
        let (query, key, dim) = parts(s);
        let rows = lengths.len();
        let scale = 1.0 / (s.dim as f32).sqrt();
        let q = c.reals(rows * query * dim)?;
        let (keys, values) = (c.reals(rows * key * capacity * dim)?, c.reals(rows * key * capacity * dim)?);
        let before = c.integers(lengths.iter().copied())?;
        let out = c.blank(rows * query * dim)?;
        let kernel = DecodeAttention {
            q: q.ptr(),
            keys: keys.ptr(),
            values: values.ptr(),
            lengths: before.ptr(),
            out: out.ptr_mut(),
            rows: rows as u32,
            heads: s,
            capacity: capacity as u32,
            scale,
        };
        c.launch(kernel)?;
        let mut expected = Vec::with_capacity(rows * query * dim);
        for row in 0..rows {
            for h in 0..query {
                let g = h / (query / key);
                let mine = &q.initial[(row * query + h) * dim..][..dim];
                let score = |p: usize| -> Term {
                    let k = &keys.initial[cached(row, key, g, capacity, p, dim)..][..dim];
                    let products = mine.iter().zip(k).map(|(a, b)| a * b * f64::from(scale));
                    products.fold((0.0, 0.0), |(s, a), x| (s + x, a + x.abs()))
                };
                let scores: Vec<Term> = (0..=lengths[row]).map(score).collect();
                // What a score may be off by moves its probability in proportion.
                let size = scores.iter().fold(0.0f64, |a, s| a.max(s.1));
                let p = probabilities_of(&scores.iter().map(|s| s.0).collect::<Vec<_>>(), 1.0);
                for i in 0..dim {
                    let v = |at: usize| values.initial[cached(row, key, g, capacity, at, dim) + i];
                    let terms = p.iter().enumerate().map(|(at, p)| p.0 * v(at));
                    let (sum, sizes) = terms.fold((0.0, 0.0), |(s, a), x: f64| (s + x, a + x.abs()));
                    expected.push((sum, sizes * (2.0 + 2.0 * size)));
                }
            }
        }
        c.expect(&out, capacity.div_ceil(128) + dim, |i| Some(expected[i]))?;
        c.time(timed, keys.bytes() + values.bytes() + 2.0 * q.bytes(), kernel)
    });
}

fn fill_cache(
    checker: &mut Checker,
    s: HeadShape,
    prompts: &[usize],
    source: &[usize],
    capacity: usize,
    timed: bool,
) {
    checker.case("fill_cache", label(s, ""), |c| {
        let (query, key, dim) = parts(s);
        let first: Vec<usize> = (0..=prompts.len()).map(|p| prompts[..p].iter().sum()).collect();
        let width = (query + 2 * key) * dim;
        let qkv = c.reals(first[prompts.len()] * width)?;
        let offsets = c.integers(first.iter().copied())?;
        let size = source.len() * key * capacity * dim;
        let (keys, values) = (c.reals(size)?, c.reals(size)?);
        let from = c.integers(source.iter().copied())?;
        let kernel = FillCache {
            qkv: qkv.ptr(),
            offsets: offsets.ptr(),
            source: from.ptr(),
            keys: keys.ptr_mut(),
            values: values.ptr_mut(),
            rows: source.len() as u32,
            heads: s,
            capacity: capacity as u32,
        };
        c.launch(kernel)?;
        for (cache, from) in [(&keys, query), (&values, query + key)] {
            c.exact(cache, |i| {
                let (row, g, p) =
                    (i / (key * capacity * dim), i / (capacity * dim) % key, i / dim % capacity);
                let prompt = source[row];
                Some(match p < prompts[prompt] {
                    true => qkv.initial[(first[prompt] + p) * width + (from + g) * dim + i % dim],
                    false => rounded(cache.initial[i], cache.stored),
                })
            })?;
        }
        let moved: usize = source.iter().map(|p| prompts[*p] * key * dim).sum();
        c.time(timed, 4.0 * moved as f64 * qkv.bytes() / qkv.initial.len() as f64, kernel)
    });
}
