//! Every kernel against its twin: the operation of the CPU's decoder in `f64`, or the equation.
//!
//! Each test runs in both dtypes and under four orders of threads, whose bits must be the same.

mod decode;
mod heads;
mod log_prob;
mod optimiser;
mod rows;
mod sample;
mod softmax;
mod swiglu;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;

use grpo_lambda_decoder::rng::{Address, Purpose, normal};
use grpo_lambda_gpu::{Buffer, Device, Dtype, Kernels};
use half::bf16;

use crate::emulator::{Emulated, Order};

const ORDERS: [Order; 4] = [Order::Forward, Order::Reversed, Order::Shuffled(0), Order::Shuffled(7)];

/// A device, its kernels for one dtype, and what was read from it.
struct Bench {
    device: Arc<dyn Device>,
    k: Kernels,
    dtype: Dtype,
    /// Numbers by which arrays of `T` are moved from an aligned address.
    shift: Cell<usize>,
    seen: RefCell<Vec<Vec<u8>>>,
}

/// An array of `T`.
struct Array {
    buffer: Buffer,
    dtype: Dtype,
    from: usize,
    len: usize,
}

impl Array {
    fn at(&self) -> u64 {
        self.buffer.at(self.from * self.dtype.bytes())
    }
}

impl Bench {
    fn new(order: Order, dtype: Dtype) -> Option<Self> {
        let device: Arc<dyn Device> = Arc::new(Emulated::new(order, u64::MAX)?);
        let k = Kernels { device: device.clone(), dtype };
        Some(Bench { device, k, dtype, shift: Cell::new(0), seen: RefCell::default() })
    }

    /// Numbers rounded to the dtype, as the kernel sees them.
    fn rounded(&self, x: &[f32]) -> Vec<f32> {
        match self.dtype {
            Dtype::F32 => x.to_vec(),
            Dtype::Bf16 => x.iter().map(|x| bf16::from_f32(*x).to_f32()).collect(),
        }
    }

    /// On the device in `T`.
    fn put(&self, x: &[f32]) -> Array {
        let array = self.room(x.len());
        match self.dtype {
            Dtype::F32 => array.buffer.write(array.from * 4, x).unwrap(),
            Dtype::Bf16 => {
                let bits: Vec<u16> = x.iter().map(|x| bf16::from_f32(*x).to_bits()).collect();
                array.buffer.write(array.from * 2, &bits).unwrap();
            }
        }
        array
    }

    /// Room for numbers in `T`.
    fn room(&self, len: usize) -> Array {
        let from = self.shift.get();
        let buffer = Buffer::new(&self.device, "array", (from + len) * self.dtype.bytes()).unwrap();
        Array { buffer, dtype: self.dtype, from, len }
    }

    fn get(&self, x: &Array) -> Vec<f32> {
        match self.dtype {
            Dtype::F32 => {
                let got: Vec<f32> = x.buffer.read(x.from * 4, x.len).unwrap();
                self.remember(&got);
                got
            }
            Dtype::Bf16 => {
                let bits: Vec<u16> = x.buffer.read(x.from * 2, x.len).unwrap();
                self.remember(&bits);
                bits.into_iter().map(|x| bf16::from_bits(x).to_f32()).collect()
            }
        }
    }

    /// On the device as it is.
    fn raw<T: bytemuck::Pod>(&self, x: &[T]) -> Buffer {
        Buffer::of(&self.device, "raw", x).unwrap()
    }

    fn raw_room<T>(&self, len: usize) -> Buffer {
        Buffer::new(&self.device, "raw", len * size_of::<T>()).unwrap()
    }

    fn get_raw<T: bytemuck::Pod>(&self, x: &Buffer) -> Vec<T> {
        let got = x.read(0, x.bytes() / size_of::<T>()).unwrap();
        self.remember(&got);
        got
    }

    fn remember<T: bytemuck::Pod>(&self, x: &[T]) {
        self.seen.borrow_mut().push(bytemuck::cast_slice(x).to_vec());
    }

    /// Asserts that numbers in `T` are the wanted ones within `tolerance` of their `scale`, and in bf16 half a unit in the last place more.
    fn close(
        &self,
        kernel: &'static str,
        got: &[f32],
        want: &[f64],
        scale: impl Fn(usize) -> f64,
        tolerance: f64,
    ) {
        let rounding = if self.dtype == Dtype::Bf16 { 1.0 / 256.0 } else { 0.0 };
        close(
            kernel,
            self.dtype.name(),
            got,
            want,
            |i| tolerance * scale(i) + rounding * want[i].abs(),
            &scale,
        );
    }

    /// The same for numbers in `f32`.
    fn close_raw(
        &self,
        kernel: &'static str,
        got: &[f32],
        want: &[f64],
        scale: impl Fn(usize) -> f64,
        tolerance: f64,
    ) {
        close(kernel, self.dtype.name(), got, want, |i| tolerance * scale(i), &scale);
    }
}

/// Largest errors so far, relative to their scales; printed as they grow.
static ERRORS: Mutex<BTreeMap<(&str, &str), f64>> = Mutex::new(BTreeMap::new());

fn close(
    kernel: &'static str,
    dtype: &'static str,
    got: &[f32],
    want: &[f64],
    allowed: impl Fn(usize) -> f64,
    scale: impl Fn(usize) -> f64,
) {
    assert_eq!(got.len(), want.len(), "{kernel} {dtype}");
    let mut worst = 0.0f64;
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        let error = (f64::from(*got) - want).abs();
        assert!(
            error <= allowed(i),
            "{kernel} {dtype}: {got} at {i}, not {want}, {error:e} > {:e}",
            allowed(i)
        );
        if error > 0.0 {
            worst = worst.max(error / scale(i));
        }
    }
    let mut errors = ERRORS.lock().unwrap();
    let known = errors.entry((kernel, dtype)).or_insert(-1.0);
    if worst > *known {
        *known = worst;
        println!("error {kernel} {dtype} {worst:.1e}");
    }
}

/// Runs a test in both dtypes, under all orders, on arrays of `T` at aligned addresses and not.
fn everywhere(test: impl Fn(&Bench)) {
    in_every_order(|bench| {
        for shift in [0, 1] {
            bench.shift.set(shift);
            test(bench);
        }
    });
}

/// The same on aligned arrays only.
fn in_every_order(test: impl Fn(&Bench)) {
    for dtype in [Dtype::F32, Dtype::Bf16] {
        let mut first: Option<Vec<Vec<u8>>> = None;
        for order in ORDERS {
            let Some(bench) = Bench::new(order, dtype) else { return };
            test(&bench);
            let seen = bench.seen.take();
            assert!(!seen.is_empty(), "the test read nothing");
            match &first {
                None => first = Some(seen),
                Some(first) => assert!(seen == *first, "{dtype:?}: other bits under {order:?}"),
            }
        }
    }
}

/// Normal numbers, others for every `seed`.
fn numbers(seed: u64, len: usize) -> Vec<f32> {
    let mut stream = Address::new(seed, Purpose::Weights).stream(0);
    (0..len).map(|_| normal(&mut stream) as f32).collect()
}

fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().map(|x| f64::from(*x)).collect()
}

/// Bits, so that NaN and the sign of zero count.
fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| x.to_bits()).collect()
}
