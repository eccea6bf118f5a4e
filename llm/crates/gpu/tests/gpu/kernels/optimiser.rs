//! The optimiser over flat arrays.

use grpo_lambda_decoder::optim::{AdamW, AdamWSettings, Decay, StepOutcome};
use grpo_lambda_gpu::kernels::{AdamWStep, AdamWUpdate, Round, SumOfSquares};
use grpo_lambda_gpu::{Array, Dtype, Real};
use half::bf16;

use super::{Harness, Shifted, bits, everywhere, numbers};

/// A parameter on the device.
struct State {
    master: Shifted<f32>,
    first: Shifted<f32>,
    second: Shifted<f32>,
    compensation: Option<Shifted<f32>>,
    weight: Shifted<Real>,
}

/// `f32` whatever the dtype, moved from an aligned address as the other arrays are.
fn flat(b: &Harness, x: &[f32]) -> Shifted<f32> {
    let from = b.shift.get();
    let array = Array::new(&b.device, "flat", b.dtype, from + x.len()).unwrap();
    array.buffer().write(4 * from, x).unwrap();
    Shifted { array, from }
}

fn read(b: &Harness, x: &Shifted<f32>) -> Vec<f32> {
    let got = x.array.read_from(x.from, x.len()).unwrap();
    b.remember(&got);
    got
}

impl State {
    fn new(b: &Harness, weights: &[f32], compensated: bool) -> Self {
        let zeros = vec![0.0; weights.len()];
        State {
            master: flat(b, weights),
            first: flat(b, &zeros),
            second: flat(b, &zeros),
            compensation: compensated.then(|| flat(b, &zeros)),
            weight: b.blank(weights.len()),
        }
    }

    fn step(&self, b: &Harness, gradient: &Shifted<f32>, step: AdamWStep) {
        b.k.launch(AdamWUpdate {
            master: self.master.ptr_mut(),
            m: self.first.ptr_mut(),
            v: self.second.ptr_mut(),
            compensation: self.compensation.as_ref().map(Shifted::ptr_mut),
            gradient: gradient.ptr(),
            weight: self.weight.ptr_mut(),
            n: self.master.len() as u64,
            step,
        })
        .unwrap();
    }
}

fn constants(settings: &AdamWSettings, rate: f64, t: i32, scale: f64) -> AdamWStep {
    AdamWStep {
        rate,
        beta1: settings.beta1,
        beta2: settings.beta2,
        epsilon: settings.epsilon,
        decay: settings.weight_decay,
        correction1: 1.0 - settings.beta1.powf(f64::from(t)),
        correction2: 1.0 - settings.beta2.powf(f64::from(t)),
        scale,
    }
}

#[test]
fn steps_have_the_bits_of_the_optimiser_on_the_cpu() {
    everywhere(|b| {
        for (n, compensated, weight_decay) in
            [(1, true, 0.1), (3, false, 0.0), (4, true, 0.0), (1027, true, 0.01), (1028, false, 0.1)]
        {
            let settings =
                AdamWSettings { weight_decay, compensated, decay: Decay::All, ..AdamWSettings::default() };
            let weights = numbers(1, n);
            let mut cpu = AdamW::new(settings.clone(), [("w".to_owned(), weights.clone())]);
            let state = State::new(b, &weights, compensated);
            for t in 1..=8 {
                let gradient = numbers(100 + t as u64, n);
                let update = cpu.step(3e-4, &[("w", &gradient)]).unwrap();
                let StepOutcome::Applied { scale, .. } = update else { panic!("{update:?}") };
                state.step(b, &flat(b, &gradient), constants(&settings, 3e-4, t, scale));
            }
            let want = cpu.weights("w").unwrap();
            assert_eq!(bits(&read(b, &state.master)), bits(want), "{n} numbers, compensated: {compensated}");
            assert_eq!(bits(&b.get(&state.weight)), bits(&b.rounded(want)));
        }
    });
}

