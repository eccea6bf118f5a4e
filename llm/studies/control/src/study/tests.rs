use super::*;

fn path(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../paper/protocols").join(name)
}

fn committed(name: &str) -> Protocol {
    read(&path(name)).unwrap_or_else(|e| panic!("{e}"))
}

const SMALL: &str = "rl.group_size=4 rl.steps=2 rl.prompts_per_step=2 sft.steps=1 model.hidden=16 model.intermediate=16 \
                     model.layers=1";

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn the_committed_protocols_can_be_run() {
    let arms = |name: &str| {
        let protocol = committed(name);
        assert!(protocol.selection.iter().all(|seed| !protocol.evaluation.contains(seed)), "{name}");
        let reference = |arm: &&Arm| {
            let configured = arm.configured().expect("read");
            configured.extra_inputs().contains(&InputKind::RefLogps)
        };
        (protocol.arms.len(), protocol.arms.iter().filter(reference).count())
    };
    assert_eq!([arms("systematic.toml"), arms("long_budget.toml"), arms("kl.toml")].map(|a| a.1), [0, 0, 4]);
    // Two optimisers at six rates with four parts; and 43 settings of random rewards.
    assert_eq!([arms("clamp.toml"), arms("noise.toml"), arms("baseline.toml")].map(|a| a.0), [48, 43, 8]);
}

/// The columns and keys of the recorded rows are those of the protocols, and no row is of another arm or seed.
#[test]
fn the_recorded_rows_are_those_of_the_protocols() {
    for (name, file) in [("noise.toml", "noise_rewards_runs.csv"), ("clamp.toml", "clamp_parts_runs.csv")] {
        let protocol = committed(name);
        let recorded = path("../data").join(file);
        let text = std::fs::read_to_string(&recorded).expect("committed");
        let command = text.lines().next().and_then(|l| l.split_once(" -- ")).expect("a command").1.to_owned();
        let columns: Vec<&str> = protocol.columns.iter().map(String::as_str).collect();
        let results = Results::open(&recorded, &command, &columns, protocol.keys).expect("the same columns");
        let mut rows = 0;
        for arm in &protocol.arms {
            let rate = arm.rate.expect("every arm has its own");
            rows += protocol.evaluation.len();
            let lacks = |seed: &&u64| !results.has(&protocol.key(arm, rate, **seed));
            assert_eq!(protocol.evaluation.iter().find(lacks), None, "{name}: {arm:?}");
        }
        assert_eq!(text.lines().count(), rows + 2, "{name}");
    }
}

#[test]
fn a_protocol_with_an_unknown_method_or_column_is_refused_by_its_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let own = folder.path().join("own.toml");
    let refused = |name: &str, from: &str, to: &str| {
        let text = std::fs::read_to_string(path(name)).expect("committed");
        std::fs::write(&own, text.replacen(from, to, 1)).expect("written");
        read(&own).expect_err(to).to_string()
    };
    let method = refused("kl.toml", "method = \"grpo\"", "method = \"gpro\"");
    assert!(method.contains("own.toml: arm gpro: "), "{method}");
    for name in ["vine_ppo", "spo_tree", "remax"] {
        let method = refused("kl.toml", "method = \"grpo\"", &format!("method = \"{name}\""));
        assert!(method.contains(&format!("own.toml: arm {name}: needs trees, completions")), "{method}");
    }
    let column = refused("clamp.toml", "\"entropy\"", "\"entrpy\"");
    assert!(
        column.contains("own.toml: columns: entrpy: no such column; it must be one of arm, "),
        "{column}"
    );
    let part = refused("noise.toml", "\"upper clamp\"", "\"uper clamp\"");
    assert!(part.contains("uper clamp: no such part of a clamp"), "{part}");
}

#[test]
fn a_group_with_too_many_outcomes_of_its_random_rewards_is_refused_and_leaves_no_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("noise.csv");
    let refused =
        run(&path("noise.toml"), &file, &["rl.group_size=64"]).expect_err("2^64 outcomes").to_string();
    assert!(
        refused.starts_with("rl.group_size = 64: the mean advantage is over all 2^64 outcomes"),
        "{refused}"
    );
    assert!(!file.exists());
}

