//! A batch of rows on a device.

use std::cmp::Reverse;
use std::ops::Range;
use std::sync::Arc;

use grpo_lambda_decoder::device::DeviceError;
use grpo_lambda_decoder::model::Rows;

use super::array::Array;
use super::device::Device;
use super::kernels::{Segments, TILE, WHOLE};
use super::ptr::Ptr;

/// Lists of indices end to end in one array, sent as one.
#[derive(Debug)]
pub(super) struct IndexLists {
    array: Array<u32>,
    starts: Vec<usize>,
}

impl IndexLists {
    pub(super) fn new(device: &Arc<dyn Device>, lists: &[Vec<u32>]) -> Result<Self, DeviceError> {
        let starts = lists.iter().scan(0, |end, list| {
            let start = *end;
            *end += list.len();
            Some(start)
        });
        let starts = starts.collect();
        Ok(IndexLists { array: Array::from_slice(device, "workspace", &lists.concat())?, starts })
    }

    /// List `i`.
    pub(super) fn at(&self, i: usize) -> Ptr<u32> {
        self.array.at(self.starts[i])
    }
}

/// Rows of tokens with their lists for the kernels. On the device lie the prefixes that rows share, then the rows: the segments of the
/// batch.
#[derive(Debug)]
pub(super) struct Batch {
    rows: Rows,
    /// The tokens in their order on the device.
    tokens: Vec<u32>,
    lists: IndexLists,
    longest: usize,
    /// Tiles of queries, of keys by their readers, and of keys that several segments see.
    tiles: [u32; 3],
    /// Parts of the gradients of these.
    places: usize,
    scored: usize,
}

/// The parts of a batch, in the order of its lists.
enum List {
    Tokens,
    Positions,
    Offsets,
    Prefix,
    QueryTiles,
    KeyTiles,
    SharedTiles,
    Predicting,
    Targets,
}

/// Tokens that lie together: a prefix, or the own tokens of a row.
struct Segment {
    len: usize,
    /// The prefix it continues, and how many tokens that has.
    prefix: Option<usize>,
    before: usize,
    /// The segments that continue it.
    readers: Range<usize>,
}

/// The segments of these rows in their order.
fn segments(rows: &Rows) -> Vec<Segment> {
    let prefixes = rows.prefixes().len();
    let own = |i: usize| rows.offsets()[i + 1] - rows.offsets()[i];
    let shared = rows.prefixes().iter().enumerate().map(|(p, tokens)| {
        let readers = || (0..rows.len()).filter(move |i| rows.prefix(*i) == Some(p));
        let first = readers().next().map_or(0, |i| prefixes + i);
        Segment { len: tokens.len(), prefix: None, before: 0, readers: first..first + readers().count() }
    });
    let each = (0..rows.len()).map(|i| Segment {
        len: own(i),
        prefix: rows.prefix(i),
        before: rows.before(i),
        readers: 0..0,
    });
    shared.chain(each).collect()
}

/// The first tokens of a segment's tiles.
fn tiles(segment: &Segment) -> impl Iterator<Item = usize> + use<> {
    (0..segment.len).step_by(TILE as usize)
}

/// Lists with their work, those with most work first, so that none of the long ones is alone at the end.
fn longest_first<const N: usize>(mut all: Vec<(usize, [u32; N])>) -> Vec<u32> {
    all.sort_by_key(|(work, tile)| (Reverse(*work), *tile));
    all.into_iter().flat_map(|(_, tile)| tile).collect()
}

/// The tiles of queries of all segments: a segment, and a first token.
fn query_tiles(segments: &[Segment]) -> Vec<u32> {
    let of_segment = |(s, segment): (usize, &Segment)| {
        let before = segment.before;
        tiles(segment).map(move |first| (before + first, [s as u32, first as u32])).collect::<Vec<_>>()
    };
    longest_first(segments.iter().enumerate().flat_map(of_segment).collect())
}

