//! Attention and its gradients, against the equations of [`crate::kernels::Attention`] in `f64`.

use super::super::array::{TestArray, rounded};
use super::super::case::{Case, Checker, F32, Result, Term};
use super::{Split, dot, label, parts, score, stored};
use crate::kernels::{
    Attention, AttentionKeys, AttentionKeysSum, AttentionQueries, HeadShape, Segments, TILE, WHOLE,
};
use crate::ptr::Real;

/// Tokens of every segment, and the prefix it continues.
type Layout<'a> = &'a [(usize, Option<usize>)];

/// A prefix that two rows continue and one that none does not; a segment of several tiles, of one token, and one that a tile ends.
const ODD: Layout = &[(5, None), (3, Some(0)), (1, Some(0)), (70, None), (64, None), (1, None)];
const LONG: Layout = &[(67, None), (66, Some(0)), (9, Some(0))];
/// A layout for scores whose exponentials overflow unless the largest is subtracted.
const SHORT: Layout = &[(9, None), (5, Some(0))];
pub(super) fn check(checker: &mut Checker, s: HeadShape) {
    for (layout, steepness) in [(ODD, 1.0), (LONG, 1.0), (SHORT, 64.0)] {
        let tokens: usize = layout.iter().map(|s| s.0).sum();
        let label = label(s, &format!("over {tokens} tokens"));
        let problem = |c: &mut Case<'_>| Problem::new(c, s, layout, steepness);
        checker.case("attention", label.clone(), |c| forward(problem(c)?, c));
        checker.case("attention_queries", label.clone(), |c| queries(problem(c)?, c));
        checker.case("attention_keys", label.clone(), |c| keys(problem(c)?, c));
        if layout.iter().any(|x| x.1.is_some()) {
            checker.case("attention_keys_sum", label, |c| sum(problem(c)?, c));
        }
    }
}

/// The segments, on the device and here.
struct Batch {
    lists: [TestArray<u32>; 5],
    /// Parts of the gradients of prefixes.
    places: usize,
    /// The tokens that each token sees, itself last.
    seen: Vec<Vec<usize>>,
}

impl Batch {
    fn new(c: &Case<'_>, layout: Layout) -> Result<Self> {
        let starts: Vec<usize> = (0..=layout.len()).map(|s| layout[..s].iter().map(|x| x.0).sum()).collect();
        let prefix = layout.iter().enumerate().map(|(s, x)| x.1.unwrap_or(s));
        let tiles = layout
            .iter()
            .enumerate()
            .flat_map(|(s, x)| (0..x.0).step_by(TILE as usize).flat_map(move |first| [s, first]));
        let (mut by_reader, mut shared, mut places) = (Vec::new(), Vec::new(), 0);
        for (s, x) in layout.iter().enumerate() {
            let readers: Vec<usize> =
                (0..layout.len()).filter(|r| *r == s || layout[*r].1 == Some(s)).collect();
            for first in (0..x.0).step_by(TILE as usize) {
                if let [only] = readers[..] {
                    by_reader.extend([s, first, only, WHOLE as usize]);
                    continue;
                }
                shared.extend([s, first, places, readers.len()]);
                for reader in &readers {
                    by_reader.extend([s, first, *reader, places]);
                    places += 1;
                }
            }
        }
        let seen = layout.iter().enumerate().flat_map(|(s, (len, prefix))| {
            let before = prefix.map_or(0..0, |p| starts[p]..starts[p + 1]);
            let own = starts[s];
            (0..*len).map(move |i| before.clone().chain(own..=own + i).collect::<Vec<usize>>())
        });
        let seen = seen.collect();
        let lists = [
            c.integers(starts.iter().copied())?,
            c.integers(prefix)?,
            c.integers(tiles)?,
            c.integers(by_reader)?,
            c.integers(shared)?,
        ];
        Ok(Batch { lists, places, seen })
    }

