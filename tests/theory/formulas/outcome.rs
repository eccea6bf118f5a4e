use grpo_lambda::advantage::{Baseline, OutcomeAdvantage, Scale, Std};

const Z: OutcomeAdvantage =
    OutcomeAdvantage { baseline: Baseline::GroupMean, scale: Scale::Group(Std::TRL), clamp: None };

#[test]
fn nearly_equal_rewards_keep_their_digits() {
    // B26: seven rewards of 0.35 and one next to it; the one-pass variance is negative or noise here.
    let mut rewards = vec![Some(0.35); 7];
    rewards.push(Some(0.35 + 1e-9));
    let exact = OutcomeAdvantage { scale: Scale::Group(Std { ddof: 1, epsilon: 0.0 }), ..Z };
    let a = &exact.of_batch(&[rewards])[0];
    assert!((a[7] - 7.0 / 8f64.sqrt()).abs() < 1e-6, "{a:?}");
    // The mean itself is only known to half an ulp of 0.35, which is 1.6e-7 of this group's std.
    assert!((a.iter().sum::<f64>()).abs() < 8.0 * 1.6e-7);
}

#[test]
fn equal_rewards_teach_nothing_even_when_their_mean_is_inexact() {
    for std in [Std::TRL, Std::VERL, Std::UNDERSTAND_R1_ZERO, Std::OPENRLHF, Std::DEEPSEEKMATH] {
        let z = OutcomeAdvantage { scale: Scale::Group(std), ..Z };
        assert_eq!(z.of_batch(&[vec![Some(0.1); 3]]), [[0.0; 3]], "{std:?}");
    }
}

#[test]
fn rewards_of_any_size_have_finite_z_scores() {
    let exact = OutcomeAdvantage { scale: Scale::Group(Std::DEEPSEEKMATH), ..Z };
    for (a, b) in [(0.0, 1e-200), (0.0, f64::from_bits(1)), (1e200, -1e200), (1e300, 0.0), (1e-170, 3e-170)] {
        let z = &exact.of_batch(&[vec![Some(a), Some(b)]])[0];
        let want = if f64::from_bits(1) == b { 1.5 } else { 1.0 + 1e-12 }; // half of the smallest number is no number
        assert!(z.iter().all(|z| z.is_finite() && z.abs() <= want), "{a} {b}: {z:?}");
        assert!(z[0] != z[1]);
    }
}

#[test]
fn missing_rewards_do_not_move_the_baseline() {
    let with = Z.of_batch(&[vec![Some(1.0), None, Some(0.0), Some(0.0)]]);
    let without = Z.of_batch(&[vec![Some(1.0), Some(0.0), Some(0.0)]]);
    assert_eq!(with[0][1], 0.0);
    assert_eq!([with[0][0], with[0][2], with[0][3]], without[0][..]);
    assert_eq!(Z.of_batch(&[vec![None, Some(1.0)]]), [[0.0, 0.0]]);
}

#[test]
fn clamp_leaves_a_net_push_of_3_34_when_half_of_eight_are_right() {
    // [E14] (rewards 1,1,1,1,0,0,0,0): sum of clamped z-scores.
    let half: Vec<_> = (0..8).map(|i| Some(f64::from(i < 4))).collect();
    let clamped = OutcomeAdvantage { clamp: Some(-0.1), ..Z };
    let push: f64 = clamped.of_batch(&[half])[0].iter().sum();
    assert!((push - 3.34).abs() < 0.005, "{push}");
}

#[test]
fn the_deviation_of_the_others_by_hand() {
    // Others of the first: 1, 0, 0 with deviation 1/sqrt 3 over n - 1; of the last three of one group: they agree.
    let nemo = OutcomeAdvantage {
        baseline: Baseline::LeaveOneOut,
        scale: Scale::Others(Std { ddof: 1, epsilon: 0.0 }),
        clamp: None,
    };
    let a = &nemo.of_batch(&[vec![Some(2.0), Some(1.0), None, Some(0.0), Some(0.0)]])[0];
    assert!((a[0] - (2.0 - 1.0 / 3.0) * 3f64.sqrt()).abs() < 1e-14 && a[2] == 0.0, "{a:?}");
    let one_wrong = &nemo.of_batch(&[vec![Some(1.0), Some(1.0), Some(1.0), Some(0.0)]])[0];
    assert_eq!(one_wrong[3], -1.0);
    assert!((one_wrong[0] - (1.0 / 3.0) * 3f64.sqrt()).abs() < 1e-14);
}

#[test]
fn divisors_by_hand_and_none_where_nothing_is_compared() {
    use Baseline::{BatchMean, GroupMean, LeaveOneOut};
    let rewards = [vec![Some(1.0), Some(1.0)], vec![Some(3.0), None, Some(0.0)]];
    let plain = Std { ddof: 0, epsilon: 0.0 };
    // Of 1, 1, 3, 0 around their mean 1.25: squares of 0.0625, 0.0625, 3.0625, 1.5625.
    let batch = Some(1.1875f64.sqrt());
    let outcome = |baseline, scale| OutcomeAdvantage { baseline, scale, clamp: None };
    for (baseline, scale, want) in [
        (GroupMean, Scale::None, [None, Some(1.0)]),
        (LeaveOneOut, Scale::Others(plain), [None, Some(1.0)]),
        (BatchMean, Scale::None, [Some(1.0), Some(1.0)]),
        (GroupMean, Scale::Group(plain), [None, Some(1.5)]),
        // Its rewards agree: it differs from the batch, and has no deviation to be divided by.
        (BatchMean, Scale::Group(plain), [None, Some(1.5)]),
        (GroupMean, Scale::Batch(plain), [None, batch]),
        (BatchMean, Scale::Batch(plain), [batch, batch]),
    ] {
        let divisors = outcome(baseline, scale).divisors(&rewards);
        for (found, want) in divisors.iter().zip(want) {
            let near = found.zip(want).is_some_and(|(a, b)| (a - b).abs() < 1e-15);
            assert!(near || *found == want, "{baseline:?} {scale:?}: {divisors:?}");
        }
        let advantages = outcome(baseline, scale).of_batch(&rewards);
        assert!(advantages.iter().flatten().all(|a| a.is_finite()), "{advantages:?}");
        assert_eq!(want[0].is_none(), advantages[0] == [0.0; 2], "{baseline:?} {scale:?}");
    }
    assert_eq!(outcome(BatchMean, Scale::None).divisors(&[vec![Some(2.0)], vec![Some(2.0)]]), [None; 2]);
}

#[test]
fn batch_statistics_span_groups() {
    let batch = OutcomeAdvantage {
        baseline: Baseline::BatchMean,
        scale: Scale::Batch(Std { ddof: 0, epsilon: 0.0 }),
        clamp: None,
    };
    let a = batch.of_batch(&[vec![Some(1.0), Some(1.0)], vec![Some(0.0), Some(0.0)]]);
    assert_eq!(a, [[1.0, 1.0], [-1.0, -1.0]]);
}
