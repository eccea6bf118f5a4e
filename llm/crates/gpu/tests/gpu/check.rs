//! The check that a card goes through, on the PTX machine; and that it finds what is wrong, and where.

use std::sync::Arc;

use grpo_lambda_decoder::model::config::FINAL_NORM;
use grpo_lambda_decoder::model::weights::Parameters;
use grpo_lambda_decoder::model::{Cotangents, Decoder, ForwardOptions, Gradients, ModelConfig, Rows};
use grpo_lambda_gpu::check::{self, Extent, Finding, OTHERS};
use grpo_lambda_gpu::kernels::{declared, names, source};
use grpo_lambda_gpu::{Device, Dtype};
use grpo_lambda_ptx::{Card, Edit, Fault, Liberties, Order};

use crate::{long, machine};

const DTYPES: [Dtype; 2] = [Dtype::F32, Dtype::Bf16];
const ORDERS: [Order; 3] = [Order::Shuffled(7), Order::Reversed, Order::Shuffled(0)];

/// The check, or that of one kernel.
pub(crate) fn findings(device: &Arc<dyn Device>, dtype: Dtype, only: Option<&str>) -> Vec<Finding> {
    check::run(device, dtype, Extent::Odd, only)
}

/// The check of one kernel on a card with this fault.
fn with_fault(fault: Fault, dtype: Dtype, only: &str) -> Vec<Finding> {
    let card = Card { fault: Some(fault), ..Card::default() };
    findings(&machine::card(&card, Dtype::F32).0, dtype, Some(only))
}

/// A card whose code is changed, and that says of it no more than a real one would.
pub(crate) fn edited(edit: &str) -> Card {
    let liberties = Liberties { lenient: true, ..Liberties::default() };
    Card { edits: vec![Edit::parse(edit).unwrap()], liberties, ..Card::default() }
}

/// The check of one kernel, or of all, on a card whose code is changed.
fn with_edit(edit: &str, dtype: Dtype, only: Option<&str>) -> Vec<Finding> {
    findings(&machine::card(&edited(edit), Dtype::F32).0, dtype, only)
}

/// The outputs of the kernels: the place of each among the parameters, and the byte of its first number of which a bit changes the number by a
/// quarter at least; in attention the exponent, since what is stored on the way may cost more.
fn outputs(dtype: Dtype) -> Vec<(&'static str, usize, u64)> {
    let source = source(dtype);
    let mut outputs = Vec::new();
    for name in names() {
        let exponent = u64::from(name.starts_with("attention"));
        for (i, parameter) in declared(&source, name).expect(name).1.into_iter().enumerate() {
            let byte = match parameter.as_str() {
                "REAL*" if dtype == Dtype::Bf16 => exponent,
                "float*" | "REAL*" => 2 + exponent,
                "double*" => 6,
                "u32*" => 0,
                _ => continue,
            };
            outputs.push((name, i, byte));
        }
    }
    outputs
}

/// The proof of every kernel: its cases pass, and every number that they read has the same bits in any order of threads.
#[test]
fn every_case_of_every_kernel_passes_with_the_same_bits_in_any_order_of_threads() {
    for dtype in DTYPES {
        let mut first = None;
        for order in [Order::Forward].into_iter().chain(ORDERS).take(long::of(2, 4)) {
            let findings = findings(&machine::ordered(order), dtype, None);
            for name in names().chain(OTHERS) {
                assert!(findings.iter().any(|f| f.kernel == name), "{name}");
            }
            assert!(check::passed(&findings), "{order:?}\n{}", check::table(&findings));
            assert!(*first.get_or_insert(findings.clone()) == findings, "{dtype:?}: others under {order:?}");
        }
    }
}

#[test]
fn a_kernel_that_does_nothing_fails_in_both_dtypes() {
    for (i, name) in names().enumerate() {
        for dtype in DTYPES.into_iter().skip(long::of(i % 2, 0)).take(long::of(1, 2)) {
            let edit = format!("{name}|.reg|0|replace~.reg~ret; //");
            let findings = with_edit(&edit, dtype, Some(name));
            let table = check::table(&findings);
            assert!(table.contains(&format!("FAIL {name}_{}", dtype.name())), "{name} passes\n{table}");
        }
    }
}

#[test]
fn one_wrong_number_of_any_output_of_any_kernel_is_found() {
    for dtype in DTYPES {
        let part = long::of((if dtype == Dtype::F32 { 0 } else { 3 }, 7), (0, 1));
        for (name, argument, byte) in outputs(dtype).into_iter().skip(part.0).step_by(part.1) {
            let kernel = format!("{name}_{}", dtype.name());
            let findings = with_fault(Fault::Corrupts { kernel, argument, byte }, dtype, name);
            let failed = findings.iter().filter(|f| !f.passed()).count();
            // In some cases a row is done, nothing is drawn, or the argument is left out.
            assert!(failed * 2 >= findings.len(), "{name}, {argument}\n{}", check::table(&findings));
        }
    }
}

