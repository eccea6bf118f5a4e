//! P-trace and S-trace, both reconstructed: what their variants reduce to.

use super::{CASES, method};
use crate::strategies::{batch, check, graded, on_policy};
use crate::tolerance::{DENSE, IDENTITY, assert_close, assert_within, dot};
use grpo_lambda::methods::{Provenance, REGISTRY};
use grpo_lambda::trace::{Clock, Recent, RowNormalised, Sequence, Sparse, Trace, dense};
use proptest::prelude::*;
use std::cell::Cell;

#[test]
fn what_is_reconstructed_says_so_in_every_name() {
    let mut found = 0;
    for spec in REGISTRY {
        let says = |text: &str| text.contains("reconstructed");
        let is = spec.provenance == Provenance::Reconstructed;
        assert_eq!((says(spec.name), says(spec.title), says(spec.about)), (is, is, is), "{}", spec.name);
        found += usize::from(is);
    }
    assert!(found >= 2);
}

#[test]
fn at_lambda_1_the_last_token_of_p_trace_has_the_ratio_of_gspo() {
    // [C12], as traces and as losses: the weight of a response on its last token alone.
    let (gspo, p) =
        (method("gspo epsilon_low=0.2 epsilon_high=0.2"), method("p_trace_reconstructed lambda=1"));
    check(CASES, graded(), |batch| {
        let credits = gspo.method.credit(&batch.groups);
        for ((r, logps), mut credit) in batch.responses().zip(&batch.logps).zip(credits) {
            let last = r.len() - 1;
            credit.weights[..last].fill(0.0);
            let (a, b) = (gspo.method.loss(r, &credit, logps), p.method.loss(r, &credit, logps));
            assert_close(&a.dlogps, &b.dlogps, IDENTITY, "gradient");
            assert!((a.value - b.value).abs() < IDENTITY * (1.0 + a.value.abs()));
            let x: Vec<f64> = logps.iter().zip(&r.old_logps).map(|(n, o)| n - o).collect();
            let (z, s) = (RowNormalised(Recent { q: 1.0 }).apply(&x), Sequence.apply(&x));
            assert!((z[last] - s[last]).abs() < 1e-13);
        }
    });
}

#[test]
fn on_policy_the_normalised_trace_has_the_mass_of_grpo_and_more_of_it_on_early_tokens() {
    let (p, grpo) = (method("p_trace_reconstructed lambda=0.9"), method("grpo reduction=token_mean"));
    check(CASES, on_policy(), |batch| {
        let (a, b) = (batch.evaluate(&p), batch.evaluate(&grpo));
        for (a, b) in a.dlogps.iter().zip(&b.dlogps) {
            assert_within(&[a.iter().sum()], &[b.iter().sum()], IDENTITY, b.len() as f64, "mass");
            assert!(a[0].abs() >= b[0].abs() - IDENTITY && a[a.len() - 1].abs() <= b[0].abs() + IDENTITY);
        }
    });
}

#[test]
fn the_history_in_front_by_its_definition() {
    let q = 0.7f64;
    let m = method("p_trace_reconstructed form=history lambda=0.7 clip=none");
    check(CASES, batch(), |batch| {
        let loss = batch.evaluate(&m);
        for (i, r) in batch.responses().enumerate() {
            let x: Vec<f64> = batch.logps[i].iter().zip(&r.old_logps).map(|(n, o)| n - o).collect();
            let h = |t: usize| (0..t).map(|k| q.powi((t - k) as i32) * x[k]).sum::<f64>();
            let scale = loss.advantages[i][0] / batch.tokens() as f64;
            let want: Vec<f64> = (0..x.len()).map(|t| -scale * h(t).exp() * x[t].exp()).collect();
            assert_close(&loss.dlogps[i], &want, IDENTITY, "gradient");
        }
    });
}

#[test]
fn inside_the_trust_region_token_by_token_the_normalised_trace_is_never_clipped_and_the_decayed_sum_is() {
    // [C12] the theorem: a convex combination of log-ratios in [log 0.8, log 1.2] stays there.
    let inside = || {
        graded().prop_map(|mut b| {
            for (logps, r) in b.logps.iter_mut().zip(b.groups.iter().flat_map(|g| &g.responses)) {
                for (l, old) in logps.iter_mut().zip(&r.old_logps) {
                    *l = old + (*l - old).clamp(0.801f64.ln(), 1.199f64.ln());
                }
            }
            b
        })
    };
    let normalised = [
        "p_trace_reconstructed lambda=0.99",
        "p_trace_reconstructed lambda=0.5",
        "p_trace_reconstructed lambda=1",
        "s_trace_reconstructed",
        "s_trace_reconstructed clock=selected lambda=1",
    ]
    .map(method);
    let sum = method("p_trace_reconstructed lambda=0.99 form=accumulated");
    let clipped = Cell::new(0);
    check(CASES, inside(), |batch| {
        for m in &normalised {
            let metrics = batch.evaluate(m).metrics;
            assert_eq!((metrics.clipped_low, metrics.clipped_high), (0, 0));
        }
        let metrics = batch.evaluate(&sum).metrics;
        clipped.set(clipped.get() + metrics.clipped_low + metrics.clipped_high);
    });
    assert!(clipped.get() > 1_000, "{}", clipped.get());
}

