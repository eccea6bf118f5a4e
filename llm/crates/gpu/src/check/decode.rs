//! Kernels over a KV cache: one token of every row, and filling the cache with prompts.

use grpo_lambda_decoder::model::ops::buffer::Pool;
use grpo_lambda_decoder::model::ops::norm;
use grpo_lambda_decoder::model::ops::{attention, rope};

use super::array::{TestArray, rounded};
use super::case::{Case, Checker, Result, largest};
use super::heads::{FAR, frequencies, label, on_the_cpu};
use super::{Extent, HEADS};
use crate::heads::RotaryTable;
use crate::kernels::{DecodeAttention, DecodeCombine, DecodeHeads, FillCache, HeadShape, PAGE};
use crate::ptr::{Element, Real};

/// Tokens of a page.
const TOKENS: usize = PAGE as usize;
/// Tokens before the new one, about the ends of pages and tiles, the first over several splits; and the capacity of a row.
const LENGTHS: [usize; 8] = [299, 0, 30, 31, 32, 4, 127, 128];
const CAPACITY: usize = 320;
/// Tokens of prompts.
const PROMPTS: [usize; 3] = [5, 1, 140];
/// Copies of prompts: a prompt, the line of the table, the first position.
const COPIES: [(usize, usize, usize); 5] = [(2, 3, 0), (0, 1, 0), (0, 0, 2), (1, 2, 0), (2, 4, 128)];

pub(super) fn check(checker: &mut Checker) {
    for heads in checker.extent.sizes(&HEADS) {
        for biased in [false, true] {
            decode_heads(checker, heads, (&[0, 4, 69, 139, 17, 160], 140), biased);
        }
        // Of many heads, scores whose exponentials overflow unless the largest is subtracted.
        let steepness = if heads.query > 12 { 64.0 } else { 1.0 };
        for (kernel, splits) in [("decode_attention", 1), ("decode_attention", 7), ("decode_combine", 7)] {
            let sizes = label(heads, &format!("over {CAPACITY} in {splits}"));
            checker.case(kernel, sizes, |c| attend(c, heads, splits, steepness));
        }
        checker.case("fill_cache", label(heads, ""), |c| fill(c, heads));
    }
    if checker.extent != Extent::Odd {
        // Positions at the end of a long row, each of which has an angle of its own.
        decode_heads(checker, HEADS[0], (&[15_962, FAR - 1, FAR], FAR), true);
    }
}

/// Keys and values in pages in random order, with one page that no row has.
struct Cache {
    heads: attention::Heads,
    /// Pages of a row.
    width: usize,
    table: Vec<usize>,
    on_device: TestArray<u32>,
    keys: TestArray<Real>,
    values: TestArray<Real>,
}

impl Cache {
    /// A cache with these tokens of every row, whole ones of the fused projection; what it has beyond them is `rest`.
    fn new(c: &mut Case<'_>, heads: HeadShape, rows: &[&[f64]], capacity: usize, rest: f64) -> Result<Self> {
        let (heads, width) = (on_the_cpu(heads), capacity.div_ceil(TOKENS));
        let count = rows.len() * width;
        let table = c.distinct(count, count + 1);
        let on_device = c.integers(table.iter().copied())?;
        let blank = || c.array::<Real>(Vec::new());
        let mut cache = Cache { heads, width, table, on_device, keys: blank()?, values: blank()? };
        let mut numbers = [(); 2].map(|()| vec![rest; (count + 1) * heads.key * TOKENS * heads.dim]);
        for (row, tokens) in rows.iter().enumerate() {
            let each = tokens.chunks_exact(heads.stride()).enumerate();
            each.for_each(|(p, token)| cache.put(&mut numbers, row, p, token));
        }
        let [keys, values] = numbers;
        (cache.keys, cache.values) = (c.array(keys)?, c.array(values)?);
        Ok(cache)
    }

    /// Puts keys and values of a token at position `p` of a row.
    fn put(&self, [keys, values]: &mut [Vec<f64>; 2], row: usize, p: usize, token: &[f64]) {
        let dim = self.heads.dim;
        let page = self.table[row * self.width + p / TOKENS];
        let cached = &token[self.heads.width()..];
        for g in 0..self.heads.key {
            let at = ((page * self.heads.key + g) * TOKENS + p % TOKENS) * dim;
            keys[at..at + dim].copy_from_slice(&cached[g * dim..][..dim]);
            values[at..at + dim].copy_from_slice(&cached[(self.heads.key + g) * dim..][..dim]);
        }
    }

    /// The keys and values that were there at first.
    fn initial(&self) -> [Vec<f64>; 2] {
        [self.keys.initial.clone(), self.values.initial.clone()]
    }
}

