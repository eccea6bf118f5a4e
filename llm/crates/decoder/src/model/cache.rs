//! Decoding with a cache of keys and values, in pages of 32 tokens that rows may share.
//!
//! A prompt is computed once; the responses of its group [`fork`](Decoding::fork) it and read its pages. Its last page, if partly filled, is
//! copied when a response writes to it. A finished row frees its pages.
//!
//! A step runs the layer code of training on one token per row; its log-probabilities are those of teacher forcing, bit for bit.

use std::sync::Arc;

use super::decoder::{Decoder, inverse};
use super::error::{Error, Result};
use super::ops::attention::{self, Heads, PAGE, Pages};
use super::ops::buffer::Buffer;
use super::ops::parallel;
use super::ops::{Real, log_prob};
use super::rows::check_tokens;

/// Tokens below which a thread has too little to do with the weights that it reads.
const FEW_ROWS: usize = 8;
/// Bytes of weights that stay in a cache between two steps.
const CACHED_WEIGHTS: usize = 32 << 20;

/// Rows being decoded by one model.
pub struct Decoding<'m, T: Real> {
    model: &'m Decoder<T>,
    layout: Layout,
    rows: Vec<Option<Row<T>>>,
    /// The most pages that were in use at once.
    most_pages: usize,
}

/// A row of a [`Decoding`]; invalid once finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowId(usize);

/// Logits, or log-probabilities, of the token after each row.
pub struct NextTokens<T: Real> {
    values: Buffer<T>,
    vocabulary: usize,
}

struct Row<T: Real> {
    /// Pages of all layers and key heads. The one that is written next belongs to this row alone.
    pages: Vec<Arc<Buffer<T>>>,
    len: usize,
}

/// The places of layers and key heads in a page.
#[derive(Clone, Copy)]
struct Layout {
    heads: Heads,
    layers: usize,
}

impl Layout {
    fn page_len(&self) -> usize {
        self.layers * self.heads.key * self.heads.page()
    }

    fn range(&self, layer: usize, g: usize) -> std::ops::Range<usize> {
        let start = (layer * self.heads.key + g) * self.heads.page();
        start..start + self.heads.page()
    }
}

/// A page that one row alone uses, to be written.
fn own_page<T: Real>(page: &mut Arc<Buffer<T>>) -> &mut [T] {
    Arc::get_mut(page).expect("a page that is written belongs to one row")
}

impl<T: Real> Row<T> {
    /// Takes pages for `more` tokens: new ones, and a copy of a partly filled page that is shared (copy on write). True if it took one.
    fn reserve(&mut self, more: usize, take: impl Fn() -> Buffer<T>) -> bool {
        let filling = (!self.len.is_multiple_of(PAGE)).then_some(self.len / PAGE);
        let shared = filling.filter(|&last| Arc::strong_count(&self.pages[last]) > 1);
        if let Some(last) = shared {
            let mut own = take();
            own.copy_from_slice(&self.pages[last]);
            self.pages[last] = Arc::new(own);
        }
        let missing = (self.len + more).div_ceil(PAGE).saturating_sub(self.pages.len());
        self.pages.extend((0..missing).map(|_| Arc::new(take())));
        shared.is_some() || missing > 0
    }

    /// Writes the keys and values of tokens that follow those it holds.
    fn write(&mut self, layout: Layout, layer: usize, qkv: &[T]) {
        let heads = layout.heads;
        for (position, token) in (self.len..).zip(qkv.chunks_exact(heads.stride())) {
            let page = own_page(&mut self.pages[position / PAGE]);
            for g in 0..heads.key {
                attention::store(heads, g, token, position % PAGE, &mut page[layout.range(layer, g)]);
            }
        }
    }
}

/// The pages of one layer, as the attention reads them.
struct Layer<'a, T: Real> {
    layout: Layout,
    layer: usize,
    rows: &'a [Row<T>],
}

