//! Scores and gradients in double precision, layer by layer and as one graph, against the CPU's decoder.

use candle_core::{DType, Device, Tensor, Var};
use grpo_lambda_candle::attention::{Attention, Sequence};
use grpo_lambda_candle::model::Model;
use grpo_lambda_candle::ops::Rotations;
use grpo_lambda_candle::pass::{self, Batch, Slopes};
use grpo_lambda_candle::{ops, product};
use grpo_lambda_decoder::model::config::Architecture::Qwen3;
use grpo_lambda_decoder::model::ops::attention::Heads;
use grpo_lambda_decoder::model::ops::rope;
use grpo_lambda_decoder::model::weights::{self, Parameters};
use grpo_lambda_decoder::model::{
    Cotangents, Decoder, ForwardOptions, Gradients, ModelConfig, ModelShape, Rows,
};

use crate::cases::{TEMPERATURE, configs, parameters, rows, slopes};

/// [`configs`], and a shape of which no width fills the vectors, blocks and panels that the CPU computes with.
fn every_config() -> Vec<ModelConfig> {
    let shape = ModelShape { vocab: 50, hidden: 20, layers: 1, heads: 4, kv_heads: 2 };
    let ragged = ModelConfig { intermediate_size: 19, head_dim: 6, ..Qwen3.config(shape) };
    [configs(), vec![ragged]].concat()
}

/// Rows that continue two prefixes, between rows of their own, of which one is longer than the CPU's blocks of queries and of keys.
fn shared() -> Rows {
    let mut all = rows();
    all.share(&[7, 8, 9, 1, 0, 3]);
    all.push(&[3, 4, 5], 1);
    all.push(&[10, 2, 2, 6, 7], 2);
    all.share(&[6]);
    all.push(&[1, 1], 1);
    all.push(&(0..70).map(|t| (t * t * 5 + t) % 11).collect::<Vec<u32>>(), 40);
    all
}

fn numbers(tensor: &Tensor) -> Vec<f64> {
    tensor.flatten_all().unwrap().to_vec1().unwrap()
}

fn model(config: &ModelConfig, parameters: &Parameters<f64>) -> Model {
    Model::new(config, parameters, DType::F64, &Device::Cpu).unwrap()
}

#[test]
fn scores_entropies_and_every_gradient_by_name_are_the_cpu_s() {
    let options = ForwardOptions { entropy: true, ..TEMPERATURE };
    for (config, rows, of_entropy) in
        every_config().into_iter().flat_map(|c| [(c.clone(), rows(), true), (c, shared(), false)])
    {
        let parameters = parameters(&config);
        let decoder = Decoder::new(config.clone(), parameters.clone()).unwrap();
        let (expected, tape) = decoder.forward(&rows, options).unwrap();
        let slopes = slopes(&expected.logps);
        let cotangents = Cotangents { logps: &slopes, entropies: of_entropy.then_some(&slopes[..]) };
        let mut gradients = Gradients::new(&config, |_| true);
        decoder.backward(tape, cotangents, &mut gradients);
        decoder.complete(&mut gradients, false);

        let model = model(&config, &parameters);
        let (scores, tape) = pass::forward(&model, &rows, options).unwrap();
        assert_eq!(pass::score(&model, &rows, options).unwrap(), scores);
        let flat = |rows: &[Vec<f64>]| rows.concat();
        for (a, b) in [(&scores.logps, &expected.logps), (&scores.entropies, &expected.entropies)] {
            assert!(a.iter().map(Vec::len).eq(b.iter().map(Vec::len)));
            assert!(flat(a).iter().zip(flat(b)).all(|(a, b)| (a - b).abs() < 1e-12));
        }
        let mut found = Slopes::new();
        pass::backward(&model, tape, cotangents, &|_| true, &mut found).unwrap();
        let expected = gradients.parameters();
        assert!(found.keys().eq(expected.keys()));
        for (name, expected) in expected {
            assert_eq!(found[name].dims(), expected.shape);
            for (a, b) in numbers(&found[name]).iter().zip(&expected.data) {
                assert!((a - b).abs() < 1e-10, "{:?}, {name}: {a} for {b}", config.architecture);
            }
        }
    }
}

