//! `sim estimate` and `sim methods --json` on good input, against numbers worked out by hand.

#![allow(clippy::unwrap_used)] // the lint spares test functions but not their helpers

use assert_cmd::Command;
use grpo_lambda::methods;
use serde_json::{Value, json};
use std::collections::HashSet;

#[track_caller]
fn output(args: &[&str], stdin: &str) -> (String, String) {
    let output = Command::cargo_bin("grpo-sim").unwrap().args(args).write_stdin(stdin).output().unwrap();
    let (stdout, stderr) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "sim {}: {stderr}", args.join(" "));
    (stdout, stderr)
}

#[track_caller]
fn estimate(settings: &[&str], stdin: &str) -> Vec<Value> {
    let (stdout, stderr) = output(&[&["estimate", "--method"], settings].concat(), stdin);
    assert_eq!(stderr, "");
    stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[track_caller]
fn close(found: &Value, expected: &Value, tolerance: f64) {
    match (found, expected) {
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).for_each(|(a, b)| close(a, b, tolerance));
        }
        _ => {
            let (a, b) = (found.as_f64().unwrap(), expected.as_f64().unwrap());
            assert!((a - b).abs() <= tolerance, "{a} is not {b}");
        }
    }
}

#[test]
fn grpo_on_two_responses_by_hand() {
    // Rewards 1 and 0: mean 1/2, std (ddof 1) 1/sqrt 2, so A = +-0.5/(0.7071067811865476 + 1e-4) = +-0.7070067953.
    // Ratios: 1 and e^(ln 1.5) = 1.5, clipped at 1.2 since A > 0; then 0.5, clipped at 0.8 since A < 0.
    // Weights 1/(2 responses * T): 1/4, 1/4, 1/2.
    let a = 0.5 / (std::f64::consts::FRAC_1_SQRT_2 + 1e-4);
    let line = json!({
        "rewards": [1, 0],
        "logps": [[-0.5, -1.0], [-2.0]],
        "old_logps": [[-0.5, -1.0 - 1.5f64.ln()], [-2.0 + 2f64.ln()]],
    });
    let found = &estimate(&["grpo"], &format!("{line}\n"))[0];
    close(&found["advantages"], &json!([[a, a], [-a]]), 1e-15);
    close(&found["loss"], &json!(-a / 4.0 - 1.2 * a / 4.0 + 0.8 * a / 2.0), 1e-15);
    close(&found["dlogps"], &json!([[-a / 4.0, 0.0], [0.0]]), 1e-15);
    let metrics = &found["metrics"];
    close(&metrics["tokens"], &json!(3.0), 0.0);
    close(&metrics["ratio_mean"], &json!(1.0), 1e-15);
    close(&metrics["clip_fraction_low"], &json!(1.0 / 3.0), 1e-15);
    close(&metrics["clip_fraction_high"], &json!(1.0 / 3.0), 1e-15);
}

#[test]
fn grpo_lambda_weighs_tokens_by_column_sums() {
    // On-policy with lambda = 1/2 and T = 3: column sums 1.75, 1.5, 1; token mean over 4 tokens; A = +-0.5 unscaled.
    let line = r#"{"rewards":[1,0],"logps":[[-1,-1,-1],[-1]],"old_logps":[[-1,-1,-1],[-1]]}"#;
    let found = &estimate(&["grpo_lambda", "lambda=0.5", "scale=none", "clamp=none"], line)[0];
    close(&found["dlogps"], &json!([[-0.21875, -0.1875, -0.125], [0.125]]), 0.0);
    close(&found["loss"], &json!(-0.25), 0.0);
}

#[test]
fn the_kl_term_by_hand() {
    // d = log pi - log ref = ln 2: k3 = 1/2 - 1 + ln 2, slope 1 - 1/2. Weight 1/2 per response, beta = 0.1.
    let line = json!({"rewards": [1, 1], "logps": [[-1.0], [-1.0]], "old_logps": [[-1.0], [-1.0]],
        "ref_logps": [[-1.0 - 2f64.ln()], [-1.0]]});
    let found = &estimate(&["grpo", "beta=0.1"], &line.to_string())[0];
    close(&found["loss"], &json!(0.05 * (2f64.ln() - 0.5)), 1e-16);
    close(&found["dlogps"], &json!([[0.025], [0.0]]), 1e-16);
    close(&found["metrics"]["zero_variance_groups"], &json!(1.0), 0.0);
}