    fn segments(&self) -> Segments {
        let [offsets, prefix, tiles, by_reader, shared] = &self.lists;
        Segments {
            offsets: offsets.ptr(),
            prefix: prefix.ptr(),
            query_tiles: tiles.ptr(),
            count: (tiles.initial.len() / 2) as u32,
            key_tiles: by_reader.ptr(),
            key_count: (by_reader.initial.len() / 4) as u32,
            shared_tiles: shared.ptr(),
            shared_count: (shared.initial.len() / 4) as u32,
            places: self.places,
            tokens: self.seen.len(),
            pairs: self.seen.iter().map(|seen| seen.len() as f64).sum(),
        }
    }
}

/// Expected numbers, and beside each the sum of its absolute terms.
#[derive(Clone)]
struct Terms {
    value: Vec<f64>,
    size: Vec<f64>,
}

impl Terms {
    fn zeros(n: usize) -> Self {
        Terms { value: vec![0.0; n], size: vec![0.0; n] }
    }
    /// Adds `factor x[i]` to number `at + i`.
    fn add(&mut self, at: usize, (factor, size): (f64, f64), x: &[f64]) {
        for (i, x) in x.iter().enumerate() {
            self.value[at + i] += factor * x;
            self.size[at + i] += size * x.abs();
        }
    }
}

/// A projection of a batch, and its heads.
struct Problem {
    heads: HeadShape,
    batch: Batch,
    qkv: TestArray<Real>,
    scale: f32,
}

impl Problem {
    fn new(c: &mut Case<'_>, s: HeadShape, layout: Layout, steepness: f32) -> Result<Self> {
        let (query, key, dim) = parts(s);
        let batch = Batch::new(c, layout)?;
        let qkv = c.reals(batch.seen.len() * (query + 2 * key) * dim)?;
        Ok(Problem { heads: s, batch, qkv, scale: steepness / (s.dim as f32).sqrt() })
    }

    fn tokens(&self) -> usize {
        self.batch.seen.len()
    }

    /// The first number of head `h` of a token in the projection: the queries, then the keys, then the values.
    fn at(&self, token: usize, h: usize) -> usize {
        let (query, key, dim) = parts(self.heads);
        (token * (query + 2 * key) + h) * dim
    }

    fn head(&self, token: usize, h: usize) -> &[f64] {
        &self.qkv.initial[self.at(token, h)..][..self.heads.dim as usize]
    }

    /// Key and value head of a query head.
    fn keys_of(&self, h: usize) -> (usize, usize) {
        let (query, key, _) = parts(self.heads);
        (query + h / (query / key), query + key + h / (query / key))
    }

    /// The keys that a query sees: the score of each, and its value.
    fn seen(&self, token: usize, h: usize) -> Vec<(Term, &[f64])> {
        let (k, v) = self.keys_of(h);
        let one =
            |key: &usize| (score(self.head(token, h), self.head(*key, k), self.scale), self.head(*key, v));
        self.batch.seen[token].iter().map(one).collect()
    }

    /// The softmax of every query head of every token.
    fn splits(&self) -> Vec<Split> {
        let mut splits = Vec::new();
        self.each(|token, h| splits.push(Split::new(&self.seen(token, h), self.heads.dim as usize)));
        splits
    }

    /// Calls `f(token, head)` for every query head of every token.
    fn each(&self, mut f: impl FnMut(usize, usize)) {
        for token in 0..self.tokens() {
            (0..self.heads.query as usize).for_each(|h| f(token, h));
        }
    }
}

/// The bound of a sum: rounding to `f32` of terms that scores move in proportion, and to bf16 on the way.
fn bound(stored: f64, value: f64, size: f64, tokens: usize, scores: f64) -> f64 {
    F32 * (8.0 + (tokens as f64).sqrt()) * size * (2.0 + 2.0 * scores)
        + stored * (size + value.abs())
        + f64::from(f32::MIN_POSITIVE)
}

/// The largest sum of absolute terms of a score of any query.
fn largest(splits: &[Split]) -> f64 {
    splits.iter().fold(0.0, |most, split| most.max(split.size))
}

