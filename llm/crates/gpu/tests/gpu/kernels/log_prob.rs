//! Log-probabilities, entropies and their gradient.

use grpo_lambda_decoder::model::ops::log_prob::log_softmax;
use grpo_lambda_gpu::kernels::{LogProb, LogProbBackward};
use grpo_lambda_gpu::{Array, Real};

use super::{Harness, Shifted, bits, everywhere, numbers, wide};

/// Vocabularies and tokens.
const SIZES: [(usize, usize); 6] = [(1, 2), (7, 3), (50, 4), (1000, 3), (4097, 2), (32_003, 1)];

/// Log-probabilities of all tokens, by the CPU's function in `f64`.
fn reference(logits: &[f32], vocabulary: usize, inverse_temperature: f32) -> Vec<f64> {
    let mut out = wide(logits);
    log_softmax(&mut out, vocabulary, f64::from(inverse_temperature));
    out
}

fn entropy(log_probs: &[f64]) -> f64 {
    -log_probs.iter().map(|l| if *l > f64::NEG_INFINITY { l.exp() * l } else { 0.0 }).sum::<f64>()
}

fn logits(vocabulary: usize, tokens: usize) -> Vec<f32> {
    let mut logits: Vec<f32> = numbers(1, vocabulary * tokens).iter().map(|x| 4.0 * x).collect();
    if vocabulary > 1 {
        logits[vocabulary - 1] = f32::NEG_INFINITY;
    }
    logits
}

/// Logits of some tokens, on the device.
struct Batch {
    logits: Array<f32>,
    targets: Array<u32>,
    saved: Array<f32>,
    vocabulary: u32,
    inverse_temperature: f32,
}

impl Batch {
    fn new(b: &Harness, logits: &[f32], targets: &[u32], inverse_temperature: f32) -> Self {
        let vocabulary = (logits.len() / targets.len()) as u32;
        let saved = b.raw_blank(4 * targets.len());
        Batch { logits: b.raw(logits), targets: b.raw(targets), saved, vocabulary, inverse_temperature }
    }

    fn forward(&self, b: &Harness, entropy: bool) -> Vec<f32> {
        b.k.launch(LogProb {
            logits: self.logits.ptr(),
            targets: self.targets.ptr(),
            out: self.saved.ptr_mut(),
            tokens: self.targets.len() as u32,
            vocabulary: self.vocabulary,
            inverse_temperature: self.inverse_temperature,
            entropy,
        })
        .unwrap();
        b.get_raw(&self.saved)
    }

    /// After [`Batch::forward`].
    fn backward(&self, b: &Harness, slopes: &[f32]) -> Vec<f32> {
        let slopes = b.raw(slopes);
        let out: Shifted<Real> = b.blank(self.logits.len());
        b.k.launch(LogProbBackward {
            logits: self.logits.ptr(),
            targets: self.targets.ptr(),
            saved: self.saved.ptr(),
            slopes: slopes.ptr(),
            dlogits: out.ptr_mut(),
            tokens: self.targets.len() as u32,
            vocabulary: self.vocabulary,
            inverse_temperature: self.inverse_temperature,
        })
        .unwrap();
        b.get(&out)
    }
}

#[test]
fn log_probabilities_and_entropies_agree_with_the_cpu() {
    everywhere(|b| {
        for (vocabulary, tokens) in SIZES {
            for temperature in [1.0f32, 0.6, 1.7] {
                let it = 1.0 / temperature;
                let logits = logits(vocabulary, tokens);
                let targets: Vec<u32> = (0..tokens).map(|t| ((t * 977 + 3) % vocabulary) as u32).collect();
                let all = reference(&logits, vocabulary, it);
                let batch = Batch::new(b, &logits, &targets, it);
                let (got, without) = (batch.forward(b, true), batch.forward(b, false));
                for t in 0..tokens {
                    let row = &all[t * vocabulary..][..vocabulary];
                    let want = row[targets[t] as usize];
                    b.close_raw("log_prob", &got[4 * t..][..1], &[want], |_| want.abs().max(1.0), 4e-7);
                    let want = entropy(row);
                    b.close_raw("log_prob entropy", &got[4 * t + 1..][..1], &[want], |_| want.max(1.0), 1e-6);
                    assert_eq!(without[4 * t + 1], 0.0);
                    assert_eq!([0, 2, 3].map(|i| got[4 * t + i]), [0, 2, 3].map(|i| without[4 * t + i]));
                }
            }
        }
    });
}

#[test]
fn gradients_of_logits_agree_with_the_equation() {
    everywhere(|b| {
        for (vocabulary, tokens) in SIZES {
            let it = 1.0 / 0.8f32;
            let logits = logits(vocabulary, tokens);
            let targets: Vec<u32> = (0..tokens).map(|t| ((t * 977 + 3) % vocabulary) as u32).collect();
            let mut slopes = numbers(2, tokens);
            slopes[tokens - 1] = 0.0;
            let all = reference(&logits, vocabulary, it);
            let want: Vec<f64> = (0..tokens * vocabulary)
                .map(|i| {
                    let (t, j) = (i / vocabulary, i % vocabulary);
                    let hit = f64::from(u8::from(targets[t] as usize == j));
                    f64::from(slopes[t]) * (hit - all[i].exp()) * f64::from(it)
                })
                .collect();
            let batch = Batch::new(b, &logits, &targets, it);
            batch.forward(b, false);
            let got = batch.backward(b, &slopes);
            // Relative to the probability, up to the rounding of its logarithm.
            let scale = |i: usize| {
                want[i].abs() + if targets[i / vocabulary] as usize == i % vocabulary { 1.0 } else { 1e-30 }
            };
            b.close("log_prob_backward", &got, &want, scale, 4e-6);
        }
    });
}

#[test]
fn a_nan_or_infinite_logit_spoils_its_token_and_no_other() {
    everywhere(|b| {
        for bad in [f32::NAN, f32::INFINITY] {
            let mut logits = numbers(3, 3 * 50);
            logits[60] = bad;
            let batch = Batch::new(b, &logits, &[1, 2, 3], 1.0);
            let got = batch.forward(b, true);
            assert_eq!([0, 1, 4, 5, 8, 9].map(|i| got[i].is_nan()), [false, false, true, true, false, false]);
            let bad = |x: &[f32]| x.iter().filter(|x| x.is_nan()).count();
            let gradient = batch.backward(b, &[1.0; 3]);
            assert_eq!(gradient.chunks_exact(50).map(bad).collect::<Vec<_>>(), [0, 50, 0]);
        }
    });
}

#[test]
fn a_common_constant_and_large_logits_change_nothing_but_rounding() {
    everywhere(|b| {
        let logits: Vec<f32> = numbers(4, 1000).iter().map(|x| (x * 8.0).round() / 2.0).collect();
        let run = |shift: f32| {
            let x: Vec<f32> = logits.iter().map(|x| x + shift).collect();
            Batch::new(b, &x, &[17], 1.0).forward(b, true)
        };
        // Halves are held exactly at these sizes, so nothing is rounded away.
        for shift in [64.0, -4096.0, 1e6] {
            let (a, c) = (run(0.0), run(shift));
            assert_eq!((bits(&a[..2]), a[3].to_bits()), (bits(&c[..2]), c[3].to_bits()));
            assert_eq!(c[2], a[2] + shift);
        }
    });
}
