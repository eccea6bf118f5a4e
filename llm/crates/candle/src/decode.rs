//! Sampling with a cache: the loop, the random numbers and the truncation are those of the CPU's decoder, the scores candle's.
//!
//! The responses that run are the rows of one batch. All write their keys and values of the next token at one place of the cache, so that rows are
//! padded on the left: a row's first token is at its own place, and what lies before it no query sees. A row that joins has its prompt end where the
//! others are. Rows that ended stay until they are a quarter of the batch, or the cache is full, and are then left out as the others are moved.

use std::collections::BTreeMap;
use std::rc::Rc;

use candle_core::{Result, Tensor};

use grpo_lambda_decoder::generate::{DecodeBackend, RolloutError, SampledResponse, Sampler, SamplingRequest};
use grpo_lambda_decoder::model::{Rows, check_tokens};
use grpo_lambda_decoder::pack::pack;

use crate::attention;
use crate::failed;
use crate::model::Model;
use crate::ops;
use crate::pass::Batch;

type Sampled<T> = std::result::Result<T, RolloutError>;

/// Places by which a cache grows.
const GROWTH: usize = 64;
/// Tokens of prompts that are read together.
const PREFILL: usize = 8192;

impl Sampler for Model {
    fn generate(&self, request: &SamplingRequest<'_>) -> Sampled<Vec<Vec<SampledResponse>>> {
        request.check(self.config.max_position_embeddings)?;
        for (prompt, ids) in request.prompts.iter().enumerate() {
            check_tokens(prompt, ids, &self.config)?;
        }
        request.run(&mut Decoding::new(self, request))
    }
}

/// The responses that run, and their cache.
struct Decoding<'r, 'm> {
    request: &'r SamplingRequest<'r>,
    model: &'m Model,
    /// The response of each row, and the place of its first token.
    rows: Vec<(usize, usize)>,
    /// By layer, keys and values `[rows, key heads, places, numbers of a head]`.
    cache: Vec<[Tensor; 2]>,
    /// The place of the next token, and places in all.
    end: usize,
    places: usize,
    /// Scores of the next token, by response that runs.
    scores: BTreeMap<usize, Rc<Vec<f32>>>,
}

impl<'r, 'm> Decoding<'r, 'm> {
    fn new(model: &'m Model, request: &'r SamplingRequest<'r>) -> Self {
        let (rows, cache, scores) = (Vec::new(), Vec::new(), BTreeMap::new());
        Decoding { request, model, rows, cache, end: 0, places: 0, scores }
    }

    /// Leaves out the rows that ended and the places that no other uses; there is room for `tokens` before the end, and for growth after it.
    fn regroup(&mut self, tokens: usize) -> Result<()> {
        let kept: Vec<usize> =
            (0..self.rows.len()).filter(|&row| self.scores.contains_key(&self.rows[row].0)).collect();
        self.rows = kept.iter().map(|&row| self.rows[row]).collect();
        let first = self.rows.iter().map(|row| row.1).min().unwrap_or(self.end);
        let used = self.end - first;
        let left = tokens.saturating_sub(used);
        if self.rows.is_empty() {
            self.cache.clear();
        } else {
            let kept: Vec<u32> = kept.iter().map(|&row| row as u32).collect();
            let kept = Tensor::new(kept, &self.model.device)?;
            for tensor in self.cache.iter_mut().flatten() {
                let rows = tensor.narrow(2, first, used)?.contiguous()?.index_select(&kept, 0)?;
                *tensor = rows.pad_with_zeros(2, left, GROWTH)?.contiguous()?;
            }
        }
        self.rows.iter_mut().for_each(|row| row.1 = row.1 - first + left);
        self.end = left + used;
        self.places = self.end + GROWTH;
        Ok(())
    }

    /// Reads the prompts of these responses, each once, and adds a row for every response.
    fn join(&mut self, responses: &[usize]) -> Result<()> {
        let mut prompts: Vec<usize> = responses.iter().map(|r| r / self.request.group).collect();
        prompts.dedup();
        let tokens = |p: &usize| self.request.prompts[*p].len();
        self.regroup(prompts.iter().map(tokens).max().unwrap_or(0))?;
        let mut start = 0;
        for part in pack(prompts.iter().map(tokens), PREFILL) {
            let part = &prompts[part];
            let in_part = |r: &&usize| part.contains(&(**r / self.request.group));
            let count = responses[start..].iter().take_while(in_part).count();
            self.join_part(part, &responses[start..start + count])?;
            start += count;
        }
        Ok(())
    }