fn forward(p: Problem, c: &mut Case<'_>) -> Result {
    let (s, (query, _, dim)) = (p.heads, parts(p.heads));
    let (out, log_sum) = (c.blank(p.tokens() * query * dim)?, c.blank(p.tokens() * query)?);
    let segments = p.batch.segments();
    let (to, sums) = (out.ptr_mut(), log_sum.ptr_mut());
    c.launch(Attention { qkv: p.qkv.ptr(), segments, out: to, log_sum: sums, heads: s, scale: p.scale })?;
    let (splits, longest) = (p.splits(), p.tokens());
    let most = largest(&splits);
    let stored = stored(c);
    c.compare(&out, |i| {
        let (split, sum) = (&splits[i / dim], splits[i / dim].sums[i % dim]);
        let value = sum.0 / split.total;
        Some((value, bound(stored, value, sum.1 / split.total, longest, most)))
    })?;
    c.expect(&log_sum, longest, |i| {
        let sum = splits[i].log_sum();
        Some((sum, 1.0 + sum.abs() + splits[i].size))
    })
}

/// The inputs of the backward pass beside the projection.
struct Given {
    out: TestArray<Real>,
    dout: TestArray<Real>,
    log_sum: TestArray<f32>,
    /// `D` of every query, and the sum of its absolute terms.
    inner: Vec<Term>,
    /// [`largest`] of the scores.
    most: f64,
}

impl Given {
    /// The output need not be that of the forward pass.
    fn new(c: &mut Case<'_>, p: &Problem) -> Result<Self> {
        let (query, _, dim) = parts(p.heads);
        let n = p.tokens() * query * dim;
        let (out, dout): (TestArray<Real>, TestArray<Real>) = (c.reals(n)?, c.reals(n)?);
        let lines = out.initial.chunks_exact(dim).zip(dout.initial.chunks_exact(dim));
        let inner = lines.map(|(a, b)| dot(a, b)).collect();
        let splits = p.splits();
        let log_sum = c.array(splits.iter().map(Split::log_sum).collect())?;
        Ok(Given { out, dout, log_sum, inner, most: largest(&splits) })
    }

    /// Calls `f(query, head, key, probability, slope of the score and its size)` for every query, head and key that it sees.
    fn each(&self, p: &Problem, mut f: impl FnMut(usize, usize, usize, f64, Term)) {
        let (query, _, dim) = parts(p.heads);
        p.each(|token, h| {
            let line = token * query + h;
            let dout = &self.dout.initial[line * dim..][..dim];
            for (key, (score, value)) in p.batch.seen[token].iter().zip(p.seen(token, h)) {
                let probability = (score.0 - self.log_sum.initial[line]).exp();
                let slope = dot(dout, value);
                let by = probability * f64::from(p.scale);
                let inner = self.inner[line];
                f(token, h, *key, probability, (by * (slope.0 - inner.0), by * (slope.1 + inner.1)));
            }
        });
    }
}

/// Compares the heads of `dqkv` that are `written` with the expected; the others must be as they were.
fn compare(
    c: &mut Case<'_>,
    p: &Problem,
    dqkv: &TestArray<Real>,
    (expected, most): (&Terms, f64),
    written: impl Fn(usize) -> bool + Sync,
) -> Result {
    let (query, key, dim) = parts(p.heads);
    let (stored, tokens) = (stored(c), p.tokens() * query / key);
    c.compare(dqkv, |i| {
        let head = i / dim % (query + 2 * key);
        Some(match written(head) {
            true => (expected.value[i], bound(stored, expected.value[i], expected.size[i], tokens, most)),
            false => (rounded(dqkv.initial[i], dqkv.stored), 0.0),
        })
    })
}