/// The token of every row whose queries, keys and values go to their places; a row that is full stays.
fn decode_heads(
    checker: &mut Checker,
    heads: HeadShape,
    (lengths, capacity): (&[usize], usize),
    biased: bool,
) {
    let what = format!("{}to {capacity}", if biased { "biased " } else { "" });
    checker.case("decode_heads", label(heads, &what), |c| {
        let (cpu, rows) = (on_the_cpu(heads), lengths.len());
        let (qkv, bias) = (c.random::<Real>(rows * cpu.stride())?, c.random::<Real>(cpu.stride())?);
        let cache = Cache::new(c, heads, &vec![&[][..]; rows], capacity, 0.25)?;
        let table = RotaryTable::new(c.device(), capacity, &frequencies(heads.dim))?;
        let (before, q) = (c.integers(lengths.iter().copied())?, c.blank(rows * cpu.width())?);
        c.launch(DecodeHeads {
            qkv: qkv.ptr(),
            bias: biased.then(|| bias.ptr()),
            table: table.ptr(),
            lengths: before.ptr(),
            q: q.out(),
            keys: cache.keys.out(),
            values: cache.values.out(),
            pages: cache.on_device.ptr(),
            rows: rows as u32,
            heads,
            width: cache.width as u32,
        })?;
        let mut tokens = qkv.initial.clone();
        if biased {
            norm::add_bias(&mut tokens, &bias.initial);
        }
        let turns = rope::Table::new(&frequencies(heads.dim), capacity.max(1 + lengths[rows - 1]));
        rope::rotate(&mut tokens, cpu.stride(), cpu.rotated(), &before.whole(), &turns, false);
        let (mut queries, mut cached) = (q.initial.clone(), cache.initial());
        for (row, token) in tokens.chunks_exact(cpu.stride()).enumerate() {
            if lengths[row] < cache.width * TOKENS {
                queries[row * cpu.width()..][..cpu.width()].copy_from_slice(&token[..cpu.width()]);
                cache.put(&mut cached, row, lengths[row], token);
            }
        }
        c.near(&q, largest(&tokens), &queries)?;
        c.near(&cache.keys, largest(&tokens), &cached[0])?;
        c.near(&cache.values, largest(&tokens), &cached[1])
    });
}

/// Attention of the last token of every row, put together from its parts if there are several.
fn attend(c: &mut Case<'_>, heads: HeadShape, splits: usize, steepness: f64) -> Result {
    let (cpu, rows) = (on_the_cpu(heads), LENGTHS.len());
    let offsets: Vec<usize> = (0..=rows).map(|row| LENGTHS[..row].iter().map(|len| len + 1).sum()).collect();
    let stored = Real::stored(c.kernels.dtype);
    let tokens: Vec<f64> =
        c.normals(offsets[rows] * cpu.stride()).into_iter().map(|x| rounded(x, stored)).collect();
    let row = |row: usize| &tokens[offsets[row] * cpu.stride()..offsets[row + 1] * cpu.stride()];
    let cache = Cache::new(c, heads, &(0..rows).map(row).collect::<Vec<_>>(), CAPACITY, f64::NAN)?;
    let (before, last): (Vec<&[f64]>, Vec<&[f64]>) =
        (0..rows).map(|i| row(i).split_at(LENGTHS[i] * cpu.stride())).unzip();
    let queries = last.iter().flat_map(|token| token[..cpu.width()].iter().map(|x| steepness * x));
    let (q, lengths) = (c.array::<Real>(queries.collect())?, c.integers(LENGTHS)?);
    let (out, lines) = (c.blank(rows * cpu.width())?, rows * cpu.query);
    let parts = c.blank::<f32>(lines * splits * (cpu.dim + 2))?;
    c.launch(DecodeAttention {
        q: q.ptr(),
        keys: cache.keys.ptr(),
        values: cache.values.ptr(),
        lengths: lengths.ptr(),
        out: out.out(),
        parts: (splits > 1).then(|| parts.out()),
        pages: cache.on_device.ptr(),
        splits: splits as u32,
        rows: rows as u32,
        heads,
        width: cache.width as u32,
        scale: (1.0 / f64::from(heads.dim).sqrt()) as f32,
    })?;
    if splits > 1 {
        let (lines, splits, dim) = (lines as u32, splits as u32, heads.dim);
        c.launch(DecodeCombine { parts: parts.ptr(), out: out.out(), lines, splits, dim })?;
    }
    let mut last: Vec<f64> = last.concat();
    for (token, q) in last.chunks_exact_mut(cpu.stride()).zip(q.initial.chunks_exact(cpu.width())) {
        token[..cpu.width()].copy_from_slice(q);
    }
    let (mut expected, mut sums) = (vec![0.0; rows * cpu.width()], vec![0.0; lines]);
    let each: Vec<usize> = (0..=rows).collect();
    attention::forward(&Pool::default(), cpu, &last, &each, &before, &mut expected, &mut sums);
    let scores = steepness * f64::from(heads.dim).sqrt();
    c.near_stored(&out, (largest(&expected) * (2.0 + 2.0 * scores), largest(&expected)), &expected)
}

fn fill(c: &mut Case<'_>, heads: HeadShape) -> Result {
    let stride = on_the_cpu(heads).stride();
    let first: Vec<usize> = (0..=PROMPTS.len()).map(|p| PROMPTS[..p].iter().sum()).collect();
    let qkv = c.random::<Real>(first[PROMPTS.len()] * stride)?;
    let offsets = c.integers(first.iter().copied())?;
    let cache = Cache::new(c, heads, &[&[][..]; COPIES.len()], 140, 0.25)?;
    let source = c.integers(COPIES.map(|copy| copy.0))?;
    let (lines, begins) = (c.integers(COPIES.map(|copy| copy.1))?, c.integers(COPIES.map(|copy| copy.2))?);
    c.launch(FillCache {
        qkv: qkv.ptr(),
        offsets: offsets.ptr(),
        source: source.ptr(),
        keys: cache.keys.out(),
        values: cache.values.out(),
        pages: cache.on_device.ptr(),
        lines: lines.ptr(),
        begins: begins.ptr(),
        copies: COPIES.len() as u32,
        tokens: COPIES.iter().map(|(prompt, _, begin)| PROMPTS[*prompt] - begin).sum::<usize>() as u32,
        heads,
        width: cache.width as u32,
    })?;
    let mut expected = cache.initial();
    for (prompt, line, begin) in COPIES {
        for p in begin..PROMPTS[prompt] {
            cache.put(&mut expected, line, p, &qkv.initial[(first[prompt] + p) * stride..][..stride]);
        }
    }
    c.exact(&cache.keys, &expected[0])?;
    c.exact(&cache.values, &expected[1])
}
