use grpo_lambda_stats::table::{Cell, Table};

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
