//! The decoder on a device against the decoder on the CPU.

use std::collections::BTreeMap;
use std::sync::Arc;

use grpo_lambda_decoder::lora::LoraSettings;
use grpo_lambda_decoder::model::config::Architecture::{self, Qwen2, Qwen3};
use grpo_lambda_decoder::model::weights::{self, Parameters};
use grpo_lambda_decoder::model::{
    self, Cotangents, Decoder, ForwardOptions, ModelConfig, ModelShape, Rows, TokenScores,
};
use grpo_lambda_decoder::optim::AdamWSettings;
use grpo_lambda_gpu::dry::Dry;
use grpo_lambda_gpu::lora::AdapterLayout;
use grpo_lambda_gpu::{
    Adapter, Budget, Device, Dtype, GpuAdamW, GpuDecoder, Gradients, Kernels, Layout, Network, Weights,
};
use grpo_lambda_ptx::Order;
use half::bf16;

use crate::{long, machine, memory};

/// Every kind of model: tied and untied, with no biases, with some, with all; a key head for one, two and three query heads; heads
/// normed, wider than their share of the hidden state.
pub(crate) fn configs() -> Vec<(&'static str, ModelConfig)> {
    let tied = ModelConfig {
        intermediate_size: 40,
        ..Qwen2.config(ModelShape { vocab: 37, hidden: 24, layers: 2, heads: 6, kv_heads: 2 })
    };
    let untied = ModelConfig { tie_word_embeddings: false, num_hidden_layers: 1, ..tied.clone() };
    let llama = ModelConfig {
        architecture: Architecture::Llama,
        qkv_bias: false,
        num_key_value_heads: 6,
        num_hidden_layers: 3,
        ..untied.clone()
    };
    let every = ModelConfig { output_bias: true, mlp_bias: true, num_key_value_heads: 3, ..untied.clone() };
    let qwen3 = ModelConfig {
        intermediate_size: 40,
        head_dim: 6,
        ..Qwen3.config(ModelShape { vocab: 37, hidden: 24, layers: 2, heads: 6, kv_heads: 2 })
    };
    let biased =
        ModelConfig { qkv_bias: true, output_bias: true, tie_word_embeddings: false, ..qwen3.clone() };
    vec![
        ("qwen2 tied", tied),
        ("qwen2 untied", untied),
        ("llama", llama),
        ("all biases", every),
        ("qwen3 tied", qwen3),
        ("qwen3 untied, biases", biased),
    ]
}

/// Parameters with nothing left at its initial value: norms about 1, biases about 0.
pub(crate) fn parameters(config: &ModelConfig) -> Parameters<f32> {
    let mut parameters = weights::initialise(config, 5, 0.25);
    for (i, x) in parameters.values_mut().flat_map(|t| &mut t.data).enumerate() {
        *x += 0.03 * ((i * 37 % 23) as f32 - 11.0) / 11.0;
    }
    parameters
}

/// These parameters after bf16.
fn rounded(parameters: &Parameters<f32>) -> Parameters<f32> {
    let mut rounded = parameters.clone();
    rounded.values_mut().flat_map(|t| &mut t.data).for_each(|x| *x = bf16::from_f32(*x).to_f32());
    rounded
}

/// Ragged rows, two of one length side by side, one of a single token.
pub(crate) fn rows() -> Rows {
    let mut rows = Rows::new();
    for (row, (len, from)) in [(7, 3), (5, 2), (5, 1), (1, 1), (9, 4)].into_iter().enumerate() {
        let tokens: Vec<u32> = (0..len).map(|t| (t * t * 5 + 3 * row as u32 + t) % 37).collect();
        rows.push(&tokens, from);
    }
    rows
}

/// Row `i` alone.
fn alone(rows: &Rows, i: usize) -> Rows {
    let (begin, end) = (rows.offsets()[i], rows.offsets()[i + 1]);
    let mut one = Rows::new();
    one.push(&rows.tokens()[begin..end], end - begin - rows.scored(i));
    one
}

/// Something to weight log-probabilities with.
pub(crate) fn slopes(rows: &Rows) -> Vec<Vec<f64>> {
    let slope = |i: usize, t: usize| ((i * 5 + t * 3) % 7) as f64 / 3.0 - 0.9;
    (0..rows.len()).map(|i| (0..rows.scored(i)).map(|t| slope(i, t)).collect()).collect()
}

pub(crate) const OPTIONS: ForwardOptions =
    ForwardOptions { temperature: 0.7, entropy: true, recompute: false };

/// A decoder with its weights on a device.
pub(crate) struct Ready {
    pub(crate) decoder: GpuDecoder,
    pub(crate) weights: Weights,
    pub(crate) adapter: Option<Adapter>,
    pub(crate) gradients: Gradients,
}

