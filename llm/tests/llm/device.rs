//! Where a run computes, as the command line sees it. No card is needed, and where there is one it is hidden.

use crate::common::{Done, Place, run};

/// `llm-train` with these words, where there is no card.
fn without_a_card(place: &Place, line: &str) -> Done {
    run(place.command(line).env("CUDA_VISIBLE_DEVICES", "-1"), "")
}

/// One supervised step of a small model.
fn train(place: &Place, settings: &str) -> Done {
    let small = "task.kind=addition model.hidden=16 model.layers=1 sft.steps=1 rl.steps=0 eval.n=1";
    without_a_card(place, &format!("train --run run {small} {settings}"))
}

#[test]
fn a_device_or_dtype_that_cannot_be_is_refused_and_leaves_nothing() {
    let place = Place::new();
    let no_card = if cfg!(feature = "cuda") {
        "device = cuda: no " // driver or card
    } else {
        "device = cuda: this llm-train was built without CUDA: build it with --features cuda"
    };
    for dtype in ["auto", "f32", "bf16"] {
        train(&place, &format!("device=cuda dtype={dtype}")).refused(2, no_card);
    }
    place.refuses_each(include_str!("refused/devices.txt"), |settings, _| train(&place, settings));
}

#[test]
fn candle_that_is_not_built_in_is_refused_and_leaves_nothing() {
    let place = Place::new();
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
        train(&place, "engine=candle").refused(2, of_candle);
        train(&place, "engine=candle --dry-run").says("here the run would be refused");
    }
    if !cfg!(feature = "candle-metal") {
        train(&place, "engine=candle device=metal").refused(2, of_metal);
    }
    assert!(!place.at("run").exists());
}

#[cfg(not(feature = "candle"))]
#[test]
fn a_second_opinion_that_is_not_built_in_is_refused() {
    Place::new().run("gpu-check --against candle").refused(
        2,
        "--against candle: this llm-train was built without it; build it with --features cuda,candle",
    );
}

/// A check without a card tells in its report what is missing.
#[test]
fn a_check_without_a_card_writes_why_into_its_report() {
    let place = Place::new();
    without_a_card(&place, "gpu-check --report report.json").refused(2, "--device cuda: ");
    let report = place.json("report.json");
    let reported = if cfg!(feature = "cuda") { "no " } else { "without CUDA" };
    assert!(report["problem"].as_str().unwrap().contains(reported), "{report}");
    assert_eq!((&report["device"], report["cases"].as_array().unwrap().len()), (&serde_json::Value::Null, 0));
}

#[test]
fn without_a_card_the_cpu_is_used_and_only_a_build_for_cards_tells_why() {
    for settings in ["", "device=cpu dtype=f32"] {
        let done = train(&Place::new(), settings);
        done.output();
        done.tells(") on the CPU; ");
        let reported = done
            .stderr
            .lines()
            .filter(|line| line.starts_with("device = auto: the CPU is used: no "))
            .count();
        assert_eq!(reported, usize::from(cfg!(feature = "cuda") && settings.is_empty()), "{}", done.stderr);
    }
}