/// One graph of everything, which candle differentiates: it knows nothing of recomputed layers and of a head by hand.
#[test]
fn a_layer_at_a_time_gives_the_gradients_of_one_graph_and_those_alone_that_are_trained() {
    for config in configs() {
        let (parameters, rows) = (parameters(&config), shared());
        let model = model(&config, &parameters);
        let (scores, tape) = pass::forward(&model, &rows, TEMPERATURE).unwrap();
        let slopes = slopes(&scores.logps);
        let (whole, variables) = model.tracking(|_| true).unwrap();
        let batch = Batch::new(&whole, &rows).unwrap();
        let hidden = batch.hidden(&whole, &batch.stream(&whole).unwrap()).unwrap().unwrap();
        let head = whole.get(weights::head_name(&config)).unwrap();
        let targets = Tensor::new(batch.targets(), &Device::Cpu).unwrap().unsqueeze(1).unwrap();
        let logps = ops::log_probs(&hidden, head, TEMPERATURE.temperature).unwrap();
        let logps = logps.gather(&targets, 1).unwrap().squeeze(1).unwrap();
        let sum = (logps * Tensor::new(slopes.concat(), &Device::Cpu).unwrap()).unwrap().sum_all().unwrap();
        let store = sum.backward().unwrap();
        let mut found = Slopes::new();
        pass::backward(&model, tape, &slopes, &|_| true, &mut found).unwrap();
        for (name, variable) in &variables {
            for (a, b) in numbers(&found[name]).iter().zip(numbers(store.get(variable).unwrap())) {
                assert!((a - b).abs() < 1e-11, "{name}: {a} for {b}");
            }
        }
        let trained = |name: &str| name.contains("layers.1.") && name.contains("norm");
        let (_, tape) = pass::forward(&model, &rows, TEMPERATURE).unwrap();
        let mut some = Slopes::new();
        pass::backward(&model, tape, &slopes, &trained, &mut some).unwrap();
        assert!(some.keys().eq(found.keys().filter(|name| trained(name))));
        assert!(some.iter().all(|(name, slope)| numbers(slope) == numbers(&found[name])));
    }
}

/// Queries that are computed a few at a time, and positions whose angles have turned often.
#[test]
fn attention_in_pieces_and_rotations_far_away() {
    let (heads, tokens) = (Heads { query: 4, key: 2, dim: 6 }, 43);
    let sequence = |tokens, prefix| Sequence { tokens, prefix };
    let sequences = [sequence(0..5, 0..0), sequence(5..6, 0..5), sequence(6..tokens, 0..5)];
    let x = |i: usize| ((i * 7919) % 1009) as f64 / 400.0 - 1.26;
    let numbers_of = |n: usize| (0..n).map(x).collect::<Vec<f64>>();
    let qkv =
        Var::from_vec(numbers_of(tokens * heads.stride()), (tokens, heads.stride()), &Device::Cpu).unwrap();
    let [whole, parts] = [1 << 20, 300].map(|most| {
        let out =
            Attention::new(heads, &sequences, most, DType::F64, &Device::Cpu).unwrap().run(&qkv).unwrap();
        let slopes = Tensor::from_vec(numbers_of(out.elem_count()), out.shape(), &Device::Cpu).unwrap();
        let store = (&out * slopes).unwrap().sum_all().unwrap().backward().unwrap();
        [numbers(&out), numbers(store.get(&qkv).unwrap())].concat()
    });
    assert!(whole.iter().zip(&parts).all(|(a, b)| (a - b).abs() < 1e-12));

    let (positions, frequencies) = ([0, 1, 2, 900, 30_000], [1.0, 0.1, 0.01]);
    let mut rotated = numbers_of(5 * heads.stride());
    let before = Tensor::from_vec(rotated.clone(), (5, heads.stride()), &Device::Cpu).unwrap();
    let rotations = Rotations::new(&positions, &frequencies, DType::F64, &Device::Cpu).unwrap();
    let table = rope::Table::new(&frequencies, 30_001);
    rope::rotate(&mut rotated, heads.stride(), heads.rotated(), &positions, &table, false);
    let plain = numbers(&ops::rotate(&before, heads, &rotations).unwrap());
    assert!(plain.iter().zip(&rotated).all(|(a, b)| (a - b).abs() < 1e-12));
}

