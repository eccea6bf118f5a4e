//! Causal attention over rows of different lengths, a few sequences at a time.
//!
//! Tokens lie end to end; prefixes, which rows share, come before the rows. The tokens of a prefix or a row are a sequence; one whose scores are too
//! many is parted into pieces with their queries. Pieces of similar size are computed together, padded on the right: a place that is padding
//! repeats a token, no query sees it, and nothing of it is read.

use std::ops::Range;

use candle_core::{DType, Device, Result, Tensor};
use grpo_lambda_decoder::model::ops::attention::Heads;

use crate::ops::attend;

/// The most scores of a product: 1 GiB of them, far below what a kernel can count.
pub(crate) const SCORES: usize = 1 << 28;

/// Tokens, each of which sees the prefix, those before it and itself.
#[derive(Clone, Debug)]
pub struct Sequence {
    /// Its tokens.
    pub tokens: Range<usize>,
    /// Tokens of the prefix; empty without one.
    pub prefix: Range<usize>,
}

/// Queries of a sequence.
struct Piece<'s> {
    sequence: &'s Sequence,
    queries: Range<usize>,
}

impl Piece<'_> {
    fn keys(&self) -> usize {
        self.sequence.prefix.len() + self.queries.end - self.sequence.tokens.start
    }

    /// The token at place `i` of the keys.
    fn key(&self, i: usize) -> usize {
        let Sequence { tokens, prefix } = self.sequence;
        match i.checked_sub(prefix.len()) {
            None => prefix.start + i,
            Some(own) => (tokens.start + own).min(self.queries.end - 1),
        }
    }

    /// The token of query `i`.
    fn query(&self, i: usize) -> usize {
        (self.queries.start + i).min(self.queries.end - 1)
    }

    /// True if query `i` sees the key at place `key`.
    fn sees(&self, i: usize, key: usize) -> bool {
        key <= self.sequence.prefix.len() + self.queries.start - self.sequence.tokens.start + i
    }
}

/// Pieces that are computed together.
struct Group {
    rows: usize,
    /// Tokens of queries and of keys, row after row.
    queries: Tensor,
    keys: Tensor,
    mask: Tensor,
}

/// Groups of queries with the keys that they see, one batch after another.
pub struct Attention {
    heads: Heads,
    groups: Vec<Group>,
    /// The place of every token's query among those of all groups.
    places: Tensor,
}

impl Attention {
    /// Groups of these sequences with at most `most` scores each, which are of type `dtype`.
    pub fn new(
        heads: Heads,
        sequences: &[Sequence],
        most: usize,
        dtype: DType,
        device: &Device,
    ) -> Result<Self> {
        let mut pieces = Vec::new();
        for sequence in sequences {
            let Sequence { tokens, prefix } = sequence;
            let step = (most / (heads.query * (prefix.len() + tokens.len()).max(1))).max(1);
            let piece = |from: usize| Piece { sequence, queries: from..tokens.end.min(from + step) };
            pieces.extend(tokens.clone().step_by(step).map(piece));
        }
        pieces.sort_by_key(|p| (p.queries.len(), p.keys()));
        let tokens = sequences.iter().map(|s| s.tokens.end).max().unwrap_or(0);
        let (mut places, mut first, mut groups) = (vec![0u32; tokens], 0, Vec::new());
        while let Some(smallest) = pieces.first() {
            let area = smallest.queries.len() * smallest.keys();
            let fits = |n: &usize| {
                let (t, l) = extent(&pieces[..*n]);
                n * heads.query * t * l <= most && t * l <= 2 * area
            };
            let count = (2..=pieces.len()).take_while(fits).last().unwrap_or(1);
            let together: Vec<Piece<'_>> = pieces.drain(..count).collect();
            let t = extent(&together).0;
            for (row, piece) in together.iter().enumerate() {
                for (i, token) in piece.queries.clone().enumerate() {
                    places[token] = (first + row * t + i) as u32;
                }
            }
            first += count * t;
            groups.push(Group::new(&together, dtype, device)?);
        }
        Ok(Self { heads, groups, places: Tensor::new(places, device)? })
    }

