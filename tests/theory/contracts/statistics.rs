use grpo_lambda_stats::table::{Cell, Table};
use grpo_lambda_stats::{
    Bootstrap, OverTasks, chosen_on_the_others, clopper_pearson, fewest_discordant, mcnemar_power,
    paired_permutation, pass_at_k, probability_of_improvement, sign_flip_test, spearman, t_interval,
    two_proportions,
};

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
    let over_tasks = |values: &[f64]| OverTasks::new(values).expect("two tasks or more");
    let carried = over_tasks(&[1.0, 2.0, 9.0]);
    assert_eq!(carried.without, [5.5, 5.0, 1.5]);
    assert_eq!((carried.interval.mid, carried.median), (4.0, 2.0));
    assert_eq!(carried.carried_by(), (2, 1.5));
    // Three tasks show nothing, whatever their values: two of eight flips are as extreme.
    assert!(carried.p == 0.25 && !carried.positive() && !carried.negative());
    assert_eq!(OverTasks::new(&[1.0]), None);
}

/// Cases with the t and p of the formulas, by hand: an effect is shown where both say so, with either sign.
#[test]
fn an_effect_over_tasks_needs_the_t_interval_and_the_sign_flips() {
    let cases: [(&[f64], f64, bool); 5] = [
        // All six of one sign: 2 of 64 flips.
        (&[1.0, 1.2, 0.8, 1.1, 0.9, 1.0], 2.0 / 64.0, true),
        // Five of one sign: 2 of 32 flips are too many, though t is far from 0.
        (&[1.0, 1.2, 0.8, 1.1, 0.9], 2.0 / 32.0, false),
        // Six of one sign, one of them far out: the flips agree, t does not.
        (&[0.1, 0.1, 0.1, 0.1, 0.1, 9.0], 2.0 / 64.0, false),
        // One task carries the mean.
        (&[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 3.0], 1.0, false),
        (&[1.0; 9], 2.0 / 512.0, true),
    ];
    for (values, p, shown) in cases {
        let negative: Vec<f64> = values.iter().map(|x| -x).collect();
        let [up, down] = [values, &negative].map(|v| OverTasks::new(v).expect("two tasks or more"));
        assert!((up.p - p).abs() < 1e-15 && (down.p - p).abs() < 1e-15, "{values:?}: {up:?}");
        assert_eq!((up.positive(), up.negative()), (shown, false), "{values:?}: {up:?}");
        assert_eq!((down.positive(), down.negative()), (false, shown), "{values:?}: {down:?}");
    }
}

/// The gains of GRPO-λ over GRPO at its tuned rate on the nine tasks of `learning`, whose t interval and exact p were computed
/// independently (numpy, all 512 flips).
#[test]
fn nine_tasks_whose_percentile_bootstrap_leaves_0_out_show_nothing() {
    let gains = vec![
        -0.062706116348,
        0.0149842350015,
        -0.00156165718743,
        -0.00780726834571,
        0.000183468763965,
        -0.00935197105536,
        -0.0563430450419,
        -0.0345963034651,
        0.000215638004965,
    ];
    let o = OverTasks::new(&gains).expect("nine tasks");
    let percentile = Bootstrap::default()
        .interval(std::slice::from_ref(&gains), |drawn| drawn[0].iter().sum::<f64>() / 9.0)
        .expect("nine tasks");
    assert!(percentile.high < 0.0 && !o.negative());
    assert!((o.interval.low + 0.038).abs() < 6e-4 && (o.interval.high - 0.004).abs() < 6e-4, "{o:?}");
    assert!((o.p - 0.109).abs() < 6e-4, "{o:?}");
}

#[test]
fn a_choice_on_the_other_runs_is_that_of_the_definition() {
    // Ten settings, seven runs, with ties.
    let values: Vec<Vec<f64>> =
        (0..10).map(|s| (0..7).map(|r| f64::from((s * 5 + r * r * 3 + s * r) % 11)).collect()).collect();
    let chosen = chosen_on_the_others(&values).expect("seven runs");
    for (run, value) in chosen.iter().enumerate() {
        let others =
            |s: &&Vec<f64>| s.iter().enumerate().filter(|(r, _)| *r != run).map(|(_, x)| x).sum::<f64>();
        let best = values.iter().map(|s| others(&s)).fold(f64::MIN, f64::max);
        let first = values.iter().find(|s| others(s) == best).expect("a best one");
        assert_eq!(*value, first[run]);
    }
    assert_eq!(chosen_on_the_others(&[vec![1.0, 2.0], vec![1.0]]), None);
}

