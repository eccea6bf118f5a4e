//! Operations and bytes of a step by its shape, to state a measured time as a share of the device's peak.
//!
//! Only the work that the mathematics asks for is counted: matrix products and attention, a multiply-add as two operations.
//! Norms, rotations, exponentials and the optimiser count as nothing, so the share of the peak is a lower bound.

use std::hint::black_box;
use std::time::Instant;

use grpo_lambda_decoder::model::ModelConfig;
use grpo_lambda_decoder::model::ops::matmul::Left;
use grpo_lambda_decoder::model::ops::simd::{NR, tile_f32};

/// Operations of one forward pass over rows of the given `(length, scored)`: every token passes the layers, a scored one
/// the output matrix. A backward pass is twice as many.
///
/// ```text
/// sum_rows  2 len P + 2 scored h V + layers * 4 heads d len (len + 1) / 2,      P = numbers in the layers' matrices
/// ```
fn forward(c: &ModelConfig, rows: impl IntoIterator<Item = (usize, usize)>) -> f64 {
    let row = |(len, scored): (usize, usize)| {
        let len = len as f64;
        pass(c, len, scored as f64, len * (len + 1.0) / 2.0)
    };
    rows.into_iter().map(row).sum()
}

/// Operations of one forward pass over so many tokens, of which some are scored, that see `pairs` positions in all: see
/// [`Rows::pairs`](grpo_lambda_decoder::model::Rows::pairs).
pub fn pass(c: &ModelConfig, tokens: f64, scored: f64, pairs: f64) -> f64 {
    2.0 * tokens * layers(c) + 2.0 * scored * head(c) + attention(c) * pairs
}

/// Operations of decoding `new` tokens after each of `prompts`, `group` times: prompts are read once.
pub fn decode(c: &ModelConfig, prompts: &[usize], group: usize, new: usize) -> f64 {
    let read = forward(c, prompts.iter().map(|&len| (len, 1)));
    // The last token is sampled but never read.
    let steps = new.saturating_sub(1) as f64;
    let response = |&len: &usize| {
        let positions = steps * len as f64 + steps * (steps + 1.0) / 2.0;
        2.0 * steps * (layers(c) + head(c)) + attention(c) * positions
    };
    read + group as f64 * prompts.iter().map(response).sum::<f64>()
}

/// Bytes of weights that decoding reads: every matrix once per step, whatever the batch.
pub fn decode_weight_bytes(c: &ModelConfig, new: usize) -> f64 {
    4.0 * new as f64 * (layers(c) + head(c))
}

/// Numbers in the matrices of all layers.
fn layers(c: &ModelConfig) -> f64 {
    let (h, f) = (c.hidden_size as f64, c.intermediate_size as f64);
    let query = (c.num_attention_heads * c.head_dim) as f64;
    let key = (c.num_key_value_heads * c.head_dim) as f64;
    c.num_hidden_layers as f64 * (h * (query + 2.0 * key) + query * h + 3.0 * h * f)
}

fn head(c: &ModelConfig) -> f64 {
    (c.hidden_size * c.vocab_size) as f64
}

/// Operations of attention per pair of positions: a product with the key and one with the value, in every head and layer.
fn attention(c: &ModelConfig) -> f64 {
    4.0 * (c.num_hidden_layers * c.num_attention_heads * c.head_dim) as f64
}

/// Operations per second of one thread at best: tiles of the matrix product whose operands stay in the first-level cache.
pub fn peak() -> f64 {
    const M: usize = 12;
    const K: usize = 128;
    const TILES: usize = 2000;
    let (a, b) = (vec![0.5f32; M * K], vec![0.25f32; NR * K]);
    let mut c = vec![0f32; M * NR];
    let mut best = f64::INFINITY;
    for _ in 0..20 {
        let clock = Instant::now();
        for _ in 0..TILES {
            tile_f32::<M>(Left::transposed(black_box(&a), M), black_box(&b), &mut c, NR, false, &[]);
        }
        black_box(&c);
        best = best.min(clock.elapsed().as_secs_f64());
    }
    (2 * M * NR * K * TILES) as f64 / best
}

#[cfg(test)]
mod tests {
    use super::*;
    use grpo_lambda_decoder::model::{Architecture::Qwen2, Decoder, ModelShape, weights};

    /// Width 32, 2 layers, 4 heads of 8, 2 of keys and values, feed-forward `f`, vocabulary 50.
    fn config() -> ModelConfig {
        let mut c = Qwen2.config(ModelShape { vocab: 50, hidden: 32, layers: 2, heads: 4, kv_heads: 2 });
        c.intermediate_size = 48;
        c
    }

    #[test]
    fn matrices_are_counted_as_they_are_stored() {
        let c = config();
        let model = Decoder::new(c.clone(), weights::initialise(&c, 1, 0.02)).expect("it fits");
        let stored: usize = model
            .parameters()
            .iter()
            .filter(|(name, t)| name.contains("layers") && t.shape.len() == 2)
            .map(|(_, t)| t.data.len())
            .sum();
        assert_eq!(layers(&c), stored as f64);
    }

    #[test]
    fn decoding_token_by_token_is_the_forward_pass_without_its_last_token() {
        let c = config();
        // A prompt of 3 and 4 new tokens: positions 0..6 are read, each once; 4 are scored.
        let by_hand =
            2.0 * 6.0 * layers(&c) + 2.0 * 4.0 * head(&c) + attention(&c) * (1 + 2 + 3 + 4 + 5 + 6) as f64;
        assert_eq!(decode(&c, &[3], 1, 4), by_hand);
        assert_eq!(forward(&c, [(6, 4)]), by_hand);
    }
}