    fn join_part(&mut self, prompts: &[usize], responses: &[usize]) -> Result<()> {
        let (model, heads) = (self.model, self.model.config.heads());
        let mut rows = Rows::new();
        // A row's last token scores nothing: it predicts what will be sampled.
        prompts.iter().for_each(|&p| rows.push(self.request.prompts[p], self.request.prompts[p].len()));
        let mut read = Vec::with_capacity(model.config.num_hidden_layers);
        let last = Batch::new(model, &rows)?.stream_watched(model, &mut |qkv| {
            read.push(qkv.narrow(1, heads.query * heads.dim, heads.cached())?.contiguous()?);
            Ok(())
        })?;
        let ends: Vec<u32> = rows.offsets()[1..].iter().map(|&end| end as u32 - 1).collect();
        let scores = self.next(&last.index_select(&Tensor::new(ends, &model.device)?, 0)?)?;
        let scores: Vec<Rc<Vec<f32>>> = scores.into_iter().map(Rc::new).collect();
        let mut at = Vec::with_capacity(responses.len() * self.places);
        for &response in responses {
            let prompt = prompts.iter().position(|&p| p == response / self.request.group).unwrap_or(0);
            let (from, len) = (rows.offsets()[prompt], self.request.prompts[prompts[prompt]].len());
            let start = self.end - len;
            // What lies before the prompt and after it is hidden, and here some token.
            at.extend((0..self.places).map(|i| (from + i.saturating_sub(start).min(len - 1)) as u32));
            self.rows.push((response, start));
            self.scores.insert(response, scores[prompt].clone());
        }
        let at = Tensor::new(at, &model.device)?;
        for (l, read) in read.iter().enumerate() {
            let shape = (responses.len(), self.places, 2 * heads.key, heads.dim);
            let both = read.index_select(&at, 0)?.reshape(shape)?.transpose(1, 2)?;
            let part = |from: usize| both.narrow(1, from, heads.key)?.contiguous();
            let fresh = [part(0)?, part(heads.key)?];
            match self.cache.get_mut(l) {
                Some(old) => {
                    for (old, fresh) in old.iter_mut().zip(fresh) {
                        *old = Tensor::cat(&[&*old, &fresh], 0)?;
                    }
                }
                None => self.cache.push(fresh),
            }
        }
        Ok(())
    }

    /// Log-probabilities of the next token, from the stream at the last ones.
    fn next(&self, last: &Tensor) -> Result<Vec<Vec<f32>>> {
        let hidden = self.model.final_norm(last)?;
        ops::log_probs(&hidden, self.model.head()?, self.request.temperature())?.to_vec2()
    }

    /// Reads a token of every row; what a row that ended is given nobody reads.
    fn step(&mut self, tokens: &BTreeMap<usize, u32>) -> Result<()> {
        if self.end == self.places || 4 * tokens.len() <= 3 * self.rows.len() {
            self.regroup(0)?;
        }
        let (model, heads, at) = (self.model, self.model.config.heads(), self.end);
        let ids: Vec<u32> = self.rows.iter().map(|row| tokens.get(&row.0).copied().unwrap_or(0)).collect();
        let positions: Vec<u32> = self.rows.iter().map(|row| (at - row.1) as u32).collect();
        let rotations = model.rotations(&positions)?;
        let hidden = |&(_, start): &(usize, usize)| {
            (0..=at).map(move |place| if place < start { f32::NEG_INFINITY } else { 0.0 })
        };
        let mask: Vec<f32> = self.rows.iter().flat_map(hidden).collect();
        let mask = Tensor::from_vec(mask, (self.rows.len(), 1, 1, at + 1), &model.device)?;
        let cache = &self.cache;
        let mut x = model.embed(&Tensor::new(ids, &model.device)?)?;
        for l in 0..model.config.num_hidden_layers {
            x = model
                .layer(l, &x, &rotations, &mut |qkv| attention::decode(heads, qkv, &cache[l], at, &mask))?;
        }
        let scores = self.next(&x)?;
        for (row, scores) in self.rows.iter().zip(scores) {
            if let Some(own) = self.scores.get_mut(&row.0) {
                *own = Rc::new(scores);
            }
        }
        self.end += 1;
        Ok(())
    }
}

impl DecodeBackend for Decoding<'_, '_> {
    fn start(&mut self, responses: &[usize]) -> Sampled<()> {
        self.join(responses).map_err(|e| failed(&self.model.device, e).into())
    }

    fn scores(&self, response: usize) -> &[f32] {
        self.scores.get(&response).map_or(&[], |scores| scores)
    }

    fn end(&mut self, response: usize) {
        self.scores.remove(&response);
    }

    fn read(&mut self, responses: &[usize], tokens: &[u32]) -> Sampled<()> {
        let tokens = responses.iter().copied().zip(tokens.iter().copied()).collect();
        self.step(&tokens).map_err(|e| failed(&self.model.device, e).into())
    }
}