/// More than 20 pairs are drawn: the p-value is then `(b + 1) / (draws + 1)`, and near that of the exact test.
#[test]
fn a_drawn_permutation_test_is_near_the_exact_one_and_counts_itself() {
    let x: Vec<f64> = (0..24).map(|i| if i % 4 == 0 { -1.0 } else { 0.5 }).collect();
    let zero = vec![0.0; 24];
    let drawn = paired_permutation(&x, &zero, 20_000, 3).expect("pairs");
    let exact = sign_flip_test(&x.iter().map(|v| (2.0 * v) as i64).collect::<Vec<_>>()).expect("small");
    assert!(!drawn.exact && (drawn.difference - 0.125).abs() < 1e-15);
    assert!(
        (drawn.p - exact).abs() < 5.0 * (exact * (1.0 - exact) / 20_000.0).sqrt() + 1e-4,
        "{} {exact}",
        drawn.p
    );
    // All of one sign and size: none of 99 draws is as extreme but the data itself.
    let far = paired_permutation(&[1.0; 24], &zero, 99, 1).expect("pairs");
    assert!((far.p - 0.01).abs() < 1e-15, "{}", far.p);
    // Sums equal on paper and not in floating point are ties: 0.1 + 0.2 against 0.3.
    let tied = paired_permutation(&[0.1, 0.2, -0.3], &[0.0; 3], 0, 0).expect("pairs");
    assert_eq!(tied.p, 1.0);
    let tied = paired_permutation(&[100_000.1, 200_000.2, -300_000.3], &[0.0; 3], 0, 0).expect("pairs");
    assert_eq!(tied.p, 1.0);
    let large = [-600_000.6000000001, -700_000.7000000001, 700_000.7000000001];
    assert_eq!(paired_permutation(&large, &[0.0; 3], 0, 0).expect("pairs").p, 1.0);
    // Of 8 flips those with |sum| >= 4 are +++, ++-, --+ and ---.
    let small = paired_permutation(&[3.0, 2.0, 1.0], &[0.0, 0.0, 1.0], 0, 0).expect("pairs");
    assert_eq!((small.p, small.exact), (0.5, true));
}

#[test]
fn intervals_by_hand() {
    // t with 2 degrees of freedom at 0.975 is 4.302653, the standard error of 1, 2, 6 is sqrt(7/3).
    let i = t_interval(&[1.0, 2.0, 6.0], 0.95).expect("three values");
    assert!((i.high - 3.0 - 4.302_652_729_9 * (7.0f64 / 3.0).sqrt()).abs() < 1e-8, "{i:?}");
    // Of the means of two draws from 0 and 1, a quarter are 0, half are 1/2, a quarter are 1: 90 % of them reach both ends, 40 % neither.
    let interval = |level| {
        let mean = |s: &[Vec<f64>]| s[0].iter().sum::<f64>() / 2.0;
        let found = Bootstrap { level, ..Bootstrap::default() }.interval(&[vec![0.0, 1.0]], mean);
        found.map(|i| (i.low, i.high))
    };
    assert_eq!(interval(0.9), Some((0.0, 1.0)));
    assert_eq!(interval(0.4), Some((0.5, 0.5)));
}

#[test]
fn boundaries_of_counts_and_correlations() {
    // 5 attempts, 3 successes: of the subsets of 2, one holds none; of 3, none does.
    assert!((pass_at_k(5, 3, 2).expect("k <= n") - 0.9).abs() < 1e-15);
    assert_eq!(pass_at_k(5, 3, 3), Some(1.0));
    assert_eq!(pass_at_k(5, 0, 5), Some(0.0));
    assert_eq!(probability_of_improvement(&[vec![]], &[vec![1.0]]), None);
    assert_eq!(probability_of_improvement(&[vec![1.0]], &[vec![]]), None);
    assert_eq!(probability_of_improvement(&[], &[]), None);
    assert_eq!(spearman(&[1.0, 1.0, 1.0], &[1.0, 2.0, 3.0]), None);
    assert_eq!(spearman(&[1.0, 2.0, 3.0], &[1.0, 1.0, 1.0]), None);
    assert_eq!(clopper_pearson(0, 0, 0.95), None);
    assert_eq!(clopper_pearson(8, 10, 0.95).map(|i| i.mid), Some(0.8));
    // The two-sided p-value of 6 of 6 is 2/64, which is on the level.
    assert_eq!(fewest_discordant(0.03125), 6);
    assert_eq!((mcnemar_power(6, 1.0, 1.0, 0.03125), mcnemar_power(6, 1.0, 1.0, 0.03124)), (1.0, 0.0));
    for level in [0.0, 1.0, f64::NAN] {
        assert!(std::panic::catch_unwind(|| t_interval(&[1.0, 2.0], level)).is_err(), "{level}");
        assert!(std::panic::catch_unwind(|| clopper_pearson(1, 2, level)).is_err(), "{level}");
    }
    // Ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4: covariance 4.5 over sqrt(4.5 * 5).
    let tied = spearman(&[1.0, 2.0, 2.0, 3.0], &[1.0, 2.0, 3.0, 4.0]).expect("varied");
    assert!((tied - 4.5 / 22.5f64.sqrt()).abs() < 1e-15);
}

#[test]
fn cells_columns_and_markdown() {
    let mut table = Table::new(&["task", "gain"]);
    table.push(vec![Cell::Text("a|b".into()), Cell::Number(0.123456)]);
    table.push(vec![Cell::Text("c".into()), Cell::Empty]);
    assert_eq!(table.column("gain"), Some(1));
    assert_eq!(table.column("task"), Some(0));
    assert_eq!(table.column("loss"), None);
    let numbers: Vec<_> = table.rows.iter().flatten().map(Cell::number).collect();
    assert_eq!(numbers, [None, Some(0.123456), None, None]);
    assert_eq!(table.to_markdown(), "| task | gain |\n| --- | --- |\n| a\\|b | 0.1235 |\n| c |  |\n");
}

#[test]
fn what_is_no_finite_number_stays_text_when_it_is_read() {
    let table = Table::from_csv("# command\na,b,c,d\n1.5,NaN,inf,\n").expect("a table");
    let text = |t: &str| Cell::Text(t.into());
    assert_eq!(table.rows, [vec![Cell::Number(1.5), text("NaN"), text("inf"), Cell::Empty]]);
}