#[test]
fn ungraded_responses_are_left_out_and_ids_echoed() {
    let line =
        r#"{"id":"prompt \"7\"","rewards":[1,null,0],"logps":[[-1],[-1],[-1]],"old_logps":[[-1],[-1],[-1]]}"#;
    let found = &estimate(&["dr_grpo", "max_length=1"], line)[0];
    assert_eq!(found["id"], "prompt \"7\"");
    close(&found["advantages"], &json!([[0.5], [0.0], [-0.5]]), 0.0);
    close(&found["metrics"]["ungraded"], &json!(1.0), 0.0);
}

#[test]
fn no_number_is_a_negative_zero() {
    let line = r#"{"rewards":[1,1],"logps":[[-1],[-1]],"old_logps":[[-1],[-1]]}"#;
    let (stdout, _) = output(&["estimate", "--method", "grpo"], line);
    assert!(!stdout.contains("-0.0"), "{stdout}");
}

/// 500 groups with numbers of full precision, a blank line here and there, Windows line ends on some.
fn many() -> String {
    let mut text = String::from("\u{feff}");
    for i in 0..500u32 {
        let x = |k: u32| -(f64::from(i * 7 + k) * 0.618_033_988_749_894_9).fract() - 0.001;
        let line = json!({"id": i, "rewards": [x(1), x(2), x(3)], "logps": [[x(4), x(5)], [x(6)], [x(7), x(8), x(9)]],
            "old_logps": [[x(10), x(11)], [x(12)], [x(13), x(14), x(15)]]});
        text += &line.to_string();
        text += if i % 7 == 0 { "\r\n\n" } else { "\n" };
    }
    text
}

#[test]
fn order_is_kept_and_threads_change_nothing() {
    let input = many();
    let with_threads = |n: &str| {
        let mut command = Command::cargo_bin("grpo-sim").unwrap();
        command.env("RAYON_NUM_THREADS", n).args(["estimate", "--method", "grpo_lambda", "style=both"]);
        command.write_stdin(input.as_str()).output().unwrap().stdout
    };
    let one = with_threads("1");
    assert!(one == with_threads("2"), "the output depends on the number of threads");
    let ids: Vec<_> = String::from_utf8(one)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].as_u64().unwrap())
        .collect();
    assert_eq!(ids, (0..500).collect::<Vec<_>>());
}

#[test]
fn numbers_read_back_to_the_bits_the_library_computes() {
    use grpo_lambda::group::{Group, Response};
    let numbers =
        |v: &Value| -> Vec<f64> { v.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect() };
    let lists = |v: &Value| -> Vec<Vec<f64>> { v.as_array().unwrap().iter().map(numbers).collect() };
    let input = many();
    let method = methods::parse("grpo_lambda", "style=both").unwrap().method;
    let inputs = input.trim_start_matches('\u{feff}').lines().filter(|l| !l.is_empty());
    for (line, found) in inputs.zip(estimate(&["grpo_lambda", "style=both"], &input)) {
        let given: Value = serde_json::from_str(line).unwrap();
        let (rewards, logps, old) =
            (numbers(&given["rewards"]), lists(&given["logps"]), lists(&given["old_logps"]));
        let responses = old.into_iter().zip(rewards).map(|(old, reward)| Response::graded(old, reward));
        let batch = methods::evaluate(method.as_ref(), &[Group { responses: responses.collect() }], &logps);
        assert_eq!(found["loss"].as_f64().unwrap().to_bits(), batch.value.to_bits());
        assert_eq!(lists(&found["dlogps"]), batch.dlogps);
        assert_eq!(lists(&found["advantages"]), batch.advantages);
    }
}

#[test]
fn a_file_gives_what_standard_input_gives() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), many()).unwrap();
    let (from_file, _) =
        output(&["estimate", "--method", "rloo", "--input", file.path().to_str().unwrap()], "");
    let (from_stdin, _) = output(&["estimate", "--method", "rloo"], &many());
    assert_eq!(from_file, from_stdin);
}

