//! Kernels over flat arrays: the norm of gradients, AdamW, rounding.

use grpo_lambda_decoder::device::DeviceError;
use grpo_lambda_decoder::optim::{AdamW, AdamWSettings, STATE_PARTS, StepOutcome};

use super::array::single;
use super::case::{Case, Checker, Result};
use crate::kernels::{AdamWStep, AdamWUpdate, Round, SumOfSquares};
use crate::ptr::Real;

const SIZES: [usize; 4] = [1, 5, 1023, 150_001];

pub(super) fn check(checker: &mut Checker) {
    checker.case("sum_of_squares", "0 numbers", |c| sum_of_squares(c, 0, 0));
    checker.case("round", "every upper half", |c| round(c, every_upper_half()));
    for n in checker.extent.sizes(&SIZES) {
        for bad in [0, 2] {
            checker
                .case("sum_of_squares", format!("{n} numbers with {bad} bad"), |c| sum_of_squares(c, n, bad));
        }
        checker.case("round", format!("{n} numbers"), |c| {
            let numbers = c.normals(n);
            round(c, numbers)
        });
        checker.case("adamw", format!("{n} numbers"), |c| adamw(c, n, false));
        checker.case("adamw", format!("{n} numbers compensated"), |c| adamw(c, n, true));
    }
}

/// The sums over all blocks; the numbers of one block are no part of the contract.
fn sum_of_squares(c: &mut Case<'_>, n: usize, bad: usize) -> Result {
    let mut numbers: Vec<f64> = c.normals(n).into_iter().map(|x| 1e3 * x).collect();
    for (i, value) in [f64::NAN, f64::NEG_INFINITY].into_iter().take(bad.min(n)).enumerate() {
        numbers[(n - 1) * i] = value;
    }
    let (x, parts) = (c.array::<f32>(numbers)?, c.blank::<f64>(2 * SumOfSquares::PARTS as usize)?);
    c.launch(SumOfSquares { x: x.ptr(), parts: parts.out(), n: n as u64 })?;
    let found = parts.read()?;
    let sum = |x: &mut dyn Iterator<Item = f64>| x.fold(0.0, |sum, x| sum + x);
    let total = |from: usize| sum(&mut found.iter().copied().skip(from).step_by(2));
    let finite: Vec<f64> = x.initial.iter().copied().filter(|x| x.is_finite()).collect();
    let squares = sum(&mut finite.iter().map(|x| x * x));
    c.number(total(0), squares, 1e-12 * squares);
    c.number(total(1), (n - finite.len()) as f64, 0.0);
    // Nothing but the guard bytes.
    c.exact(&parts, &found)
}

fn round(c: &mut Case<'_>, numbers: Vec<f64>) -> Result {
    let x = c.array::<f32>(numbers)?;
    let y = c.blank::<Real>(x.initial.len())?;
    c.launch(Round { x: x.ptr(), y: y.out(), n: x.initial.len() as u64 })?;
    c.exact(&y, &x.initial)
}

/// A number with each upper half of its bits, above, at and below the middle between two roundings.
fn every_upper_half() -> Vec<f64> {
    let lower = [0, 1, 0x7fff, 0x8000, 0x8001, 0xffff];
    let numbers = (0..=0xffff).flat_map(|high| lower.map(|low| f32::from_bits(high << 16 | low)));
    numbers.map(f64::from).collect()
}

/// Three steps to the bits of the optimiser of the CPU, clipped if there are many numbers; then a NaN, which must not be hidden.
fn adamw(c: &mut Case<'_>, n: usize, compensated: bool) -> Result {
    let settings = AdamWSettings { weight_decay: 0.01, compensated, ..AdamWSettings::default() };
    let start = c.normals(n).into_iter().map(|x| 0.1 * x).collect();
    let master = c.array::<f32>(start)?;
    let [m, v, compensation] = [c.array(vec![0.0; n])?, c.array(vec![0.0; n])?, c.array(vec![0.0; n])?];
    let (gradient, weight) = (c.random(n)?, c.blank::<Real>(n)?);
    let mut cpu = AdamW::new(settings.clone(), [("w".to_owned(), single(&master.initial))]);
    let kernel = |t: i32, scale: f64| AdamWUpdate {
        master: master.out(),
        m: m.out(),
        v: v.out(),
        compensation: compensated.then(|| compensation.out()),
        gradient: gradient.ptr(),
        weight: weight.out(),
        n: n as u64,
        step: AdamWStep {
            rate: 1e-3,
            beta1: settings.beta1,
            beta2: settings.beta2,
            epsilon: settings.epsilon,
            decay: settings.weight_decay,
            correction1: 1.0 - settings.beta1.powf(f64::from(t)),
            correction2: 1.0 - settings.beta2.powf(f64::from(t)),
            scale,
        },
    };
    for t in 1..=3 {
        let numbers: Vec<f64> = c.normals(n).into_iter().map(|x| 0.01 * x / f64::from(t)).collect();
        gradient.write(&numbers)?;
        match cpu.step(1e-3, &[("w", &single(&numbers))]) {
            Ok(StepOutcome::Applied { scale, .. }) => c.launch(kernel(t, scale))?,
            other => return Err(DeviceError::Missing(format!("the optimiser of the CPU: {other:?}"))),
        }
    }
    let wide = |numbers: &[f32]| numbers.iter().map(|x| f64::from(*x)).collect::<Vec<_>>();
    for (part, array) in STATE_PARTS.into_iter().zip([&master, &compensation, &m, &v]) {
        let Some(expected) = cpu.array(part, "w") else { continue };
        c.exact(array, &wide(expected))?;
    }
    c.exact(&weight, &wide(cpu.weights("w").unwrap_or_default()))?;
    gradient.write(&[f64::NAN])?;
    c.launch(kernel(4, 1.0))?;
    c.number(master.read()?[0], f64::NAN, 0.0);
    c.number(weight.read()?[0], f64::NAN, 0.0);
    Ok(())
}
