//! The CPU's sampler.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::{DecodeBackend, Responses, RolloutError, Sampler, SamplingRequest};
use crate::model::check_tokens;
use crate::model::ops::parallel;
use crate::model::{Decoder, Decoding, NextTokens, RowId};

impl Sampler for Decoder<f32> {
    fn generate(&self, request: &SamplingRequest<'_>) -> Responses {
        request.check(self.config().max_position_embeddings)?;
        for (prompt, ids) in request.prompts.iter().enumerate() {
            check_tokens(prompt, ids, self.config())?;
        }
        parallel::in_pool(|| request.run(&mut CpuBackend::new(self, request)))
    }
}

/// A prompt's row, and the scores of the first token after it.
type Prompt = (RowId, Rc<[f32]>);

/// Decodes on the CPU; finished sequences leave the batch.
struct CpuBackend<'r, 'm> {
    request: &'r SamplingRequest<'r>,
    decoding: Decoding<'m, f32>,
    /// The prompt of which some responses started and others wait.
    prompt: Option<Prompt>,
    /// The rows of the responses that run.
    rows: BTreeMap<usize, RowId>,
    /// The scores of those that have just started.
    first: BTreeMap<usize, Rc<[f32]>>,
    /// The scores of the others, and their lines.
    next: Option<NextTokens<f32>>,
    lines: BTreeMap<usize, usize>,
}

impl<'r, 'm> CpuBackend<'r, 'm> {
    fn new(model: &'m Decoder<f32>, request: &'r SamplingRequest<'r>) -> Self {
        CpuBackend {
            request,
            decoding: Decoding::new(model),
            prompt: None,
            rows: BTreeMap::new(),
            first: BTreeMap::new(),
            next: None,
            lines: BTreeMap::new(),
        }
    }

    /// Reads the prompts of these responses that no earlier response has.
    fn prefill(&mut self, responses: &[usize]) -> Result<Vec<Prompt>, RolloutError> {
        let opening = responses.iter().filter(|&r| r.is_multiple_of(self.request.group));
        let prompts: Vec<&[u32]> = opening.map(|r| self.request.prompts[r / self.request.group]).collect();
        if prompts.is_empty() {
            return Ok(Vec::new());
        }
        let (rows, mut scores) = self.decoding.prefill(&prompts)?;
        scores.log_softmax(self.request.temperature());
        Ok(rows.into_iter().enumerate().map(|(i, row)| (row, scores.row(i).into())).collect())
    }
}

impl DecodeBackend for CpuBackend<'_, '_> {
    fn start(&mut self, responses: &[usize]) -> Result<(), RolloutError> {
        let mut fresh = self.prefill(responses)?.into_iter();
        for &response in responses {
            // Responses start in order: the first of a prompt comes after the last of the one before.
            let place = response % self.request.group;
            let Some((prompt, scores)) = self.prompt.take().or_else(|| fresh.next()) else { continue };
            let last = place + 1 == self.request.group;
            self.rows.insert(response, if last { prompt } else { self.decoding.fork(prompt) });
            self.first.insert(response, scores.clone());
            self.prompt = (!last).then_some((prompt, scores));
        }
        Ok(())
    }

    fn scores(&self, response: usize) -> &[f32] {
        match (self.first.get(&response), &self.next) {
            (Some(scores), _) => scores,
            (None, Some(next)) => next.row(self.lines[&response]),
            (None, None) => &[],
        }
    }

    fn end(&mut self, response: usize) {
        self.first.remove(&response);
        if let Some(row) = self.rows.remove(&response) {
            self.decoding.finish(row);
        }
    }

    fn read(&mut self, responses: &[usize], tokens: &[u32]) -> Result<(), RolloutError> {
        let rows: Vec<RowId> = responses.iter().map(|r| self.rows[r]).collect();
        self.first.clear();
        let mut next = self.decoding.step(&rows, tokens)?;
        next.log_softmax(self.request.temperature());
        self.next = Some(next);
        self.lines = responses.iter().enumerate().map(|(line, &r)| (r, line)).collect();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::generate::{SampledResponse, SamplingParams, StoppingCriteria};
    use crate::model::ops::attention::PAGE;
    use crate::model::{Architecture::Qwen2, ModelShape, weights};
    use crate::rng::{Address, Purpose};
    use crate::truncation::Truncation;

    const EOS: [u32; 4] = [3, 30, 44, 60];

    fn model() -> Decoder<f32> {
        let config = Qwen2.config(ModelShape { vocab: 67, hidden: 16, layers: 2, heads: 2, kv_heads: 1 });
        let parameters = weights::initialise(&config, 4, 0.3);
        Decoder::new(config, parameters).unwrap()
    }

    /// The responses, and the bytes of the most pages that were in use at once.
    fn decoded(model: &Decoder<f32>, request: &SamplingRequest<'_>) -> (Vec<Vec<SampledResponse>>, usize) {
        let mut backend = CpuBackend::new(model, request);
        let responses = request.run(&mut backend).unwrap();
        assert!(backend.rows.is_empty() && backend.prompt.is_none() && backend.first.is_empty());
        (responses, backend.decoding.bytes())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]
        #[test]
        fn responses_have_the_same_bits_in_any_number_of_slots_and_pages_keep_their_bound(
            lengths in prop::collection::vec(1usize..80, 1..5),
            limits in prop::collection::vec(1usize..50, 4),
            (group, top_k) in (1usize..6, prop::option::of(1usize..9)),
            (greedy, ends, few, coded) in (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>()),
        ) {
            let model = model();
            let prompts: Vec<Vec<u32>> =
                lengths.iter().map(|&n| (0..n).map(|t| ((t * t + n * 7) % 67) as u32).collect()).collect();
            let prompts: Vec<&[u32]> = prompts.iter().map(Vec::as_slice).collect();
            let address = |p: usize, r: usize| {
                let own = Address::new(5, Purpose::Rollout).prompt(p as u64).response(r as u64);
                if coded { own.decoded_from((0.3 + r as f64 / group as f64).fract()) } else { own }
            };
            let temperature = if greedy { 0.0 } else { 1.0 };
            let sampling = SamplingParams { max_new_tokens: 40, min_new_tokens: usize::from(few) * 3, temperature };
            let complete = |tokens: &[u32]| tokens.iter().filter(|t| **t % 5 == 0).count() == 6;
            let request = SamplingRequest {
                truncation: Truncation { top_k, top_p: few.then_some(0.9) },
                stopping: StoppingCriteria {
                    max_lengths: &limits[..prompts.len()],
                    complete: if ends { Some(&complete) } else { None },
                },
                ..SamplingRequest::new(&prompts, group, if few { &EOS } else { &[] }, sampling, &address)
            };
            let page = model.config().heads().page() * model.config().num_key_value_heads
                * model.config().num_hidden_layers * size_of::<f32>();
            let all = decoded(&model, &request);
            prop_assert!(all.1 <= page * request.pages(PAGE));
            for slots in [1, 2, 3, 7] {
                let request = SamplingRequest { slots: Some(slots), ..request };
                let some = decoded(&model, &request);
                prop_assert_eq!(&some.0, &all.0);
                prop_assert!(some.1 <= page * request.pages(PAGE), "{} slots", slots);
            }
        }
    }

