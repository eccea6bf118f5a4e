use grpo_lambda::metrics::Metrics;

fn one() -> Metrics {
    Metrics {
        tokens: 4,
        clipped_low: 1,
        clipped_high: 2,
        saturated: 3,
        log_ratio_max: 2f64.ln(),
        trace_log_ratio_max: 3f64.ln(),
        ratio_sum: 6.0,
        kl_sum: 0.5,
        policy_loss: 0.25,
        kl_loss: 0.125,
        groups: 5,
        zero_variance_groups: 6,
        ungraded: 7,
    }
}

#[test]
fn counts_and_sums_add_up_and_maxima_stay() {
    let mut two = one();
    two.merge(&Metrics { log_ratio_max: 1.0, trace_log_ratio_max: 1.0, ..one() });
    let expected = Metrics {
        tokens: 8,
        clipped_low: 2,
        clipped_high: 4,
        saturated: 6,
        log_ratio_max: 1.0,
        trace_log_ratio_max: 3f64.ln(),
        ratio_sum: 12.0,
        kl_sum: 1.0,
        policy_loss: 0.5,
        kl_loss: 0.25,
        groups: 10,
        zero_variance_groups: 12,
        ungraded: 14,
    };
    assert_eq!(two, expected);
}

#[test]
fn what_is_logged_is_per_token_and_a_ratio_is_capped_at_the_largest_number() {
    let logged = one().entries();
    let close = |name: &str, expected: f64| {
        let value = logged.iter().find(|(found, _)| *found == name).expect(name).1;
        assert!((value - expected).abs() < 1e-15, "{name}: {value}, not {expected}");
    };
    for (name, expected) in [
        ("tokens", 4.0),
        ("policy_loss", 0.25),
        ("kl_loss", 0.125),
        ("kl", 0.125),
        ("ratio_mean", 1.5),
        ("ratio_max", 2.0),
        ("clip_fraction_low", 0.25),
        ("clip_fraction_high", 0.5),
        ("saturated_fraction", 0.75),
        ("groups", 5.0),
        ("zero_variance_groups", 6.0),
        ("ungraded", 7.0),
    ] {
        close(name, expected);
    }
    assert!((one().trace_ratio_max() - 3.0).abs() < 1e-14);
    assert_eq!(logged.len(), 13);
    assert_eq!(Metrics { log_ratio_max: 1e4, ..one() }.ratio_max(), f64::MAX);
    assert_eq!(Metrics::default().kl(), 0.0);
}
