//! The gradient is the derivative of the loss, by finite differences.

use super::{bump, counter, describe, flat};
use crate::strategies::{Batch, batch_up_to, build, check_as, has, settings};
use crate::tolerance::{FINITE_DIFFERENCE, FINITE_DIFFERENCE_FLOOR, FINITE_DIFFERENCE_ROUNDING, STEP, size};
use grpo_lambda::group::Response;
use grpo_lambda::methods::{Configured, REGISTRY};
use grpo_lambda::metrics::Metrics;
use proptest::prelude::*;

/// The size of the loss's terms at ratio 1: `sum w |A|` over all tokens.
fn terms(configured: &Configured, batch: &Batch) -> f64 {
    let credit = configured.method.credit(&batch.groups);
    credit.iter().flat_map(|c| c.weights.iter().zip(&c.advantages)).map(|(w, a)| (w * a).abs()).sum()
}

/// True if the stencil around a token reaches the kink of `kl=abs`, where the policy is the reference.
fn near_the_kink_of_the_kl(configured: &Configured, response: &Response, own: &[f64], t: usize) -> bool {
    let has_kink = has(configured.spec, "kl") && configured.settings.word("kl") == "abs";
    let reference = response.ref_logps.as_deref().expect("generated");
    has_kink && (own[t] - reference[t]).abs() < 3.0 * STEP
}

#[test]
fn the_gradient_is_the_derivative_of_the_batch_loss_in_every_log_prob() {
    let regions = |m: &Metrics| (m.clipped_low, m.clipped_high, m.saturated);
    for &spec in REGISTRY {
        let (checked, at_a_kink, low, high) = (counter(), counter(), counter(), counter());
        let lengths = prop_oneof![4 => batch_up_to(10), 1 => batch_up_to(40)];
        check_as(spec.name, 250, (settings(spec), lengths), |(overrides, batch)| {
            let configured = build(spec, overrides, &[]);
            let at = batch.evaluate(&configured);
            let largest = size(&flat(&at));
            let terms = terms(&configured, &batch);
            // Credits are fixed before any log-probability moves, and shares add up: only the response's own share can change.
            let credits = configured.method.credit(&batch.groups);
            for (i, response) in batch.responses().enumerate() {
                let own = &batch.logps[i];
                let share = |logps: &[f64]| configured.method.loss_around(response, &credits[i], logps, own);
                let at_own = share(own);
                for t in 0..own.len() {
                    if near_the_kink_of_the_kl(&configured, response, own, t) {
                        bump(&at_a_kink, 1);
                        continue;
                    }
                    let mut moved = own.clone();
                    let mut near = |steps: f64| {
                        moved[t] = own[t] + steps * STEP;
                        share(&moved)
                    };
                    let [a, b, c, d] = [-2.0, -1.0, 1.0, 2.0].map(&mut near);
                    // Raising one log-probability can only raise trace ratios, so a token that changes its clip region
                    // within the stencil, on either side, shows in these counts: the loss has a kink there.
                    if [&a, &b, &c, &d].iter().any(|l| regions(&l.metrics) != regions(&at_own.metrics)) {
                        bump(&at_a_kink, 1);
                        continue;
                    }
                    let slope = (a.value - 8.0 * b.value + 8.0 * c.value - d.value) / (12.0 * STEP);
                    let ours = at.dlogps[i][t];
                    let allowed = FINITE_DIFFERENCE * ours.abs()
                        + FINITE_DIFFERENCE_FLOOR * largest
                        + FINITE_DIFFERENCE_ROUNDING * terms;
                    assert!(
                        (ours - slope).abs() <= allowed,
                        "response {i} token {t}: {ours} but finite differences give {slope}\n{}",
                        describe(&configured)
                    );
                    bump(&checked, 1);
                }
            }
            bump(&low, at.metrics.clipped_low);
            bump(&high, at.metrics.clipped_high);
        });
        println!(
            "{}: {} derivatives checked, {} at a kink left out; {} tokens clipped below, {} above",
            spec.name,
            checked.get(),
            at_a_kink.get(),
            low.get(),
            high.get()
        );
        assert!(checked.get() > 2_000, "{}: {}", spec.name, checked.get());
        assert!(at_a_kink.get() * 4 < checked.get(), "{}: {} kinks", spec.name, at_a_kink.get());
        if has(spec, "clip") {
            // The lower bound acts on negative advantages, of which pass@k has none.
            let lows = if spec.name == "grpo_passk" { 0..=0 } else { 31..=usize::MAX };
            let both = lows.contains(&low.get()) && high.get() > 100;
            assert!(both, "{}: {} clipped below, {} above", spec.name, low.get(), high.get());
        }
    }
}
