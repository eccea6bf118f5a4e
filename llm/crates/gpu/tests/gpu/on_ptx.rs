//! The card's code under test without a card: the real backend, the compiler's PTX, and every instruction checked.

use std::collections::BTreeMap;
use std::process::Command;

use grpo_lambda_decoder::model::Architecture::Qwen2;
use grpo_lambda_decoder::model::{ModelConfig, ModelShape};
use grpo_lambda_gpu::check::{self, Extent, Finding};
use grpo_lambda_gpu::kernels::names;
use grpo_lambda_gpu::{DeviceError, Dtype};
use grpo_lambda_ptx::{Card, FIRST, Liberties, Order, VERSION};

use crate::check::{edited, findings};
use crate::{contract, long, machine};

const DTYPES: [Dtype; 2] = [Dtype::F32, Dtype::Bf16];

fn checked(card: &Card, dtype: Dtype, only: &str) -> Vec<Finding> {
    findings(&machine::card(card, dtype).0, dtype, Some(only))
}

/// Tensor cores that truncate and approximations two places off stay within the bounds.
#[test]
fn rougher_numbers_stay_within_the_bounds() {
    let liberties = Liberties { rough: true, ..Liberties::default() };
    for only in long::of(vec!["swiglu"], names().collect()) {
        let found = checked(&Card { liberties, ..Card::default() }, Dtype::Bf16, only);
        assert!(check::passed(&found), "{}", check::table(&found));
    }
}

#[test]
fn a_card_with_and_without_pools_keeps_the_contract_even_if_all_work_waits() {
    for (pools, deferred) in [(true, true), (false, false)] {
        contract::all(&machine::card(&Card { pools, deferred, ..Card::default() }, Dtype::F32).0);
    }
}

/// The part of [`an_old_driver_without_pools_passes_the_suites`] that runs in a process of its own.
#[test]
#[ignore = "for a process whose libraries say that they are old"]
fn in_a_process_with_old_libraries() {
    let device = machine::start();
    let found = findings(&device, Dtype::F32, Some("round"));
    assert!(check::passed(&found), "{}", check::table(&found));
}

#[test]
fn an_old_driver_without_pools_passes_the_suites() {
    let suites = ["decoder::", "lora::", "optim::", "generate::"];
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.arg("on_ptx::in_a_process_with_old_libraries").args(long::of(&[][..], &suites));
    let card = Card { pools: false, ..Card::default() };
    child.arg("--include-ignored").env(VERSION, "12040").env(FIRST, card.text()).env("LONG_TESTS", "");
    let done = child.output().unwrap();
    let reported = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && !reported.contains("running 0 tests"), "{reported}");
}

/// A fault breaks the context: the case is named with the line of PTX, and every later call is refused.
#[test]
fn an_access_outside_is_sticky_and_names_its_line() {
    let (device, _) = machine::card(&edited("add_bias|st.global.v4|0|replace~]~+1073741824]"), Dtype::F32);
    let found = findings(&device, Dtype::F32, Some("add_bias"));
    let why = found.iter().find_map(|f| f.problem.clone()).unwrap();
    assert!(why.contains("outside of every allocation") && why.contains("PTX line"), "{why}");
    let refused = device.clear(0x7_0000_0000, 1).unwrap_err();
    assert!(matches!(refused, DeviceError::Call { .. }), "{refused}");
}

/// A model of a run's shape on a sound card and on one whose code is wrong.
#[test]
fn a_card_that_is_wrong_on_the_run_s_model_is_named_with_the_case() {
    let (name, shape) = crate::decoder::configs().remove(0);
    let sound = machine::card(&Card::default(), Dtype::F32).0;
    assert_eq!(check::prove_shape(&sound, Dtype::F32, &shape), Ok(()), "{name}");
    // Of the backward pass alone, which no comparison of probabilities would show. What the first card proved is kept; this is another shape.
    let wrong =
        machine::card(&edited("swiglu_backward|ex2.approx|0|replace~ex2.approx.ftz.f32~mov.f32"), Dtype::F32)
            .0;
    let other = ModelConfig { intermediate_size: 44, ..shape };
    let line = check::prove_shape(&wrong, Dtype::F32, &other).unwrap_err().to_string();
    assert!(line.contains("decoder_f32 at 64 tokens of the run's model: off by"), "{line}");
    assert!(line.contains("gpu.trust=true") && !line.contains('\n'), "{line}");
}

/// The proof's bound holds at the width of a real model in bf16, where weights of one deviation at every width once saturated the softmax and
/// sound cards were refused.
#[test]
fn a_sound_card_is_not_refused_at_real_widths() {
    let (device, _) = machine::card(&Card::default(), Dtype::Bf16);
    let wide = ModelShape {
        vocab: 300,
        hidden: long::of(512, 1536),
        layers: 2,
        heads: long::of(8, 12),
        kv_heads: 2,
    };
    assert_eq!(check::prove_shape(&device, Dtype::Bf16, &Qwen2.config(wide)), Ok(()));
}

