use grpo_lambda::stats::{Bootstrap, OverTasks, two_proportions};

#[test]
fn the_standard_error_of_two_proportions_by_hand() {
    let d = two_proportions(3, 4, 10, 50).expect("two samples");
    assert!((d.value - 0.55).abs() < 1e-15);
    assert!((d.se - (0.75 * 0.25 / 4.0 + 0.2 * 0.8 / 50.0f64).sqrt()).abs() < 1e-15);
    assert_eq!(two_proportions(0, 0, 1, 2), None);
    assert_eq!(two_proportions(1, 2, 0, 0), None);
}

#[test]
fn a_mean_over_tasks_names_the_task_that_carries_it_and_holds_only_without_it() {
    let of = |values: &[f64]| OverTasks::new(values, Bootstrap::default()).expect("two tasks or more");
    let carried = of(&[1.0, 2.0, 9.0]);
    assert_eq!(carried.without, [5.5, 5.0, 1.5]);
    assert_eq!((carried.interval.mid, carried.median), (4.0, 2.0));
    assert_eq!(carried.carried_by(), (2, 1.5));
    assert!(carried.positive() && !carried.negative());
    let negative = of(&[-1.0, -2.0, -9.0]);
    assert_eq!(negative.carried_by(), (2, -1.5));
    assert!(negative.negative() && !negative.positive());
    // All of the mean is one task's: the interval may leave 0 out, the mean without the task does not.
    for values in [[0.0, 0.0, 3.0], [0.0, 0.0, -3.0], [-1.0, 0.5, 4.0], [1.0, -0.5, -4.0]] {
        let o = of(&values);
        assert!(!o.positive() && !o.negative(), "{values:?}: {o:?}");
    }
    assert_eq!(OverTasks::new(&[1.0], Bootstrap::default()), None);
}
