//! Claim `traces`: every trace is the matrix it is said to be, in linear time, with the column sums the theory predicts.

use crate::tolerance::{DENSE, IDENTITY, assert_close, assert_within, dot};
use grpo_lambda::trace::{
    AsPrinted, Both, Recent, RowIndex, RowNormalised, Sequence, Style, Token, Trace, dense,
};

const LENGTHS: [usize; 8] = [1, 2, 3, 4, 5, 16, 33, 257];
const DECAYS: [f64; 6] = [0.0, 0.3, 0.9, 0.98, 0.99, 1.0];
const FLOORS: [f64; 5] = [0.0, 1e-8, 1e-2, 0.5, 1.0];

/// A trace next to the matrix entry its equation prints, written down here a second time.
struct Case {
    name: String,
    trace: Box<dyn Trace>,
    entry: Box<dyn Fn(usize, usize, usize) -> f64>,
}

fn power(q: f64, n: usize) -> f64 {
    if n == 0 { 1.0 } else { q.powf(n as f64) }
}

fn cases(q: f64, floor: f64) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    let mut add = |name: &str, trace: Box<dyn Trace>, entry: Box<dyn Fn(usize, usize, usize) -> f64>| {
        cases.push(Case { name: format!("{name} q={q} floor={floor}"), trace, entry });
    };
    add("token", Box::new(Token), Box::new(|t, k, _| f64::from(t == k)));
    add("recent, Eq. 1", Box::new(Recent { q }), Box::new(move |t, k, _| power(q, t - k)));
    add("both, Eq. 2", Box::new(Both { q }), Box::new(move |t, k, _| power(q, t - k).max(power(q, k))));
    add(
        "recent, row index",
        Box::new(RowIndex { q, floor, style: Style::Recent }),
        Box::new(move |t, k, _| power(q, t - k).max(floor)),
    );
    add(
        "both, row index",
        Box::new(RowIndex { q, floor, style: Style::Both }),
        Box::new(move |t, k, _| power(q, t - k).max(power(q, k)).max(floor)),
    );
    for extra in [None, Some(0), Some(100)] {
        // `max_length` is fixed per trace, the length is not: the largest length of LENGTHS plus something.
        let side = extra.map(|e| LENGTHS[LENGTHS.len() - 1] + e);
        let last = move |len: usize| side.unwrap_or(len) - 1;
        add(
            &format!("recent, as printed {side:?}"),
            Box::new(AsPrinted { q, floor, style: Style::Recent, max_length: side }),
            Box::new(move |t, k, len| if t == k { 1.0 } else { power(q, last(len) - k).max(floor) }),
        );
        add(
            &format!("both, as printed {side:?}"),
            Box::new(AsPrinted { q, floor, style: Style::Both, max_length: side }),
            Box::new(
                move |t, k, len| {
                    if t == k { 1.0 } else { power(q, last(len) - k).max(power(q, k)).max(floor) }
                },
            ),
        );
    }
    cases
}

/// These traces, row-normalised; and the non-causal one.
fn normalised(q: f64, floor: f64) -> Vec<Case> {
    let rows = cases(q, floor).into_iter().map(|Case { name, trace, entry }| Case {
        name: format!("row-normalised {name}"),
        trace: Box::new(RowNormalised(trace)),
        entry,
    });
    rows.collect()
}

/// The matrix the equation prints: 0 above the diagonal, rows divided by their sums if asked.
fn matrix(case: &Case, len: usize, normalise: bool) -> Vec<Vec<f64>> {
    let mut rows: Vec<Vec<f64>> = (0..len)
        .map(|t| (0..len).map(|k| if k > t { 0.0 } else { (case.entry)(t, k, len) }).collect())
        .collect();
    if normalise {
        for row in &mut rows {
            let sum: f64 = row.iter().sum();
            row.iter_mut().for_each(|e| *e /= sum);
        }
    }
    rows
}