#[test]
fn a_thousand_steps_at_one_in_a_million_move_the_master_as_in_f64_and_the_weight_is_its_rounding() {
    everywhere(|b| {
        let start = [1.0f32, -0.5, 0.03, 3.7, -1.2];
        let gradient: Vec<f32> = numbers(2, start.len()).iter().map(|x| x + 2.0).collect();
        let settings = AdamWSettings::default();
        let state = State::new(b, &start, true);
        let on_device = flat(b, &gradient);
        let mut wanted = start.map(f64::from);
        let (mut m, mut v) = ([0.0f64; 5], [0.0f64; 5]);
        for t in 1..=1000 {
            let step = constants(&settings, 1e-6, t, 1.0);
            state.step(b, &on_device, step);
            for i in 0..start.len() {
                let g = f64::from(gradient[i]);
                m[i] += (g - m[i]) * (1.0 - settings.beta1);
                v[i] = v[i] * settings.beta2 + g * g * (1.0 - settings.beta2);
                let root = (v[i] / step.correction2).sqrt() + settings.epsilon;
                wanted[i] -= 1e-6 * m[i] / step.correction1 / root;
            }
        }
        let got = read(b, &state.master);
        let moved = |x: f64, i: usize| x - f64::from(start[i]);
        let want: Vec<f64> = wanted.iter().enumerate().map(|(i, x)| moved(*x, i)).collect();
        let got_moved: Vec<f32> = got.iter().zip(&start).map(|(x, s)| x - s).collect();
        b.close_raw("adamw 1000 steps of 1e-6", &got_moved, &want, |i| want[i].abs(), 0.01);
        assert!(want.iter().all(|x| x.abs() > 5e-4));
        assert_eq!(b.get(&state.weight), b.rounded(&got));
    });
}

#[test]
fn a_gradient_that_is_not_a_number_is_not_hidden() {
    everywhere(|b| {
        let state = State::new(b, &[1.0; 5], true);
        let gradient = flat(b, &[1.0, f32::NAN, 1.0, 1.0, f32::NAN]);
        state.step(b, &gradient, constants(&AdamWSettings::default(), 1e-3, 1, 1.0));
        let nan = |x: Vec<f32>| x.iter().map(|x| x.is_nan()).collect::<Vec<_>>();
        assert_eq!(nan(read(b, &state.master)), [false, true, false, false, true]);
        assert_eq!(nan(b.get(&state.weight)), [false, true, false, false, true]);
    });
}

#[test]
fn squares_are_summed_in_f64_and_what_is_not_finite_is_counted() {
    everywhere(|b| {
        for n in [0usize, 3, 70_001] {
            let mut x = numbers(3, n);
            if n > 4 {
                (x[0], x[n - 1]) = (1e19, 3e-20);
            }
            let run = |x: &[f32]| {
                let on_device = flat(b, x);
                let parts = b.raw_blank(2 * SumOfSquares::PARTS as usize);
                let (x, n) = (on_device.ptr(), x.len() as u64);
                b.k.launch(SumOfSquares { x, parts: parts.ptr_mut(), n }).unwrap();
                let parts = b.get_raw(&parts);
                parts.chunks_exact(2).fold((0.0, 0.0), |(sum, bad), part| (sum + part[0], bad + part[1]))
            };
            let squares = |x: &[f32]| {
                let finite = x.iter().filter(|x| x.is_finite());
                finite.map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>()
            };
            let (sum, bad) = run(&x);
            assert_eq!(bad, 0.0);
            assert!((sum - squares(&x)).abs() <= 1e-13 * squares(&x), "{sum} of {n}");
            if n > 4 {
                (x[1], x[3], x[n - 1]) = (f32::NAN, f32::NEG_INFINITY, f32::INFINITY);
                let (sum, bad) = run(&x);
                assert_eq!(bad, 3.0);
                assert!((sum - squares(&x)).abs() <= 1e-13 * squares(&x));
            }
        }
    });
}

#[test]
fn rounding_is_to_nearest_even_for_every_upper_half() {
    let lower = [0u32, 1, 0x7fff, 0x8000, 0x8001, 0xffff];
    let x: Vec<f32> =
        (0..=0xffffu32).flat_map(|high| lower.map(|low| f32::from_bits(high << 16 | low))).collect();
    everywhere(|b| {
        let (from, to) = (flat(b, &x), b.blank(x.len()));
        b.k.launch(Round { x: from.ptr(), y: to.ptr_mut(), n: x.len() as u64 }).unwrap();
        let want: Vec<f32> = match b.dtype {
            Dtype::F32 => x.clone(),
            Dtype::Bf16 => x.iter().map(|x| bf16::from_f32(*x).to_f32()).collect(),
        };
        assert!(bits(&b.get(&to)) == bits(&want));
    });
}
