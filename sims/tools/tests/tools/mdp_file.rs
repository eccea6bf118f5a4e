use grpo_lambda_mdp::Oracle;
use grpo_lambda_tools::mdp_file::{parse, read_text};

const ROADS: &str = r#"
name = "two roads"
tokens = ["left", "right", "EOS"]
eos = "EOS"
horizon = 3

[[rewards]]
pattern = "left *"
reward = 1.0

[[illegal]]
prefix = ""
tokens = "EOS"

[[policy]]
prefix = []
probabilities = { left = 0.25, right = 0.75 }
"#;

#[test]
fn the_example_of_the_documentation_is_read() {
    let file = parse("roads", ROADS, None).unwrap();
    assert_eq!(Oracle::new(&file.tree, &file.policy).j, 0.25);
    let nameless = read_text("some/roads.toml", &ROADS.replace("name = ", "# "), None).unwrap();
    assert_eq!((file.name.as_str(), nameless.name.as_str()), ("two roads", "roads"));
}

#[test]
fn every_mistake_is_named_with_its_line() {
    let cases = [
        ("horizon = 3", "horizon = -3", 5, "-3"),
        ("horizon = 3", "horizon = 0", 5, "horizon"),
        ("horizon = 3", "horizon = 10001", 5, "horizon = 10001 must be from 1 to 10000"),
        ("horizon = 3", "horzion = 3", 5, "unknown field `horzion`"),
        ("eos = \"EOS\"", "eos = \"STOP\"", 4, "STOP"),
        ("reward = 1.0", "reward = 1.5", 9, "rewards[0].reward = 1.5"),
        ("reward = 1.0", "reward = nan", 9, "NaN"),
        ("pattern = \"left *\"", "pattern = \"* left\"", 8, "only stand at the end"),
        ("pattern = \"left *\"", "pattern = \"lift *\"", 8, "lift"),
        ("pattern = \"left *\"", "pattern = 3", 8, "expected tokens"),
        ("left = 0.25", "left = 0.5", 17, "must sum to 1"),
        ("tokens = \"EOS\"", "tokens = \"EOS\" x", 13, ""),
        ("horizon = 3", "horizon = 3\ngamma = 1.5", 6, "gamma"),
        ("eos = \"EOS\"", "", 1, "missing field `eos`"),
        ("\"two roads\"", "two", 2, "name = two: a text needs quotes, as in name = \"two\""),
        ("\"two roads\"", "two roads # a", 2, "name = two roads: a text needs quotes"),
        ("\"EOS\"\nhorizon", "false_start\nhorizon", 4, "eos = false_start: a text needs quotes"),
        ("pattern = \"left *\"", "pattern = left *", 8, "pattern = left *: a text needs quotes"),
    ];
    for (right, wrong, line, what) in cases {
        let text = ROADS.replacen(right, wrong, 1);
        let Err((at, message)) = parse("roads", &text, None) else { panic!("accepted: {wrong}") };
        assert!(message.contains(what) && !message.contains('\n'), "{wrong}: {message}");
        assert_eq!(at, line, "{wrong}: {message}");
    }
}