/// Numbers in `[-1, 1]` without a pattern.
fn noise(len: usize, phase: f64) -> Vec<f64> {
    (0..len).map(|i| ((i as f64 + 1.0) * 12.9898 + phase).sin() * (i as f64 * 0.7 + phase).cos()).collect()
}

fn compare(case: &Case, len: usize, normalise: bool) {
    let m = matrix(case, len, normalise);
    let name = format!("{} T={len}", case.name);
    let columns =
        |y: &[f64]| -> Vec<f64> { (0..len).map(|k| (0..len).map(|t| m[t][k] * y[t]).sum()).collect() };
    let rows = |x: &[f64]| -> Vec<f64> { m.iter().map(|row| dot(row, x)).collect() };
    let (x, y) = (noise(len, 0.3), noise(len, 1.7));
    let (z, g) = (case.trace.apply(&x), case.trace.adjoint(&y));
    assert_within(&z, &rows(&x), DENSE, 1.0, &format!("{name}: apply"));
    assert_within(&g, &columns(&y), DENSE, 1.0, &format!("{name}: adjoint"));
    let ones = vec![1.0; len];
    assert_close(&case.trace.column_sums(len), &columns(&ones), IDENTITY, &format!("{name}: column sums"));
    assert_close(&case.trace.row_sums(len), &rows(&ones), IDENTITY, &format!("{name}: row sums"));
    assert!((dot(&y, &z) - dot(&g, &x)).abs() <= DENSE * len as f64, "{name}: adjoint identity");
}

fn for_every_trace(mut test: impl FnMut(Case, bool)) {
    for q in DECAYS {
        for floor in FLOORS {
            cases(q, floor).into_iter().for_each(|case| test(case, false));
            normalised(q, floor).into_iter().for_each(|case| test(case, true));
        }
    }
}

#[test]
fn linear_time_apply_adjoint_and_sums_equal_the_dense_matrix_of_the_equation() {
    let mut compared = 0;
    for_every_trace(|case, normalise| {
        for len in LENGTHS {
            compare(&case, len, normalise);
            compared += 1;
        }
    });
    println!("{compared} traces and lengths compared with their dense matrices");
}

#[test]
fn the_entries_of_every_trace_are_those_of_its_equation() {
    for_every_trace(|case, normalise| {
        for len in [1, 2, 3, 5, 16] {
            for (ours, printed) in dense(case.trace.as_ref(), len).iter().zip(matrix(&case, len, normalise)) {
                assert_close(ours, &printed, IDENTITY, &format!("{} T={len}", case.name));
            }
        }
    });
}

#[test]
fn sequence_is_one_over_t_everywhere_with_unit_column_and_row_sums() {
    for len in LENGTHS {
        let (x, y) = (noise(len, 0.3), noise(len, 1.7));
        let mean = |v: &[f64]| vec![v.iter().sum::<f64>() / len as f64; len];
        assert_close(&Sequence.apply(&x), &mean(&x), IDENTITY, "apply");
        assert_close(&Sequence.adjoint(&y), &mean(&y), IDENTITY, "adjoint");
        assert_eq!(dense(&Sequence, len), vec![vec![1.0 / len as f64; len]; len]);
        assert_eq!((Sequence.column_sums(len), Sequence.row_sums(len)), (vec![1.0; len], vec![1.0; len]));
    }
}

#[test]
fn the_literally_printed_matrix_has_a_hump_of_column_sums() {
    // [C2], T = 256, q = 0.99: 20.7 at the first token (Eq. 1: 92.4), 36.4 in the middle, 1 at the last.
    let printed = AsPrinted { q: 0.99, floor: 0.0, style: Style::Recent, max_length: None };
    let c = printed.column_sums(256);
    assert_within(&[c[0], c[128], c[255]], &[20.7, 36.4, 1.0], 0.05, 1.0, "as printed");
    let peak = (0..256).max_by(|&a, &b| c[a].total_cmp(&c[b])).expect("not empty");
    assert!((100..200).contains(&peak), "the peak lies inside: {peak}");
    assert!(c[..peak].is_sorted() && c[peak..].is_sorted_by(|a, b| a >= b), "one hump");
}

