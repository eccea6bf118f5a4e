//! Kernels of attention over a KV cache: one token of every row, and filling the cache.

use super::super::array::{TestArray, rounded};
use super::super::case::{Case, Checker, F32, Result, Term};
use super::{Split, angles, biased_number, label, parts, rotated, score, stored};
use crate::kernels::{DecodeAttention, DecodeCombine, DecodeHeads, FillCache, HeadShape, PAGE};
use crate::ptr::Real;

pub(super) fn check(checker: &mut Checker, s: HeadShape) {
    let (lengths, capacity) = (&[0, 4, 69, 139, 17][..], 140_usize);
    // One row that is full.
    let with_full = [lengths, &[capacity.next_multiple_of(TOKENS)]].concat();
    for biased in [false, true] {
        decode_heads(checker, s, (&with_full, capacity), biased);
    }
    for splits in [1, 3] {
        decode_attention(checker, s, (lengths, capacity), splits, 1.0);
    }
    decode_combine(checker, s);
    let copies = [(2, 3, 0), (0, 1, 0), (0, 0, 2), (1, 2, 0), (2, 4, 128)];
    fill_cache(checker, s, &[5, 1, 140], &copies, capacity);
}

/// Attention at lengths about the ends of pages and tiles; scores are `steepness` times as large as usual.
pub(super) fn attend(checker: &mut Checker, s: HeadShape, steepness: f32) {
    for splits in [1, 7] {
        let lengths = (&[0, 1, 30, 31, 32, 127, 128, 299][..], 320);
        decode_attention(checker, s, lengths, splits, steepness);
    }
}

/// Positions at the end of a long row, each of which has an angle of its own.
pub(super) fn far(checker: &mut Checker, s: HeadShape, capacity: usize) {
    decode_heads(checker, s, (&[15_962, capacity - 1, capacity], capacity), true);
}

/// A copy of a prompt: its number, the line of the table, the first position.
type Copied = (usize, usize, usize);

/// Tokens of a page.
const TOKENS: usize = PAGE as usize;

/// A table of pages in random order, and one page that no row has.
struct Table {
    on_device: TestArray<u32>,
    key: usize,
    dim: usize,
    width: usize,
    pages: Vec<usize>,
    /// The place of every page in `pages`.
    places: Vec<Option<usize>>,
}

impl Table {
    fn new(c: &mut Case<'_>, s: HeadShape, rows: usize, capacity: usize) -> Result<Self> {
        let (_, key, dim) = parts(s);
        let width = capacity.div_ceil(TOKENS);
        let pages: Vec<usize> =
            c.distinct(rows * width, rows * width + 1).into_iter().map(|page| page as usize).collect();
        let mut places = vec![None; pages.len() + 1];
        pages.iter().enumerate().for_each(|(place, page)| places[*page] = Some(place));
        Ok(Table { on_device: c.integers(pages.iter().copied())?, key, dim, width, pages, places })
    }

    /// Random keys, or values; NaN beyond the last position that each row reads.
    fn cache(&self, c: &mut Case<'_>, last: impl Fn(usize) -> usize) -> Result<TestArray<Real>> {
        let mut numbers = c.reals((self.pages.len() + 1) * self.key * TOKENS * self.dim)?.initial;
        for (i, x) in numbers.iter_mut().enumerate() {
            if self.place(i).is_none_or(|(row, _, p)| p > last(row)) {
                *x = f64::NAN;
            }
        }
        c.array(numbers)
    }

    /// The first number of key head `g` at position `p` of a row.
    fn at(&self, row: usize, g: usize, p: usize) -> usize {
        ((self.pages[row * self.width + p / TOKENS] * self.key + g) * TOKENS + p % TOKENS) * self.dim
    }

    /// The row, the key head and the position of number `i`; `None` on a page that no row has.
    fn place(&self, i: usize) -> Option<(usize, usize, usize)> {
        let page = i / (self.key * TOKENS * self.dim);
        let at = self.places[page]?;
        let (g, p) = (i / (TOKENS * self.dim) % self.key, at % self.width * TOKENS + i / self.dim % TOKENS);
        Some((at / self.width, g, p))
    }
}

/// The token of every row whose queries, keys and values a kernel writes.
struct Token {
    heads: HeadShape,
    positions: Vec<usize>,
    lengths: TestArray<u32>,
    angles: TestArray<f32>,
    table: Table,
    q: TestArray<Real>,
    keys: TestArray<Real>,
    values: TestArray<Real>,
}

impl Token {
    fn new(c: &mut Case<'_>, s: HeadShape, (positions, capacity): (&[usize], usize)) -> Result<Self> {
        let table = Table::new(c, s, positions.len(), capacity)?;
        Ok(Token {
            heads: s,
            positions: positions.to_vec(),
            lengths: c.integers(positions.iter().copied())?,
            angles: angles(c, capacity, s.dim as usize)?,
            q: c.blank(positions.len() * (s.query * s.dim) as usize)?,
            keys: table.cache(c, |_| usize::MAX)?,
            values: table.cache(c, |_| usize::MAX)?,
            table,
        })
    }

