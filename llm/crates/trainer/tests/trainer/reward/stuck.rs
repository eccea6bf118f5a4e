use grpo_lambda_trainer::reward::{StuckComponent, StuckDetector};

fn steps(detector: &mut StuckDetector, steps: &[&[Option<f64>]]) -> Vec<Option<StuckComponent>> {
    steps.iter().map(|values| detector.observe("format", values.iter().copied(), 3)).collect()
}

#[test]
fn a_constant_is_reported_once_and_counted_as_long_as_it_lasts() {
    let mut detector = StuckDetector::default();
    let same: &[Option<f64>] = &[Some(0.0), None, Some(0.0)];
    let found = steps(&mut detector, &[same, same, same, same]);
    let expected = StuckComponent { name: "format".into(), value: Some(0.0), steps: 3 };
    assert_eq!(found, [None, None, Some(expected), None]);
    assert_eq!((detector.stuck(3), detector.stuck(5), detector.stuck(0)), (1, 0, 0));
    let mixed: &[Option<f64>] = &[Some(0.0), Some(1.0)];
    assert_eq!(steps(&mut detector, &[mixed, same, same, same]), [None, None, None, None]);
    assert_eq!(detector.stuck(3), 1);
}

#[test]
fn another_constant_and_a_missing_value_begin_again() {
    let mut detector = StuckDetector::default();
    let (zero, one, none): (&[_], &[_], &[_]) = (&[Some(0.0)], &[Some(1.0)], &[None, None]);
    assert_eq!(
        steps(&mut detector, &[zero, zero, one, one, none, none]),
        [None, None, None, None, None, None]
    );
    let expected = StuckComponent { name: "format".into(), value: None, steps: 3 };
    assert_eq!(steps(&mut detector, &[none]), [Some(expected)]);
}