impl<T: Real> Pages<T> for Layer<'_, T> {
    fn page(&self, row: usize, page: usize, g: usize) -> &[T] {
        &self.rows[row].pages[page][self.layout.range(self.layer, g)]
    }
    fn first(&self, row: usize) -> usize {
        self.rows[row].len
    }
}

/// The full pages that a prompt begins with and that another prompt has, too.
struct Shared {
    prompt: usize,
    /// A whole number of pages, fewer than the prompt's tokens.
    tokens: usize,
    with: Option<usize>,
}

/// Finds the full pages that prompts share. None waits for one that shares no more with it than an earlier one does.
fn shared(prompts: &[&[u32]]) -> Vec<Shared> {
    let mut order: Vec<usize> = (0..prompts.len()).collect();
    order.sort_by_key(|&i| prompts[i]);
    // Of prompts in their order, one shares most with its neighbour.
    let common = |i: usize| {
        let [a, b] = [order[i - 1], order[i]].map(|prompt| prompts[prompt]);
        a.iter().zip(b).take_while(|(a, b)| a == b).count()
    };
    let common: Vec<usize> = (0..order.len()).map(|i| if i == 0 { 0 } else { common(i) }).collect();
    let own = |i: usize| {
        let tokens = common[i].min(prompts[order[i]].len() - 1) / PAGE * PAGE;
        let earlier = (0..i).rev().find(|&j| common[j] < tokens.max(1));
        let with = earlier.filter(|_| tokens > 0).map(|j| order[j]);
        Shared { prompt: order[i], tokens, with }
    };
    (0..order.len()).map(own).collect()
}

/// Rows on their way through the layers together, and where the logits of the token after each go.
struct Part<'a, T: Real> {
    rows: &'a mut [Row<T>],
    tokens: &'a [&'a [u32]],
    logits: &'a mut [T],
}

impl<T: Real> Part<'_, T> {
    /// Takes the new tokens through the layers, which store their keys and values.
    fn read(self, model: &Decoder<T>, layout: Layout) {
        let Part { rows, tokens, logits } = self;
        let stride = layout.heads.stride();
        let mut offsets = vec![0];
        let mut positions = Vec::new();
        for (row, new) in rows.iter().zip(tokens) {
            positions.extend((row.len..row.len + new.len()).map(|p| p as u32));
            offsets.push(positions.len());
        }
        let mut x = model.embed(&tokens.concat());
        let positions = model.positions(positions);
        for layer in 0..layout.layers {
            let attend = |qkv: &[T], out: &mut [T], _: &mut [T]| {
                for (row, pair) in rows.iter_mut().zip(offsets.windows(2)) {
                    row.write(layout, layer, &qkv[pair[0] * stride..pair[1] * stride]);
                }
                let cache = Layer { layout, layer, rows };
                attention::forward_cached(model.pool(), layout.heads, qkv, &offsets, &cache, out);
            };
            x = model.layer_forward(layer, x, &positions, attend).0;
        }
        for (row, new) in rows.iter_mut().zip(tokens) {
            row.len += new.len();
        }
        let ends: Vec<usize> = offsets[1..].iter().map(|end| end - 1).collect();
        model.logits_of(&model.streams_at(&ends, &x), logits);
    }
}

impl<'m, T: Real> Decoding<'m, T> {
    /// No rows yet.
    pub fn new(model: &'m Decoder<T>) -> Self {
        let config = model.config();
        let layout = Layout { heads: config.heads(), layers: config.num_hidden_layers };
        Self { model, layout, rows: Vec::new(), most_pages: 0 }
    }

