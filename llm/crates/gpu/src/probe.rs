//! The best rates of a device, measured by a large copy and a large matrix product.

use std::sync::Arc;
use std::time::Instant;

use grpo_lambda_decoder::device::{DeviceError, Dtype};
use half::bf16;

use super::buffer::Buffer;
use super::device::Device;
use super::gemm::{Gemm, Matrix};
use super::ptr::{Access, Ptr, Real};
use super::random;

/// Bytes of the copy.
const COPY: usize = 1 << 30;
/// Bytes of numbers that are made on the host.
const BLOCK: usize = 1 << 22;
/// Rows and columns of the factors.
const SIDE: usize = 8192;
/// Runs, of which the fastest counts.
const RUNS: usize = 8;

/// Rates reached.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reached {
    /// Bytes read and written per second.
    pub bandwidth: f64,
    /// Operations per second of matrix products, a multiply-add as two.
    pub operations: f64,
}

/// Measures a device, which takes 2 GiB and some seconds.
///
/// # Errors
/// Errors if there is too little memory or the device fails.
pub fn measure(device: &Arc<dyn Device>, dtype: Dtype) -> Result<Reached, DeviceError> {
    let (a, b) = (Buffer::new(device, "probe", COPY)?, Buffer::new(device, "probe", COPY)?);
    // Zeros are multiplied faster than other numbers, as they take less power.
    let block: Vec<u8> = (0..BLOCK as u64 / 2).flat_map(|i| number(i, dtype)).take(BLOCK).collect();
    a.write(0, &block)?;
    (BLOCK..COPY).step_by(BLOCK).try_for_each(|to| device.copy(a.at(to), a.address(), BLOCK))?;
    let copy = fastest(device, || device.copy(b.address(), a.address(), COPY))?;
    let second = a.at(SIDE * SIDE * dtype.bytes());
    let size = (SIDE, SIDE, SIDE);
    let (left, right) = (square(a.address(), dtype), square(second, dtype));
    let gemm = Gemm::new(size, left, right.t(), square(b.address(), dtype));
    let product = fastest(device, || device.gemm(&gemm))?;
    Ok(Reached { bandwidth: 2.0 * COPY as f64 / copy, operations: gemm.operations() / product })
}

/// The matrix at an address.
fn square<A: Access>(address: u64, dtype: Dtype) -> Matrix<A> {
    Matrix::new(Ptr::<Real, A>::new(address, dtype), SIDE)
}

/// The bytes of a random number.
fn number(i: u64, dtype: Dtype) -> Vec<u8> {
    let number = random::uniform(1, i);
    match dtype {
        Dtype::F32 => number.to_le_bytes().to_vec(),
        Dtype::Bf16 => bf16::from_f32(number).to_le_bytes().to_vec(),
    }
}

/// Seconds of the fastest of some runs, after one that does not count.
fn fastest(device: &Arc<dyn Device>, run: impl Fn() -> Result<(), DeviceError>) -> Result<f64, DeviceError> {
    run()?;
    device.synchronize()?;
    let mut best = f64::INFINITY;
    for _ in 0..RUNS {
        let clock = Instant::now();
        run()?;
        device.synchronize()?;
        best = best.min(clock.elapsed().as_secs_f64());
    }
    Ok(best)
}