    /// Compares everything with the projection's `number(row, i)`. Full rows stay.
    fn expect(&self, c: &mut Case<'_>, number: impl Fn(usize, usize) -> Term + Sync) -> Result {
        let (query, key, dim) = parts(self.heads);
        let head = |row: usize, h: usize, i: usize| {
            let x = |i: usize| number(row, h * dim + i);
            match h < query + key {
                true => rotated(&self.angles.initial, self.positions[row], dim, i, 1.0, x),
                false => x(i),
            }
        };
        let full = |row: usize| self.positions[row] >= self.table.width * TOKENS;
        let query_of = |i: usize| {
            let row = i / (query * dim);
            (!full(row)).then(|| head(row, i / dim % query, i % dim))
        };
        c.expect(&self.q, 1, query_of)?;
        c.exact(&self.q, |i| full(i / (query * dim)).then_some(f64::NAN))?;
        for (cache, from) in [(&self.keys, query), (&self.values, query + key)] {
            let place = |i: usize| {
                let (row, g, p) = self.table.place(i)?;
                (p == self.positions[row]).then_some((row, from + g))
            };
            c.expect(cache, 1, |i| place(i).map(|(row, h)| head(row, h, i % dim)))?;
            c.exact(cache, |i| place(i).is_none().then_some(cache.initial[i]))?;
        }
        Ok(())
    }
}

fn decode_heads(checker: &mut Checker, s: HeadShape, lengths: (&[usize], usize), biased: bool) {
    let what = format!("{}to {}", if biased { "biased " } else { "" }, lengths.1);
    checker.case("decode_heads", label(s, &what), |c| {
        let (query, key, dim) = parts(s);
        let (rows, width) = (lengths.0.len(), (query + 2 * key) * dim);
        let (qkv, bias, to) = (c.reals(rows * width)?, c.reals(width)?, Token::new(c, s, lengths)?);
        c.launch(DecodeHeads {
            qkv: qkv.ptr(),
            bias: biased.then(|| bias.ptr()),
            table: to.angles.ptr(),
            lengths: to.lengths.ptr(),
            q: to.q.ptr_mut(),
            keys: to.keys.ptr_mut(),
            values: to.values.ptr_mut(),
            pages: to.table.on_device.ptr(),
            rows: rows as u32,
            heads: s,
            width: to.table.width as u32,
        })?;
        let bias = biased.then_some(&bias);
        to.expect(c, |row, i| biased_number(&qkv, bias, width, row, i))
    });
}

/// Positions `from..to` that a split works on: whole tiles of 128, as many in each but the last.
fn positions(len: usize, split: usize, splits: usize) -> std::ops::Range<usize> {
    let span = len.div_ceil(128).div_ceil(splits) * 128;
    (split * span).min(len)..((split + 1) * span).min(len)
}

fn decode_attention(
    checker: &mut Checker,
    s: HeadShape,
    (lengths, capacity): (&[usize], usize),
    splits: usize,
    steepness: f32,
) {
    checker.case("decode_attention", label(s, &format!("over {capacity} in {splits}")), |c| {
        let (query, _, dim) = parts(s);
        let rows = lengths.len();
        let scale = steepness / (s.dim as f32).sqrt();
        let q = c.reals(rows * query * dim)?;
        let table = Table::new(c, s, rows, capacity)?;
        let [keys, values] = [(); 2].map(|()| table.cache(c, |row| lengths[row]));
        let (keys, values) = (keys?, values?);
        let before = c.integers(lengths.iter().copied())?;
        let out = c.blank(rows * query * dim)?;
        let each: TestArray<f32> = c.blank(rows * query * splits * (dim + 2))?;
        c.launch(DecodeAttention {
            q: q.ptr(),
            keys: keys.ptr(),
            values: values.ptr(),
            lengths: before.ptr(),
            out: out.ptr_mut(),
            parts: (splits > 1).then(|| each.ptr_mut()),
            pages: table.on_device.ptr(),
            splits: splits as u32,
            rows: rows as u32,
            heads: s,
            width: table.width as u32,
            scale,
        })?;
        let expected = Cached {
            heads: s,
            scale,
            table: &table,
            q: &q.initial,
            keys: &keys.initial,
            values: &values.initial,
        }
        .splits(lengths, splits);
        let stored = stored(c);
        let unit = F32 * (8.0 + (capacity as f64).sqrt() + dim as f64);
        let bound = |(value, size): Term, scores: f64| {
            unit * size * (2.0 + 2.0 * scores) + stored * (size + value.abs()) + f64::from(f32::MIN_POSITIVE)
        };
        if splits == 1 {
            c.compare(&out, |i| {
                let split = &expected[i / dim];
                let x = split.sums[i % dim];
                let term = (x.0 / split.total, x.1 / split.total);
                Some((term.0, bound(term, split.size)))
            })?;
        } else {
            c.compare(&each, |i| {
                let split = &expected[i / (dim + 2)];
                Some(match i % (dim + 2) {
                    0 => (split.top, bound((0.0, 1.0), split.size)),
                    1 => (split.total, bound((split.total, split.total), split.size)),
                    x => (split.sums[x - 2].0, bound(split.sums[x - 2], split.size)),
                })
            })?;
            c.untouched(&out)?;
        }
        Ok(())
    });
}