/// The tiles of keys with each segment that sees them, and its place where there are several; and those tiles with their places.
fn key_tiles(segments: &[Segment]) -> (Vec<u32>, Vec<u32>) {
    let (mut each, mut shared, mut places) = (Vec::new(), Vec::new(), 0);
    for (s, segment) in segments.iter().enumerate() {
        for first in tiles(segment) {
            let tile = [s as u32, first as u32];
            let own = segment.len - first;
            if segment.readers.is_empty() {
                each.push((own, [tile[0], tile[1], tile[0], WHOLE]));
                continue;
            }
            let count = 1 + segment.readers.len() as u32;
            shared.extend([tile[0], tile[1], places, count]);
            let readers = segment.readers.clone().map(|reader| (segments[reader].len, reader as u32));
            for (work, reader) in std::iter::once((own, tile[0])).chain(readers) {
                each.push((work, [tile[0], tile[1], reader, places]));
                places += 1;
            }
        }
    }
    (longest_first(each), shared)
}

impl Batch {
    /// The rows in their order, after the prefixes.
    pub(super) fn new(device: &Arc<dyn Device>, rows: &Rows) -> Result<Self, DeviceError> {
        let segments = segments(rows);
        let mut tokens = rows.prefixes().concat();
        let (predicting, targets) = rows.targets();
        let predicting: Vec<u32> = predicting.into_iter().map(|at| (tokens.len() + at) as u32).collect();
        let scored = predicting.len();
        tokens.extend_from_slice(rows.tokens());
        let mut positions: Vec<u32> =
            rows.prefixes().iter().flat_map(|prefix| 0..prefix.len() as u32).collect();
        positions.extend(rows.positions());
        let mut offsets = vec![0];
        for segment in &segments {
            offsets.push(offsets[offsets.len() - 1] + segment.len as u32);
        }
        let prefix = segments.iter().enumerate().map(|(s, x)| x.prefix.unwrap_or(s) as u32).collect();
        let query_tiles = query_tiles(&segments);
        let (key_tiles, shared_tiles) = key_tiles(&segments);
        let tiles = [query_tiles.len() / 2, key_tiles.len() / 4, shared_tiles.len() / 4].map(|n| n as u32);
        let places = shared_tiles.chunks_exact(4).map(|tile| tile[3] as usize).sum();
        let longest = segments.iter().map(|s| s.before + s.len).max();
        let lists = [
            tokens.clone(),
            positions,
            offsets,
            prefix,
            query_tiles,
            key_tiles,
            shared_tiles,
            predicting,
            targets,
        ];
        let lists = IndexLists::new(device, &lists)?;
        let longest = longest.unwrap_or(0);
        Ok(Batch { rows: rows.clone(), tokens, lists, longest, tiles, places, scored })
    }

    /// The rows as they were given.
    pub(super) fn rows(&self) -> &Rows {
        &self.rows
    }

    /// Tokens in all, prefixes included.
    pub(super) fn tokens(&self) -> usize {
        self.tokens.len()
    }

    /// The tokens as they lie on the device.
    pub(super) fn token_ids(&self) -> &[u32] {
        &self.tokens
    }

    /// Scored tokens in all.
    pub(super) fn scored(&self) -> usize {
        self.scored
    }

    /// Tokens of the longest row with its prefix.
    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    fn list(&self, list: List) -> Ptr<u32> {
        self.lists.at(list as usize)
    }

    /// `[tokens]`.
    pub(super) fn ids(&self) -> Ptr<u32> {
        self.list(List::Tokens)
    }

    /// `[tokens]`: the position of a token in its row.
    pub(super) fn positions(&self) -> Ptr<u32> {
        self.list(List::Positions)
    }

    /// `[segments + 1]`: the token at which each segment begins, and the end of the last.
    pub(super) fn offsets(&self) -> Ptr<u32> {
        self.list(List::Offsets)
    }

    /// The segments, for attention.
    pub(super) fn segments(&self) -> Segments {
        Segments {
            offsets: self.offsets(),
            prefix: self.list(List::Prefix),
            query_tiles: self.list(List::QueryTiles),
            count: self.tiles[0],
            key_tiles: self.list(List::KeyTiles),
            key_count: self.tiles[1],
            shared_tiles: self.list(List::SharedTiles),
            shared_count: self.tiles[2],
            places: self.places,
            tokens: self.tokens(),
            pairs: self.rows.pairs(),
        }
    }