fn queries(p: Problem, c: &mut Case<'_>) -> Result {
    let given = Given::new(c, &p)?;
    let (s, (query, ..)) = (p.heads, parts(p.heads));
    let (inner, dqkv) = (c.blank(p.tokens() * query)?, c.reals(p.qkv.initial.len())?);
    c.launch(AttentionQueries {
        qkv: p.qkv.ptr(),
        out: given.out.ptr(),
        dout: given.dout.ptr(),
        log_sum: given.log_sum.ptr(),
        segments: p.batch.segments(),
        inner: inner.ptr_mut(),
        dqkv: dqkv.ptr_mut(),
        heads: s,
        scale: p.scale,
    })?;
    let mut expected = Terms::zeros(dqkv.initial.len());
    given.each(&p, |token, h, key, _, slope| {
        expected.add(p.at(token, h), slope, p.head(key, p.keys_of(h).0));
    });
    c.expect(&inner, s.dim as usize, |i| Some(given.inner[i]))?;
    compare(c, &p, &dqkv, (&expected, given.most), |head| head < query)
}

fn keys(p: Problem, c: &mut Case<'_>) -> Result {
    let given = Given::new(c, &p)?;
    let (s, (query, _, dim)) = (p.heads, parts(p.heads));
    let inner = c.array(given.inner.iter().map(|x| x.0).collect())?;
    let dqkv = c.reals(p.qkv.initial.len())?;
    let segments = p.batch.segments();
    let sums = match segments.sums(s) {
        0 => None,
        parts => Some(c.blank::<f32>(parts)?),
    };
    c.launch(AttentionKeys {
        qkv: p.qkv.ptr(),
        dout: given.dout.ptr(),
        log_sum: given.log_sum.ptr(),
        inner: inner.ptr(),
        segments,
        dqkv: dqkv.ptr_mut(),
        sums: sums.as_ref().map(TestArray::ptr_mut),
        heads: s,
        scale: p.scale,
    })?;
    if let Some(sums) = &sums {
        c.launch(AttentionKeysSum { sums: sums.ptr(), segments, dqkv: dqkv.ptr_mut(), heads: s })?;
    }
    let mut expected = Terms::zeros(dqkv.initial.len());
    given.each(&p, |token, h, key, probability, slope| {
        let (k, v) = p.keys_of(h);
        expected.add(p.at(key, k), slope, p.head(token, h));
        let dout = &given.dout.initial[(token * query + h) * dim..][..dim];
        expected.add(p.at(key, v), (probability, probability), dout);
    });
    compare(c, &p, &dqkv, (&expected, given.most), |head| head >= query)
}

fn sum(p: Problem, c: &mut Case<'_>) -> Result {
    let (s, (query, key, dim)) = (p.heads, parts(p.heads));
    let segments = p.batch.segments();
    let sums = c.random::<f32>(segments.sums(s), 1.0)?;
    let dqkv = c.reals(p.qkv.initial.len())?;
    c.launch(AttentionKeysSum { sums: sums.ptr(), segments, dqkv: dqkv.ptr_mut(), heads: s })?;
    let [offsets, _, _, _, shared] = &p.batch.lists;
    let mut expected: Vec<Option<Term>> = vec![None; dqkv.initial.len()];
    let mut most = 0;
    for tile in shared.initial.chunks_exact(4) {
        let [segment, first, place, count] = [0, 1, 2, 3].map(|i| tile[i] as usize);
        let begin = offsets.initial[segment] as usize + first;
        let rows = (offsets.initial[segment + 1] as usize - begin).min(TILE as usize);
        most = most.max(count);
        for (i, g, which, column) in (0..rows * key * 2 * dim)
            .map(|n| (n / (key * 2 * dim), n / (2 * dim) % key, n / dim % 2, n % dim))
        {
            let part = |n: usize| {
                sums.initial[((((place + n) * key + g) * TILE as usize + i) * 2 + which) * dim + column]
            };
            let term = (0..count).fold((0.0, 0.0), |(x, size), n| (x + part(n), size + part(n).abs()));
            expected[p.at(begin + i, query + which * key + g) + column] = Some(term);
        }
    }
    c.expect(&dqkv, most, |i| Some(expected[i].unwrap_or((rounded(dqkv.initial[i], dqkv.stored), 0.0))))
}
