//! Decoding with a cache of keys and values, in pages of 32 tokens that rows may share.
//!
//! A prompt is computed once; the responses of its group [`fork`](Decoding::fork) it and read its pages. Only a page that two
//! rows would both write, the last and partly filled one of the prompt, is copied, when the first of them writes. A finished row frees its
//! pages, so a batch costs only what is still being decoded.
//!
//! A step runs the same layer code as training, on one token per row; its log-probabilities are those of teacher forcing,
//! bit for bit.

use super::config::Config;
use super::decoder::{Decoder, inverse};
use super::error::{Error, Result};
use super::ops::attention::{self, Heads, PAGE, Pages};
use super::ops::buffer::Buffer;
use super::ops::{Real, log_prob};
use super::rows::check_tokens;

/// Rows being decoded by one model.
pub struct Decoding<'m, T: Real> {
    model: &'m Decoder<T>,
    store: PagePool<T>,
    rows: Vec<Option<Row>>,
}

/// A row of a [`Decoding`]; invalid once finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowId(usize);

/// Logits, or log-probabilities, of the token after each row.
pub struct NextTokens<T: Real> {
    values: Buffer<T>,
    vocabulary: usize,
}

struct Row {
    pages: Vec<usize>,
    len: usize,
}

/// Pages of all layers and key heads, each with the number of rows that use it.
struct PagePool<T> {
    heads: Heads,
    layers: usize,
    pages: Vec<Box<[T]>>,
    users: Vec<usize>,
    free: Vec<usize>,
}

impl<T: Real> PagePool<T> {
    fn new(config: &Config) -> Self {
        let (pages, users, free) = (Vec::new(), Vec::new(), Vec::new());
        Self { heads: config.heads(), layers: config.num_hidden_layers, pages, users, free }
    }

    /// A page with one user; what it holds is left from before.
    fn take(&mut self) -> usize {
        let page = self.free.pop().unwrap_or_else(|| {
            let len = self.layers * self.heads.key * self.heads.page();
            self.pages.push(vec![T::ZERO; len].into_boxed_slice());
            self.users.push(0);
            self.pages.len() - 1
        });
        self.users[page] = 1;
        page
    }

    fn leave(&mut self, page: usize) {
        self.users[page] -= 1;
        if self.users[page] == 0 {
            self.free.push(page);
        }
    }

    /// Reserves pages of `row` for `more` tokens: new ones, and a copy of a partly filled page that is shared (copy on write).
    fn reserve(&mut self, row: &mut Row, more: usize) {
        if !row.len.is_multiple_of(PAGE) {
            let last = row.len / PAGE;
            let shared = row.pages[last];
            if self.users[shared] > 1 {
                let own = self.take();
                let mut copy = std::mem::take(&mut self.pages[own]);
                copy.copy_from_slice(&self.pages[shared]);
                self.pages[own] = copy;
                self.leave(shared);
                row.pages[last] = own;
            }
        }
        while row.pages.len() * PAGE < row.len + more {
            let page = self.take();
            row.pages.push(page);
        }
    }

    /// Writes the keys and values of tokens that follow those `row` holds.
    fn write(&mut self, layer: usize, row: &Row, qkv: &[T]) {
        let heads = self.heads;
        for (position, token) in (row.len..).zip(qkv.chunks_exact(heads.stride())) {
            for g in 0..heads.key {
                let range = self.range(layer, g);
                let page = &mut self.pages[row.pages[position / PAGE]][range];
                attention::store(heads, g, token, position % PAGE, page);
            }
        }
    }

    fn range(&self, layer: usize, g: usize) -> std::ops::Range<usize> {
        let start = (layer * self.heads.key + g) * self.heads.page();
        start..start + self.heads.page()
    }
}

/// The pages of one layer, as the attention reads them.
struct Layer<'a, T> {
    store: &'a PagePool<T>,
    layer: usize,
    rows: &'a [&'a Row],
}

impl<T: Real> Pages<T> for Layer<'_, T> {
    fn page(&self, row: usize, page: usize, g: usize) -> &[T] {
        &self.store.pages[self.rows[row].pages[page]][self.store.range(self.layer, g)]
    }
    fn first(&self, row: usize) -> usize {
        self.rows[row].len
    }
}

impl<'m, T: Real> Decoding<'m, T> {
    /// No rows yet.
    pub fn new(model: &'m Decoder<T>) -> Self {
        Self { model, store: PagePool::new(model.config()), rows: Vec::new() }
    }

    /// Starts a row per prompt: their ids, and the logits of the token after each.
    ///
    /// # Errors
    /// When a prompt is empty, too long, or has a token outside the vocabulary; no row is then started.
    pub fn prefill(&mut self, prompts: &[&[u32]]) -> Result<(Vec<RowId>, NextTokens<T>)> {
        for (i, prompt) in prompts.iter().enumerate() {
            check_tokens(i, prompt, self.model.config())?;
        }
        let ids: Vec<RowId> = prompts.iter().map(|_| self.add(Row { pages: Vec::new(), len: 0 })).collect();
        let logits = self.extend(&ids, prompts)?;
        Ok((ids, logits))
    }

