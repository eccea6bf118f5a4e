//! Where a run computes, as the command line sees it. No card is needed, and where there is one it is hidden.

use std::path::Path;
use std::process::Command;

use crate::common::{Done, run};

/// One supervised step of a small model.
fn train(directory: &Path, settings: &[&str]) -> Done {
    let small =
        ["task.kind=addition", "model.hidden=16", "model.layers=1", "sft.steps=1", "rl.steps=0", "eval.n=1"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_llm-train"));
    command.args(["train", "--run", directory.to_str().unwrap()]).args(small).args(settings);
    run(command.env("CUDA_VISIBLE_DEVICES", "-1"), "")
}

#[test]
fn a_device_or_dtype_of_another_name_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("run");
    for (setting, expected) in [
        ("device=gpu", "command line: device = gpu: must be one of auto, cpu, cuda, metal"),
        ("device=cuda:1", "command line: device = cuda:1: must be one of auto, cpu, cuda, metal"),
        ("device=metal", "device = metal: Metal is used by candle alone; set engine=candle, or device=cpu"),
        ("engine=torch", "command line: engine = torch: must be one of own, candle"),
        ("dtype=f16", "command line: dtype = f16: must be one of auto, f32, bf16"),
        ("dtyp=f32", "command line: unknown key `dtyp` (did you mean `dtype`?)"),
    ] {
        train(&directory, &[setting]).refused(2, expected);
    }
    assert!(!directory.exists());
}

#[test]
fn a_card_that_is_not_there_is_refused_and_leaves_nothing_behind() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("run");
    let expected = if cfg!(feature = "cuda") {
        "device = cuda: no " // driver or card
    } else {
        "device = cuda: this llm-train was built without CUDA: build it with --features cuda"
    };
    for dtype in ["auto", "f32", "bf16"] {
        train(&directory, &["device=cuda", &format!("dtype={dtype}")]).refused(2, expected);
    }
    assert!(!directory.exists());
}

#[test]
fn candle_that_is_not_built_in_is_refused_and_leaves_nothing_behind() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("run");
    let (of_candle, of_metal) = if cfg!(feature = "candle") {
        (
            "",
            "engine = candle, device = metal: this program was built without it; build it with --features candle-metal, or set device=cpu",
        )
    } else {
        let line = "engine = candle: this program was built without it; build it with --features candle";
        (line, line)
    };
    if !of_candle.is_empty() {
        train(&directory, &["engine=candle"]).refused(2, of_candle);
        train(&directory, &["engine=candle", "--dry-run"]).says("here the run would be refused");
    }
    if !cfg!(feature = "candle-metal") {
        train(&directory, &["engine=candle", "device=metal"]).refused(2, of_metal);
    }
    assert!(!directory.exists());
}

#[cfg(not(feature = "candle"))]
#[test]
fn a_second_opinion_that_is_not_built_in_is_refused() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_llm-train"));
    run(command.args(["gpu-check", "--against", "candle"]), "").refused(
        2,
        "--against candle: this llm-train was built without it; build it with --features cuda,candle",
    );
}

/// A check without a card tells in its report what is missing.
#[test]
fn a_check_without_a_card_writes_why_into_its_report() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("report.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_llm-train"));
    command.args(["gpu-check", "--quick", "--report", file.to_str().unwrap()]);
    run(command.env("CUDA_VISIBLE_DEVICES", "-1"), "").refused(2, "--device cuda: ");
    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let told = if cfg!(feature = "cuda") { "no " } else { "without CUDA" };
    assert!(report["problem"].as_str().unwrap().contains(told), "{report}");
    assert_eq!((&report["device"], report["cases"].as_array().unwrap().len()), (&serde_json::Value::Null, 0));
}

#[test]
fn bf16_on_the_cpu_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("run");
    let line = "dtype = bf16: the run would be on the CPU (";
    train(&directory, &["device=cpu", "dtype=bf16"])
        .refused(2, &format!("{line} … device = cpu … leave dtype out"));
    train(&directory, &["dtype=bf16"]).refused(2, &format!("{line} … leave dtype out"));
    assert!(!directory.exists());
}

#[test]
fn without_a_card_the_cpu_is_used_and_only_a_build_for_cards_tells_why() {
    let place = tempfile::tempdir().unwrap();
    for (i, settings) in [&[][..], &["device=cpu", "dtype=f32"]].into_iter().enumerate() {
        let done = train(&place.path().join(i.to_string()), settings);
        done.output();
        done.tells(") on the CPU; ");
        let told = done
            .stderr
            .lines()
            .filter(|line| line.starts_with("device = auto: the CPU is used: no "))
            .count();
        assert_eq!(told, usize::from(cfg!(feature = "cuda") && settings.is_empty()), "{}", done.stderr);
    }
}
