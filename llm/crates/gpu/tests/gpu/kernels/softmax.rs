//! Causal softmax of attention scores.

use grpo_lambda_gpu::kernels::{Softmax, SoftmaxBackward};

use super::{everywhere, numbers};

/// Of lines of `len` scores: probabilities of the visible keys, 0 beyond.
fn reference(scores: &[f32], len: usize, scale: f32) -> Vec<f64> {
    let mut out = vec![0.0; scores.len()];
    for (i, (line, out)) in scores.chunks_exact(len).zip(out.chunks_exact_mut(len)).enumerate() {
        let seen = i % len + 1;
        let z: Vec<f64> = line[..seen].iter().map(|x| f64::from(*x) * f64::from(scale)).collect();
        let top = z.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = z.iter().map(|z| (z - top).exp()).sum();
        for (p, z) in out.iter_mut().zip(z) {
            *p = (z - top).exp() / sum;
        }
    }
    out
}

/// Lengths, and how many heads' lines.
const SIZES: [(usize, usize); 7] = [(1, 3), (2, 2), (7, 3), (33, 2), (64, 1), (130, 1), (515, 1)];

#[test]
fn probabilities_are_those_of_the_keys_a_query_sees() {
    everywhere(|b| {
        for (len, heads) in SIZES {
            for scale in [0.125f32, 3.0] {
                let mut scores: Vec<f32> = numbers(1, heads * len * len).iter().map(|x| 5.0 * x).collect();
                for (i, line) in scores.chunks_exact_mut(len).enumerate() {
                    // What is not seen may be anything.
                    line[i % len + 1..].fill(f32::NAN);
                }
                let want = reference(&scores, len, scale);
                let (x, out) = (b.raw(&scores), b.blank(scores.len()));
                let (lines, len) = ((heads * len) as u32, len as u32);
                let probabilities = out.ptr_mut();
                b.k.launch(Softmax { scores: x.ptr(), probabilities, lines, len, scale }).unwrap();
                // The exponent is rounded in its last place: up to 2^-24 of a difference of scores.
                b.close(
                    "softmax",
                    &b.get(&out),
                    &want,
                    |i| want[i] + 1e-30,
                    60.0 * f64::from(scale) * 6e-8 + 1e-6,
                );
            }
        }
    });
}

#[test]
fn huge_scores_do_not_overflow_and_a_seen_nan_spoils_its_line() {
    everywhere(|b| {
        let scores = [-3e38f32, f32::NAN, f32::NAN, 3e38, 2e38, f32::NAN, 0.0, f32::NAN, 0.0];
        let (x, out) = (b.raw(&scores), b.blank(9));
        let probabilities = out.ptr_mut();
        b.k.launch(Softmax { scores: x.ptr(), probabilities, lines: 3, len: 3, scale: 1.0 }).unwrap();
        let got = b.get(&out);
        assert_eq!(got[..6], [1.0, 0.0, 0.0, 1.0, 0.0, 0.0]);
        assert!(got[6..].iter().all(|p| p.is_nan()));
    });
}

#[test]
fn gradients_of_scores_follow_the_equation() {
    everywhere(|b| {
        for (len, heads) in SIZES {
            let scale = 0.3f32;
            let scores = numbers(2, heads * len * len);
            let p: Vec<f32> = reference(&scores, len, 1.0).iter().map(|p| *p as f32).collect();
            let p = b.rounded(&p);
            let mut dp = numbers(3, p.len());
            let mut want = vec![0.0; p.len()];
            for i in 0..heads * len {
                let (seen, at) = (i % len + 1, i * len);
                let sum: f64 = (at..at + seen).map(|j| f64::from(p[j]) * f64::from(dp[j])).sum();
                for j in at..at + seen {
                    want[j] = f64::from(p[j]) * (f64::from(dp[j]) - sum) * f64::from(scale);
                }
                dp[at + seen..at + len].fill(f32::NAN);
            }
            let (x, d, out) = (b.put(&p), b.raw(&dp), b.blank(p.len()));
            let (lines, len) = ((heads * len) as u32, len as u32);
            let (dp, ds) = (d.ptr(), out.ptr_mut());
            b.k.launch(SoftmaxBackward { p: x.ptr(), dp, ds, lines, len, scale }).unwrap();
            b.close("softmax_backward", &b.get(&out), &want, |i| f64::from(p[i]) + 1e-30, 6e-7);
        }
    });
}
