//! Rows that share prefixes against the same rows that each have theirs.

use grpo_lambda_decoder::model::ops::Real;
use grpo_lambda_decoder::model::weights::{Parameters, Tensor};
use grpo_lambda_decoder::model::{
    Architecture::{self, Olmo2, Qwen2, Qwen3},
    Decoder, ForwardOptions, Gradients, ModelConfig, ModelShape, Rows, weights,
};

use crate::parity::relative_distance;

/// Two groups whose prompts are longer than a page of keys and shorter, a row alone, and a group with the first prompt once more.
fn groups() -> Vec<(Vec<u32>, Vec<Vec<u32>>)> {
    let tokens = |n: u32, seed: u32| (0..n).map(|t| (t * t + 7 * seed + t) % 37).collect::<Vec<u32>>();
    vec![
        (tokens(41, 1), vec![tokens(9, 2), tokens(3, 3), tokens(50, 4)]),
        (vec![], vec![tokens(12, 5)]),
        (tokens(5, 6), vec![tokens(7, 7), tokens(2, 8)]),
        (tokens(41, 1), vec![tokens(4, 9)]),
    ]
}

/// The rows of some groups, of which the first token is not scored.
fn rows(groups: &[(Vec<u32>, Vec<Vec<u32>>)], share: bool) -> Rows {
    let mut rows = Rows::new();
    for (prompt, responses) in groups {
        if share {
            rows.share(prompt);
        }
        for response in responses {
            match share {
                true => rows.push(response, 1),
                false => rows.push(&[&prompt[..], response].concat(), prompt.len() + 1),
            }
        }
    }
    rows
}

fn models() -> Vec<ModelConfig> {
    let shape = ModelShape { vocab: 37, hidden: 24, layers: 2, heads: 6, kv_heads: 2 };
    let tied = ModelConfig { intermediate_size: 40, ..Qwen2.config(shape) };
    let untied = |family: Architecture| ModelConfig {
        tie_word_embeddings: false,
        head_dim: 6,
        ..family.config(ModelShape { layers: 3, ..shape })
    };
    vec![tied, untied(Qwen3), untied(Olmo2)]
}

fn decoder<T: Real>(config: &ModelConfig) -> Decoder<T> {
    let tensor = |t: Tensor<f32>| {
        let data = t.data.iter().map(|x| T::from_f64(f64::from(*x))).collect();
        Tensor { shape: t.shape, data }
    };
    let parameters = weights::initialise(config, 5, 0.3);
    let parameters = parameters.into_iter().map(|(name, t)| (name, tensor(t))).collect();
    Decoder::new(config.clone(), parameters).expect("it fits")
}

fn slopes(rows: &Rows) -> Vec<Vec<f64>> {
    // By the last token and the length of a row, not by its place.
    let of_row = |i: usize| {
        let last = rows.tokens()[rows.offsets()[i + 1] - 1] as usize;
        (0..rows.scored(i)).map(|t| ((last * 5 + t * 3) % 7) as f64 / 3.0 - 0.9).collect()
    };
    (0..rows.len()).map(of_row).collect()
}

const OPTIONS: ForwardOptions = ForwardOptions { temperature: 0.7, entropy: true, recompute: false };

/// The gradient of batches of rows, one after the other.
fn gradient<T: Real>(
    model: &Decoder<T>,
    batches: &[Rows],
    options: ForwardOptions,
    trained: impl Fn(&str) -> bool,
) -> Parameters<T> {
    let mut gradients = Gradients::new(model.config(), trained);
    for rows in batches {
        let (_, tape) = model.forward(rows, options).expect("they fit");
        model.backward(tape, &slopes(rows), &mut gradients);
    }
    model.complete(&mut gradients, options.recompute);
    gradients.parameters().clone()
}

#[test]
fn scores_have_the_bits_of_rows_that_each_have_their_prefix() {
    for config in models() {
        let model = decoder::<f32>(&config);
        let (shared, apart) = (rows(&groups(), true), rows(&groups(), false));
        let expected = model.score(&apart, OPTIONS).expect("they fit");
        assert_eq!(model.score(&shared, OPTIONS).expect("they fit"), expected);
        assert_eq!(model.forward(&shared, OPTIONS).expect("they fit").0, expected);
        assert!(shared.computed() < apart.computed());
    }
}

#[test]
fn the_gradient_is_that_of_rows_that_each_have_their_prefix() {
    for config in models() {
        let model = decoder::<f64>(&config);
        let [shared, apart] =
            [true, false].map(|share| gradient(&model, &[rows(&groups(), share)], OPTIONS, |_| true));
        for (name, expected) in &apart {
            let distance = relative_distance(shared[name].data.iter().copied(), &expected.data);
            assert!(distance < 1e-12, "{name}: {distance:e}");
        }
    }
}

/// However rows are cut into passes, down to rows of which none shares anything with another of its pass.
#[test]
fn the_gradient_has_the_same_bits_however_rows_are_cut_into_passes_and_with_any_number_of_threads() {
    for config in models() {
        let model = decoder::<f32>(&config);
        let each: Vec<_> = groups()
            .into_iter()
            .flat_map(|(prompt, responses)| responses.into_iter().map(move |r| (prompt.clone(), vec![r])))
            .collect();
        let cut = |size: usize| each.chunks(size).map(|part| rows(part, true)).collect::<Vec<_>>();
        let last: fn(&str) -> bool = |name| name.starts_with("model.layers.1.");
        for trained in [|_: &str| true, last] {
            let expected = gradient(&model, &[rows(&groups(), true)], OPTIONS, trained);
            assert!(!expected.is_empty() && expected.values().flat_map(|t| &t.data).any(|x| *x != 0.0));
            for size in [1, 2, 3, 5] {
                assert!(gradient(&model, &cut(size), OPTIONS, trained) == expected, "passes of {size} rows");
            }
            let recomputed = ForwardOptions { recompute: true, ..OPTIONS };
            assert!(gradient(&model, &cut(2), recomputed, trained) == expected, "recomputed layers");
            let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread");
            let serial = one.install(|| gradient(&model, &[rows(&groups(), true)], OPTIONS, trained));
            assert!(serial == expected, "one thread");
        }
    }
}

#[test]
#[should_panic(expected = "the gradient of shared prefixes is not complete")]
fn a_gradient_that_is_not_complete_is_not_given_away() {
    let model = decoder::<f32>(&models()[0]);
    let shared = rows(&groups(), true);
    let mut gradients = Gradients::new(model.config(), |_| true);
    let (_, tape) = model.forward(&shared, OPTIONS).expect("they fit");
    model.backward(tape, &slopes(&shared), &mut gradients);
    gradients.parameters();
}