/// Logits of three tokens, so that there are several chunks of them.
const SMALL: Budget = Budget { logits: 4 * 37 * 3 };

impl Ready {
    pub(crate) fn new(
        device: Arc<dyn Device>,
        dtype: Dtype,
        config: &ModelConfig,
        parameters: &Parameters<f32>,
    ) -> Ready {
        Self::with(device, dtype, config, parameters, SMALL, None)
    }

    pub(crate) fn with(
        device: Arc<dyn Device>,
        dtype: Dtype,
        config: &ModelConfig,
        parameters: &Parameters<f32>,
        budget: Budget,
        adapter: Option<(&LoraSettings, &Parameters<f32>)>,
    ) -> Ready {
        let layout = Arc::new(Layout::new(config));
        let weights = Weights::upload(&device, "weights", &layout, parameters, dtype).unwrap();
        let thin = adapter.map(|(s, start)| (Arc::new(AdapterLayout::new(s, config).unwrap()), start));
        let gradients = match &thin {
            None => Gradients::weights(&device, &layout).unwrap(),
            Some((thin, _)) => Gradients::adapter(&device, thin).unwrap(),
        };
        let upload = |(thin, start)| Adapter::upload(&device, "weights", &thin, start, dtype).unwrap();
        let adapter = thin.map(upload);
        let decoder = GpuDecoder::new(Kernels { device, dtype }, layout, budget);
        Ready { decoder, weights, adapter, gradients }
    }

    pub(crate) fn network(&self) -> Network<'_> {
        Network { weights: &self.weights, adapter: self.adapter.as_ref() }
    }

    /// Scores, and gradients added.
    pub(crate) fn run<'a>(
        &self,
        rows: &Rows,
        cotangents: impl Into<Cotangents<'a>>,
        options: ForwardOptions,
    ) -> TokenScores {
        let (scores, tape) = self.decoder.forward(self.network(), rows, options).unwrap();
        self.decoder.backward(self.network(), tape, cotangents, &self.gradients).unwrap();
        scores
    }

    pub(crate) fn read(&self) -> Parameters<f32> {
        self.gradients.tensors().read().unwrap()
    }
}

pub(crate) fn on_the_cpu<'a>(
    config: &ModelConfig,
    parameters: &Parameters<f32>,
    rows: &Rows,
    cotangents: impl Into<Cotangents<'a>>,
) -> (TokenScores, Parameters<f32>) {
    let decoder = Decoder::new(config.clone(), parameters.clone()).unwrap();
    let (scores, tape) = decoder.forward(rows, OPTIONS).unwrap();
    let mut gradients = model::Gradients::new(config, |_| true);
    decoder.backward(tape, cotangents, &mut gradients);
    (scores, gradients.parameters().clone())
}

/// Largest difference.
pub(crate) fn apart(a: &[Vec<f64>], b: &[Vec<f64>]) -> f64 {
    assert_eq!(a.iter().map(Vec::len).collect::<Vec<_>>(), b.iter().map(Vec::len).collect::<Vec<_>>());
    let pairs = a.iter().flatten().zip(b.iter().flatten());
    pairs.map(|(a, b)| if a.is_finite() { (a - b).abs() } else { f64::INFINITY }).fold(0.0, f64::max)
}

/// The norm of the difference over the norm of `b`, by parameter.
pub(crate) fn relative(a: &Parameters<f32>, b: &Parameters<f32>) -> BTreeMap<String, f64> {
    relative_by(|name| name, a, b)
}

/// [`relative`] by projection, its bias with its matrix. The gradient of a bias of keys is next to nothing, since it moves all scores of a query
/// equally but for the rotations: in bf16 all of it is rounding.
fn relative_by_projection(a: &Parameters<f32>, b: &Parameters<f32>) -> BTreeMap<String, f64> {
    relative_by(|name| name.trim_end_matches(".weight").trim_end_matches(".bias"), a, b)
}

fn relative_by(group: fn(&str) -> &str, a: &Parameters<f32>, b: &Parameters<f32>) -> BTreeMap<String, f64> {
    assert_eq!(a.keys().collect::<Vec<_>>(), b.keys().collect::<Vec<_>>());
    let mut squares: BTreeMap<String, [f64; 2]> = BTreeMap::new();
    for (name, a) in a {
        let [difference, size] = squares.entry(group(name).to_owned()).or_default();
        for (a, b) in a.data.iter().zip(&b[name].data) {
            *difference += (f64::from(*a) - f64::from(*b)).powi(2);
            *size += f64::from(*b).powi(2);
        }
    }
    assert!(squares.values().all(|[_, size]| *size > 0.0), "no gradient on the CPU: {squares:?}");
    squares.into_iter().map(|(name, [difference, size])| (name, (difference / size).sqrt())).collect()
}

