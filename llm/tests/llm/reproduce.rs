//! `llm-train reproduce` as a user starts it.

use std::path::Path;
use std::time::Duration;

use crate::common::{Done, Place, killed_until_done, llm_train, words};
use crate::long;

/// A grid small enough for every test: two cells of Table 6.
const SMALL: &str = "--table 6 --scale tiny --only dataset=gsm8k model.hidden=16 model.layers=1 model.heads=2 model.kv_heads=1 \
                     model.intermediate=32 threads=2 sft.steps=6 rl.steps=3 rl.prompts_per_step=2 rl.group_size=4 \
                     rl.max_new_tokens=6 eval.n=10 checkpoint.every=1";

fn reproduce(line: &str) -> Done {
    llm_train(&[&["reproduce"], &words(line)[..]].concat(), "")
}

fn small(directory: &Path, extra: &str) -> Done {
    reproduce(&format!("{SMALL} {extra} --run {}", directory.display()))
}

/// A table's file without the line that names the command and so the directory.
fn rows(directory: &Path, name: &str) -> String {
    let text = std::fs::read_to_string(directory.join("tables").join(name)).unwrap();
    text.lines().filter(|l| !l.starts_with('#') && !l.starts_with("<!--")).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_whole_grid_is_planned_without_weights() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("grid");
    let done = reproduce(&format!("--table all --dry-run --run {}", run.display()));
    let text = done.output();
    // 92 cells and four supervised stages, all missing.
    let count = |word: &str| text.lines().filter(|l| l.contains(word)).count();
    assert!(text.contains("92 cells") && text.contains("all 96 runs"), "{text}");
    assert_eq!((count("supervised"), count(" missing ")), (4, 96), "{text}");
    for expected in
        ["assumed", "NVIDIA H100", "device memory", "trained by LoRA (rank 16, alpha 32, q_proj, v_proj)"]
    {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert!(!run.exists(), "a plan writes nothing");
    // Hours and memory of one device stand in one row.
    let rows: Vec<&str> = text.lines().filter(|line| line.contains(" missing ")).collect();
    assert!(rows.iter().all(|row| row.contains(" h ") && row.contains(" GiB ")), "{text}");
    let shared = reproduce("--table 1 --dry-run --gpu cpu --utilisation 0.5");
    shared.says("Table 1, 40 cells");
    assert!(shared.stdout.contains("f32 at 50 %") && !shared.stdout.contains("H100"), "{}", shared.stdout);
}

#[test]
fn a_grid_fills_the_papers_table_and_does_nothing_twice() {
    let dir = tempfile::tempdir().unwrap();
    let done = small(dir.path(), "");
    let text = done.output();
    for expected in [
        "OURS ARE TOY MODELS",
        "Table 6 of the paper: R1-Distill-Qwen-7B",
        "12 of 48 fields filled",
        "(.416)",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let csv = rows(dir.path(), "table6.csv");
    let filled = csv.lines().filter(|l| l.starts_with("6,gsm8k,")).collect::<Vec<_>>();
    assert_eq!(filled.len(), 12);
    for line in filled {
        let fields: Vec<&str> = line.split(',').collect();
        let [ours, low, high] = [5, 6, 7].map(|i| fields[i].parse::<f64>().unwrap());
        assert!(low <= ours && ours <= high && (0.0..=1.0).contains(&ours), "{line}");
    }
    let page = std::fs::read_to_string(dir.path().join("tables/table6.md")).unwrap();
    assert_eq!(
        page.matches("| decontaminated |").count() + page.matches("| decontaminated  ").count(),
        2,
        "{page}"
    );
    for name in ["variants", "training", "lengths"] {
        assert!(text.contains(&format!("{name}-r1-distill-qwen-7b.png")), "{name}: {text}");
        let svg = dir.path().join(format!("figures/{name}-r1-distill-qwen-7b.svg"));
        assert!(std::fs::read_to_string(svg).unwrap().contains("Toy model in place of"), "{name}");
    }
    let again = small(dir.path(), "");
    again.output();
    assert!(!again.stderr.contains("parameters"), "nothing is trained again: {}", again.stderr);
    assert_eq!(rows(dir.path(), "table6.csv"), csv);

    // What is done shows in a plan, and other settings are refused with what differs.
    let plan = small(dir.path(), "--dry-run");
    assert_eq!(plan.output().lines().filter(|l| l.contains(" done ")).count(), 3, "{}", plan.stdout);
    let run = dir.path().display();
    reproduce(&format!("--table 6 --scale tiny --run {run} rl.steps=4"))
        .refused(2, "holds another grid … rl.steps=4");
    reproduce(&format!("--table 6 --run {run}")).refused(2, "scale: \"tiny\" -> \"full\"");
    std::fs::write(dir.path().join("r1-distill-qwen-7b/gsm8k/grpo/scores.json"), "{").unwrap();
    small(dir.path(), "").refused(2, "scores.json … not the scores of a cell … remove it");
}

#[test]
fn a_grid_killed_again_and_again_ends_in_the_numbers_of_an_unbroken_one() {
    let place = Place::new();
    let (whole, broken) = (place.at("whole"), place.at("broken"));
    small(&whole, "").output();
    let start = || place.command(&format!("reproduce {SMALL} --run broken"));
    let kills = killed_until_done(start, Duration::from_millis(long::of(150, 50)), |_| ());
    assert!(kills >= 2, "only {kills} kills: the grid is too short to be interrupted");
    assert_eq!(rows(&whole, "table6.csv"), rows(&broken, "table6.csv"), "{kills} kills");
    for cell in ["grpo", "recent-trace-0.99"] {
        let read = |d: &Path| {
            std::fs::read(d.join("r1-distill-qwen-7b/gsm8k").join(cell).join("scores.json")).unwrap()
        };
        assert_eq!(read(&whole), read(&broken), "{cell}");
    }
}

#[test]
fn what_cannot_be_meant_is_refused_in_a_line() {
    let place = Place::new();
    std::fs::create_dir(place.at("held")).unwrap();
    place.write("held/thesis.tex", "x");
    place.refuses(include_str!("refused/reproduce.txt"));
}
