//! Every kernel against its twin: the operation of the CPU's decoder in `f64`, or the equation.
//!
//! Each test runs in both dtypes and under two orders of threads (four among the long tests), whose bits must be the same.

mod attention;
mod decode;
mod head_norm;
mod heads;
mod log_prob;
mod optimiser;
mod rows;
mod sample;
mod swiglu;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;

use grpo_lambda_decoder::rng::{Address, Purpose, normal};
use grpo_lambda_gpu::ptr::{Element, Plain};
use grpo_lambda_gpu::{Array, Device, Dtype, Kernels, Ptr, PtrMut, Real};
use half::bf16;

use crate::emulator::{Emulated, Order};
use crate::long;

const ORDERS: [Order; 4] = [Order::Forward, Order::Shuffled(7), Order::Reversed, Order::Shuffled(0)];

/// A device, its kernels for one dtype, and what was read from it.
struct Harness {
    device: Arc<dyn Device>,
    k: Kernels,
    dtype: Dtype,
    /// Elements by which arrays of `Real` are moved from an aligned address.
    shift: Cell<usize>,
    seen: RefCell<Vec<Vec<u8>>>,
}

/// An array that begins some elements into its memory.
struct Shifted<T> {
    array: Array<T>,
    from: usize,
}

impl<T: Element> Shifted<T> {
    fn ptr(&self) -> Ptr<T> {
        self.array.at(self.from)
    }

    fn ptr_mut(&self) -> PtrMut<T> {
        self.array.at_mut(self.from)
    }

    fn len(&self) -> usize {
        self.array.len() - self.from
    }
}

impl Harness {
    fn new(order: Order, dtype: Dtype) -> Option<Self> {
        let device: Arc<dyn Device> = Arc::new(Emulated::new(order, u64::MAX)?);
        let k = Kernels { device: device.clone(), dtype };
        Some(Harness { device, k, dtype, shift: Cell::new(0), seen: RefCell::default() })
    }

    /// Numbers rounded to the dtype, as the kernel sees them.
    fn rounded(&self, x: &[f32]) -> Vec<f32> {
        match self.dtype {
            Dtype::F32 => x.to_vec(),
            Dtype::Bf16 => x.iter().map(|x| bf16::from_f32(*x).to_f32()).collect(),
        }
    }

    /// On the device in the dtype.
    fn put(&self, x: &[f32]) -> Shifted<Real> {
        let real = self.blank(x.len());
        let (buffer, byte) = (real.array.buffer(), real.from * self.dtype.bytes());
        match self.dtype {
            Dtype::F32 => buffer.write(byte, x).unwrap(),
            Dtype::Bf16 => {
                let bits: Vec<u16> = x.iter().map(|x| bf16::from_f32(*x).to_bits()).collect();
                buffer.write(byte, &bits).unwrap();
            }
        }
        real
    }

    /// An array of the dtype of which nothing is written yet.
    fn blank<T: Element>(&self, len: usize) -> Shifted<T> {
        let from = self.shift.get();
        Shifted { array: Array::new(&self.device, "array", self.dtype, from + len).unwrap(), from }
    }

    fn get(&self, x: &Shifted<Real>) -> Vec<f32> {
        let (buffer, byte) = (x.array.buffer(), x.from * self.dtype.bytes());
        match self.dtype {
            Dtype::F32 => {
                let got: Vec<f32> = buffer.read(byte, x.len()).unwrap();
                self.remember(&got);
                got
            }
            Dtype::Bf16 => {
                let bits: Vec<u16> = buffer.read(byte, x.len()).unwrap();
                self.remember(&bits);
                bits.into_iter().map(|x| bf16::from_bits(x).to_f32()).collect()
            }
        }
    }

    /// On the device as it is.
    fn raw<T: Plain>(&self, x: &[T]) -> Array<T> {
        Array::of(&self.device, "raw", x).unwrap()
    }

    fn raw_blank<T: Plain>(&self, len: usize) -> Array<T> {
        Array::new(&self.device, "raw", self.dtype, len).unwrap()
    }

    fn get_raw<T: Plain>(&self, x: &Array<T>) -> Vec<T> {
        let got = x.read().unwrap();
        self.remember(&got);
        got
    }

    fn remember<T: bytemuck::Pod>(&self, x: &[T]) {
        self.seen.borrow_mut().push(bytemuck::cast_slice(x).to_vec());
    }

    /// Asserts that numbers in the dtype are the wanted ones within `tolerance` of their `scale`, and in bf16 half a unit in the last place more.
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

/// Runs a test in both dtypes, under its orders, on arrays of the dtype at aligned addresses and not.
fn everywhere(test: impl Fn(&Harness)) {
    in_every_order(|harness| {
        for shift in [0, 1] {
            harness.shift.set(shift);
            test(harness);
        }
    });
}

/// The same on aligned arrays only.
fn in_every_order(test: impl Fn(&Harness)) {
    for dtype in [Dtype::F32, Dtype::Bf16] {
        let mut first: Option<Vec<Vec<u8>>> = None;
        for order in ORDERS.into_iter().take(long::of(2, 4)) {
            let Some(harness) = Harness::new(order, dtype) else { return };
            test(&harness);
            let seen = harness.seen.take();
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
    let mut stream = Address::new(seed, Purpose::Weights).generator(0);
    (0..len).map(|_| normal(&mut stream) as f32).collect()
}

fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().map(|x| f64::from(*x)).collect()
}

/// Bits, so that NaN and the sign of zero count.
fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| x.to_bits()).collect()
}