pub(crate) fn largest(differences: &BTreeMap<String, f64>) -> (&str, f64) {
    let finite = |x: f64| if x.is_finite() { x } else { f64::INFINITY };
    let each = differences.iter().map(|(name, x)| (name.as_str(), finite(*x)));
    each.max_by(|a, b| a.1.total_cmp(&b.1)).unwrap()
}

/// In bf16 they are those of the rounded weights, up to the rounding of activations. The gradient is that of the log-probabilities, or in f32 that of
/// the entropies alone, too.
#[test]
fn scores_and_the_gradient_of_every_parameter_are_the_cpu_s() {
    for (name, config) in configs() {
        for (dtype, most, of_entropies) in
            [(Dtype::F32, 1e-5, false), (Dtype::F32, 1e-5, true), (Dtype::Bf16, 5e-2, false)]
        {
            let exact = dtype == Dtype::F32;
            let (rows, start) = (rows(), parameters(&config));
            let start = if exact { start } else { rounded(&start) };
            let some = slopes(&rows);
            let none: Vec<Vec<f64>> = some.iter().map(|row| vec![0.0; row.len()]).collect();
            let (logps, entropies) = if of_entropies { (&none, Some(&some[..])) } else { (&some, None) };
            let cotangents = Cotangents { logps, entropies };
            let (expected, gradients) = on_the_cpu(&config, &start, &rows, cotangents);
            let ready = Ready::new(machine::start(), dtype, &config, &start);
            let scores = ready.run(&rows, cotangents, OPTIONS);
            let (logp, entropy) =
                (apart(&scores.logps, &expected.logps), apart(&scores.entropies, &expected.entropies));
            let compared = if exact { relative } else { relative_by_projection };
            let differences = compared(&ready.read(), &gradients);
            let worst = largest(&differences);
            println!("{name}: log-probability {logp:.1e}, entropy {entropy:.1e}, gradient {worst:?}");
            assert!(logp < most && entropy < most && worst.1 < most, "{name}: {logp} {entropy} {worst:?}");
            let score = ready.decoder.score(&ready.weights, &rows, OPTIONS).unwrap();
            assert_eq!(score, scores, "{name}: with and without a tape");
        }
    }
}

/// Two groups with their prompts and a row alone; and the same rows, each with a prompt of its own.
fn groups() -> (Rows, Rows) {
    let (mut shared, mut apart) = (Rows::new(), Rows::new());
    let first: (&[u32], &[&[u32]]) = (&[3, 1, 4, 1, 5], &[&[9, 2, 6], &[5, 3]]);
    for (prompt, responses) in [first, (&[], &[&[8, 9, 7]]), (&[2, 3], &[&[8, 4], &[6, 2, 6, 4], &[3, 3]])] {
        shared.share(prompt);
        for response in responses {
            shared.push(response, 1);
            apart.push(&[prompt, response].concat(), prompt.len() + 1);
        }
    }
    (shared, apart)
}

#[test]
fn a_prompt_that_is_computed_once_gives_the_scores_and_gradients_of_rows_that_each_have_it() {
    for (name, config) in configs() {
        let (parameters, (shared, separate)) = (parameters(&config), groups());
        let (expected, gradients) = on_the_cpu(&config, &parameters, &separate, &slopes(&separate));
        let run = |recompute: bool| {
            let ready = Ready::new(machine::start(), Dtype::F32, &config, &parameters);
            let options = ForwardOptions { recompute, ..OPTIONS };
            let scores = ready.run(&shared, &slopes(&shared), options);
            assert_eq!(ready.decoder.score(&ready.weights, &shared, options).unwrap(), scores, "{name}");
            (scores, ready.read())
        };
        let (scores, found) = run(false);
        let (logp, differences) = (apart(&scores.logps, &expected.logps), relative(&found, &gradients));
        println!("{name}: log-probability {logp:.1e}, gradient {:?}", largest(&differences));
        assert!(logp < 1e-5 && largest(&differences).1 < 1e-5, "{name}: {logp} {differences:?}");
        assert!(run(true) == (scores, found), "{name}: layers computed again");
    }
}

