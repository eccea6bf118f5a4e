//! Failures of the libraries, as one line.

use cudarc::driver::DriverError;
use grpo_lambda_decoder::device::DeviceError;

/// `CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered`.
pub(super) fn of_driver(error: DriverError) -> String {
    match error.error_string() {
        Ok(text) => format!("{:?}: {}", error.0, text.to_string_lossy()),
        Err(_) => format!("{:?}", error.0),
    }
}

/// Names the call and the device of a failure.
pub(super) fn call(call: impl Into<String>, device: &str, reason: impl Into<String>) -> DeviceError {
    DeviceError::Call { call: call.into(), device: device.to_owned(), reason: reason.into() }
}

/// Names the call of the driver and the device of a failure.
pub(super) fn driver<'a>(name: &'a str, device: &'a str) -> impl Fn(DriverError) -> DeviceError + 'a {
    move |error| call(name, device, of_driver(error))
}