    /// The outputs of the heads, from queries, keys and values of every token.
    pub fn run(&self, qkv: &Tensor) -> Result<Tensor> {
        let (h, tokens) = (self.heads, qkv.dim(0)?);
        let x = qkv.reshape((tokens, h.rotated() + h.key, h.dim))?;
        let part = |from: usize, count: usize| x.narrow(1, from, count)?.contiguous();
        let (query, key) = (part(0, h.query)?, part(h.query, h.key)?);
        let value = part(h.rotated(), h.key)?;
        let mut outputs = Vec::with_capacity(self.groups.len());
        for Group { rows, queries, keys, mask } in &self.groups {
            let rows_of = |x: &Tensor, of: &Tensor| {
                let x = x.index_select(of, 0)?;
                let shape = (*rows, of.elem_count() / rows, x.dim(1)?, h.dim);
                x.reshape(shape)?.transpose(1, 2)?.contiguous()
            };
            let out =
                attend(&rows_of(&query, queries)?, &rows_of(&key, keys)?, &rows_of(&value, keys)?, mask)?;
            outputs.push(out.transpose(1, 2)?.reshape((queries.elem_count(), h.width()))?);
        }
        Tensor::cat(&outputs, 0)?.index_select(&self.places, 0)
    }
}

/// The most queries, and the most keys.
fn extent(pieces: &[Piece<'_>]) -> (usize, usize) {
    let most = |lengths: &mut dyn Iterator<Item = usize>| lengths.max().unwrap_or(0);
    (most(&mut pieces.iter().map(|p| p.queries.len())), most(&mut pieces.iter().map(Piece::keys)))
}

impl Group {
    fn new(pieces: &[Piece<'_>], dtype: DType, device: &Device) -> Result<Self> {
        let (t, l) = extent(pieces);
        let tokens = |n: usize, of: &dyn Fn(&Piece<'_>, usize) -> usize| {
            let all: Vec<u32> = pieces.iter().flat_map(|p| (0..n).map(move |i| of(p, i) as u32)).collect();
            Tensor::new(all, device)
        };
        let of_query =
            |p, i| (0..l).map(move |key| if Piece::sees(p, i, key) { 0.0f32 } else { f32::NEG_INFINITY });
        let mask = pieces.iter().flat_map(|p| (0..t).flat_map(move |i| of_query(p, i)));
        let mask = Tensor::from_vec(mask.collect::<Vec<_>>(), (pieces.len(), 1, t, l), device)?;
        let (queries, keys) = (tokens(t, &|p, i| p.query(i))?, tokens(l, &|p, i| p.key(i))?);
        Ok(Self { rows: pieces.len(), queries, keys, mask: mask.to_dtype(dtype)? })
    }
}

/// The attention of one new token per row to the keys and values before it, and to its own.
///
/// `cache` holds keys and values `[rows, key heads, places, d]`; those of this token are written at `at`. The mask is `[rows, 1, 1, at + 1]`.
pub(crate) fn decode(
    heads: Heads,
    qkv: &Tensor,
    [keys, values]: &[Tensor; 2],
    at: usize,
    mask: &Tensor,
) -> Result<Tensor> {
    let rows = qkv.dim(0)?;
    let x = qkv.reshape((rows, heads.rotated() + heads.key, 1, heads.dim))?;
    let part = |from: usize, count: usize| x.narrow(1, from, count)?.contiguous();
    keys.slice_set(&part(heads.query, heads.key)?, 2, at)?;
    values.slice_set(&part(heads.rotated(), heads.key)?, 2, at)?;
    let before = |cache: &Tensor| cache.narrow(2, 0, at + 1);
    let out = attend(&part(0, heads.query)?, &before(keys)?, &before(values)?, mask)?;
    out.reshape((rows, heads.width()))
}
