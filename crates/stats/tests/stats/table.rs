use grpo_lambda_stats::table::{Cell, Table, significant};
use serde::Serialize;

#[test]
fn csv_round_trips_text_numbers_and_gaps() {
    let mut t = Table::new(&["name", "x", "note"]);
    t.push(vec!["a, \"b\"".into(), 0.125.into(), Cell::Empty]);
    t.push(vec!["# c".into(), 3usize.into(), "line".into()]);
    let text = t.to_csv("sim demo");
    assert!(text.starts_with("# sim demo\n"));
    assert_eq!(Table::from_csv(&text).expect("own output"), t);
}

#[test]
fn typed_rows_are_a_table_and_come_back_from_it() {
    #[derive(Serialize, serde::Deserialize, Debug, PartialEq)]
    struct Row {
        name: String,
        x: f64,
        gap: Option<f64>,
        n: usize,
    }
    let rows =
        || [(1.5e-9, None), (-0.25, Some(2.0))].map(|(x, gap)| Row { name: "#a, b".into(), x, gap, n: 3 });
    let table = Table::from_rows(rows());
    assert_eq!(table.columns, ["name", "x", "gap", "n"]);
    assert_eq!(table.rows[0], [Cell::from("#a, b"), 1.5e-9.into(), Cell::Empty, 3usize.into()]);
    assert_eq!(table.to_rows::<Row>().expect("own rows"), rows());
    let text = table.to_csv("sim demo").replace("-0.25", "much");
    let error = Table::from_csv(&text).expect("a table").to_rows::<Row>().expect_err("no number").to_string();
    assert!(error.contains("invalid float"), "{error}");
}

#[test]
fn ragged_csv_is_refused() {
    assert!(Table::from_csv("a,b\n1\n").is_err());
}

#[test]
fn significant_digits_and_spelling() {
    assert_eq!(significant(64.3321, 3), "64.3");
    assert_eq!(significant(1e20, 3), "1e20");
    assert_eq!(significant(-0.000123456, 4), "-0.0001235");
    assert_eq!(significant(f64::NAN, 4), "NaN");
}
