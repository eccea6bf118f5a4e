use grpo_lambda::methods;
use grpo_lambda_mdp::expected::{Situation, compare};
use grpo_lambda_mdp::{Oracle, zoo};
use grpo_lambda_tools::mdp_command::analysis::views;
use grpo_lambda_tools::mdp_command::{How, expectation};

#[test]
fn an_update_against_the_gradient_keeps_the_sign_of_its_credit() {
    let task = zoo::find("eos_hazard_dependent").unwrap();
    let tree = (task.build)();
    let policy = (task.initial)(&tree);
    let (oracle, method) = (Oracle::new(&tree, &policy), methods::parse("grpo_lambda", "").unwrap());
    let (expected, how) = expectation(&method, &Situation::on_policy(&tree, &policy, 8), 0);
    let comparison = compare(&expected, &oracle);
    assert!(comparison.scale < 0.0 && how == How::Exact);
    let (table, _) = views(task.name, &method, (&expected, how), &comparison, &oracle);
    let number = |row: usize, name: &str| table.rows[row][table.column(name).unwrap()].number().unwrap();
    for row in 0..table.rows.len() {
        let (credit, update) = (number(row, "credit"), number(row, "update"));
        assert!(credit * update > 0.0 || update.abs() < 1e-15, "{:?}", table.rows[row]);
    }
    assert!((0..table.rows.len()).any(|row| number(row, "credit") < 0.0));
}