/// The share of the instructions of every kernel that the check executes, in both dtypes.
#[test]
fn the_check_executes_the_instructions_of_the_kernels() {
    if !long::of(false, true) {
        return;
    }
    let (mut hit, mut all) = (0, 0);
    for dtype in DTYPES {
        let (device, number) = machine::card(&Card::default(), dtype);
        let found = check::run(&device, dtype, Extent::Small, None);
        assert!(check::passed(&found), "{}", check::table(&found));
        let kernels: BTreeMap<_, _> =
            grpo_lambda_ptx::coverage(number).unwrap().into_iter().map(|(n, a, b)| (n, (a, b))).collect();
        for (name, (executed, of)) in kernels {
            println!("{name}: {executed} of {of}");
            (hit, all) = (hit + executed, all + of);
        }
    }
    println!("{hit} of {all}");
    assert!(hit * 100 >= 95 * all, "{hit} of {all} instructions");
}

/// Faults in the kernels' code. Nothing but their numbers, and accesses that a card refuses, tells the check of them.
const MUTANTS: [(Dtype, &str, &str); 26] = [
    (Dtype::F32, "a row's end passed", "embed|setp.lt|0|replace~.lt.~.le."),
    (Dtype::F32, "a row's end passed", "add_bias|setp.lt|0|replace~.lt.~.le."),
    (Dtype::F32, "an array's alignment not asked for", "rms_norm|setp.ne.s64|0|replace~.ne.s64~.lt.u64"),
    (Dtype::Bf16, "halves of the left operand exchanged", "attention|mma.sync|0|swap 5 6"),
    (Dtype::Bf16, "halves of the right operand exchanged", "attention|mma.sync|1|swap 8 9"),
    (Dtype::Bf16, "a tile not turned", "attention|.trans|0|replace~.trans~"),
    (Dtype::Bf16, "a tile not loaded", "attention|ldmatrix|3|remove"),
    (Dtype::Bf16, "a tile not filled", "attention|st.shared.v4|0|remove"),
    (Dtype::Bf16, "a barrier before a tile is read", "attention|bar.sync|0|remove"),
    (Dtype::F32, "a barrier before a tile is read", "attention|bar.sync|0|remove"),
    (Dtype::F32, "a barrier of a warp", "attention_queries|bar.warp|0|remove"),
    (Dtype::F32, "a barrier of a warp", "decode_attention|bar.warp|0|remove"),
    (Dtype::F32, "a barrier before parts are added", "rms_norm|bar.sync|1|remove"),
    (Dtype::F32, "a barrier before parts are merged", "log_prob|bar.sync|1|remove"),
    (Dtype::F32, "a barrier before columns are added", "column_sum|bar.sync|0|remove"),
    (Dtype::F32, "the sum of half a warp", "rms_norm|shfl.sync.bfly|0|remove"),
    (Dtype::Bf16, "the sum of half a warp", "head_norm|shfl.sync.bfly|0|remove"),
    (Dtype::F32, "a vector not stored", "embed|st.global.v4|0|remove"),
    (Dtype::F32, "a vector not stored", "gather_rows|st.global.v4|0|remove"),
    (Dtype::F32, "a vector not stored", "fill_cache|st.global.v4|0|remove"),
    (Dtype::F32, "the next number of a tail", "add_bias|ld.global.f32|1|replace~+4]~+8]"),
    (Dtype::Bf16, "the next place of a tail", "round|st.global.u16|1|replace~+2]~+4]"),
    (Dtype::Bf16, "ties away from even", "round|32767|0|replace~32767~32768"),
    (Dtype::F32, "an exponential left out", "swiglu|ex2.approx|0|replace~ex2.approx.ftz.f32~mov.f32"),
    (Dtype::F32, "a root left out", "adamw|sqrt.rn|0|replace~sqrt.rn.f32~mov.f32"),
    (Dtype::F32, "the distance of two parts", "decode_combine|add.s32|0|replace~, 2;~, 3;"),
];

/// The check, with no help from the machine, finds each fault under some order of threads, as it would on a card.
#[test]
fn the_check_finds_faults_of_the_code() {
    let mut alive = Vec::new();
    for (dtype, what, edit) in MUTANTS.into_iter().skip(long::of(20, 0)) {
        let kernel = edit.split('|').next().unwrap();
        let orders = [Order::Forward, Order::Reversed, Order::Shuffled(1), Order::Shuffled(2)];
        let killed = orders.into_iter().find(|order| {
            let liberties = Liberties { order: *order, rough: false, lenient: true };
            !check::passed(&checked(&Card { liberties, ..edited(edit) }, dtype, kernel))
        });
        println!("{}: {what}, {edit}: {killed:?}", dtype.name());
        if killed.is_none() {
            alive.push((dtype, what, edit));
        }
    }
    assert!(alive.is_empty(), "the check does not find {alive:#?}");
}