#[test]
fn accumulated_gradients_of_parts_are_those_of_the_whole() {
    for shape in [0, 4] {
        let (name, config) = configs().remove(shape);
        let device = machine::start();
        let (parameters, rows) = (parameters(&config), rows());
        let ready = Ready::new(device, Dtype::F32, &config, &parameters);
        let whole = ready.run(&rows, &slopes(&rows), OPTIONS);
        let expected = ready.read();
        ready.gradients.clear().unwrap();
        let mut parts = Vec::new();
        for i in 0..rows.len() {
            let one = ready.run(&alone(&rows, i), &[slopes(&rows)[i].clone()], OPTIONS);
            parts.extend(one.logps);
        }
        let differences = relative(&ready.read(), &expected);
        let (worst, logp) = (largest(&differences), apart(&parts, &whole.logps));
        println!("{name}, alone against in a batch: log-probability {logp:.1e}, gradient {worst:?}");
        assert!(worst.1 < 2e-6, "{name}: {worst:?}");
        assert!(logp < 2e-6, "{name}: {logp}");
    }
}

#[test]
fn recomputing_layers_gives_the_same_bits_for_less_memory() {
    for (dtype, shape) in [(Dtype::F32, 2), (Dtype::Bf16, 2), (Dtype::F32, 5), (Dtype::Bf16, 5)] {
        let (_, config) = configs().remove(shape);
        let run = |recompute: bool| {
            let device = machine::start();
            let ready = Ready::new(device.clone(), dtype, &config, &parameters(&config));
            let scores = ready.run(&rows(), &slopes(&rows()), ForwardOptions { recompute, ..OPTIONS });
            (scores, ready.read(), device.ledger().peak().0)
        };
        let (kept, again) = (run(false), run(true));
        assert!(kept.0 == again.0 && kept.1 == again.1, "{dtype:?}");
        assert!(again.2 < kept.2, "{} bytes, {} with all kept", again.2, kept.2);
    }
}

#[test]
fn the_order_in_which_threads_run_changes_no_bit_of_a_step_and_a_step_repeats() {
    let models = [(Dtype::F32, 3), (Dtype::Bf16, 5), (Dtype::F32, 5), (Dtype::Bf16, 3)];
    for (dtype, shape) in models.into_iter().take(long::of(2, 4)) {
        let (_, config) = configs().remove(shape);
        let run = |order: Order| {
            let device = machine::ordered(order);
            let start = parameters(&config);
            let ready = Ready::new(device.clone(), dtype, &config, &start);
            let (kernels, weights) = (Kernels { device, dtype }, ready.weights.tensors());
            let mut optimiser = GpuAdamW::new(kernels, AdamWSettings::default(), weights, &start).unwrap();
            let scores = ready.run(&rows(), &slopes(&rows()), OPTIONS);
            let update = optimiser.step(1e-3, &ready.gradients, weights).unwrap();
            (scores, ready.read(), update, optimiser.to_bytes().unwrap(), weights.read().unwrap())
        };
        let first = run(Order::Forward);
        for order in [Order::Forward, Order::Reversed, Order::Shuffled(1), Order::Shuffled(2)] {
            assert!(run(order) == first, "{dtype:?}, {order:?}");
        }
    }
}

#[test]
fn rows_that_do_not_suit_the_model_are_refused_by_name_and_nothing_to_score_is_no_gradient() {
    let (_, config) = configs().remove(0);
    let device = machine::start();
    let ready = Ready::new(device, Dtype::F32, &config, &parameters(&config));
    let mut bad = rows();
    bad.push(&[1, 99], 1);
    let message = ready.decoder.score(&ready.weights, &bad, OPTIONS).unwrap_err().to_string();
    assert!(message.contains("row 5") && message.contains("99"), "{message}");
    let mut silent = Rows::new();
    silent.push(&[1, 2, 3], 3);
    for rows in [Rows::new(), silent] {
        let scores = ready.run(&rows, &slopes(&rows), OPTIONS);
        assert_eq!(scores.logps, vec![Vec::<f64>::new(); rows.len()]);
    }
    assert!(ready.read().values().flat_map(|t| &t.data).all(|x| *x == 0.0));
}

#[test]
fn the_dry_run_predicts_the_peak_of_a_step() {
    for (name, config) in configs() {
        for (dtype, n, len, recompute) in
            [(Dtype::F32, 2, 6, false), (Dtype::Bf16, 3, 9, true), (Dtype::Bf16, 1, 17, false)]
        {
            let device = machine::start();
            let dry = Arc::new(Dry::default());
            let rows = memory::rows(n, len);
            memory::step(device.clone(), &config, dtype, &rows, recompute, None);
            memory::step(dry.clone(), &config, dtype, &rows, recompute, None);
            assert_eq!(dry.ledger().peak(), machine::peak(&*device), "{name}, {n} rows of {len}");
            assert_eq!((dry.ledger().total(), machine::held(&*device)), (0, 0), "{name}: still held");
        }
    }
}
