use grpo_lambda::surrogate::{Divergence, Region, Surrogate, TokenLogps};

#[test]
fn regions_by_hand() {
    let ppo = Surrogate::Clip { low: 0.2, high: 0.28 };
    let printed = Surrogate::Printed { high: 0.28 };
    let two = Surrogate::TwoSided { low: 0.2, high: 0.28, delta: 2.0 };
    // (ratio, advantage, PPO, printed, two-sided)
    for (rho, a, p, l, t) in [
        (0.5, 1.0, Region::Free, Region::Free, Region::Free),
        (1.5, 1.0, Region::High, Region::High, Region::High),
        (0.5, -1.0, Region::Low, Region::Free, Region::Low),
        (1.5, -1.0, Region::Free, Region::High, Region::Free),
        (2.5, -1.0, Region::Free, Region::High, Region::High),
    ] {
        assert_eq!((ppo.region(rho, a), printed.region(rho, a), two.region(rho, a)), (p, l, t), "{rho} {a}");
    }
}

#[test]
fn values_are_the_min_of_the_two_branches() {
    for (low, high, delta) in [(0.2, 0.2, 3.0), (0.0, 0.5, 1.6)] {
        for i in -40..=40 {
            for a in [-2.0, -0.1, 0.0, 0.7] {
                let z = f64::from(i) * 0.05;
                let rho = z.exp();
                let clipped = rho.clamp(1.0 - low, 1.0 + high);
                let close = |s: Surrogate, want: f64| {
                    assert!((s.at(z, a).loss.value - want).abs() < 1e-14, "{s:?} {z} {a}")
                };
                close(Surrogate::Clip { low, high }, -(rho * a).min(clipped * a));
                close(Surrogate::Printed { high }, -rho.min(clipped) * a);
                close(Surrogate::TwoSided { low, high, delta }, -(rho.min(delta) * a).min(clipped * a));
                close(Surrogate::Unclipped, -rho * a);
            }
        }
    }
}

#[test]
fn a_detached_weight_has_one_slope_whether_read_in_the_log_ratio_or_in_log_pi() {
    let cispo = Surrogate::Detached { low: 0.5, high: 2.0 };
    let old = -0.7;
    for (z, weight, region) in
        [(-3.0f64, 0.5, Region::Low), (0.1, 0.1f64.exp(), Region::Free), (3.0, 2.0, Region::High)]
    {
        for a in [-1.5, 0.0, 2.0] {
            let logps = TokenLogps { logp: old + z, old, frozen: old + z };
            let (at, detached) = (cispo.at(z, a), cispo.of_logps(&logps, a).expect("detached"));
            assert!((at.loss.slope + weight * a).abs() < 1e-14 && at.region == region);
            assert!((detached.loss.slope - at.loss.slope).abs() < 1e-14 && detached.region == at.region);
            assert!((at.loss.value - detached.loss.value - weight * a * old).abs() < 1e-15);
        }
    }
    let at = TokenLogps { logp: -0.7, old: -0.7, frozen: -0.7 };
    assert_eq!(Surrogate::Unclipped.of_logps(&at, 1.0), None);
}

#[test]
fn the_soft_gate_is_sapos_by_hand() {
    let sapo = Surrogate::SoftGate { positive: 1.0, negative: 2.0 };
    let on_policy = sapo.at(0.0, 3.0).loss; // sigma(0) = 1/2: value -2 A / tau, slope -A
    assert!((on_policy.value + 6.0).abs() < 1e-15 && (on_policy.slope + 3.0).abs() < 1e-15);
    let double = sapo.at(2f64.ln(), -1.0).loss; // tau = 2, ratio 2: sigma(2) = 0.880797, 4/2 of it
    let sigma = 1.0 / (1.0 + (-2f64).exp());
    assert!((double.value - 2.0 * sigma).abs() < 1e-15);
    assert!((double.slope - 4.0 * sigma * (1.0 - sigma) * 2.0).abs() < 1e-14);
    assert_eq!(sapo.at(60.0, -1.0).loss.slope, 0.0);
}

#[test]
fn a_trust_region_drops_what_moved_too_far_in_the_direction_of_its_advantage() {
    let dppo =
        Surrogate::TrustRegion { divergence: Divergence::TotalVariation, low: 0.1, high: 0.2, cap: 3.0 };
    let token = |new: f64, old: f64, a: f64| {
        let at = TokenLogps { logp: new.ln(), old: old.ln(), frozen: new.ln() };
        dppo.of_logps(&at, a).expect("reads log pi")
    };
    for (new, old, a, slope, region) in [
        (0.7, 0.4, 1.0, 0.0, Region::High),   // rose by 0.3 > 0.2
        (0.7, 0.4, -1.0, 1.75, Region::Free), // and should fall
        (0.4, 0.55, -1.0, 0.0, Region::Low),
        (0.4, 0.55, 1.0, -0.4 / 0.55, Region::Free),
        (0.1, 0.01, 1.0, -3.0, Region::High), // inside the region, its weight at the cap
    ] {
        let found = token(new, old, a);
        assert!((found.loss.slope - slope).abs() < 1e-12, "{new} {old} {a}: {found:?}");
        assert_eq!(found.region, region, "{new} {old} {a}");
    }
}
