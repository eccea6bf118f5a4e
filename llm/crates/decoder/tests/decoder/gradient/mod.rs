//! The hand-written backward passes against finite differences, in double precision, and which parameters they reach.

mod cases;

use crate::long;
use cases::{TEMPERATURE, configs, parameters, rows, slopes};
use grpo_lambda_decoder::model::config::EMBEDDING;
use grpo_lambda_decoder::model::{Cotangents, Decoder, ForwardOptions, Gradients, weights};

/// Sum of log-probabilities weighted by the slopes: what the backward pass differentiates. With entropies these are weighted by them as well.
fn objective(decoder: &Decoder<f64>, entropy: bool) -> f64 {
    let scores = decoder.score(&rows(), ForwardOptions { entropy, ..TEMPERATURE }).unwrap();
    let slopes = slopes(&scores.logps);
    let weighted =
        |x: &[Vec<f64>]| x.iter().flatten().zip(slopes.iter().flatten()).map(|(x, s)| x * s).sum::<f64>();
    weighted(&scores.logps) + weighted(&scores.entropies)
}

/// The gradients of [`objective`] with entropies.
fn gradients_with_entropy(decoder: &Decoder<f64>) -> weights::Parameters<f64> {
    let mut gradients = Gradients::new(decoder.config(), |_| true);
    let (scores, tape) = decoder.forward(&rows(), ForwardOptions { entropy: true, ..TEMPERATURE }).unwrap();
    let slopes = slopes(&scores.logps);
    decoder.backward(tape, Cotangents { logps: &slopes, entropies: Some(&slopes) }, &mut gradients);
    gradients.parameters().clone()
}

#[test]
#[should_panic = "the forward pass computed no entropies"]
fn entropies_that_were_not_computed_have_no_gradient() {
    let config = configs().swap_remove(0);
    let decoder = Decoder::new(config.clone(), parameters(&config)).unwrap();
    let (scores, tape) = decoder.forward(&rows(), TEMPERATURE).unwrap();
    let slopes = slopes(&scores.logps);
    let cotangents = Cotangents { logps: &slopes, entropies: Some(&slopes) };
    decoder.backward(tape, cotangents, &mut Gradients::new(&config, |_| true));
}

fn gradients(decoder: &Decoder<f64>, trained: impl Fn(&str) -> bool) -> weights::Parameters<f64> {
    let mut gradients = Gradients::new(decoder.config(), trained);
    let (scores, tape) = decoder.forward(&rows(), TEMPERATURE).unwrap();
    decoder.backward(tape, &slopes(&scores.logps), &mut gradients);
    gradients.parameters().clone()
}

#[test]
fn every_gradient_agrees_with_central_differences_in_double_precision() {
    agree_with_central_differences(&|decoder| gradients(decoder, |_| true), false);
}

#[test]
fn every_gradient_of_the_entropies_agrees_with_central_differences_in_double_precision() {
    agree_with_central_differences(&gradients_with_entropy, true);
}

fn agree_with_central_differences(
    gradients: &dyn Fn(&Decoder<f64>) -> weights::Parameters<f64>,
    entropy: bool,
) {
    const STEP: f64 = 1e-4;
    let every = long::of(if entropy { 7 } else { 3 }, 1);
    for config in configs() {
        let mut decoder = Decoder::new(config.clone(), parameters(&config)).unwrap();
        let gradients = gradients(&decoder);
        let mut worst: f64 = 0.0;
        let mut checked = 0;
        for (name, gradient) in &gradients {
            for i in (0..gradient.data.len()).step_by(every) {
                let mut at = |shift: f64| {
                    decoder.update(|p| p.get_mut(name).unwrap().data[i] += shift);
                    objective(&decoder, entropy)
                };
                // fourth order: (8 (f(h) - f(-h)) - (f(2h) - f(-2h))) / 12 h
                let (a, b, c, d) = (at(STEP), at(STEP), at(-3.0 * STEP), at(-STEP));
                at(2.0 * STEP);
                let difference = (8.0 * (a - c) - (b - d)) / (12.0 * STEP);
                let error = (difference - gradient.data[i]).abs() / gradient.data[i].abs().max(1.0);
                assert!(error < 1e-8, "{name}[{i}]: {} for {difference}", gradient.data[i]);
                worst = worst.max(error);
                checked += 1;
            }
        }
        println!("{:?}: {checked} parameters, worst {worst:.1e}", config.architecture);
    }
}

/// A function of the logits of [`rows`] that is neither linear nor symmetric in them, with its derivative by each.
fn of_logits(logits: &[f64]) -> (f64, Vec<f64>) {
    let weight = |i: usize| ((i * 5) % 11) as f64 / 4.0 - 1.0;
    let value = logits.iter().enumerate().map(|(i, z)| weight(i) * (0.3 * z).sin()).sum();
    (value, logits.iter().enumerate().map(|(i, z)| weight(i) * 0.3 * (0.3 * z).cos()).collect())
}

