use grpo_lambda_decoder::model::Architecture::Qwen2;
use grpo_lambda_decoder::model::{Decoder, ModelConfig, ModelShape, weights};
use grpo_lambda_trainer::plan::roofline::layers;

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