    #[test]
    fn threads_that_take_whole_rows_give_the_bits_of_one() {
        let config = Qwen2.config(ModelShape { vocab: 299, hidden: 32, layers: 2, heads: 2, kv_heads: 1 });
        let model = Decoder::new(config.clone(), weights::initialise(&config, 4, 0.3)).unwrap();
        let address =
            |p: usize, r: usize| Address::new(5, Purpose::Rollout).prompt(p as u64).response(r as u64);
        let sampling = SamplingParams::new(40, 1.0);
        let prompts = [&[9u32; 33][..], &[4, 8], &[7; 64]];
        // Enough rows for each thread, responses that end early, and a part that is smaller than the others.
        let request = SamplingRequest::new(&prompts, 11, &EOS, sampling, &address);
        let responses = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| model.generate(&request).unwrap())
        };
        let alone = responses(1);
        for threads in [2, 4] {
            assert!(responses(threads) == alone, "{threads} threads");
        }
    }

    /// The branches of a tree: prompts that go on from one another, end on a page, are equal, or have nothing in common.
    #[test]
    fn prompts_share_the_full_pages_that_they_begin_with_and_no_bit_changes() {
        let model = model();
        let long: Vec<u32> = (0..100u32).map(|t| (t * t + 5) % 67).collect();
        let turned = |at: usize, to: usize| [&long[..at], &[66], &long[at + 1..to]].concat();
        let prompts =
            [turned(80, 90), long.clone(), turned(40, 97), long[..64].to_vec(), long.clone(), vec![9; 50]];
        let prompts: Vec<&[u32]> = prompts.iter().map(Vec::as_slice).collect();
        let address =
            |p: usize, r: usize| Address::new(5, Purpose::Rollout).prompt(p as u64).response(r as u64);
        let sampling = SamplingParams::new(9, 1.0);
        let request = SamplingRequest::new(&prompts, 2, &[], sampling, &address);
        let (together, bytes) = decoded(&model, &request);
        // One at a time has nothing to share.
        let (alone, _) = decoded(&model, &SamplingRequest { slots: Some(1), ..request });
        assert_eq!(together, alone);
        // Prompts of the same lengths that have nothing in common.
        let apart: Vec<Vec<u32>> =
            prompts.iter().enumerate().map(|(i, own)| vec![i as u32; own.len()]).collect();
        let apart: Vec<&[u32]> = apart.iter().map(Vec::as_slice).collect();
        let page = model.config().heads().page()
            * model.config().num_key_value_heads
            * model.config().num_hidden_layers
            * size_of::<f32>();
        let saved = decoded(&model, &SamplingRequest { prompts: &apart, ..request }).1 - bytes;
        // In their order: 2 of the first `long`, which `long[..64]` has, 3 of the second, 2 of `turned(80, 90)`, 1 of `turned(40, 97)`.
        assert_eq!(saved, (2 + 3 + 2 + 1) * page);
    }

    #[test]
    fn a_queue_takes_the_pages_of_its_slots_and_a_late_prompt_is_refused_before_anything_starts() {
        let model = model();
        let address = |p: usize, _: usize| Address::new(5, Purpose::Rollout).prompt(p as u64);
        let sampling = SamplingParams::new(70, 1.0);
        let prompts: [[u32; 33]; 6] = std::array::from_fn(|i| [i as u32; 33]);
        let prompts = prompts.each_ref().map(|prompt| &prompt[..]);
        let request =
            SamplingRequest { slots: Some(2), ..SamplingRequest::new(&prompts, 1, &[], sampling, &address) };
        // 33 + 69 tokens are read: 4 pages in each of the 2 slots.
        let page = 2 * model.config().heads().page() * size_of::<f32>();
        assert_eq!((decoded(&model, &request).1, request.pages(PAGE)), (2 * 4 * page, 2 * 4));
        let prompts = [prompts[0], &[1], &[67]];
        let request = SamplingRequest { prompts: &prompts, slots: Some(1), ..request };
        let refused = model.generate(&request).unwrap_err().to_string();
        assert!(refused.contains("row 2: token 67 at 0"), "{refused}");
    }
}