#[test]
fn a_fault_of_one_kernel_is_laid_at_its_door() {
    let part = vec!["embed", "rms_norm", "swiglu", "swiglu_backward", "log_prob", "adamw", "decoder"];
    let asked = long::of(part, names().chain(OTHERS).collect());
    let fault = Fault::Corrupts { kernel: "swiglu_f32".to_owned(), argument: 2, byte: 2 };
    let fails = |name: &&str| !check::passed(&with_fault(fault.clone(), Dtype::F32, name));
    let names: Vec<&str> = asked.into_iter().filter(fails).collect();
    // A model is made of kernels.
    assert_eq!(names, ["swiglu", "decoder"]);
}

/// Another implementation that agrees passes; one that is off by a thousandth in a single log-probability, or in one gradient, does not.
#[test]
fn a_second_opinion_that_differs_is_reported() {
    let device = machine::start();
    let reported = |logp: f64, slope: f32| {
        let reference = move |config: &ModelConfig,
                              weights: &Parameters<f32>,
                              rows: &Rows,
                              options: ForwardOptions,
                              cotangents: Cotangents<'_>| {
            let (decoder, mut sums) =
                (Decoder::new(config.clone(), weights.clone())?, Gradients::new(config, |_| true));
            let (mut scores, tape) = decoder.forward(rows, options)?;
            decoder.backward(tape, cotangents, &mut sums);
            scores.logps[0][0] += logp;
            let mut sums = std::mem::take(sums.parameters());
            sums.get_mut(FINAL_NORM).unwrap().data.iter_mut().for_each(|g| *g *= 1.0 + slope);
            Ok((scores, sums))
        };
        check::against(&device, Dtype::F32, "another", &reference)
    };
    let agreed = reported(0.0, 0.0);
    assert!(check::passed(&agreed) && agreed.len() == 5, "{}", check::table(&agreed));
    assert!(agreed.iter().all(|f| f.kernel == "decoder" && f.case.ends_with(", against another")));
    assert!(reported(1e-3, 0.0).iter().chain(&reported(0.0, 1e-3)).all(|finding| !finding.passed()));
}

/// A failure like an illegal memory access: later kernels are not blamed for it.
#[test]
fn a_device_that_a_kernel_breaks_is_asked_no_more() {
    let findings = with_edit("rms_norm|st.global.f32|0|replace~]~+1073741824]", Dtype::F32, None);
    let (last, before) = findings.split_last().expect("findings");
    let (broken, sound) = before.split_last().expect("the case that broke it");
    assert!(sound.iter().all(Finding::passed) && !sound.is_empty());
    assert_eq!(
        (broken.kernel, last.kernel, last.case.as_str()),
        ("rms_norm", "rms_norm", "all that follows")
    );
    assert!(broken.problem.as_deref().is_some_and(|problem| problem.contains("illegal memory access")));
    assert!(last.problem.as_deref().is_some_and(|problem| problem.starts_with("not run")));
    assert!(!check::passed(&findings) && findings.iter().all(|f| f.kernel != "swiglu"));
}

/// The byte after the five numbers of a case.
#[test]
fn a_write_past_the_end_is_found() {
    for dtype in DTYPES {
        let kernel = format!("round_{}", dtype.name());
        let fault = Fault::Corrupts { kernel, argument: 1, byte: 5 * dtype.bytes() as u64 };
        let findings = with_fault(fault, dtype, "round");
        let five = findings.iter().find(|f| f.case == "5 numbers").expect("a case of five numbers");
        assert_eq!(five.problem.as_deref(), Some("it wrote beyond the end of an array"));
    }
}

#[test]
fn products_and_graphs_that_are_wrong_are_found() {
    for (fault, name, dtypes) in [
        (Fault::Products, "gemm", &DTYPES[..]),
        // One number of a product off by a quarter is no more than what bf16 rounds away along a model.
        (Fault::Products, "decoder", &DTYPES[..1]),
        (Fault::Replays, "replay", &DTYPES),
        (Fault::Captures, "replay", &DTYPES),
    ] {
        for &dtype in dtypes {
            let findings = with_fault(fault.clone(), dtype, name);
            assert!(findings.iter().all(|f| !f.passed()), "{fault:?}\n{}", check::table(&findings));
        }
    }
}

#[test]
fn what_is_not_checked_has_not_passed() {
    let findings = findings(&machine::start(), Dtype::F32, Some("no such kernel"));
    assert!(findings.is_empty() && !check::passed(&findings));
}