#[test]
fn the_gradient_in_the_input_embeddings_agrees_with_central_differences() {
    const STEP: f64 = 1e-4;
    for config in configs() {
        let decoder = Decoder::new(config.clone(), parameters(&config)).unwrap();
        let rows = rows();
        let mut shift: Vec<f64> = (0..rows.tokens().len() * config.hidden_size)
            .map(|i| ((i * 3) % 7) as f64 / 20.0 - 0.15)
            .collect();
        let gradient = |recompute: bool| {
            decoder.embedding_gradient(&rows, Some(&shift), recompute, |z| of_logits(z).1).unwrap()
        };
        let found = gradient(false);
        assert!(found == gradient(true), "computing layers again changes bits");
        for i in 0..shift.len() {
            let mut at = |step: f64| {
                let own = shift[i];
                shift[i] = own + step;
                let value = of_logits(&decoder.target_logits(&rows, Some(&shift)).unwrap()).0;
                shift[i] = own;
                value
            };
            let difference =
                (8.0 * (at(STEP) - at(-STEP)) - (at(2.0 * STEP) - at(-2.0 * STEP))) / (12.0 * STEP);
            let error = (difference - found[i]).abs() / found[i].abs().max(1.0);
            assert!(error < 1e-8, "{i}: {} for {difference}", found[i]);
        }
        // Row 3 scores nothing; neither do the last tokens of the others, which predict nothing.
        let h = config.hidden_size;
        let at = |token: usize| &found[token * h..(token + 1) * h];
        assert!([6, 8, 13, 14, 15, 16].iter().all(|&t| at(t).iter().all(|g| *g == 0.0)));
        assert!((0..6).all(|t| at(t).iter().any(|g| g.abs() > 1e-6)));
    }
}

#[test]
fn the_gradient_of_log_probs_in_the_embedding_matrix_is_the_sum_of_those_in_its_uses() {
    for config in configs().into_iter().filter(|c| !c.tie_word_embeddings) {
        let decoder = Decoder::new(config.clone(), parameters(&config)).unwrap();
        let expected = &gradients(&decoder, |name| name == EMBEDDING)[EMBEDDING];
        let rows = rows();
        let (h, v) = (config.hidden_size, config.vocab_size);
        let scores = decoder.score(&rows, TEMPERATURE).unwrap();
        let slopes: Vec<f64> = slopes(&scores.logps).into_iter().flatten().collect();
        let targets: Vec<u32> = (0..rows.len())
            .flat_map(|i| {
                rows.tokens()[rows.offsets()[i + 1] - rows.scored(i)..rows.offsets()[i + 1]].to_vec()
            })
            .collect();
        let slope = |logits: &[f64]| {
            let mut d = Vec::new();
            for ((z, target), slope) in logits.chunks(v).zip(&targets).zip(&slopes) {
                let z: Vec<f64> = z.iter().map(|z| z / TEMPERATURE.temperature).collect();
                let sum: f64 = z.iter().map(|z| z.exp()).sum();
                let one = |j: usize| f64::from(j == *target as usize) - z[j].exp() / sum;
                d.extend((0..v).map(|j| slope * one(j) / TEMPERATURE.temperature));
            }
            d
        };
        let found = decoder.embedding_gradient(&rows, None, false, slope).unwrap();
        let mut summed = vec![0.0; v * h];
        for (d, &token) in found.chunks(h).zip(rows.tokens()) {
            summed[token as usize * h..][..h].iter_mut().zip(d).for_each(|(s, d)| *s += d);
        }
        let same = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-11;
        assert!(summed.iter().zip(&expected.data).all(same));
    }
}

#[test]
fn every_parameter_by_name_receives_a_gradient() {
    for config in configs() {
        let decoder = Decoder::new(config.clone(), parameters(&config)).unwrap();
        let gradients = gradients(&decoder, |_| true);
        let names: Vec<_> = config.parameter_shapes().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, gradients.keys().cloned().collect::<Vec<_>>());
        for (name, gradient) in &gradients {
            assert_eq!(gradient.shape, decoder.parameters()[name].shape);
            assert!(gradient.data.iter().any(|&g| g.abs() > 1e-6), "{name} receives nothing");
        }
    }
}

#[test]
fn a_frozen_parameter_has_no_gradient_and_leaves_the_others_as_they_were() {
    for config in configs() {
        let decoder = Decoder::new(config.clone(), parameters(&config)).unwrap();
        let all = gradients(&decoder, |_| true);
        let choices: [&dyn Fn(&str) -> bool; 6] = [
            &|name| name.contains("layers.1."),
            &|name| name.contains("layers.0.self_attn.k_proj"),
            &|name| name == EMBEDDING,
            &|name| name == "model.norm.weight",
            &|name| name.contains("bias") || name.contains("layernorm"),
            &|name| name.contains("layers.0.self_attn.q_norm") || name.contains("layers.1.self_attn.k_norm"),
        ];
        for trained in choices {
            let some = gradients(&decoder, trained);
            assert!(some.keys().all(|name| trained(name)));
            assert_eq!(some.len(), all.keys().filter(|name| trained(name)).count());
            for (name, gradient) in &some {
                assert!(all[name] == *gradient, "{name}");
            }
        }
    }
}

#[test]
fn entropies_and_log_probs_are_those_of_the_logits() {
    let config = &configs()[1];
    let decoder = Decoder::new(config.clone(), parameters(config)).unwrap();
    let options = ForwardOptions { entropy: true, ..TEMPERATURE };
    let (rows, v) = (rows(), config.vocab_size);
    let scores = decoder.score(&rows, options).unwrap();
    let logits = decoder.logits(&rows).unwrap();
    for i in 0..rows.len() {
        let (start, end) = (rows.offsets()[i], rows.offsets()[i + 1]);
        for (s, at) in (end - rows.scored(i)..end).enumerate() {
            assert!(at > start);
            let z: Vec<f64> = logits[(at - 1) * v..at * v].iter().map(|l| l / options.temperature).collect();
            let log_sum = z.iter().map(|z| z.exp()).sum::<f64>().ln();
            let entropy: f64 = -z.iter().map(|z| (z - log_sum).exp() * (z - log_sum)).sum::<f64>();
            assert!((scores.logps[i][s] - (z[rows.tokens()[at] as usize] - log_sum)).abs() < 1e-12);
            assert!((scores.entropies[i][s] - entropy).abs() < 1e-12);
        }
    }
}