#[test]
fn positive_log_probabilities_get_one_warning_for_the_whole_input() {
    let line = r#"{"rewards":[1,0],"logps":[[0.5],[-1]],"old_logps":[[0.5],[2]]}"#;
    let (stdout, stderr) = output(&["estimate", "--method", "grpo"], &format!("{line}\n{line}\n"));
    assert_eq!(stdout.lines().count(), 2);
    assert_eq!(
        stderr,
        "grpo-sim estimate: warning: stdin:1: logps[0][0] = 0.5 (and 5 more) used as it is; a log-probability is at most 0\n"
    );
    let line = r#"{"rewards":[1,0],"logps":[[-1],[-1]],"old_logps":[[-1],[1e300]]}"#;
    assert!(
        output(&["estimate", "--method", "grpo"], line).1.contains("old_logps[1][0] = 1e300 used as it is")
    );
}

#[test]
fn settings_without_effect_get_one_warning() {
    let line = r#"{"rewards":[1,0],"logps":[[-0.5],[-1]],"old_logps":[[-0.5],[-1]]}"#;
    let args = ["estimate", "--method", "grpo_lambda", "soft_clamp=inner", "max_length=64"];
    let (stdout, stderr) = output(&args, line);
    assert_eq!(
        stderr,
        "grpo-sim estimate: warning: soft_clamp=inner has no effect with update=trace; max_length=64 has no effect with reduction=token_mean\n"
    );
    assert_eq!(stdout, output(&args[..3], line).0);
}