    /// `[scored]`: the token before every target, whose hidden state predicts it.
    pub(super) fn predicting(&self) -> Ptr<u32> {
        self.list(List::Predicting)
    }

    /// `[scored]`: the targets.
    pub(super) fn targets(&self) -> Ptr<u32> {
        self.list(List::Targets)
    }
}

/// The tokens of a batch by id, for the gradient of the embedding: ids ascending, the tokens of each ascending, so that its sum has
/// one order.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TokensById {
    /// Tokens, those of one id together.
    pub(super) order: Vec<u32>,
    /// The place in `order` where each id begins, and the end of the last.
    pub(super) starts: Vec<u32>,
    /// The ids that occur.
    pub(super) ids: Vec<u32>,
}

impl TokensById {
    pub(super) fn new(tokens: &[u32]) -> Self {
        let mut order: Vec<u32> = (0..tokens.len() as u32).collect();
        order.sort_by_key(|t| (tokens[*t as usize], *t));
        let (mut starts, mut ids) = (Vec::new(), Vec::new());
        for (i, t) in order.iter().enumerate() {
            let id = tokens[*t as usize];
            if ids.last() != Some(&id) {
                ids.push(id);
                starts.push(i as u32);
            }
        }
        starts.push(order.len() as u32);
        TokensById { order, starts, ids }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dry::Dry;

    #[test]
    fn prefixes_lie_before_the_rows_and_targets_stay_theirs() {
        let mut rows = Rows::new();
        rows.push(&[1; 20], 18);
        rows.share(&[7, 8]);
        rows.push(&[2, 3, 4], 1);
        rows.push(&[5; 9], 9);
        let device: Arc<dyn Device> = Arc::new(Dry::default());
        let batch = Batch::new(&device, &rows).expect("dry");
        assert_eq!(batch.token_ids()[..2], [7, 8]);
        assert_eq!(batch.token_ids()[2..], *rows.tokens());
        assert_eq!((batch.scored(), batch.longest(), batch.tokens()), (2 + 2, 20, 34));
        let segments = segments(&rows);
        assert_eq!(segments[0].readers, 2..4);
        let seen = segments.iter().map(|s| (s.before, s.prefix)).collect::<Vec<_>>();
        assert_eq!(seen, [(0, None), (0, None), (2, Some(0)), (2, Some(0))]);
        // 1 + 2, 1 + .. + 20, 3 + 4 + 5, 3 + .. + 11.
        assert_eq!(batch.segments().pairs, (3 + 210 + 12 + 63) as f64);
    }

    #[test]
    fn tiles_cover_every_token_once_and_the_longest_work_comes_first() {
        let mut rows = Rows::new();
        rows.push(&[1; 130], 1);
        rows.share(&[7; 65]);
        rows.push(&[2; 64], 1);
        let segments = segments(&rows);
        assert_eq!(query_tiles(&segments), [1, 128, 2, 0, 0, 64, 1, 64, 0, 0, 1, 0]);
        let (each, shared) = key_tiles(&segments);
        let tiles: Vec<&[u32]> = each.chunks_exact(4).collect();
        let whole = |first| [1, first, 1, WHOLE];
        // Segment 0 is the prefix, which segment 2 continues.
        let expected = [
            whole(0),
            whole(64),
            [0, 0, 0, 0],
            [0, 0, 2, 1],
            [0, 64, 2, 3],
            [2, 0, 2, WHOLE],
            whole(128),
            [0, 64, 0, 2],
        ];
        assert_eq!(tiles, expected);
        assert_eq!(shared, [0, 0, 0, 2, 0, 64, 2, 2]);
    }

    #[test]
    fn tokens_of_an_id_are_together_and_in_order() {
        let by_id = TokensById::new(&[7, 3, 7, 9, 3, 7]);
        let expected =
            TokensById { order: vec![1, 4, 0, 2, 5, 3], starts: vec![0, 2, 5, 6], ids: vec![3, 7, 9] };
        assert_eq!(by_id, expected);
        assert_eq!(TokensById::new(&[]), TokensById { order: vec![], starts: vec![0], ids: vec![] });
    }
}
