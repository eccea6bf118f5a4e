//! A token's log-probability has the same bits in any batch and micro-batch, with any number of threads, decoded or scored.

use grpo_lambda_decoder::generate::{Sampler, SamplingParams, SamplingRequest};
use grpo_lambda_decoder::model::{
    Architecture::{Olmo2, Qwen2, Qwen3},
    Decoder, Decoding, ForwardOptions, ModelConfig, ModelShape, RowId, Rows, weights,
};
use grpo_lambda_decoder::rng::{Address, Purpose};
use grpo_lambda_decoder::truncation::Truncation;

const SHAPE: ModelShape = ModelShape { vocab: 131, hidden: 48, layers: 3, heads: 6, kv_heads: 2 };

fn model() -> Decoder<f32> {
    of_shape(Qwen2.config(SHAPE))
}

/// Without norms of queries and keys, with norms per head, and with norms of the whole, after attention and MLP.
fn models() -> [Decoder<f32>; 3] {
    let qwen3 = ModelConfig { head_dim: 12, ..Qwen3.config(SHAPE) };
    [model(), of_shape(qwen3), of_shape(Olmo2.config(SHAPE))]
}

fn of_shape(config: ModelConfig) -> Decoder<f32> {
    let mut parameters = weights::initialise(&config, 11, 0.15);
    // A norm's weight of 1 would hide which weight is taken.
    for (name, tensor) in parameters.iter_mut().filter(|(name, _)| name.contains("norm")) {
        let shift = |i: usize| ((i * 7 + name.len()) % 11) as f32 / 16.0;
        tensor.data.iter_mut().enumerate().for_each(|(i, x)| *x += shift(i));
    }
    Decoder::new(config, parameters).unwrap()
}

/// Rows of lengths around the sizes where the code changes course: tiles, pages, blocks.
fn rows() -> Vec<Vec<u32>> {
    let row = |(i, len): (usize, &usize)| {
        (0..*len).map(|t| ((i * 977 + t * t * 31 + t * 7) % 131) as u32).collect()
    };
    [2, 31, 32, 33, 64, 65, 97, 7, 48, 150, 12, 13].iter().enumerate().map(row).collect()
}

fn batch(rows: &[Vec<u32>]) -> Rows {
    let mut batch = Rows::new();
    rows.iter().for_each(|r| batch.push(r, 1));
    batch
}

fn with_threads<R: Send>(threads: usize, f: impl FnOnce() -> R + Send) -> R {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(f)
}

#[test]
fn a_row_alone_in_a_batch_and_under_any_thread_count_scores_the_same_bits() {
    for model in models() {
        let rows = rows();
        let options = ForwardOptions { temperature: 0.7, entropy: true, ..ForwardOptions::default() };
        let whole = with_threads(1, || model.score(&batch(&rows), options).unwrap());
        for threads in [2, 3, 5] {
            assert!(
                with_threads(threads, || model.score(&batch(&rows), options).unwrap()) == whole,
                "{threads} threads"
            );
        }
        for (i, row) in rows.iter().enumerate() {
            let alone = model.score(&batch(std::slice::from_ref(row)), options).unwrap();
            assert_eq!(alone.logps[0], whole.logps[i], "row {i}");
            assert_eq!(alone.entropies[0], whole.entropies[i], "row {i}");
        }
        let reversed: Vec<_> = rows.iter().rev().cloned().collect();
        let mut scores = model.score(&batch(&reversed), options).unwrap();
        scores.logps.reverse();
        assert_eq!(scores.logps, whole.logps);
        // with a tape, and with recomputed layers, too
        for recompute in [false, true] {
            let (scores, _) = model.forward(&batch(&rows), ForwardOptions { recompute, ..options }).unwrap();
            assert!(scores == whole);
        }
    }
}

#[test]
fn the_future_does_not_reach_the_past() {
    for model in models() {
        let mut rows = rows();
        let before = model.score(&batch(&rows), ForwardOptions::default()).unwrap();
        let changed = 40;
        rows[9][changed] = (rows[9][changed] + 1) % 131;
        let after = model.score(&batch(&rows), ForwardOptions::default()).unwrap();
        for i in 0..rows.len() {
            let same =
                |range: std::ops::Range<usize>| before.logps[i][range.clone()] == after.logps[i][range];
            if i == 9 {
                assert!(
                    same(0..changed - 1) && !same(changed - 1..changed) && !same(changed..rows[9].len() - 1)
                );
            } else {
                assert!(same(0..rows[i].len() - 1), "row {i}");
            }
        }
    }
}