#[test]
fn given_advantages_take_the_place_of_the_methods_own() {
    // Token mean over 3 tokens on-policy: the gradient of a token is -A/3.
    for advantages in ["[3,-1.5]", "[[3,3],[-1.5]]", "[3,[-1.5]]"] {
        let line =
            format!(r#"{{"advantages":{advantages},"logps":[[-1,-1],[-1]],"old_logps":[[-1,-1],[-1]]}}"#);
        let found = &estimate(&["grpo", "reduction=token_mean"], &line)[0];
        close(&found["dlogps"], &json!([[-1.0, -1.0], [0.5]]), 1e-15);
        close(&found["advantages"], &json!([[3.0, 3.0], [-1.5]]), 0.0);
    }
}

/// Its reward is in the baseline, its tokens are in no divisor: what TRL does with `mask_truncated_completions`.
#[test]
fn a_row_without_a_trained_token_counts_with_its_reward() {
    let rows = |masked: &str, mask: &str| {
        format!(
            r#"{{"rewards":[1,0,0],"logps":[[-0.5,-0.7],{masked},[-0.4]],"old_logps":[[-0.5,-0.7],{masked},[-0.4]]{mask}}}"#
        )
    };
    // 1 and 0, 0 around their mean of 1/3 with a deviation of 1/sqrt 3.
    let (high, low) = ((2.0 / 3.0) / (1.0 / 3f64.sqrt() + 1e-4), -(1.0 / 3.0) / (1.0 / 3f64.sqrt() + 1e-4));
    for (input, empty) in [
        (rows("[-0.9,-0.6]", r#","mask":[[1,1],[0,0],[1]]"#), json!([0.0, 0.0])),
        (rows("[]", ""), json!([])),
    ] {
        let found = &estimate(&["grpo", "reduction=token_mean"], &input)[0];
        close(&found["advantages"], &json!([[high, high], empty, [low]]), 1e-12);
        close(&found["dlogps"], &json!([[-high / 3.0, -high / 3.0], empty, [-low / 3.0]]), 1e-12);
    }
    // Every method takes such a row, and gives it nothing.
    for spec in methods::REGISTRY
        .iter()
        .filter(|spec| methods::parse(spec.name, "").unwrap().extra_inputs().is_empty())
    {
        let found = &estimate(&[spec.name], &rows("[]", ""))[0];
        assert_eq!(found["dlogps"][1], json!([]), "{}", spec.name);
        assert!(found["loss"].is_number(), "{}", spec.name);
    }
}

/// The parts of a reward that is a sum may cancel: a method that compares them learns from such a group.
#[test]
fn a_group_whose_parts_differ_is_not_without_variance_where_they_are_compared() {
    let input = r#"{"rewards":[1,1,1],"reward_parts":[[1,0],[0,1],[0.5,0.5]],"logps":[[-1],[-1],[-1]],"old_logps":[[-1],[-1],[-1]]}"#;
    let groups = |settings: &[&str]| estimate(settings, input)[0]["metrics"]["zero_variance_groups"].clone();
    assert_eq!(groups(&["gdpo", "whiten=false", "weight_1=2"]), json!(0.0));
    assert_eq!(groups(&["grpo"]), json!(1.0));
}

#[test]
fn rewards_that_agree_but_for_rounding_agree() {
    for rewards in ["[0.30000000000000004,0.3,0.3]", "[0.7999999999999999,0.8,0.8]"] {
        let input =
            format!(r#"{{"rewards":{rewards},"logps":[[-1],[-1],[-1]],"old_logps":[[-1],[-1],[-1]]}}"#);
        for spec in methods::REGISTRY
            .iter()
            .filter(|spec| methods::parse(spec.name, "").unwrap().extra_inputs().is_empty())
        {
            let found = &estimate(&[spec.name], &input)[0];
            let largest = found["advantages"]
                .as_array()
                .unwrap()
                .iter()
                .map(|a| a[0].as_f64().unwrap().abs())
                .fold(0.0, f64::max);
            // A method that does not compare responses gives each its reward.
            let compares = methods::parse(spec.name, "").unwrap().method.compares_rewards();
            assert!(!compares || largest < 1e-3, "{}: {largest}", spec.name);
        }
    }
}

#[test]
fn padded_rows_with_a_mask_give_what_the_trained_tokens_give() {
    let bare = r#"{"rewards":[1,0],"logps":[[-0.5,-0.2],[-1.5]],"old_logps":[[-0.6,-0.3],[-1.4]],"entropies":[[1,2],[3]]}"#;
    let padded = r#"{"rewards":[1,0],"logps":[[NaN,-0.5,9,-0.2],[-1.5,0,0,0]],"old_logps":[[0,-0.6,9,-0.3],[-1.4,0,NaN,0]],
        "entropies":[[0,1,NaN,2],[3,0,0,0]],"mask":[[0,1,0,1],[true,false,false,false]]}"#
        .replace('\n', " ");
    for method in [&["grpo_lambda", "lambda=0.5"][..], &["high_entropy", "top_fraction=0.5"]] {
        let (a, b) = (&estimate(method, bare)[0], &estimate(method, &padded)[0]);
        assert_eq!((&a["loss"], &a["metrics"]), (&b["loss"], &b["metrics"]));
        let (g, h) = (&a["dlogps"], &b["dlogps"]);
        assert_eq!(*h, json!([[0.0, g[0][0], 0.0, g[0][1]], [g[1][0], 0.0, 0.0, 0.0]]));
    }
}

#[test]
fn a_group_that_nobody_graded_is_zero_with_a_warning_and_the_others_are_computed() {
    let ungraded = r#"{"rewards":[null,null],"logps":[[-1],[-1]],"old_logps":[[-1],[-1]]}"#;
    let graded = ungraded.replacen("null,null", "1,0", 1);
    let (stdout, stderr) = output(&["estimate", "--method", "rloo"], &format!("{graded}\n{ungraded}\n"));
    assert_eq!(stderr, "grpo-sim estimate: warning: stdin:2: no response is graded; the advantages are 0\n");
    let lines: Vec<Value> = stdout.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    close(&lines[0]["advantages"], &json!([[1.0], [-1.0]]), 0.0);
    close(&lines[1]["advantages"], &json!([[0.0], [0.0]]), 0.0);
}

/// Two groups off-policy, and what `--method` gives on them as one batch.
fn theirs(dir: &std::path::Path, settings: &[&str]) -> (String, String) {
    let groups = r#"{"rewards":[1,0,0],"logps":[[-0.5,-1.1],[-1.5,-0.2,-0.9],[-0.3]],"old_logps":[[-0.6,-0.8],[-1.4,-0.3,-1.4],[-0.7]]}
{"rewards":[0.5,2],"logps":[[-2.5],[-0.4,-0.6,-0.1,-0.2]],"old_logps":[[-2.1],[-0.4,-0.9,-0.15,-0.1]]}
"#;
    let input = dir.join("groups.jsonl");
    std::fs::write(&input, groups).unwrap();
    let input = input.to_str().unwrap().to_owned();
    let computed = estimate(&[settings, &["--batch", "--input", &input]].concat(), "");
    let lines = computed.iter().map(|l| {
        json!({"advantages": l["advantages"], "gradient": l["dlogps"], "loss": l["loss"]}).to_string() + "\n"
    });
    let path = dir.join("theirs.jsonl");
    std::fs::write(&path, lines.collect::<String>()).unwrap();
    (input, path.to_str().unwrap().to_owned())
}

#[test]
fn the_convention_that_gives_another_trainers_numbers_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let (input, theirs) = theirs(dir.path(), &["cispo", "cap=5"]);
    let (stdout, _) = output(&["estimate", "--against", &theirs, "--input", &input], "");
    let of = |quantity: &str| {
        let start = stdout.find(&format!("{quantity}: ")).unwrap_or_else(|| panic!("{stdout}"));
        stdout[start..].split("\n\n").next().unwrap().to_owned()
    };
    assert!(of("advantages").contains("TRL scale_rewards=group (the default)"), "{stdout}");
    for quantity in ["gradient", "loss"] {
        let found = of(quantity);
        assert!(found.contains("loss of a token: cispo; reduction: token_mean"), "{found}");
        assert!(found.contains("TRL loss_type=cispo, epsilon_high=5"), "{found}");
    }
    let (explained, _) =
        output(&["estimate", "--against", &theirs, "--input", &input, "--explain", "--method", "cispo"], "");
    assert!(explained.starts_with("CISPO against theirs"), "{explained}");
    assert!(explained.contains("advantages                                     none\n"), "{explained}");
}

#[test]
fn a_mean_of_each_micro_batch_is_named_from_the_parts_in_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let (input, path) = theirs(dir.path(), &["grpo", "reduction=response_sum"]);
    // Micro-batches of 2 + 1 + 4 and of 3 + 1 tokens; a sum over five responses is divided by 5.
    let divisors = [[2.0 * 7.0, 2.0 * 4.0, 2.0 * 7.0], [2.0 * 4.0, 2.0 * 7.0, 0.0]];
    let mut lines: Vec<Value> = std::fs::read_to_string(&path)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for (line, divisors) in lines.iter_mut().zip(divisors) {
        line.as_object_mut().unwrap().remove("loss");
        for (row, divisor) in line["gradient"].as_array_mut().unwrap().iter_mut().zip(divisors) {
            *row =
                row.as_array().unwrap().iter().map(|x| json!(x.as_f64().unwrap() * 5.0 / divisor)).collect();
        }
    }
    let mut with = |parts: [Value; 2]| {
        let mut text = String::new();
        for (line, parts) in lines.iter_mut().zip(parts) {
            line["parts"] = parts;
            text += &format!("{line}\n");
        }
        std::fs::write(&path, text).unwrap();
        let args = ["estimate", "--against", &path, "--input", &input];
        let output = Command::cargo_bin("grpo-sim").unwrap().args(args).output().unwrap();
        (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
    };
    let (_, text) = with([json!([0, 1, 0]), json!([1, 0])]);
    assert!(text.contains("reduction: token_mean of each micro-batch\n"), "{text}");
    assert!(
        text.contains("here: grpo reduction=token_mean, on each micro-batch\n    also: TRL loss_type=bnpo\n"),
        "{text}"
    );
    for (parts, place) in [
        ([json!([0, 0, 0]), json!([1, 2.5])], "2: parts: must be a list of 2 whole numbers"),
        ([json!([0, 0]), json!([1, 1])], "1: parts: must be a list of 3 whole numbers"),
        ([json!([0, 0, 0]), json!([2, 2])], "1: parts: no response has 1; number the micro-batches from 0"),
    ] {
        let (code, text) = with(parts);
        assert!(code == Some(2) && text.contains(place), "{text}");
    }
}

#[test]
fn a_loss_on_every_line_and_shuffled_rows_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    let (input, theirs) = theirs(dir.path(), &["grpo"]);
    let mut lines: Vec<Value> = std::fs::read_to_string(&theirs)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let loss: f64 = lines.iter().map(|line| line["loss"].as_f64().unwrap()).sum();
    let against = |lines: &[Value]| {
        std::fs::write(&theirs, lines.iter().map(|line| line.to_string() + "\n").collect::<String>())
            .unwrap();
        output(&["estimate", "--against", &theirs, "--input", &input], "").0
    };
    lines.iter_mut().for_each(|line| line["loss"] = json!(loss));
    let reported = against(&lines);
    assert!(
        reported.contains("loss: the same number stands on all 2 lines: it is read as the batch's loss\n"),
        "{reported}"
    );
    assert!(
        reported.contains("grpo reduction=response_mean") && !reported.contains("loss: none"),
        "{reported}"
    );
    assert!(!reported.contains("shuffles"), "{reported}");
    // The advantages of two prompts, each among the rows of the other.
    let (first, second) = (json!([2.0, -1.0, 1.0]), json!([-1.0, -1.0]));
    let reported = against(&[json!({"advantages": first}), json!({"advantages": second})]);
    assert!(reported.contains("are the rows of one prompt together? TRL shuffles"), "{reported}");
    // Without advantages nothing shows an order.
    let reported = against(&[json!({"loss": 0.123}), json!({"loss": 0.456})]);
    assert!(
        reported.contains("stand in another; give these, too (grpo_lambda.trl.record does)"),
        "{reported}"
    );
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    use std::process::{Command, Stdio};
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), many()).unwrap();
    let mut child = Command::new(assert_cmd::cargo::cargo_bin("grpo-sim"))
        .args(["estimate", "--method", "grpo", "--input", file.path().to_str().unwrap()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take()); // the pipe has no reader; 500 lines are more than it buffers
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
}