#[test]
fn the_literally_printed_matrix_agrees_with_equation_1_at_the_first_and_last_token_only() {
    for (style, plain, agree) in [
        (Style::Recent, Box::new(Recent { q: 0.99 }) as Box<dyn Trace>, vec![0, 255]),
        (Style::Both, Box::new(Both { q: 0.99 }), vec![0, 1, 2, 255]),
    ] {
        let printed = dense(&AsPrinted { q: 0.99, floor: 0.0, style, max_length: None }, 256);
        let equation = dense(plain.as_ref(), 256);
        let same = |t: &usize| printed[*t].iter().zip(&equation[*t]).all(|(a, b)| (a - b).abs() < IDENTITY);
        assert_eq!((0..256).filter(same).collect::<Vec<_>>(), agree, "{style:?}");
    }
}

#[test]
fn a_floor_of_one_percent_flattens_half_of_the_matrix() {
    // [C2]: 49 % of the causal entries at T = 768, q = 0.98.
    let plain = dense(&RowIndex { q: 0.98, floor: 0.0, style: Style::Recent }, 768);
    let floored = dense(&RowIndex { q: 0.98, floor: 1e-2, style: Style::Recent }, 768);
    let causal = 768 * 769 / 2;
    let changed: usize = (0..768).map(|t| (0..=t).filter(|&k| plain[t][k] != floored[t][k]).count()).sum();
    let share = changed as f64 / f64::from(causal);
    assert!((0.485..0.5).contains(&share), "{share}");
}

#[test]
fn a_single_token_is_its_own_trace() {
    for_every_trace(|case, _| {
        assert_eq!(dense(case.trace.as_ref(), 1), [[1.0]], "{}", case.name);
        assert_eq!(case.trace.apply(&[0.7]), [0.7], "{}", case.name);
        assert_eq!(case.trace.adjoint(&[0.7]), [0.7], "{}", case.name);
        assert_eq!((case.trace.column_sums(1), case.trace.row_sums(1)), (vec![1.0], vec![1.0]));
    });
}

#[test]
fn two_tokens_by_hand() {
    let rows = |trace: &dyn Trace| dense(trace, 2);
    assert_eq!(rows(&Recent { q: 0.5 }), [[1.0, 0.0], [0.5, 1.0]]);
    // max(q^1, q^0) = 1: the first token is never forgotten.
    assert_eq!(rows(&Both { q: 0.5 }), [[1.0, 0.0], [1.0, 1.0]]);
    for style in [Style::Recent, Style::Both] {
        let printed = AsPrinted { q: 0.5, floor: 0.0, style, max_length: None };
        let wide = AsPrinted { max_length: Some(4), ..printed };
        let first = if style == Style::Recent { [0.5, 0.125] } else { [1.0, 1.0] };
        assert_eq!(rows(&printed), [[1.0, 0.0], [first[0], 1.0]]);
        assert_eq!(rows(&wide), [[1.0, 0.0], [first[1], 1.0]]);
    }
    assert_eq!(rows(&RowNormalised(Recent { q: 1.0 })), [[1.0, 0.0], [0.5, 0.5]]);
    assert_eq!(Recent { q: 0.5 }.apply(&[1.0, 2.0]), [1.0, 2.5]);
    assert_eq!(Recent { q: 0.5 }.adjoint(&[1.0, 2.0]), [2.0, 2.0]);
    assert_eq!(Both { q: 0.5 }.apply(&[1.0, 2.0]), [1.0, 3.0]);
}

#[test]
#[should_panic(expected = "a response of 5 tokens in a trace matrix of 4")]
fn a_response_longer_than_its_printed_matrix_is_refused() {
    AsPrinted { q: 0.5, floor: 0.0, style: Style::Recent, max_length: Some(4) }.apply(&[0.0; 5]);
}