/// What candle's CPU computes and its CUDA backend refuses, or would count wrongly.
#[test]
fn a_product_that_a_card_would_refuse_is_refused_here() {
    let zeros = |shape: &[usize]| Tensor::zeros(shape, DType::F32, &Device::Cpu).unwrap();
    let (x, y) = (zeros(&[4, 6]), zeros(&[3, 5]));
    assert_eq!(
        product::product(&x.t().unwrap().contiguous().unwrap(), &zeros(&[4, 2])).unwrap().dims(),
        [6, 2]
    );
    assert!(product::product(&x.t().unwrap(), &zeros(&[4, 2])).is_ok());
    let part = x.narrow(1, 0, 3).unwrap();
    assert!(part.matmul(&y).is_ok());
    assert!(
        product::product(&part, &y).unwrap_err().to_string().contains("strides of a product: 4 x 3 [6, 1]")
    );
    // A slope with such strides is refused in the backward pass as well.
    let weight = candle_core::Var::from_tensor(&y).unwrap();
    let out = product::product(&part.contiguous().unwrap(), &weight).unwrap();
    assert!((out * 2.0).unwrap().sum_all().unwrap().backward().is_ok());
    let heads = zeros(&[2, 3, 4, 5]).transpose(0, 1).unwrap();
    assert!(product::product(&heads, &zeros(&[3, 2, 5, 1])).unwrap_err().to_string().contains("strides"));
    let tall = Tensor::zeros((1 << 16, 1), DType::F32, &Device::Cpu).unwrap();
    let refused = product::product(&tall, &tall.t().unwrap()).unwrap_err().to_string();
    assert!(refused.contains("more than candle can count"), "{refused}");
}

#[test]
fn no_product_goes_past_the_check() {
    let sources = [
        include_str!("../../src/attention.rs"),
        include_str!("../../src/decode.rs"),
        include_str!("../../src/engine.rs"),
        include_str!("../../src/model.rs"),
        include_str!("../../src/ops.rs"),
        include_str!("../../src/pass.rs"),
    ];
    assert!(sources.iter().all(|text| !text.contains("matmul")));
}

#[test]
fn a_second_opinion_is_the_cpu_s_decoder_in_double_precision() {
    for config in configs() {
        let narrow: Parameters<f32> = weights::cast(&parameters(&config));
        let decoder = Decoder::new(config.clone(), narrow.clone()).unwrap();
        let (scores, tape) = decoder.forward(&rows(), TEMPERATURE).unwrap();
        let slopes = slopes(&scores.logps);
        let mut gradients = Gradients::new(&config, |_| true);
        decoder.backward(tape, &slopes, &mut gradients);
        let (found, sums) =
            pass::in_double_precision(&config, &narrow, &rows(), TEMPERATURE, (&slopes).into()).unwrap();
        let near = |a: f64, b: f64| (a - b).abs() < 1e-4 * b.abs().max(1.0);
        let pairs = found.logps.iter().flatten().zip(scores.logps.iter().flatten());
        assert!(pairs.clone().count() > 0 && pairs.clone().all(|(a, b)| near(*a, *b)));
        assert_eq!(sums.len(), gradients.parameters().len());
        for (name, sum) in &sums {
            let expected = &gradients.parameters()[name];
            assert_eq!(sum.shape, expected.shape);
            let pairs = sum.data.iter().zip(&expected.data);
            assert!(pairs.clone().all(|(a, b)| near(f64::from(*a), f64::from(*b))), "{name}");
        }
    }
    let other = weights::initialise(&configs()[0], 1, 0.1);
    let nothing: &[Vec<f64>] = &[];
    let refused = pass::in_double_precision(&configs()[1], &other, &rows(), TEMPERATURE, nothing.into());
    assert!(refused.is_err());
}

#[test]
fn a_token_without_probability_has_no_part_in_the_entropy() {
    let log_p = Tensor::new(&[0.5f64.ln(), f64::NEG_INFINITY, 0.0], &Device::Cpu).unwrap();
    assert_eq!(numbers(&ops::p_log_p(&log_p).unwrap()), [0.5 * 0.5f64.ln(), 0.0, 0.0]);
}