#[test]
fn the_list_of_methods_has_every_method_with_every_setting() {
    let (stdout, _) = output(&["methods", "--json"], "");
    let list: Vec<Value> = serde_json::from_str(&stdout).unwrap();
    assert_eq!(list.len(), methods::REGISTRY.len());
    for (found, spec) in list.iter().zip(methods::REGISTRY) {
        assert_eq!(found["name"], spec.name);
        for key in ["title", "about", "source", "provenance"] {
            assert!(found[key].as_str().is_some_and(|s| !s.is_empty()), "{}: {key}", spec.name);
        }
        let keys: Vec<_> =
            found["params"].as_array().unwrap().iter().map(|p| p["key"].as_str().unwrap()).collect();
        assert_eq!(keys, (spec.params)().iter().map(|p| p.key).collect::<Vec<_>>());
        assert_eq!(keys.iter().collect::<HashSet<_>>().len(), keys.len());
        let default = methods::parse(spec.name, "").unwrap();
        let needs: Vec<_> = default.extra_inputs().iter().map(|k| k.name()).collect();
        assert_eq!(found["extra_inputs"]["default"], json!(needs));
        if keys.contains(&"beta") {
            let with_beta = found["extra_inputs"]["with_beta"].as_array().unwrap();
            assert!(with_beta.contains(&json!("ref_logps")), "{}", spec.name);
        }
    }
}

