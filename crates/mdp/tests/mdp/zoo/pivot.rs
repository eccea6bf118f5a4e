use grpo_lambda_mdp::zoo::Pivot;
use grpo_lambda_mdp::{Oracle, Tabular};

#[test]
fn only_the_decision_has_an_advantage() {
    let tree = Pivot { position: 2, fillers: 3, length: 5 }.tree().unwrap();
    let oracle = Oracle::new(&tree, &Tabular::uniform(&tree));
    for edge in tree.edges() {
        let expected = match tree.token_name(edge) {
            "right" => 0.5,
            "wrong" => -0.5,
            _ => 0.0,
        };
        assert_eq!(oracle.advantage(edge), expected);
    }
}

#[test]
fn knobs_out_of_range_are_refused_by_name() {
    let refuse = |pivot: Pivot| pivot.tree().unwrap_err().to_string();
    assert_eq!(
        refuse(Pivot { position: 5, ..Pivot::default() }),
        "pivot: position = 5 must be below length - 1"
    );
    assert_eq!(refuse(Pivot { fillers: 0, ..Pivot::default() }), "pivot: fillers = 0 must be at least 1");
    assert_eq!(refuse(Pivot { length: 1, ..Pivot::default() }), "pivot: length = 1 must be at least 2");
}
