//! `sim estimate --against` on the numbers of this program's own methods, whose convention is therefore known.

#![allow(clippy::unwrap_used)] // the lint spares test functions but not their helpers

use assert_cmd::Command;
use serde_json::{Value, json};
use std::path::Path;

/// The exit code of the program, and the text of both streams.
fn run(args: &[&str]) -> (Option<i32>, String) {
    let output = Command::cargo_bin("grpo-sim").unwrap().args(args).output().unwrap();
    (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
}

/// Groups in a file, and the gradient and the loss that a method gives on them as one batch, as another trainer's numbers.
struct Given {
    folder: tempfile::TempDir,
}

impl Given {
    fn new(groups: &str, settings: &[&str]) -> Given {
        let given = Given { folder: tempfile::tempdir().unwrap() };
        std::fs::write(given.path("groups"), groups).unwrap();
        let input = given.path("groups");
        let (code, text) = run(&[&["estimate", "--batch", "--input", &input, "--method"], settings].concat());
        assert_eq!(code, Some(0), "{text}");
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let kept = |line: Value| json!({"gradient": line["dlogps"], "loss": line["loss"]}).to_string() + "\n";
        given.write(&lines.map(kept).collect::<String>());
        given
    }

    fn path(&self, name: &str) -> String {
        Path::new(self.folder.path()).join(name).to_str().unwrap().to_owned()
    }

    /// Their numbers, in the place of the method's.
    fn write(&self, theirs: &str) {
        std::fs::write(self.path("theirs"), theirs).unwrap();
    }

    fn lines(&self) -> Vec<String> {
        std::fs::read_to_string(self.path("theirs")).unwrap().lines().map(str::to_owned).collect()
    }

    fn against(&self, settings: &[&str]) -> (Option<i32>, String) {
        let (theirs, input) = (self.path("theirs"), self.path("groups"));
        run(&[&["estimate", "--against", &theirs, "--input", &input], settings].concat())
    }

    /// The report, and its paragraph on a quantity.
    fn of(&self, quantity: &str) -> String {
        let (code, text) = self.against(&[]);
        assert_eq!(code, Some(0), "{text}");
        let paragraphs = text.split("\n\n").filter(|part| part.starts_with(&format!("{quantity}:")));
        paragraphs.collect::<Vec<_>>().join("\n")
    }
}

const GROUPS: &str = r#"{"id":"a","rewards":[1,0,0,1],"truncated":[false,false,true,false],"logps":[[-0.5,-0.2,-0.1],[-1.5,-0.3],[-0.9,-0.7,-0.4,-0.1],[-0.6]],"old_logps":[[-0.5,-0.3,-0.1],[-1.5,-0.3],[-1.0,-0.7,-0.4,-0.1],[-0.6]]}
{"id":"b","rewards":[0,0,1,0],"truncated":[true,false,false,false],"logps":[[-2.0,-0.2],[-1.1,-0.3,-0.2],[-0.4,-0.2],[-0.8,-0.6]],"old_logps":[[-2.0,-0.2],[-1.1,-0.4,-0.2],[-0.5,-0.2],[-0.8,-0.6]]}
"#;
const WITH_REFERENCE: &str = r#"{"rewards":[1,0,0.5],"logps":[[-0.5,-0.2],[-1.5],[-0.9,-0.7,-0.1]],"old_logps":[[-0.6,-0.3],[-1.4],[-1.0,-0.6,-0.2]],"ref_logps":[[-0.7,-0.25],[-1.1],[-0.8,-0.9,-0.3]]}
{"rewards":[0,0.25,1],"logps":[[-0.4,-0.6],[-1.1],[-0.3]],"old_logps":[[-0.5,-0.5],[-1.2],[-0.35]],"ref_logps":[[-0.5,-0.9],[-1.3],[-0.6]]}
"#;
const EQUAL: &str = r#"{"rewards":[1,0,0.5],"logps":[[-0.5,-0.2],[-1.5,-0.3],[-0.9,-0.7]],"old_logps":[[-0.6,-0.1],[-1.4,-0.5],[-0.9,-0.5]]}
{"rewards":[0,0.25,1],"logps":[[-0.4,-0.6],[-1.1,-0.8],[-0.3,-0.7]],"old_logps":[[-0.6,-0.5],[-1.2,-0.5],[-0.9,-0.5]]}
"#;

#[test]
fn reductions_that_coincide_on_a_batch_are_all_named_with_their_frameworks() {
    let given = Given::new(EQUAL, &["grpo"]);
    for quantity in ["gradient", "loss"] {
        let found = given.of(quantity);
        let names =
            "reduction: token_mean (the same here: group_token_mean, response_mean, constant max_length=2)";
        assert!(found.contains(names), "{found}");
        assert!(found.contains("TRL loss_type=dapo (the default)"), "{found}");
        assert!(found.contains("TRL loss_type=grpo\n"), "{found}");
        assert!(found.contains(" conventions, each of which gives these numbers on this batch:"), "{found}");
    }
}

#[test]
fn responses_that_were_cut_off_may_weigh_nothing() {
    for reduction in ["token_mean", "response_mean"] {
        let given = Given::new(GROUPS, &["grpo", "mask_truncated=true", &format!("reduction={reduction}")]);
        for quantity in ["gradient", "loss"] {
            let found = given.of(quantity);
            let command = format!("here: grpo reduction={reduction} mask_truncated=true\n");
            assert!(found.contains(&command), "{found}");
        }
    }
}

#[test]
fn the_loss_is_searched_with_what_the_gradient_shows() {
    let given = Given::new(WITH_REFERENCE, &["grpo", "beta=0.04"]);
    let loss = given.of("loss");
    assert!(loss.contains("here: grpo beta=0.040000 kl=k3 reduction=response_mean\n"), "{loss}");
    // A constant length that no convention has is a factor of the one that was tried.
    let given = Given::new(GROUPS, &["dr_grpo", "max_length=300"]);
    for quantity in ["gradient", "loss"] {
        let found = given.of(quantity);
        assert!(found.contains("(accumulation, workers, or max_length=300)"), "{found}");
    }
}

#[test]
fn a_loss_may_fit_by_chance_where_nothing_gives_the_gradient() {
    let given = Given::new(GROUPS, &["grpo"]);
    let mut lines: Vec<Value> =
        given.lines().iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    for (i, row) in lines.iter_mut().flat_map(|line| line["gradient"].as_array_mut().unwrap()).enumerate() {
        row[0] = json!(0.1 + 0.01 * (i * i) as f64);
    }
    given.write(&lines.iter().map(|line| format!("{line}\n")).collect::<String>());
    let found = given.of("loss");
    assert!(found.starts_with("loss: nothing gives the gradient"), "{found}");
    assert!(found.contains("here: grpo reduction=response_mean"), "{found}");
}

#[test]
fn tighter_bounds_are_called_the_clip() {
    let given = Given::new(WITH_REFERENCE, &["grpo", "epsilon_low=0.05", "epsilon_high=0.05"]);
    let found = given.of("gradient");
    assert!(found.contains("the clip: only tokens with a ratio of at "), "{found}");
}

#[test]
fn rows_in_another_order_are_named() {
    let given = Given::new(GROUPS, &["grpo"]);
    let advantages = |rows: [Value; 2]| {
        given.write(&rows.map(|row| json!({ "advantages": row }).to_string() + "\n").concat());
        given.of("advantages")
    };
    let (first, second) = (json!([0.5, -0.5, -0.5, 0.5]), json!([-0.25, -0.25, 0.75, -0.25]));
    assert!(advantages([first.clone(), second.clone()]).starts_with("advantages: 1 of"));
    for rows in [[second.clone(), first.clone()], [json!([-0.5, 0.5, 0.5, -0.5]), second]] {
        let found = advantages(rows);
        assert!(
            found.contains("as a set they are those of `") && found.contains("in another order"),
            "{found}"
        );
    }
}

#[test]
fn numbers_that_do_not_belong_or_are_given_twice_are_refused() {
    let given = Given::new(GROUPS, &["grpo"]);
    let lines = given.lines();
    let with_ids: Vec<String> = ["b", "a"]
        .iter()
        .zip(&lines)
        .map(|(id, line)| line.replacen('{', &format!("{{\"id\":\"{id}\","), 1))
        .collect();
    let refused = |theirs: &str, settings: &[&str], what: &str| {
        given.write(theirs);
        let (code, text) = given.against(settings);
        assert!(code == Some(2) && text.contains(what), "{text}");
    };
    let order = "theirs:1: id = the text `b`: the group of this place is \"a\"; put the lines in the order";
    refused(&with_ids.join("\n"), &[], order);
    refused(r#"{"loss":5,"loss":0}"#, &[], "theirs:1: loss: given twice; each field may appear once");
    let both = lines[0].replacen('{', "{\"dlogps\":[],", 1) + "\n" + &lines[1];
    refused(
        &both,
        &[],
        "theirs:1: gradient: given twice, as `dlogps` is the same; each field may appear once",
    );
    let all = lines.join("\n");
    refused(&all, &["max_length=0"], "max_length=0: must be a number of at least 1");
    refused(&all, &["beta=0.1", "beta=0.2"], "beta=0.2: given twice; give each setting once");
    refused(&all, &["--method", "rloo"], "--method: the search reads no method; add --explain");
}

/// Group and numbers have anything in the slots that no token was trained in, be it null.
#[test]
fn masked_slots_are_not_read() {
    let bare = r#"{"rewards":[1,0],"logps":[[-0.5,-0.25],[-1.5,-1]],"old_logps":[[-0.6,-0.2],[-1.4,-1.1]]}"#;
    let padded = r#"{"rewards":[1,0],"logps":[[-0.5,null,-0.25],[-1.5,-1,"x"]],"old_logps":[[-0.6,9,-0.2],[-1.4,-1.1,null]],"mask":[[1,0,1],[1,1,0]]}"#;
    let rows = |given: &Given| -> Vec<f64> {
        let line: Value = serde_json::from_str(&given.lines()[0]).unwrap();
        let rows = line["gradient"].as_array().unwrap().iter().flat_map(|row| row.as_array().unwrap());
        rows.map(|x| x.as_f64().unwrap()).filter(|x| *x != 0.0).collect()
    };
    let (bare, padded) = (Given::new(bare, &["rloo"]), Given::new(padded, &["rloo"]));
    assert_eq!((rows(&bare).len(), rows(&bare)), (4, rows(&padded)));
    let line: Value = serde_json::from_str(&padded.lines()[0]).unwrap();
    let mut gradient = line["gradient"].clone();
    (gradient[0][1], gradient[1][2]) = (Value::Null, Value::Null);
    padded.write(&json!({ "gradient": gradient }).to_string());
    let found = padded.of("gradient");
    assert!(found.contains("give") && !found.contains("none of"), "{found}");
    gradient[0][0] = Value::Null;
    padded.write(&json!({ "dlogps": gradient }).to_string());
    let (code, text) = padded.against(&[]);
    assert!(code == Some(2) && text.contains("dlogps[0][0] = null; must be a finite number"), "{text}");
}

#[test]
fn one_response_is_enough_where_no_group_is_compared() {
    let groups = r#"{"rewards":[1],"logps":[[-0.5,-0.4]],"old_logps":[[-0.5,-0.6]]}
{"rewards":[0],"logps":[[-0.5]],"old_logps":[[-0.7]]}
"#;
    let given = Given::new(groups, &["reinforce_pp"]);
    let found = given.of("gradient");
    assert!(found.contains("advantages: reinforce_pp"), "{found}");
    let input = given.path("groups");
    let (code, text) = run(&["estimate", "--method", "grpo", "--input", &input]);
    assert!(
        code == Some(2) && text.contains("the group has one response; a group-relative baseline"),
        "{text}"
    );
}
