//! Operations and bytes of a step by its shape, to state a measured time as a share of the device's peak.
//!
//! Only the work that the mathematics asks for is counted: matrix products and attention, a multiply-add as two operations.
//! Norms, rotations, exponentials and the optimiser count as nothing, so the share of the peak is a lower bound.

use grpo_lambda_decoder::model::ModelConfig;

/// Operations of one forward pass over so many tokens, of which some are scored, that see `pairs` positions in all: see
/// [`Rows::pairs`](grpo_lambda_decoder::model::Rows::pairs).
pub fn pass(c: &ModelConfig, tokens: f64, scored: f64, pairs: f64) -> f64 {
    2.0 * tokens * layers(c) + 2.0 * scored * head(c) + attention(c) * pairs
}

/// Bytes of weights that decoding reads: every matrix once per step, whatever the batch.
pub fn decode_weight_bytes(c: &ModelConfig, new: usize) -> f64 {
    4.0 * new as f64 * (layers(c) + head(c))
}

/// Numbers in the matrices of all layers.
pub fn layers(c: &ModelConfig) -> f64 {
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
