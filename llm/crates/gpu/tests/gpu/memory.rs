//! The memory of a training step, counted before it is run.

use std::sync::Arc;

use grpo_lambda_decoder::lora::{LoraSettings, TARGETS};
use grpo_lambda_decoder::model::{Architecture::Qwen2, ForwardOptions, ModelConfig, ModelShape, Rows};
use grpo_lambda_decoder::optim::AdamWSettings;
use grpo_lambda_gpu::Budget;
use grpo_lambda_gpu::dry::Dry;
use grpo_lambda_gpu::lora::AdapterLayout;
use grpo_lambda_gpu::{
    Adapter, Device, Dtype, GpuAdamW, GpuDecoder, Gradients, Kernels, Layout, Network, Weights,
};

/// Qwen2.5 of this size.
pub(crate) fn qwen(
    h: usize,
    f: usize,
    layers: usize,
    heads: usize,
    key: usize,
    vocabulary: usize,
    tied: bool,
) -> ModelConfig {
    let small = Qwen2.config(ModelShape { vocab: vocabulary, hidden: h, layers, heads, kv_heads: key });
    ModelConfig { intermediate_size: f, tie_word_embeddings: tied, ..small }
}

/// `n` rows of `len` tokens of which the last half is scored.
pub(crate) fn rows(n: usize, len: usize) -> Rows {
    let mut rows = Rows::new();
    (0..n).for_each(|i| {
        rows.push(&(0..len as u32).map(|t| (t * 7 + i as u32) % 11).collect::<Vec<_>>(), len / 2)
    });
    rows
}

pub(crate) fn slopes(rows: &Rows) -> Vec<Vec<f64>> {
    (0..rows.len()).map(|i| (0..rows.scored(i)).map(|t| 0.1 * (t as f64 - 2.0)).collect()).collect()
}

/// A step as training takes it: score by the reference, forward, backward, update. With a rank it is the step of an adapter, whose reference is
/// the weights without it.
pub(crate) fn step(
    device: Arc<dyn Device>,
    config: &ModelConfig,
    dtype: Dtype,
    rows: &Rows,
    recompute: bool,
    rank: Option<usize>,
) {
    let kernels = Kernels { device: device.clone(), dtype };
    let layout = Arc::new(Layout::new(config));
    let weights = Weights::zeros(&device, "weights", &layout, dtype).unwrap();
    let targets = TARGETS.map(|(name, _)| name.to_owned()).to_vec();
    let settings = rank.map(|rank| LoraSettings { rank, alpha: 2.0 * rank as f64, targets });
    let thin = settings.map(|settings| Arc::new(AdapterLayout::new(&settings, config).unwrap()));
    let adapter = thin.as_ref().map(|thin| Adapter::zeros(&device, "weights", thin, dtype).unwrap());
    let reference = rank.is_none().then(|| Weights::zeros(&device, "reference", &layout, dtype).unwrap());
    let gradients = match &thin {
        Some(thin) => Gradients::adapter(&device, thin).unwrap(),
        None => Gradients::weights(&device, &layout).unwrap(),
    };
    let trained = adapter.as_ref().map_or(weights.tensors(), |adapter| adapter.tensors());
    let none = Default::default();
    let mut optimiser = GpuAdamW::new(kernels.clone(), AdamWSettings::default(), trained, &none).unwrap();
    let decoder = GpuDecoder::new(kernels, layout, Budget::default());
    let options = ForwardOptions { recompute, ..ForwardOptions::default() };
    decoder.score(reference.as_ref().unwrap_or(&weights), rows, options).unwrap();
    let network = Network { weights: &weights, adapter: adapter.as_ref() };
    let (_, tape) = decoder.forward(network, rows, options).unwrap();
    decoder.backward(network, tape, &slopes(rows), &gradients).unwrap();
    optimiser.step(1e-6, &gradients, trained).unwrap();
}

/// Prints the peak by use; returns it in GiB.
fn report(what: &str, dry: &Dry) -> f64 {
    let gib = |bytes: u64| bytes as f64 / (1u64 << 30) as f64;
    let (peak, uses) = dry.ledger().peak();
    println!("{what}: {:.2} GiB, {:?}", gib(peak), dry.work());
    uses.iter().filter(|(_, b)| **b > 0).for_each(|(use_, b)| println!("  {use_:18} {:8.3} GiB", gib(*b)));
    gib(peak)
}

#[test]
fn full_training_of_published_models_fits_an_80_gb_card() {
    let models = [
        ("Qwen2.5-Math-1.5B", qwen(1536, 8960, 28, 12, 2, 151_936, true), 48.0),
        ("Qwen2.5-3B", qwen(2048, 11_008, 36, 16, 2, 151_936, true), 72.0),
    ];
    for (name, config, most) in &models {
        let dry = Arc::new(Dry::default());
        step(dry.clone(), config, Dtype::Bf16, &rows(16, 512), true, None);
        let peak = report(&format!("{name}, 16 rows of 512"), &dry);
        assert!(peak < *most, "{name}: {peak} GiB");
        assert_eq!(dry.ledger().total(), 0, "{name}: something is still held");
    }
    let (name, config, _) = &models[0];
    let dry = Arc::new(Dry::default());
    step(dry.clone(), config, Dtype::Bf16, &rows(16, 512), false, None);
    let peak = report(&format!("{name}, all layers kept"), &dry);
    assert!(peak < 72.0, "{peak} GiB");
}

/// Attention's memory is linear: its scores alone took 12 GiB here.
#[test]
fn two_rows_of_16384_tokens_of_a_distilled_1_5b_model_take_at_most_46_gib() {
    let shape = qwen(1536, 8960, 28, 12, 2, 151_936, false);
    let config = ModelConfig { max_position_embeddings: 131_072, ..shape };
    let dry = Arc::new(Dry::default());
    step(dry.clone(), &config, Dtype::Bf16, &rows(2, 16_384), true, None);
    let peak = report("R1-Distill-Qwen-1.5B, 2 rows of 16384", &dry);
    assert!(peak < 46.0, "{peak} GiB");
    assert!(dry.ledger().peak().1.keys().all(|use_| *use_ != "attention scores"));
}

#[test]
fn an_adapter_on_a_7b_model_fits_a_24_gb_card_and_has_no_gradient_of_a_frozen_weight() {
    let config = qwen(3584, 18_944, 28, 28, 4, 152_064, false);
    let dry = Arc::new(Dry::default());
    step(dry.clone(), &config, Dtype::Bf16, &rows(4, 768), true, Some(16));
    let peak = report("Qwen2.5-7B with an adapter of rank 16, 4 rows of 768", &dry);
    assert!(peak < 20.0, "{peak} GiB");
    let (_, uses) = dry.ledger().peak();
    let numbers =
        (config.num_hidden_layers * 16 * (3584 * 4 + 3584 + 2 * 512 + 3584 + 3 * 3584 + 3 * 18_944)) as u64;
    assert!(uses["gradients"] < 4 * numbers * 11 / 10, "{} bytes of gradients", uses["gradients"]);
}