#[test]
fn the_defaults_in_the_list_are_accepted_as_settings() {
    let (stdout, _) = output(&["methods", "--json"], "");
    let list: Vec<Value> = serde_json::from_str(&stdout).unwrap();
    for method in &list {
        for p in method["params"].as_array().unwrap() {
            let value = match &p["default"] {
                Value::Null => "none".to_owned(),
                Value::String(word) => word.clone(),
                other => other.to_string(),
            };
            let setting = format!("{}={value}", p["key"].as_str().unwrap());
            methods::parse(method["name"].as_str().unwrap(), &setting).unwrap_or_else(|e| panic!("{e}"));
        }
    }
}

#[test]
fn the_overview_names_every_method() {
    let (stdout, _) = output(&["methods"], "");
    for spec in methods::REGISTRY {
        assert!(stdout.contains(spec.name));
        let (one, _) = output(&["methods", spec.name], "");
        assert!((spec.params)().iter().all(|p| one.contains(p.key)), "{one}");
    }
}

#[test]
#[cfg(unix)]
fn a_pipe_may_be_named_as_input() {
    let line = "{\"rewards\": [1, 0], \"logps\": [[-0.5], [-1.5]], \"old_logps\": [[-0.5], [-1.5]]}\n";
    assert_eq!(estimate(&["grpo", "--input", "/dev/stdin"], line), estimate(&["grpo"], line));
}