    /// Starts a row per prompt: their ids, and the logits of the token after each. Full pages that prompts begin with are computed once.
    ///
    /// # Errors
    /// When a prompt is empty, too long, or has a token outside the vocabulary; no row is then started.
    pub fn prefill(&mut self, prompts: &[&[u32]]) -> Result<(Vec<RowId>, NextTokens<T>)> {
        for (i, prompt) in prompts.iter().enumerate() {
            check_tokens(i, prompt, self.model.config())?;
        }
        let vocabulary = self.model.config().vocab_size;
        let mut values = self.model.pool().take(prompts.len() * vocabulary);
        let mut ids: Vec<Option<RowId>> = vec![None; prompts.len()];
        let mut waiting = shared(prompts);
        while !waiting.is_empty() {
            let (now, later): (Vec<Shared>, _) =
                waiting.into_iter().partition(|own| own.with.is_none_or(|other| ids[other].is_some()));
            let rows: Vec<RowId> = now.iter().map(|own| self.begin(own, &ids)).collect();
            let rest: Vec<&[u32]> = now.iter().map(|own| &prompts[own.prompt][own.tokens..]).collect();
            let logits = self.extend(&rows, &rest)?;
            for (line, (own, row)) in now.iter().zip(rows).enumerate() {
                ids[own.prompt] = Some(row);
                values[own.prompt * vocabulary..][..vocabulary].copy_from_slice(logits.row(line));
            }
            waiting = later;
        }
        Ok((ids.into_iter().flatten().collect(), NextTokens { values, vocabulary }))
    }

    /// A row with the tokens that a prompt shares with one that has been read.
    fn begin(&mut self, own: &Shared, read: &[Option<RowId>]) -> RowId {
        let pages = own
            .with
            .and_then(|other| read[other])
            .map_or_else(Vec::new, |other| self.row(other).pages[..own.tokens / PAGE].to_vec());
        self.add(Row { pages, len: own.tokens })
    }

    /// A second row that continues what `row` holds so far, sharing its pages.
    ///
    /// # Panics
    /// When `row` has been finished.
    pub fn fork(&mut self, row: RowId) -> RowId {
        let Row { pages, len } = self.row(row);
        let copy = Row { pages: pages.clone(), len: *len };
        self.add(copy)
    }

    /// Appends a token to each row; the logits of the token after it.
    ///
    /// # Errors
    /// When a token is outside the vocabulary or a row has reached the model's longest; no row is then changed.
    pub fn step(&mut self, rows: &[RowId], tokens: &[u32]) -> Result<NextTokens<T>> {
        let tokens: Vec<&[u32]> = tokens.chunks(1).collect();
        self.extend(rows, &tokens)
    }

    /// Appends tokens to each row, any number; the logits of the token after the last of each.
    ///
    /// # Errors
    /// The errors of [`Decoding::step`].
    ///
    /// # Panics
    /// When a row is named twice, has been finished, or gets no token.
    pub fn extend(&mut self, rows: &[RowId], tokens: &[&[u32]]) -> Result<NextTokens<T>> {
        self.check(rows, tokens)?;
        let (model, layout) = (self.model, self.layout);
        let mut taken: Vec<Row<T>> = rows.iter().map(|&id| self.take(id)).collect();
        let mut took = false;
        for (row, new) in taken.iter_mut().zip(tokens) {
            took |= row.reserve(new.len(), || model.pool().take(layout.page_len()));
        }
        if took {
            self.count_pages(&taken);
        }
        let vocabulary = model.config().vocab_size;
        let mut values = model.pool().take(rows.len() * vocabulary);
        let size = self.part(rows.len(), tokens.iter().map(|new| new.len()).sum());
        let logits = values.chunks_mut(size * vocabulary);
        let parts = taken.chunks_mut(size).zip(tokens.chunks(size)).zip(logits);
        let parts: Vec<Part<'_, T>> =
            parts.map(|((rows, tokens), logits)| Part { rows, tokens, logits }).collect();
        parallel::in_pool(|| match parts.len() {
            1 => parts.into_iter().for_each(|part| part.read(model, layout)),
            _ => parallel::parts(parts, |part| part.read(model, layout)),
        });
        for (&RowId(id), row) in rows.iter().zip(taken) {
            self.rows[id] = Some(row);
        }
        Ok(NextTokens { values, vocabulary })
    }

