use grpo_lambda::advantage::{Baseline, ClampPart, OutcomeAdvantage, Scale, Std};

#[test]
fn the_parts_of_binary_groups_are_a_slope_and_an_offset_that_add_up_to_the_clamp() {
    for right in 1..8 {
        let rewards: Vec<_> = (0..8).map(|i| Some(f64::from(u8::from(i < right)))).collect();
        let clamped = |clamp| {
            let outcome =
                OutcomeAdvantage { baseline: Baseline::GroupMean, scale: Scale::Group(Std::TRL), clamp };
            outcome.of_batch(std::slice::from_ref(&rewards)).remove(0)
        };
        let (plain, clamped) = (clamped(None), clamped(Some(-0.1)));
        let [_, reweighted, offset, both] = ClampPart::ALL.map(|part| part.of_group(&plain, &clamped));
        assert_eq!(both, clamped);
        assert!(reweighted.iter().sum::<f64>().abs() < 1e-12, "{right}");
        let slope = |a: &[f64]| a[0] - a[7];
        assert!((slope(&reweighted) - slope(&clamped)).abs() < 1e-12);
        assert!((slope(&offset) - slope(&plain)).abs() < 1e-12);
        for i in 0..8 {
            assert!((offset[i] + reweighted[i] - plain[i] - clamped[i]).abs() < 1e-12, "{right} {i}");
        }
    }
    assert_eq!(ClampPart::Offset.of_group(&[], &[]), Vec::<f64>::new());
}