#[test]
fn decoding_step_by_step_gives_the_log_probs_of_teacher_forcing_bit_for_bit() {
    for model in models() {
        let rows = rows();
        for (temperature, threads) in [(1.0, 1), (0.6, 3)] {
            let options = ForwardOptions { temperature, ..ForwardOptions::default() };
            let scored = model.score(&batch(&rows), options).unwrap();
            let decoded = with_threads(threads, || {
                let mut decoding = Decoding::new(&model);
                let prompts: Vec<&[u32]> = rows.iter().map(|r| &r[..1 + r.len() / 3]).collect();
                let (ids, mut next) = decoding.prefill(&prompts).unwrap();
                let mut alive: Vec<(usize, RowId)> = ids.into_iter().enumerate().collect();
                let mut logps = vec![Vec::new(); rows.len()];
                loop {
                    next.log_softmax(temperature);
                    let mut continued = Vec::new();
                    let mut tokens = Vec::new();
                    for (at, &(i, id)) in alive.iter().enumerate() {
                        let position = decoding.tokens(id);
                        if position == rows[i].len() {
                            decoding.finish(id);
                            continue;
                        }
                        let token = rows[i][position];
                        logps[i].push(f64::from(next.row(at)[token as usize]));
                        continued.push((i, id));
                        tokens.push(token);
                    }
                    if continued.is_empty() {
                        return logps;
                    }
                    alive = continued;
                    let ids: Vec<RowId> = alive.iter().map(|(_, id)| *id).collect();
                    next = decoding.step(&ids, &tokens).unwrap();
                }
            });
            for (i, decoded) in decoded.iter().enumerate() {
                let scored = &scored.logps[i];
                assert_eq!(*decoded, scored[scored.len() - decoded.len()..], "row {i}");
            }
        }
    }
}

#[test]
fn a_truncated_sampler_reports_the_log_probability_among_what_it_kept() {
    let (model, temperature) = (model(), 0.7);
    let prompts: [&[u32]; 2] = [&[5, 17, 3], &[60, 2]];
    let sampling = SamplingParams::new(12, temperature);
    let address = |prompt: usize, response: usize| {
        Address::new(8, Purpose::Rollout).prompt(prompt as u64).response(response as u64)
    };
    for kept in [1, 3, 40] {
        let truncation = Truncation { top_k: Some(kept), top_p: None };
        let request =
            SamplingRequest { truncation, ..SamplingRequest::new(&prompts, 2, &[], sampling, &address) };
        for (prompt, responses) in prompts.iter().zip(model.generate(&request).unwrap()) {
            for response in responses {
                let logits = model.logits(&batch(&[[prompt, &response.tokens[..]].concat()])).unwrap();
                for (t, (&token, logp)) in response.tokens.iter().zip(&response.logps).enumerate() {
                    let row = &logits[(prompt.len() + t - 1) * 131..][..131];
                    let mut tempered: Vec<f64> = row.iter().map(|&x| f64::from(x) / temperature).collect();
                    let own = tempered[token as usize];
                    tempered.sort_by(|a, b| b.total_cmp(a));
                    let mass: f64 = tempered[..kept].iter().map(|x| x.exp()).sum();
                    assert!((own - mass.ln() - logp).abs() < 1e-4, "{logp} of {kept} at {t}");
                }
            }
        }
    }
}

#[test]
fn responses_that_share_a_prompt_do_not_disturb_each_other() {
    for model in models() {
        for prompt_len in [1, 31, 32, 33, 70] {
            let prompt: Vec<u32> = (0..prompt_len).map(|t| (t * 13 % 131) as u32).collect();
            let responses: Vec<Vec<u32>> =
                (0..4).map(|r| (0..40).map(|t| ((r * 29 + t * t * 3) % 131) as u32).collect()).collect();
            let mut decoding = Decoding::new(&model);
            let (first, _) = decoding.prefill(&[&prompt]).unwrap();
            let mut ids = vec![first[0]];
            ids.extend((1..4).map(|_| decoding.fork(first[0])));
            let mut last = None;
            for t in 0..40 {
                let tokens: Vec<u32> = responses.iter().map(|r| r[t]).collect();
                last = Some(decoding.step(&ids, &tokens).unwrap());
            }
            let shared = last.unwrap();
            let used = decoding.bytes();
            for (r, response) in responses.iter().enumerate() {
                let mut alone = Decoding::new(&model);
                let whole: Vec<u32> = prompt.iter().chain(response).copied().collect();
                let (_, logits) = alone.prefill(&[&whole]).unwrap();
                assert_eq!(logits.row(0), shared.row(r), "prompt of {prompt_len}, response {r}");
                assert!(used < 4 * alone.bytes() || prompt_len < 32, "the prompt's pages are shared");
            }
            // pages of rows that ended serve the next
            ids.into_iter().for_each(|id| decoding.finish(id));
            decoding.prefill(&[&prompt]).unwrap();
            assert_eq!(decoding.bytes(), used);
        }
    }
}

#[test]
fn inputs_that_do_not_fit_are_refused_by_row() {
    let model = model();
    let refused = |tokens: &[u32], from: usize| {
        let mut rows = Rows::new();
        rows.push(&[1, 2], 1);
        rows.push(tokens, from);
        model.score(&rows, ForwardOptions::default()).expect_err("refused").to_string()
    };
    assert!(refused(&[1, 131], 1).contains("row 1: token 131 at 1 is outside the vocabulary of 131"));
    assert!(refused(&[], 1).contains("row 1: 0 tokens"));
    assert!(refused(&[1, 2], 0).contains("scoring starts at token 0"));
    assert!(refused(&vec![0; 40_000], 1).contains("max_position_embeddings = 32768"));
    let mut decoding = Decoding::new(&model);
    assert!(decoding.prefill(&[&[1], &[500]]).is_err());
}