    /// Rows that a thread takes through the layers by itself; all of them if splitting each product is faster. Every part reads all weights:
    /// it needs enough rows, and weights that exceed the cache are read by all threads together.
    fn part(&self, rows: usize, tokens: usize) -> usize {
        let threads = parallel::threads();
        let weights = self.model.parameters().values().map(|t| t.data.len()).sum::<usize>() * size_of::<T>();
        let few = tokens < FEW_ROWS * threads || rows < threads;
        if threads == 1 || few || weights > CACHED_WEIGHTS { rows.max(1) } else { rows.div_ceil(threads) }
    }

    /// Refuses tokens that cannot be appended.
    fn check(&self, rows: &[RowId], tokens: &[&[u32]]) -> Result<()> {
        assert_eq!(rows.len(), tokens.len(), "one token sequence per row");
        let mut distinct = rows.to_vec();
        distinct.sort_unstable();
        assert!(distinct.windows(2).all(|pair| pair[0] != pair[1]), "a row is named twice");
        let config = self.model.config();
        for (i, (&row, new)) in rows.iter().zip(tokens).enumerate() {
            check_tokens(i, new, config)?;
            let len = self.row(row).len + new.len();
            if len > config.max_position_embeddings {
                let reason = format!(
                    "{len} tokens exceed max_position_embeddings = {}",
                    config.max_position_embeddings
                );
                return Err(Error::Input { row: i, reason });
            }
        }
        Ok(())
    }

    /// Ends a row; pages that it alone used return to the model's work space.
    ///
    /// # Panics
    /// When it has been finished before.
    pub fn finish(&mut self, row: RowId) {
        self.take(row);
    }

    /// Tokens of a row so far.
    ///
    /// # Panics
    /// When it has been finished.
    pub fn tokens(&self, row: RowId) -> usize {
        self.row(row).len
    }

    /// Bytes of the most pages that were in use at once.
    pub fn bytes(&self) -> usize {
        self.most_pages * self.layout.page_len() * size_of::<T>()
    }

    /// Counts the pages in use, those of the rows `taken` included.
    fn count_pages(&mut self, taken: &[Row<T>]) {
        let rows = self.rows.iter().flatten().chain(taken);
        let mut pages: Vec<_> = rows.flat_map(|row| &row.pages).map(Arc::as_ptr).collect();
        pages.sort_unstable();
        pages.dedup();
        self.most_pages = self.most_pages.max(pages.len());
    }

    fn take(&mut self, RowId(id): RowId) -> Row<T> {
        self.rows[id].take().unwrap_or_else(|| panic!("row {id} is finished"))
    }

    fn row(&self, RowId(id): RowId) -> &Row<T> {
        self.rows[id].as_ref().unwrap_or_else(|| panic!("row {id} is finished"))
    }

    fn add(&mut self, row: Row<T>) -> RowId {
        let slot = self.rows.iter().position(Option::is_none).unwrap_or(self.rows.len());
        if slot == self.rows.len() {
            self.rows.push(None);
        }
        self.rows[slot] = Some(row);
        RowId(slot)
    }
}

impl<T: Real> NextTokens<T> {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.values.len() / self.vocabulary
    }

    /// True without rows.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// One number per token of the vocabulary, for row `i` of the call.
    pub fn row(&self, i: usize) -> &[T] {
        &self.values[i * self.vocabulary..(i + 1) * self.vocabulary]
    }

    /// [`NextTokens::row`], mutable: a logit of minus infinity suppresses its token.
    pub fn row_mut(&mut self, i: usize) -> &mut [T] {
        &mut self.values[i * self.vocabulary..(i + 1) * self.vocabulary]
    }

    /// From logits to log-probabilities at this temperature: the numbers that [`Decoder::score`] gives for the same tokens.
    pub fn log_softmax(&mut self, temperature: f64) {
        log_prob::log_softmax(&mut self.values, self.vocabulary, inverse(temperature));
    }
}