/// Queries of some rows, and a cache.
struct Cached<'a> {
    heads: HeadShape,
    scale: f32,
    table: &'a Table,
    q: &'a [f64],
    keys: &'a [f64],
    values: &'a [f64],
}

impl Cached<'_> {
    /// The expected split of every query head of every row.
    fn splits(&self, lengths: &[usize], splits: usize) -> Vec<Split> {
        let (query, key, dim) = parts(self.heads);
        let mut expected = Vec::new();
        for (row, len) in lengths.iter().enumerate() {
            for (h, split) in (0..query).flat_map(|h| (0..splits).map(move |split| (h, split))) {
                let mine = &self.q[(row * query + h) * dim..][..dim];
                let at = |p: usize| self.table.at(row, h / (query / key), p);
                let seen = positions(len + 1, split, splits).map(|p| {
                    (score(mine, &self.keys[at(p)..][..dim], self.scale), &self.values[at(p)..][..dim])
                });
                expected.push(Split::new(&seen.collect::<Vec<_>>(), dim));
            }
        }
        expected
    }
}

fn decode_combine(checker: &mut Checker, s: HeadShape) {
    checker.case("decode_combine", label(s, ""), |c| {
        let (query, _, dim) = parts(s);
        // More than are added up at a time.
        let (lines, splits, width) = (query * 3, 7, dim + 2);
        let mut numbers = c.random::<f32>(lines * splits * width, 1.0)?.initial;
        for (i, part) in numbers.chunks_exact_mut(width).enumerate() {
            part[1] = part[1].abs() + 0.5;
            if i % 5 == 2 {
                // A split without positions.
                part.fill(0.0);
                part[0] = f64::NEG_INFINITY;
            }
        }
        let (each, out) = (c.array::<f32>(numbers)?, c.blank(lines * dim)?);
        let (lines, splits32, dim32) = (lines as u32, splits as u32, s.dim);
        c.launch(DecodeCombine {
            parts: each.ptr(),
            out: out.ptr_mut(),
            lines,
            splits: splits32,
            dim: dim32,
        })?;
        c.expect(&out, splits, |i| {
            let line = &each.initial[i / dim * splits * width..][..splits * width];
            let top = line.chunks_exact(width).fold(f64::NEG_INFINITY, |a, part| a.max(part[0]));
            let share = |part: &[f64]| (part[0] - top).exp();
            let all: f64 = line.chunks_exact(width).map(|part| part[1] * share(part)).sum();
            let terms = line.chunks_exact(width).map(|part| part[2 + i % dim] * share(part) / all);
            let (sum, size) = terms.fold((0.0, 0.0), |(s, a), x: f64| (s + x, a + x.abs()));
            Some((sum, 4.0 * (size + sum.abs())))
        })
    });
}

fn fill_cache(checker: &mut Checker, s: HeadShape, prompts: &[usize], copies: &[Copied], capacity: usize) {
    checker.case("fill_cache", label(s, ""), |c| {
        let (query, key, dim) = parts(s);
        let first: Vec<usize> = (0..=prompts.len()).map(|p| prompts[..p].iter().sum()).collect();
        let width = (query + 2 * key) * dim;
        let qkv = c.reals(first[prompts.len()] * width)?;
        let offsets = c.integers(first.iter().copied())?;
        let table = Table::new(c, s, copies.len(), capacity)?;
        let [keys, values] = [(); 2].map(|()| table.cache(c, |_| usize::MAX));
        let (keys, values) = (keys?, values?);
        let source = c.integers(copies.iter().map(|copy| copy.0))?;
        let lines = c.integers(copies.iter().map(|copy| copy.1))?;
        let begins = c.integers(copies.iter().map(|copy| copy.2))?;
        let tokens: usize = copies.iter().map(|copy| prompts[copy.0] - copy.2).sum();
        c.launch(FillCache {
            qkv: qkv.ptr(),
            offsets: offsets.ptr(),
            source: source.ptr(),
            keys: keys.ptr_mut(),
            values: values.ptr_mut(),
            pages: table.on_device.ptr(),
            lines: lines.ptr(),
            begins: begins.ptr(),
            copies: copies.len() as u32,
            tokens: tokens as u32,
            heads: s,
            width: table.width as u32,
        })?;
        for (cache, from) in [(&keys, query), (&values, query + key)] {
            c.exact(cache, |i| {
                let copied = table.place(i).and_then(|(row, g, p)| {
                    let &(prompt, _, begin) = copies.iter().find(|copy| copy.1 == row)?;
                    let there = (begin..prompts[prompt]).contains(&p);
                    there.then(|| qkv.initial[(first[prompt] + p) * width + (from + g) * dim + i % dim])
                });
                Some(copied.unwrap_or_else(|| rounded(cache.initial[i], cache.stored)))
            })?;
        }
        Ok(())
    });
}