#[test]
fn a_sparse_trace_in_linear_time_is_its_matrix_and_its_adjoint() {
    let case = (prop::collection::vec((-1.0..1.0f64, -1.0..1.0f64, any::<bool>()), 1..60), 0.0..=1.0f64);
    check(4 * CASES, (case, any::<bool>()), |((tokens, q), selected)| {
        let x: Vec<f64> = tokens.iter().map(|t| t.0).collect();
        let y: Vec<f64> = tokens.iter().map(|t| t.1).collect();
        let eligible: Vec<bool> = tokens.iter().map(|t| t.2).collect();
        let clock = if selected { Clock::Selected } else { Clock::Token };
        let trace = Sparse { q, eligible: &eligible, clock };
        // The definition: q to the number of ticks after k, up to t.
        let ticks = |t: usize| (0..=t).filter(|&i| !selected || eligible[i]).count() as i32;
        let entry = |t: usize, k: usize| match k.cmp(&t) {
            std::cmp::Ordering::Equal => 1.0,
            std::cmp::Ordering::Less if eligible[k] => q.powi(ticks(t) - ticks(k)),
            _ => 0.0,
        };
        let matrix = dense(&trace, x.len());
        for t in 0..x.len() {
            for k in 0..x.len() {
                assert!((matrix[t][k] - entry(t, k)).abs() < DENSE);
            }
        }
        let product: Vec<f64> =
            (0..x.len()).map(|t| (0..x.len()).map(|k| entry(t, k) * x[k]).sum()).collect();
        assert_within(&trace.apply(&x), &product, DENSE, x.len() as f64, "apply");
        let (left, right) = (dot(&y, &trace.apply(&x)), dot(&trace.adjoint(&y), &x));
        assert!((left - right).abs() < DENSE * (x.len() * x.len()) as f64);
    });
}

#[test]
fn the_loss_of_s_trace_and_of_the_clipped_variant_by_their_definitions() {
    // Values in O(T^2); gradients are compared with finite differences of the value elsewhere.
    let q = 0.8f64;
    let selective = method("s_trace_reconstructed lambda=0.8 entropy_threshold=1.5 clip=none");
    let clock = method(
        "s_trace_reconstructed lambda=0.8 entropy_threshold=1.5 clip=none clock=selected normalise_rows=false",
    );
    let clipped = method("p_trace_reconstructed lambda=0.8 form=clipped clip=none");
    let mixed = Cell::new(0);
    check(CASES, graded(), |batch| {
        let mut want = [0.0; 3];
        let losses = [&selective, &clock, &clipped].map(|m| batch.evaluate(m));
        for (i, r) in batch.responses().enumerate() {
            let h = r.extra_inputs.entropies.as_ref().expect("generated");
            let x: Vec<f64> = batch.logps[i].iter().zip(&r.old_logps).map(|(n, o)| n - o).collect();
            let chosen = |k: usize| h[k] >= 1.5;
            let weight = losses[0].advantages[i][0] / batch.tokens() as f64;
            for t in 0..x.len() {
                let read = |k: usize| k == t || chosen(k);
                let decay = |k: usize| q.powi((t - k) as i32);
                let sum: f64 = (0..=t).filter(|&k| read(k)).map(|k| decay(k) * x[k]).sum();
                let mass: f64 = (0..=t).filter(|&k| read(k)).map(decay).sum();
                want[0] -= weight * (sum / mass).exp();
                let ticks = |k: usize| q.powi((k + 1..=t).filter(|&j| chosen(j)).count() as i32);
                want[1] -= weight * (0..=t).filter(|&k| read(k)).map(|k| ticks(k) * x[k]).sum::<f64>().exp();
                let bounded = |k: usize| x[k].exp().clamp(0.8, 1.2).ln();
                want[2] -= weight * (0..=t).map(|k| decay(k) * bounded(k)).sum::<f64>().exp();
                mixed.set(mixed.get() + usize::from((0..t).any(chosen) && !(0..t).all(chosen)));
            }
        }
        for (loss, want) in losses.iter().zip(want) {
            let scale = super::magnitude(loss).max(want.abs());
            assert_within(&[loss.value], &[want], IDENTITY, scale, "value");
        }
    });
    assert!(mixed.get() > 1_000);
}