    /// A second row that continues what `row` holds so far, sharing its pages.
    ///
    /// # Panics
    /// When `row` has been finished.
    pub fn fork(&mut self, row: RowId) -> RowId {
        let Row { pages, len } = self.row(row);
        let copy = Row { pages: pages.clone(), len: *len };
        for &page in &copy.pages {
            self.store.users[page] += 1;
        }
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
    /// As [`Decoding::step`].
    ///
    /// # Panics
    /// When a row is named twice, has been finished, or gets no token.
    pub fn extend(&mut self, rows: &[RowId], tokens: &[&[u32]]) -> Result<NextTokens<T>> {
        self.check(rows, tokens)?;
        let (offsets, positions) = self.reserve(rows, tokens);
        let last = self.read(rows, &tokens.concat(), &offsets, positions);
        for (&RowId(id), new) in rows.iter().zip(tokens) {
            if let Some(row) = &mut self.rows[id] {
                row.len += new.len();
            }
        }
        Ok(NextTokens { values: self.model.logits_of(&last), vocabulary: self.model.config().vocab_size })
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

    /// Pages for the new tokens of every row: where each row's tokens begin and end, and the position of every token.
    fn reserve(&mut self, rows: &[RowId], tokens: &[&[u32]]) -> (Vec<usize>, Vec<u32>) {
        let mut offsets = vec![0];
        let mut positions = Vec::new();
        for (&RowId(id), new) in rows.iter().zip(tokens) {
            let row = self.rows[id].as_mut().unwrap_or_else(|| panic!("row {id} is finished"));
            self.store.reserve(row, new.len());
            positions.extend((row.len..row.len + new.len()).map(|p| p as u32));
            offsets.push(positions.len());
        }
        (offsets, positions)
    }

    /// Takes the new tokens through the layers, which store their keys and values; the stream at the last token of each row.
    fn read(&mut self, rows: &[RowId], tokens: &[u32], offsets: &[usize], positions: Vec<u32>) -> Buffer<T> {
        let (model, heads, store) = (self.model, self.model.config().heads(), &mut self.store);
        let of: Vec<&Row> = rows.iter().filter_map(|r| self.rows[r.0].as_ref()).collect();
        let mut x = model.embed(tokens);
        let positions = model.positions(positions);
        for layer in 0..model.config().num_hidden_layers {
            let attend = |qkv: &[T], out: &mut [T], _: &mut [T]| {
                for (row, pair) in of.iter().zip(offsets.windows(2)) {
                    let new = &qkv[pair[0] * heads.stride()..pair[1] * heads.stride()];
                    store.write(layer, row, new);
                }
                let cache = Layer { store, layer, rows: &of };
                attention::forward_cached(model.pool(), heads, qkv, offsets, &cache, out);
            };
            x = model.layer_forward(layer, x, &positions, attend).0;
        }
        let ends: Vec<usize> = offsets[1..].iter().map(|end| end - 1).collect();
        model.streams_at(&ends, &x)
    }

    /// Ends a row; its pages serve others.
    ///
    /// # Panics
    /// When it has been finished before.
    pub fn finish(&mut self, RowId(id): RowId) {
        let row = self.rows[id].take().unwrap_or_else(|| panic!("row {id} is already finished"));
        row.pages.into_iter().for_each(|page| self.store.leave(page));
    }

    /// Tokens of a row so far.
    ///
    /// # Panics
    /// When it has been finished.
    pub fn tokens(&self, row: RowId) -> usize {
        self.row(row).len
    }

    /// Bytes of all pages, in use or not.
    pub fn bytes(&self) -> usize {
        self.store.pages.iter().map(|p| size_of_val::<[T]>(p)).sum()
    }

    fn row(&self, RowId(id): RowId) -> &Row {
        self.rows[id].as_ref().unwrap_or_else(|| panic!("row {id} is finished"))
    }

    fn add(&mut self, row: Row) -> RowId {
        let slot = self.rows.iter().position(Option::is_none).unwrap_or(self.rows.len());
        if slot == self.rows.len() {
            self.rows.push(None);
        }
        self.rows[slot] = Some(row);
        RowId(slot)
    }
}

impl<T: Real> NextTokens<T> {
    /// How many rows.
    pub fn len(&self) -> usize {
        self.values.len() / self.vocabulary
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// One number per token of the vocabulary, for row `i` of the call.
    pub fn row(&self, i: usize) -> &[T] {
        &self.values[i * self.vocabulary..(i + 1) * self.vocabulary]
    }

    /// As [`NextTokens::row`], to be changed: suppressing a token is setting its logit to minus infinity.
    pub fn row_mut(&mut self, i: usize) -> &mut [T] {
        &mut self.values[i * self.vocabulary..(i + 1) * self.vocabulary]
    }

    /// From logits to log-probabilities at this temperature: the numbers that [`Decoder::score`] gives for the same tokens.
    pub fn log_softmax(&mut self, temperature: f64) {
        log_prob::log_softmax(&mut self.values, self.vocabulary, inverse(temperature));
    }
}