#[test]
fn a_protocol_runs_to_the_same_rows_wherever_it_stopped() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("rows.csv");
    let protocol = Protocol {
        settings: words(SMALL),
        rates: vec![0.001, 0.01],
        selection: vec![1],
        evaluation: vec![2, 3],
        ..committed("systematic.toml")
    };
    go_on(&protocol, "x.toml", &file).expect("it runs");
    let text = std::fs::read_to_string(&file).expect("written");
    // Three arms at two rates on one seed, and at one rate on two.
    assert_eq!(text.lines().count(), 2 + 12);
    std::fs::write(&file, text.lines().take(8).collect::<Vec<_>>().join("\n") + "\n").expect("written");
    go_on(&protocol, "x.toml", &file).expect("it runs");
    assert_eq!(std::fs::read_to_string(&file).expect("there"), text);
}

/// Values are the critic's: without one the method would have none.
#[test]
fn an_arm_that_reads_values_trains_a_critic() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("rows.csv");
    let arm: Arm = toml::from_str("method = \"ppo\"\nrate = 0.01\n").expect("an arm");
    let settings = words(&format!("{SMALL} reward.accuracy=0 reward.coin=1"));
    let (arms, selection, evaluation) = (vec![arm], Vec::new(), vec![2]);
    let protocol = Protocol { settings, arms, selection, evaluation, ..committed("systematic.toml") };
    go_on(&protocol, "x.toml", &file).expect("it runs");
    assert_eq!(std::fs::read_to_string(&file).expect("written").lines().count(), 2 + 1);
}

#[test]
fn the_chosen_rate_is_the_best_on_selection_seeds_once_all_are_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let protocol = committed("systematic.toml");
    let columns: Vec<&str> = protocol.columns.iter().map(String::as_str).collect();
    let results = Results::open(&folder.path().join("rows.csv"), "x", &columns, protocol.keys).expect("new");
    let arm = &protocol.arms[0];
    for (rate, learning) in protocol.rates.iter().zip([0.1, 0.2, 0.5, 0.3, 0.2, 0.1]) {
        for seed in &protocol.selection {
            assert_eq!(protocol.chosen(arm, &results), None);
            let mut cells = labels(arm, *rate, *seed);
            cells.insert("learning", learning.into());
            results.add(protocol.chosen_cells(&protocol.columns, &cells)).expect("written");
        }
    }
    assert_eq!(protocol.chosen(arm, &results), Some(0.0005));
    let kl = committed("kl.toml");
    assert_eq!(kl.chosen(&kl.arms[0], &results), Some(0.0005), "the only one");
}

#[test]
fn groups_of_two_have_the_same_variance_with_every_baseline_but_that_of_actions() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("rows.csv");
    // Random rewards: half of all groups are mixed, whatever the model knows.
    let random_rewards = "sft.steps=1 model.hidden=16 model.intermediate=16 model.layers=1 rl.group_size=2 \
                 rl.steps=1 reward.accuracy=0 reward.coin=1";
    let mut protocol = committed("baseline.toml");
    protocol.evaluation.truncate(1);
    protocol.overrides.extend(words(random_rewards));
    go_on(&protocol, "x", &file).expect("it runs");
    let text = std::fs::read_to_string(&file).expect("written");
    let table = grpo_lambda_stats::table::Table::from_csv(&text).expect("a table");
    assert_eq!(table.rows.len(), 8 * 2);
    let [method, ratio] = ["method", "over_rloo"].map(|name| table.column(name).expect("there"));
    for row in &table.rows {
        let name = row[method].format(12);
        let off = (row[ratio].number().expect("a number") - 1.0).abs();
        assert!(off < 1e-6 || name == "prefix_rloo" || name.starts_with("systematic"), "{name}: {off}");
    }
}
